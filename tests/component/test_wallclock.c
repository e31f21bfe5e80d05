/*
 * The leader's time while the wall clock is set.
 */
#include "lib/testlib.h"

#include "propose/wallclock.h"

#define T0   (1700000000 * NS_PER_S)
#define M0   (5000 * NS_PER_S)
#define HOUR (3600 * NS_PER_S)

/* A look each second; wall is what the clock is off by. Returns whether it is
 * to be followed, and how time went on meanwhile. */
static bool look_for(struct wallclock *c, uint64_t *mono, int seconds,
		     int64_t off)
{
	for (int i = 0; i < seconds; i++) {
		uint64_t before = wallclock_now(c, *mono);

		*mono += NS_PER_S;
		if (wallclock_look(c, T0 + (*mono - M0) + (uint64_t)off, *mono))
			return true;
		assert_int_equal(wallclock_now(c, *mono), before + NS_PER_S);
	}
	return false;
}

static void test_step(int64_t off, uint64_t *forward, uint64_t *back)
{
	struct wallclock c = { 0 };
	struct wallclock_step s;
	uint64_t mono = M0;

	wallclock_begin(&c, T0, T0, M0);
	assert_false(look_for(&c, &mono, 3, 0));
	assert_false(look_for(&c, &mono, 5, off)); /* as before the step */
	assert_true(look_for(&c, &mono, 1, off));
	wallclock_follow(&c, T0 + (mono - M0) + (uint64_t)off, mono, &s);
	assert_int_equal(s.from_ns, T0 + 9 * NS_PER_S);
	assert_int_equal(s.to_ns, s.from_ns + (uint64_t)off);
	assert_int_equal(wallclock_now(&c, mono), s.to_ns);
	assert_false(look_for(&c, &mono, 20, off));
	*forward = c.forward;
	*back = c.back;
}

static void test_steps_are_followed_after_a_while(void **state _unused_)
{
	uint64_t forward, back;

	test_step((int64_t)HOUR, &forward, &back);
	assert_true(forward == 1 && back == 0);
	test_step(-(int64_t)HOUR, &forward, &back);
	assert_true(forward == 0 && back == 1);
}

static void test_forth_and_back_is_no_step(void **state _unused_)
{
	struct wallclock c = { 0 };
	uint64_t mono = M0;

	wallclock_begin(&c, T0, T0, M0);
	assert_false(look_for(&c, &mono, 4, (int64_t)HOUR));
	assert_false(look_for(&c, &mono, 4, -(int64_t)HOUR));
	assert_false(look_for(&c, &mono, 60, 0));
	assert_int_equal(c.forward, 2); /* there, and home again */
	assert_int_equal(c.back, 1);
}

/* A look each second, while the wall clock is set by so much before each. */
static uint64_t set_again_and_again(struct wallclock *c, uint64_t *mono,
				    int seconds, int64_t by)
{
	static uint64_t off;

	if (*mono == M0)
		off = 0;
	for (int i = 0; i < seconds; i++) {
		uint64_t before = wallclock_now(c, *mono), took;

		*mono += NS_PER_S;
		off += (uint64_t)by;
		assert_false(wallclock_look(c, T0 + (*mono - M0) + off, *mono));
		/* a second is a second, nearly */
		took = wallclock_now(c, *mono) - before;
		assert_in_range(took, NS_PER_S - NS_PER_S / WALLCLOCK_SLEW,
				NS_PER_S + NS_PER_S / WALLCLOCK_SLEW);
	}
	return T0 + (*mono - M0) + off;
}

static uint64_t apart(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

static void test_drift_is_followed(void **state _unused_)
{
	struct wallclock c = { 0 };
	uint64_t mono = M0, wall;

	wallclock_begin(&c, T0, T0, M0);
	wall = set_again_and_again(&c, &mono, 50, NS_PER_S / 50);
	assert_true(apart(wall, wallclock_now(&c, mono)) <= NS_PER_S / 50);
	wall = set_again_and_again(&c, &mono, 50, -(int64_t)(NS_PER_S / 50));
	assert_true(apart(wall, wallclock_now(&c, mono)) <= NS_PER_S / 50);
	assert_int_equal(c.forward + c.back, 0);
}

static void test_small_step_is_caught_up_with(void **state _unused_)
{
	static const int64_t by[] = { NS_PER_S - 1, -(int64_t)NS_PER_S + 1 };

	for (size_t i = 0; i < ARRAY_SIZE(by); i++) {
		struct wallclock c = { 0 };
		uint64_t mono = M0, wall;

		wallclock_begin(&c, T0, T0, M0);
		(void)set_again_and_again(&c, &mono, 1, by[i]);
		wall = set_again_and_again(&c, &mono, WALLCLOCK_SLEW + 1, 0);
		assert_true(apart(wall, wallclock_now(&c, mono)) <= NS_PER_MS);
		assert_int_equal(c.forward + c.back, 0);
	}
}

/* Also many small ones: time goes on as before, or it is told of a step. */
static void test_many_small_steps_are_one(void **state _unused_)
{
	struct wallclock c = { 0 };
	struct wallclock_step s;
	uint64_t mono = M0, wall;

	wallclock_begin(&c, T0, T0, M0);
	wall = set_again_and_again(&c, &mono, 60, NS_PER_S * 9 / 10);
	assert_true(wallclock_now(&c, mono) <= T0 + 61 * NS_PER_S);
	for (uint64_t i = 1; i < 60; i++) { /* and stays there */
		mono += NS_PER_S;
		if (wallclock_look(&c, wall + i * NS_PER_S, mono))
			break;
	}
	wallclock_follow(&c, wall + (mono - M0 - 60 * NS_PER_S), mono, &s);
	assert_true(s.to_ns - s.from_ns > 50 * NS_PER_S);
}

/* --- how long ago by the monotonic clock --- */

#define MOMENTS 2000

struct moment {
	uint64_t ns, mono_ns;
};

/* Random steps: what time it was when is told truly, or a little late. */
static void test_past_is_never_too_long_ago(void **state _unused_)
{
	struct moment *all = xcalloc(MOMENTS, sizeof(*all));
	struct wallclock c = { 0 };
	uint64_t mono = M0, off = 0, early = 0;
	struct wallclock_step s;
	struct rng rng;

	test_rng(&rng);
	wallclock_begin(&c, T0, T0, M0);
	for (size_t i = 0; i < MOMENTS; i++) {
		mono += NS_PER_S;
		if (rng_below(&rng, 20) == 0)
			off += rng_below(&rng, 2 * NS_PER_S) - NS_PER_S;
		if (rng_below(&rng, 200) == 0)
			off += HOUR;
		if (wallclock_look(&c, T0 + (mono - M0) + off, mono)) {
			wallclock_follow(&c, T0 + (mono - M0) + off, mono, &s);
			for (size_t k = 0; k < i; k++)
				all[k].ns += s.to_ns - s.from_ns;
		}
		all[i] = (struct moment){ wallclock_now(&c, mono), mono };
		for (size_t k = 0; k <= i; k++) {
			uint64_t at = wallclock_mono_of(&c, all[k].ns);

			early = MAX(early,
				    all[k].mono_ns - MIN(at, all[k].mono_ns));
		}
	}
	/* the clocks are read no better than that */
	assert_true(early <= 2 * NS_PER_MS);
	free(all);
}

static void test_recent_past_is_told_truly(void **state _unused_)
{
	struct wallclock c = { 0 };
	uint64_t mono = M0, before, before_mono;

	wallclock_begin(&c, T0, T0, M0);
	(void)set_again_and_again(&c, &mono, 10, 0);
	before = wallclock_now(&c, mono);
	before_mono = mono;
	(void)set_again_and_again(&c, &mono, 10, 0);
	(void)set_again_and_again(&c, &mono, 1, NS_PER_S / 2);
	(void)set_again_and_again(&c, &mono, 20, 0);
	assert_true(apart(wallclock_mono_of(&c, before), before_mono) <=
		    NS_PER_MS);
	assert_true(apart(wallclock_mono_of(&c, wallclock_now(&c, mono)),
			  mono) <= NS_PER_MS);
	assert_int_equal(wallclock_mono_of(&c, 0), 0);
}

static void test_set_back_while_down(void **state _unused_)
{
	struct wallclock c = { 0 };
	uint64_t mono = M0;

	wallclock_begin(&c, T0 + HOUR, T0, M0);
	assert_int_equal(c.back, 1);
	assert_int_equal(wallclock_now(&c, mono), T0 + HOUR);
	assert_false(look_for(&c, &mono, 4, 0));
	assert_true(look_for(&c, &mono, 1, 0));
}

static void test_away_for_long(void **state _unused_)
{
	struct wallclock c = { 0 };

	wallclock_begin(&c, T0 - HOUR, T0, M0);
	assert_int_equal(wallclock_now(&c, M0), T0);
	assert_int_equal(c.forward, 0);
	assert_false(wallclock_is_settled(&c, M0));
	assert_true(wallclock_is_settled(&c, M0 + WALLCLOCK_HOLD_NS));
	wallclock_begin(&c, T0 - NS_PER_S, T0, M0);
	assert_true(wallclock_is_settled(&c, M0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_steps_are_followed_after_a_while),
		cmocka_unit_test(test_forth_and_back_is_no_step),
		cmocka_unit_test(test_drift_is_followed),
		cmocka_unit_test(test_small_step_is_caught_up_with),
		cmocka_unit_test(test_many_small_steps_are_one),
		cmocka_unit_test(test_past_is_never_too_long_ago),
		cmocka_unit_test(test_recent_past_is_told_truly),
		cmocka_unit_test(test_set_back_while_down),
		cmocka_unit_test(test_away_for_long),
	};

	return cmocka_run_group_tests_name("wallclock", tests, NULL, NULL);
}
