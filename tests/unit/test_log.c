/*
 * Reads log lines back through a pipe put in the place of standard error.
 */
#include "rt/log.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/testlib.h"
#include "util/json.h"

static int saved_stderr;
static int pipe_read;

/* Its writing end waits for room, as that of a process we were started by. */
static int put_in_place(const int fds[2])
{
	saved_stderr = dup(STDERR_FILENO);
	pipe_read = fds[0];
	(void)dup2(fds[1], STDERR_FILENO);
	(void)close(fds[1]);
	(void)fcntl(pipe_read, F_SETFL, O_NONBLOCK);
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

static int set_up(void **state _unused_)
{
	int fds[2];

	return pipe(fds) < 0 ? -1 : put_in_place(fds);
}

static int set_up_socket(void **state _unused_)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0)
		return -1;
	return put_in_place(fds);
}

/* The pipe cannot be opened again, as when another user made it. */
static int set_up_shared(void **state _unused_)
{
	struct rlimit old, none;
	int fds[2];

	if (pipe(fds) < 0 || getrlimit(RLIMIT_NOFILE, &old) < 0)
		return -1;
	none = old;
	none.rlim_cur = 0;
	(void)put_in_place(fds);
	(void)setrlimit(RLIMIT_NOFILE, &none);
	log_init("raftd", "node-1");
	return setrlimit(RLIMIT_NOFILE, &old);
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
	/* C1, as UTF-8 has it and as it is, beside what is none */
	log_info("a\xc2\x9b"
		 "31m\x9b"
		 "b\xc3\xbc\t\xc2\n");
	s = logged(space, sizeof(space));
	assert_str_is(str_skip(s, 24),
		      " info raftd node-1 a\\x9b31m\\x9bb\xc3\xbc"
		      "\\x09\\xc2\\n\n");
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

/* Until not even a short line fits; drops of earlier tests count too. */
static uint64_t fill(void)
{
	uint64_t before = log_dropped(), last;

	while (log_dropped() == before)
		log_info("%03000d", 7);
	do {
		last = log_dropped();
		log_info("x");
		log_info("x");
	} while (log_dropped() - last < 2);
	return before;
}

static struct str all_logged(struct buf *b)
{
	char space[8192];
	struct str s;

	buf_clear(b);
	while ((s = logged(space, sizeof(space))).n > 0)
		buf_put_str(b, s);
	return buf_str(b);
}

static bool contains(struct str s, const char *words)
{
	return memmem(s.p, s.n, words, strlen(words)) != NULL;
}

/* How many lines were dropped, by what was logged about it. */
static uint64_t count_said(struct str s)
{
	static const char words[] = " warn raftd node-1 log lines were "
				    "dropped, nobody read them: ";
	uint64_t total = 0, n;
	struct str line;

	while (str_split(s, '\n', &line, &s)) {
		if (line.n < 24 || !str_starts(str_skip(line, 24), STR(words)))
			continue;
		assert_true(
		    str_parse_u64(str_skip(line, 24 + strlen(words)), &n));
		total += n;
	}
	return total;
}

/* Would hang for ever if it waited for room. */
static void test_lines_are_dropped_and_counted(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	uint64_t before = fill(), said;
	struct str s;

	log_error("not this one");
	assert_true(log_dropped() >= before + 3);
	/* nobody else who shares it finds it changed */
	assert_int_equal(fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK, 0);

	s = all_logged(&b);
	assert_false(contains(s, "this one"));
	said = count_said(s);
	log_info("room again");
	s = all_logged(&b);
	assert_true(contains(s, "room again\n"));
	assert_int_equal(said + count_said(s), log_dropped() - before);
}

static void test_the_count_is_said_without_another_line(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	(void)fill();
	log_settle();
	(void)all_logged(&b);
	log_settle();
	assert_true(count_said(all_logged(&b)) > 0);
	log_settle();
	assert_int_equal(all_logged(&b).n, 0);
}

/* Escaped, 3500 bytes are 14000 and 21000: more than a pipe takes at once. */
static void test_escapes_do_not_make_a_line_too_long(void **state _unused_)
{
	char space[65536], noise[3501];
	struct json_error bad;
	struct str s;

	memset(noise, 1, sizeof(noise) - 1);
	noise[sizeof(noise) - 1] = '\0';
	log_info("%s", noise);
	s = logged(space, sizeof(space));
	assert_in_range(s.n, 2000, 4096);
	assert_int_equal(s.p[s.n - 1], '\n');
	log_set_json(true);
	log_info("%s", noise);
	s = logged(space, sizeof(space));
	assert_in_range(s.n, 2000, 4096);
	assert_true(json_validate(s, 4, &bad));
}

#define FULL_TEST(fn, how)                                           \
	{                                                            \
#fn " of a " #how, fn, set_up_##how, tear_down, NULL \
	}
#define set_up_pipe set_up

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
		LOG_TEST(test_escapes_do_not_make_a_line_too_long),
		FULL_TEST(test_lines_are_dropped_and_counted, pipe),
		FULL_TEST(test_lines_are_dropped_and_counted, socket),
		FULL_TEST(test_lines_are_dropped_and_counted, shared),
		LOG_TEST(test_the_count_is_said_without_another_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
