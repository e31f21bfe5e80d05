/*
 * The port between nodes on real sockets: who gets in, who does not, and what
 * is said about it.
 */
#include "port_world.h"
#include "proto/limits.h"

/* --- dialling, and what came of it --- */

struct
try {
	struct port_dial *dial;
	struct port_conn *conn;
	unsigned ends;
};

static void on_dialled(void *ctx, struct port_conn *c)
{
	struct try *t = ctx;

	t->dial = NULL;
	t->conn = c;
	t->ends++;
}

static bool has_ended(void *ctx)
{
	const struct try *t = ctx;

	return t->ends > 0;
}

static struct port_conn *accepted[64];
static size_t n_accepted;

static void on_accepted(void *ctx _unused_, struct port_conn *c)
{
	assert_true(n_accepted < ARRAY_SIZE(accepted));
	accepted[n_accepted++] = c;
}

static bool has_accepted(void *n)
{
	return n_accepted >= *(size_t *)n;
}

static void wait_accepted(size_t n)
{
	w_wait(has_accepted, &n);
}

static void free_accepted(void)
{
	while (n_accepted > 0)
		port_conn_free(accepted[--n_accepted]);
}

static void serve_all(int node)
{
	for (int p = PURPOSE_RAFT; p < PURPOSE_END; p++)
		port_serve(w.port[node], (enum port_purpose)p, on_accepted,
			   NULL);
}

/* Node 0 dials; the connection, or NULL. */
static struct port_conn *dial(enum port_purpose purpose,
			      const struct port_target *t)
{
	struct try try = { 0 };

	try.dial = port_dial(w.port[0], purpose, t, on_dialled, &try);
	assert_int_equal(try.ends, 0);
	w_wait(has_ended, &try);
	assert_int_equal(try.ends, 1);
	return try.conn;
}

static int set_up(void **state _unused_)
{
	n_accepted = 0;
	w_begin();
	return 0;
}

static int tear_down(void **state _unused_)
{
	free_accepted();
	w_end();
	return 0;
}

static void open_two(void)
{
	w_open(0);
	w_open(1);
	serve_all(1);
}

static bool is_readable(void *fd)
{
	char byte;

	return recv(*(int *)fd, &byte, 1, MSG_PEEK) == 1;
}

static void assert_reads(int fd, const char *text)
{
	char got[16];
	ssize_t n;

	w_wait(is_readable, &fd);
	n = recv(fd, got, sizeof(got), 0);
	assert_true(n > 0);
	assert_str_is(str_of(got, (size_t)n), text);
}

/* --- who gets in --- */

static void two_nodes_meet_for_each_purpose(void **state _unused_)
{
	open_two();
	for (int p = PURPOSE_RAFT; p < PURPOSE_END; p++) {
		struct port_target t = w_target(1);
		struct port_conn *out = dial((enum port_purpose)p, &t), *in;

		assert_non_null(out);
		wait_accepted(1);
		in = accepted[0];
		assert_int_equal(out->purpose, p);
		assert_int_equal(in->purpose, p);
		assert_int_equal(in->peer.raft_id, 100);
		assert_string_equal(in->peer.name, "node-0");
		assert_string_equal(in->peer.address, "n0.example:9400");
		assert_int_equal(in->peer.version, HELLO_VERSION);
		assert_int_equal(in->peer.cluster.id[0], 7);
		assert_int_equal(out->peer.raft_id, 101);
		assert_string_equal(out->peer.name, "node-1");
		/* nothing of what follows gets lost in the handshake */
		assert_int_equal(send(out->fd, "ping", 4, 0), 4);
		assert_reads(in->fd, "ping");
		assert_int_equal(send(in->fd, "pong", 4, 0), 4);
		assert_reads(out->fd, "pong");
		port_conn_free(out);
		free_accepted();
	}
	assert_int_equal(w_logged("warn"), 0);
}

static bool has_ipv6(void)
{
	struct sockaddr_in6 sa = { .sin6_family = AF_INET6,
				   .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool has = fd >= 0 && bind(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0;

	if (fd >= 0)
		(void)close(fd);
	return has;
}

/* By name, whatever its addresses are, and by both kinds of numbers. */
static void names_and_numbers_are_dialled(void **state _unused_)
{
	static const char *const hosts[] = { "127.0.0.1", "localhost",
					     "[::1]" };
	struct port_config c = w_config(1);
	size_t n = has_ipv6() ? 3 : 2;

	c.bind = ":0";
	w_open(0);
	w_open_as(1, &c);
	serve_all(1);
	for (size_t i = 0; i < n; i++) {
		const char *port = strrchr(port_bound(w.port[1]), ':');
		char address[64];
		struct port_target t = { 101, address };
		struct port_conn *out;

		(void)snprintf(address, sizeof(address), "%s%s", hosts[i],
			       port);
		out = dial(PURPOSE_RPC, &t);
		if (out == NULL)
			fail_msg("%s was not reached", address);
		port_conn_free(out);
	}
}

/* localhost may have an address nobody listens on; the next one is tried. */
static void every_address_of_a_name_is_tried(void **state _unused_)
{
	char address[64];
	struct port_target t = { 101, address };
	struct port_conn *out;

	open_two(); /* on 127.0.0.1 only */
	(void)snprintf(address, sizeof(address), "localhost%s",
		       strrchr(port_bound(w.port[1]), ':'));
	out = dial(PURPOSE_RPC, &t);
	assert_non_null(out);
	port_conn_free(out);
	assert_int_equal(w_logged("cannot connect"), 0);
}

static void a_bind_that_cannot_be_is_a_sentence(void **state _unused_)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct port_config c = w_config(1);
	struct port *p;

	w_open(0);
	c.bind = port_bound(w.port[0]);
	assert_int_equal(port_open(&c, &p, &why), -ERR_VALIDATION_ERROR);
	buf_putc(&why, '\0');
	assert_non_null(strstr(why.p, "in use by another program"));
}

/* --- who does not --- */

/* Several dials are refused with these words; each side says so once. */
static void assert_refused(const struct port_target *t, const char *words)
{
	for (int i = 0; i < 3; i++)
		assert_null(dial(PURPOSE_RPC, t));
	assert_int_equal(n_accepted, 0);
	if (w_logged(words) != 2)
		fail_msg("\"%s\" was logged %u times", words, w_logged(words));
}

static void another_secret_is_refused(void **state _unused_)
{
	struct port_config c = w_config(1);
	struct port_target t;

	c.secret = STR("another secret altogether");
	w_open(0);
	w_open_as(1, &c);
	serve_all(1);
	t = w_target(1);
	assert_refused(&t, "node-0 and node-1 do not have the same cluster "
			   "secret");
	assert_int_equal(w_logged("the other side ended a connection of "
				  "node-0 at 127.0.0.1: "),
			 1);
	assert_int_equal(w_logged("ended the connection to 127.0.0.1:"), 1);
}

static void another_cluster_is_refused(void **state _unused_)
{
	struct port_config c = w_config(1);
	struct history other;
	struct port_target t;

	memset(c.me.cluster.id, 8, sizeof(c.me.cluster.id));
	w_open(0);
	w_open_as(1, &c);
	serve_all(1);
	t = w_target(1);
	assert_refused(&t, "node-1 is a node of the cluster 0808");
	/* until it has come to be in this one */
	memset(other.id, 7, sizeof(other.id));
	port_set_cluster(w.port[1], &other);
	port_conn_free(dial(PURPOSE_RPC, &t));
	wait_accepted(1);
}

static void another_version_is_refused(void **state _unused_)
{
	struct port_config c = w_config(1);
	struct port_target t;

	c.me.min = c.me.max = HELLO_VERSION + 1;
	w_open(0);
	w_open_as(1, &c);
	serve_all(1);
	t = w_target(1);
	assert_refused(&t, "node-1 speaks versions 2 to 2 of the protocol "
			   "between nodes and the other one 1 to 1");
}

static bool only_others(void *ctx, uint64_t raft_id, const char *name)
{
	unsigned *asked = ctx;

	++*asked;
	assert_int_equal(raft_id, 100);
	assert_string_equal(name, "node-0");
	return false;
}

static void who_is_no_member_may_only_join(void **state _unused_)
{
	struct port_config c = w_config(1);
	unsigned asked = 0;
	struct port_target t;

	c.is_member = only_others;
	c.ctx = &asked;
	w_open(0);
	w_open_as(1, &c);
	serve_all(1);
	t = w_target(1);
	assert_refused(&t, "node-0 with raft id 100 is not a member of the "
			   "cluster of node-1");
	assert_int_equal(asked, 3);
	port_conn_free(dial(PURPOSE_JOIN, &t));
	wait_accepted(1);
	assert_int_equal(asked, 3);
}

static void another_node_than_expected_is_refused(void **state _unused_)
{
	struct port_target t;

	open_two();
	t = w_target(1);
	t.raft_id = 102;
	assert_refused(&t, "node-0 expected the node with raft id 102 at "
			   "127.0.0.1:");
	t.raft_id = 0; /* whoever is there */
	port_conn_free(dial(PURPOSE_RPC, &t));
	wait_accepted(1);
}

static void what_nobody_serves_is_refused(void **state _unused_)
{
	struct port_target t;

	open_two();
	port_serve(w.port[1], PURPOSE_RPC, NULL, NULL);
	t = w_target(1);
	assert_refused(&t, "node-1 takes no connections for rpc now");
}

static void a_node_does_not_connect_to_itself(void **state _unused_)
{
	struct port_target t;

	w_open(0);
	serve_all(0);
	t = w_target(0);
	assert_refused(&t, "have the same raft id");
}

static void who_cannot_be_reached_is_told_once(void **state _unused_)
{
	struct port_target nobody = { 1, "no-such-host.invalid:9400" };
	struct port_target nowhere = { 1, "nonsense" };
	char address[64];
	struct port_target off = { 1, address };

	w_open(0);
	w_open(1);
	(void)snprintf(address, sizeof(address), "%s", port_bound(w.port[1]));
	port_free(w.port[1]);
	w.port[1] = NULL;
	for (int i = 0; i < 3; i++) {
		assert_null(dial(PURPOSE_RAFT, &off));
		assert_null(dial(PURPOSE_RAFT, &nobody));
		assert_null(dial(PURPOSE_RAFT, &nowhere));
	}
	assert_int_equal(w_logged("cannot connect to 127.0.0.1:"), 1);
	assert_int_equal(w_logged("Connection refused"), 1);
	assert_int_equal(w_logged("cannot connect to no-such-host"), 1);
	assert_int_equal(w_logged("\"nonsense\" is not an address"), 1);
}

/* --- strangers --- */

static void other_protocols_are_closed_without_a_word(void **state _unused_)
{
	static const char get[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
	int fd;

	w_open(0);
	for (int i = 0; i < 3; i++) {
		fd = raw_connect(w.port[0]);
		assert_true(send(fd, get, sizeof(get) - 1, 0) > 0);
		w_wait(raw_is_closed, &fd);
		(void)close(fd);
	}
	assert_int_equal(w_logged("closed a connection of 127.0.0.1: it does "
				  "not speak the protocol between nodes"),
			 1);
}

/* Who says nothing is not waited for, on either side; and only so many. */
static bool all_closed(void *ctx)
{
	int *fds = ctx;
	bool all = true;

	for (int i = 0; i < LIMIT_PEER_HELLOS_IP + 8; i++) {
		if (fds[i] >= 0 && raw_is_closed(&fds[i])) {
			(void)close(fds[i]);
			fds[i] = -1;
		}
		all = all && fds[i] < 0;
	}
	return all;
}

static bool too_many_closed(void *ctx)
{
	int *fds = ctx;
	int open = 0;

	(void)all_closed(ctx);
	for (int i = 0; i < LIMIT_PEER_HELLOS_IP + 8; i++)
		open += fds[i] >= 0;
	assert_true(open >= LIMIT_PEER_HELLOS_IP);
	return open == LIMIT_PEER_HELLOS_IP;
}

static void who_says_nothing_is_not_waited_for(void **state _unused_)
{
	int fds[LIMIT_PEER_HELLOS_IP + 8];
	struct try silent = { 0 };
	struct sockaddr_in sa = { .sin_family = AF_INET };
	socklen_t n = sizeof(sa);
	int dumb = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char address[64];
	struct port_target t = { 0, address };
	uint64_t begun = clock_mono_ns();

	open_two();
	sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_return_code(bind(dumb, (struct sockaddr *)&sa, sizeof(sa)),
			   errno);
	assert_return_code(listen(dumb, 1), errno);
	assert_return_code(getsockname(dumb, (struct sockaddr *)&sa, &n),
			   errno);
	(void)snprintf(address, sizeof(address), "127.0.0.1:%u",
		       ntohs(sa.sin_port));
	silent.dial =
	    port_dial(w.port[0], PURPOSE_RPC, &t, on_dialled, &silent);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		fds[i] = raw_connect(w.port[1]);
	w_wait(too_many_closed, fds);
	assert_int_equal(w_logged("too many of its connections are in their "
				  "handshake"),
			 1);
	w_wait(all_closed, fds);
	w_wait(has_ended, &silent);
	assert_null(silent.conn);
	assert_true(clock_mono_ns() - begun >= 3 * NS_PER_S);
	assert_int_equal(w_logged("did not finish the handshake in time"), 1);
	/* and all is as before */
	t = w_target(1);
	port_conn_free(dial(PURPOSE_RPC, &t));
	wait_accepted(1);
	(void)close(dumb);
}

static void one_address_has_only_so_many_connections(void **state _unused_)
{
	struct port_conn *out[LIMIT_PEER_CONNS_IP];
	struct port_target t;

	assert_true(LIMIT_PEER_CONNS_IP <= ARRAY_SIZE(accepted));
	open_two();
	t = w_target(1);
	for (size_t i = 0; i < LIMIT_PEER_CONNS_IP; i++) {
		out[i] = dial(PURPOSE_RPC, &t);
		assert_non_null(out[i]);
	}
	wait_accepted(LIMIT_PEER_CONNS_IP);
	assert_null(dial(PURPOSE_RPC, &t));
	assert_int_equal(w_logged("it has too many connections"), 1);
	port_conn_free(accepted[--n_accepted]);
	for (size_t i = 0; i < LIMIT_PEER_CONNS_IP; i++)
		port_conn_free(out[i]);
	out[0] = dial(PURPOSE_RPC, &t);
	assert_non_null(out[0]);
	port_conn_free(out[0]);
}

/* --- the end --- */

static bool wait_turns(void *left)
{
	return (*(int *)left)-- == 0;
}

/* At whatever point it is: nothing is called, nothing is left. */
static void a_dial_may_be_cancelled_at_any_point(void **state _unused_)
{
	char name[64];

	open_two();
	(void)snprintf(name, sizeof(name), "localhost%s",
		       strrchr(port_bound(w.port[1]), ':'));
	for (int turns = 0; turns < 24; turns++) {
		struct port_target t = w_target(1);
		struct try try = { 0 };
		int left = turns / 2;

		if (turns % 2 == 1)
			t.address = name;
		try.dial =
		    port_dial(w.port[0], PURPOSE_RPC, &t, on_dialled, &try);
		w_wait(wait_turns, &left);
		if (try.ends == 0) {
			port_dial_cancel(try.dial);
			w_idle();
			assert_int_equal(try.ends, 0);
		}
		port_conn_free(try.conn);
		free_accepted();
	}
}

static void a_port_may_end_at_any_point(void **state _unused_)
{
	for (int turns = 0; turns < 12; turns++) {
		struct try try[3] = { 0 };
		struct port_target t;
		int left = turns, fd;

		open_two();
		t = w_target(1);
		fd = raw_connect(w.port[1]);
		for (int i = 0; i < 3; i++) {
			if (i == 2)
				t.address = "localhost:1";
			try[i].dial = port_dial(w.port[0], PURPOSE_RPC, &t,
						on_dialled, &try[i]);
		}
		w_wait(wait_turns, &left);
		port_free(w.port[turns % 2]);
		w.port[turns % 2] = NULL;
		port_free(w.port[1 - turns % 2]);
		w.port[1 - turns % 2] = NULL;
		w_wait(raw_is_closed, &fd);
		(void)close(fd);
		/* what was handed on is whoever's it was given to */
		for (int i = 0; i < 3; i++)
			port_conn_free(try[i].conn);
		free_accepted();
	}
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		CASE(two_nodes_meet_for_each_purpose),
		CASE(names_and_numbers_are_dialled),
		CASE(every_address_of_a_name_is_tried),
		CASE(a_bind_that_cannot_be_is_a_sentence),
		CASE(another_secret_is_refused),
		CASE(another_cluster_is_refused),
		CASE(another_version_is_refused),
		CASE(who_is_no_member_may_only_join),
		CASE(another_node_than_expected_is_refused),
		CASE(what_nobody_serves_is_refused),
		CASE(a_node_does_not_connect_to_itself),
		CASE(who_cannot_be_reached_is_told_once),
		CASE(other_protocols_are_closed_without_a_word),
		CASE(who_says_nothing_is_not_waited_for),
		CASE(one_address_has_only_so_many_connections),
		CASE(a_dial_may_be_cancelled_at_any_point),
		CASE(a_port_may_end_at_any_point),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
