/*
 * What common/load counts: times, rates, and what became of each job.
 */
#include "lib/testlib.h"
#include "load/ledger.h"
#include "load/times.h"

static struct times times; /* too large for a stack */

static void test_shares_are_near_the_true_ones(void **state _unused_)
{
	static const double shares[] = { 0.5, 0.9, 0.99, 0.999 };

	times = (struct times){ 0 };
	for (int64_t i = 1; i <= 100000; i++)
		times_add(&times, i * 1000);
	for (size_t i = 0; i < ARRAY_SIZE(shares); i++) {
		double true_ns = shares[i] * 1e8;
		double got = times_at(&times, shares[i]);

		assert_true(got > true_ns * 0.99 && got < true_ns * 1.01);
	}
	assert_true(times_at(&times, 0) == 1e3);
	assert_true(times_at(&times, 1) == 1e8);
}

static void test_one_slow_answer_is_the_largest(void **state _unused_)
{
	times = (struct times){ 0 };
	for (int i = 0; i < 999; i++)
		times_add(&times, 1000);
	times_add(&times, (int64_t)(5000 * NS_PER_S)); /* above all buckets */
	assert_true(times_at(&times, 0.99) < 1010);
	assert_true(times_at(&times, 0.9999) == 5e12);
	assert_true(times_at(&times, 1) == 5e12);
}

static void test_when_the_largest_was_is_known(void **state _unused_)
{
	times = (struct times){ 0 };
	times_add_at(&times, 20, 100);
	times_add_at(&times, 30, 200);
	times_add_at(&times, 30, 300);
	times_add_at(&times, 10, 400);
	assert_int_equal(times.max_at_ns, 200);
}

static void test_too_early_is_negative(void **state _unused_)
{
	times = (struct times){ 0 };
	assert_true(times_at(&times, 0.5) == 0);
	times_add(&times, -3000);
	times_add(&times, 7);
	assert_true(times_at(&times, 0) == -3000);
	assert_true(times_at(&times, 1) == 7);
}

static void test_rates_are_of_whole_seconds(void **state _unused_)
{
	struct rates r = { 0 };
	struct rates_summary sum;

	rates_add(&r, 0, 10);
	rates_add(&r, 2 * NS_PER_S, 20);     /* nothing in the second */
	rates_add(&r, 3 * NS_PER_S + 1, 99); /* not whole */
	assert_true(rates_sum_up(&r, 3 * NS_PER_S + 2, &sum));
	assert_true(sum.min == 0 && sum.max == 20);
	assert_true(sum.stddev > 8.1 && sum.stddev < 8.2);
	assert_false(rates_sum_up(&r, 2 * NS_PER_S - 1, &sum));
	rates_clear(&r);
}

/* --- the ledger --- */

static void put_in(struct ledger *l, unsigned n)
{
	static const char *const ids[] = { "job_A", "job_B", "job_C" };

	assert_true(n <= ARRAY_SIZE(ids));
	assert_true(ledger_new(l, n) == 0);
	ledger_sent(l, 0, n, 1000);
	for (unsigned i = 0; i < n; i++)
		ledger_known(l, i, str_from(ids[i]));
}

#define assert_balance(l, text)                                             \
	do {                                                                \
		struct buf why_ = BUF_INIT(0);                              \
		assert_true(ledger_balance(l, &why_) == (*(text) == '\0')); \
		buf_putc(&why_, '\0');                                      \
		assert_string_equal(why_.p, text);                          \
		buf_done(&why_);                                            \
		ledger_done(l);                                             \
	} while (0)

static void test_every_job_once_is_in_balance(void **state _unused_)
{
	struct ledger l = { 0 };

	put_in(&l, 2);
	assert_true(ledger_taken(&l, 1, STR("job_B")) == 1000);
	assert_true(ledger_taken(&l, 0, STR("job_A")) == 1000);
	ledger_acked(&l, 0);
	ledger_acked(&l, 1);
	assert_balance(&l, "");
}

static void test_a_worker_may_be_first(void **state _unused_)
{
	struct ledger l = { 0 };

	(void)ledger_new(&l, 1);
	ledger_sent(&l, 0, 1, 5);
	assert_true(ledger_taken(&l, 0, STR("job_A")) == 5);
	ledger_acked(&l, 0);
	ledger_known(&l, 0, STR("job_A"));
	assert_balance(&l, "");
}

static void test_what_was_refused_need_not_come(void **state _unused_)
{
	struct ledger l = { 0 };

	(void)ledger_new(&l, 1);
	ledger_sent(&l, 0, 1, 5);
	assert_balance(&l, "");
}

static void test_what_was_refused_must_not_come(void **state _unused_)
{
	struct ledger l = { 0 };

	(void)ledger_new(&l, 1);
	ledger_sent(&l, 0, 1, 5);
	(void)ledger_taken(&l, 0, STR("job_A"));
	ledger_acked(&l, 0);
	assert_balance(&l, "1 job was handed out and never taken in (job_A)");
}

static void test_a_lost_job_is_named(void **state _unused_)
{
	struct ledger l = { 0 };

	put_in(&l, 3);
	(void)ledger_taken(&l, 1, STR("job_B"));
	ledger_acked(&l, 1);
	assert_balance(&l, "2 jobs were lost (job_A, job_C)");
}

static void test_a_job_twice_is_named(void **state _unused_)
{
	struct ledger l = { 0 };

	put_in(&l, 1);
	(void)ledger_taken(&l, 0, STR("job_A"));
	assert_true(ledger_taken(&l, 0, STR("job_A")) == 0);
	ledger_acked(&l, 0);
	ledger_acked(&l, 0);
	assert_balance(&l, "1 job was handed out twice (job_A)");
}

static void test_other_faults_are_named(void **state _unused_)
{
	struct ledger l = { 0 };

	put_in(&l, 2);
	(void)ledger_taken(&l, 0, STR("job_X"));
	ledger_acked(&l, 0);
	(void)ledger_taken(&l, 1, STR("job_B"));
	(void)ledger_taken(&l, 99, STR("job_Y"));
	assert_balance(&l, "1 job was handed out and never taken in (job_Y), "
			   "1 job was handed out under another id (job_X), "
			   "1 job was handed out and not completed (job_B)");
}

static void test_many_lost_jobs_are_not_all_named(void **state _unused_)
{
	struct ledger l = { 0 };
	struct buf why = BUF_INIT(0);

	(void)ledger_new(&l, 100);
	ledger_sent(&l, 0, 100, 1);
	for (unsigned i = 0; i < 100; i++)
		ledger_known(&l, i, STR("job_A"));
	assert_false(ledger_balance(&l, &why));
	assert_true(str_starts(buf_str(&why), STR("100 jobs were lost (")));
	assert_true(why.n < 100);
	buf_done(&why);
	ledger_done(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shares_are_near_the_true_ones),
		cmocka_unit_test(test_one_slow_answer_is_the_largest),
		cmocka_unit_test(test_when_the_largest_was_is_known),
		cmocka_unit_test(test_too_early_is_negative),
		cmocka_unit_test(test_rates_are_of_whole_seconds),
		cmocka_unit_test(test_every_job_once_is_in_balance),
		cmocka_unit_test(test_a_worker_may_be_first),
		cmocka_unit_test(test_what_was_refused_need_not_come),
		cmocka_unit_test(test_what_was_refused_must_not_come),
		cmocka_unit_test(test_a_lost_job_is_named),
		cmocka_unit_test(test_a_job_twice_is_named),
		cmocka_unit_test(test_other_faults_are_named),
		cmocka_unit_test(test_many_lost_jobs_are_not_all_named),
	};

	return cmocka_run_group_tests_name("load", tests, NULL, NULL);
}
