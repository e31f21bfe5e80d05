#include "lib/testlib.h"

#include "util/nano.h"

static void reads(const char *text, uint64_t nano)
{
	uint64_t got = 1;

	if (!nano_parse(str_from(text), &got))
		fail_msg("%s is not read", text);
	if (got != nano)
		fail_msg("%s is %llu", text, (unsigned long long)got);
}

static void test_numbers_are_read_exactly(void **state)
{
	(void)state;
	reads("0", 0);
	reads("-0", 0);
	reads("-0.0e5", 0);
	reads("1", NANO_PER_UNIT);
	reads("0.0031", 3100000);
	reads("12.5", 12500000000);
	reads("123456.789012345", 123456789012345);
	reads("1e-9", 1);
	reads("1.5E-3", 1500000);
	reads("2.5e3", 2500 * NANO_PER_UNIT);
	reads("0.000e999999999", 0);
	reads("18446744073.709551615", UINT64_MAX);
	/* a double would have lost the last of them */
	reads("9007199.254740993", 9007199254740993);
}

static void test_what_is_beyond_nine_decimals_is_rounded(void **state)
{
	(void)state;
	reads("0.30000000000000004", 300000000);
	reads("0.0000000005", 1);
	reads("0.00000000049999", 0);
	reads("1.9999999999", 2 * NANO_PER_UNIT);
	reads("5e-10", 1);
	reads("1e-1000000", 0);
}

static void test_what_does_not_fit_is_refused(void **state)
{
	static const char *const texts[] = {
		"-1",
		"-0.000000000001",
		"18446744073.709551616",
		"99999999999",
		"1e11",
		"1e1000000",
		"18446744073.7095516155",
	};
	uint64_t got;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (nano_parse(str_from(texts[i]), &got))
			fail_msg("%s is read", texts[i]);
}

static void test_texts_are_exact_and_short(void **state)
{
	static const struct {
		uint64_t nano;
		const char *text;
	} rows[] = {
		{ 0, "0" },
		{ NANO_PER_UNIT, "1" },
		{ 3100000, "0.0031" },
		{ 1, "0.000000001" },
		{ 12500000000, "12.5" },
		{ UINT64_MAX, "18446744073.709551615" },
	};
	struct buf b = BUF_INIT(0);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		buf_clear(&b);
		nano_format(&b, rows[i].nano);
		assert_str_is(buf_str(&b), rows[i].text);
		reads(rows[i].text, rows[i].nano);
	}
	buf_done(&b);
}

static void test_sums_stay_at_the_largest_number(void **state)
{
	(void)state;
	assert_int_equal(nano_add(1, 2), 3);
	assert_true(nano_add(UINT64_MAX, 1) == UINT64_MAX);
	assert_true(nano_add(UINT64_MAX - 1, 1) == UINT64_MAX);
}

static void test_doubles_become_the_nearest(void **state)
{
	uint64_t got;

	(void)state;
	assert_true(nano_from_double(0.0031, &got));
	assert_int_equal(got, 3100000);
	assert_true(nano_from_double(0.1 + 0.2, &got));
	assert_int_equal(got, 300000000);
	assert_false(nano_from_double(-1, &got));
	assert_false(nano_from_double(1e300, &got));
	assert_false(nano_from_double(0.0 / 0.0, &got));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers_are_read_exactly),
		cmocka_unit_test(test_what_is_beyond_nine_decimals_is_rounded),
		cmocka_unit_test(test_what_does_not_fit_is_refused),
		cmocka_unit_test(test_texts_are_exact_and_short),
		cmocka_unit_test(test_sums_stay_at_the_largest_number),
		cmocka_unit_test(test_doubles_become_the_nearest),
	};

	return cmocka_run_group_tests_name("nano", tests, NULL, NULL);
}
