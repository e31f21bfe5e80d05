/*
 * The pace of the view's feed, in a time of its own: a log that is crowded or
 * not, and the moments at which an answer is given.
 */
#include "serve/pace.h"

#include "lib/testlib.h"

#define MS            UINT64_C(1000000)
#define LOOK_EVERY_MS 5u

struct world {
	struct pace p;
	uint64_t now_ns;
	uint64_t entries, crowded;
	bool processors_busy;
	unsigned answers;
	unsigned whole_of_ten; /* answers that hold all there is */
};

/* A view that asks again at once, for `ms`; of a hundred entries so many are
 * crowded. */
static void run(struct world *w, unsigned ms, unsigned crowded_percent)
{
	w->answers = 0;
	for (unsigned i = 0; i < ms; i += LOOK_EVERY_MS) {
		w->now_ns += LOOK_EVERY_MS * MS;
		w->entries += 100;
		w->crowded += crowded_percent;
		pace_look(&w->p, w->now_ns, w->entries, w->crowded,
			  w->processors_busy);
		if (pace_wait(&w->p, w->now_ns) > 0)
			continue;
		pace_answer(&w->p, w->now_ns);
		pace_answered(&w->p, w->answers++ % 10 < w->whole_of_ten);
	}
}

static struct world a_world(void)
{
	return (struct world){ .now_ns = 1000000 * MS,
			       .processors_busy = true,
			       .whole_of_ten = 10 };
}

static void test_every_25_ms(void **state _unused_)
{
	struct world w = a_world();

	run(&w, 10000, 15);
	assert_int_equal(w.answers, 10000 / 25);
}

static void test_first_answer_comes_at_once(void **state _unused_)
{
	struct world w = a_world();

	assert_int_equal(pace_wait(&w.p, w.now_ns), 0);
}

static void test_less_often_while_writers_wait(void **state _unused_)
{
	struct world w = a_world();

	run(&w, 1000, 85);
	assert_true(w.p.saturated);
	run(&w, 10000, 85);
	assert_int_equal(w.answers, 10000 / 200);
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

static void test_what_did_not_fit_is_told_at_once(void **state _unused_)
{
	struct world w = a_world();

	run(&w, 2000, 95);
	assert_true(w.p.saturated);
	w.whole_of_ten = 0;
	run(&w, 1000, 95);
	assert_in_range(w.answers, 1000 / LOOK_EVERY_MS - 200 / LOOK_EVERY_MS,
			1000 / LOOK_EVERY_MS);
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
	pace_answer(&w.p, w.now_ns);
	assert_int_equal(pace_wait(&w.p, w.now_ns), PACE_NS);
	assert_int_equal(pace_wait(&w.p, w.now_ns + PACE_SATURATED_NS - MS),
			 MS);
	assert_int_equal(pace_wait(&w.p, w.now_ns + PACE_SATURATED_NS), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_25_ms),
		cmocka_unit_test(test_first_answer_comes_at_once),
		cmocka_unit_test(test_less_often_while_writers_wait),
		cmocka_unit_test(test_ends_soon_after_the_rush),
		cmocka_unit_test(test_a_bad_moment_is_no_saturation),
		cmocka_unit_test(test_no_flutter_between_the_borders),
		cmocka_unit_test(test_idle_processors_are_free_for_the_view),
		cmocka_unit_test(test_what_did_not_fit_is_told_at_once),
		cmocka_unit_test(test_a_pause_forgets),
		cmocka_unit_test(test_never_sleeps_longer_than_the_short_pause),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
