/*
 * Groups: order with and without fairness, shares by weight, limits and pauses
 * of single groups, and that lanes come and go without a trace. Every test
 * goes through restarts of one side, whose replies must stay the same.
 */
#include "fsm/core/state.h"
#include "fsm/job/job.h"
#include "fsm/order/lane.h"
#include "fsm/order/queue.h"
#include "fsm_fixture.h"

static void enqueue(struct fx *x, const char *id, const char *group,
		    enum priority p)
{
	struct m_enqueue m = { 0 };

	MSG_SET(&m, enqueue, job_id, str_from(id));
	MSG_SET(&m, enqueue, queue, STR("q"));
	MSG_SET(&m, enqueue, priority, p);
	if (group != NULL)
		MSG_SET(&m, enqueue, group, str_from(group));
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
}

/* Ids "<group><number>", normal priority. */
static void enqueue_n(struct fx *x, const char *group, int first, int n)
{
	char id[32];

	for (int i = first; i < first + n; i++) {
		(void)snprintf(id, sizeof(id), "%s%d", group, i);
		enqueue(x, id, group, PRIORITY_NORMAL);
	}
}

static void set(struct fx *x, struct m_set_queue *m)
{
	MSG_SET(m, set_queue, queue, STR("q"));
	assert_int_equal(fx_do(x, OP_SET_QUEUE, m, NULL), 0);
}

static void set_fair(struct fx *x)
{
	struct m_set_queue m = { 0 };

	MSG_SET(&m, set_queue, fairness, FAIRNESS_GROUP);
	set(x, &m);
}

static void ack(struct fx *x, const char *id)
{
	struct m_ack m = { 0 };

	MSG_SET(&m, ack, job_id, str_from(id));
	assert_int_equal(fx_do(x, OP_ACK, &m, NULL), 0);
}

/* Fetches one by one and says what came, until count or nothing is left. */
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

static struct fsm_queue *queue_of(struct fx *x)
{
	return queue_find(x->side[FX_MEM].f, STR("q"));
}

static void test_a_group_alone_changes_nothing(void **state)
{
	struct fx *x = *state;
	struct m_fetched job;

	enqueue(x, "j1", "a", PRIORITY_NORMAL);
	enqueue(x, "j2", NULL, PRIORITY_NORMAL);
	enqueue(x, "j3", "b", PRIORITY_NORMAL);
	enqueue(x, "j4", "a", PRIORITY_CRITICAL);
	enqueue(x, "j5", NULL, PRIORITY_HIGH);
	expect(x, 4, "j4 j5 j1 j2");
	assert_true(fx_fetch(x, "q", &job));
	assert_str_is(job.job_id, "j3");
	assert_str_is(job.group, "b");
	fx_expect_none(x, "q");
}

static void test_several_queues_with_groups_in_order_of_creation(void **state)
{
	struct fx *x = *state;
	struct str queues[] = { STR("other"), STR("q") };
	struct m_fetch m = { 0 };
	struct m_fetch_reply r;
	static const char *const ids[] = { "j1", "o1", "j2", "o2" };

	enqueue(x, "j1", "a", PRIORITY_NORMAL);
	fx_enqueue(x, "o1", "other");
	enqueue(x, "j2", "b", PRIORITY_NORMAL);
	fx_enqueue(x, "o2", "other");
	MSG_SET_LIST(&m, fetch, queues, queues, 2);
	MSG_SET(&m, fetch, count, 10);
	assert_int_equal(fx_do(x, OP_FETCH, &m, &r), 0);
	assert_int_equal(r.jobs_n, 4);
	for (size_t i = 0; i < 4; i++)
		assert_str_is(r.jobs[i].job_id, ids[i]);
}

static void test_fair_groups_take_turns(void **state)
{
	struct fx *x = *state;

	set_fair(x);
	enqueue_n(x, "a", 1, 4);
	enqueue_n(x, "b", 1, 2);
	enqueue(x, "j1", NULL, PRIORITY_NORMAL);
	expect(x, 4, "a1 b1 j1 a2");
	/* a group that comes later is next, but cannot make up for the past */
	enqueue_n(x, "c", 1, 3);
	expect(x, 10, "c1 b2 a3 c2 a4 c3");
}

static void test_fair_shares_by_weight(void **state)
{
	struct fx *x = *state;
	struct m_group_limit groups[2] = { 0 };
	struct m_set_queue m = { 0 };
	struct m_fetched job;
	int got[2] = { 0 };

	x->unchecked = true;
	MSG_SET(&groups[0], group_limit, name, STR("a"));
	MSG_SET(&groups[0], group_limit, weight, 3);
	MSG_SET(&m, set_queue, fairness, FAIRNESS_GROUP);
	MSG_SET_LIST(&m, set_queue, groups, groups, 1);
	set(x, &m);
	enqueue_n(x, "a", 100, 200);
	enqueue_n(x, "b", 100, 200);
	for (int i = 0; i < 100; i++) {
		assert_true(fx_fetch(x, "q", &job));
		got[job.job_id.p[0] - 'a']++;
		if (i % 10 == 0)
			fx_restart(x, (enum fx_side_id)(i / 10 % FX_SIDES));
		assert_true(got[0] >= 3 * got[1] - 3);
		assert_true(got[0] <= 3 * got[1] + 3);
	}
	fx_check_side(&x->side[FX_MEM]);
}

/* Serving a group's only job must not give it a new share. */
static void test_a_small_group_cannot_win_turns_by_emptying(void **state)
{
	struct fx *x = *state;
	struct m_group_limit heavy = { 0 };
	struct m_set_queue m = { 0 };
	struct m_fetched job;
	int small = 0;
	char id[32];

	x->unchecked = true;
	MSG_SET(&heavy, group_limit, name, STR("heavy"));
	MSG_SET(&heavy, group_limit, weight, 10);
	MSG_SET(&m, set_queue, fairness, FAIRNESS_GROUP);
	MSG_SET_LIST(&m, set_queue, groups, &heavy, 1);
	set(x, &m);
	enqueue_n(x, "heavy", 1, 120);
	enqueue(x, "s0", "small", PRIORITY_NORMAL);
	for (int i = 0; i < 110; i++) {
		assert_true(fx_fetch(x, "q", &job));
		(void)snprintf(id, sizeof(id), "%.*s", STR_ARG(job.job_id));
		ack(x, id);
		if (id[0] == 's') {
			(void)snprintf(id, sizeof(id), "s%d", ++small);
			enqueue(x, id, "small", PRIORITY_NORMAL);
		}
		if (i % 7 == 0)
			fx_restart(x, FX_ROCKS);
	}
	assert_int_equal(small, 10);
}

static void test_priority_goes_before_turns(void **state)
{
	struct fx *x = *state;

	set_fair(x);
	enqueue_n(x, "a", 1, 2);
	enqueue_n(x, "b", 1, 1);
	enqueue(x, "A1", "a", PRIORITY_CRITICAL);
	enqueue(x, "A2", "a", PRIORITY_CRITICAL);
	expect(x, 10, "A1 A2 b1 a1 a2");
}

static void test_concurrency_of_each_group(void **state)
{
	struct fx *x = *state;
	struct m_set_queue m = { 0 };

	MSG_SET(&m, set_queue, group_max_concurrency, 2);
	set(x, &m);
	enqueue_n(x, "a", 1, 4);
	enqueue_n(x, "b", 1, 3);
	enqueue(x, "j1", NULL, PRIORITY_NORMAL);
	enqueue(x, "j2", NULL, PRIORITY_NORMAL);
	enqueue(x, "j3", NULL, PRIORITY_NORMAL);
	/* a limit of groups is none of jobs without one */
	expect(x, 20, "a1 a2 b1 b2 j1 j2 j3");
	assert_int_equal(
	    fsm_queue_takeable(x->side[FX_MEM].f, STR("q"), x->now_ns), 0);
	ack(x, "b2");
	assert_int_equal(
	    fsm_queue_takeable(x->side[FX_MEM].f, STR("q"), x->now_ns), 1);
	expect(x, 20, "b3");
	ack(x, "a1");
	ack(x, "a2");
	expect(x, 20, "a3 a4");
}

static void test_every_end_of_an_attempt_frees_its_slot(void **state)
{
	struct fx *x = *state;
	struct m_set_queue m = { 0 };
	struct m_fail fail = { 0 };

	MSG_SET(&m, set_queue, group_max_concurrency, 1);
	set(x, &m);
	enqueue_n(x, "a", 1, 5);
	expect(x, 9, "a1");
	MSG_SET(&fail, fail, job_id, STR("a1"));
	MSG_SET(&fail, fail, retry, false);
	assert_int_equal(fx_do(x, OP_FAIL, &fail, NULL), 0);
	expect(x, 9, "a2");
	fx_job_op(x, OP_CANCEL, "a2", "cancelling");
	expect(x, 9, "");
	x->now_ns += 61 * NS_PER_S;
	fx_maintain(x, OP_RECLAIM, 100, NULL); /* and ends cancelled */
	expect(x, 9, "a3");
	fx_job_op(x, OP_DELETE, "a3", "deleted");
	expect(x, 9, "a4");
	MSG_SET(&fail, fail, job_id, STR("a4"));
	MSG_SET(&fail, fail, retry, true);
	MSG_SET(&fail, fail, requeue, true);
	assert_int_equal(fx_do(x, OP_FAIL, &fail, NULL), 0);
	expect(x, 9, "a4");
}

static void test_limits_of_single_groups_win(void **state)
{
	struct fx *x = *state;
	struct m_group_limit groups[2] = { 0 };
	struct m_set_queue m = { 0 };

	MSG_SET(&m, set_queue, group_max_concurrency, 1);
	MSG_SET(&groups[0], group_limit, name, STR("a"));
	MSG_SET(&groups[0], group_limit, max_concurrency, 3);
	MSG_SET(&groups[1], group_limit, name, STR("b"));
	MSG_SET(&groups[1], group_limit, paused, true);
	MSG_SET_LIST(&m, set_queue, groups, groups, 2);
	set(x, &m);
	enqueue_n(x, "a", 1, 4);
	enqueue_n(x, "b", 1, 2);
	enqueue_n(x, "c", 1, 2);
	expect(x, 20, "a1 a2 a3 c1");
	/* resumed by taking its limits away */
	m = (struct m_set_queue){ 0 };
	MSG_SET_LIST(&m, set_queue, remove_groups, &groups[1].name, 1);
	set(x, &m);
	expect(x, 20, "b1");
}

static void test_group_by_tag(void **state)
{
	struct fx *x = *state;
	static const struct {
		const char *tags, *group;
	} rows[] = {
		{ "{\"customer\":\"acme\"}", "acme" },
		{ "{\"x\":1, \"customer\":42}", "42" },
		{ "{\"customer\":\"a\\u0062c\"}", "abc" },
		{ "{\"customer\":\"a\\u0000c\"}", "" },
		{ "{\"customer\":true}", "" },
		{ "{\"customer\":\"\"}", "" },
		{ "{\"Customer\":\"acme\"}", "" },
		{ "{}", "" },
		{ NULL, "" },
	};
	struct m_set_queue s = { 0 };

	MSG_SET(&s, set_queue, group_tag, STR("customer"));
	set(x, &s);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct m_enqueue m = { 0 };
		struct m_fetched job;
		char id[16];

		(void)snprintf(id, sizeof(id), "j%zu", i);
		MSG_SET(&m, enqueue, job_id, str_from(id));
		MSG_SET(&m, enqueue, queue, STR("q"));
		if (rows[i].tags != NULL)
			MSG_SET(&m, enqueue, tags, str_from(rows[i].tags));
		assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
		assert_true(fx_fetch(x, "q", &job));
		assert_str_is(job.group.n ? job.group : STR(""), rows[i].group);
	}
}

static void test_a_group_must_fit(void **state)
{
	struct fx *x = *state;
	struct m_enqueue m = { 0 };

	MSG_SET(&m, enqueue, job_id, STR("j1"));
	MSG_SET(&m, enqueue, queue, STR("q"));
	MSG_SET(&m, enqueue, group, str_of("a\0b", 3));
	fx_refused(x, OP_ENQUEUE, &m, ERR_VALIDATION_ERROR,
		   "group: must have 1 to 255 bytes and no NUL");
}

static void test_jobs_come_back_to_their_lane(void **state)
{
	struct fx *x = *state;
	struct m_move move = { 0 };
	struct m_set_priority prio = { 0 };
	struct m_set_queue s = { 0 };

	MSG_SET(&s, set_queue, group_max_concurrency, 1);
	set(x, &s);
	enqueue_n(x, "a", 1, 3);
	fx_job_op(x, OP_CANCEL, "a1", "cancelled");
	fx_job_op(x, OP_RETRY, "a1", "retried"); /* at the end now */
	MSG_SET(&prio, set_priority, job_id, STR("a3"));
	MSG_SET(&prio, set_priority, priority, PRIORITY_CRITICAL);
	assert_int_equal(fx_do(x, OP_PRIORITY, &prio, NULL), 0);
	expect(x, 9, "a3");
	ack(x, "a3");
	MSG_SET(&move, move, job_id, STR("a2"));
	MSG_SET(&move, move, queue, STR("other"));
	assert_int_equal(fx_do(x, OP_MOVE, &move, NULL), 0);
	expect(x, 9, "a1");
	fx_expect(x, "other", "a2"); /* still of its group */
	assert_str_is(fx_job(x, "a2")->group, "a");
}

static void test_lanes_leave_no_trace(void **state)
{
	struct fx *x = *state;
	char id[32], group[32];

	for (int i = 0; i < 50; i++) {
		(void)snprintf(id, sizeof(id), "j%d", i);
		(void)snprintf(group, sizeof(group), "g%d", i);
		enqueue(x, id, group, PRIORITY_NORMAL);
		assert_int_equal(queue_of(x)->lanes.groups.n, 1);
		fx_expect(x, "q", id);
		ack(x, id);
		assert_int_equal(queue_of(x)->lanes.groups.n, 0);
	}
	assert_true(queue_of(x)->lanes.plain);
}

/* With fairness a lane is kept until the others have caught up. */
static void test_fair_lanes_leave_when_time_has_passed_them(void **state)
{
	struct fx *x = *state;

	set_fair(x);
	enqueue_n(x, "a", 1, 4);
	enqueue_n(x, "b", 1, 1);
	expect(x, 2, "a1 b1");
	ack(x, "b1");
	assert_int_equal(queue_of(x)->lanes.groups.n, 2);
	expect(x, 2, "a2 a3");
	assert_int_equal(queue_of(x)->lanes.groups.n, 1);
}

static void test_stale_places_are_met_and_left(void **state)
{
	struct fx *x = *state;

	enqueue_n(x, "a", 1, 3);
	enqueue_n(x, "b", 1, 3);
	fx_job_op(x, OP_DELETE, "a1", "deleted");
	fx_job_op(x, OP_DELETE, "a2", "deleted");
	fx_job_op(x, OP_CANCEL, "b1", "cancelled");
	expect(x, 9, "a3 b2 b3");
	enqueue_n(x, "a", 4, 1);
	fx_job_op(x, OP_DELETE, "a4", "deleted");
	expect(x, 9, "");
}

/*
 * "left" is remembered as the first of its lane, and the turn is the lane's.
 * Its place must not be weighed against that of another queue's job: a replica
 * that has been restarted does not remember it.
 */
static void test_a_job_that_left_does_not_stand_for_its_queue(void **state)
{
	struct str queues[] = { STR("q"), STR("other") };
	struct m_enqueue between = fx_new("between", "other");
	struct m_fetch m = { 0 };
	struct m_fetch_reply r;
	struct fx *x = *state;

	set_fair(x);
	enqueue(x, "before", NULL, PRIORITY_HIGH);
	expect(x, 1, "before"); /* the next turn is that of a group */
	enqueue(x, "first", NULL, PRIORITY_HIGH);
	MSG_SET(&between, enqueue, priority, PRIORITY_HIGH);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &between, NULL), 0);
	enqueue(x, "left", "g", PRIORITY_HIGH);
	enqueue(x, "stays", "g", PRIORITY_NORMAL);
	fx_job_op(x, OP_CANCEL, "left", "cancelled");
	fx_restart(x, FX_ROCKS);
	MSG_SET_LIST(&m, fetch, queues, queues, 2);
	assert_int_equal(fx_do(x, OP_FETCH, &m, &r), 0);
	assert_int_equal(r.jobs_n, 1);
	assert_str_is(r.jobs[0].job_id, "first");
}

/* --- many lanes that go at once --- */

#define SAME_GROUPS (LIMIT_MAINTAIN_JOBS * 2 / 5)

/* A job of each group comes and goes; the rate remembers the groups. */
static void use_groups(struct fx *x, const char *queue)
{
	struct m_enqueue *jobs = xcalloc(SAME_GROUPS, sizeof(*jobs));
	struct m_ack_item *acks = xcalloc(SAME_GROUPS, sizeof(*acks));
	struct str name = str_from(queue);
	struct m_enqueue_batch all = { 0 };
	struct m_ack_batch done = { 0 };
	struct m_set_queue set_rate = { 0 };
	struct m_fetch fetch = { 0 };
	struct arena a = { 0 };

	MSG_SET(&set_rate, set_queue, queue, name);
	MSG_SET(&set_rate, set_queue, group_rate, 5);
	MSG_SET(&set_rate, set_queue, group_period, NS_PER_S);
	assert_int_equal(fx_do(x, OP_SET_QUEUE, &set_rate, NULL), 0);
	for (int i = 0; i < SAME_GROUPS; i++) {
		struct str id = arena_printf(&a, "%s%d", queue, i);

		MSG_SET(&jobs[i], enqueue, job_id, id);
		MSG_SET(&jobs[i], enqueue, queue, name);
		MSG_SET(&jobs[i], enqueue, group, arena_printf(&a, "g%d", i));
		MSG_SET(&acks[i], ack_item, job_id, id);
	}
	MSG_SET_LIST(&all, enqueue_batch, jobs, jobs, SAME_GROUPS);
	assert_int_equal(fx_do(x, OP_ENQUEUE_BATCH, &all, NULL), 0);
	MSG_SET_LIST(&fetch, fetch, queues, &name, 1);
	MSG_SET(&fetch, fetch, count, SAME_GROUPS);
	assert_int_equal(fx_do(x, OP_FETCH, &fetch, NULL), 0);
	MSG_SET_LIST(&done, ack_batch, acks, acks, SAME_GROUPS);
	assert_int_equal(fx_do(x, OP_ACK_BATCH, &done, NULL), 0);
	arena_done(&a);
	free(jobs);
	free(acks);
}

/* One entry forgets so many and no more: which, must not depend on memory. */
static void test_replicas_forget_the_same_lanes_of_several_queues(void **state)
{
	struct fx *x = *state;

	x->unchecked = true;
	use_groups(x, "a");
	use_groups(x, "b");
	use_groups(x, "c");
	fx_restart(x, FX_ROCKS);
	x->now_ns += 10 * NS_PER_S;
	x->unchecked = false;
	fx_enqueue(x, "job_1", "q");
	fx_enqueue(x, "job_2", "q");
	assert_int_equal(x->side[FX_MEM].f->idle.n, 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, fx_setup, fx_teardown)

/* Groups that nothing is set for have lanes only at the first level. */
#define T2(name) \
	T(name), \
	    cmocka_unit_test_setup_teardown(name, fx_setup_level, fx_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T2(test_a_group_alone_changes_nothing),
		T2(test_several_queues_with_groups_in_order_of_creation),
		T2(test_fair_groups_take_turns),
		T2(test_fair_shares_by_weight),
		T2(test_a_small_group_cannot_win_turns_by_emptying),
		T2(test_priority_goes_before_turns),
		T2(test_concurrency_of_each_group),
		T2(test_every_end_of_an_attempt_frees_its_slot),
		T2(test_limits_of_single_groups_win),
		T2(test_group_by_tag),
		T2(test_a_group_must_fit),
		T2(test_jobs_come_back_to_their_lane),
		T(test_lanes_leave_no_trace),
		T2(test_fair_lanes_leave_when_time_has_passed_them),
		T2(test_stale_places_are_met_and_left),
		T2(test_a_job_that_left_does_not_stand_for_its_queue),
		T2(test_replicas_forget_the_same_lanes_of_several_queues),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
