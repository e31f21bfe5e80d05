/* The rules of a job's life. */
#include "proto/job.h"

#include "lib/testlib.h"

#define S NS_PER_S

static void test_backoff(void **state _unused_)
{
	static const struct {
		enum backoff b;
		uint64_t base, max;
		uint32_t attempt;
		uint64_t want;
	} cases[] = {
		{ BACKOFF_NONE, 5 * S, 600 * S, 1, 0 },
		{ BACKOFF_NONE, 5 * S, 600 * S, 9, 0 },
		{ BACKOFF_FIXED, 5 * S, 600 * S, 1, 5 * S },
		{ BACKOFF_FIXED, 5 * S, 600 * S, 1000, 5 * S },
		{ BACKOFF_FIXED, 5 * S, 3 * S, 1, 3 * S },
		{ BACKOFF_LINEAR, 5 * S, 600 * S, 1, 5 * S },
		{ BACKOFF_LINEAR, 5 * S, 600 * S, 3, 15 * S },
		{ BACKOFF_LINEAR, 5 * S, 600 * S, 121, 600 * S },
		{ BACKOFF_LINEAR, UINT64_MAX / 2, UINT64_MAX, 3, UINT64_MAX },
		{ BACKOFF_LINEAR, S, UINT64_MAX, UINT32_MAX, UINT32_MAX * S },
		{ BACKOFF_EXPONENTIAL, 5 * S, 600 * S, 1, 5 * S },
		{ BACKOFF_EXPONENTIAL, 5 * S, 600 * S, 2, 10 * S },
		{ BACKOFF_EXPONENTIAL, 5 * S, 600 * S, 3, 20 * S },
		{ BACKOFF_EXPONENTIAL, 5 * S, 600 * S, 7, 320 * S },
		{ BACKOFF_EXPONENTIAL, 5 * S, 600 * S, 8, 600 * S },
		{ BACKOFF_EXPONENTIAL, 5 * S, 600 * S, 63, 600 * S },
		{ BACKOFF_EXPONENTIAL, 5 * S, 600 * S, 64, 600 * S },
		{ BACKOFF_EXPONENTIAL, 5 * S, 600 * S, 65, 600 * S },
		{ BACKOFF_EXPONENTIAL, 5 * S, 600 * S, UINT32_MAX, 600 * S },
		{ BACKOFF_EXPONENTIAL, 1, UINT64_MAX, 64, 1ULL << 63 },
		{ BACKOFF_EXPONENTIAL, 1, UINT64_MAX, 65, UINT64_MAX },
		{ BACKOFF_EXPONENTIAL, 3, UINT64_MAX, 64, UINT64_MAX },
		{ BACKOFF_EXPONENTIAL, 0, 600 * S, 3, 0 },
		{ BACKOFF_EXPONENTIAL, 0, 600 * S, 1000000, 0 },
		{ BACKOFF_EXPONENTIAL, 5 * S, 0, 3, 0 },
		{ BACKOFF_EXPONENTIAL, 5 * S, 600 * S, 0, 5 * S },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t got =
		    job_retry_delay(cases[i].b, cases[i].base, cases[i].max, 0,
				    cases[i].attempt, 12345);

		if (got != cases[i].want)
			fail_msg("case %zu: %llu", i, (unsigned long long)got);
	}
}

static void test_jitter(void **state _unused_)
{
	uint64_t low = UINT64_MAX, high = 0;
	struct rng rng;

	test_rng(&rng);
	for (int i = 0; i < 10000; i++) {
		uint64_t d = job_retry_delay(BACKOFF_FIXED, 10 * S, 600 * S,
					     0.5, 1, rng_u64(&rng));

		assert_true(d > 5 * S && d <= 10 * S);
		low = MIN(low, d);
		high = MAX(high, d);
	}
	assert_true(low < 6 * S && high > 9 * S);
}

static void test_jitter_ends(void **state _unused_)
{
	/* The largest cut leaves something; no cut leaves all. */
	assert_int_equal(
	    job_retry_delay(BACKOFF_FIXED, 10 * S, 600 * S, 1, 1, 0), 10 * S);
	assert_true(job_retry_delay(BACKOFF_FIXED, 10 * S, 600 * S, 1, 1,
				    UINT64_MAX) > 0);
	assert_int_equal(
	    job_retry_delay(BACKOFF_FIXED, 1, 600 * S, 1, 1, UINT64_MAX), 1);
	/* Out of range counts as the nearest in range; not a number as 0. */
	assert_int_equal(
	    job_retry_delay(BACKOFF_FIXED, 10 * S, 600 * S, 7, 1, 1ULL << 63),
	    5 * S);
	assert_int_equal(
	    job_retry_delay(BACKOFF_FIXED, 10 * S, 600 * S, -1, 1, UINT64_MAX),
	    10 * S);
	assert_int_equal(job_retry_delay(BACKOFF_FIXED, 10 * S, 600 * S,
					 __builtin_nan(""), 1, UINT64_MAX),
			 10 * S);
	assert_int_equal(job_retry_delay(BACKOFF_EXPONENTIAL, UINT64_MAX,
					 UINT64_MAX, 0.5, 9, 1ULL << 63),
			 UINT64_MAX - UINT64_MAX / 4);
}

static void test_attempts_left(void **state _unused_)
{
	assert_int_equal(job_attempts_left(3, 0), 3);
	assert_int_equal(job_attempts_left(3, 2), 1);
	assert_int_equal(job_attempts_left(3, 3), 0);
	assert_int_equal(job_attempts_left(3, 9), 0);
	assert_int_equal(job_attempts_left(0, 0), 1);
	assert_int_equal(job_attempts_left(0, 1), 0);
	assert_int_equal(job_attempts_left(1, 0), 1);
	assert_int_equal(job_attempts_left(1, 1), 0);
}

static void test_moves(void **state _unused_)
{
	static const struct {
		enum job_state from, to;
		bool can;
	} cases[] = {
		{ JOB_PENDING, JOB_ACTIVE, true },
		{ JOB_PENDING, JOB_PENDING, false },
		{ JOB_PENDING, JOB_COMPLETED, false },
		{ JOB_ACTIVE, JOB_COMPLETED, true },
		{ JOB_ACTIVE, JOB_SCHEDULED, false },
		{ JOB_SCHEDULED, JOB_ACTIVE, false },
		{ JOB_SCHEDULED, JOB_PENDING, true },
		{ JOB_COMPLETED, JOB_DEAD, false },
		{ JOB_DEAD, JOB_PENDING, true },
		{ (enum job_state)0, JOB_PENDING, false },
		{ JOB_STATE_MAX, JOB_PENDING, false },
		{ JOB_PENDING, (enum job_state)99, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(job_can_move(cases[i].from, cases[i].to),
				 cases[i].can);
}

/* Whatever has ended can only be retried by hand. */
static void test_terminal_states(void **state _unused_)
{
	int terminal = 0;

	for (int s = 0; s <= JOB_STATE_MAX; s++) {
		if (!job_state_is_terminal((enum job_state)s))
			continue;
		terminal++;
		for (int to = 0; to < JOB_STATE_MAX; to++)
			assert_int_equal(
			    job_can_move((enum job_state)s, (enum job_state)to),
			    to == JOB_PENDING);
	}
	assert_int_equal(terminal, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_backoff),
		cmocka_unit_test(test_jitter),
		cmocka_unit_test(test_jitter_ends),
		cmocka_unit_test(test_attempts_left),
		cmocka_unit_test(test_moves),
		cmocka_unit_test(test_terminal_states),
	};

	return cmocka_run_group_tests_name("job", tests, NULL, NULL);
}
