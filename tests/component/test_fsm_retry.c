/*
 * fail: errors, the four backoffs, jitter, the end of all attempts.
 */
#include "fsm_fixture.h"

static void enqueue(struct fx *x, const char *id, enum backoff b,
		    uint64_t base_s, uint64_t max_s, uint32_t attempts)
{
	struct m_enqueue m = { 0 };

	MSG_SET(&m, enqueue, job_id, str_from(id));
	MSG_SET(&m, enqueue, queue, STR("q"));
	MSG_SET(&m, enqueue, retry_backoff, b);
	MSG_SET(&m, enqueue, retry_base_delay, base_s * NS_PER_S);
	MSG_SET(&m, enqueue, retry_max_delay, max_s * NS_PER_S);
	MSG_SET(&m, enqueue, max_retries, attempts);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
}

static struct m_fail_reply fail_job(struct fx *x, const char *id,
				    const char *error)
{
	struct m_fail m = { 0 };
	struct m_fail_reply r;

	MSG_SET(&m, fail, job_id, str_from(id));
	if (error != NULL)
		MSG_SET(&m, fail, error, str_from(error));
	assert_int_equal(fx_do(x, OP_FAIL, &m, &r), 0);
	return r;
}

static void test_backoffs(void **state)
{
	struct fx *x = *state;
	static const struct {
		enum backoff b;
		uint64_t delay_s[4]; /* after attempt 1, 2, ... */
	} rows[] = {
		{ BACKOFF_FIXED, { 2, 2, 2, 2 } },
		{ BACKOFF_LINEAR, { 2, 4, 6, 7 } },
		{ BACKOFF_EXPONENTIAL, { 2, 4, 7, 7 } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char id[16];

		(void)snprintf(id, sizeof(id), "job_%zu", i);
		enqueue(x, id, rows[i].b, 2, 7, 5);
		for (uint32_t n = 0; n < 4; n++) {
			uint64_t due;
			struct m_fail_reply r;

			fx_expect(x, "q", id);
			r = fail_job(x, id, "boom");
			due = x->now_ns + rows[i].delay_s[n] * NS_PER_S;
			assert_int_equal(r.status, JOB_RETRYING);
			assert_int_equal(r.next_attempt_at, due);
			assert_int_equal(r.attempts_remaining, 4 - n);
			fx_expect_state(x, id, JOB_RETRYING);
			assert_int_equal(fx_job(x, id)->scheduled_at, due);
			fx_expect_none(x, "q");
			x->now_ns = due;
			assert_int_equal(fx_maintain(x, OP_PROMOTE, 9, NULL),
					 1);
			fx_expect_state(x, id, JOB_PENDING);
		}
		fx_job_op(x, OP_DELETE, id, "deleted");
	}
}

/* No delay: pending at once, and the answer still speaks of a retry. */
static void test_no_backoff(void **state)
{
	struct fx *x = *state;
	struct m_fail_reply r;

	enqueue(x, "job_1", BACKOFF_NONE, 5, 5, 3);
	fx_expect(x, "q", "job_1");
	r = fail_job(x, "job_1", "boom");
	assert_int_equal(r.status, JOB_RETRYING);
	assert_int_equal(r.next_attempt_at, x->now_ns);
	assert_int_equal(r.attempts_remaining, 2);
	fx_expect_state(x, "job_1", JOB_PENDING);
	assert_false(MSG_HAS(fx_job(x, "job_1"), job, scheduled_at));
	fx_timeline(x, "job_1", "enqueued started failed retrying");
	fx_expect(x, "q", "job_1");
}

static void test_last_attempt(void **state)
{
	struct fx *x = *state;
	static const uint32_t attempts[] = { 0, 1 }; /* both mean one */

	for (size_t i = 0; i < ARRAY_SIZE(attempts); i++) {
		char id[16];
		struct m_fail_reply r;
		const struct m_job *j;

		(void)snprintf(id, sizeof(id), "job_%zu", i);
		enqueue(x, id, BACKOFF_FIXED, 1, 1, attempts[i]);
		fx_expect(x, "q", id);
		r = fail_job(x, id, "boom \"here\"");
		assert_int_equal(r.status, JOB_DEAD);
		assert_int_equal(r.attempts_remaining, 0);
		assert_false(MSG_HAS(&r, fail_reply, next_attempt_at));
		j = fx_job(x, id);
		assert_int_equal(j->state, JOB_DEAD);
		assert_int_equal(j->failed_at, x->now_ns);
		assert_str_is(j->last_error, "boom \"here\"");
		assert_str_is(j->worker_id, "w1");
		assert_str_is(j->timeline[2].data,
			      "{\"error\":\"boom \\\"here\\\"\"}");
		assert_str_is(j->timeline[3].data,
			      "{\"reason\":\"no attempts left\"}");
		fx_timeline(x, id, "enqueued started failed dead");
	}
}

static void test_errors_are_kept(void **state)
{
	struct fx *x = *state;
	struct m_fail m = { 0 };
	const struct m_job *j;

	enqueue(x, "job_1", BACKOFF_NONE, 0, 0, 1000);
	MSG_SET(&m, fail, job_id, STR("job_1"));
	MSG_SET(&m, fail, backtrace, STR("main.c:1"));
	for (uint32_t i = 1; i <= LIMIT_JOB_ERRORS + 7; i++) {
		char text[16];

		(void)snprintf(text, sizeof(text), "error %u", i);
		MSG_SET(&m, fail, error, str_from(text));
		fx_expect(x, "q", "job_1");
		x->now_ns += NS_PER_MS;
		assert_int_equal(fx_do(x, OP_FAIL, &m, NULL), 0);
	}
	j = fx_job(x, "job_1");
	assert_int_equal(j->errors_n, LIMIT_JOB_ERRORS);
	assert_int_equal(j->errors[0].id, 8);
	assert_str_is(j->errors[0].error, "error 8");
	assert_str_is(j->errors[0].job_id, "job_1");
	assert_int_equal(j->errors[0].attempt, 8);
	assert_int_equal(j->errors[0].at, FX_START_NS + 8 * NS_PER_MS);
	assert_int_equal(j->errors[0].created_at, j->errors[0].at);
	assert_str_is(j->errors[0].backtrace, "main.c:1");
	assert_str_is(j->errors[0].worker_id, "w1");
	assert_str_is(j->errors[0].hostname, "host1");
	assert_str_is(j->last_error, "error 57");
	assert_int_equal(j->timeline_n, 1 + 3 * (LIMIT_JOB_ERRORS + 7));
	fx_job_op(x, OP_DELETE, "job_1", "deleted");
}

static void test_what_fail_may_ask(void **state)
{
	struct fx *x = *state;
	struct m_fail m = { 0 };
	struct m_fail_reply r;

	/* its own delay */
	enqueue(x, "job_1", BACKOFF_FIXED, 5, 5, 3);
	fx_expect(x, "q", "job_1");
	MSG_SET(&m, fail, job_id, STR("job_1"));
	MSG_SET(&m, fail, retry_after, 99 * NS_PER_S);
	assert_int_equal(fx_do(x, OP_FAIL, &m, &r), 0);
	assert_int_equal(r.next_attempt_at, x->now_ns + 99 * NS_PER_S);
	x->now_ns += 99 * NS_PER_S;
	assert_int_equal(fx_maintain(x, OP_PROMOTE, 9, NULL), 1);
	/* at once */
	fx_expect(x, "q", "job_1");
	MSG_SET(&m, fail, retry_after, 0);
	assert_int_equal(fx_do(x, OP_FAIL, &m, &r), 0);
	fx_expect_state(x, "job_1", JOB_PENDING);
	/* never */
	fx_job_op(x, OP_DELETE, "job_1", "deleted");
	enqueue(x, "job_2", BACKOFF_FIXED, 5, 5, 3);
	fx_expect(x, "q", "job_2");
	m = (struct m_fail){ 0 };
	MSG_SET(&m, fail, job_id, STR("job_2"));
	MSG_SET(&m, fail, retry, false);
	assert_int_equal(fx_do(x, OP_FAIL, &m, &r), 0);
	assert_int_equal(r.status, JOB_DEAD);
	assert_int_equal(r.attempts_remaining, 0);
	/* longer than time lasts */
	enqueue(x, "job_3", BACKOFF_FIXED, 5, 5, 3);
	fx_expect(x, "q", "job_3");
	m = (struct m_fail){ 0 };
	MSG_SET(&m, fail, job_id, STR("job_3"));
	MSG_SET(&m, fail, retry_after, UINT64_MAX);
	assert_int_equal(fx_do(x, OP_FAIL, &m, &r), 0);
	assert_int_equal(r.status, JOB_RETRYING);
	fx_expect_state(x, "job_3", JOB_RETRYING);
}

/* Given back: the attempt is not used, the place is kept. */
static void test_give_back(void **state)
{
	struct fx *x = *state;
	struct m_fail m = { 0 };
	struct m_fail_reply r;
	struct m_fetched j;

	enqueue(x, "job_1", BACKOFF_FIXED, 5, 5, 1);
	enqueue(x, "job_2", BACKOFF_FIXED, 5, 5, 1);
	MSG_SET(&m, fail, job_id, STR("job_1"));
	MSG_SET(&m, fail, requeue, true);
	for (int i = 0; i < 3; i++) {
		assert_true(fx_fetch(x, "q", &j));
		assert_str_is(j.job_id, "job_1");
		assert_int_equal(j.attempt, 1);
		assert_int_equal(fx_do(x, OP_FAIL, &m, &r), 0);
		assert_int_equal(r.status, JOB_PENDING);
		assert_int_equal(r.attempts_remaining, 1);
	}
	assert_int_equal(fx_job(x, "job_1")->attempt, 0);
	assert_int_equal(fx_job(x, "job_1")->errors_n, 0);
	fx_timeline(x, "job_1",
		    "enqueued started given_back started given_back started "
		    "given_back");
}

/* The delay lies in (1 - j, 1] of the full one and differs by entry. */
static void test_jitter(void **state)
{
	struct fx *x = *state;
	uint64_t least = UINT64_MAX, most = 0;

	for (int i = 0; i < 40; i++) {
		struct m_enqueue m = { 0 };
		struct m_fail_reply r;
		uint64_t delay;
		char id[16];

		(void)snprintf(id, sizeof(id), "job_%d", i);
		MSG_SET(&m, enqueue, job_id, str_from(id));
		MSG_SET(&m, enqueue, queue, STR("q"));
		MSG_SET(&m, enqueue, retry_backoff, BACKOFF_FIXED);
		MSG_SET(&m, enqueue, retry_base_delay, 100 * NS_PER_S);
		MSG_SET(&m, enqueue, retry_jitter, 0.5);
		assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
		fx_expect(x, "q", id);
		r = fail_job(x, id, "boom");
		delay = r.next_attempt_at - x->now_ns;
		assert_true(delay > 50 * NS_PER_S && delay <= 100 * NS_PER_S);
		least = MIN(least, delay);
		most = MAX(most, delay);
	}
	assert_true(most - least > 20 * NS_PER_S);
}

/* A retried job stands where its creation puts it. */
static void test_place_is_kept(void **state)
{
	struct fx *x = *state;

	enqueue(x, "job_1", BACKOFF_FIXED, 1, 1, 3);
	enqueue(x, "job_2", BACKOFF_FIXED, 1, 1, 3);
	enqueue(x, "job_3", BACKOFF_FIXED, 1, 1, 3);
	fx_expect(x, "q", "job_1");
	fx_expect(x, "q", "job_2");
	fail_job(x, "job_2", NULL);
	fail_job(x, "job_1", NULL);
	x->now_ns += NS_PER_S;
	fx_restart(x, FX_ROCKS);
	assert_int_equal(fx_maintain(x, OP_PROMOTE, 9, NULL), 2);
	fx_expect(x, "q", "job_1");
	fx_expect(x, "q", "job_2");
	fx_expect(x, "q", "job_3");
	assert_int_equal(fsm_counters(x->side[0].f)->failed, 2);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fx_setup, fx_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_backoffs),
		TEST(test_no_backoff),
		TEST(test_last_attempt),
		TEST(test_errors_are_kept),
		TEST(test_what_fail_may_ask),
		TEST(test_give_back),
		TEST(test_jitter),
		TEST(test_place_is_kept),
	};

	return cmocka_run_group_tests_name("fsm_retry", tests, NULL, NULL);
}
