/*
 * Which groups have lanes of their own, and jobs on their way from one lane to
 * another when settings change: in portions, through restarts of one side, and
 * with all that may happen to a job meanwhile.
 */
#include "fsm/core/state.h"
#include "fsm/job/job.h"
#include "fsm/order/lane.h"
#include "fsm/order/queue.h"
#include "fsm/order/regroup.h"
#include "fsm_fixture.h"
#include "util/hash.h"

#define SMALL 3000 /* bytes an entry may spend: some jobs are moved by it */

static void enqueue(struct fx *x, const char *group, int i)
{
	char id[32];
	struct m_enqueue m;

	(void)snprintf(id, sizeof(id), "%s%d", group, i);
	m = fx_new(id, "q");
	MSG_SET(&m, enqueue, group, str_from(group));
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
}

/* a1 b1 c1 a2 b2 ... */
static void enqueue_rounds(struct fx *x, int n)
{
	for (int i = 1; i <= n; i++) {
		enqueue(x, "a", i);
		enqueue(x, "b", i);
		enqueue(x, "c", i);
	}
}

static void set(struct fx *x, struct m_set_queue *m)
{
	MSG_SET(m, set_queue, queue, STR("q"));
	assert_int_equal(fx_do(x, OP_SET_QUEUE, m, NULL), 0);
}

static void set_fairness(struct fx *x, enum fairness how)
{
	struct m_set_queue m = { 0 };

	MSG_SET(&m, set_queue, fairness, how);
	set(x, &m);
}

static struct fsm_queue *queue_of(struct fx *x)
{
	return queue_find(x->side[FX_MEM].f, STR("q"));
}

static size_t lanes_of(struct fx *x)
{
	size_t n = queue_of(x)->lanes.groups.n;

	fx_restart(x, FX_ROCKS);
	assert_int_equal(
	    queue_find(x->side[FX_ROCKS].f, STR("q"))->lanes.groups.n, n);
	return n;
}

/* Portions until all is done; says how many. */
static int finish(struct fx *x)
{
	bool more = true;
	int n = 0;

	for (; more; n++) {
		fx_restart(x, (enum fx_side_id)(n % FX_SIDES));
		fx_maintain(x, OP_RELEASE, 0, &more);
	}
	return n;
}

static void expect(struct fx *x, int count, const char *expected)
{
	struct buf b = BUF_INIT(0);
	struct m_fetched job;

	for (int i = 0; i < count && fx_fetch(x, "q", &job); i++) {
		buf_printf(&b, "%s%.*s", i ? " " : "", STR_ARG(job.job_id));
		fx_restart(x, (enum fx_side_id)(i % FX_SIDES));
	}
	assert_str_is(b.n ? buf_str(&b) : STR(""), expected);
	buf_done(&b);
}

static void test_groups_without_settings_have_no_lanes(void **state)
{
	struct fx *x = *state;

	enqueue_rounds(x, 3);
	assert_int_equal(lanes_of(x), 0);
	assert_true(queue_of(x)->lanes.plain);
	expect(x, 4, "a1 b1 c1 a2");
	assert_int_equal(lanes_of(x), 0);
	assert_str_is(fx_job(x, "b2")->group, "b");
	expect(x, 9, "b2 c2 a3 b3 c3");
}

static void test_only_groups_with_settings_have_lanes(void **state)
{
	struct fx *x = *state;
	struct m_group_limit one = { 0 };
	struct m_set_queue m = { 0 }, gone = { 0 };
	struct str b = STR("b");

	enqueue_rounds(x, 3);
	MSG_SET(&one, group_limit, name, b);
	MSG_SET(&one, group_limit, max_concurrency, 1);
	MSG_SET_LIST(&m, set_queue, groups, &one, 1);
	set(x, &m);
	assert_int_equal(lanes_of(x), 1);
	expect(x, 4, "a1 b1 c1 a2");
	assert_int_equal(lanes_of(x), 1);
	expect(x, 2, "c2 a3"); /* b is at its limit */
	MSG_SET_LIST(&gone, set_queue, remove_groups, &b, 1);
	set(x, &gone);
	assert_int_equal(lanes_of(x), 0);
	expect(x, 9, "b2 b3 c3");
}

/* What workers hold already counts for a limit that is set later. */
static void test_active_jobs_count_for_a_later_limit(void **state)
{
	struct fx *x = *state;
	struct m_set_queue m = { 0 };
	struct m_ack ack = { 0 };

	enqueue_rounds(x, 2);
	expect(x, 2, "a1 b1");
	MSG_SET(&m, set_queue, group_max_concurrency, 1);
	set(x, &m);
	expect(x, 9, "c1");
	MSG_SET(&ack, ack, job_id, STR("b1"));
	assert_int_equal(fx_do(x, OP_ACK, &ack, NULL), 0);
	expect(x, 9, "b2");
}

static void test_a_queue_hands_out_nothing_while_its_jobs_part(void **state)
{
	struct fx *x = *state;

	for (int i = 1; i <= 40; i++)
		enqueue(x, "a", i);
	for (int i = 1; i <= 3; i++)
		enqueue(x, "b", i);
	fx_enqueue(x, "alone", "q");
	expect(x, 1, "a1");
	fx_set_budget(x, SMALL);
	set_fairness(x, FAIRNESS_GROUP);
	assert_true(queue_of(x)->lanes.parting);
	assert_int_equal(
	    fsm_queue_takeable(x->side[FX_MEM].f, STR("q"), x->now_ns), 0);
	fx_expect_none(x, "q");
	fx_job_op(x, OP_CANCEL, "a2", "cancelled");
	fx_job_op(x, OP_CANCEL, "b2", "cancelled");
	enqueue(x, "a", 41);
	enqueue(x, "c", 1);
	assert_true(finish(x) > 1);
	assert_false(queue_of(x)->lanes.mixed);
	assert_int_equal(lanes_of(x), 3);
	expect(x, 6, "a3 b1 alone c1 a4 b3");
}

static void test_jobs_come_back_in_order(void **state)
{
	struct fx *x = *state;

	set_fairness(x, FAIRNESS_GROUP);
	for (int i = 1; i <= 90; i++)
		enqueue(x, "a", i);
	for (int i = 1; i <= 3; i++)
		enqueue(x, "b", i);
	expect(x, 2, "a1 b1");
	fx_set_budget(x, SMALL);
	set_fairness(x, FAIRNESS_NONE);
	assert_true(regroup_is_due(x->side[FX_MEM].f));
	expect(x, 2, "a2 a3");
	fx_job_op(x, OP_CANCEL, "a4", "cancelled");
	fx_job_op(x, OP_CANCEL, "a90", "cancelled");
	enqueue(x, "a", 91);
	assert_true(finish(x) > 1);
	assert_int_equal(lanes_of(x), 0);
	assert_true(queue_of(x)->lanes.plain);
	expect(x, 2, "a5 a6");
	for (int i = 7; i < 90; i++) {
		char id[32];

		(void)snprintf(id, sizeof(id), "a%d", i);
		fx_expect(x, "q", id);
	}
	expect(x, 9, "b2 b3 a91");
}

static void test_a_higher_level_takes_lanes_away(void **state)
{
	struct fx *x = *state;

	enqueue_rounds(x, 20);
	expect(x, 2, "a1 b1");
	assert_int_equal(lanes_of(x), 3);
	fx_set_budget(x, SMALL);
	fx_raise_level(x);
	assert_true(finish(x) > 1);
	assert_int_equal(lanes_of(x), 0);
	expect(x, 3, "c1 a2 b2");
}

/* Clear removes all, wherever they are on their way to. */
static void test_clear_of_a_queue_whose_jobs_part(void **state)
{
	struct fx *x = *state;
	struct m_clear_queue m = { 0 };
	struct m_clear_queue_reply r = { .more = true };
	struct buf cursor = BUF_INIT(0);

	enqueue_rounds(x, 30);
	fx_set_budget(x, SMALL);
	set_fairness(x, FAIRNESS_GROUP);
	MSG_SET(&m, clear_queue, queue, STR("q"));
	for (int i = 0; r.more; i++) {
		assert_int_equal(fx_do(x, OP_CLEAR_QUEUE, &m, &r), 0);
		buf_clear(&cursor);
		buf_put_str(&cursor, r.cursor);
		MSG_SET(&m, clear_queue, cursor, buf_str(&cursor));
		MSG_SET(&m, clear_queue, upto_seq, r.upto_seq);
		fx_restart(x, (enum fx_side_id)(i % FX_SIDES));
	}
	assert_int_equal(queue_of(x)->counts[JOB_PENDING], 0);
	buf_done(&cursor);
}

/* Between two portions all jobs move to an index that clear is through with. */
static void test_clear_while_jobs_come_back(void **state)
{
	struct fx *x = *state;
	struct m_clear_queue m = { 0 };
	struct m_clear_queue_reply r = { .more = true };
	struct buf cursor = BUF_INIT(0);
	uint32_t cleared = 0;

	set_fairness(x, FAIRNESS_GROUP);
	enqueue_rounds(x, 30);
	fx_set_budget(x, SMALL);
	MSG_SET(&m, clear_queue, queue, STR("q"));
	for (int i = 0; r.more; i++) {
		assert_true(i < 90);
		assert_int_equal(fx_do(x, OP_CLEAR_QUEUE, &m, &r), 0);
		cleared += r.count;
		buf_clear(&cursor);
		buf_put_str(&cursor, r.cursor);
		MSG_SET(&m, clear_queue, cursor, buf_str(&cursor));
		MSG_SET(&m, clear_queue, upto_seq, r.upto_seq);
		MSG_SET(&m, clear_queue, regroups, r.regroups);
		if (i == 0) {
			assert_true(r.more && r.cursor.n > 0);
			fx_set_budget(x, LIMIT_ENTRY_BYTES);
			set_fairness(x, FAIRNESS_NONE);
			assert_false(regroup_is_due(x->side[FX_MEM].f));
			enqueue(x, "later", 1);
			fx_set_budget(x, SMALL);
		}
		fx_restart(x, (enum fx_side_id)(i % FX_SIDES));
	}
	assert_int_equal(cleared, 90);
	expect(x, 9, "later1");
	buf_done(&cursor);
}

/* Whatever is set and done, each job is handed out once and none is lost. */
static void test_settings_by_chance(void **state)
{
	struct fx *x = *state;
	struct rng rng;
	int in = 0, out = 0, gone = 0;
	bool more;

	test_rng(&rng);
	for (int i = 0; i < 1500; i++) {
		uint64_t what = rng_below(&rng, 100);
		struct m_fetched job;
		char id[32], group[8];

		(void)snprintf(group, sizeof(group), "g%d",
			       (int)rng_below(&rng, 6));
		(void)snprintf(id, sizeof(id), "%s%d", group,
			       (int)rng_below(&rng, (uint64_t)in + 1));
		x->unchecked = i % 25 != 0;
		fx_set_budget(x,
			      rng_below(&rng, 4) ? SMALL : LIMIT_ENTRY_BYTES);
		if (what < 55) {
			enqueue(x, group, in++);
		} else if (what < 75) {
			out += fx_fetch(x, "q", &job);
		} else if (what < 80) {
			if (fx_job_exists(x, id) &&
			    fx_job(x, id)->state == JOB_PENDING) {
				fx_job_op(x, OP_DELETE, id, "deleted");
				gone++;
			}
		} else if (what < 84 && in > 0) {
			set_fairness(x, rng_below(&rng, 2) ? FAIRNESS_GROUP
							   : FAIRNESS_NONE);
		} else if (what < 88 && in > 0) {
			struct m_group_limit one = { 0 };
			struct m_set_queue m = { 0 };
			struct str name = str_from(group);

			MSG_SET(&one, group_limit, name, name);
			MSG_SET(&one, group_limit, weight, 2);
			if (rng_below(&rng, 2))
				MSG_SET_LIST(&m, set_queue, groups, &one, 1);
			else
				MSG_SET_LIST(&m, set_queue, remove_groups,
					     &name, 1);
			set(x, &m);
		} else if (what < 94) {
			fx_maintain(x, OP_RELEASE, 0, &more);
		} else {
			fx_restart(x, (enum fx_side_id)rng_below(&rng, 2));
		}
	}
	x->unchecked = false;
	fx_set_budget(x, LIMIT_ENTRY_BYTES);
	finish(x);
	x->unchecked = true;
	for (struct m_fetched job; fx_fetch(x, "q", &job);)
		out++;
	x->unchecked = false;
	finish(x);
	assert_int_equal(in, out + gone);
	assert_int_equal(queue_of(x)->counts[JOB_PENDING], 0);
}

#define T(name) \
	cmocka_unit_test_setup_teardown(name, fx_setup_level, fx_teardown)

static void ack_job(struct fx *x, const char *id)
{
	struct m_ack m = { 0 };

	MSG_SET(&m, ack, job_id, str_from(id));
	assert_int_equal(fx_do(x, OP_ACK, &m, NULL), 0);
}

/*
 * Empty lanes that had more turns are kept up to a bound. One of them gets a
 * job in the entry in which another becomes one too many.
 */
static void test_a_lane_with_jobs_again_is_not_forgotten(void **state)
{
	size_t max = lanes_idle_max;
	struct fx *x = *state;
	struct m_enqueue back;
	struct m_ack m = { 0 };

	lanes_idle_max = 2;
	set_fairness(x, FAIRNESS_GROUP);
	for (int i = 0; i < 3; i++) {
		char group[2] = { (char)('a' + i), '\0' }, id[8];

		enqueue(x, group, 1);
		(void)snprintf(id, sizeof(id), "%s1", group);
		fx_expect(x, "q", id);
	}
	ack_job(x, "a1");
	ack_job(x, "b1");
	fx_begin(x);
	MSG_SET(&m, ack, job_id, STR("c1"));
	fx_add(x, OP_ACK, 0, &m);
	back = fx_new("a2", "q");
	MSG_SET(&back, enqueue, group, STR("a"));
	fx_add(x, OP_ENQUEUE, 0, &back);
	fx_commit(x);
	fx_restart(x, FX_ROCKS);
	fx_expect(x, "q", "a2");
	assert_true(queue_of(x)->lanes.idle.n <= lanes_idle_max);
	lanes_idle_max = max;
}

/* A job of each group is done, one after the other. */
static void one_each(struct fx *x, char groups[][17], size_t n)
{
	struct m_enqueue e;
	char id[24];

	for (size_t i = 0; i < n; i++) {
		(void)snprintf(id, sizeof(id), "j%zu", i);
		e = fx_new(id, "q");
		MSG_SET(&e, enqueue, group, str_from(groups[i]));
		assert_int_equal(fx_do(x, OP_ENQUEUE, &e, NULL), 0);
		fx_expect(x, "q", id);
	}
	for (size_t i = 0; i < n; i++) {
		(void)snprintf(id, sizeof(id), "j%zu", i);
		if (i + 1 == n)
			fx_restart(x, FX_ROCKS);
		ack_job(x, id);
	}
}

static void test_so_many_empty_lanes_are_kept(void **state)
{
	char groups[][17] = { "a", "b", "c", "d", "e" };
	size_t max = lanes_idle_max;
	struct fx *x = *state;

	lanes_idle_max = 3;
	set_fairness(x, FAIRNESS_GROUP);
	one_each(x, groups, ARRAY_SIZE(groups));
	assert_int_equal(lanes_of(x), 3);
	lanes_idle_max = max;
}

/* Whoever knows how names are hashed finds as many as they like: which of their
 * lanes is forgotten must not depend on memory. */
static void test_lanes_of_groups_of_the_same_hash_have_an_order(void **state)
{
	static const char order[] = "dbac";
	char groups[sizeof(order) - 1][17];
	size_t max = lanes_idle_max;
	struct fx *x = *state;

	for (size_t i = 0; i < ARRAY_SIZE(groups); i++)
		(void)snprintf(groups[i], sizeof(groups[i]),
			       "\x03\xed\x92\xd1\x32\x4a\xb5\xd1"
			       "group__%c",
			       order[i]);
	assert_int_equal(hash_stable(groups[0], 16),
			 hash_stable(groups[1], 16));
	lanes_idle_max = ARRAY_SIZE(groups) - 1;
	set_fairness(x, FAIRNESS_GROUP);
	one_each(x, groups, ARRAY_SIZE(groups));
	assert_int_equal(lanes_of(x), lanes_idle_max);
	lanes_idle_max = max;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_groups_without_settings_have_no_lanes),
		T(test_only_groups_with_settings_have_lanes),
		T(test_active_jobs_count_for_a_later_limit),
		T(test_a_queue_hands_out_nothing_while_its_jobs_part),
		T(test_jobs_come_back_in_order),
		cmocka_unit_test_setup_teardown(
		    test_a_higher_level_takes_lanes_away, fx_setup,
		    fx_teardown),
		T(test_clear_of_a_queue_whose_jobs_part),
		T(test_clear_while_jobs_come_back),
		T(test_settings_by_chance),
		T(test_a_lane_with_jobs_again_is_not_forgotten),
		T(test_so_many_empty_lanes_are_kept),
		T(test_lanes_of_groups_of_the_same_hash_have_an_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
