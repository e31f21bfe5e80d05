/*
 * Our own log on a disk that is slow, writes less than it was asked to, or
 * fails: what the log calls is caught here.
 */
#include "seglog_flush.h"
#include "seglog_world.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "rt/log.h"

static atomic_size_t write_max; /* bytes of one write; 0: all */
static atomic_int write_error;
static atomic_bool is_direct_refused;
static atomic_uint refused;

/* Of the log's own bytes: whole blocks, from a place that is one. */
static bool is_of_stage(const void *p, size_t n)
{
	return ((uintptr_t)p | n) % 4096 == 0;
}

/* Found before libc's. */
ssize_t pwrite(int fd, const void *p, size_t n, off_t at)
{
	if (is_of_stage(p, n) && write_error != 0) {
		errno = write_error;
		return -1;
	}
	if (is_of_stage(p, n) && is_direct_refused &&
	    (fcntl(fd, F_GETFL) & O_DIRECT) != 0) {
		refused++;
		errno = EINVAL;
		return -1;
	}
	if (write_max != 0 && n > write_max && at >= SEG_HEAD_BYTES)
		n = write_max;
	return syscall(SYS_pwrite64, fd, p, n, at);
}

static void all_that_waits_goes_with_one_flush(void **state _unused_)
{
	struct world *w = world_new("one_flush");
	unsigned before;

	w->data_max = 100;
	/* the next segment is ready: the second thread flushes no more */
	world_close(w);
	world_open(w);
	push(w, 1);
	settle(w);
	before = flushes;
	hold_flushes(true);
	push(w, 1);
	wait_for_flush(before);
	before = flushes;
	for (int i = 0; i < 100; i++)
		push(w, 1);
	hold_flushes(false);
	settle(w);
	/* one for all of them; a few of the second thread's may fall between */
	assert_true(flushes - before <= 5);
	assert_log_is(w, w->dir, w->next);
	world_free(w);
}

static void nothing_is_told_before_it_is_flushed(void **state _unused_)
{
	struct world *w = world_new("told");
	unsigned before = flushes;
	struct list done;

	hold_flushes(true);
	push(w, 3);
	wait_for_flush(before);
	list_init(&done);
	seglog_take(w->log, &done);
	assert_true(list_empty(&done));
	hold_flushes(false);
	settle(w);
	world_free(w);
}

static void writes_that_are_cut_short_go_on(void **state _unused_)
{
	struct world *w = world_new("short");

	for (write_max = 1; write_max < 300; write_max += 37) {
		push(w, 4);
		settle(w);
		assert_log_is(w, w->dir, w->next);
	}
	write_max = 0;
	world_free(w);
}

/* One that takes the flag, but no block of ours. */
static void
a_disk_that_is_not_written_to_directly_will_do(void **state _unused_)
{
	struct world *w = world_new("refused");

	push(w, 3);
	settle(w);
	is_direct_refused = true;
	for (int i = 0; i < 20; i++)
		push(w, 4);
	settle(w);
	assert_int_not_equal(refused, 0);
	assert_log_is(w, w->dir, w->next);
	assert_goes_on(w, 4);
	is_direct_refused = false;
	world_free(w);
}

/* In a child, which is to stop with words about the file and the error. */
static void assert_stops(const char *name, atomic_int *error, const char *words)
{
	_cleanup_(buf_done) struct buf said = BUF_INIT(0);
	char path[128];
	int status;
	pid_t pid;

	(void)snprintf(path, sizeof(path), "%s/%s.err", world_root, name);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct world *w = world_new(name);
		int fd = open(path, O_WRONLY | O_CREAT, 0600);

		push(w, 1);
		settle(w);
		(void)dup2(fd, STDERR_FILENO);
		log_init("test", "n");
		*error = EIO;
		push(w, 1);
		settle(w);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	assert_int_equal(file_read(path, 1u << 20, &said), 0);
	buf_putc(&said, '\0');
	if (strstr(said.p, words) == NULL ||
	    strstr(said.p, "log-0000000000000001") == NULL ||
	    strstr(said.p, "Input/output error") == NULL)
		fail_msg("it said \"%s\"", said.p);
}

static void an_error_stops_the_process_and_names_the_file(void **state _unused_)
{
	assert_stops("no_flush", &flush_error, "cannot flush");
	assert_stops("no_write", &write_error, "cannot write");
}

/* The segment that is full does not say that there is another one. */
static void no_next_segment_is_no_damage(void **state _unused_)
{
	_cleanup_(buf_done) struct buf damage = BUF_INIT(0);
	struct world *w = world_new("no_next");
	char away[128];
	int status;
	pid_t pid;

	(void)snprintf(away, sizeof(away), "%s.away", w->dir);
	world_close(w);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		world_open(w);
		assert_int_equal(rename(w->dir, away), 0);
		for (;;) {
			push(w, 1);
			settle(w);
		}
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	assert_int_equal(rename(away, w->dir), 0);
	/* the same seed: the same entries */
	for (uint64_t i = 1; i < ENTRIES_MAX; i++)
		make_want(w, i);
	assert_true(look(w, w->dir, &damage) > SEGMENT_BYTES / w->data_max);
	assert_string_equal(damage.p, "");
	world_open(w); /* and it goes on */
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_that_waits_goes_with_one_flush),
		cmocka_unit_test(nothing_is_told_before_it_is_flushed),
		cmocka_unit_test(writes_that_are_cut_short_go_on),
		cmocka_unit_test(
		    a_disk_that_is_not_written_to_directly_will_do),
		cmocka_unit_test(an_error_stops_the_process_and_names_the_file),
		cmocka_unit_test(no_next_segment_is_no_damage),
	};

	return cmocka_run_group_tests(tests, world_set_up, world_tear_down);
}
