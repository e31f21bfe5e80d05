/*
 * Where dependencies meet groups, limits and caps of queues: a released job
 * comes into the lane of its group and under its limits, and a parent keeps
 * its place there when it is told that it has dependents.
 */
#include "deps_world.h"

/* Job `id` of queue "q" and that group, which waits for `deps`. */
static void add_in(struct fx *x, const char *group, const char *id,
		   const char *deps)
{
	struct want w = { .id = id, .deps = deps };
	struct m_enqueue m;

	fill(&w, &m);
	MSG_SET(&m, enqueue, group, str_from(group));
	if (fx_do(x, OP_ENQUEUE, &m, NULL) != 0)
		fail_msg("%.*s", STR_ARG(x->replies[0].body));
}

static void set_queue(struct fx *x, struct m_set_queue *m)
{
	MSG_SET(m, set_queue, queue, STR("q"));
	if (fx_do(x, OP_SET_QUEUE, m, NULL) != 0)
		fail_msg("%.*s", STR_ARG(x->replies[0].body));
}

static void set_fair(struct fx *x)
{
	struct m_set_queue m = { 0 };

	MSG_SET(&m, set_queue, fairness, FAIRNESS_GROUP);
	set_queue(x, &m);
}

static void test_released_job_takes_its_turn_in_its_group(void **state)
{
	struct fx *x = *state;

	set_fair(x);
	add_in(x, "g1", "a", NULL);
	add_in(x, "g1", "b", "a");
	add_in(x, "g1", "c", NULL);
	add_in(x, "g2", "d", NULL);
	restart_both(x);
	fx_expect(x, "q", "a");
	ack(x, "a");
	fx_expect(x, "q", "d"); /* the turn of g2 */
	fx_expect(x, "q", "b"); /* before c: it was created before */
	fx_expect(x, "q", "c");
}

static void test_pending_parent_of_a_group_is_not_taken_as_created(void **state)
{
	struct fx *x = *state;

	add_in(x, "g", "a", NULL);
	add_in(x, "g", "b", "a");
	run(x, "a");
	run(x, "b");
	add_in(x, "g", "c", NULL);
	add_in(x, "h", "d", "c");
	restart_both(x);
	run(x, "c");
	run(x, "d");
}

static void test_released_job_waits_for_a_slot_of_its_group(void **state)
{
	struct fx *x = *state;
	struct m_set_queue m = { 0 };

	MSG_SET(&m, set_queue, group_max_concurrency, 1);
	set_queue(x, &m);
	add_in(x, "g2", "a", NULL);
	add_in(x, "g", "holds", NULL);
	add_in(x, "g", "b", "a");
	fx_expect(x, "q", "a");
	fx_expect(x, "q", "holds");
	ack(x, "a");
	expect_waiting(x, "b", 0);
	fx_expect_none(x, "q");
	ack(x, "holds");
	run(x, "b");
}

static void test_released_jobs_keep_to_the_rate(void **state)
{
	struct fx *x = *state;
	struct m_set_queue m = { 0 };

	MSG_SET(&m, set_queue, rate, 2);
	MSG_SET(&m, set_queue, period, 60 * NS_PER_S);
	set_queue(x, &m);
	add(x, "a", NULL);
	add(x, "b", "a");
	add(x, "c", "a");
	run(x, "a");
	run(x, "b");
	fx_expect_none(x, "q");
	restart_both(x);
	x->now_ns += 121 * NS_PER_S;
	run(x, "c");
}

/* What waits for others is no backlog; released it goes over the cap. */
static void test_blocked_jobs_and_the_cap_of_a_queue(void **state)
{
	struct fx *x = *state;
	struct want w = { .id = "more" };
	struct m_set_queue m = { 0 };
	struct m_enqueue op;

	add(x, "a", NULL);
	add(x, "b", "a");
	add(x, "c", "a");
	MSG_SET(&m, set_queue, max_backlog, 1);
	set_queue(x, &m);
	fx_expect(x, "q", "a");
	ack(x, "a");
	fill(&w, &op);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &op, NULL), ERR_QUEUE_FULL);
	run(x, "b");
	run(x, "c");
	add(x, "more", NULL);
}

static void test_moved_active_parent_of_a_group(void **state)
{
	struct fx *x = *state;
	struct m_move move = { 0 };

	set_fair(x);
	add_in(x, "g", "a", NULL);
	add_in(x, "g", "b", "a");
	fx_expect(x, "q", "a");
	MSG_SET(&move, move, job_id, STR("a"));
	MSG_SET(&move, move, queue, STR("q9"));
	assert_int_equal(fx_do(x, OP_MOVE, &move, NULL), 0);
	restart_both(x);
	ack(x, "a");
	run(x, "b");
}

static void test_moved_dependent_of_a_group(void **state)
{
	struct fx *x = *state;
	struct m_move move = { 0 };

	set_fair(x);
	add_in(x, "g", "a", NULL);
	add_in(x, "g", "b", "a");
	MSG_SET(&move, move, job_id, STR("b"));
	MSG_SET(&move, move, queue, STR("q9"));
	assert_int_equal(fx_do(x, OP_MOVE, &move, NULL), 0);
	run(x, "a");
	fx_expect(x, "q9", "b");
	ack(x, "b");
}

static void test_grouped_dependents_die_with_their_queue(void **state)
{
	struct fx *x = *state;
	struct m_clear_queue m = { 0 };
	struct m_clear_queue_reply r;

	set_fair(x);
	add_in(x, "g", "a", NULL);
	add_in(x, "g", "b", "a");
	add_in(x, "h", "c", "b a");
	fx_expect(x, "q", "a");
	MSG_SET(&m, clear_queue, queue, STR("q"));
	do
		assert_int_equal(fx_do(x, OP_DELETE_QUEUE, &m, &r), 0);
	while (r.more);
	restart_both(x);
	assert_false(fx_job_exists(x, "c"));
	add_in(x, "g", "new", NULL);
	run(x, "new");
}

static void test_grouped_job_given_back_and_held(void **state)
{
	struct fx *x = *state;
	struct m_fail back = { 0 };
	struct m_hold hold = { 0 };

	set_fair(x);
	add_in(x, "g", "a", NULL);
	fx_expect(x, "q", "a");
	add_in(x, "g", "b", "a");
	MSG_SET(&back, fail, job_id, STR("a"));
	MSG_SET(&back, fail, requeue, true);
	assert_int_equal(fx_do(x, OP_FAIL, &back, NULL), 0);
	MSG_SET(&hold, hold, job_id, STR("a"));
	assert_int_equal(fx_do(x, OP_HOLD, &hold, NULL), 0);
	x->now_ns += 60 * NS_PER_S; /* the group is forgotten meanwhile */
	fx_enqueue(x, "other", "elsewhere");
	fx_job_op(x, OP_APPROVE, "a", "pending");
	run(x, "a");
	run(x, "b");
}

#define TEST(t)                                                    \
	cmocka_unit_test_setup_teardown(t, fx_setup, fx_teardown), \
	    cmocka_unit_test_setup_teardown(t, fx_setup_level, fx_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_released_job_takes_its_turn_in_its_group),
		TEST(test_pending_parent_of_a_group_is_not_taken_as_created),
		TEST(test_released_job_waits_for_a_slot_of_its_group),
		TEST(test_released_jobs_keep_to_the_rate),
		TEST(test_blocked_jobs_and_the_cap_of_a_queue),
		TEST(test_moved_active_parent_of_a_group),
		TEST(test_moved_dependent_of_a_group),
		TEST(test_grouped_dependents_die_with_their_queue),
		TEST(test_grouped_job_given_back_and_held),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
