/*
 * The pace of the view's feed, in a time of its own: a log that is crowded or
 * not, and the moments at which an answer is given.
 */
#include "serve/pace.h"

#include "lib/testlib.h"

#define MS            UINT64_C(1000000)
#define LOOK_EVERY_MS 5u
#define LIMIT         8192u

struct world {
	struct pace p;
	uint64_t now_ns;
	uint64_t entries, crowded;
	bool processors_busy;
	bool hurry;
	unsigned answers;
	uint64_t events; /* that the answers might hold */
};

/* A view that asks again at once, for `ms`; of a hundred entries so many are
 * crowded. */
static void run(struct world *w, unsigned ms, unsigned crowded_percent)
{
	w->answers = 0;
	w->events = 0;
	for (unsigned i = 0; i < ms; i += LOOK_EVERY_MS) {
		w->now_ns += LOOK_EVERY_MS * MS;
		w->entries += 100;
		w->crowded += crowded_percent;
		pace_look(&w->p, w->now_ns, w->entries, w->crowded,
			  w->processors_busy);
		if (pace_wait(&w->p, w->now_ns, w->hurry) > 0)
			continue;
		w->answers++;
		w->events += pace_answer(&w->p, w->now_ns, LIMIT, w->hurry);
	}
}

static struct world a_world(void)
{
	return (struct world){ .now_ns = 1000000 * MS,
			       .processors_busy = true };
}

static void test_every_25_ms_and_everything(void **state _unused_)
{
	struct world w = a_world();

	run(&w, 10000, 15);
	assert_int_equal(w.answers, 10000 / 25);
	assert_int_equal(w.events, (uint64_t)w.answers * LIMIT);
}

static void test_first_answer_comes_at_once(void **state _unused_)
{
	struct world w = a_world();

	assert_int_equal(pace_wait(&w.p, w.now_ns, false), 0);
}

static void test_little_while_writers_wait(void **state _unused_)
{
	struct world w = a_world();

	run(&w, 1000, 85);
	assert_true(w.p.saturated);
	run(&w, 10000, 85);
	assert_int_equal(w.answers, 10000 / 250);
	assert_int_equal(w.events, (uint64_t)w.answers * SATURATED_EVENTS);
}

static void test_ends_soon_after_the_rush(void **state _unused_)
{
	struct world w = a_world();

	run(&w, 5000, 90);
	assert_true(w.p.saturated);
	run(&w, 400, 10);
	assert_false(w.p.saturated);
}

/* Slow flushes of the disk: for a quarter of a second all entries are crowded.
 */
static void test_a_bad_moment_is_no_saturation(void **state _unused_)
{
	struct world w = a_world();

	for (int i = 0; i < 20; i++) {
		run(&w, 1600, 15);
		run(&w, 250, 100);
		assert_false(w.p.saturated);
	}
}

static void test_no_flutter_between_the_borders(void **state _unused_)
{
	struct world w = a_world();

	run(&w, 5000, 60);
	assert_false(w.p.saturated);
	run(&w, 5000, 80);
	assert_true(w.p.saturated);
	run(&w, 5000, 60);
	assert_true(w.p.saturated);
}

static void test_idle_processors_are_free_for_the_view(void **state _unused_)
{
	struct world w = a_world();

	w.processors_busy = false;
	run(&w, 5000, 100);
	assert_false(w.p.saturated);
	w.processors_busy = true;
	run(&w, 100, 100);
	assert_true(w.p.saturated);
}

/* It would lose events to their retention and be built anew. */
static void test_far_behind_is_not_kept_waiting(void **state _unused_)
{
	struct world w = a_world();

	run(&w, 2000, 95);
	assert_true(w.p.saturated);
	w.hurry = true;
	run(&w, 1000, 95);
	assert_int_equal(w.answers, 1000 / 25);
	assert_int_equal(w.events, (uint64_t)w.answers * LIMIT);
}

/* Nothing was asked for a while: what the log was like before says nothing. */
static void test_a_pause_forgets(void **state _unused_)
{
	struct world w = a_world();

	run(&w, 2000, 95);
	w.now_ns += 300 * MS;
	run(&w, 25, 0);
	assert_false(w.p.saturated);
}

/* While it waits it looks again soon, so that the end is noticed. */
static void test_never_sleeps_longer_than_the_short_pause(void **state _unused_)
{
	struct world w = a_world();

	run(&w, 2000, 95);
	(void)pace_answer(&w.p, w.now_ns, LIMIT, false);
	assert_int_equal(pace_wait(&w.p, w.now_ns, false), PACE_NS);
	assert_int_equal(
	    pace_wait(&w.p, w.now_ns + PACE_SATURATED_NS - MS, false), MS);
	assert_int_equal(pace_wait(&w.p, w.now_ns + PACE_SATURATED_NS, false),
			 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_25_ms_and_everything),
		cmocka_unit_test(test_first_answer_comes_at_once),
		cmocka_unit_test(test_little_while_writers_wait),
		cmocka_unit_test(test_ends_soon_after_the_rush),
		cmocka_unit_test(test_a_bad_moment_is_no_saturation),
		cmocka_unit_test(test_no_flutter_between_the_borders),
		cmocka_unit_test(test_idle_processors_are_free_for_the_view),
		cmocka_unit_test(test_far_behind_is_not_kept_waiting),
		cmocka_unit_test(test_a_pause_forgets),
		cmocka_unit_test(test_never_sleeps_longer_than_the_short_pause),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
