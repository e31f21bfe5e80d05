#include "rt/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/testlib.h"

static char dir[64];

static int set_up(void **state _unused_)
{
	(void)snprintf(dir, sizeof(dir), "/tmp/corvo-test-XXXXXX");
	return mkdtemp(dir) != NULL ? 0 : -1;
}

static int tear_down(void **state _unused_)
{
	return dir_remove(dir);
}

static const char *in_dir(const char *name)
{
	static char path[256];

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	(void)close(fd);
}

static void test_read(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	write_file(in_dir("f"), "hello");
	buf_puts(&b, "> ");
	assert_int_equal(file_read(in_dir("f"), 5, &b), 0);
	assert_str_is(buf_str(&b), "> hello");
	assert_int_equal(file_read(in_dir("f"), 4, &b), -EFBIG);
	assert_int_equal(file_read(in_dir("missing"), 4, &b), -ENOENT);
	assert_str_is(buf_str(&b), "> hello");
}

static void test_directories(void **state _unused_)
{
	struct stat st;

	assert_int_equal(dir_make(in_dir("a/b//c/")), 0);
	assert_int_equal(dir_make(in_dir("a/b/c")), 0);
	assert_int_equal(stat(in_dir("a/b/c"), &st), 0);
	assert_true(S_ISDIR(st.st_mode));
	write_file(in_dir("a/file"), "x");
	assert_int_equal(dir_make(in_dir("a/file")), -ENOTDIR);
	assert_int_equal(dir_make(in_dir("a/file/d")), -ENOTDIR);
	assert_int_equal(symlink("/etc", in_dir("a/link")), 0);
	assert_int_equal(dir_remove(in_dir("a")), 0);
	assert_int_equal(access(in_dir("a"), F_OK), -1);
	assert_int_equal(access("/etc/passwd", F_OK), 0);
	assert_int_equal(dir_remove(in_dir("a")), 0);
}

static void test_lock(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	char text[32];
	int holder = 0;
	int fd = file_lock(in_dir("lock"), &holder);

	assert_true(fd >= 0);
	(void)snprintf(text, sizeof(text), "%-10d\n", (int)getpid());
	assert_int_equal(file_read(in_dir("lock"), 100, &b), 0);
	assert_str_is(buf_str(&b), text);
	/* another open file description, as in another process */
	assert_int_equal(file_lock(in_dir("lock"), &holder), -EWOULDBLOCK);
	assert_int_equal(holder, getpid());
	(void)close(fd);
	fd = file_lock(in_dir("lock"), &holder);
	assert_true(fd >= 0);
	(void)close(fd);
	assert_int_equal(file_lock(in_dir("no/lock"), &holder), -ENOENT);
}

/* A disk that is full does not keep a node from starting. */
static void test_lock_without_room(void **state _unused_)
{
	struct rlimit old, none;
	int holder = -1, fd;

	(void)signal(SIGXFSZ, SIG_IGN);
	assert_return_code(getrlimit(RLIMIT_FSIZE, &old), errno);
	none = (struct rlimit){ .rlim_cur = 0, .rlim_max = old.rlim_max };
	assert_return_code(setrlimit(RLIMIT_FSIZE, &none), errno);
	fd = file_lock(in_dir("full"), &holder);
	assert_return_code(setrlimit(RLIMIT_FSIZE, &old), errno);
	assert_true(fd >= 0);
	assert_int_equal(file_lock(in_dir("full"), &holder), -EWOULDBLOCK);
	assert_int_equal(holder, 0);
	(void)close(fd);
}

static void test_free_bytes(void **state _unused_)
{
	uint64_t n = 0;

	assert_int_equal(dir_free_bytes(dir, &n), 0);
	assert_true(n > 0);
	assert_int_equal(dir_free_bytes(in_dir("no"), &n), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read),
		cmocka_unit_test(test_directories),
		cmocka_unit_test(test_lock),
		cmocka_unit_test(test_lock_without_room),
		cmocka_unit_test(test_free_bytes),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
