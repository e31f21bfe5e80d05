/*
 * The timer on the wall clock.
 */
#include "lib/testlib.h"

#include <errno.h>
#include <poll.h>
#include <sys/timex.h>
#include <unistd.h>

#include "util/clock.h"

/*
 * Tells the kernel that the clock was set, and moves it by nothing. A user who
 * may not set the clock sees the same tests on a clock that nobody sets.
 */
static void clock_is_set(void)
{
	struct timex t = { .modes = ADJ_SETOFFSET };

	if (adjtimex(&t) < 0)
		assert_int_equal(errno, EPERM);
}

static bool is_readable(int fd, int wait_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, wait_ms) == 1;
}

static void test_timer_wakes_at_its_moment(void **state)
{
	int fd = clock_timer_new();
	uint64_t at = clock_wall_ns() + 20 * NS_PER_MS;

	(void)state;
	assert_true(fd >= 0);
	clock_timer_set(fd, at);
	assert_true(is_readable(fd, -1));
	assert_true(clock_wall_ns() >= at);
	close(fd);
}

static void test_timer_is_set_again_after_the_clock_was_set(void **state)
{
	int fd = clock_timer_new();
	uint64_t at = clock_wall_ns() + 3600 * NS_PER_S;
	uint64_t n;

	(void)state;
	clock_timer_set(fd, at);
	clock_is_set(); /* and nobody reads it */
	clock_timer_set(fd, at + NS_PER_S);
	assert_false(is_readable(fd, 0));

	clock_is_set();
	clock_timer_set(fd, clock_wall_ns());
	assert_true(is_readable(fd, -1));
	assert_int_equal(read(fd, &n, sizeof(n)), sizeof(n));
	assert_int_equal(n, 1);

	clock_timer_set(fd, at);
	clock_is_set();
	clock_timer_set(fd, 0);
	assert_false(is_readable(fd, 0));
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_timer_wakes_at_its_moment),
		cmocka_unit_test(
		    test_timer_is_set_again_after_the_clock_was_set),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
