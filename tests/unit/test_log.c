/*
 * Reads log lines back through a pipe put in the place of standard error.
 */
#include "rt/log.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "lib/testlib.h"
#include "util/json.h"

static int saved_stderr;
static int pipe_read;

static int set_up(void **state _unused_)
{
	int fds[2];

	if (pipe2(fds, O_NONBLOCK) < 0)
		return -1;
	saved_stderr = dup(STDERR_FILENO);
	pipe_read = fds[0];
	(void)dup2(fds[1], STDERR_FILENO);
	(void)close(fds[1]);
	log_init("raftd", "node-1");
	log_set_level(LOG_INFO);
	log_set_json(false);
	return 0;
}

static int tear_down(void **state _unused_)
{
	(void)dup2(saved_stderr, STDERR_FILENO);
	(void)close(saved_stderr);
	(void)close(pipe_read);
	return 0;
}

/* Everything that was logged since the last call. */
static struct str logged(char *space, size_t n)
{
	ssize_t got = read(pipe_read, space, n);

	return str_of(space, got > 0 ? (size_t)got : 0);
}

static void test_text_line(void **state _unused_)
{
	char space[8192];
	struct str s;

	log_info("became leader term=%d", 3);
	s = logged(space, sizeof(space));
	/* 2026-02-11T10:00:00.123Z */
	assert_true(s.n > 25);
	assert_int_equal(s.p[10], 'T');
	assert_int_equal(s.p[19], '.');
	assert_int_equal(s.p[23], 'Z');
	assert_str_is(str_skip(s, 24),
		      " info raftd node-1 became leader term=3\n");
}

static void test_levels(void **state _unused_)
{
	char space[8192];

	log_set_level(LOG_WARN);
	assert_int_equal(log_get_level(), LOG_WARN);
	log_debug("no");
	log_info("no");
	assert_int_equal(logged(space, sizeof(space)).n, 0);
	log_warn("yes");
	log_error("yes");
	assert_true(logged(space, sizeof(space)).n > 0);
	log_set_level(LOG_DEBUG);
	log_debug("yes");
	assert_true(logged(space, sizeof(space)).n > 0);
}

static void test_level_names(void **state _unused_)
{
	enum log_level l = LOG_INFO;

	for (int i = LOG_DEBUG; i <= LOG_ERROR; i++) {
		const char *name = log_level_name((enum log_level)i);

		assert_true(log_level_parse(str_from(name), &l));
		assert_int_equal(l, i);
	}
	assert_false(log_level_parse(STR("loud"), &l));
	assert_false(log_level_parse(STR("INFO"), &l));
	assert_false(log_level_parse(STR_NULL, &l));
	assert_int_equal(l, LOG_ERROR);
}

static void test_outside_bytes_stay_on_one_line(void **state _unused_)
{
	char space[8192];
	struct str s;

	log_info("a\nb\x1b[2Jc\x7f");
	s = logged(space, sizeof(space));
	assert_str_is(str_skip(s, 24),
		      " info raftd node-1 a\\nb\\x1b[2Jc\\x7f\n");
}

static void test_json_line(void **state _unused_)
{
	struct arena a = ARENA_INIT;
	struct json_error bad;
	struct json v, root;
	char space[8192];
	struct str s;

	log_set_json(true);
	log_warn("quote \" newline \n bytes \xff end");
	s = logged(space, sizeof(space));
	assert_int_equal(s.p[s.n - 1], '\n');
	assert_null(memchr(s.p, '\n', s.n - 1));
	assert_true(json_validate(s, 4, &bad));
	root = json_root(s);
	assert_true(json_member(root, "level", &a, &v));
	assert_str_is(json_string(v, &a), "warn");
	assert_true(json_member(root, "proc", &a, &v));
	assert_str_is(json_string(v, &a), "raftd");
	assert_true(json_member(root, "node", &a, &v));
	assert_str_is(json_string(v, &a), "node-1");
	assert_true(json_member(root, "time", &a, &v));
	assert_true(json_member(root, "msg", &a, &v));
	assert_str_is(json_string(v, &a), "quote \" newline \n bytes ? end");
	arena_done(&a);
}

static void test_long_line_is_cut_and_errno_kept(void **state _unused_)
{
	char space[8192];
	struct str s;

	errno = EPIPE;
	log_info("%06000d", 1);
	assert_int_equal(errno, EPIPE);
	s = logged(space, sizeof(space));
	assert_in_range(s.n, 3000, 4096);
	assert_int_equal(s.p[s.n - 1], '\n');
}

#define LOG_TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LOG_TEST(test_text_line),
		LOG_TEST(test_levels),
		cmocka_unit_test(test_level_names),
		LOG_TEST(test_outside_bytes_stay_on_one_line),
		LOG_TEST(test_json_line),
		LOG_TEST(test_long_line_is_cut_and_errno_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
