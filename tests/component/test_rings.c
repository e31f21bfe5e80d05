/*
 * Numbers over time: the minutes of the last hour, the rates of a queue, and
 * histograms.
 */
#include "lib/testlib.h"

#include "fsm/order/rates.h"
#include "serve/throughput.h"
#include "util/hist.h"

#define MINUTE (60 * NS_PER_S)
#define T0     (28333333 * MINUTE) /* the beginning of a minute in 2023 */

/* --- throughput --- */

static void expect_minute(const struct m_throughput_minute *m, uint64_t at,
			  uint64_t enqueued, uint64_t completed,
			  uint64_t failed)
{
	assert_int_equal(m->minute, at);
	assert_int_equal(m->enqueued, enqueued);
	assert_int_equal(m->completed, completed);
	assert_int_equal(m->failed, failed);
}

static void
test_throughput_counts_in_the_minute_of_the_entry(void **state _unused_)
{
	struct m_throughput_minute m[THROUGHPUT_MINUTES];
	struct throughput t = { 0 };
	struct fsm_counters c = { .enqueued = 5 };

	throughput_note(&t, T0, &c);
	c.completed = 2;
	throughput_note(&t, T0 + MINUTE - 1, &c);
	c.failed = 1;
	c.enqueued = 6;
	throughput_note(&t, T0 + MINUTE, &c);
	throughput_read(&t, T0 + MINUTE + 5, m);
	expect_minute(&m[58], T0, 5, 2, 0);
	expect_minute(&m[59], T0 + MINUTE, 1, 0, 1);
	for (int i = 0; i < 58; i++)
		expect_minute(&m[i], T0 - (58 - i) * MINUTE, 0, 0, 0);
}

static void test_minutes_go_after_an_hour(void **state _unused_)
{
	struct m_throughput_minute m[THROUGHPUT_MINUTES];
	struct throughput t = { 0 };
	struct fsm_counters c = { .enqueued = 5 };

	throughput_note(&t, T0, &c);
	throughput_read(&t, T0 + 59 * MINUTE, m);
	expect_minute(&m[0], T0, 5, 0, 0);
	throughput_read(&t, T0 + 60 * MINUTE, m);
	for (int i = 0; i < THROUGHPUT_MINUTES; i++)
		assert_int_equal(m[i].enqueued, 0);
	/* the same slot, an hour later */
	c.enqueued = 7;
	throughput_note(&t, T0 + 60 * MINUTE, &c);
	throughput_read(&t, T0 + 60 * MINUTE, m);
	expect_minute(&m[59], T0 + 60 * MINUTE, 2, 0, 0);
}

static void test_minutes_follow_a_clock_that_is_set(void **state _unused_)
{
	struct m_throughput_minute m[THROUGHPUT_MINUTES];
	struct throughput t = { 0 };
	struct fsm_counters c = { .enqueued = 5 };

	throughput_note(&t, T0, &c);
	c.enqueued = 6;
	throughput_note(&t, T0 - 2 * MINUTE, &c);
	throughput_read(&t, T0, m);
	expect_minute(&m[59], T0, 5, 0, 0);
	expect_minute(&m[57], T0 - 2 * MINUTE, 1, 0, 0);
	c.enqueued = 8;
	throughput_note(&t, T0 - 60 * MINUTE, &c);
	throughput_read(&t, T0 - 60 * MINUTE, m);
	expect_minute(&m[59], T0 - 60 * MINUTE, 2, 0, 0);
}

static void expect_recent(const struct throughput *t, uint64_t now,
			  uint64_t since, uint64_t seconds, uint64_t enqueued,
			  uint64_t completed, uint64_t failed)
{
	struct m_node_recent r;

	throughput_recent(t, now, since, &r);
	assert_int_equal(r.seconds, seconds);
	assert_int_equal(r.enqueued, enqueued);
	assert_int_equal(r.completed, completed);
	assert_int_equal(r.failed, failed);
}

static void test_recent_ones_go_after_60_seconds(void **state _unused_)
{
	uint64_t at = T0 + 50 * NS_PER_S, since = T0 - 10 * MINUTE;
	struct throughput t = { 0 };
	struct fsm_counters c = { .enqueued = 5, .failed = 1 };

	throughput_note(&t, at, &c);
	c.completed = 2;
	c.enqueued = 6;
	throughput_note(&t, at + 20 * NS_PER_S, &c);
	/* at once, and over the end of a minute */
	expect_recent(&t, at, since, 60, 5, 0, 1);
	expect_recent(&t, at + 20 * NS_PER_S, since, 60, 6, 2, 1);
	expect_recent(&t, at + 60 * NS_PER_S - 1, since, 60, 6, 2, 1);
	expect_recent(&t, at + 60 * NS_PER_S, since, 60, 1, 2, 0);
	expect_recent(&t, at + 80 * NS_PER_S - 1, since, 60, 1, 2, 0);
	expect_recent(&t, at + 80 * NS_PER_S, since, 60, 0, 0, 0);
	/* the same slot, a minute later */
	c.enqueued = 9;
	throughput_note(&t, at + 60 * NS_PER_S, &c);
	expect_recent(&t, at + 60 * NS_PER_S, since, 60, 4, 2, 0);
	/* a clock that was set back: what is to come has not been */
	expect_recent(&t, at, since, 60, 0, 0, 0);
}

/* What is applied again may be a part of what happened then. */
static void test_recent_ones_are_since_the_counting_began(void **state _unused_)
{
	struct throughput t = { 0 };
	struct fsm_counters c = { .enqueued = 5 };

	throughput_note(&t, T0, &c);
	c.enqueued = 7;
	throughput_note(&t, T0 + 3 * NS_PER_S, &c);
	expect_recent(&t, T0 + 4 * NS_PER_S, T0 + 2 * NS_PER_S + 5, 3, 2, 0, 0);
	expect_recent(&t, T0 + 4 * NS_PER_S, T0 + 5, 5, 7, 0, 0);
	expect_recent(&t, T0 + 3 * NS_PER_S, T0 + 3 * NS_PER_S, 1, 2, 0, 0);
}

/* --- rates --- */

static void count(struct rates *r, uint64_t now, uint32_t in, uint32_t out)
{
	struct rates_slot *s = rates_now(r, rates_slot_number(now));

	s->in += in;
	s->out += out;
}

static void run(struct rates *r, uint64_t now, uint64_t ns)
{
	struct rates_slot *s = rates_now(r, rates_slot_number(now));

	s->runs++;
	s->run_ns += ns;
}

static bool is_near(double a, double b)
{
	return a > b - 1e-9 && a < b + 1e-9;
}

static void test_rates_over_the_last_minute(void **state _unused_)
{
	struct rates r = { 0 };
	struct rates_sum s;

	for (uint64_t i = 0; i < 120; i++) /* 5 a second come, 3 go */
		count(&r, T0 + i * NS_PER_S, 5, 3);
	rates_read(&r, T0 + 120 * NS_PER_S, T0, &s);
	assert_true(is_near(s.in_s, 5) && is_near(s.out_s, 3));
	/* half of it is over a minute ago */
	rates_read(&r, T0 + 150 * NS_PER_S, T0, &s);
	assert_true(is_near(s.in_s, 5 * 30 / 60.0));
	rates_read(&r, T0 + 190 * NS_PER_S, T0, &s);
	assert_true(is_near(s.in_s, 0) && is_near(s.out_s, 0));
}

static void test_rates_of_a_process_that_just_started(void **state _unused_)
{
	struct rates r = { 0 };
	struct rates_sum s;

	count(&r, T0 + 1, 100, 0);
	rates_read(&r, T0 + 2, T0, &s); /* not 100 in a nanosecond */
	assert_true(is_near(s.in_s, 10));
	rates_read(&r, T0 + 20 * NS_PER_S, T0, &s);
	assert_true(is_near(s.in_s, 5));
}

static void test_mean_run_time_stays_known(void **state _unused_)
{
	struct rates r = { 0 };
	struct rates_sum s;

	rates_read(&r, T0, T0, &s);
	assert_true(is_near(s.run_s, 0));
	run(&r, T0, 1 * NS_PER_S);
	run(&r, T0 + 5 * NS_PER_S, 3 * NS_PER_S);
	rates_read(&r, T0 + 9 * NS_PER_S, T0, &s);
	assert_true(is_near(s.run_s, 2));
	rates_read(&r, T0 + 3600 * NS_PER_S, T0, &s);
	assert_true(is_near(s.run_s, 2));
	count(&r, T0 + 7200 * NS_PER_S, 1, 0); /* clears the whole ring */
	rates_read(&r, T0 + 7200 * NS_PER_S, T0, &s);
	assert_true(is_near(s.run_s, 2));
	run(&r, T0 + 7200 * NS_PER_S, 7 * NS_PER_S);
	rates_read(&r, T0 + 7201 * NS_PER_S, T0, &s);
	assert_true(is_near(s.run_s, 7));
}

static void test_rates_follow_a_clock_that_is_set(void **state _unused_)
{
	uint64_t back = T0 - 3600 * NS_PER_S;
	struct rates r = { 0 };
	struct rates_sum s;

	run(&r, T0, 7 * NS_PER_S);
	count(&r, T0, 10, 0);
	count(&r, back, 30, 0);
	rates_read(&r, back + 60 * NS_PER_S, back - 10 * MINUTE, &s);
	assert_true(s.in_s > 0.49 && s.in_s < 0.51); /* 30 in a minute */
	assert_true(is_near(s.run_s, 7));
}

static void test_suggested_workers(void **state _unused_)
{
	static const struct {
		struct rates_sum s;
		uint64_t waiting, active, workers;
	} rows[] = {
		{ { 0, 0, 0 }, 0, 0, 0 },
		{ { 5, 5, 2 }, 0, 0, 0 }, /* nothing waits or runs */
		{ { 0, 0, 0 }, 1, 0, 1 }, /* run time not known yet */
		{ { 0, 0, 0 }, 0, 3, 1 }, /* do not stop who works */
		{ { 5, 5, 2 }, 0, 8, 10 },
		{ { 5, 5, 2 }, 60, 8, 12 },
		{ { 5, 5, 2 }, 61, 8, 13 }, /* rounded up */
		{ { 0, 0, 0.001 }, 1000, 0, 1 },
		{ { 0, 0, 30 }, 1000000, 0, 500000 },
		{ { 1e300, 0, 1e300 }, 1, 0, 1000000000 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(
		    rates_workers(&rows[i].s, rows[i].waiting, rows[i].active),
		    rows[i].workers);
}

/* --- histograms --- */

static void test_histogram(void **state _unused_)
{
	struct hist h = { 0 };

	hist_add(&h, &hist_long, 0);
	hist_add(&h, &hist_long, NS_PER_MS); /* a bound is in its bucket */
	hist_add(&h, &hist_long, NS_PER_MS + 1);
	hist_add(&h, &hist_long, 3600 * NS_PER_S);
	hist_add(&h, &hist_long, 3601 * NS_PER_S);
	assert_int_equal(h.count[0], 2);
	assert_int_equal(h.count[1], 1);
	assert_int_equal(h.count[HIST_BOUNDS - 1], 1);
	assert_int_equal(h.count[HIST_BOUNDS], 1);
	assert_int_equal(h.total, 5);
	assert_true(h.sum_s > 7201 && h.sum_s < 7201.1);
}

/* The texts are what people and Prometheus see of the bounds. */
static void test_bounds_and_their_texts_agree(void **state _unused_)
{
	const struct hist_scale *const all[] = { &hist_short, &hist_long };

	for (size_t k = 0; k < ARRAY_SIZE(all); k++) {
		for (size_t i = 0; i < HIST_BOUNDS; i++) {
			double s = strtod(all[k]->le[i], NULL);

			assert_true(is_near(s, (double)all[k]->ns[i] / 1e9));
			assert_true(i == 0 ||
				    all[k]->ns[i] > all[k]->ns[i - 1]);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
		    test_throughput_counts_in_the_minute_of_the_entry),
		cmocka_unit_test(test_minutes_go_after_an_hour),
		cmocka_unit_test(test_minutes_follow_a_clock_that_is_set),
		cmocka_unit_test(test_recent_ones_go_after_60_seconds),
		cmocka_unit_test(test_recent_ones_are_since_the_counting_began),
		cmocka_unit_test(test_rates_over_the_last_minute),
		cmocka_unit_test(test_rates_of_a_process_that_just_started),
		cmocka_unit_test(test_mean_run_time_stays_known),
		cmocka_unit_test(test_rates_follow_a_clock_that_is_set),
		cmocka_unit_test(test_suggested_workers),
		cmocka_unit_test(test_histogram),
		cmocka_unit_test(test_bounds_and_their_texts_agree),
	};

	return cmocka_run_group_tests_name("rings", tests, NULL, NULL);
}
