/*
 * What the state knows of the cluster: its nodes, who leads, and the feature
 * level, with what becomes of operations above it.
 */
#include "fsm/core/cluster.h"
#include "fsm/core/state.h"
#include "fsm_fixture.h"

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fx_setup, fx_teardown)

static struct m_member node(uint64_t raft_id, const char *name,
			    const char *address)
{
	struct m_member m = { 0 };

	MSG_SET(&m, member, raft_id, raft_id);
	MSG_SET(&m, member, name, str_from(name));
	MSG_SET(&m, member, address, str_from(address));
	MSG_SET(&m, member, http, STR("h:8080"));
	MSG_SET(&m, member, version, STR("0.5.0"));
	MSG_SET(&m, member, level_min, 1);
	MSG_SET(&m, member, level_max, 1);
	return m;
}

static void set(struct fx *x, const struct m_member *m)
{
	assert_int_equal(fx_do(x, OP_SET_MEMBER, m, NULL), 0);
}

static void forget(struct fx *x, uint64_t raft_id)
{
	struct m_member_ref m = { 0 };

	MSG_SET(&m, member_ref, raft_id, raft_id);
	assert_int_equal(fx_do(x, OP_FORGET_MEMBER, &m, NULL), 0);
}

static void put_name(void *ctx, const struct m_member *m)
{
	buf_printf(ctx, "%.*s@%.*s ", STR_ARG(m->name), STR_ARG(m->address));
}

static void expect_members(struct fx *x, const char *expected)
{
	for (int i = 0; i < FX_SIDES; i++) {
		struct buf b = BUF_INIT(0);

		fsm_members(x->side[i].f, put_name, &b);
		assert_str_is(buf_str(&b), expected);
		buf_done(&b);
	}
}

/* Type and data of all events since. */
static void expect_events(struct fx *x, uint64_t after, const char *expected)
{
	struct buf b = BUF_INIT(0);
	struct m_events_reply r;

	assert_int_equal(
	    record_events(x->side[FX_ROCKS].kv, after, 100, &x->arena, &r), 0);
	for (size_t i = 0; i < r.events_n; i++)
		buf_printf(&b, "%s%.*s ",
			   enum_text(&enum_event_type, r.events[i].type),
			   STR_ARG(r.events[i].data));
	assert_str_is(buf_str(&b), expected);
	buf_done(&b);
}

/* --- nodes --- */

static void test_nodes_join_change_and_leave(void **state)
{
	struct fx *x = *state;
	struct m_member a = node(7, "n1", "h1:1");
	struct m_member b = node(UINT64_MAX - 1, "n2", "h2:1");
	struct m_member found;
	uint64_t joined = x->now_ns, seq;

	set(x, &b);
	set(x, &a);
	expect_members(x, "n1@h1:1 n2@h2:1 ");
	x->now_ns += NS_PER_S;
	MSG_SET(&a, member, address, STR("h1:2"));
	set(x, &a);
	for (int i = 0; i < FX_SIDES; i++)
		fx_restart(x, i);
	expect_members(x, "n1@h1:2 n2@h2:1 ");
	assert_true(fsm_member_find(x->side[FX_ROCKS].f, 7, &found));
	assert_int_equal(found.joined_at, joined);
	assert_str_is(found.http, "h:8080");
	assert_str_is(found.version, "0.5.0");
	assert_false(fsm_member_find(x->side[FX_ROCKS].f, 8, &found));
	seq = fsm_last_seq(x->side[FX_ROCKS].f);
	assert_int_equal(seq, 3);
	set(x, &a); /* nothing new */
	assert_int_equal(fsm_last_seq(x->side[FX_ROCKS].f), seq);
	forget(x, b.raft_id);
	forget(x, b.raft_id);
	expect_members(x, "n1@h1:2 ");
	assert_int_equal(fsm_last_seq(x->side[FX_ROCKS].f), seq + 1);
	expect_events(x, 2,
		      "member_changed{\"node\":\"n1\",\"address\":\"h1:2\","
		      "\"version\":\"0.5.0\"} "
		      "member_left{\"node\":\"n2\",\"address\":\"h2:1\","
		      "\"version\":\"0.5.0\"} ");
}

static void test_how_a_node_fares_is_told_once(void **state)
{
	struct fx *x = *state;
	struct m_member m = node(7, "n1", "h1:1");
	struct m_member found;
	uint64_t seq;

	set(x, &m);
	seq = fsm_last_seq(x->side[FX_ROCKS].f);
	MSG_SET(&m, member, fetching, 40);
	set(x, &m);
	set(x, &m);
	MSG_SET(&m, member, fetching, 50); /* a newer one, in the same go */
	set(x, &m);
	MSG_SET(&m, member, fetching, 0);
	MSG_SET(&m, member, installed, 50);
	set(x, &m);
	MSG_SET(&m, member, installed, 0); /* after the next start */
	set(x, &m);
	expect_events(x, seq,
		      "snapshot_begun{\"node\":\"n1\",\"index\":40} "
		      "snapshot_ended{\"node\":\"n1\",\"index\":50,"
		      "\"installed\":true} ");
	fx_restart(x, FX_ROCKS);
	assert_true(fsm_member_find(x->side[FX_ROCKS].f, 7, &found));
	assert_int_equal(found.installed, 50);
	seq = fsm_last_seq(x->side[FX_ROCKS].f);
	MSG_SET(&m, member, fetching, 60);
	set(x, &m);
	MSG_SET(&m, member, fetching, 0); /* the log had it in the end */
	MSG_SET(&m, member, clock_off, true);
	set(x, &m);
	set(x, &m);
	MSG_SET(&m, member, clock_off, false);
	set(x, &m);
	expect_events(x, seq,
		      "snapshot_begun{\"node\":\"n1\",\"index\":60} "
		      "snapshot_ended{\"node\":\"n1\",\"index\":60,"
		      "\"installed\":false} "
		      "clock_off{\"node\":\"n1\"} "
		      "clock_right{\"node\":\"n1\"} ");
	fx_check_same(x);
}

static void test_a_store_that_differs_is_told_of_once(void **state)
{
	struct fx *x = *state;
	struct m_member m = node(7, "n1", "h:1"), found;
	uint64_t seq;

	fx_raise_level(x);
	set(x, &m);
	seq = fsm_last_seq(x->side[FX_ROCKS].f);
	assert_false(fsm_take_compare(x->side[FX_ROCKS].f));
	MSG_SET(&m, member, compare, true);
	set(x, &m);
	assert_true(fsm_take_compare(x->side[FX_ROCKS].f));
	assert_false(fsm_take_compare(x->side[FX_ROCKS].f));
	MSG_SET(&m, member, differs, 40);
	set(x, &m);
	MSG_SET(&m, member, differs, 40);
	set(x, &m);
	fx_restart(x, FX_ROCKS);
	assert_false(fsm_take_compare(x->side[FX_ROCKS].f));
	assert_true(fsm_member_find(x->side[FX_ROCKS].f, 7, &found));
	assert_int_equal(found.differs, 40);
	assert_false(found.compare);
	MSG_SET(&m, member, differs, 0);
	set(x, &m);
	expect_events(x, seq,
		      "store_differs{\"node\":\"n1\",\"index\":40} "
		      "store_agrees{\"node\":\"n1\",\"index\":40} ");
}

static void test_there_are_so_many_nodes_at_most(void **state)
{
	struct fx *x = *state;
	struct m_member m;

	for (uint64_t i = 1; i <= LIMIT_MEMBERS; i++) {
		m = node(i, "n", "h:1");
		set(x, &m);
	}
	m = node(LIMIT_MEMBERS + 1, "n", "h:1");
	fx_refused(x, OP_SET_MEMBER, &m, ERR_VALIDATION_ERROR,
		   "the cluster has 32 nodes, and there may be no more; "
		   "remove one first");
	forget(x, 9);
	set(x, &m);
	m = node(3, "n", "h:2"); /* one of those there are */
	set(x, &m);
	fx_restart(x, FX_ROCKS);
	fx_check_same(x);
}

static void test_a_node_without_a_name_is_refused(void **state)
{
	struct fx *x = *state;
	struct m_member m = node(1, "", "h:1");

	fx_refused(x, OP_SET_MEMBER, &m, ERR_VALIDATION_ERROR,
		   "a node needs a number, a name of 1 to 64 bytes, and "
		   "addresses of at most 255");
}

/* --- who leads --- */

static void lead(struct fx *x, uint64_t raft_id, const char *name,
		 uint64_t term)
{
	struct m_leader m = { 0 };

	MSG_SET(&m, leader, raft_id, raft_id);
	MSG_SET(&m, leader, name, str_from(name));
	MSG_SET(&m, leader, term, term);
	assert_int_equal(fx_do(x, OP_LEADER, &m, NULL), 0);
}

static void test_a_leader_is_told_once_in_its_term(void **state)
{
	struct fx *x = *state;
	struct m_leader l;
	uint64_t since;

	assert_false(fsm_leader(x->side[FX_MEM].f, &l));
	lead(x, 7, "n1", 3);
	x->now_ns += NS_PER_S;
	since = x->now_ns;
	lead(x, 8, "n2", 5);
	x->now_ns += NS_PER_S;
	lead(x, 8, "n2", 5);
	lead(x, 7, "n1", 4); /* was overtaken */
	fx_restart(x, FX_ROCKS);
	assert_true(fsm_leader(x->side[FX_ROCKS].f, &l));
	assert_int_equal(l.raft_id, 8);
	assert_str_is(l.name, "n2");
	assert_int_equal(l.term, 5);
	assert_int_equal(l.since, since);
	expect_events(x, 0,
		      "leader_changed{\"node\":\"n1\",\"term\":3} "
		      "leader_changed{\"node\":\"n2\",\"term\":5} ");
}

/* --- the feature level --- */

static void test_the_level_is_what_all_voters_know(void **state)
{
	static const struct {
		uint32_t now, known[3];
		size_t n;
		uint32_t agreed;
	} rows[] = {
		{ 1, { 1 }, 1, 1 },       { 1, { 2 }, 1, 2 },
		{ 1, { 2, 2, 1 }, 3, 1 }, { 1, { 3, 2, 4 }, 3, 2 },
		{ 1, { 2, 2, 2 }, 3, 2 }, { 1, { 2, 0, 2 }, 3, 1 },
		{ 2, { 1, 2, 3 }, 3, 2 }, /* never back */
		{ 3, { 3, 3, 3 }, 3, 3 }, { 2, { 0 }, 0, 2 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(
		    level_agreed(rows[i].now, rows[i].known, rows[i].n),
		    rows[i].agreed);
}

static void test_voters_are_known_by_their_records(void **state)
{
	static const uint64_t voters[] = { 7, 8, 9 };
	struct fx *x = *state;
	struct m_member b = node(8, "n2", "h2:1");
	struct m_member c = node(9, "n3", "h3:1");
	struct fsm *f = x->side[FX_MEM].f;

	f->cluster.level = 0; /* one is what there could be then */
	assert_int_equal(fsm_level_for(f, voters, 1, 7), FEATURE_LEVEL);
	assert_int_equal(fsm_level_for(f, voters, 3, 7), 0);
	f->cluster.level = 1;
	set(x, &b);
	set(x, &c);
	f->cluster.level = 0;
	assert_int_equal(fsm_level_for(f, voters, 3, 7), 1);
	f->cluster.level = 1;
}

static void expect_why(struct fx *x, uint32_t level, const char *expected)
{
	struct buf b = BUF_INIT(0);

	fsm_level_why(x->side[FX_MEM].f, level, &b);
	assert_str_is(buf_str(&b), expected);
	buf_done(&b);
}

static void test_a_level_that_is_too_high_names_whom_to_upgrade(void **state)
{
	struct fx *x = *state;
	struct m_member a = node(1, "n1", "h:1"), b = node(2, "n2", "h:1"),
			c = node(3, "n3", "h:1");

	expect_why(x, 2,
		   "this needs feature level 2; the cluster uses 1 until all "
		   "its nodes are known to know more: try again");
	set(x, &b);
	expect_why(x, 2,
		   "this needs feature level 2; node n2 runs a version that "
		   "knows only 1: upgrade it first");
	MSG_SET(&a, member, level_max, 2);
	set(x, &a);
	set(x, &c);
	expect_why(x, 2,
		   "this needs feature level 2; nodes n2 and n3 run a version "
		   "that knows only 1: upgrade them first");
	expect_why(x, 3,
		   "this needs feature level 3; nodes n1, n2 and n3 run a "
		   "version that knows only 1: upgrade them first");
}

/* A state machine of its own, which may stop. */
struct alone {
	struct kv *kv;
	struct fsm *f;
	struct frame_writer w;
	struct buf entry;
};

static void alone_begin(struct alone *a)
{
	*a = (struct alone){ .kv = kv_mem_new(), .entry = BUF_INIT(0) };
	a->f = fsm_new(a->kv);
	assert_int_equal(fsm_load(a->f), 0);
	entry_begin(&a->w, &a->entry, FX_START_NS, 1);
}

static void alone_add(struct alone *a, uint32_t op, const struct msg_desc *d,
		      const void *m)
{
	struct buf body = BUF_INIT(0);
	struct entry_item item = { .op = op };

	msg_encode(d, m, &body);
	item.body = buf_str(&body);
	entry_add(&a->w, &item);
	buf_done(&body);
}

/* It is not applied, in no part, and says why. */
static void alone_stops(struct alone *a, const char *why)
{
	struct kv_iter *it;

	entry_end(&a->w);
	assert_int_equal(fsm_apply(a->f, 1, buf_str(&a->entry), NULL, NULL),
			 -ERR_UNSUPPORTED);
	assert_str_is(fsm_stop_text(a->f), why);
	assert_int_equal(fsm_applied_index(a->f), 0);
	it = kv_iter_new(a->kv, STR_NULL, STR_NULL);
	assert_false(kv_iter_valid(it));
	kv_iter_free(it);
	fsm_free(a->f);
	kv_close(a->kv);
	buf_done(&a->entry);
}

static void test_an_unknown_operation_in_the_log_stops_the_node(void **state)
{
	struct m_enqueue job = fx_new("job_1", "q");
	struct alone a;

	(void)state;
	alone_begin(&a);
	alone_add(&a, OP_ENQUEUE, &msg_enqueue, &job);
	alone_add(&a, 999, &msg_enqueue, &job);
	alone_stops(&a, "it has operation 999, which this version of Corvo "
			"does not know; start the version that wrote it");
}

static void test_an_operation_above_the_level_stops_the_node(void **state)
{
	struct m_enqueue job = fx_new("job_1", "q");
	struct alone a;

	(void)state;
	alone_begin(&a);
	a.f->cluster.level = 0;
	alone_add(&a, OP_ENQUEUE, &msg_enqueue, &job);
	alone_stops(&a, "it has operation enqueue of feature level 1, and the "
			"cluster uses 0; start the version that wrote it");
}

static void test_a_level_nobody_knows_here_stops_the_node(void **state)
{
	struct m_level m = { 0 };
	char text[160];
	struct alone a;

	(void)state;
	alone_begin(&a);
	MSG_SET(&m, level, level, FEATURE_LEVEL + 1);
	alone_add(&a, OP_SET_LEVEL, &msg_level, &m);
	(void)snprintf(text, sizeof(text),
		       "the cluster begins to use feature level %u and this "
		       "version of Corvo knows levels up to %u; start a newer "
		       "one",
		       FEATURE_LEVEL + 1, FEATURE_LEVEL);
	alone_stops(&a, text);
}

static void test_the_level_is_kept_and_never_falls(void **state)
{
	struct fx *x = *state;
	struct m_level m = { 0 };

	for (int i = 0; i < FX_SIDES; i++)
		x->side[i].f->cluster.level = 5; /* of some later version */
	lead(x, 7, "n1", 1);                     /* writes the record */
	MSG_SET(&m, level, level, 4);
	assert_int_equal(fx_do(x, OP_SET_LEVEL, &m, NULL), 0);
	for (int i = 0; i < FX_SIDES; i++) {
		fx_restart(x, i);
		assert_int_equal(fsm_level(x->side[i].f), 5);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_nodes_join_change_and_leave),
		TEST(test_how_a_node_fares_is_told_once),
		TEST(test_a_store_that_differs_is_told_of_once),
		TEST(test_there_are_so_many_nodes_at_most),
		TEST(test_a_node_without_a_name_is_refused),
		TEST(test_a_leader_is_told_once_in_its_term),
		cmocka_unit_test(test_the_level_is_what_all_voters_know),
		TEST(test_voters_are_known_by_their_records),
		TEST(test_a_level_that_is_too_high_names_whom_to_upgrade),
		cmocka_unit_test(
		    test_an_unknown_operation_in_the_log_stops_the_node),
		cmocka_unit_test(
		    test_an_operation_above_the_level_stops_the_node),
		cmocka_unit_test(test_a_level_nobody_knows_here_stops_the_node),
		TEST(test_the_level_is_kept_and_never_falls),
	};

	return cmocka_run_group_tests_name("fsm_cluster", tests, NULL, NULL);
}
