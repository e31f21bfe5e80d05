/*
 * Steps of work that is done in turns: somebody looks between two of them now
 * and then, where it was said that they mean something.
 */
#include "lib/testlib.h"
#include "util/turn.h"

#define MANY 100000

static unsigned looks;

static void look(void *ctx)
{
	assert_ptr_equal(ctx, &looks);
	looks++;
}

static void steps(unsigned n)
{
	while (n-- > 0)
		turn_step();
}

static void begin(const bool *over)
{
	looks = 0;
	turn_take_by(look, over, &looks);
}

static void test_nobody_looks_where_no_turns_are_taken(void **state _unused_)
{
	turn_take_by(NULL, NULL, NULL);
	turn_open();
	steps(MANY);
	turn_stride();
	assert_false(turn_is_over());
	turn_close();
}

static void test_somebody_looks_now_and_then(void **state _unused_)
{
	const bool over = false;

	begin(&over);
	turn_open();
	steps(MANY);
	assert_true(looks > 1);
	assert_true(looks < MANY / 10); /* it costs something */
	turn_close();
}

static void test_after_each_stride(void **state _unused_)
{
	const bool over = false;

	begin(&over);
	turn_open();
	for (unsigned i = 1; i <= 10; i++) {
		turn_stride();
		assert_int_equal(looks, i);
	}
	turn_close();
}

static void test_nobody_looks_at_what_is_not_open(void **state _unused_)
{
	const bool over = true;

	begin(&over);
	for (int i = 0; i < 2; i++) {
		steps(MANY);
		turn_stride();
		assert_int_equal(looks, 0);
		assert_false(turn_is_over());
		/* and not the time before counts for what comes now */
		turn_open();
		assert_true(turn_is_over());
		turn_close();
	}
}

static void test_what_is_open_within_what_is_open(void **state _unused_)
{
	const bool over = false;

	begin(&over);
	turn_open();
	turn_open();
	turn_stride();
	turn_close();
	turn_stride();
	assert_int_equal(looks, 2);
	turn_close();
	turn_stride();
	assert_int_equal(looks, 2);
	/* steps count again, however many there were while nothing was open */
	turn_open();
	steps(MANY);
	assert_true(looks > 2);
	turn_close();
}

/* It is told so at steps, too, and still takes its turns. */
static void test_what_is_over_is_told_so(void **state _unused_)
{
	bool over = false;
	unsigned told = 0;

	begin(&over);
	turn_open();
	assert_false(turn_stride());
	assert_false(turn_is_over());
	over = true;
	assert_true(turn_is_over());
	assert_true(turn_stride());
	assert_int_equal(looks, 2);
	for (int i = 0; i < MANY; i++)
		told += turn_step();
	assert_true(told > 1);
	assert_int_equal(told, looks - 2);
	turn_close();
}

static void test_many_bytes_are_many_steps(void **state _unused_)
{
	const bool over = false;

	begin(&over);
	turn_open();
	for (size_t i = 0; i < (size_t)MANY * TURN_STEP_BYTES; i++)
		turn_at(i);
	assert_true(looks > 1);
	looks = 0;
	turn_bytes((size_t)MANY * TURN_STEP_BYTES);
	assert_int_equal(looks, 1);
	turn_close();
}

static void test_nobody_looks_at_what_is_held(void **state _unused_)
{
	const bool over = true;

	begin(&over);
	turn_open();
	turn_hold();
	turn_open(); /* by what is called meanwhile */
	steps(MANY);
	turn_stride();
	assert_false(turn_is_over());
	turn_close();
	turn_hold();
	turn_let();
	steps(MANY);
	assert_int_equal(looks, 0);
	turn_let();
	turn_step();
	assert_int_equal(looks, 1);
	assert_true(turn_is_over());
	turn_close();
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nobody_looks_where_no_turns_are_taken),
		cmocka_unit_test(test_somebody_looks_now_and_then),
		cmocka_unit_test(test_after_each_stride),
		cmocka_unit_test(test_nobody_looks_at_what_is_not_open),
		cmocka_unit_test(test_nobody_looks_at_what_is_held),
		cmocka_unit_test(test_what_is_open_within_what_is_open),
		cmocka_unit_test(test_what_is_over_is_told_so),
		cmocka_unit_test(test_many_bytes_are_many_steps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
