/*
 * Who gives way: a thread that said so, for as long as it said.
 */
#include <pthread.h>

#include "lib/testlib.h"
#include "util/clock.h"
#include "util/giveway.h"

static void test_nobody_does_by_himself(void **state _unused_)
{
	assert_false(give_way());
}

static void test_until_the_time_is_over(void **state _unused_)
{
	give_way_for(3600 * NS_PER_S);
	assert_true(give_way());
	assert_true(give_way());
	give_way_for(1);
	for (uint64_t t = clock_mono_ns(); clock_mono_ns() == t;)
		;
	assert_false(give_way());
	give_way_for(3600 * NS_PER_S);
	give_way_for(0);
	assert_false(give_way());
}

static void *other(void *ret)
{
	*(bool *)ret = give_way();
	return NULL;
}

static void test_others_do_not(void **state _unused_)
{
	bool gave = true;
	pthread_t t;

	give_way_for(3600 * NS_PER_S);
	assert_int_equal(pthread_create(&t, NULL, other, &gave), 0);
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_false(gave);
	give_way_for(0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nobody_does_by_himself),
		cmocka_unit_test(test_until_the_time_is_over),
		cmocka_unit_test(test_others_do_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
