/*
 * Bulk operations that try some of their jobs first.
 */
#include "bulk_world.h"

static void begin_canary(struct fx *x, struct str *ids, size_t n,
			 uint32_t canary)
{
	struct m_bulk_create c = create_of(BULK_RETRY);

	MSG_SET(&c, bulk_create, canary, canary);
	begin(x, &c, ids, n);
}

static void finish(struct fx *x, const char *id, bool ok)
{
	struct m_fail fail = { 0 };
	struct m_ack ack = { 0 };

	fx_expect(x, "q", id);
	MSG_SET(&ack, ack, job_id, str_from(id));
	MSG_SET(&fail, fail, job_id, str_from(id));
	MSG_SET(&fail, fail, error, STR("again"));
	if (ok)
		assert_int_equal(fx_do(x, OP_ACK, &ack, NULL), 0);
	else
		assert_int_equal(fx_do(x, OP_FAIL, &fail, NULL), 0);
}

static void test_canaries_that_complete_let_the_others_follow(void **s)
{
	struct fx *x = *s;
	struct str *ids = make_dead(x, 6);

	fx_job_op(x, OP_DELETE, "job_000", "deleted");
	begin_canary(x, ids, 6, 2);
	step(x, 10); /* one is gone, two are tried */
	expect_bulk(x, BULK_CANARY, 2, 1);
	assert_int_equal(due(x), 0);
	finish(x, "job_001", true);
	restart(x);
	assert_int_equal(bulk_now(x).canary_completed, 1);
	step(x, 10);
	expect_bulk(x, BULK_CANARY, 2, 1);
	finish(x, "job_002", true);
	assert_true(due(x) != 0);
	step(x, 10);
	expect_bulk(x, BULK_COMPLETED, 5, 1);
	finish(x, "job_003", false); /* that is no canary */
	expect_bulk(x, BULK_COMPLETED, 5, 1);
	free_ids(ids, 6);
}

static void test_a_canary_that_fails_again_fails_the_operation(void **s)
{
	struct fx *x = *s;
	struct str *ids = make_dead(x, 6);

	begin_canary(x, ids, 6, 3);
	step(x, 10);
	finish(x, "job_000", true);
	restart(x);
	finish(x, "job_001", false);
	expect_bulk(x, BULK_FAILED, 3, 0);
	assert_str_is(bulk_now(x).error, "canary: 1 of 3 failed again");
	assert_int_equal(bulk_now(x).canary_failed, 1);
	assert_int_equal(bulk_now(x).canary_completed, 1);
	step(x, 10);
	fx_expect_state(x, "job_003", JOB_DEAD);
	free_ids(ids, 6);
}

static void fails_when(struct fx *x, enum op_id op, const char *status)
{
	struct str *ids = make_dead(x, 2);

	begin_canary(x, ids, 2, 1);
	step(x, 10);
	expect_bulk(x, BULK_CANARY, 1, 0);
	fx_job_op(x, op, "job_000", status);
	expect_bulk(x, BULK_FAILED, 1, 0);
	free_ids(ids, 2);
}

static void test_a_canary_that_is_cancelled_counts_as_failed(void **s)
{
	fails_when(*s, OP_CANCEL, "cancelled");
}

static void test_a_canary_that_is_deleted_counts_as_failed(void **s)
{
	fails_when(*s, OP_DELETE, "deleted");
}

static void test_canaries_are_heard_of_while_it_is_paused(void **s)
{
	struct fx *x = *s;
	struct str *ids = make_dead(x, 3);

	begin_canary(x, ids, 3, 1);
	step(x, 10);
	control(x, BULK_PAUSED);
	finish(x, "job_000", true);
	expect_bulk(x, BULK_PAUSED, 1, 0);
	control(x, BULK_RUNNING);
	step(x, 10);
	expect_bulk(x, BULK_COMPLETED, 3, 0);
	free_ids(ids, 3);
}

static void test_an_operation_of_canaries_only_completes(void **s)
{
	struct fx *x = *s;
	struct str *ids = make_dead(x, 2);

	begin_canary(x, ids, 2, 5);
	step(x, 10);
	expect_bulk(x, BULK_COMPLETED, 2, 0);
	finish(x, "job_000", false);
	expect_bulk(x, BULK_COMPLETED, 2, 0);
	free_ids(ids, 2);
}

/* --- two operations and one job --- */

/* Another one with a canary, over the same job. */
static void begin_second(struct fx *x, struct str *ids, size_t n)
{
	struct m_bulk_create c = create_of(BULK_RETRY);
	struct m_bulk_add add = add_of(0, ids, n, true);
	struct m_bulk_step step = { 0 };

	MSG_SET(&c, bulk_create, bulk_id, STR("bulk_2"));
	MSG_SET(&c, bulk_create, canary, 1);
	MSG_SET(&add, bulk_add, bulk_id, STR("bulk_2"));
	MSG_SET(&step, bulk_step, bulk_id, STR("bulk_2"));
	MSG_SET(&step, bulk_step, max, 10);
	assert_int_equal(fx_do(x, OP_BULK_CREATE, &c, NULL), 0);
	assert_int_equal(fx_do(x, OP_BULK_ADD, &add, NULL), 0);
	assert_int_equal(fx_do(x, OP_BULK_STEP, &step, NULL), 0);
}

static struct m_bulk second(struct fx *x)
{
	struct m_bulk b;

	assert_int_equal(
	    fsm_bulk(x->side[FX_ROCKS].f, STR("bulk_2"), &x->arena, &b), 1);
	return b;
}

static void give_back(struct fx *x, const char *id)
{
	struct m_fail fail = { 0 };

	fx_expect(x, "q", id);
	MSG_SET(&fail, fail, job_id, str_from(id));
	MSG_SET(&fail, fail, error, STR("later"));
	MSG_SET(&fail, fail, requeue, true);
	assert_int_equal(fx_do(x, OP_FAIL, &fail, NULL), 0);
}

/*
 * A canary waits, is held or is with a worker until it ends or fails, and in
 * none of these states can another operation retry it: so it is the canary of
 * one operation at a time, and that one hears of its end.
 */
static void test_a_canary_of_one_operation_is_skipped_by_another(void **s)
{
	struct m_hold hold = { 0 };
	struct fx *x = *s;
	struct str *ids = make_dead(x, 3);

	begin_canary(x, ids, 3, 1);
	step(x, 10);
	give_back(x, "job_000");
	MSG_SET(&hold, hold, job_id, STR("job_000"));
	assert_int_equal(fx_do(x, OP_HOLD, &hold, NULL), 0);
	begin_second(x, ids, 1);
	assert_int_equal(second(x).status, BULK_COMPLETED);
	assert_int_equal(second(x).skipped, 1);
	fx_job_op(x, OP_APPROVE, "job_000", "pending");
	restart(x);
	finish(x, "job_000", true);
	step(x, 10);
	expect_bulk(x, BULK_COMPLETED, 3, 0);
	free_ids(ids, 3);
}

static void test_a_canary_that_has_completed_may_be_one_again(void **state)
{
	struct fx *x = *state;
	struct str *ids = make_dead(x, 3);

	begin_canary(x, ids, 3, 2);
	step(x, 10);
	finish(x, "job_000", true);
	begin_second(x, ids, 3); /* the first of it is tried once more */
	assert_int_equal(second(x).status, BULK_CANARY);
	restart(x);
	finish(x, "job_001", true);
	step(x, 10); /* the first operation goes on ... */
	expect_bulk(x, BULK_COMPLETED, 3, 0);
	finish(x, "job_000", false); /* ... whatever becomes of the second */
	assert_int_equal(second(x).status, BULK_FAILED);
	expect_bulk(x, BULK_COMPLETED, 3, 0);
	free_ids(ids, 3);
}

/* A dead job with a tag, and a budget of that which is spent. */
static void make_dead_of_spent_tag(struct fx *x, const char *id)
{
	struct m_enqueue e = fx_new(id, "q");
	struct m_budget budget = { 0 };
	struct m_usage usage = { 0 };
	struct m_fail fail = { 0 };

	MSG_SET(&budget, budget, scope, BUDGET_TAG);
	MSG_SET(&budget, budget, target, STR("team:red"));
	MSG_SET(&budget, budget, daily_usd, NS_PER_S);
	assert_int_equal(fx_do(x, OP_SET_BUDGET, &budget, NULL), 0);
	MSG_SET(&e, enqueue, tags, STR("{\"team\":\"red\"}"));
	assert_int_equal(fx_do(x, OP_ENQUEUE, &e, NULL), 0);
	fx_expect(x, "q", id);
	MSG_SET(&usage, usage, cost_usd, NS_PER_S);
	MSG_SET(&fail, fail, job_id, str_from(id));
	MSG_SET(&fail, fail, retry, false);
	MSG_SET(&fail, fail, usage, &usage);
	assert_int_equal(fx_do(x, OP_FAIL, &fail, NULL), 0);
	fx_expect_state(x, id, JOB_DEAD);
}

/* One that a budget has set aside could be retried by hand; also then it stays
 * the canary of the operation that tries it. */
static void test_a_canary_that_is_set_aside_is_skipped_by_another(void **s)
{
	struct fx *x = *s;
	struct str *dead = make_dead(x, 2);
	struct str ids[] = { STR("red"), dead[0], dead[1] };

	make_dead_of_spent_tag(x, "red");
	begin_canary(x, ids, 3, 1);
	step(x, 10);
	expect_bulk(x, BULK_CANARY, 1, 0);
	fx_expect_none(x, "q");
	fx_expect_state(x, "red", JOB_SCHEDULED);
	begin_second(x, ids, 1);
	assert_int_equal(second(x).skipped, 1);
	restart(x);
	fx_job_op(x, OP_CANCEL, "red", "cancelled");
	expect_bulk(x, BULK_FAILED, 1, 0);
	free_ids(dead, 2);
}

#define T(name) cmocka_unit_test_setup_teardown(name, fx_setup, fx_teardown)
#define T2(name) \
	cmocka_unit_test_setup_teardown(name, fx_setup_level, fx_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_canaries_that_complete_let_the_others_follow),
		T(test_a_canary_that_fails_again_fails_the_operation),
		T(test_a_canary_that_is_cancelled_counts_as_failed),
		T(test_a_canary_that_is_deleted_counts_as_failed),
		T(test_canaries_are_heard_of_while_it_is_paused),
		T(test_an_operation_of_canaries_only_completes),
		T(test_a_canary_of_one_operation_is_skipped_by_another),
		T2(test_a_canary_that_is_set_aside_is_skipped_by_another),
		T(test_a_canary_that_has_completed_may_be_one_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
