/*
 * Lines of a job's log: where they come from, how many are kept, how they go.
 */
#include "fsm_fixture.h"

static struct str two[] = { { "one", 3 }, { "two", 3 } };

static struct m_job_logs_reply logs_of(struct fx *x, uint64_t after,
				       uint32_t limit)
{
	struct m_job_logs_reply r;

	assert_int_equal(record_logs(x->side[FX_MEM].kv, STR("job_1"), after,
				     limit, &x->arena, &r),
			 0);
	return r;
}

static void beat(struct fx *x, struct str *lines, size_t n)
{
	struct m_heartbeat h = { 0 };
	struct m_beat b = { 0 };
	struct m_heartbeat_reply r;

	MSG_SET(&b, beat, job_id, STR("job_1"));
	MSG_SET_LIST(&b, beat, logs, lines, n);
	MSG_SET_LIST(&h, heartbeat, jobs, &b, 1);
	assert_int_equal(fx_do(x, OP_HEARTBEAT, &h, &r), 0);
	assert_str_is(r.jobs[0].status, "ok");
}

static void test_heartbeats_append_lines(void **state)
{
	struct fx *x = *state;
	struct m_job_logs_reply r;

	fx_make(x, "job_1", JOB_ACTIVE);
	beat(x, two, 2);
	beat(x, two + 1, 1);
	fx_restart(x, FX_ROCKS);
	beat(x, two, 1);
	r = logs_of(x, 0, 10);
	assert_int_equal(r.logs_n, 4);
	assert_int_equal(r.next, 4);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(r.logs[i].seq, i + 1);
		assert_int_equal(r.logs[i].attempt, 1);
		assert_int_equal(r.logs[i].at, x->now_ns);
	}
	assert_str_is(r.logs[1].line, "two");
	assert_str_is(r.logs[3].line, "one");
	assert_int_equal(fx_job(x, "job_1")->log_lines, 4);
	fx_timeline(x, "job_1", "enqueued started logged logged logged");
}

static void test_pages(void **state)
{
	struct fx *x = *state;
	struct m_job_logs_reply r;

	fx_make(x, "job_1", JOB_ACTIVE);
	beat(x, two, 2);
	beat(x, two, 2);
	r = logs_of(x, 1, 2);
	assert_int_equal(r.logs_n, 2);
	assert_int_equal(r.logs[0].seq, 2);
	assert_int_equal(r.next, 3);
	r = logs_of(x, r.next, 2);
	assert_int_equal(r.logs_n, 1);
	assert_int_equal(r.next, 4);
	r = logs_of(x, r.next, 2);
	assert_int_equal(r.logs_n, 0);
	assert_int_equal(r.next, 4);
	r = logs_of(x, UINT64_MAX, 2);
	assert_int_equal(r.logs_n, 0);
}

/* Their own events tell of it, so there is none for the lines. */
static void test_acks_and_fails_append_lines(void **state)
{
	struct fx *x = *state;
	struct m_fail f = { 0 };
	struct m_ack_item item = { 0 };
	struct m_ack_batch b = { 0 };
	struct m_job_logs_reply r;

	fx_make(x, "job_1", JOB_ACTIVE);
	MSG_SET(&f, fail, job_id, STR("job_1"));
	MSG_SET(&f, fail, retry_after, 0);
	MSG_SET_LIST(&f, fail, logs, two, 2);
	assert_int_equal(fx_do(x, OP_FAIL, &f, NULL), 0);
	fx_expect(x, "q", "job_1");
	MSG_SET(&item, ack_item, job_id, STR("job_1"));
	MSG_SET_LIST(&item, ack_item, logs, two, 1);
	MSG_SET_LIST(&b, ack_batch, acks, &item, 1);
	assert_int_equal(fx_do(x, OP_ACK_BATCH, &b, NULL), 0);
	r = logs_of(x, 0, 10);
	assert_int_equal(r.logs_n, 3);
	assert_int_equal(r.logs[0].attempt, 1);
	assert_int_equal(r.logs[2].attempt, 2);
	fx_timeline(x, "job_1",
		    "enqueued started failed retrying started completed");
	fx_job_op(x, OP_DELETE, "job_1", "deleted");
	assert_int_equal(logs_of(x, 0, 10).logs_n, 0);
}

static void test_ack_appends_lines(void **state)
{
	struct fx *x = *state;
	struct m_ack a = { 0 };

	fx_make(x, "job_1", JOB_ACTIVE);
	MSG_SET(&a, ack, job_id, STR("job_1"));
	MSG_SET_LIST(&a, ack, logs, two, 2);
	assert_int_equal(fx_do(x, OP_ACK, &a, NULL), 0);
	assert_int_equal(logs_of(x, 0, 10).logs_n, 2);
}

/* A refused fail leaves no lines. */
static void test_only_the_holder_logs(void **state)
{
	struct fx *x = *state;
	struct m_fail f = { 0 };

	fx_make(x, "job_1", JOB_ACTIVE);
	MSG_SET(&f, fail, job_id, STR("job_1"));
	MSG_SET(&f, fail, lease_token, 999);
	MSG_SET_LIST(&f, fail, logs, two, 2);
	fx_refused(x, OP_FAIL, &f, ERR_LEASE_LOST,
		   "the lease on job \"job_1\" is no longer yours");
}

static void test_the_newest_lines_are_kept(void **state)
{
	struct fx *x = *state;
	struct str lines[LIMIT_LIST_TEXTS];
	struct m_job_logs_reply r;

	for (size_t i = 0; i < LIMIT_LIST_TEXTS; i++)
		lines[i] = STR("x");
	fx_make(x, "job_1", JOB_ACTIVE);
	for (int i = 0; i < 5; i++)
		beat(x, lines, LIMIT_LIST_TEXTS);
	r = logs_of(x, 0, LIMIT_LOG_PAGE);
	assert_int_equal(r.logs_n, LIMIT_LOG_LINES);
	assert_int_equal(r.next, 5 * LIMIT_LIST_TEXTS);
	assert_int_equal(r.logs[0].seq,
			 5 * LIMIT_LIST_TEXTS - LIMIT_LOG_LINES + 1);
	fx_job_op(x, OP_DELETE, "job_1", "deleted");
	assert_int_equal(logs_of(x, 0, 10).logs_n, 0);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fx_setup, fx_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_heartbeats_append_lines),
		TEST(test_pages),
		TEST(test_acks_and_fails_append_lines),
		TEST(test_ack_appends_lines),
		TEST(test_only_the_holder_logs),
		TEST(test_the_newest_lines_are_kept),
	};

	return cmocka_run_group_tests_name("fsm_log", tests, NULL, NULL);
}
