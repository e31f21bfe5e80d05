/*
 * Work that stops in the middle: it goes on where it was, on its own stack, and
 * its guards and turns are not those of whoever lets it go on.
 */
#include "lib/testlib.h"
#include "util/fiber.h"
#include "util/guard.h"
#include "util/turn.h"

#define STEPS 5

struct work {
	struct fiber *fiber;
	struct work *inner; /* that it lets go on itself */
	unsigned steps;
	bool failed, ended;
};

static struct work *begin(struct work *w, fiber_fn *fn)
{
	*w = (struct work){ .fiber = fiber_new() };
	assert_non_null(w->fiber);
	fiber_set(w->fiber, fn, w);
	return w;
}

static void steps(void *ctx)
{
	struct work *w = ctx;
	char used[64 << 10]; /* what it has there stays */

	memset(used, (int)w->steps, sizeof(used));
	for (; w->steps < STEPS; w->steps++) {
		fiber_stop(w->fiber);
		for (size_t i = 0; i < sizeof(used); i++)
			assert_int_equal(used[i], 0);
	}
	w->ended = true;
}

static void test_it_goes_on_where_it_was(void **state _unused_)
{
	struct work w[3];

	for (size_t i = 0; i < 3; i++)
		begin(&w[i], steps);
	for (unsigned n = 1; n <= STEPS; n++)
		for (size_t i = 0; i < 3; i++) {
			assert_true(fiber_go(w[i].fiber));
			assert_int_equal(w[i].steps, n - 1);
		}
	for (size_t i = 0; i < 3; i++) {
		assert_false(fiber_go(w[i].fiber));
		assert_true(w[i].ended);
		fiber_free(w[i].fiber);
	}
}

static void test_a_stack_is_used_again(void **state _unused_)
{
	struct work w;

	begin(&w, steps);
	for (size_t i = 0; i < 3; i++) {
		while (fiber_go(w.fiber)) {
		}
		assert_true(w.ended);
		w.ended = false;
		w.steps = 0;
		fiber_set(w.fiber, steps, &w);
	}
	while (fiber_go(w.fiber)) {
	}
	fiber_free(w.fiber);
}

static void through_inner(void *ctx)
{
	struct work *w = ctx;

	while (fiber_go(w->inner->fiber))
		fiber_stop(w->fiber);
	w->ended = true;
}

static void test_one_lets_another_go_on(void **state _unused_)
{
	struct work inner, w;

	begin(&inner, steps);
	begin(&w, through_inner);
	w.inner = &inner;
	for (unsigned n = 0; n < STEPS; n++)
		assert_true(fiber_go(w.fiber));
	assert_false(fiber_go(w.fiber));
	assert_true(w.ended && inner.ended);
	fiber_free(w.fiber);
	fiber_free(inner.fiber);
}

/* --- guards --- */

static void stop_and_fail(void *ctx)
{
	struct work *w = ctx;

	fiber_stop(w->fiber);
	REQUIRE(w->ended);
}

static void guarded(void *ctx)
{
	struct work *w = ctx;
	struct guard_fault fault;

	w->failed = !guard_call(stop_and_fail, w, &fault);
	fiber_stop(w->fiber);
	w->ended = true;
}

static void go_on(void *ctx)
{
	struct work *w = ctx;

	assert_true(fiber_go(w->fiber));
	REQUIRE(w->ended);
}

static void test_guards_are_its_own(void **state _unused_)
{
	struct guard_fault fault;
	struct work w;

	begin(&w, guarded);
	/* inside of its guard it stops, and what fails here ends here */
	assert_false(guard_call(go_on, &w, &fault));
	assert_false(w.failed);
	/* and what fails there ends there */
	assert_true(fiber_go(w.fiber));
	assert_true(w.failed);
	assert_false(fiber_go(w.fiber));
	assert_true(w.ended);
	fiber_free(w.fiber);
}

/* --- turns --- */

static void count_look(void *ctx)
{
	++*(unsigned *)ctx;
}

static void in_turns(void *ctx)
{
	struct work *w = ctx;
	bool over = false;

	turn_take_by(count_look, &over, &w->steps);
	turn_open();
	turn_stride();
	fiber_stop(w->fiber);
	turn_stride();
	turn_close();
	w->ended = true;
}

static void test_turns_are_its_own(void **state _unused_)
{
	struct work w;

	begin(&w, in_turns);
	assert_true(fiber_go(w.fiber));
	assert_int_equal(w.steps, 1);
	turn_stride(); /* means nothing here */
	assert_false(turn_is_over());
	assert_int_equal(w.steps, 1);
	assert_false(fiber_go(w.fiber));
	assert_int_equal(w.steps, 2);
	assert_true(w.ended);
	fiber_free(w.fiber);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_it_goes_on_where_it_was),
		cmocka_unit_test(test_a_stack_is_used_again),
		cmocka_unit_test(test_one_lets_another_go_on),
		cmocka_unit_test(test_guards_are_its_own),
		cmocka_unit_test(test_turns_are_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
