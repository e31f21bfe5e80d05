/*
 * A node whose log is our own (--raft-store=segment): several lives, snapshots,
 * damage, and logs of one kind that become logs of the other.
 */
#include "node_world.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "cluster/logcheck.h"
#include "cluster/mark.h"
#include "cluster/ownlog.h"
#include "cluster/seglog/record.h"
#include "util/clock.h"

#define ENTRIES 60
#define LONG    300
#define CUT     (24 * 1024) /* setting snapshot_bytes: several snapshots */

static char root[] = "/tmp/corvo-own-XXXXXX";
static char dir[64], raft[80];

static int set_up(void **state _unused_)
{
	return mkdtemp(root) != NULL ? 0 : -1;
}

static int tear_down(void **state _unused_)
{
	return dir_remove(root);
}

static void begin(const char *name)
{
	(void)snprintf(dir, sizeof(dir), "%s/%s", root, name);
	(void)snprintf(raft, sizeof(raft), "%s/raft", dir);
	assert_int_equal(dir_make(dir), 0);
}

static const char *path_in(const char *name)
{
	static char path[256];

	(void)snprintf(path, sizeof(path), "%s/%s", raft, name);
	return path;
}

static void copy_tree(const char *from, const char *to)
{
	char command[512];

	assert_int_equal(dir_remove(to), 0);
	(void)snprintf(command, sizeof(command), "cp -a %s %s", from, to);
	assert_int_equal(system(command), 0);
}

/* A life that appends so many and is killed. */
static void live(const char *store, int entries, uint64_t snapshot)
{
	struct run r = { .append = entries,
			 .die = true,
			 .store = store,
			 .snapshot = snapshot };

	run_child(&r, dir);
}

/* What the log has, of whichever kind it is. */
static void assert_log(bool is_own, uint64_t next)
{
	struct buf why = BUF_INIT(0);
	struct log_check c;

	assert_int_equal(log_check(&c, raft, NULL, NULL, &why), 0);
	if (c.damage.n > 0)
		fail_msg("%.*s", STR_ARG(buf_str(&c.damage)));
	assert_int_equal(c.is_own, is_own);
	assert_int_equal(c.next, next);
	log_check_done(&c);
}

/* A start applies the entries that are left, and they are as they were. */
static void assert_all_there(const char *store, uint64_t last)
{
	struct run r = { .store = store };

	r.store_index = last;
	run_node(&r, dir);
	assert_int_equal(r.index, last);
	assert_false(r.bad);
}

/* --- lives --- */

static void lives_that_end_by_a_kill(void **state _unused_)
{
	uint64_t last = 1;

	begin("lives");
	for (int i = 0; i < 5; i++) {
		live("segment", ENTRIES, 0);
		last += ENTRIES;
		assert_log(true, last + 1);
	}
	assert_all_there("segment", last);
	assert_all_there("segment", last);
}

static size_t own_files(void)
{
	DIR *d = opendir(path_in(OWNLOG_FOLDER));
	size_t n = 0;

	assert_non_null(d);
	for (struct dirent *e; (e = readdir(d)) != NULL;)
		n += e->d_name[0] != '.';
	(void)closedir(d);
	return n;
}

static void the_log_is_cut_behind_snapshots(void **state _unused_)
{
	uint64_t last = 1;

	begin("cut");
	for (int i = 0; i < 6; i++) {
		struct run r = { .append = LONG,
				 .store = "segment",
				 .snapshot = CUT,
				 .store_index = last > 1 ? last : 0 };

		run_node(&r, dir);
		assert_false(r.bad);
		last += LONG;
		assert_int_equal(r.index, last);
		assert_log(true, last + 1);
	}
	/* half a megabyte of entries went through files of 64 KiB */
	assert_true(own_files() <= 6);
	assert_all_there("segment", last);
}

/* --- from one kind to the other --- */

static void back_and_forth(void **state _unused_)
{
	static const char *const stores[] = { "uv", "segment", "segment",
					      "uv", "uv",      "segment" };
	uint64_t last = 1;

	begin("convert");
	for (size_t i = 0; i < ARRAY_SIZE(stores); i++) {
		live(stores[i], ENTRIES, 0);
		last += ENTRIES;
		assert_log(strcmp(stores[i], "segment") == 0, last + 1);
	}
	assert_all_there("uv", last);
	assert_log(false, last + 1);
	assert_all_there("segment", last);
	assert_log(true, last + 1);
}

static void back_and_forth_with_snapshots(void **state _unused_)
{
	uint64_t last = 1;

	begin("convert_cut");
	for (int i = 0; i < 6; i++) {
		const char *store = i % 2 == 0 ? "segment" : "uv";
		struct run r = { .append = LONG,
				 .store = store,
				 .snapshot = CUT,
				 .store_index = last > 1 ? last : 0 };

		run_node(&r, dir);
		assert_false(r.bad);
		last += LONG;
		assert_log(i % 2 == 0, last + 1);
	}
	assert_all_there("uv", last);
}

/* A crash in the middle leaves parts of both, of which one is whole. */
static void a_conversion_that_was_interrupted(void **state _unused_)
{
	char uv[96], own[96], both[128];

	begin("between");
	(void)snprintf(uv, sizeof(uv), "%s/uv", root);
	(void)snprintf(own, sizeof(own), "%s/own", root);
	(void)snprintf(both, sizeof(both), "%s/both", root);
	live("uv", ENTRIES, 0);
	copy_tree(raft, uv);
	assert_all_there("segment", ENTRIES + 1);
	copy_tree(raft, own);

	/* to ours: a part of the new folder */
	copy_tree(uv, raft);
	assert_int_equal(dir_make(path_in("segments.new")), 0);
	assert_int_equal(file_write(path_in("segments.new/log-1"), STR("x")),
			 0);
	assert_log(false, ENTRIES + 2);
	assert_all_there("segment", ENTRIES + 1);

	/* to ours: the library's segments are there yet */
	copy_tree(uv, raft);
	(void)snprintf(both, sizeof(both), "%s/" OWNLOG_FOLDER, own);
	copy_tree(both, path_in(OWNLOG_FOLDER));
	live("segment", ENTRIES, 0);
	assert_log(true, 2 * ENTRIES + 2);
	assert_int_equal(access(path_in("open-1"), F_OK), -1);
	assert_all_there("uv", 2 * ENTRIES + 1);

	/* to the library's: only some of its segments are written */
	copy_tree(own, raft);
	assert_int_equal(
	    file_write(path_in("0000000000000001-0000000000000040"),
		       STR("half of one")),
	    0);
	assert_log(true, ENTRIES + 2);
	assert_all_there("uv", ENTRIES + 1);
	assert_log(false, ENTRIES + 2);

	/* to the library's: the folder has got its other name */
	copy_tree(uv, raft);
	copy_tree(both, path_in(OWNLOG_FOLDER ".old"));
	assert_all_there("uv", ENTRIES + 1);
	assert_all_there("segment", ENTRIES + 1);
	assert_all_there("uv", ENTRIES + 1);
}

/* --- damage --- */

static void change_byte(const char *name, size_t at)
{
	char c;
	int fd = open(path_in(name), O_RDWR);

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &c, 1, (off_t)at), 1);
	c ^= 8;
	assert_int_equal(pwrite(fd, &c, 1, (off_t)at), 1);
	assert_int_equal(close(fd), 0);
}

static void damage_is_refused_by_name(void **state _unused_)
{
	static const char first[] = OWNLOG_FOLDER "/log-0000000000000001";
	struct run r = { .store = "segment" };

	begin("damage");
	live("segment", ENTRIES, 0);
	change_byte(first, SEG_HEAD_BYTES + 500);
	assert_refused(&r, dir, ERR_CONFLICT, first);
	r = (struct run){ .store = "uv" }; /* nor is it converted */
	assert_refused(&r, dir, ERR_CONFLICT, "corvo recover");
	change_byte(first, SEG_HEAD_BYTES + 500);
	assert_all_there("segment", ENTRIES + 1);
}

/* The end of the last segment: what the last records of it are. */
static size_t last_record(const char *name)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	size_t at = SEG_HEAD_BYTES, last = at;
	struct seg_head h;
	struct rec r;

	assert_int_equal(file_read(path_in(name), 1u << 30, &b), 0);
	assert_true(seg_head_parse(buf_str(&b), &h));
	for (; rec_parse(buf_str(&b), at, h.salt, &r); at += rec_size(r.data.n))
		last = at;
	return last;
}

static void the_last_entry_with_a_mark_that_knows_it(void **state _unused_)
{
	static const char first[] = OWNLOG_FOLDER "/log-0000000000000001";
	struct mark m = { .acked = ENTRIES + 1 };
	struct run r = { .store = "segment" };
	struct buf why = BUF_INIT(0);
	struct log_check c;
	int fd;

	begin("mark");
	live("segment", ENTRIES, 0);
	assert_int_equal(log_check(&c, raft, NULL, NULL, &why), 0);
	m.history = c.history;
	log_check_done(&c);
	change_byte(first, last_record(first) + 20);
	assert_log(true, ENTRIES + 1); /* like a write that was not finished */
	fd = mark_open(raft);
	assert_true(fd >= 0);
	assert_int_equal(mark_write(fd, &m), 0);
	(void)close(fd);
	assert_refused(&r, dir, ERR_CONFLICT, "were acknowledged");
}

static void term_and_vote_that_are_torn(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct run r = { .store = "segment" };

	begin("vote");
	live("segment", ENTRIES, 0);
	assert_int_equal(file_read(path_in("metadata1"), 4096, &b), 0);
	assert_int_equal(truncate(path_in("metadata1"), 10), 0);
	assert_refused(&r, dir, ERR_CONFLICT, "say term 0");
	assert_int_equal(file_write(path_in("metadata1"), buf_str(&b)), 0);
	/* the other one was being written when it happened */
	assert_int_equal(file_write(path_in("metadata2"), str_of(b.p, 12)), 0);
	assert_all_there("segment", ENTRIES + 1);
}

/* A store that is ahead of its log, as of another kind. */
static void another_store(void **state _unused_)
{
	struct run r = { .store = "segment", .store_index = ENTRIES + 9 };

	begin("fit");
	live("segment", ENTRIES, 0);
	assert_refused(&r, dir, ERR_CONFLICT, "but the log ends with entry");
}

/* Of builds with CORVO_FAULTS. */
static void every_flush_can_be_made_slower(void **state _unused_)
{
	struct run r = { .append = 5, .store = "segment" };
	char path[96];
	uint64_t before;

	begin("slow");
	(void)snprintf(path, sizeof(path), "%s/delay", root);
	assert_int_equal(file_write(path, STR("20\n")), 0);
	assert_int_equal(setenv("CORVO_FAULT_FLUSH_DELAY", path, 1), 0);
	before = clock_mono_ns();
	run_node(&r, dir);
	assert_true(clock_mono_ns() - before >= 5 * 20 * NS_PER_MS);
	assert_int_equal(unsetenv("CORVO_FAULT_FLUSH_DELAY"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lives_that_end_by_a_kill),
		cmocka_unit_test(the_log_is_cut_behind_snapshots),
		cmocka_unit_test(back_and_forth),
		cmocka_unit_test(back_and_forth_with_snapshots),
		cmocka_unit_test(a_conversion_that_was_interrupted),
		cmocka_unit_test(damage_is_refused_by_name),
		cmocka_unit_test(the_last_entry_with_a_mark_that_knows_it),
		cmocka_unit_test(term_and_vote_that_are_torn),
		cmocka_unit_test(another_store),
		cmocka_unit_test(every_flush_can_be_made_slower),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
