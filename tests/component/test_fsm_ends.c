/*
 * A job that is in a batch and a step of a chain, ended by each operation that
 * can end one: its batch counts it once, its chain runs the right handler.
 */
#include "fsm_fixture.h"

/* Job "a" of queue q: the first step of a chain, the only job of batch b. */
static void start(struct fx *x, const char *depends_on)
{
	struct m_chain_step steps[2] = { 0 }, failure = { 0 }, exit = { 0 };
	struct m_open_batch open = { 0 };
	struct m_batch_ref ref = { 0 };
	struct str dependency = str_from(depends_on);
	struct m_chain c = { 0 };
	struct m_enqueue m = { 0 };

	MSG_SET(&open, open_batch, batch_id, STR("b"));
	assert_int_equal(fx_do(x, OP_OPEN_BATCH, &open, NULL), 0);
	MSG_SET(&steps[0], chain_step, queue, STR("q"));
	MSG_SET(&steps[1], chain_step, queue, STR("next"));
	MSG_SET(&failure, chain_step, queue, STR("failure"));
	MSG_SET(&exit, chain_step, queue, STR("exit"));
	MSG_SET_LIST(&c, chain, steps, steps, 2);
	MSG_SET(&c, chain, on_failure, &failure);
	MSG_SET(&c, chain, on_exit, &exit);
	MSG_SET(&m, enqueue, job_id, STR("a"));
	MSG_SET(&m, enqueue, queue, STR("q"));
	MSG_SET(&m, enqueue, batch_id, STR("b"));
	MSG_SET(&m, enqueue, chain_id, STR("chn_1"));
	MSG_SET(&m, enqueue, chain, &c);
	if (depends_on != NULL)
		MSG_SET_LIST(&m, enqueue, depends_on, &dependency, 1);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
	MSG_SET(&ref, batch_ref, batch_id, STR("b"));
	assert_int_equal(fx_do(x, OP_SEAL_BATCH, &ref, NULL), 0);
	fx_restart(x, FX_ROCKS);
}

/* The batch has ended, and of the chain only this queue has a job. */
static void expect(struct fx *x, uint64_t succeeded, const char *queue,
		   const char *error)
{
	static const char *const queues[] = { "next", "failure", "exit" };
	struct m_fetched j;
	struct m_batch b;

	assert_int_equal(fsm_batch(x->side[0].f, STR("b"), &b), 1);
	assert_str_is(b.status, "completed");
	assert_int_equal(b.total, 1);
	assert_int_equal(b.succeeded, succeeded);
	assert_int_equal(b.failed, 1 - succeeded);
	for (size_t i = 0; i < ARRAY_SIZE(queues); i++) {
		if (strcmp(queues[i], queue) != 0) {
			fx_expect_none(x, queues[i]);
			continue;
		}
		assert_true(fx_fetch(x, queue, &j));
		assert_int_equal(j.batch_id.n, 0);
		if (error != NULL)
			assert_non_null(memmem(j.payload.p, j.payload.n, error,
					       strlen(error)));
	}
}

static void hold_op(struct fx *x, enum op_id op, const char *reason)
{
	struct m_hold m = { 0 };

	MSG_SET(&m, hold, job_id, STR("a"));
	MSG_SET(&m, hold, reason, str_from(reason));
	assert_int_equal(fx_do(x, op, &m, NULL), 0);
}

static void test_rejected(void **state)
{
	struct fx *x = *state;

	start(x, NULL);
	hold_op(x, OP_HOLD, "look at it");
	hold_op(x, OP_REJECT, "not wanted");
	fx_expect_state(x, "a", JOB_DEAD);
	expect(x, 0, "failure", "not wanted");
}

static void test_dependency_failed(void **state)
{
	struct fx *x = *state;

	fx_enqueue(x, "parent", "p");
	start(x, "parent");
	fx_job_op(x, OP_CANCEL, "parent", "cancelled");
	fx_expect_state(x, "a", JOB_DEAD);
	expect(x, 0, "failure", "parent");
}

static void test_dependency_had_failed_before(void **state)
{
	struct fx *x = *state;

	fx_enqueue(x, "parent", "p");
	fx_job_op(x, OP_CANCEL, "parent", "cancelled");
	start(x, "parent");
	fx_expect_state(x, "a", JOB_DEAD);
	expect(x, 0, "failure", "parent");
}

static void sweep(struct fx *x, enum op_id op)
{
	struct m_clear_queue m = { 0 };
	struct m_clear_queue_reply r;

	MSG_SET(&m, clear_queue, queue, STR("q"));
	assert_int_equal(fx_do(x, op, &m, &r), 0);
	assert_int_equal(r.count, 1);
	assert_false(r.more);
}

static void test_cleared(void **state)
{
	struct fx *x = *state;

	start(x, NULL);
	sweep(x, OP_CLEAR_QUEUE);
	expect(x, 0, "exit", NULL);
}

static void test_queue_deleted_while_active(void **state)
{
	struct fx *x = *state;

	start(x, NULL);
	fx_expect(x, "q", "a");
	sweep(x, OP_DELETE_QUEUE);
	expect(x, 0, "exit", NULL);
}

static void ack(struct fx *x)
{
	struct m_ack m = { 0 };

	MSG_SET(&m, ack, job_id, STR("a"));
	assert_int_equal(fx_do(x, OP_ACK, &m, NULL), 0);
}

static void test_moved_and_completed(void **state)
{
	struct fx *x = *state;
	struct m_move m = { 0 };

	start(x, NULL);
	MSG_SET(&m, move, job_id, STR("a"));
	MSG_SET(&m, move, queue, STR("q2"));
	assert_int_equal(fx_do(x, OP_MOVE, &m, NULL), 0);
	fx_expect(x, "q2", "a");
	ack(x);
	expect(x, 1, "next", NULL);
}

/* Dead once, completed after all: counted as it ended first. */
static void test_requeued_after_death_and_completed(void **state)
{
	struct m_fail m = { 0 };
	struct fx *x = *state;

	start(x, NULL);
	fx_expect(x, "q", "a");
	MSG_SET(&m, fail, job_id, STR("a"));
	MSG_SET(&m, fail, retry, false);
	assert_int_equal(fx_do(x, OP_FAIL, &m, NULL), 0);
	expect(x, 0, "failure", NULL);
	fx_job_op(x, OP_REQUEUE, "a", "requeued");
	fx_expect(x, "q", "a");
	ack(x);
	expect(x, 0, "next", NULL);
}

static void test_purged_after_its_end(void **state)
{
	struct m_maintain m = { 0 };
	struct fx *x = *state;
	struct m_batch b;

	start(x, NULL);
	fx_expect(x, "q", "a");
	ack(x);
	expect(x, 1, "next", NULL);
	x->now_ns += 7200 * NS_PER_S;
	MSG_SET(&m, maintain, retention_ns, 3600 * NS_PER_S);
	assert_int_equal(fx_do(x, OP_PURGE, &m, NULL), 0);
	assert_false(fx_job_exists(x, "a"));
	assert_int_equal(fsm_batch(x->side[0].f, STR("b"), &b), 0);
	fx_expect_none(x, "exit");
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fx_setup, fx_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_rejected),
		TEST(test_dependency_failed),
		TEST(test_dependency_had_failed_before),
		TEST(test_cleared),
		TEST(test_queue_deleted_while_active),
		TEST(test_moved_and_completed),
		TEST(test_requeued_after_death_and_completed),
		TEST(test_purged_after_its_end),
	};

	return cmocka_run_group_tests_name("fsm_ends", tests, NULL, NULL);
}
