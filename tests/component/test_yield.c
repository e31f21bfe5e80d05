/*
 * When the view yields, in a time of its own: events come, and it reads them.
 */
#include "yield.h"

#include "lib/testlib.h"

#define STEP_NS (100 * NS_PER_MS)

struct world {
	struct yield y;
	uint64_t now_ns, lag_ns, missing;
};

/* For so long the view gains so many events a second on those who write.
 * Returns how many of a hundred times it yielded. */
static unsigned run(struct world *w, unsigned seconds, int64_t gains)
{
	unsigned yields = 0, steps = seconds * 10;

	for (unsigned i = 0; i < steps; i++) {
		w->now_ns += STEP_NS;
		w->missing = (uint64_t)((int64_t)w->missing - gains / 10);
		yields += yield_may(&w->y, w->now_ns, w->lag_ns, w->missing);
	}
	return yields * 100 / steps;
}

static struct world a_world(uint64_t lag_ms, uint64_t missing)
{
	return (struct world){ .now_ns = NS_PER_S,
			       .lag_ns = lag_ms * NS_PER_MS,
			       .missing = missing };
}

static void test_a_view_that_keeps_step_yields(void **state)
{
	struct world w = a_world(499, 100000);

	(void)state;
	assert_int_equal(run(&w, 20, 0), 100);
}

static void test_a_view_that_falls_behind_does_not(void **state)
{
	struct world w = a_world(500, 100000);

	(void)state;
	assert_int_equal(run(&w, 20, 0), 0);
	w.lag_ns = YIELD_FAR_NS - 1;
	assert_int_equal(run(&w, 20, 1000), 0);
}

static void test_a_view_that_was_away_yields_while_it_catches_up(void **state)
{
	struct world w = a_world(5000, 1000000);

	(void)state;
	assert_int_equal(run(&w, 8, 110000), 100);
}

/* Until it has gained enough: it is to be a matter of seconds. */
static void test_a_view_that_is_starved_does_not(void **state)
{
	struct world w = a_world(5000, 1000000);

	(void)state;
	assert_true(run(&w, 10, 1000) <= 11); /* the first second is a try */
	assert_int_equal(run(&w, 10, -50000), 0);
	(void)run(&w, 2, 200000);
	assert_int_equal(run(&w, 3, 200000), 100);
}

/* There is no load to yield to that a few events would be in the way of. */
static void test_a_few_events_are_written_at_once(void **state)
{
	struct world w = a_world(60000, 100);

	(void)state;
	assert_int_equal(run(&w, 2, 0), 0);
}

static void test_what_was_is_forgotten_once_it_is_current(void **state)
{
	struct world w = a_world(5000, 1000000);

	(void)state;
	assert_true(run(&w, 10, 0) <= 11);
	w.lag_ns = 0;
	assert_int_equal(run(&w, 1, 0), 100);
	w.lag_ns = 5 * NS_PER_S;
	assert_int_equal(run(&w, 1, 0), 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_view_that_keeps_step_yields),
		cmocka_unit_test(test_a_view_that_falls_behind_does_not),
		cmocka_unit_test(
		    test_a_view_that_was_away_yields_while_it_catches_up),
		cmocka_unit_test(test_a_view_that_is_starved_does_not),
		cmocka_unit_test(test_a_few_events_are_written_at_once),
		cmocka_unit_test(test_what_was_is_forgotten_once_it_is_current),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
