/*
 * Jobs that wait for jobs: released dependents stand where their creation puts
 * them, and a blocked job is not in the order at all; what a parent's end does
 * to its children, and what is refused.
 */
#include "deps_world.h"

/* --- waiting and being released --- */

static void test_job_waits_until_all_it_depends_on_completed(void **state)
{
	struct fx *x = *state;

	add(x, "a", NULL);
	add(x, "b", NULL);
	add(x, "c", "a b a"); /* the repetition counts once */
	expect_waiting(x, "c", 2);
	assert_int_equal(fx_job(x, "c")->depends_on_n, 2);
	run(x, "a");
	expect_waiting(x, "c", 1);
	fx_expect(x, "q", "b");
	fx_expect_none(x, "q");
	restart_both(x);
	ack(x, "b");
	expect_waiting(x, "c", 0);
	fx_timeline(x, "c", "enqueued released");
	run(x, "c");
}

static void
test_released_dependent_stands_where_its_creation_puts_it(void **state)
{
	struct fx *x = *state;

	add(x, "a", NULL);
	add(x, "child", "a");
	add(x, "later", NULL);
	run(x, "a");
	run(x, "child");
	run(x, "later");
}

static void
test_scheduled_dependent_waits_for_its_time_after_release(void **state)
{
	struct fx *x = *state;
	struct want w = { .id = "c", .deps = "a" };
	struct m_enqueue m;

	add(x, "a", NULL);
	fill(&w, &m);
	MSG_SET(&m, enqueue, scheduled_at, x->now_ns + 10 * NS_PER_S);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
	expect_waiting(x, "c", 1);
	run(x, "a");
	fx_expect_state(x, "c", JOB_SCHEDULED);
	x->now_ns += 10 * NS_PER_S;
	assert_int_equal(fx_maintain(x, OP_PROMOTE, 0, NULL), 1);
	run(x, "c");
}

static void
test_dependent_whose_time_has_come_meanwhile_is_pending(void **state)
{
	struct fx *x = *state;
	struct want w = { .id = "c", .deps = "a" };
	struct m_enqueue m;

	add(x, "a", NULL);
	fill(&w, &m);
	MSG_SET(&m, enqueue, scheduled_at, x->now_ns + NS_PER_S);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
	x->now_ns += 10 * NS_PER_S;
	assert_int_equal(fx_maintain(x, OP_PROMOTE, 0, NULL), 0);
	run(x, "a");
	run(x, "c");
}

static void test_completed_parent_counts_as_met(void **state)
{
	struct fx *x = *state;

	add(x, "a", NULL);
	run(x, "a");
	add(x, "b", "a");
	expect_waiting(x, "b", 0);
	run(x, "b");
}

/* Parents in every state that is no end. */
static void test_parents_in_every_waiting_state(void **state)
{
	struct fx *x = *state;
	struct m_enqueue m = { 0 };
	struct m_fail fail = { 0 };

	add(x, "retrying", NULL);
	fx_expect(x, "q", "retrying");
	MSG_SET(&fail, fail, job_id, STR("retrying"));
	assert_int_equal(fx_do(x, OP_FAIL, &fail, NULL), 0);
	add(x, "active", NULL);
	fx_expect(x, "q", "active");
	MSG_SET(&m, enqueue, job_id, STR("scheduled"));
	MSG_SET(&m, enqueue, queue, STR("q"));
	MSG_SET(&m, enqueue, scheduled_at, x->now_ns + 60 * NS_PER_S);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
	add(x, "pending", NULL);
	add(x, "blocked", "pending");
	add(x, "c", "retrying active scheduled pending blocked");
	expect_waiting(x, "c", 5);
	restart_both(x);
	ack(x, "active");
	run(x, "pending");
	run(x, "blocked");
	expect_waiting(x, "c", 2);
	x->now_ns += 60 * NS_PER_S;
	assert_int_equal(fx_maintain(x, OP_PROMOTE, 0, NULL), 2);
	run(x, "retrying");
	run(x, "scheduled");
	run(x, "c");
}

/* A pending job that gets its first dependent is no longer as created: what
 * its window and its key remember may not bring the old record back. */
static void test_pending_parent_is_not_taken_as_created(void **state)
{
	struct fx *x = *state;

	add(x, "a", NULL);
	add(x, "b", "a");
	run(x, "a"); /* by its window */
	run(x, "b");
	add(x, "c", NULL);
	add(x, "d", "c");
	restart_both(x);
	run(x, "c"); /* by its key */
	run(x, "d");
}

/* One txn creates, marks and takes the parent. */
static void
test_parent_created_and_marked_before_it_was_ever_written(void **state)
{
	struct fx *x = *state;

	x->unchecked = true;
	for (int i = 0; i < FX_SIDES; i++)
		fsm_write_behind(x->side[i].f, 1u << 30);
	add(x, "a", NULL);
	add(x, "b", "a");
	fx_expect(x, "q", "a");
	ack(x, "a");
	for (int i = 0; i < FX_SIDES; i++) {
		assert_int_equal(fsm_flush(x->side[i].f), 0);
		fsm_write_behind(x->side[i].f, 0);
	}
	x->unchecked = false;
	run(x, "b");
}

static void test_diamond(void **state)
{
	struct fx *x = *state;
	struct want w[] = { { .id = "end", .deps = "#1 #2" },
			    { .id = "left", .deps = "#3" },
			    { .id = "right", .deps = "#3" },
			    { .id = "start" } };

	add_all(x, w, ARRAY_SIZE(w));
	assert_str_is(fx_job(x, "end")->depends_on[0], "left");
	assert_str_is(fx_job(x, "end")->depends_on[1], "right");
	expect_waiting(x, "end", 2);
	run(x, "start");
	run(x, "left");
	fx_expect(x, "q", "right");
	fx_expect_none(x, "q");
	ack(x, "right");
	run(x, "end");
}

/* --- failed parents --- */

static void test_dead_parent_fails_its_dependents_with_the_reason(void **state)
{
	struct fx *x = *state;

	add(x, "a", NULL);
	add(x, "b", "a");
	add_ignoring(x, "i", "a");
	kill(x, "a");
	expect_error(x, "b", "dependency a failed: dead");
	fx_timeline(x, "b", "enqueued dependency_failed dead");
	expect_waiting(x, "b", 0);
	run(x, "i");
}

static void test_cancelled_parent_resolves_by_policy(void **state)
{
	struct fx *x = *state;

	add(x, "a", NULL);
	add(x, "b", "a");
	add_ignoring(x, "i", "a");
	fx_job_op(x, OP_CANCEL, "a", "cancelled");
	expect_error(x, "b", "dependency a failed: cancelled");
	run(x, "i");
}

static void test_deleted_parent_resolves_by_policy(void **state)
{
	struct fx *x = *state;

	add(x, "a", NULL);
	add(x, "b", "a");
	add_ignoring(x, "i", "a");
	fx_job_op(x, OP_DELETE, "a", "deleted");
	expect_error(x, "b", "dependency a failed: deleted");
	run(x, "i");
}

static void test_expired_parent_resolves_by_policy(void **state)
{
	struct fx *x = *state;
	struct m_enqueue m = { 0 };

	MSG_SET(&m, enqueue, job_id, STR("a"));
	MSG_SET(&m, enqueue, queue, STR("q"));
	MSG_SET(&m, enqueue, expire_after, NS_PER_S);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
	add(x, "b", "a");
	add_ignoring(x, "i", "a");
	x->now_ns += 2 * NS_PER_S;
	assert_int_equal(fx_maintain(x, OP_EXPIRE, 0, NULL), 1);
	expect_error(x, "b", "dependency a failed: dead");
	run(x, "i");
}

static void
test_parent_that_failed_before_kills_the_new_job_at_once(void **state)
{
	struct fx *x = *state;

	add(x, "other", NULL);
	fx_job_op(x, OP_CANCEL, "other", "cancelled");
	add(x, "alive", NULL);
	assert_int_equal(
	    add_want(x, (struct want){ .id = "b", .deps = "alive other" }),
	    JOB_DEAD);
	expect_error(x, "b", "dependency other failed: cancelled");
	fx_timeline(x, "b", "enqueued dependency_failed dead");
	assert_int_equal(fx_job(x, "b")->depends_on_n, 2);
	add_ignoring(x, "i", "other");
	run(x, "alive");
	run(x, "i");
}

static void test_failure_reaches_jobs_of_the_same_request(void **state)
{
	struct fx *x = *state;
	struct want w[] = { { .id = "c", .deps = "#1" },
			    { .id = "b", .deps = "dead" },
			    { .id = "d", .deps = "#0", .ignore = true } };

	add(x, "dead", NULL);
	kill(x, "dead");
	add_all(x, w, ARRAY_SIZE(w));
	expect_error(x, "b", "dependency dead failed: dead");
	expect_error(x, "c", "dependency b failed: dead");
	run(x, "d");
}

static void test_retried_dependent_runs_without_its_dependencies(void **state)
{
	struct fx *x = *state;

	add(x, "a", NULL);
	add(x, "a2", NULL);
	add(x, "b", "a a2");
	kill(x, "a");
	expect_waiting(x, "b", 0);
	fx_job_op(x, OP_RETRY, "b", "retried");
	run(x, "a2");
	run(x, "b");
}

static void test_retried_parent_tells_only_new_dependents(void **state)
{
	struct fx *x = *state;

	add(x, "a", NULL);
	add(x, "b", "a");
	kill(x, "a");
	fx_expect_state(x, "b", JOB_DEAD);
	fx_job_op(x, OP_RETRY, "a", "retried");
	add(x, "c", "a");
	run(x, "a");
	fx_expect_state(x, "b", JOB_DEAD);
	run(x, "c");
}

/* --- children that leave --- */

static void test_ended_dependent_is_forgotten_by_its_parents(void **state)
{
	struct fx *x = *state;
	struct want w = { .id = "expires", .deps = "a" };
	struct m_enqueue m;

	add(x, "a", NULL);
	add(x, "gone", "a");
	add(x, "cancelled", "a");
	fill(&w, &m);
	MSG_SET(&m, enqueue, expire_after, NS_PER_S);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
	fx_job_op(x, OP_DELETE, "gone", "deleted");
	fx_job_op(x, OP_CANCEL, "cancelled", "cancelled");
	x->now_ns += 2 * NS_PER_S;
	assert_int_equal(fx_maintain(x, OP_EXPIRE, 0, NULL), 1);
	expect_error(x, "expires", "job expired");
	run(x, "a");
	fx_expect_none(x, "q");
	fx_timeline(x, "cancelled", "enqueued cancelled");
	fx_timeline(x, "expires", "enqueued expired dead");
}

/* --- refusals --- */

static void test_unknown_ids_are_refused(void **state)
{
	struct fx *x = *state;
	struct want w[] = { { .id = "b" }, { .id = "c", .deps = "a nope" } };

	add(x, "a", NULL);
	refuse(x, "a nope", "depends_on: job \"nope\" not found");
	refuse(x, "new", "depends_on: job \"new\" not found");
	refuse_all(x, w, 2, "jobs[1].depends_on: job \"nope\" not found");
}

static void test_positions_outside_the_request_are_refused(void **state)
{
	struct fx *x = *state;
	struct want w[] = { { .id = "b" }, { .id = "c", .deps = "#2" } };

	refuse(x, "#1",
	       "depends_on: \"#1\" is no job of this request; they are #0 to "
	       "#0");
	refuse(x, "#0", "depends_on: \"#0\" is the job itself");
	refuse_all(x, w, 2,
		   "jobs[1].depends_on: \"#2\" is no job of this request; they "
		   "are #0 to #1");
	w[1].deps = "#x";
	refuse_all(x, w, 2,
		   "jobs[1].depends_on: \"#x\" is no job of this request; they "
		   "are #0 to #1");
	w[1].deps = "#1";
	refuse_all(x, w, 2, "jobs[1].depends_on: \"#1\" is the job itself");
}

static void test_cycles_are_refused(void **state)
{
	struct fx *x = *state;
	struct want w[] = { { .id = "a" },
			    { .id = "b", .deps = "#0 #3" },
			    { .id = "c", .deps = "#1" },
			    { .id = "d", .deps = "#2" } };

	refuse_all(x, w, 4,
		   "jobs[1].depends_on: the job would wait for ever: its "
		   "dependencies form a cycle");
	w[1].deps = "#0";
	add_all(x, w, 4);
}

/* The second job with a key is the first one. */
static void test_cycle_by_way_of_a_duplicate_is_refused(void **state)
{
	struct fx *x = *state;
	struct want w[] = { { .id = "a", .deps = "#1" },
			    { .id = "b", .deps = "#2" },
			    { .id = "c" } };
	struct m_enqueue jobs[3];
	struct m_enqueue_batch m;

	fill_all(w, jobs, 3, &m);
	MSG_SET(&jobs[0], enqueue, unique_key, STR("k"));
	MSG_SET(&jobs[2], enqueue, unique_key, STR("k"));
	fx_refused(x, OP_ENQUEUE_BATCH, &m, ERR_VALIDATION_ERROR,
		   "jobs[0].depends_on: the job would wait for ever: its "
		   "dependencies form a cycle");
}

static void test_too_many_dependencies_are_refused(void **state)
{
	struct fx *x = *state;
	struct str ids[LIMIT_DEPENDENCIES + 1];
	struct m_enqueue m = { 0 };

	add(x, "a", NULL);
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		ids[i] = STR("a");
	MSG_SET(&m, enqueue, job_id, STR("b"));
	MSG_SET(&m, enqueue, queue, STR("q"));
	MSG_SET_LIST(&m, enqueue, depends_on, ids, ARRAY_SIZE(ids));
	fx_refused(x, OP_ENQUEUE, &m, ERR_VALIDATION_ERROR,
		   "depends_on: must have at most 256 items");
	MSG_SET_LIST(&m, enqueue, depends_on, ids, LIMIT_DEPENDENCIES);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
	expect_waiting(x, "b", 1);
}

/* Jobs that together wait for so many, of which each names "a" only. */
static void many(struct m_enqueue *jobs, char (*ids)[16], size_t n, size_t all)
{
	static struct str parents[LIMIT_DEPENDENCIES];

	for (size_t i = 0; i < LIMIT_DEPENDENCIES; i++)
		parents[i] = STR("a");
	for (size_t i = 0; i < n; i++) {
		size_t of = MIN(all, (size_t)LIMIT_DEPENDENCIES);

		jobs[i] = (struct m_enqueue){ 0 };
		MSG_SET(&jobs[i], enqueue, job_id, str_from(ids[i]));
		MSG_SET(&jobs[i], enqueue, queue, STR("q"));
		MSG_SET_LIST(&jobs[i], enqueue, depends_on, parents, of);
		all -= of;
	}
}

#define MANY (LIMIT_REQUEST_DEPS_2 / LIMIT_DEPENDENCIES + 1)

/* Dependencies are work: so many in one request, and not many such ones in
 * one entry. */
static void test_dependencies_are_weighed(void **state)
{
	struct fx *x = *state;
	struct m_enqueue one[MANY], two[MANY];
	char ids[2][MANY][16];
	struct m_enqueue_batch m = { 0 }, n = { 0 };

	add(x, "a", NULL);
	for (size_t i = 0; i < MANY; i++) {
		(void)snprintf(ids[0][i], sizeof(ids[0][i]), "one%zu", i);
		(void)snprintf(ids[1][i], sizeof(ids[1][i]), "two%zu", i);
	}
	MSG_SET_LIST(&m, enqueue_batch, jobs, one, MANY);
	MSG_SET_LIST(&n, enqueue_batch, jobs, two, MANY);
	many(one, ids[0], MANY, LIMIT_REQUEST_DEPS_2 + 1);
	fx_refused(x, OP_ENQUEUE_BATCH, &m, ERR_VALIDATION_ERROR,
		   "jobs[39].depends_on: one request may have at most 10000 "
		   "dependencies; send fewer jobs at once");
	many(one, ids[0], MANY, LIMIT_REQUEST_DEPS_2);
	many(two, ids[1], MANY, LIMIT_REQUEST_DEPS_2);
	fx_begin(x);
	fx_add(x, OP_ENQUEUE_BATCH, 0, &m);
	fx_add(x, OP_ENQUEUE_BATCH, 0, &n);
	fx_commit(x);
	assert_int_equal(x->replies[0].err, 0);
	assert_int_equal(x->replies[1].err, FSM_AGAIN);
	expect_waiting(x, "one0", 1);
	assert_false(fx_job_exists(x, "two0"));
	assert_int_equal(fx_do(x, OP_ENQUEUE_BATCH, &n, NULL), 0);
	expect_waiting(x, "two0", 1);
}

static void test_resend_of_a_job_whose_parent_is_gone(void **state)
{
	struct fx *x = *state;
	struct want w = { .id = "b", .deps = "a", .ignore = true };
	struct m_enqueue_reply r;
	struct m_enqueue m;

	add(x, "a", NULL);
	fill(&w, &m);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
	fx_job_op(x, OP_DELETE, "a", "deleted");
	assert_int_equal(fx_resend(x, OP_ENQUEUE, &m, &r), 0);
	assert_str_is(r.job_id, "b");
}

#define TEST(t) cmocka_unit_test_setup_teardown(t, fx_setup, fx_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_job_waits_until_all_it_depends_on_completed),
		TEST(test_released_dependent_stands_where_its_creation_puts_it),
		TEST(test_scheduled_dependent_waits_for_its_time_after_release),
		TEST(test_dependent_whose_time_has_come_meanwhile_is_pending),
		TEST(test_completed_parent_counts_as_met),
		TEST(test_parents_in_every_waiting_state),
		TEST(test_pending_parent_is_not_taken_as_created),
		TEST(test_parent_created_and_marked_before_it_was_ever_written),
		TEST(test_diamond),
		TEST(test_dead_parent_fails_its_dependents_with_the_reason),
		TEST(test_cancelled_parent_resolves_by_policy),
		TEST(test_deleted_parent_resolves_by_policy),
		TEST(test_expired_parent_resolves_by_policy),
		TEST(test_parent_that_failed_before_kills_the_new_job_at_once),
		TEST(test_failure_reaches_jobs_of_the_same_request),
		TEST(test_retried_dependent_runs_without_its_dependencies),
		TEST(test_retried_parent_tells_only_new_dependents),
		TEST(test_ended_dependent_is_forgotten_by_its_parents),
		TEST(test_unknown_ids_are_refused),
		TEST(test_positions_outside_the_request_are_refused),
		TEST(test_cycles_are_refused),
		TEST(test_cycle_by_way_of_a_duplicate_is_refused),
		TEST(test_too_many_dependencies_are_refused),
		cmocka_unit_test_setup_teardown(test_dependencies_are_weighed,
						fx_setup_level, fx_teardown),
		TEST(test_resend_of_a_job_whose_parent_is_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
