#include "rt/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/testlib.h"
#include "proto/err.h"

static char dir[64];
static unsigned dirs_flushed;

/* In the place of the system's. */
int fsync(int fd)
{
	struct stat st;

	dirs_flushed += fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
	return (int)syscall(SYS_fsync, fd);
}

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

static void assert_lock_refused(const char *name, int err)
{
	int holder = 7;

	assert_int_equal(file_lock(in_dir(name), &holder), err);
	assert_int_equal(holder, 7);
	assert_true(strlen(file_lock_error(err)) > 10);
}

static void test_lock_of_others_is_refused(void **state _unused_)
{
	char other[128];

	(void)snprintf(other, sizeof(other), "%s", in_dir("other"));
	assert_int_equal(file_write(other, STR("precious")), 0);
	assert_return_code(symlink(other, in_dir("soft")), errno);
	assert_lock_refused("soft", -ELOOP);
	assert_return_code(link(other, in_dir("hard")), errno);
	assert_lock_refused("hard", -EPERM);
	assert_return_code(unlink(in_dir("hard")), errno);
	assert_return_code(chmod(other, 0666), errno);
	assert_lock_refused("other", -EPERM);
	assert_return_code(mkfifo(in_dir("pipe"), 0600), errno);
	assert_lock_refused("pipe", -EPERM);
}

static void assert_taken(const char *name, const char *words)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	int r = dir_take(in_dir(name), "data", &why);

	buf_putc(&why, '\0');
	assert_int_equal(r, words == NULL ? 0 : -ERR_VALIDATION_ERROR);
	if (words != NULL && strstr(why.p, words) == NULL)
		fail_msg("got \"%s\", expected \"%s\"", why.p, words);
}

static void test_only_we_may_write_in_a_directory_of_ours(void **state _unused_)
{
	char taken[128];

	assert_taken("taken", NULL);
	(void)snprintf(taken, sizeof(taken), "%s", in_dir("taken"));
	assert_return_code(chmod(taken, 0757), errno);
	assert_taken("taken", "other users may write in the data directory");
	assert_return_code(chmod(taken, 01777), errno);
	assert_taken("taken", "(mode 1777, group");
	/* volumes of containers are given to a group */
	assert_return_code(chmod(taken, 0770), errno);
	assert_taken("taken", NULL);
	/* a link of ours says where we want it */
	assert_return_code(symlink(taken, in_dir("link")), errno);
	assert_taken("link", NULL);
	assert_taken("link/below", NULL);
	assert_return_code(chmod(taken, 0777), errno);
	assert_taken("link", "other users may write");
	if (geteuid() != 0) /* only root can give files away */
		return;
	assert_return_code(chmod(taken, 0770), errno);
	assert_return_code(chown(taken, 0, 4711), errno);
	assert_taken("taken", "other users may write");
	assert_return_code(chown(taken, 4711, 0), errno);
	assert_taken("taken", "belongs to user 4711, and we are user 0");
	assert_return_code(chown(taken, 0, 0), errno);
	assert_return_code(lchown(in_dir("link"), 4711, 0), errno);
	assert_taken("link", "the symbolic link in the place of the data");
}

static void test_bytes_of_a_directory_and_of_those_in_it(void **state _unused_)
{
	uint64_t n;

	assert_int_equal(dir_make(in_dir("sized/in/deeper")), 0);
	write_file(in_dir("sized/a"), "12345");
	write_file(in_dir("sized/in/b"), "1234567");
	write_file(in_dir("sized/in/deeper/c"), "1");
	assert_return_code(symlink("in", in_dir("sized/link")), errno);
	assert_int_equal(dir_bytes(in_dir("sized"), &n), 0);
	assert_int_equal(n, 12);
	assert_int_equal(dir_bytes(in_dir("nowhere"), &n), -ENOENT);
	assert_int_equal(n, 0);
}

/* Else a power failure takes its name, or gives it back the old content. */
static void test_a_file_is_written_with_its_name(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	dirs_flushed = 0;
	assert_int_equal(file_write(in_dir("named"), STR("precious")), 0);
	assert_int_equal(dirs_flushed, 1);
	assert_int_equal(file_read(in_dir("named"), 100, &b), 0);
	assert_str_is(buf_str(&b), "precious");
	assert_int_equal(file_write(in_dir("nowhere/named"), STR("x")),
			 -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read),
		cmocka_unit_test(test_directories),
		cmocka_unit_test(test_lock),
		cmocka_unit_test(test_lock_without_room),
		cmocka_unit_test(test_lock_of_others_is_refused),
		cmocka_unit_test(test_only_we_may_write_in_a_directory_of_ours),
		cmocka_unit_test(test_a_file_is_written_with_its_name),
		cmocka_unit_test(test_free_bytes),
		cmocka_unit_test(test_bytes_of_a_directory_and_of_those_in_it),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
