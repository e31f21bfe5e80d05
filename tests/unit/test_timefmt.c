#include "util/timefmt.h"

#include <time.h>

#include "lib/testlib.h"

static void check_time_format(uint64_t ns, const char *want)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	time_format(&b, ns);
	assert_str_is(buf_str(&b), want);
}

static void test_time_parse(void **state _unused_)
{
	static const struct {
		const char *text;
		uint64_t s, ns;
	} cases[] = {
		{ "1970-01-01T00:00:00Z", 0, 0 },
		{ "1970-01-01T00:00:00.000000001Z", 0, 1 },
		{ "1970-01-01T00:00:00.1Z", 0, 100000000 },
		{ "1970-01-01T00:00:00.120Z", 0, 120000000 },
		{ "2000-02-29T00:00:00Z", 951782400, 0 },
		{ "2000-03-01T00:00:00Z", 951868800, 0 },
		{ "2024-02-29T23:59:59Z", 1709251199, 0 },
		{ "2026-02-11T10:00:00.123456789Z", 1770804000, 123456789 },
		{ "2026-02-11t10:00:00z", 1770804000, 0 },
		{ "2026-02-11T10:00:00+00:00", 1770804000, 0 },
		{ "2026-02-11T10:00:00-00:00", 1770804000, 0 },
		{ "2026-02-11T12:00:00+02:00", 1770804000, 0 },
		{ "2026-02-11T15:30:00+05:30", 1770804000, 0 },
		{ "2026-02-11T02:00:00.5-08:00", 1770804000, 500000000 },
		{ "2026-02-12T09:59:00+23:59", 1770804000, 0 },
		{ "2026-02-10T10:01:00-23:59", 1770804000, 0 },
		{ "2038-01-19T03:14:08Z", 2147483648, 0 },
		{ "2100-02-28T23:59:59Z", 4107542399, 0 },
		{ "2100-03-01T00:00:00Z", 4107542400, 0 },
		{ "2200-12-31T23:59:59.999999999Z", 7289654399, 999999999 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t ns = 0;

		if (!time_parse(str_from(cases[i].text), &ns))
			fail_msg("refused: %s", cases[i].text);
		assert_int_equal(ns, cases[i].s * NS_PER_S + cases[i].ns);
	}
}

static void test_time_parse_refuses(void **state _unused_)
{
	static const char *const bad[] = {
		"",
		"2026",
		"2026-02-11",
		"2026-02-11T10:00:00", /* no offset */
		"2026-02-11 10:00:00Z",
		"2026-02-11T10:00Z",
		"2026-2-11T10:00:00Z",
		"26-02-11T10:00:00Z",
		"12026-02-11T10:00:00Z",
		"+2026-02-11T10:00:00Z",
		"2026-00-11T10:00:00Z",
		"2026-13-11T10:00:00Z",
		"2026-02-00T10:00:00Z",
		"2026-02-29T10:00:00Z", /* no leap year */
		"2100-02-29T10:00:00Z", /* none either */
		"2024-02-30T10:00:00Z",
		"2026-04-31T10:00:00Z",
		"2026-02-11T24:00:00Z",
		"2026-02-11T10:60:00Z",
		"2026-02-11T10:00:60Z",
		"2016-12-31T23:59:60Z", /* a leap second that was */
		"2026-02-11T10:00:00.Z",
		"2026-02-11T10:00:00.1234567891Z",
		"2026-02-11T10:00:00,5Z",
		"2026-02-11T10:00:00.5",
		"2026-02-11T10:00:00+0200",
		"2026-02-11T10:00:00+02",
		"2026-02-11T10:00:00+24:00",
		"2026-02-11T10:00:00+02:60",
		"2026-02-11T10:00:00 +02:00",
		"2026-02-11T10:00:00Z ",
		" 2026-02-11T10:00:00Z",
		"2026-02-11T10:00:00ZZ",
		"2026-02-11T10:00:-1Z",
		"2026-02-11T1 :00:00Z",
		"1969-12-31T23:59:59Z",
		"1969-12-31T23:59:59-01:00",
		"1970-01-01T00:59:59+01:00", /* before 1970 in UTC */
		"2201-01-01T00:00:00Z",
	};
	uint64_t ns = 42;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		if (time_parse(str_from(bad[i]), &ns))
			fail_msg("accepted: %s", bad[i]);
		assert_int_equal(ns, 42);
	}
}

static void test_time_format_trims(void **state _unused_)
{
	const uint64_t t = 1770804000 * NS_PER_S;

	check_time_format(0, "1970-01-01T00:00:00Z");
	check_time_format(t, "2026-02-11T10:00:00Z");
	check_time_format(t + 123456789, "2026-02-11T10:00:00.123456789Z");
	check_time_format(t + 120000000, "2026-02-11T10:00:00.12Z");
	check_time_format(t + 1, "2026-02-11T10:00:00.000000001Z");
	check_time_format(t + 100, "2026-02-11T10:00:00.0000001Z");
	check_time_format(UINT64_MAX, "2554-07-21T23:34:33.709551615Z");
}

/* Each day of the range, against the C library. */
static void test_every_day(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	for (int64_t day = 0; day < 84371; day++) {
		time_t t = (time_t)(day * 86400 + day % 86400);
		uint64_t want = (uint64_t)t * NS_PER_S, got;
		struct tm tm;
		char text[40];

		gmtime_r(&t, &tm);
		strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
		buf_clear(&b);
		time_format(&b, want);
		assert_str_is(buf_str(&b), text);
		assert_true(time_parse(buf_str(&b), &got));
		assert_true(got == want);
	}
}

static void test_time_round_trip(void **state _unused_)
{
	const uint64_t end = 7289654400 * NS_PER_S;
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct rng r;

	test_rng(&r);
	for (int i = 0; i < 20000; i++) {
		uint64_t unit = i % 3 == 0 ? 1 : i % 3 == 1 ? NS_PER_MS : 1000;
		uint64_t want = rng_below(&r, end) / unit * unit, got = 0;

		buf_clear(&b);
		time_format(&b, want);
		assert_true(time_parse(buf_str(&b), &got));
		assert_int_equal(got, want);
	}
}

static void test_duration_parse(void **state _unused_)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} cases[] = {
		{ "0", 0 },
		{ "0s", 0 },
		{ "1ns", 1 },
		{ "1us", NS_PER_US },
		{ "1\xc2\xb5s", NS_PER_US },
		{ "1\xce\xbcs", NS_PER_US },
		{ "500ms", 500 * NS_PER_MS },
		{ "90s", 90 * NS_PER_S },
		{ "1m", 60 * NS_PER_S },
		{ "1h30m", 5400 * NS_PER_S },
		{ "1h30m0s", 5400 * NS_PER_S },
		{ "1.5h", 5400 * NS_PER_S },
		{ "2d", 172800 * NS_PER_S },
		{ "1d12h", 129600 * NS_PER_S },
		{ "0.25d", 21600 * NS_PER_S },
		{ ".5s", 500 * NS_PER_MS },
		{ "1.s", NS_PER_S },
		{ "0.1s", 100 * NS_PER_MS },
		{ "0.000000001s", 1 },
		{ "0.0000000019s", 1 }, /* cut, not rounded */
		{ "1.9ns", 1 },
		{ "0.333333333333333333333333333333h", 1199999999999ULL },
		{ "1s1s", 2 * NS_PER_S },
		{ "1s1h", 3601 * NS_PER_S },
		{ "007s", 7 * NS_PER_S },
		{ "18446744073709551615ns", UINT64_MAX },
		{ "18446744073.709551615s", UINT64_MAX },
		{ "213503d", 213503 * (86400 * NS_PER_S) },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t ns = 42;

		if (!duration_parse(str_from(cases[i].text), &ns))
			fail_msg("refused: %s", cases[i].text);
		assert_int_equal(ns, cases[i].ns);
	}
}

static void test_duration_parse_refuses(void **state _unused_)
{
	static const char *const bad[] = {
		"",
		"s",
		"1",
		"00",
		"0.0",
		".",
		".s",
		"..5s",
		"1..5s",
		"1.5.5s",
		"-1s",
		"+1s",
		" 1s",
		"1s ",
		"1 s",
		"1S",
		"1H",
		"1y",
		"1w",
		"1min",
		"1sec",
		"1h30",
		"1e3s",
		"0x1s",
		"1,5s",
		"1\xb5s",
		"18446744073709551616ns",
		"18446744073709551615ns1ns",
		"18446744074s",
		"18446744073.709551616s",
		"213504d",
		"99999999999999999999s",
		"9999999999999999999999999999999999999999ns",
	};
	uint64_t ns = 42;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		if (duration_parse(str_from(bad[i]), &ns))
			fail_msg("accepted: %s", bad[i]);
		assert_int_equal(ns, 42);
	}
}

static void test_duration_read(void **state _unused_)
{
	uint64_t ns = 42;

	assert_false(duration_read(STR("99999999999"), &ns));
	assert_false(duration_read(STR(""), &ns));
	assert_false(duration_read(STR("-1"), &ns));
	assert_int_equal(ns, 42);
	assert_true(duration_read(STR("30"), &ns));
	assert_int_equal(ns, 30 * NS_PER_S);
	assert_true(duration_read(STR("500ms"), &ns));
	assert_int_equal(ns, 500 * NS_PER_MS);
}

static void test_duration_format(void **state _unused_)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} cases[] = {
		{ 0, "0s" },
		{ 1, "1ns" },
		{ 999, "999ns" },
		{ 1000, "1us" },
		{ 1500, "1.5us" },
		{ 999999, "999.999us" },
		{ NS_PER_MS, "1ms" },
		{ 1000001, "1.000001ms" },
		{ 500 * NS_PER_MS, "500ms" },
		{ NS_PER_S, "1s" },
		{ 1500 * NS_PER_MS, "1.5s" },
		{ NS_PER_S + 1, "1.000000001s" },
		{ 59 * NS_PER_S, "59s" },
		{ 60 * NS_PER_S, "1m" },
		{ 90 * NS_PER_S, "1m30s" },
		{ 60 * NS_PER_S + 500 * NS_PER_MS, "1m0.5s" },
		{ 3600 * NS_PER_S, "1h" },
		{ 3601 * NS_PER_S, "1h1s" },
		{ 5400 * NS_PER_S, "1h30m" },
		{ 5430 * NS_PER_S, "1h30m30s" },
		{ 86400 * NS_PER_S, "24h" },
		{ UINT64_MAX, "5124095h34m33.709551615s" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(buf_done) struct buf b = BUF_INIT(0);

		duration_format(&b, cases[i].ns);
		assert_str_is(buf_str(&b), cases[i].text);
	}
}

static void test_duration_round_trip(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct rng r;

	test_rng(&r);
	for (int i = 0; i < 50000; i++) {
		/* All magnitudes alike. */
		uint64_t want = rng_u64(&r) >> rng_below(&r, 64), got = 0;

		buf_clear(&b);
		duration_format(&b, want);
		assert_true(duration_parse(buf_str(&b), &got));
		assert_int_equal(got, want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_time_parse),
		cmocka_unit_test(test_time_parse_refuses),
		cmocka_unit_test(test_time_format_trims),
		cmocka_unit_test(test_every_day),
		cmocka_unit_test(test_time_round_trip),
		cmocka_unit_test(test_duration_parse),
		cmocka_unit_test(test_duration_parse_refuses),
		cmocka_unit_test(test_duration_read),
		cmocka_unit_test(test_duration_format),
		cmocka_unit_test(test_duration_round_trip),
	};

	return cmocka_run_group_tests_name("timefmt", tests, NULL, NULL);
}
