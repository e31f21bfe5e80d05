/*
 * The file of the view when it is opened: what a crash, another user or
 * another program left there.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "view_fixture.h"

#define NOBODY 65534

static void put_queue(struct fixture *f)
{
	struct m_queue q = { 0 };
	struct m_tail_reply r = { .queues = &q, .queues_n = 1 };

	MSG_SET(&q, queue, name, STR("a"));
	MSG_SET(&q, queue, created_at, 1794700000 * NS_PER_S);
	r.last_seq = ++f->seq;
	assert_int_equal(mirror_apply(f->view.mirror, &r), 0);
}

static void reopen(struct fixture *f, bool clean)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);

	view_close(&f->view, clean);
	if (view_open(&f->view, &why) < 0)
		fail_msg("%.*s", STR_ARG(buf_str(&why)));
}

static void test_file_of_this_boot_goes_on(void **state)
{
	struct fixture *f = *state;

	put_queue(f);
	reopen(f, false);
	assert_int_equal(f->view.position, 1);
	reopen(f, true);
	assert_int_equal(f->view.position, 1);
}

static void set_boot(struct fixture *f, const char *boot)
{
	char sql[128];

	(void)snprintf(sql, sizeof(sql),
		       "UPDATE meta SET value='%s' WHERE key='boot'", boot);
	assert_int_equal(db_exec(f->view.writer, sql), 0);
	assert_int_equal(db_changes(f->view.writer), 1);
}

static void test_file_of_another_boot_is_made_anew(void **state)
{
	struct fixture *f = *state;

	put_queue(f);
	set_boot(f, "another");
	reopen(f, false);
	assert_int_equal(f->view.position, 0);
	assert_true(f->view.fresh);
}

/* After a crash; the reader keeps the log from being moved and cut. */
static void test_another_program_may_read_while_it_is_opened(void **state)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct fixture *f = *state;
	struct db *other;
	struct db_stmt *s;

	put_queue(f);
	assert_int_equal(db_open(f->view.path, DB_READ, &other, &why), 0);
	assert_int_equal(db_exec(other, "BEGIN"), 0);
	assert_int_equal(db_prepare(other, "SELECT name FROM queues", &s), 0);
	assert_int_equal(db_step(s), 1);
	put_queue(f);
	reopen(f, false);
	assert_int_equal(f->view.position, 2);
	db_finalize(s);
	db_close(other);
}

/* Closes the view and makes its file one that nobody may write to; dir: its
 * directory, with these permissions. */
static void protect(struct fixture *f, mode_t mode, char *dir, size_t size)
{
	put_queue(f);
	view_close(&f->view, true);
	(void)snprintf(dir, size, "%s/view", f->dir);
	assert_return_code(chmod(f->view.path, 0444), errno);
	assert_return_code(chmod(f->dir, 0755), errno);
	assert_return_code(chmod(dir, mode), errno);
}

/* Root may write to everything. */
static int open_as_user(struct fixture *f, struct buf *why)
{
	bool root = geteuid() == 0;
	int r;

	if (root)
		assert_return_code(seteuid(NOBODY), errno);
	r = view_open(&f->view, why);
	if (root)
		assert_return_code(seteuid(0), errno);
	return r;
}

/* Made by another user; the directory is ours. */
static void test_file_that_may_not_be_written_to(void **state)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct fixture *f = *state;
	char dir[128];

	protect(f, 0755, dir, sizeof(dir));
	if (geteuid() == 0)
		assert_return_code(chown(dir, NOBODY, NOBODY), errno);
	if (open_as_user(f, &why) < 0)
		fail_msg("%.*s", STR_ARG(buf_str(&why)));
	assert_true(f->view.fresh);
	put_queue(f);
}

/* Neither is: nothing is removed, and it is said why. */
static void test_directory_that_may_not_be_written_to(void **state)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct fixture *f = *state;
	char dir[128];

	protect(f, 0555, dir, sizeof(dir));
	assert_true(open_as_user(f, &why) < 0);
	assert_null(f->view.writer);
	buf_putc(&why, '\0');
	assert_non_null(strstr(why.p, "Permission denied"));
	assert_return_code(chmod(dir, 0755), errno);
	assert_return_code(chmod(f->view.path, 0644), errno);
	buf_clear(&why);
	assert_int_equal(view_open(&f->view, &why), 0);
	assert_int_equal(f->view.position, 1);
}

static void make_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_return_code(fd, errno);
	assert_return_code(close(fd), errno);
}

/* It may be as large as the view itself. */
static void test_half_a_rebuild_is_removed_at_the_start(void **state)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct fixture *f = *state;

	put_queue(f);
	make_file(f->view.new_path);
	view_close(&f->view, true);
	view_done(&f->view);
	assert_int_equal(view_init(&f->view, f->dir, &why), 0);
	assert_int_equal(access(f->view.new_path, F_OK), -1);
	assert_int_equal(view_open(&f->view, &why), 0);
	assert_int_equal(f->view.position, 1);
}

static void assert_moved_without(struct fixture *f, const char *suffix)
{
	char path[160];

	assert_int_equal(view_place(&f->view), VIEW_IN_PLACE);
	(void)snprintf(path, sizeof(path), "%s%s", f->view.path, suffix);
	assert_return_code(unlink(path), errno);
	assert_int_equal(view_place(&f->view), VIEW_MOVED);
}

static void test_each_of_its_files_is_missed(void **state)
{
	static const char *const suffixes[] = { "", "-wal", "-shm" };

	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		struct fixture *f = *state;

		put_queue(f);
		view_note_write(&f->view);
		assert_moved_without(f, suffixes[i]);
		assert_int_equal(teardown(state), 0);
		assert_int_equal(setup(state), 0);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
		TEST(test_file_of_this_boot_goes_on),
		TEST(test_file_of_another_boot_is_made_anew),
		TEST(test_another_program_may_read_while_it_is_opened),
		TEST(test_file_that_may_not_be_written_to),
		TEST(test_directory_that_may_not_be_written_to),
		TEST(test_half_a_rebuild_is_removed_at_the_start),
		TEST(test_each_of_its_files_is_missed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
