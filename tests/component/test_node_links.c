/*
 * What three nodes say to each other beside entries: what is committed, nothing
 * to who is no member any more; and what becomes of a stream with garbage.
 */
#include "cluster_world.h"

/* What is committed is not for the leader alone to know, until something else
 * is to be said: here no heartbeat ever is. */
static void followers_hear_of_a_commit_at_once(void **state _unused_)
{
	for (int i = 0; i < NODES; i++)
		start(&m[i]);
	propose(100);
	w_wait(all_applied, NULL);
	for (int i = 0; i < NODES; i++) {
		raft_set_election_timeout(&m[i].node->raft, 3600 * 1000);
		raft_set_heartbeat_timeout(&m[i].node->raft, 1800 * 1000);
	}
	for (int i = 0; i < 3; i++) {
		propose(100);
		w_wait(all_applied, NULL);
	}
}

/* Who knocked there since the last look. */
static unsigned knocks(int fd)
{
	unsigned n = 0;

	for (int c; (c = accept(fd, NULL, NULL)) >= 0; n++)
		(void)close(c);
	return n;
}

static bool is_knocked_at(void *fd)
{
	return knocks(*(int *)fd) > 0;
}

static void a_node_that_was_removed_is_not_dialled(void **state _unused_)
{
	struct sockaddr_in sa = { .sin_family = AF_INET };
	socklen_t len = sizeof(sa);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct member *gone;

	sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, len), 0);
	assert_int_equal(listen(fd, 16), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
	for (int i = 0; i < NODES; i++)
		start(&m[i]);
	propose(100);
	gone = &m[(leader()->number + 1) % NODES];
	(void)snprintf(elsewhere, sizeof(elsewhere), "127.0.0.1:%u",
		       ntohs(sa.sin_port));
	stop(gone);
	w_wait(is_knocked_at, &fd);
	answered = false;
	assert_int_equal(node_remove(leader()->node,
				     raft_digest(gone->s.node_id, 0), on_answer,
				     NULL),
			 0);
	w_wait(is_answered, NULL);
	assert_int_equal(last_err, 0);
	w_idle();
	(void)knocks(fd);
	for (int i = 0; i < 40; i++)
		w_idle(); /* the library tries once a second */
	assert_int_equal(knocks(fd), 0);
	(void)close(fd);
}

/* --- a stream with something else in it --- */

static int raw = -1; /* the socket of one that is a member's */

static void on_raw(void *ctx _unused_, struct port_conn *c)
{
	assert_non_null(c);
	raw = port_conn_take_fd(c);
}

static bool has_raw(void *ctx _unused_)
{
	return raw >= 0;
}

/* From a node that has the secret and is a member. */
static void send_on_stream(int from, int to, struct str bytes)
{
	struct port_target t = { .raft_id = raft_digest(m[to].s.node_id, 0),
				 .address = port_bound(w.port[to]) };

	raw = -1;
	(void)port_dial(w.port[from], PURPOSE_RAFT, &t, on_raw, NULL);
	w_wait(has_raw, NULL);
	assert_int_equal(send(raw, bytes.p, bytes.n, MSG_NOSIGNAL), bytes.n);
	w_wait(raw_is_closed, &raw);
	(void)close(raw);
}

static void garbage_on_a_stream_ends_it_and_nothing_else(void **state _unused_)
{
	/* an "append entries" whose header has 2^60 bytes; a vote without one;
	 * words of another protocol */
	static const struct str rows[] = {
		{ "\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x10", 16 },
		{ "\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16 },
		{ "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27 },
	};

	for (int i = 0; i < NODES; i++)
		start(&m[i]);
	propose(100);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		for (int to = 0; to < NODES; to++)
			send_on_stream((to + 1) % NODES, to, rows[i]);
	/* many at once are one line each node, for a while */
	assert_int_equal(w_logged("closed a raft stream of node-"), NODES);
	propose(100);
	w_wait(all_applied, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(followers_hear_of_a_commit_at_once),
		CASE(a_node_that_was_removed_is_not_dialled),
		CASE(garbage_on_a_stream_ends_it_and_nothing_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
