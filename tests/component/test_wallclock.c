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

static void test_drift_is_followed(void **state _unused_)
{
	struct wallclock c = { 0 };
	uint64_t mono = M0, off = 0, last = T0;

	wallclock_begin(&c, T0, T0, M0);
	for (int i = 0; i < 100; i++) { /* half a second each way */
		mono += NS_PER_S;
		off += i < 50 ? NS_PER_S / 2 : -(NS_PER_S / 2);
		assert_false(wallclock_look(&c, T0 + (mono - M0) + off, mono));
		assert_true(wallclock_now(&c, mono) >= last);
		last = wallclock_now(&c, mono);
	}
	assert_true(last - (T0 + (mono - M0)) <= NS_PER_S / 2);
	assert_int_equal(c.forward + c.back, 0);
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
		cmocka_unit_test(test_set_back_while_down),
		cmocka_unit_test(test_away_for_long),
	};

	return cmocka_run_group_tests_name("wallclock", tests, NULL, NULL);
}
