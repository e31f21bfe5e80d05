/*
 * When schedules run, and what becomes of times that were missed.
 */
#include "lib/testlib.h"

#include "proto/plan.h"

#define NOW    (1700000000 * NS_PER_S) /* 2023-11-14T22:13:20Z */
#define MIN_NS (60 * NS_PER_S)

static struct tz_cache zones;

static void plan(const struct m_schedule *s, struct plan *ret)
{
	struct buf why = BUF_INIT(0);

	if (plan_init(ret, &zones, s, NOW, &why) < 0)
		fail_msg("%.*s", STR_ARG(buf_str(&why)));
	buf_done(&why);
}

static void make(struct m_schedule *s, const char *cron, uint64_t next_run)
{
	*s = (struct m_schedule){ 0 };
	MSG_SET(s, schedule, id, STR("sch_1"));
	MSG_SET(s, schedule, name, STR("a"));
	MSG_SET(s, schedule, cron, str_from(cron));
	MSG_SET(s, schedule, version, 7);
	MSG_SET(s, schedule, next_run, next_run);
}

static void test_refusals_name_the_member(void **state)
{
	struct buf why = BUF_INIT(0);
	struct m_schedule s;
	struct plan p;

	(void)state;
	make(&s, "0 25 * * *", 0);
	assert_int_equal(plan_init(&p, &zones, &s, NOW, &why),
			 -ERR_SCHEDULE_ERROR);
	assert_str_is(buf_str(&why),
		      "cron: hour field, character 3: 25 is not from 0 to 23");
	make(&s, "0 5 * * *", 0);
	s.timezone = STR("Mars/Olympus");
	assert_int_equal(plan_init(&p, &zones, &s, NOW, &why),
			 -ERR_SCHEDULE_ERROR);
	assert_true(str_starts(buf_str(&why), STR("timezone: \"Mars/Olympus")));
	buf_done(&why);
}

static void test_start_and_end(void **state)
{
	struct m_schedule s;
	struct plan p;

	(void)state;
	make(&s, "*/5 * * * *", 0);
	s.start_at = NOW + 10 * MIN_NS + 100 * NS_PER_S; /* 22:25:00 */
	s.end_at = s.start_at + 5 * MIN_NS;
	plan(&s, &p);
	assert_int_equal(plan_next(&p, NOW), s.start_at);
	assert_int_equal(plan_next(&p, s.start_at), s.end_at);
	assert_int_equal(plan_next(&p, s.end_at), 0);
}

static void test_jitter_is_the_same_for_a_name(void **state)
{
	struct m_schedule s;
	uint64_t first, other = 0;
	struct plan p;

	(void)state;
	make(&s, "*/5 * * * *", 0);
	s.jitter = MIN_NS;
	plan(&s, &p);
	first = p.jitter_ns;
	assert_true(first < MIN_NS && first % NS_PER_MS == 0);
	assert_int_equal(plan_next(&p, NOW), NOW + 100 * NS_PER_S + first);
	assert_int_equal(plan_next(&p, NOW + 100 * NS_PER_S + first),
			 NOW + 400 * NS_PER_S + first);
	plan(&s, &p);
	assert_int_equal(p.jitter_ns, first);
	for (int i = 0; i < 10 && (other == 0 || other == first); i++) {
		char name[2] = { (char)('b' + i), '\0' };

		s.name = str_from(name);
		plan(&s, &p);
		other = p.jitter_ns;
	}
	assert_int_not_equal(other, first);
}

static void test_every_goes_on_from_the_time_before(void **state)
{
	struct m_schedule s;
	struct plan p;

	(void)state;
	make(&s, "@every 90s", 0);
	plan(&s, &p);
	assert_int_equal(plan_next(&p, NOW), NOW + 90 * NS_PER_S);
	s.start_at = NOW + 7;
	plan(&s, &p);
	assert_int_equal(plan_next(&p, NOW), NOW + 7);
	s.next_run = NOW + 7;
	plan(&s, &p);
	assert_int_equal(plan_next(&p, NOW + 7), NOW + 7 + 90 * NS_PER_S);
}

static void test_last_time_of_a_stretch(void **state)
{
	struct m_schedule s;
	struct plan p;

	(void)state;
	make(&s, "*/5 * * * *", 0);
	plan(&s, &p);
	/* 22:13:20; the times before are 22:10 and 22:05 */
	assert_int_equal(plan_last(&p, NOW - 86400 * NS_PER_S, NOW),
			 NOW - 200 * NS_PER_S);
	assert_int_equal(plan_last(&p, NOW - 200 * NS_PER_S, NOW), 0);
	assert_int_equal(plan_last(&p, NOW - 201 * NS_PER_S, NOW),
			 NOW - 200 * NS_PER_S);
	assert_int_equal(plan_last(&p, 0, NOW - 200 * NS_PER_S),
			 NOW - 200 * NS_PER_S);
}

/* Due every five minutes, found `late` after the time of 22:10. */
static void fire(struct m_schedule *s, uint64_t now, struct m_fire *ret)
{
	struct plan p;

	plan(s, &p);
	*ret = (struct m_fire){ 0 };
	plan_fire(&p, s, now, ret);
	assert_int_equal(ret->due_ns, s->next_run);
	assert_int_equal(ret->version, 7);
}

static const uint64_t t2210 = NOW - 200 * NS_PER_S;

static void test_fire_on_time(void **state)
{
	struct m_schedule s;
	struct m_fire m;

	(void)state;
	for (uint32_t policy = CATCH_UP_NONE; policy <= CATCH_UP_ALL;
	     policy++) {
		make(&s, "*/5 * * * *", t2210);
		MSG_SET(&s, schedule, catch_up, policy);
		fire(&s, t2210 + 999 * NS_PER_MS, &m);
		assert_false(m.skip);
		assert_int_equal(m.at_ns, 0);
		assert_int_equal(m.missed, 0);
		assert_int_equal(m.next_ns, t2210 + 5 * MIN_NS);
	}
}

static void test_catch_up_none(void **state)
{
	struct m_schedule s;
	struct m_fire m;

	(void)state;
	make(&s, "*/5 * * * *", t2210);
	MSG_SET(&s, schedule, catch_up, CATCH_UP_NONE);
	fire(&s, t2210 + 11 * MIN_NS, &m);
	assert_true(m.skip);
	assert_int_equal(m.missed, 3);
	assert_int_equal(m.next_ns, t2210 + 15 * MIN_NS);
}

static void test_catch_up_last(void **state)
{
	struct m_schedule s;
	struct m_fire m;

	(void)state;
	make(&s, "*/5 * * * *", t2210);
	fire(&s, t2210 + 11 * MIN_NS, &m); /* last is the default */
	assert_false(m.skip);
	assert_int_equal(m.at_ns, t2210 + 10 * MIN_NS);
	assert_int_equal(m.missed, 2);
	assert_int_equal(m.next_ns, t2210 + 15 * MIN_NS);
	/* only one was missed */
	fire(&s, t2210 + 2 * MIN_NS, &m);
	assert_int_equal(m.at_ns, 0);
	assert_int_equal(m.missed, 0);
	assert_int_equal(m.next_ns, t2210 + 5 * MIN_NS);
	/* not inside the window */
	MSG_SET(&s, schedule, catch_up_window, 30 * NS_PER_S);
	fire(&s, t2210 + 11 * MIN_NS, &m);
	assert_true(m.skip);
	assert_int_equal(m.missed, 3);
}

static void test_catch_up_all(void **state)
{
	struct m_schedule s;
	struct m_fire m;

	(void)state;
	make(&s, "*/5 * * * *", t2210);
	MSG_SET(&s, schedule, catch_up, CATCH_UP_ALL);
	fire(&s, t2210 + 11 * MIN_NS, &m);
	assert_false(m.skip);
	assert_int_equal(m.at_ns, 0);
	assert_int_equal(m.next_ns, t2210 + 5 * MIN_NS);
	/* the oldest are outside: first to the first inside */
	MSG_SET(&s, schedule, catch_up_window, 7 * MIN_NS);
	fire(&s, t2210 + 11 * MIN_NS, &m);
	assert_true(m.skip);
	assert_int_equal(m.missed, 1);
	assert_int_equal(m.next_ns, t2210 + 5 * MIN_NS);
}

/* Years of seconds: counted up to a limit, found at once. */
static void test_long_downtime_is_cheap(void **state)
{
	struct m_schedule s;
	struct m_fire m;

	(void)state;
	make(&s, "* * * * * *", NOW - 1000 * 86400 * NS_PER_S);
	MSG_SET(&s, schedule, catch_up_window, 2000 * 86400 * NS_PER_S);
	fire(&s, NOW, &m);
	assert_int_equal(m.at_ns, NOW);
	assert_int_equal(m.missed, PLAN_MISSED_COUNTED);
	assert_int_equal(m.next_ns, NOW + NS_PER_S);
}

static void test_end_while_down(void **state)
{
	struct m_schedule s;
	struct m_fire m;

	(void)state;
	make(&s, "*/5 * * * *", t2210);
	MSG_SET(&s, schedule, catch_up, CATCH_UP_NONE);
	s.end_at = t2210 + 6 * MIN_NS;
	fire(&s, t2210 + 11 * MIN_NS, &m);
	assert_true(m.skip);
	assert_int_equal(m.missed, 2);
	assert_int_equal(m.next_ns, 0);
}

/* Its next time after the clock was set back by that much, to NOW. */
static uint64_t again(const char *cron, uint64_t next_run, uint64_t by)
{
	struct m_schedule s;
	struct plan p;

	make(&s, cron, next_run);
	MSG_SET(&s, schedule, set_back_ns, by);
	plan(&s, &p);
	return plan_again(&p, &s, NOW);
}

/* It would stand still for an hour: it goes on with what the clock shows. */
static void test_set_back_further_than_to_the_last_time(void **state)
{
	uint64_t hour = 60 * MIN_NS, minute = NOW + 40 * NS_PER_S;

	(void)state;
	assert_int_equal(again("* * * * *", minute + hour, hour), minute);
	assert_int_equal(again("@every 10m", NOW + hour + 7 * NS_PER_S, hour),
			 NOW + 7 * NS_PER_S);
	assert_int_equal(again("@every 25m", NOW + hour, hour),
			 NOW + 10 * MIN_NS);
}

/* What it did today, it does not do twice. */
static void test_set_back_less_than_to_the_last_time(void **state)
{
	uint64_t hour = 60 * MIN_NS, day = 24 * hour, minute;

	(void)state;
	minute = NOW + 40 * NS_PER_S;
	/* 22:30 was an hour too early; the next one is tomorrow's */
	assert_int_equal(again("30 22 * * *", minute + 16 * MIN_NS + day, hour),
			 minute + 16 * MIN_NS + day);
	assert_int_equal(again("@every 2h", NOW + 90 * MIN_NS, hour),
			 NOW + 90 * MIN_NS);
	/* by seconds, just behind a minute that has run */
	assert_int_equal(again("* * * * *", minute + MIN_NS, 30 * NS_PER_S),
			 minute + MIN_NS);
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
		cmocka_unit_test(test_refusals_name_the_member),
		cmocka_unit_test(test_start_and_end),
		cmocka_unit_test(test_jitter_is_the_same_for_a_name),
		cmocka_unit_test(test_every_goes_on_from_the_time_before),
		cmocka_unit_test(test_last_time_of_a_stretch),
		cmocka_unit_test(test_fire_on_time),
		cmocka_unit_test(test_catch_up_none),
		cmocka_unit_test(test_catch_up_last),
		cmocka_unit_test(test_catch_up_all),
		cmocka_unit_test(test_long_downtime_is_cheap),
		cmocka_unit_test(test_end_while_down),
		cmocka_unit_test(test_set_back_further_than_to_the_last_time),
		cmocka_unit_test(test_set_back_less_than_to_the_last_time),
	};

	return cmocka_run_group_tests_name("plan", tests, NULL, done);
}
