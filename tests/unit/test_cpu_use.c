#include "rt/cpu_use.h"

#include "lib/testlib.h"
#include "util/clock.h"

static struct cpu_sample at(uint64_t ms, const char *stat)
{
	struct cpu_sample s = { .at_ns = ms * NS_PER_MS };

	cpu_sample_take_stat(&s, str_from(stat));
	return s;
}

static struct cpu_sample with_quota(struct cpu_sample s, const char *max,
				    const char *stat)
{
	cpu_sample_take_quota(&s, str_from(max), str_from(stat));
	return s;
}

static void test_stat_counts_idle_and_waiting_as_idle(void **state _unused_)
{
	struct cpu_sample s = at(
	    1, "cpu  10 20 30 400 50 6 7 8 99 99\ncpu0 1 1 1 1 1 1 1 1 0 0\n");

	assert_int_equal(s.idle, 450);
	assert_int_equal(s.total, 531);
}

static void test_busy_from_half_on(void **state _unused_)
{
	struct cpu_sample a = at(0, "cpu  1 0 0 0 0 0 0 0 0 0\n");
	struct cpu_sample idle = at(200, "cpu  20 0 0 11 10 0 0 0 0 0\n");
	struct cpu_sample busy = at(200, "cpu  21 0 0 10 10 0 0 0 0 0\n");

	assert_false(cpu_was_busy(&a, &idle));
	assert_true(cpu_was_busy(&a, &busy));
}

static void test_busy_where_the_kernel_does_not_tell(void **state _unused_)
{
	static const char *const texts[] = {
		"",
		"cpu",
		"cpu  1 2 3\n",
		"cpu  1 2 3 x 5 6 7 8 9\n",
		"no newline at all 1 2 3 4 5 6 7 8 9",
	};
	struct cpu_sample a = at(0, "cpu  1 0 0 100 0 0 0 0 0 0\n");

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct cpu_sample b = at(200, texts[i]);

		assert_int_equal(b.total, 0);
		assert_true(cpu_was_busy(&a, &b));
	}
}

/* A container with half a processor on a machine where all else sleeps. */
static void test_a_used_up_quota_is_busy(void **state _unused_)
{
	const char *max = "50000 100000\n";
	struct cpu_sample a =
	    with_quota(at(1000, "cpu  100 0 0 1000 0 0 0 0 0 0\n"), max,
		       "usage_usec 7000000\nuser_usec 1\nsystem_usec 2\n");
	struct cpu_sample b = at(1200, "cpu  110 0 0 5000 0 0 0 0 0 0\n");
	struct cpu_sample little =
	    with_quota(b, max, "usage_usec 7049999\nuser_usec 1\n");
	struct cpu_sample much =
	    with_quota(b, max, "usage_usec 7050000\nuser_usec 1\n");

	assert_false(cpu_was_busy(&a, &little));
	assert_true(cpu_was_busy(&a, &much));
}

static void test_no_quota_is_never_used_up(void **state _unused_)
{
	const char *used[] = { "usage_usec 0\n", "usage_usec 900000000\n" };
	struct cpu_sample a =
	    with_quota(at(1000, "cpu  100 0 0 1000 0 0 0 0 0 0\n"),
		       "max 100000\n", used[0]);
	struct cpu_sample b =
	    with_quota(at(1200, "cpu  110 0 0 5000 0 0 0 0 0 0\n"),
		       "max 100000\n", used[1]);

	assert_false(cpu_was_busy(&a, &b));
}

/* This machine's own files: read without complaint, and not at every call. */
static void test_looks_only_so_often(void **state _unused_)
{
	struct cpu_use u = { 0 };
	uint64_t now = 1000 * NS_PER_MS;

	assert_true(cpu_use_is_busy(&u, now)); /* nothing to compare with */
	assert_true(u.last.total > 0);
	assert_true(cpu_use_is_busy(&u, now + 199 * NS_PER_MS));
	assert_int_equal(u.last.at_ns, now);
	(void)cpu_use_is_busy(&u, now + 200 * NS_PER_MS);
	assert_int_equal(u.last.at_ns, now + 200 * NS_PER_MS);
	cpu_use_done(&u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stat_counts_idle_and_waiting_as_idle),
		cmocka_unit_test(test_busy_from_half_on),
		cmocka_unit_test(test_busy_where_the_kernel_does_not_tell),
		cmocka_unit_test(test_a_used_up_quota_is_busy),
		cmocka_unit_test(test_no_quota_is_never_used_up),
		cmocka_unit_test(test_looks_only_so_often),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
