#include "util/rng.h"

#include "lib/testlib.h"

static void test_same_seed_same_numbers(void **state _unused_)
{
	struct rng a, b, c;
	bool differs = false;

	rng_seed(&a, 42);
	rng_seed(&b, 42);
	rng_seed(&c, 43);
	for (int i = 0; i < 1000; i++) {
		uint64_t v = rng_u64(&a);

		assert_true(v == rng_u64(&b));
		differs = differs || v != rng_u64(&c);
	}
	assert_true(differs);
}

/* Simulations name their seeds: these numbers may never change. */
static void test_known_numbers(void **state _unused_)
{
	static const uint64_t want[] = {
		0x99ec5f36cb75f2b4ULL,
		0xbf6e1f784956452aULL,
		0x1a5f849d4933e6e0ULL,
		0x6aa594f1262d2d2cULL,
	};
	struct rng r;

	rng_seed(&r, 0);
	for (size_t i = 0; i < ARRAY_SIZE(want); i++)
		assert_int_equal(rng_u64(&r), want[i]);
}

static void test_below_stays_below(void **state _unused_)
{
	static const uint64_t limits[] = {
		1, 2, 3, 7, 1000, 1ULL << 32, (1ULL << 63) + 1, UINT64_MAX,
	};
	struct rng r;

	test_rng(&r);
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		for (int j = 0; j < 1000; j++)
			assert_true(rng_below(&r, limits[i]) < limits[i]);
}

/* 6000 throws of a die: each side within 10 standard deviations (290). */
static void test_below_is_even(void **state _unused_)
{
	int count[6] = { 0 };
	struct rng r;

	test_rng(&r);
	for (int i = 0; i < 6000; i++)
		count[rng_below(&r, 6)]++;
	for (int i = 0; i < 6; i++)
		assert_in_range(count[i], 1000 - 290, 1000 + 290);
}

/* Without throwing again, every third number would come twice as often. */
static void test_below_is_even_at_large_limits(void **state _unused_)
{
	uint64_t limit = 3ULL << 62;
	int low = 0;
	struct rng r;

	test_rng(&r);
	for (int i = 0; i < 9000; i++)
		low += rng_below(&r, limit) % 3 == 0;
	assert_in_range(low, 3000 - 450, 3000 + 450);
}

static void test_unit_range(void **state _unused_)
{
	double sum = 0;
	struct rng r;

	test_rng(&r);
	for (int i = 0; i < 10000; i++) {
		double v = rng_unit(&r);

		assert_true(v >= 0 && v < 1);
		sum += v;
	}
	assert_true(sum > 4700 && sum < 5300);
}

static void test_system_fills_all(void **state _unused_)
{
	unsigned char bytes[1000] = { 0 };
	int zeros = 0;

	rng_system(bytes, 0);
	rng_system(bytes, sizeof(bytes) - 1);
	assert_int_equal(bytes[sizeof(bytes) - 1], 0);
	for (size_t i = 0; i < sizeof(bytes) - 1; i++)
		zeros += bytes[i] == 0;
	assert_true(zeros < 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_seed_same_numbers),
		cmocka_unit_test(test_known_numbers),
		cmocka_unit_test(test_below_stays_below),
		cmocka_unit_test(test_below_is_even),
		cmocka_unit_test(test_below_is_even_at_large_limits),
		cmocka_unit_test(test_unit_range),
		cmocka_unit_test(test_system_fills_all),
	};

	return cmocka_run_group_tests_name("rng", tests, NULL, NULL);
}
