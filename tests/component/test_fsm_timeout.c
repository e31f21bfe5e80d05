/*
 * The end of an attempt by its timeout, and leases that ran out.
 */
#include "fsm_fixture.h"

#define TIMEOUT_NS (10 * NS_PER_S)
#define LEASE_NS   (60 * NS_PER_S) /* what fx_fetch is given */

static void enqueue(struct fx *x, const char *id, uint64_t timeout_ns,
		    uint32_t attempts)
{
	struct m_enqueue m = { 0 };

	MSG_SET(&m, enqueue, job_id, str_from(id));
	MSG_SET(&m, enqueue, queue, STR("q"));
	MSG_SET(&m, enqueue, timeout, timeout_ns);
	MSG_SET(&m, enqueue, max_retries, attempts);
	MSG_SET(&m, enqueue, retry_backoff, BACKOFF_FIXED);
	MSG_SET(&m, enqueue, retry_base_delay, 3 * NS_PER_S);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
}

static struct m_fetched fetch(struct fx *x)
{
	struct m_fetched j;

	assert_true(fx_fetch(x, "q", &j));
	return j;
}

static void expect_due(struct fx *x, uint64_t reclaim_ns)
{
	for (int i = 0; i < FX_SIDES; i++) {
		struct m_due_reply r = { 0 };

		fsm_due(x->side[i].f, &r);
		assert_int_equal(r.reclaim_ns, reclaim_ns);
	}
}

static uint32_t reclaim(struct fx *x)
{
	return fx_maintain(x, OP_RECLAIM, 0, NULL);
}

static struct str beat(struct fx *x, const char *id, uint64_t token,
		       bool extend)
{
	struct m_beat b = { 0 };
	struct m_heartbeat m = { 0 };
	struct m_heartbeat_reply r;

	MSG_SET(&b, beat, job_id, str_from(id));
	MSG_SET(&b, beat, lease_token, token);
	MSG_SET_LIST(&m, heartbeat, jobs, &b, 1);
	assert_int_equal(fx_do(x, OP_HEARTBEAT, &m, &r), 0);
	if (!extend)
		assert_str_is(r.jobs[0].code, "LEASE_LOST");
	return r.jobs[0].status;
}

/* At the limit the attempt fails with "timeout". */
static void test_timeout_fails_the_attempt_and_retry_rules_apply(void **state)
{
	struct fx *x = *state;
	struct m_ack ack = { 0 };
	struct m_fetched j;
	const struct m_job *shown;
	uint64_t due;

	enqueue(x, "job_1", TIMEOUT_NS, 2);
	assert_false(MSG_HAS(fx_job(x, "job_1"), job, timeout_at));
	j = fetch(x);
	assert_int_equal(j.timeout_at, x->now_ns + TIMEOUT_NS);
	assert_int_equal(fx_job(x, "job_1")->timeout_at, j.timeout_at);
	expect_due(x, j.timeout_at);
	x->now_ns = j.timeout_at - 1;
	assert_int_equal(reclaim(x), 0);
	fx_expect_state(x, "job_1", JOB_ACTIVE);
	x->now_ns++;
	assert_int_equal(reclaim(x), 1);
	shown = fx_job(x, "job_1");
	assert_int_equal(shown->state, JOB_RETRYING);
	due = shown->scheduled_at;
	assert_int_equal(due, x->now_ns + 3 * NS_PER_S);
	assert_false(MSG_HAS(shown, job, timeout_at));
	assert_int_equal(shown->errors_n, 1);
	assert_str_is(shown->errors[0].error, "timeout");
	assert_str_is(shown->errors[0].worker_id, "w1");
	assert_int_equal(shown->lost_leases, 0);
	fx_timeline(x, "job_1", "enqueued started timed_out retrying");
	assert_str_is(beat(x, "job_1", j.lease_token, false), "cancel");
	MSG_SET(&ack, ack, job_id, STR("job_1"));
	MSG_SET(&ack, ack, lease_token, j.lease_token);
	fx_refused(x, OP_ACK, &ack, ERR_LEASE_LOST,
		   "the lease on job \"job_1\" is no longer yours");
	x->now_ns = due;
	assert_int_equal(fx_maintain(x, OP_PROMOTE, 0, NULL), 1);
	j = fetch(x); /* each attempt has its own limit */
	assert_int_equal(j.timeout_at, x->now_ns + TIMEOUT_NS);
	x->now_ns = j.timeout_at;
	assert_int_equal(reclaim(x), 1);
	fx_expect_state(x, "job_1", JOB_DEAD);
	assert_str_is(fx_job(x, "job_1")->last_error, "timeout");
	expect_due(x, 0);
	assert_int_equal(fsm_counters(x->side[0].f)->failed, 2);
	assert_int_equal(fsm_counters(x->side[0].f)->reclaimed, 0);
}

static void test_heartbeats_do_not_move_the_timeout(void **state)
{
	struct fx *x = *state;
	struct m_fetched j;

	enqueue(x, "job_1", 100 * NS_PER_S, 2);
	j = fetch(x);
	expect_due(x, FX_START_NS + LEASE_NS);
	x->now_ns += 50 * NS_PER_S;
	assert_str_is(beat(x, "job_1", j.lease_token, true), "ok");
	expect_due(x, j.timeout_at);
	x->now_ns = j.timeout_at;
	assert_int_equal(reclaim(x), 1);
	assert_str_is(fx_job(x, "job_1")->last_error, "timeout");
}

static void test_lease_that_ends_first_is_reclaimed(void **state)
{
	struct fx *x = *state;

	enqueue(x, "job_1", 2 * LEASE_NS, 3);
	(void)fetch(x);
	x->now_ns += LEASE_NS;
	assert_int_equal(reclaim(x), 1);
	fx_expect_state(x, "job_1", JOB_PENDING);
	assert_str_is(fx_job(x, "job_1")->last_error, "lease expired");
	assert_int_equal(fx_job(x, "job_1")->lost_leases, 1);
	expect_due(x, 0);
}

static void test_timeouts_survive_a_restart(void **state)
{
	struct fx *x = *state;

	enqueue(x, "job_1", TIMEOUT_NS, 1);
	enqueue(x, "job_2", 0, 1);
	(void)fetch(x);
	(void)fetch(x);
	fx_restart(x, FX_ROCKS);
	expect_due(x, x->now_ns + TIMEOUT_NS);
	x->now_ns += TIMEOUT_NS;
	assert_int_equal(reclaim(x), 1);
	fx_expect_state(x, "job_1", JOB_DEAD);
	fx_expect_state(x, "job_2", JOB_ACTIVE);
	expect_due(x, FX_START_NS + LEASE_NS);
}

static void test_attempt_that_ends_in_time(void **state)
{
	struct fx *x = *state;
	struct m_ack ack = { 0 };
	struct m_fail fail = { 0 };

	enqueue(x, "job_1", TIMEOUT_NS, 2);
	(void)fetch(x);
	MSG_SET(&ack, ack, job_id, STR("job_1"));
	assert_int_equal(fx_do(x, OP_ACK, &ack, NULL), 0);
	assert_false(MSG_HAS(fx_job(x, "job_1"), job, timeout_at));
	enqueue(x, "job_2", TIMEOUT_NS, 2);
	(void)fetch(x);
	MSG_SET(&fail, fail, job_id, STR("job_2"));
	MSG_SET(&fail, fail, requeue, true);
	assert_int_equal(fx_do(x, OP_FAIL, &fail, NULL), 0);
	assert_false(MSG_HAS(fx_job(x, "job_2"), job, timeout_at));
	expect_due(x, 0);
	x->now_ns += TIMEOUT_NS;
	assert_int_equal(reclaim(x), 0);
}

/* Who was cancelled ends so, also by a timeout. */
static void test_timeout_after_cancel(void **state)
{
	struct fx *x = *state;

	enqueue(x, "job_1", TIMEOUT_NS, 3);
	(void)fetch(x);
	fx_job_op(x, OP_CANCEL, "job_1", "cancelling");
	x->now_ns += TIMEOUT_NS;
	assert_int_equal(reclaim(x), 1);
	fx_expect_state(x, "job_1", JOB_CANCELLED);
	fx_timeline(x, "job_1",
		    "enqueued started cancelling timed_out cancelled");
}

static void test_timeout_without_end(void **state)
{
	struct fx *x = *state;

	enqueue(x, "job_1", UINT64_MAX, 1);
	(void)fetch(x);
	expect_due(x, FX_START_NS + LEASE_NS);
}

/* In portions: timeouts in the order of their moments, then leases. */
static void test_a_held_job_does_not_time_out(void **state)
{
	struct fx *x = *state;
	struct m_hold m = { 0 };

	enqueue(x, "job_1", TIMEOUT_NS, 1);
	(void)fetch(x);
	MSG_SET(&m, hold, job_id, STR("job_1"));
	assert_int_equal(fx_do(x, OP_HOLD, &m, NULL), 0);
	expect_due(x, 0);
	x->now_ns += TIMEOUT_NS;
	assert_int_equal(reclaim(x), 0);
	fx_expect_state(x, "job_1", JOB_HELD);
}

static void test_a_moved_job_keeps_its_timeout(void **state)
{
	struct fx *x = *state;
	struct m_move m = { 0 };

	enqueue(x, "job_1", TIMEOUT_NS, 1);
	(void)fetch(x);
	MSG_SET(&m, move, job_id, STR("job_1"));
	MSG_SET(&m, move, queue, STR("r"));
	assert_int_equal(fx_do(x, OP_MOVE, &m, NULL), 0);
	expect_due(x, x->now_ns + TIMEOUT_NS);
	fx_restart(x, FX_ROCKS);
	x->now_ns += TIMEOUT_NS;
	assert_int_equal(reclaim(x), 1);
	fx_expect_state(x, "job_1", JOB_DEAD);
}

static void test_portions(void **state)
{
	struct fx *x = *state;
	bool more;

	enqueue(x, "job_1", TIMEOUT_NS + 2, 1);
	enqueue(x, "job_2", 0, 1);
	enqueue(x, "job_3", TIMEOUT_NS + 1, 1);
	for (int i = 0; i < 3; i++)
		(void)fetch(x);
	x->now_ns += LEASE_NS;
	assert_int_equal(fx_maintain(x, OP_RECLAIM, 1, &more), 1);
	assert_true(more);
	fx_expect_state(x, "job_3", JOB_DEAD);
	assert_int_equal(fx_maintain(x, OP_RECLAIM, 2, &more), 2);
	assert_false(more);
	assert_str_is(fx_job(x, "job_1")->last_error, "timeout");
	assert_str_is(fx_job(x, "job_2")->last_error, "lease expired");
}

/* What jitter is for: they must not all come back at one moment. */
static void test_jobs_that_time_out_together_come_back_apart(void **state)
{
	struct fx *x = *state;
	uint64_t due[20];
	char id[16];

	for (size_t i = 0; i < ARRAY_SIZE(due); i++) {
		struct m_enqueue m;

		(void)snprintf(id, sizeof(id), "job_%zu", i);
		m = fx_new(id, "q");
		MSG_SET(&m, enqueue, timeout, TIMEOUT_NS);
		MSG_SET(&m, enqueue, max_retries, 3);
		MSG_SET(&m, enqueue, retry_backoff, BACKOFF_FIXED);
		MSG_SET(&m, enqueue, retry_base_delay, 3600 * NS_PER_S);
		MSG_SET(&m, enqueue, retry_max_delay, 3600 * NS_PER_S);
		MSG_SET(&m, enqueue, retry_jitter, 1.0);
		assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
		(void)fetch(x);
	}
	x->now_ns += TIMEOUT_NS;
	assert_int_equal(reclaim(x), ARRAY_SIZE(due));
	for (size_t i = 0; i < ARRAY_SIZE(due); i++) {
		(void)snprintf(id, sizeof(id), "job_%zu", i);
		due[i] = fx_job(x, id)->scheduled_at;
		for (size_t k = 0; k < i; k++)
			assert_int_not_equal(due[i], due[k]);
	}
}

/* Counted, and death at the last attempt. */
static void test_lost_leases_are_counted(void **state)
{
	struct fx *x = *state;

	enqueue(x, "job_1", 0, 3);
	for (uint32_t i = 1; i <= 3; i++) {
		(void)fetch(x);
		x->now_ns += LEASE_NS;
		assert_int_equal(reclaim(x), 1);
		assert_int_equal(fx_job(x, "job_1")->lost_leases, i);
		assert_int_equal(fx_job(x, "job_1")->errors_n, i);
	}
	fx_expect_state(x, "job_1", JOB_DEAD);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fx_setup, fx_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_timeout_fails_the_attempt_and_retry_rules_apply),
		TEST(test_heartbeats_do_not_move_the_timeout),
		TEST(test_lease_that_ends_first_is_reclaimed),
		TEST(test_timeouts_survive_a_restart),
		TEST(test_attempt_that_ends_in_time),
		TEST(test_timeout_after_cancel),
		TEST(test_timeout_without_end),
		TEST(test_a_held_job_does_not_time_out),
		TEST(test_a_moved_job_keeps_its_timeout),
		TEST(test_portions),
		TEST(test_jobs_that_time_out_together_come_back_apart),
		TEST(test_lost_leases_are_counted),
	};

	return cmocka_run_group_tests_name("fsm_timeout", tests, NULL, NULL);
}
