/* What is too small for a test program of its own: base, clock, list. */
#include "util/base.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/testlib.h"
#include "util/clock.h"
#include "util/list.h"

static void test_allocations(void **state _unused_)
{
	static const char text[] = { 'a', 'b', 'c' }; /* no NUL */
	char *zero = xcalloc(3, 5);
	char *copy = xstrdup("abc");
	char *cut = xstrndup(text, sizeof(text));
	char *small = xstrndup("a\0b", 3);

	for (int i = 0; i < 15; i++)
		assert_int_equal(zero[i], 0);
	zero = xrealloc(zero, 1000);
	memset(zero, 1, 1000);
	assert_string_equal(copy, "abc");
	assert_string_equal(cut, "abc");
	assert_string_equal(small, "a");
	free(zero);
	free(copy);
	free(cut);
	free(small);
}

static void test_size_zero_is_memory_too(void **state _unused_)
{
	void *a = xmalloc(0), *b = xcalloc(0, 8);

	assert_non_null(a);
	assert_non_null(b);
	a = xrealloc(a, 0);
	assert_non_null(a);
	free(a);
	free(b);
}

/* In a child, with its stderr in a pipe. */
static void test_check_says_where_and_aborts(void **state _unused_)
{
	char text[256] = "";
	int fds[2], status;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (pid == 0) {
		signal(SIGABRT, SIG_DFL);
		dup2(fds[1], STDERR_FILENO);
		check_failed("file.c", 12, "a == b");
	}
	close(fds[1]);
	assert_true(read(fds[0], text, sizeof(text) - 1) > 0);
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	assert_string_equal(text, "file.c:12: CHECK failed: a == b\n");
}

/* It dies all the same; otherwise waitpid waits for ever. */
static void test_check_dies_although_nobody_reads(void **state _unused_)
{
	int fds[2], status;
	pid_t pid;

	assert_int_equal(pipe2(fds, O_NONBLOCK), 0);
	while (write(fds[1], "x", 1) == 1)
		;
	assert_int_equal(fcntl(fds[1], F_SETFL, 0), 0);
	pid = fork();
	if (pid == 0) {
		signal(SIGABRT, SIG_DFL);
		dup2(fds[1], STDERR_FILENO);
		check_failed("file.c", 12, "a == b");
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	close(fds[0]);
	close(fds[1]);
}

static void test_clocks(void **state _unused_)
{
	uint64_t last = clock_mono_ns();

	for (int i = 0; i < 1000; i++) {
		uint64_t now = clock_mono_ns();

		assert_true(now >= last);
		last = now;
	}
	assert_true(clock_wall_ns() > 1700000000 * NS_PER_S);
}

struct item {
	int number;
	struct list link;
};

/* The numbers on the list as the decimal digits of one. */
static int list_digits(struct list *l)
{
	int v = 0;

	LIST_FOREACH (it, l)
		v = v * 10 + list_entry(it, struct item, link)->number;
	return v;
}

static void test_list(void **state _unused_)
{
	struct item a = { .number = 1 }, b = { .number = 2 };
	struct item c = { .number = 3 }, d = { .number = 4 };
	struct list l = { 0 };

	assert_true(list_empty(&l)); /* zeroed counts as empty */
	list_init(&l);
	assert_true(list_empty(&l));
	list_remove(&a.link); /* on no list */
	list_push_back(&l, &b.link);
	list_push_front(&l, &a.link);
	list_push_back(&l, &d.link);
	list_insert_before(&d.link, &c.link);
	assert_int_equal(list_digits(&l), 1234);
	list_remove(&b.link);
	list_remove(&b.link);
	assert_int_equal(list_digits(&l), 134);
	LIST_FOREACH_SAFE (it, &l)
		list_remove(it);
	assert_true(list_empty(&l));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_allocations),
		cmocka_unit_test(test_size_zero_is_memory_too),
		cmocka_unit_test(test_check_says_where_and_aborts),
		cmocka_unit_test(test_check_dies_although_nobody_reads),
		cmocka_unit_test(test_clocks),
		cmocka_unit_test(test_list),
	};

	return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
