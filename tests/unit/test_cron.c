/*
 * Cron expressions: what they mean, what is refused, and the changes of the
 * clock. test_cron_compare.py compares many more.
 */
#include "lib/testlib.h"

#include "util/cron.h"
#include "util/timefmt.h"

static struct tz_cache zones;

static void parse(const char *text, struct cron *ret)
{
	struct buf why = BUF_INIT(0);

	if (!cron_parse(str_from(text), ret, &why))
		fail_msg("%s: %.*s", text, STR_ARG(buf_str(&why)));
	buf_done(&why);
}

/* `expected`: times in UTC, a space between them. */
static void expect_gap(const char *zone, enum cron_gap gap, const char *text,
		       const char *after, const char *expected)
{
	struct str left = str_from(expected), time;
	struct buf got = BUF_INIT(0), why = BUF_INIT(0);
	uint64_t at, anchor;
	struct cron c;

	parse(text, &c);
	assert_true(time_parse(str_from(after), &at));
	anchor = at;
	while (left.n > 0) {
		const struct tz *z = tz_find(&zones, str_from(zone), &why);

		assert_non_null(z);
		(void)str_split(left, ' ', &time, &left);
		at = cron_next(&c, z, gap, anchor, at);
		buf_clear(&got);
		if (at != 0)
			time_format(&got, at);
		if (!str_eq(buf_str(&got), time))
			fail_msg("%s after %s: got %.*s, expected %.*s", text,
				 after, STR_ARG(buf_str(&got)), STR_ARG(time));
	}
	buf_done(&got);
	buf_done(&why);
}

static void expect(const char *text, const char *after, const char *expected)
{
	expect_gap("UTC", CRON_ONCE, text, after, expected);
}

static void test_fields(void **state)
{
	(void)state;
	expect("* * * * *", "2026-01-01T00:00:00Z",
	       "2026-01-01T00:01:00Z 2026-01-01T00:02:00Z");
	expect("* * * * *", "2026-01-01T00:00:59.9Z", "2026-01-01T00:01:00Z");
	expect("30 9 * * *", "2026-01-01T09:30:00Z", "2026-01-02T09:30:00Z");
	expect("30 9 * * *", "2026-01-01T09:29:59.999Z",
	       "2026-01-01T09:30:00Z");
	expect("*/20 8-9 * * *", "2026-01-01T08:30:00Z",
	       "2026-01-01T08:40:00Z 2026-01-01T09:00:00Z "
	       "2026-01-01T09:20:00Z 2026-01-01T09:40:00Z "
	       "2026-01-02T08:00:00Z");
	expect("50/5 8 * * *", "2026-01-01T00:00:00Z",
	       "2026-01-01T08:50:00Z 2026-01-01T08:55:00Z "
	       "2026-01-02T08:50:00Z");
	expect("0 0 1,15 jan,MAR *", "2026-01-02T00:00:00Z",
	       "2026-01-15T00:00:00Z 2026-03-01T00:00:00Z "
	       "2026-03-15T00:00:00Z 2027-01-01T00:00:00Z");
	expect("0 12 * * mon-wed", "2026-11-15T00:00:00Z",
	       "2026-11-16T12:00:00Z 2026-11-17T12:00:00Z "
	       "2026-11-18T12:00:00Z 2026-11-23T12:00:00Z");
	expect("0 0 * * 7", "2026-11-14T00:00:00Z", "2026-11-15T00:00:00Z");
	expect("0 0 * * SAT-SUN", "2026-11-13T00:00:00Z",
	       "2026-11-14T00:00:00Z 2026-11-15T00:00:00Z "
	       "2026-11-21T00:00:00Z");
	expect("0 0 29 2 *", "2026-01-01T00:00:00Z",
	       "2028-02-29T00:00:00Z 2032-02-29T00:00:00Z");
	expect("0 0 29 2 *", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z");
}

static void test_seconds(void **state)
{
	(void)state;
	expect("*/30 * * * * *", "2026-01-01T00:00:00Z",
	       "2026-01-01T00:00:30Z 2026-01-01T00:01:00Z");
	expect("5,10 59 23 31 12 ?", "2026-01-01T00:00:00Z",
	       "2026-12-31T23:59:05Z 2026-12-31T23:59:10Z "
	       "2027-12-31T23:59:05Z");
	expect("15 0 12 * * *", "2026-01-01T12:00:15Z", "2026-01-02T12:00:15Z");
}

/* Vixie's rule: both days restricted, either will do. */
static void test_either_day(void **state)
{
	(void)state;
	expect("0 0 13 * FRI", "2026-02-01T00:00:00Z",
	       "2026-02-06T00:00:00Z 2026-02-13T00:00:00Z "
	       "2026-02-20T00:00:00Z 2026-02-27T00:00:00Z "
	       "2026-03-06T00:00:00Z 2026-03-13T00:00:00Z");
	expect("0 0 */10 * FRI", "2026-02-01T00:00:00Z",
	       "2026-05-01T00:00:00Z 2026-07-31T00:00:00Z");
	expect("0 0 ? * FRI", "2026-02-01T00:00:00Z",
	       "2026-02-06T00:00:00Z 2026-02-13T00:00:00Z");
}

static void test_days_of_the_month(void **state)
{
	(void)state;
	expect("0 0 L * *", "2027-12-31T00:00:00Z",
	       "2028-01-31T00:00:00Z 2028-02-29T00:00:00Z "
	       "2028-03-31T00:00:00Z");
	expect("0 0 L-3 * *", "2026-01-29T00:00:00Z", "2026-02-25T00:00:00Z");
	expect("0 0 * * 5L", "2026-01-01T00:00:00Z",
	       "2026-01-30T00:00:00Z 2026-02-27T00:00:00Z");
	expect("0 0 * * FRI#2", "2026-01-01T00:00:00Z",
	       "2026-01-09T00:00:00Z 2026-02-13T00:00:00Z");
	expect("0 0 * * 1#5", "2026-01-01T00:00:00Z",
	       "2026-03-30T00:00:00Z 2026-06-29T00:00:00Z");
	/* Saturday 15 August, Sunday 15 November, Sunday 1, Saturday 31 */
	expect("0 0 15W 8,11 *", "2026-08-01T00:00:00Z",
	       "2026-08-14T00:00:00Z 2026-11-16T00:00:00Z");
	expect("0 0 1W 8 *", "2026-07-01T00:00:00Z", "2026-08-03T00:00:00Z");
	expect("0 0 31W 5 *", "2026-05-01T00:00:00Z", "2026-05-29T00:00:00Z");
	expect("0 0 LW 5,6 *", "2026-05-01T00:00:00Z",
	       "2026-05-29T00:00:00Z 2026-06-30T00:00:00Z");
	expect("0 0 1,L * *", "2026-02-01T00:00:00Z",
	       "2026-02-28T00:00:00Z 2026-03-01T00:00:00Z");
}

static void test_names_for_all(void **state)
{
	(void)state;
	expect("@yearly", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z");
	expect("@annually", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z");
	expect("@monthly", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z");
	expect("@weekly", "2026-11-15T00:00:00Z", "2026-11-22T00:00:00Z");
	expect(" @daily ", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
	expect("@midnight", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
	expect("@hourly", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z");
	/* from its anchor, here the moment asked for */
	expect("@every 90s", "2026-01-01T00:00:00.5Z",
	       "2026-01-01T00:01:30.5Z 2026-01-01T00:03:00.5Z");
}

static void test_every_counts_from_its_anchor(void **state)
{
	struct cron c;

	(void)state;
	parse("@every 10s", &c);
	assert_int_equal(cron_next(&c, NULL, CRON_ONCE, 5000, 4999), 5000);
	assert_int_equal(cron_next(&c, NULL, CRON_ONCE, 5000, 5000),
			 5000 + 10 * NS_PER_S);
	assert_int_equal(cron_next(&c, NULL, CRON_ONCE, 5000, 25 * NS_PER_S),
			 5000 + 30 * NS_PER_S);
}

static void test_refusals(void **state)
{
	static const struct {
		const char *text, *why;
	} bad[] = {
		{ "", "an expression has 5 fields, or 6 with seconds first, "
		      "not 0" },
		{ "* * * *", "an expression has 5 fields, or 6 with seconds "
			     "first, not 4" },
		{ "* * * * * * *", "an expression has 5 fields, or 6 with "
				   "seconds first, not 7" },
		{ "60 * * * *",
		  "minute field, character 1: 60 is not from 0 to 59" },
		{ "0 24 * * *",
		  "hour field, character 3: 24 is not from 0 to 23" },
		{ "0 0 0 * *", "day of month field, character 5: 0 is not "
			       "from 1 to 31" },
		{ "0 0 1 13 *",
		  "month field, character 7: 13 is not from 1 to 12" },
		{ "0 0 1 1 8",
		  "day of week field, character 9: 8 is not from 0 to 7" },
		{ "61 0 0 1 1 *",
		  "second field, character 1: 61 is not from 0 to 59" },
		{ "a * * * *",
		  "minute field, character 1: expected a number from 0 to 59" },
		{ "1, * * * *",
		  "minute field, character 3: expected a number from 0 to 59" },
		{ "5-1 * * * *", "minute field, character 3: the range ends "
				 "before it begins" },
		{ "*/0 * * * *",
		  "minute field, character 3: 0 is not from 1 to 59" },
		{ "*x * * * *",
		  "minute field, character 2: \"x\" does not belong here" },
		{ "? * * * *",
		  "minute field, character 1: expected a number from 0 to 59" },
		{ "0 0 * * 5#6",
		  "day of week field, character 11: 6 is not from 1 to 5" },
		{ "0 0 * JANU *",
		  "month field, character 10: \"U\" does not belong here" },
		{ "0 0 99999999999999999999999 * *",
		  "day of month field, character 5: 99999999999999999999 is "
		  "not from 1 to 31" },
		{ "0 0 30 2 *",
		  "no day of the calendar matches: it would never run" },
		{ "0 0 31 4,6,9,11 *",
		  "no day of the calendar matches: it would never run" },
		{ "0 0 31W 2 *",
		  "no day of the calendar matches: it would never run" },
		{ "@every 10ms", "@every takes a duration of at least 1s, "
				 "such as 90s or 1h30m" },
		{ "@every", "names are @yearly, @annually, @monthly, @weekly, "
			    "@daily, @midnight, @hourly and @every DURATION" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct buf why = BUF_INIT(0);
		struct cron c;

		if (cron_parse(str_from(bad[i].text), &c, &why))
			fail_msg("\"%s\" was taken", bad[i].text);
		assert_str_is(buf_str(&why), bad[i].why);
		buf_done(&why);
	}
}

#define BERLIN "Europe/Berlin"

/* 2026-03-29 02:00 to 03:00 does not exist in Berlin; 03:00 is 01:00 UTC. */
static void test_left_out_time(void **state)
{
	(void)state;
	expect_gap(BERLIN, CRON_ONCE, "30 2 * * *", "2026-03-28T12:00:00Z",
		   "2026-03-29T01:00:00Z 2026-03-30T00:30:00Z");
	expect_gap(BERLIN, CRON_SKIP, "30 2 * * *", "2026-03-28T12:00:00Z",
		   "2026-03-30T00:30:00Z");
	expect_gap(BERLIN, CRON_SHIFT, "30 2 * * *", "2026-03-28T12:00:00Z",
		   "2026-03-29T01:30:00Z 2026-03-30T00:30:00Z");
	/* asked between the change and the moved time */
	expect_gap(BERLIN, CRON_SHIFT, "30 2 * * *", "2026-03-29T01:10:00Z",
		   "2026-03-29T01:30:00Z 2026-03-30T00:30:00Z");
	/* several left out: one run makes up for them */
	expect_gap(BERLIN, CRON_ONCE, "0,20,40 2,3 * * *",
		   "2026-03-28T12:00:00Z",
		   "2026-03-29T01:00:00Z 2026-03-29T01:20:00Z "
		   "2026-03-29T01:40:00Z 2026-03-30T00:00:00Z");
	/* half an hour: a time after the gap comes before one it moved */
	expect_gap("Australia/Lord_Howe", CRON_SHIFT, "15,30 2 4 10 *",
		   "2026-10-01T00:00:00Z",
		   "2026-10-03T15:30:00Z 2026-10-03T15:45:00Z");
}

/* 2026-10-25 02:00 to 03:00 comes twice in Berlin. */
static void test_repeated_time_runs_once(void **state)
{
	(void)state;
	for (int gap = CRON_ONCE; gap <= CRON_SHIFT; gap++) {
		expect_gap(BERLIN, (enum cron_gap)gap, "30 2 * * *",
			   "2026-10-24T12:00:00Z",
			   "2026-10-25T00:30:00Z 2026-10-26T01:30:00Z");
		expect_gap(BERLIN, (enum cron_gap)gap, "30 2 * * *",
			   "2026-10-25T01:10:00Z", "2026-10-26T01:30:00Z");
	}
}

/* With * in the hour or the minute it is time that counts. */
static void test_elapsed_time(void **state)
{
	(void)state;
	expect_gap(BERLIN, CRON_ONCE, "30 * * * *", "2026-03-29T00:00:00Z",
		   "2026-03-29T00:30:00Z 2026-03-29T01:30:00Z");
	expect_gap(BERLIN, CRON_ONCE, "30 * * * *", "2026-10-25T00:00:00Z",
		   "2026-10-25T00:30:00Z 2026-10-25T01:30:00Z "
		   "2026-10-25T02:30:00Z");
	expect_gap(BERLIN, CRON_SHIFT, "*/30 2 * * *", "2026-03-29T00:00:00Z",
		   "2026-03-30T00:00:00Z 2026-03-30T00:30:00Z");
	expect_gap(BERLIN, CRON_SKIP, "*/30 2 * * *", "2026-10-25T00:00:00Z",
		   "2026-10-25T00:30:00Z 2026-10-25T01:00:00Z "
		   "2026-10-25T01:30:00Z 2026-10-26T01:00:00Z");
	expect_gap("Pacific/Apia", CRON_ONCE, "0 */12 * * *",
		   "2011-12-29T22:00:00Z",
		   "2011-12-30T10:00:00Z 2011-12-30T22:00:00Z");
}

/* Nonsense never takes long, and what is taken gives growing times. */
static void test_random_expressions(void **state)
{
	static const char chars[] = "0123456789*/-,?LW#@ MONJANFRI";
	struct buf why = BUF_INIT(0);
	unsigned taken = 0;
	struct rng r;

	(void)state;
	test_rng(&r);
	for (int i = 0; i < 200000; i++) {
		char text[40];
		size_t n = rng_u64(&r) % sizeof(text);
		uint64_t at = 1700000000 * NS_PER_S;
		struct cron c;

		for (size_t k = 0; k < n; k++)
			text[k] =
			    k % 2 && i % 2
				? ' '
				: chars[rng_u64(&r) % (sizeof(chars) - 1)];
		buf_clear(&why);
		if (!cron_parse(str_of(text, n), &c, &why)) {
			assert_true(why.n > 0);
			continue;
		}
		taken++;
		for (int k = 0; k < 3; k++) {
			const struct tz *z = tz_find(&zones, STR(BERLIN), &why);
			uint64_t next = cron_next(&c, z, CRON_ONCE, at, at);

			assert_true(next > at);
			at = next;
		}
	}
	print_message("%u of 200000 were taken\n", taken);
	assert_true(taken > 0);
	buf_done(&why);
}

static int done(void **state)
{
	(void)state;
	tz_cache_done(&zones);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_seconds),
		cmocka_unit_test(test_either_day),
		cmocka_unit_test(test_days_of_the_month),
		cmocka_unit_test(test_names_for_all),
		cmocka_unit_test(test_every_counts_from_its_anchor),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_left_out_time),
		cmocka_unit_test(test_repeated_time_runs_once),
		cmocka_unit_test(test_elapsed_time),
		cmocka_unit_test(test_random_expressions),
	};

	return cmocka_run_group_tests_name("cron", tests, NULL, done);
}
