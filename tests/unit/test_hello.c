/*
 * The handshake between nodes: who is taken for a friend, and who is not.
 */
#include "hello_talk.h"

static void both_learn_who_the_other_is(void **state _unused_)
{
	for (int p = PURPOSE_RAFT; p < PURPOSE_END; p++) {
		struct talk t = talk_of();

		t.purpose = (enum port_purpose)p;
		talk_run(&t);
		assert_int_equal(t.vd, HELLO_DONE);
		assert_int_equal(t.vl, HELLO_DONE);
		assert_int_equal(t.messages, 4);
		assert_int_equal(t.l.purpose, p);
		assert_memory_equal(&t.d.peer, &t.b, sizeof(t.b));
		assert_memory_equal(&t.l.peer, &t.a, sizeof(t.a));
		assert_int_equal(t.d.version, HELLO_VERSION);
		talk_done(&t);
	}
}

static void the_longest_names_fit(void **state _unused_)
{
	struct talk t = talk_of();

	memset(t.a.name, 'x', HELLO_NAME_BYTES);
	memset(t.a.address, 'y', HELLO_ADDRESS_BYTES);
	t.b = t.a;
	t.b.raft_id++;
	talk_run(&t);
	assert_int_equal(t.vd, HELLO_DONE);
	assert_int_equal(t.vl, HELLO_DONE);
	talk_done(&t);
	/* and the longest sentence about them */
	t = talk_of();
	memset(t.a.name, 'x', HELLO_NAME_BYTES);
	memset(t.b.name, 'x', HELLO_NAME_BYTES);
	t.b.cluster.id[0]++;
	talk_run(&t);
	assert_both_refused(&t, HELLO_CLUSTER, "is a node of the cluster");
	talk_done(&t);
}

static void a_node_without_a_cluster_may_speak(void **state _unused_)
{
	struct talk t = talk_of();

	t.a = id_of("node-1", 11, 0);
	talk_run(&t);
	assert_int_equal(t.vd, HELLO_DONE);
	assert_int_equal(t.vl, HELLO_DONE);
	talk_done(&t);
}

static void another_secret_is_refused(void **state _unused_)
{
	static const struct str others[] = { { "", 0 },
					     { "a secret of all thre", 20 },
					     { "a secret of all three ", 22 } };

	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		struct talk t = talk_of();

		t.secret_a = others[i];
		talk_run(&t);
		assert_both_refused(&t, HELLO_SECRET, "cluster_secret_file");
		/* the dialer never proves anything to such a one */
		assert_int_equal(t.messages, 3);
		assert_false(t.d.by_peer);
		talk_done(&t);
	}
}

static void no_secret_is_one_too(void **state _unused_)
{
	struct talk t = talk_of();

	t.secret_a = t.secret_b = STR_NULL;
	talk_run(&t);
	assert_int_equal(t.vd, HELLO_DONE);
	assert_int_equal(t.vl, HELLO_DONE);
	talk_done(&t);
}

static void another_cluster_is_refused_but_may_join(void **state _unused_)
{
	struct talk t = talk_of();

	t.b = id_of("node-2", 22, 8);
	talk_run(&t);
	assert_both_refused(&t, HELLO_CLUSTER,
			    "node-2 is a node of the "
			    "cluster 0808");
	talk_done(&t);
	t = talk_of();
	t.b = id_of("node-2", 22, 8);
	t.purpose = PURPOSE_JOIN;
	talk_run(&t);
	assert_int_equal(t.vd, HELLO_DONE);
	assert_int_equal(t.vl, HELLO_DONE);
	talk_done(&t);
}

static void versions_are_chosen_or_refused(void **state _unused_)
{
	static const struct {
		uint16_t min_a, max_a, min_b, max_b, want; /* 0: refused */
	} rows[] = {
		{ 1, 1, 1, 1, 1 }, { 1, 3, 2, 5, 3 }, { 2, 5, 1, 3, 3 },
		{ 1, 2, 2, 9, 2 }, { 1, 1, 2, 2, 0 }, { 4, 9, 1, 3, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct talk t = talk_of();

		t.a.min = rows[i].min_a;
		t.a.max = rows[i].max_a;
		t.b.min = rows[i].min_b;
		t.b.max = rows[i].max_b;
		talk_run(&t);
		if (rows[i].want == 0) {
			assert_both_refused(&t, HELLO_NO_VERSION,
					    "upgrade the older node");
		} else {
			assert_int_equal(t.vd, HELLO_DONE);
			assert_int_equal(t.d.version, rows[i].want);
			assert_int_equal(t.l.version, rows[i].want);
		}
		talk_done(&t);
	}
}

static void a_node_does_not_speak_with_itself(void **state _unused_)
{
	struct talk t = talk_of();

	t.b.raft_id = t.a.raft_id;
	talk_run(&t);
	assert_both_refused(&t, HELLO_SAME_NODE, "same raft id");
	talk_done(&t);
}

/* Either end may say no to who the other one is, once that is proven. */
static void the_owner_of_either_end_may_refuse(void **state _unused_)
{
	struct talk t = talk_of();
	enum hello_verdict v;

	hello_dial(&t.d, &t.a, SECRET, t.nonce_d, PURPOSE_RAFT);
	hello_listen(&t.l, &t.b, SECRET, t.nonce_l);
	assert_int_equal(feed(&t.l, str_of(t.d.out, t.d.out_n), 1000),
			 HELLO_GOES_ON);
	t.d.out_n = 0;
	for (size_t at = 0;;) {
		size_t n = hello_want(&t.d);

		v = hello_feed(&t.d, t.l.out + at, n);
		at += n;
		if (v != HELLO_GOES_ON)
			break;
	}
	assert_int_equal(v, HELLO_PROVEN);
	assert_int_equal(t.d.peer.raft_id, 22);
	assert_int_equal(hello_refuse(&t.d, HELLO_OTHER_NODE, "not %s", "you"),
			 HELLO_REFUSED);
	t.l.out_n = 0;
	assert_int_equal(feed(&t.l, str_of(t.d.out, t.d.out_n), 1000),
			 HELLO_REFUSED);
	assert_true(t.l.by_peer);
	assert_int_equal(t.l.code, HELLO_OTHER_NODE);
	assert_string_equal(t.l.why, "not you");
}

/* --- somebody in between --- */

static struct {
	unsigned message; /* which one */
	size_t at;        /* its byte; or how many arrive */
	unsigned bit;
	bool done;
} change;

static bool flip(struct talk *t, bool by_dialer _unused_, struct buf *m)
{
	if (t->messages == change.message && change.at < m->n) {
		m->p[change.at] ^= (char)(1u << change.bit);
		change.done = true;
	}
	return true;
}

/* Whatever is changed on the way, no end takes the other for a friend. */
static void no_bit_can_be_changed(void **state _unused_)
{
	size_t changed = 0;

	for (change.message = 1; change.message <= 4; change.message++) {
		change.done = true;
		for (change.at = 0; change.done; change.at++) {
			struct talk t = talk_of();

			change.bit = (unsigned)change.at % 8;
			change.done = false;
			t.between = flip;
			talk_run(&t);
			if (change.done) {
				assert_int_not_equal(t.vd, HELLO_DONE);
				/* whose last word it may have been */
				if (change.message < 4)
					assert_int_not_equal(t.vl, HELLO_DONE);
				changed++;
			}
			talk_done(&t);
		}
	}
	assert_true(changed > 200);
}

static bool cut(struct talk *t, bool by_dialer _unused_, struct buf *m)
{
	if (t->messages != change.message)
		return true;
	m->n = MIN(m->n, change.at);
	return m->n > 0;
}

/* An end that is not told all waits, and believes nothing. */
static void a_message_cut_at_any_byte_is_waited_for(void **state _unused_)
{
	struct talk plain = talk_of();
	size_t lens[5];

	hello_dial(&plain.d, &plain.a, SECRET, plain.nonce_d, PURPOSE_RPC);
	lens[1] = plain.d.out_n;
	lens[2] = plain.d.out_n + 32;
	lens[3] = 2 + 1 + 32;
	lens[4] = 2 + 1;
	for (change.message = 1; change.message <= 4; change.message++)
		for (change.at = 0; change.at < lens[change.message];
		     change.at++) {
			struct talk t = talk_of();
			bool to_dialer = change.message % 2 == 0;

			t.between = cut;
			talk_run(&t);
			assert_int_equal(t.messages, change.message);
			assert_int_equal(to_dialer ? t.vd : t.vl,
					 HELLO_GOES_ON);
			assert_true(hello_want(to_dialer ? &t.d : &t.l) > 0);
			talk_done(&t);
		}
}

/* What was said in another handshake is worth nothing in this one. */
static void old_messages_prove_nothing(void **state _unused_)
{
	struct talk old = talk_of(), t = talk_of();
	struct str said;
	size_t hello_n;

	talk_run(&old);
	assert_int_equal(old.vl, HELLO_DONE);
	/* the dialer's side of it, sent again to the listener */
	said = buf_str(&old.said[0]);
	hello_n = 2 + old.d.d_n;
	hello_listen(&t.l, &t.b, SECRET, t.nonce_l);
	assert_int_equal(feed(&t.l, str_of(said.p, hello_n), 1000),
			 HELLO_GOES_ON);
	t.l.out_n = 0;
	assert_int_equal(feed(&t.l, str_skip(said, hello_n), 1000),
			 HELLO_REFUSED);
	assert_int_equal(t.l.code, HELLO_SECRET);
	/* the listener's side, sent again to the dialer */
	hello_dial(&t.d, &t.a, SECRET, t.nonce_d, PURPOSE_RPC);
	t.d.out_n = 0;
	said = buf_str(&old.said[1]);
	assert_int_equal(feed(&t.d, str_of(said.p, 2 + old.d.l_n + 32), 1000),
			 HELLO_REFUSED);
	assert_int_equal(t.d.code, HELLO_SECRET);
	talk_done(&old);
}

/* A mirror, and a listener that has its own proofs made by others. */
static void reflected_messages_prove_nothing(void **state _unused_)
{
	struct talk t = talk_of();
	struct hello second;
	struct str mine;

	/* what the dialer said comes back to it */
	hello_dial(&t.d, &t.a, SECRET, t.nonce_d, PURPOSE_RPC);
	mine = str_of(t.d.d, t.d.d_n);
	t.d.out_n = 0;
	{
		_cleanup_(buf_done) struct buf m = BUF_INIT(0);
		uint16_t n = htobe16((uint16_t)mine.n);

		buf_append(&m, &n, sizeof(n));
		buf_put_str(&m, mine);
		assert_int_equal(feed(&t.d, buf_str(&m), 1000), HELLO_GARBAGE);
	}
	/* who has no secret gives a listener's proof back to it as a dialer's
	 */
	hello_dial(&second, &t.a, STR("guess"), t.nonce_d, PURPOSE_RPC);
	hello_listen(&t.l, &t.b, SECRET, t.nonce_l);
	assert_int_equal(feed(&t.l, str_of(second.out, second.out_n), 1000),
			 HELLO_GOES_ON);
	{
		_cleanup_(buf_done) struct buf m = BUF_INIT(0);

		buf_append(&m, "\0\x21\x03", 3);
		buf_append(&m, t.l.out + t.l.out_n - 32, 32);
		t.l.out_n = 0;
		assert_int_equal(feed(&t.l, buf_str(&m), 1000), HELLO_REFUSED);
		assert_int_equal(t.l.code, HELLO_SECRET);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_learn_who_the_other_is),
		cmocka_unit_test(the_longest_names_fit),
		cmocka_unit_test(a_node_without_a_cluster_may_speak),
		cmocka_unit_test(another_secret_is_refused),
		cmocka_unit_test(no_secret_is_one_too),
		cmocka_unit_test(another_cluster_is_refused_but_may_join),
		cmocka_unit_test(versions_are_chosen_or_refused),
		cmocka_unit_test(a_node_does_not_speak_with_itself),
		cmocka_unit_test(the_owner_of_either_end_may_refuse),
		cmocka_unit_test(no_bit_can_be_changed),
		cmocka_unit_test(a_message_cut_at_any_byte_is_waited_for),
		cmocka_unit_test(old_messages_prove_nothing),
		cmocka_unit_test(reflected_messages_prove_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
