/*
 * Checkpoints of snapshots: which of them are kept, what they say of their
 * files, and what a crash leaves.
 */
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/testlib.h"
#include "proto/err.h"
#include "rt/file.h"
#include "serve/keep.h"
#include "util/clock.h"
#include "util/crc32.h"

struct world {
	char dir[64];
	struct kv *kv;
	struct keep *keep;
	unsigned keys;
};

static struct buf why = BUF_INIT(0);

/* A path in the data directory. */
static const char *in_dir(const struct world *w, const char *name)
{
	static char path[256];

	(void)snprintf(path, sizeof(path), "%s/%s", w->dir, name);
	return path;
}

static bool has(const struct world *w, const char *name)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "checkpoints/%s", name);
	return access(in_dir(w, path), F_OK) == 0;
}

static void fill(struct world *w)
{
	struct kv_batch *b = kv_batch_new(w->kv);
	char key[32];

	for (unsigned i = 0; i < 100; i++) {
		(void)snprintf(key, sizeof(key), "key-%08u", w->keys++);
		kv_batch_put(b, str_from(key), STR("value"));
	}
	assert_int_equal(kv_write(w->kv, b), 0);
	kv_batch_free(b);
}

static int setup(void **state)
{
	struct world *w = xcalloc(1, sizeof(*w));
	struct kv_options o = { .write_buffer_bytes = 1u << 20,
				.cache_bytes = 1u << 20 };

	(void)snprintf(w->dir, sizeof(w->dir), "/tmp/corvo-keep-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	assert_int_equal(dir_make(in_dir(w, "checkpoints")), 0);
	assert_int_equal(kv_rocks_open(in_dir(w, "rocks"), &o, &w->kv, &why),
			 0);
	w->keep = keep_new(w->dir);
	fill(w);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	keep_free(w->keep);
	kv_close(w->kv);
	dir_remove(w->dir);
	free(w);
	return 0;
}

static void make(struct world *w, uint64_t index)
{
	assert_int_equal(keep_make(w->keep, w->kv, index, &why), 0);
}

/* --- which are kept --- */

static void the_newest_two_stay(void **state)
{
	struct world *w = *state;

	make(w, 10);
	make(w, 20);
	assert_true(has(w, "snapshot-10") && has(w, "snapshot-20"));
	make(w, 30);
	assert_false(has(w, "snapshot-10"));
	assert_true(has(w, "snapshot-20") && has(w, "snapshot-30"));
	assert_int_equal(keep_count(w->keep), 2);
	/* and after a while the newest alone */
	keep_sweep(w->keep, clock_mono_ns() + KEEP_NS / 2);
	assert_true(has(w, "snapshot-20"));
	keep_sweep(w->keep, clock_mono_ns() + KEEP_NS);
	assert_false(has(w, "snapshot-20"));
	assert_true(has(w, "snapshot-30"));
	assert_int_equal(keep_count(w->keep), 1);
}

static void one_that_is_read_stays_a_minute_longer(void **state)
{
	struct world *w = *state;
	struct keep_point *p;
	uint64_t closed_ns;

	make(w, 10);
	assert_int_equal(keep_read_from(w->keep, clock_mono_ns()), 0);
	p = keep_open(w->keep, 10);
	assert_non_null(p);
	for (uint64_t i = 20; i <= 50; i += 10)
		make(w, i);
	assert_int_equal(
	    keep_read_from(w->keep, clock_mono_ns() + 10 * KEEP_NS), 10);
	keep_sweep(w->keep, clock_mono_ns() + 10 * KEEP_NS);
	assert_true(has(w, "snapshot-10") && has(w, "snapshot-50"));
	assert_int_equal(keep_count(w->keep), 2);
	keep_close(w->keep, p);
	closed_ns = clock_mono_ns();
	keep_sweep(w->keep, closed_ns + KEEP_NS / 2);
	assert_true(has(w, "snapshot-10"));
	assert_int_equal(keep_read_from(w->keep, closed_ns + KEEP_NS / 2), 10);
	assert_int_equal(keep_read_from(w->keep, closed_ns + KEEP_NS), 0);
	keep_sweep(w->keep, closed_ns + KEEP_NS);
	assert_false(has(w, "snapshot-10"));
	assert_null(keep_open(w->keep, 10));
}

static void two_readers_count_twice(void **state)
{
	struct world *w = *state;
	struct keep_point *a, *b;

	make(w, 10);
	a = keep_open(w->keep, 10);
	b = keep_open(w->keep, 10);
	make(w, 20);
	make(w, 30);
	keep_close(w->keep, a);
	keep_sweep(w->keep, clock_mono_ns() + 2 * KEEP_NS);
	assert_true(has(w, "snapshot-10"));
	keep_close(w->keep, b);
	keep_sweep(w->keep, clock_mono_ns() + 2 * KEEP_NS);
	assert_false(has(w, "snapshot-10"));
}

static void the_same_index_again_is_a_new_one(void **state)
{
	struct world *w = *state;
	struct keep_point *p;

	make(w, 10);
	make(w, 10);
	assert_int_equal(keep_count(w->keep), 1);
	p = keep_open(w->keep, 10);
	make(w, 10); /* it is read, and stays as it is */
	keep_close(w->keep, p);
	assert_int_equal(keep_count(w->keep), 1);
	assert_true(has(w, "snapshot-10"));
}

static void one_removed_by_hand_is_not_there(void **state)
{
	struct world *w = *state;

	make(w, 10);
	assert_int_equal(dir_remove(in_dir(w, "checkpoints/snapshot-10")), 0);
	assert_null(keep_open(w->keep, 10));
	make(w, 20);
	assert_int_equal(keep_count(w->keep), 1);
}

/* --- starts --- */

static void what_a_crash_left_is_removed_at_the_start(void **state)
{
	static const char *const left[] = {
		"snapshot-7.new",
		"snapshot-7.old",
		"snapshot.new",
		"snapshot-10",
	};
	struct world *w = *state;
	char path[128];

	for (size_t i = 0; i < ARRAY_SIZE(left); i++) {
		(void)snprintf(path, sizeof(path), "checkpoints/%s/x", left[i]);
		assert_int_equal(dir_make(in_dir(w, path)), 0);
	}
	assert_int_equal(dir_make(in_dir(w, "checkpoints/view")), 0);
	make(w, 20);
	keep_free(w->keep);
	w->keep = keep_new(w->dir);
	for (size_t i = 0; i < ARRAY_SIZE(left); i++)
		assert_false(has(w, left[i]));
	assert_true(has(w, "snapshot-20"));
	assert_true(has(w, "view")); /* not ours */
}

/* It is all there is for `corvo recover`, until there is a new one. */
static void one_of_an_old_version_goes_with_the_first_new_one(void **state)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	struct world *w = *state;

	assert_false(keep_find(w->dir, &path));
	assert_int_equal(dir_make(in_dir(w, "checkpoints/snapshot")), 0);
	keep_free(w->keep);
	w->keep = keep_new(w->dir);
	assert_true(has(w, "snapshot"));
	assert_true(keep_find(w->dir, &path));
	assert_string_equal(path.p, in_dir(w, "checkpoints/snapshot"));
	make(w, 9);
	make(w, 10);
	assert_false(has(w, "snapshot"));
	assert_true(keep_find(w->dir, &path));
	assert_string_equal(path.p, in_dir(w, "checkpoints/snapshot-10"));
}

static void a_checkpoint_opens_as_a_store(void **state)
{
	_cleanup_(buf_done) struct buf value = BUF_INIT(0);
	struct kv_options o = { .read_only = true };
	struct world *w = *state;
	struct kv *kv;

	make(w, 10);
	fill(w); /* of which it knows nothing */
	assert_int_equal(
	    kv_rocks_open(in_dir(w, "checkpoints/snapshot-10"), &o, &kv, &why),
	    0);
	assert_int_equal(kv_get(kv, STR("key-00000099"), &value), 1);
	assert_int_equal(kv_get(kv, STR("key-00000100"), &value), 0);
	kv_close(kv);
}

/* --- files --- */

/* How many pieces of work it took. */
static unsigned sum(struct world *w, struct keep_point *p)
{
	unsigned n = 0;
	int e;

	while ((e = keep_sum(w->keep, p, &why)) == 1)
		n++;
	assert_int_equal(e, 0);
	return n;
}

static size_t count_files(const char *path)
{
	DIR *d = opendir(path);
	size_t n = 0;

	assert_non_null(d);
	for (struct dirent *e; (e = readdir(d)) != NULL;)
		n += e->d_name[0] != '.';
	(void)closedir(d);
	return n;
}

static void the_list_tells_sizes_and_checksums(void **state)
{
	_cleanup_(buf_done) struct buf bytes = BUF_INIT(0);
	struct world *w = *state;
	const struct keep_file *f;
	struct keep_point *p;
	char path[256];
	size_t n;

	make(w, 10);
	p = keep_open(w->keep, 10);
	assert_null(keep_files(w->keep, p, &n));
	(void)sum(w, p);
	f = keep_files(w->keep, p, &n);
	assert_non_null(f);
	assert_int_equal(n, count_files(in_dir(w, "checkpoints/snapshot-10")));
	for (size_t i = 0; i < n; i++) {
		(void)snprintf(path, sizeof(path), "checkpoints/snapshot-10/%s",
			       f[i].name);
		buf_clear(&bytes);
		assert_int_equal(file_read(in_dir(w, path), 1u << 20, &bytes),
				 0);
		assert_int_equal(f[i].size, bytes.n);
		assert_int_equal(f[i].crc, crc32_add(0, buf_str(&bytes)));
	}
	keep_close(w->keep, p);
}

static size_t count_tables(const struct keep_file *f, size_t n)
{
	size_t ret = 0;

	for (size_t i = 0; i < n; i++)
		ret += strstr(f[i].name, ".sst") != NULL;
	return ret;
}

/* Its tables are links to the same files; the rest is small, and new. */
static void checksums_are_remembered_for_the_next_one(void **state)
{
	struct world *w = *state;
	const struct keep_file *files;
	struct keep_point *a, *b;
	unsigned first, second;
	size_t n, tables;

	make(w, 10);
	a = keep_open(w->keep, 10);
	first = sum(w, a);
	assert_int_equal(sum(w, a), 0); /* a second follower */
	files = keep_files(w->keep, a, &n);
	tables = count_tables(files, n);
	assert_true(tables > 0);
	make(w, 20);
	b = keep_open(w->keep, 20);
	second = sum(w, b);
	assert_true(second + tables <= first);
	keep_close(w->keep, a);
	keep_close(w->keep, b);
}

static void files_that_are_missing_are_an_error(void **state)
{
	struct world *w = *state;
	struct keep_point *p;
	size_t n;

	make(w, 10);
	p = keep_open(w->keep, 10);
	assert_int_equal(keep_sum(w->keep, p, &why), 1);
	assert_int_equal(dir_remove(in_dir(w, "checkpoints/snapshot-10")), 0);
	assert_int_equal(keep_sum(w->keep, p, &why), -ERR_STORAGE_ERROR);
	assert_true(why.n > 0);
	assert_null(keep_files(w->keep, p, &n));
	keep_close(w->keep, p);
	assert_null(keep_open(w->keep, 10));
	buf_done(&why);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_newest_two_stay),
		TEST(one_that_is_read_stays_a_minute_longer),
		TEST(two_readers_count_twice),
		TEST(the_same_index_again_is_a_new_one),
		TEST(one_removed_by_hand_is_not_there),
		TEST(what_a_crash_left_is_removed_at_the_start),
		TEST(one_of_an_old_version_goes_with_the_first_new_one),
		TEST(a_checkpoint_opens_as_a_store),
		TEST(the_list_tells_sizes_and_checksums),
		TEST(checksums_are_remembered_for_the_next_one),
		TEST(files_that_are_missing_are_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
