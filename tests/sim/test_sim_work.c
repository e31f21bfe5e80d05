/*
 * Work that is under way when its process ends: the world goes on without it.
 */
#include "lib/testlib.h"
#include "sim.h"

struct job {
	unsigned worked, told;
};

static void work(void *ctx)
{
	struct job *j = ctx;

	j->worked++;
}

static void done(void *ctx)
{
	struct job *j = ctx;

	j->told++;
}

static void test_an_end(void **state)
{
	struct sim *s = xcalloc(1, sizeof(*s));

	(void)state;
	sim_begin(s, 1);
	for (unsigned is_crash = 0; is_crash < 2; is_crash++) {
		struct loop l = { .sim = s }, other = { .sim = s };
		struct job jobs[2] = { 0 }, of_other = { 0 };

		loop_work(&l, work, done, &jobs[0]);
		loop_work(&other, work, done, &of_other);
		loop_work(&l, work, done, &jobs[1]);
		sim_work_end(&l, is_crash);
		for (size_t i = 0; i < ARRAY_SIZE(jobs); i++) {
			assert_int_equal(jobs[i].worked, is_crash ? 0 : 1);
			assert_int_equal(jobs[i].told, 1);
		}
		assert_int_equal(of_other.told, 0);
		assert_true(sim_step(s));
		assert_int_equal(of_other.worked, 1);
		assert_false(sim_step(s));
	}
	sim_end(s);
	free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_an_end) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
