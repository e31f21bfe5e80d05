/*
 * Links between nodes: one that dials and one that is dialled, in one process.
 */
#include "cluster/peer_link.h"

#include "port_world.h"
#include "proto/limits.h"
#include "rt/ipc_head.h"

#define MIB (1u << 20)

/* One end of a link, and what it saw. */
struct end {
	struct link *link;
	unsigned ups, downs, messages, sents;
	uint64_t bytes;
	struct buf last;
	/* does something in the callbacks of that name */
	void (*on_up)(struct end *e);
	void (*on_down)(struct end *e);
	void (*on_message)(struct end *e);
};

static void e_up(void *ctx)
{
	struct end *e = ctx;

	e->ups++;
	assert_int_equal(e->ups, e->downs + 1);
	if (e->on_up != NULL)
		e->on_up(e);
}

static void e_down(void *ctx)
{
	struct end *e = ctx;

	e->downs++;
	assert_int_equal(e->ups, e->downs);
	if (e->on_down != NULL)
		e->on_down(e);
}

static void e_message(void *ctx, const void *data, size_t n)
{
	struct end *e = ctx;
	const char *p = data;

	assert_int_equal(e->ups, e->downs + 1);
	e->messages++;
	e->bytes += n;
	if (e->on_message != NULL)
		e->on_message(e);
	/* the bytes are there until the callback returns, whatever it did */
	buf_clear(&e->last);
	buf_append(&e->last, p, n);
}

static void e_sent(void *ctx)
{
	struct end *e = ctx;

	e->sents++;
}

static const struct link_ops ops = { e_up, e_down, e_message, e_sent };

static struct end a, b; /* node 0 dials node 1 */

static void on_accepted(void *ctx, struct port_conn *c)
{
	peer_link_attach(((struct end *)ctx)->link, c);
}

static void b_serves(int node)
{
	port_serve(w.port[node], PURPOSE_RPC, on_accepted, &b);
}

static int set_up(void **state _unused_)
{
	w_begin();
	w_open(0);
	w_open(1);
	a = b = (struct end){ .last = BUF_INIT(0) };
	a.link = peer_link_new(w.port[0], PURPOSE_RPC, &ops, &a);
	b.link = peer_link_inbound(&ops, &b);
	b_serves(1);
	return 0;
}

static int tear_down(void **state _unused_)
{
	link_close(a.link);
	link_close(b.link);
	buf_done(&a.last);
	buf_done(&b.last);
	w_end();
	return 0;
}

static bool both_up(void *ctx _unused_)
{
	return link_is_up(a.link) && link_is_up(b.link);
}

static bool is_down(void *end)
{
	return !link_is_up(((struct end *)end)->link);
}

static void connect_both(void)
{
	struct port_target t = w_target(1);

	peer_link_target(a.link, &t);
	w_wait(both_up, NULL);
}

static struct {
	struct end *e;
	unsigned n;
} want;

static bool has_messages(void *ctx _unused_)
{
	return want.e->messages >= want.n;
}

static void wait_messages(struct end *e, unsigned n)
{
	want.e = e;
	want.n = n;
	w_wait(has_messages, NULL);
}

static bool has_sent(void *end)
{
	return !link_is_sending(((struct end *)end)->link);
}

static void send_one(struct end *e, const void *data, size_t n)
{
	w_wait(has_sent, e);
	assert_int_equal(link_send(e->link, data, n), 0);
}

/* --- messages --- */

static void messages_of_any_size_go_both_ways(void **state _unused_)
{
	static const size_t sizes[] = { 0,     1,           100,      65535,
					65536, 5 * MIB / 2, 20 * MIB, 3 };
	unsigned char *bytes = xmalloc(20 * MIB);
	struct rng r;

	test_rng(&r);
	for (size_t i = 0; i < 20 * MIB; i += 8) {
		uint64_t v = rng_u64(&r);

		memcpy(bytes + i, &v, 8);
	}
	connect_both();
	assert_string_equal(peer_link_peer(a.link)->name, "node-1");
	assert_string_equal(peer_link_peer(b.link)->name, "node-0");
	for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
		send_one(&a, bytes, sizes[i]);
		wait_messages(&b, i + 1);
		assert_int_equal(b.last.n, sizes[i]);
		assert_memory_equal(b.last.p, bytes, sizes[i]);
		send_one(&b, b.last.p, b.last.n);
		wait_messages(&a, i + 1);
		assert_int_equal(a.last.n, sizes[i]);
		assert_memory_equal(a.last.p, bytes, sizes[i]);
	}
	assert_int_equal(a.downs + b.downs, 0);
	free(bytes);
}

static void messages_keep_their_order(void **state _unused_)
{
	connect_both();
	for (uint32_t i = 0; i < 20000; i++) {
		if (link_is_sending(a.link))
			w_wait(has_sent, &a);
		assert_int_equal(link_send(a.link, &i, sizeof(i)), 0);
		if (i % 1000 == 999) {
			uint32_t last;

			wait_messages(&b, i + 1);
			memcpy(&last, b.last.p, sizeof(last));
			assert_int_equal(last, i);
		}
	}
}

static void what_cannot_be_sent_is_told(void **state _unused_)
{
	char *big = xcalloc(1, LIMIT_MESSAGE_BYTES + 1);

	assert_int_equal(link_send(a.link, "x", 1), -ERR_LEADER_UNAVAILABLE);
	assert_null(peer_link_peer(a.link));
	connect_both();
	assert_int_equal(link_send(a.link, big, LIMIT_MESSAGE_BYTES + 1),
			 -ERR_BODY_TOO_LARGE);
	assert_int_equal(link_send(a.link, big, 7), 0);
	wait_messages(&b, 1);
	assert_int_equal(b.last.n, 7);
	free(big);
}

/* --- connections that end --- */

static void a_link_comes_back_by_itself(void **state _unused_)
{
	struct port_config c = w_config(1);
	char address[64];
	struct port_target t = { 101, address };

	/* nobody is there at first */
	(void)snprintf(address, sizeof(address), "%s", port_bound(w.port[1]));
	port_free(w.port[1]);
	w.port[1] = NULL;
	peer_link_target(a.link, &t);
	w_idle();
	assert_int_equal(a.ups, 0);
	c.bind = address;
	for (unsigned round = 1; round <= 3; round++) {
		w_open_as(1, &c);
		b_serves(1);
		w_wait(both_up, NULL);
		assert_int_equal(a.ups, round);
		send_one(&a, "hello", 5);
		wait_messages(&b, round);
		/* the node goes away */
		port_free(w.port[1]);
		w.port[1] = NULL;
		link_close(b.link);
		b.link = peer_link_inbound(&ops, &b);
		b.ups = b.downs = 0;
		w_wait(is_down, &a);
		assert_int_equal(a.downs, round);
	}
}

static void another_target_ends_the_connection(void **state _unused_)
{
	struct port_target t;

	connect_both();
	t = w_target(1);
	peer_link_target(a.link, &t); /* the same: nothing happens */
	assert_int_equal(a.downs, 0);
	peer_link_target(a.link, NULL);
	assert_int_equal(a.downs, 1);
	w_wait(is_down, &b);
	w_idle();
	assert_int_equal(a.ups, 1);
	w_open(2);
	b_serves(2);
	t = w_target(2);
	peer_link_target(a.link, &t);
	w_wait(both_up, NULL);
	assert_string_equal(peer_link_peer(a.link)->name, "node-2");
	/* to one that is not who it should be it does not get */
	t.raft_id = 77;
	peer_link_target(a.link, &t);
	assert_int_equal(a.downs, 2);
	w_idle();
	assert_false(link_is_up(a.link));
	assert_true(w_logged("expected the node with raft id 77") > 0);
}

static void a_later_connection_replaces_the_earlier(void **state _unused_)
{
	struct end second = { .last = BUF_INIT(0) };
	struct port_target t = w_target(1);

	connect_both();
	second.link = peer_link_new(w.port[0], PURPOSE_RPC, &ops, &second);
	peer_link_target(second.link, &t);
	w_wait(is_down, &a);
	assert_int_equal(b.downs, 1);
	assert_int_equal(b.ups, 2);
	link_close(second.link);
}

/* --- peers that send nonsense --- */

static struct port_conn *raw;

static void on_raw(void *ctx _unused_, struct port_conn *c)
{
	raw = c;
}

static bool has_raw(void *ctx _unused_)
{
	return raw != NULL && link_is_up(b.link);
}

/* A connection of node 0 to b, whose bytes are written by hand. */
static void connect_raw(void)
{
	struct port_target t = w_target(1);

	raw = NULL;
	(void)port_dial(w.port[0], PURPOSE_RPC, &t, on_raw, NULL);
	w_wait(has_raw, NULL);
}

static void nonsense_is_cut_off(void **state _unused_)
{
	struct ipc_head good = ipc_head_of(3);
	struct ipc_head long_one = { htole32(LIMIT_MESSAGE_BYTES + 1),
				     htole32(IPC_MARK) };
	char bad[64];

	memset(bad, 'x', sizeof(bad));
	for (int i = 0; i < 3; i++) {
		connect_raw();
		if (i == 0)
			assert_true(send(raw->fd, bad, sizeof(bad), 0) > 0);
		if (i == 1)
			assert_true(send(raw->fd, &long_one, 8, 0) == 8);
		if (i == 2) {
			/* what is whole before it is still taken */
			memcpy(bad, &good, sizeof(good));
			memcpy(bad + 8, "yes", 3);
			assert_true(send(raw->fd, bad, sizeof(bad), 0) > 0);
		}
		w_wait(is_down, &b);
		assert_int_equal(b.messages, i == 2);
		w_wait(raw_is_closed, &raw->fd);
		port_conn_free(raw);
	}
	assert_int_equal(w_logged("node-0 at n0.example:9400 sends messages "
				  "that cannot be read"),
			 3);
}

/* However the bytes come. */
static void messages_may_come_byte_by_byte(void **state _unused_)
{
	struct ipc_head h = ipc_head_of(4);
	char bytes[12];

	connect_raw();
	memcpy(bytes, &h, sizeof(h));
	memcpy(bytes + 8, "abcd", 4);
	for (unsigned i = 0; i < 3 * sizeof(bytes); i++) {
		assert_int_equal(b.messages, i / sizeof(bytes));
		assert_int_equal(send(raw->fd, &bytes[i % 12], 1, 0), 1);
		w_idle();
	}
	wait_messages(&b, 3);
	assert_str_is(buf_str(&b.last), "abcd");
	port_conn_free(raw);
	w_wait(is_down, &b);
}

static unsigned drops;

static void drop_it(struct end *e)
{
	drops++;
	link_drop(e->link);
}

static bool three_ups(void *ctx _unused_)
{
	return a.ups == 3 && link_is_up(a.link);
}

static void a_dropped_connection_is_made_anew(void **state _unused_)
{
	connect_both();
	drops = 0;
	a.on_message = drop_it;
	/* two messages at once: the second is of the old connection */
	send_one(&b, "1", 1);
	send_one(&b, "2", 1);
	w_wait(is_down, &a);
	assert_int_equal(a.messages, 1);
	w_wait(both_up, NULL);
	send_one(&b, "3", 1);
	w_wait(three_ups, NULL);
	assert_int_equal(drops, 2);
	assert_int_equal(a.messages, 2);
}

/* --- callbacks that do anything --- */

static void close_it(struct end *e)
{
	link_close(e->link);
	e->link = NULL;
}

static void forget_target(struct end *e)
{
	peer_link_target(e->link, NULL);
}

static bool is_closed(void *end)
{
	return ((struct end *)end)->link == NULL;
}

static void a_link_may_be_closed_in_any_callback(void **state _unused_)
{
	for (int which = 0; which < 3; which++) {
		struct port_target t = w_target(1);

		a.on_up = which == 0 ? close_it : NULL;
		a.on_message = which == 1 ? close_it : NULL;
		a.on_down = which == 2 ? close_it : NULL;
		a.ups = a.downs = a.messages = 0;
		peer_link_target(a.link, &t);
		if (which > 0)
			w_wait(both_up, NULL);
		if (which == 1) {
			send_one(&b, "one", 3);
			send_one(&b, "two", 3);
		}
		if (which == 2)
			peer_link_target(a.link, NULL);
		w_wait(is_closed, &a);
		w_wait(is_down, &b);
		assert_int_equal(a.messages, which == 1);
		assert_int_equal(a.downs, which == 2);
		a.link = peer_link_new(w.port[0], PURPOSE_RPC, &ops, &a);
	}
}

static void a_target_may_change_while_a_message_is_read(void **state _unused_)
{
	connect_both();
	a.on_message = forget_target;
	send_one(&b, "one", 3);
	send_one(&b, "two", 3);
	w_wait(is_down, &a);
	assert_int_equal(a.messages, 1);
	assert_str_is(buf_str(&a.last), "one");
	w_idle();
	assert_int_equal(a.ups, 1);
}

/* --- load --- */

/* Who does not read is waited for; the sender hears when it is done. */
static bool drained(void *left)
{
	static char bytes[65536];
	size_t *n = left;

	for (int i = 0; i < 64; i++) {
		ssize_t got = recv(raw->fd, bytes, sizeof(bytes), 0);

		if (got <= 0)
			break;
		*n -= (size_t)got;
	}
	return *n == 0;
}

static void a_slow_peer_holds_back_the_sender(void **state _unused_)
{
	size_t n = 40 * MIB, left = n + sizeof(struct ipc_head);
	char *big = xcalloc(1, n);

	connect_raw();
	assert_int_equal(link_send(b.link, big, n), 0);
	memset(big, 'x', n); /* the link has its own by now */
	assert_true(link_is_sending(b.link));
	w_idle();
	assert_true(link_is_sending(b.link));
	assert_int_equal(b.sents, 0);
	w_wait(drained, &left);
	w_wait(has_sent, &b);
	assert_int_equal(b.sents, 1);
	port_conn_free(raw);
	w_wait(is_down, &b);
	free(big);
}

static uint64_t most, seen;

static bool count_turns(void *upto)
{
	most = MAX(most, b.bytes - seen);
	seen = b.bytes;
	return b.messages >= *(unsigned *)upto;
}

/* A flood is taken in portions, so that others have their turn. */
static void a_flood_is_read_in_portions(void **state _unused_)
{
	size_t n = 8 * MIB, size = 1000;
	struct ipc_head h = ipc_head_of(size);
	unsigned count = (unsigned)(n / (size + sizeof(h)));
	char *flood = xmalloc(n), *at = flood;

	for (unsigned i = 0; i < count; i++) {
		memcpy(at, &h, sizeof(h));
		memset(at + sizeof(h), 'y', size);
		at += sizeof(h) + size;
	}
	connect_raw();
	/* as much as the sockets take, before the loop runs */
	for (size_t sent = 0; sent < (size_t)(at - flood);) {
		ssize_t put =
		    send(raw->fd, flood + sent, (size_t)(at - flood) - sent, 0);

		if (put < 0) {
			count = (unsigned)(sent / (size + sizeof(h)));
			break;
		}
		sent += (size_t)put;
	}
	assert_true(count > 500); /* more than one portion */
	most = seen = 0;
	w_wait(count_turns, &count);
	assert_true(most <= (256u << 10) + (64u << 10));
	port_conn_free(raw);
	w_wait(is_down, &b);
	free(flood);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		CASE(messages_of_any_size_go_both_ways),
		CASE(messages_keep_their_order),
		CASE(what_cannot_be_sent_is_told),
		CASE(a_link_comes_back_by_itself),
		CASE(another_target_ends_the_connection),
		CASE(a_later_connection_replaces_the_earlier),
		CASE(nonsense_is_cut_off),
		CASE(messages_may_come_byte_by_byte),
		CASE(a_dropped_connection_is_made_anew),
		CASE(a_link_may_be_closed_in_any_callback),
		CASE(a_target_may_change_while_a_message_is_read),
		CASE(a_slow_peer_holds_back_the_sender),
		CASE(a_flood_is_read_in_portions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
