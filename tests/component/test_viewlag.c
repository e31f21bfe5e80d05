/*
 * Writers wait for a view that is about to fall out of the event log, but not
 * for one that is away.
 */
#include "propose/viewlag.h"

#include "lib/testlib.h"

#define RETENTION UINT64_C(1000000)
#define MS        UINT64_C(1000000)

static void test_a_burst_is_taken(void **state _unused_)
{
	struct viewlag v = { 0 };

	viewlag_note(&v, 1000, 5 * MS);
	assert_false(
	    viewlag_holds(&v, 1000 + RETENTION / 2, RETENTION, 6 * MS));
	/* a log that keeps little loses little */
	assert_false(viewlag_holds(&v, 1000 + VIEWLAG_LEAST, 10, 6 * MS));
}

static void test_an_entry_waits_until_the_view_has_moved(void **state _unused_)
{
	struct viewlag v = { 0 };
	uint64_t last = 1001 + RETENTION / 2;

	viewlag_note(&v, 1000, 5 * MS);
	assert_true(viewlag_holds(&v, last, RETENTION, 6 * MS));
	viewlag_note(&v, 1001, 7 * MS);
	assert_false(viewlag_holds(&v, last, RETENTION, 8 * MS));
}

static void test_an_entry_waits_for_a_moment_at_most(void **state _unused_)
{
	struct viewlag v = { 0 };
	uint64_t last = 2 * RETENTION, began = 6 * MS;

	viewlag_note(&v, 1000, 5 * MS);
	assert_true(viewlag_holds(&v, last, RETENTION, began));
	assert_true(
	    viewlag_holds(&v, last, RETENTION, began + VIEWLAG_HOLD_NS - 1));
	assert_false(
	    viewlag_holds(&v, last, RETENTION, began + VIEWLAG_HOLD_NS));
	/* and so does the next one */
	assert_true(
	    viewlag_holds(&v, last, RETENTION, began + VIEWLAG_HOLD_NS));
}

static void test_nobody_waits_for_a_view_that_is_away(void **state _unused_)
{
	struct viewlag v = { 0 };
	uint64_t last = 2 * RETENTION;

	assert_false(viewlag_holds(&v, last, RETENTION, VIEWLAG_GONE_NS));
	viewlag_note(&v, 1000, 5 * MS);
	/* to ask again is not to move */
	viewlag_note(&v, 1000, 5 * MS + VIEWLAG_GONE_NS - 1);
	assert_true(
	    viewlag_holds(&v, last, RETENTION, 5 * MS + VIEWLAG_GONE_NS - 1));
	assert_false(
	    viewlag_holds(&v, last, RETENTION, 5 * MS + VIEWLAG_GONE_NS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_burst_is_taken),
		cmocka_unit_test(test_an_entry_waits_until_the_view_has_moved),
		cmocka_unit_test(test_an_entry_waits_for_a_moment_at_most),
		cmocka_unit_test(test_nobody_waits_for_a_view_that_is_away),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
