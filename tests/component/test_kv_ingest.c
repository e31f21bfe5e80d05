/*
 * Large tables that RocksDB takes in as files: what is read afterwards, what is
 * on the disk, what a crash leaves, and when it is not done.
 */
#include "kv_assert.h"

#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/err.h"
#include "store/kv.h"
#include "store/table.h"

#define WRITE_BUFFER (1u << 20)
#define MANY         8000 /* entries, which weigh more than half of that */
#define ROUNDS       40
#define KINDS        5

struct fixture {
	struct kv *kv;
	struct table t;
	char dir[64];
	char path[96];
};

static void open_store(struct fixture *f, bool no_room)
{
	struct kv_options o = { .write_buffer_bytes = WRITE_BUFFER,
				.cache_bytes = 1u << 20,
				.no_room = no_room };
	struct buf why = BUF_INIT(0);

	if (kv_rocks_open(f->path, &o, &f->kv, &why) < 0)
		fail_msg("%s: %.*s", f->path, STR_ARG(buf_str(&why)));
	buf_done(&why);
}

static int setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));

	(void)snprintf(f->dir, sizeof(f->dir), "/tmp/corvo_ingest_XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	(void)snprintf(f->path, sizeof(f->path), "%s/db", f->dir);
	open_store(f, false);
	table_init(&f->t, 1u << 20);
	*state = f;
	return 0;
}

__attribute__((format(printf, 1, 2))) static void run(const char *format, ...)
{
	char cmd[512];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(cmd, sizeof(cmd), format, args);
	va_end(args);
	assert_int_equal(system(cmd), 0);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	kv_close(f->kv);
	table_done(&f->t);
	run("rm -rf -- '%s'", f->dir);
	free(f);
	return 0;
}

static void set(struct fixture *f, const char *kind, int n, const char *value)
{
	char key[32];

	(void)snprintf(key, sizeof(key), "%s|%06d", kind, n);
	table_set(&f->t, str_from(key),
		  value != NULL ? str_from(value) : STR_NULL, false);
}

static void set_many(struct fixture *f, const char *kind, const char *value)
{
	for (int i = 0; i < MANY; i++)
		set(f, kind, i, value);
}

static void write_all(struct fixture *f)
{
	assert_int_equal(kv_write_table(f->kv, &f->t), 0);
	table_empty(&f->t);
}

static size_t files(const struct fixture *f, const char *name)
{
	char pattern[128];
	glob_t g = { 0 };
	size_t n;

	(void)snprintf(pattern, sizeof(pattern), "%s/%s", f->path, name);
	(void)glob(pattern, 0, NULL, &g);
	n = g.gl_pathc;
	globfree(&g);
	return n;
}

/*
 * As a crash would: only what is in files is there afterwards. All threads
 * stand still while the files are copied: RocksDB merges beside this one, and
 * files that go between two others are no moment that ever was.
 */
static void crash(struct fixture *f)
{
	char copy[112];
	int self = (int)getpid();

	(void)snprintf(copy, sizeof(copy), "%s.copy", f->path);
	run("kill -STOP %d;"
	    " while grep -q '^State:.[^T]' /proc/%d/task/*/status; do :; done;"
	    " cp -r '%s' '%s'; done=$?; kill -CONT %d; exit $done",
	    self, self, f->path, copy, self);
	kv_close(f->kv);
	run("rm -rf -- '%s'", f->path);
	run("mv '%s' '%s'", copy, f->path);
	open_store(f, false);
}

static void test_a_large_table_is_in_files_at_once(void **state)
{
	struct fixture *f = *state;

	set_many(f, "a", "1");
	write_all(f);
	assert_true(files(f, "*.sst") >= 1);
	assert_int_equal(files(f, "new-*"), 0);
	crash(f);
	assert_has(f->kv, "a|000000", "1");
	assert_has(f->kv, "a|007999", "1");
}

static void test_a_small_one_is_not(void **state)
{
	struct fixture *f = *state;

	set(f, "a", 1, "1");
	write_all(f);
	assert_has(f->kv, "a|000001", "1");
	assert_int_equal(files(f, "*.sst"), 0);
	crash(f);
	assert_has(f->kv, "a|000001", NULL);
}

static void test_much_of_a_kind_has_a_file_of_its_own(void **state)
{
	struct fixture *f = *state;

	set(f, "a", 1, "few");
	set_many(f, "b", "many");
	set(f, "c", 1, "few");
	set(f, "d", 1, "few");
	set_many(f, "e", "many");
	write_all(f);
	/* a, b, c and d, e */
	assert_int_equal(files(f, "*.sst"), 4);
	assert_has(f->kv, "a|000001", "few");
	assert_has(f->kv, "d|000001", "few");
	assert_has(f->kv, "e|007999", "many");
}

static void test_values_are_replaced_and_go(void **state)
{
	struct fixture *f = *state;

	set_many(f, "a", "1");
	write_all(f);
	set_many(f, "a", "2");
	set(f, "a", 7, NULL);
	table_set(&f->t, STR("a|new"), STR("x"), true);
	table_set(&f->t, STR("a|new"), STR_NULL, true);
	write_all(f);
	assert_has(f->kv, "a|000006", "2");
	assert_has(f->kv, "a|000007", NULL);
	assert_has(f->kv, "a|new", NULL);
}

/* What a small one left in memory is older than what is taken in. */
static void test_a_large_one_after_a_small_one(void **state)
{
	struct fixture *f = *state;

	set(f, "a", 5, "old");
	set(f, "z", 5, "kept");
	write_all(f);
	set_many(f, "a", "new");
	write_all(f);
	assert_has(f->kv, "a|000005", "new");
	assert_has(f->kv, "z|000005", "kept");
	set(f, "a", 5, "newest");
	write_all(f);
	assert_has(f->kv, "a|000005", "newest");
}

static void test_ranges_go_before_what_is_written(void **state)
{
	struct fixture *f = *state;

	set_many(f, "a", "1");
	write_all(f);
	table_delete_range(&f->t, STR("a|000000"), STR("a|001000"));
	for (int i = 500; i < MANY; i++)
		set(f, "a", i, "2");
	write_all(f);
	assert_has(f->kv, "a|000499", NULL);
	assert_has(f->kv, "a|000500", "2");
	assert_has(f->kv, "a|007999", "2");
}

static void test_a_range_of_a_kind_without_entries(void **state)
{
	struct fixture *f = *state;

	set_many(f, "a", "1");
	write_all(f);
	table_delete_range(&f->t, STR("a|000000"), STR("a|001000"));
	set_many(f, "b", "2");
	write_all(f);
	assert_has(f->kv, "a|000999", NULL);
	assert_has(f->kv, "a|001000", "1");
	assert_has(f->kv, "b|000000", "2");
}

static void test_what_a_crash_left_is_removed(void **state)
{
	struct fixture *f = *state;

	set_many(f, "a", "1");
	write_all(f);
	kv_close(f->kv);
	run("echo torn > '%s/new-0.sst' && echo torn > '%s/new-16.sst'",
	    f->path, f->path);
	open_store(f, false);
	assert_int_equal(files(f, "new-*"), 0);
	assert_has(f->kv, "a|000000", "1");
}

static void test_an_error_is_told_and_nothing_is_half_written(void **state)
{
	struct fixture *f = *state;

	set_many(f, "a", "1");
	set_many(f, "b", "1");
	run("mkdir '%s/new-1.sst'", f->path);
	assert_int_equal(kv_write_table(f->kv, &f->t), -ERR_STORAGE_ERROR);
	assert_non_null(strstr(kv_error_text(), "new-1.sst"));
	assert_has(f->kv, "a|000000", NULL);
	assert_int_equal(files(f, "new-0.sst"), 0);
	run("rmdir '%s/new-1.sst'", f->path);
	write_all(f);
	assert_has(f->kv, "a|000000", "1");
	assert_has(f->kv, "b|000000", "1");
}

static void test_without_room_nothing_goes_to_the_disk(void **state)
{
	struct fixture *f = *state;

	kv_close(f->kv);
	open_store(f, true);
	set_many(f, "a", "1");
	write_all(f);
	assert_int_equal(files(f, "*.sst"), 0);
	assert_has(f->kv, "a|000000", "1");
	assert_int_equal(kv_set_write_buffer(f->kv, WRITE_BUFFER), 0);
	set_many(f, "b", "1");
	write_all(f);
	assert_true(files(f, "*.sst") >= 1);
	assert_has(f->kv, "a|000000", "1");
}

/* --- by chance, beside a store in memory --- */

static void assert_same(struct kv *a, struct kv *b)
{
	struct kv_iter *x = kv_iter_new(a, STR_NULL, STR_NULL);
	struct kv_iter *y = kv_iter_new(b, STR_NULL, STR_NULL);

	for (; kv_iter_valid(x) && kv_iter_valid(y); kv_iter_next(x)) {
		assert_true(str_eq(kv_iter_key(x), kv_iter_key(y)));
		assert_true(str_eq(kv_iter_value(x), kv_iter_value(y)));
		kv_iter_next(y);
	}
	assert_false(kv_iter_valid(x));
	assert_false(kv_iter_valid(y));
	assert_int_equal(kv_iter_error(x), 0);
	kv_iter_free(x);
	kv_iter_free(y);
}

static void fill_by_chance(struct fixture *f, struct rng *r)
{
	static const char *const kinds[KINDS] = { "a", "b", "bb", "c", "zz" };
	uint64_t n = rng_below(r, 2 * MANY);
	char value[16], from[16], upto[16];

	if (rng_below(r, 4) == 0) {
		int first = (int)rng_below(r, MANY);

		(void)snprintf(from, sizeof(from), "bb|%06d", first);
		(void)snprintf(upto, sizeof(upto), "bb|%06d", first + 300);
		table_delete_range(&f->t, str_from(from), str_from(upto));
	}
	for (uint64_t i = 0; i < n; i++) {
		(void)snprintf(value, sizeof(value), "%d",
			       (int)rng_below(r, 1000));
		set(f, kinds[rng_below(r, KINDS)], (int)rng_below(r, MANY),
		    rng_below(r, 3) == 0 ? NULL : value);
	}
}

static void test_by_chance(void **state)
{
	struct fixture *f = *state;
	struct kv *twin = kv_mem_new();
	struct rng r;

	test_rng(&r);
	for (int i = 0; i < ROUNDS; i++) {
		fill_by_chance(f, &r);
		assert_int_equal(kv_write_table(twin, &f->t), 0);
		write_all(f);
		assert_same(f->kv, twin);
	}
	assert_int_equal(kv_flush(f->kv, NULL), 0);
	crash(f);
	assert_same(f->kv, twin);
	kv_close(twin);
}

#define TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_large_table_is_in_files_at_once),
		TEST(test_a_small_one_is_not),
		TEST(test_much_of_a_kind_has_a_file_of_its_own),
		TEST(test_values_are_replaced_and_go),
		TEST(test_a_large_one_after_a_small_one),
		TEST(test_ranges_go_before_what_is_written),
		TEST(test_a_range_of_a_kind_without_entries),
		TEST(test_what_a_crash_left_is_removed),
		TEST(test_an_error_is_told_and_nothing_is_half_written),
		TEST(test_without_room_nothing_goes_to_the_disk),
		TEST(test_by_chance),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
