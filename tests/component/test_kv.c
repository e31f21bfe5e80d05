/*
 * The store in memory and RocksDB, by the same tests: what one does the other
 * does, and both do what a sorted array does.
 */
#include "lib/testlib.h"

#include <glob.h>
#include <sched.h>
#include <unistd.h>

#include "proto/err.h"
#include "store/kv.h"
#include "util/arena.h"

#define KEYS     64
#define KEY_TEXT 32

#define REST_VALUE (3u << 20)

struct fixture {
	struct kv *kv;
	bool is_rocks;
	char dir[64];
	char path[96];
};

static const struct kv_options small = { .write_buffer_bytes = 1u << 20,
					 .cache_bytes = 1u << 20 };

static void remove_dir(const char *dir)
{
	char cmd[128];

	(void)snprintf(cmd, sizeof(cmd), "rm -rf -- '%s'", dir);
	assert_int_equal(system(cmd), 0);
}

static struct kv *open_at(const char *path, bool read_only)
{
	struct kv_options o = small;
	struct buf why = BUF_INIT(1024);
	struct kv *kv = NULL;

	o.read_only = read_only;
	if (kv_rocks_open(path, &o, &kv, &why) < 0)
		fail_msg("%s: %.*s", path, STR_ARG(buf_str(&why)));
	buf_done(&why);
	return kv;
}

static int setup_mem(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));

	f->kv = kv_mem_new();
	*state = f;
	return 0;
}

/* So little that nearly every batch is written below. */
#define BEHIND_BYTES 1000

static int setup_behind_mem(void **state)
{
	struct fixture *f;

	(void)setup_mem(state);
	f = *state;
	f->kv = kv_behind_new(f->kv, BEHIND_BYTES);
	return 0;
}

static int setup_rocks(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));

	f->is_rocks = true;
	(void)snprintf(f->dir, sizeof(f->dir), "/tmp/corvo_kv_XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	(void)snprintf(f->path, sizeof(f->path), "%s/db", f->dir);
	f->kv = open_at(f->path, false);
	*state = f;
	return 0;
}

static int setup_behind_rocks(void **state)
{
	struct fixture *f;

	(void)setup_rocks(state);
	f = *state;
	f->kv = kv_behind_new(f->kv, BEHIND_BYTES);
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	kv_close(f->kv);
	if (f->is_rocks)
		remove_dir(f->dir);
	free(f);
	return 0;
}

static void put(struct kv *kv, const char *key, const char *value)
{
	struct kv_batch *b = kv_batch_new(kv);

	kv_batch_put(b, str_from(key), str_from(value));
	assert_int_equal(kv_write(kv, b), 0);
	kv_batch_free(b);
}

static void assert_get(struct kv *kv, const char *key, const char *value)
{
	struct buf b = BUF_INIT(0);

	buf_puts(&b, "before");
	assert_int_equal(kv_get(kv, str_from(key), &b), value != NULL);
	if (value != NULL)
		assert_str_is(buf_str(&b), value);
	buf_done(&b);
}

/* Keys of a range in one text, "k=v k=v". */
static void assert_range(struct kv *kv, const char *from, const char *upto,
			 const char *expected)
{
	struct kv_iter *it = kv_iter_new(kv, str_from(from), str_from(upto));
	struct buf b = BUF_INIT(0);

	for (; kv_iter_valid(it); kv_iter_next(it))
		buf_printf(&b, "%s%.*s=%.*s", b.n ? " " : "",
			   STR_ARG(kv_iter_key(it)),
			   STR_ARG(kv_iter_value(it)));
	assert_int_equal(kv_iter_error(it), 0);
	kv_iter_free(it);
	assert_str_is(b.n ? buf_str(&b) : STR(""), expected);
	buf_done(&b);
}

static void test_get_put_delete(void **state)
{
	struct kv *kv = ((struct fixture *)*state)->kv;
	struct kv_batch *b = kv_batch_new(kv);

	assert_get(kv, "a", NULL);
	put(kv, "a", "1");
	assert_get(kv, "a", "1");
	put(kv, "a", "2");
	put(kv, "b", "");
	assert_get(kv, "a", "2");
	assert_get(kv, "b", "");
	/* the last write to a key in a batch counts */
	kv_batch_put(b, STR("a"), STR("3"));
	kv_batch_delete(b, STR("a"));
	kv_batch_delete(b, STR("never"));
	kv_batch_delete(b, STR("b"));
	kv_batch_put(b, STR("b"), STR("4"));
	assert_int_equal(kv_write(kv, b), 0);
	assert_get(kv, "a", NULL);
	assert_get(kv, "b", "4");
	/* and the batch is empty after it */
	put(kv, "b", "5");
	assert_int_equal(kv_write(kv, b), 0);
	assert_get(kv, "b", "5");
	kv_batch_free(b);
}

static void test_bytes(void **state)
{
	struct kv *kv = ((struct fixture *)*state)->kv;
	struct kv_batch *b = kv_batch_new(kv);
	struct buf got = BUF_INIT(0);
	static const char key[] = "k\0\xff\0", value[] = "\0v\0";

	kv_batch_put(b, str_of(key, 4), str_of(value, 3));
	assert_int_equal(kv_write(kv, b), 0);
	assert_int_equal(kv_get(kv, str_of(key, 4), &got), 1);
	assert_int_equal(got.n, 3);
	assert_memory_equal(got.p, value, 3);
	assert_int_equal(kv_get(kv, str_of(key, 3), &got), 0);
	buf_done(&got);
	kv_batch_free(b);
}

static void test_ranges(void **state)
{
	struct kv *kv = ((struct fixture *)*state)->kv;
	struct kv_batch *b = kv_batch_new(kv);

	assert_range(kv, "", "", "");
	put(kv, "b", "2");
	put(kv, "a", "1");
	put(kv, "d", "4");
	put(kv, "c", "3");
	put(kv, "c\x01", "5");
	assert_range(kv, "", "", "a=1 b=2 c=3 c\x01=5 d=4");
	assert_range(kv, "b", "d", "b=2 c=3 c\x01=5");
	assert_range(kv, "bb", "c", "");
	assert_range(kv, "c", "c\x01", "c=3");
	assert_range(kv, "e", "", "");
	kv_batch_delete_range(b, STR("b"), STR("c\x01"));
	assert_int_equal(kv_write(kv, b), 0);
	assert_range(kv, "", "", "a=1 c\x01=5 d=4");
	put(kv, "bb", "6");
	assert_range(kv, "", "", "a=1 bb=6 c\x01=5 d=4");
	kv_batch_delete_range(b, STR("x"), STR("z"));
	assert_int_equal(kv_write(kv, b), 0);
	kv_batch_free(b);
}

static void test_iterator_is_of_its_moment(void **state)
{
	struct kv *kv = ((struct fixture *)*state)->kv;
	struct kv_iter *it;

	put(kv, "a", "1");
	put(kv, "b", "2");
	it = kv_iter_new(kv, STR("a"), STR_NULL);
	put(kv, "a", "changed");
	put(kv, "aa", "new");
	put(kv, "c", "new");
	assert_true(kv_iter_valid(it));
	assert_str_is(kv_iter_value(it), "1");
	kv_iter_next(it);
	assert_str_is(kv_iter_key(it), "b");
	kv_iter_next(it);
	assert_false(kv_iter_valid(it));
	kv_iter_free(it);
	assert_range(kv, "", "", "a=changed aa=new b=2 c=new");
}

/* --- against a naive model --- */

struct model {
	bool has[KEYS];
	uint32_t value[KEYS];
};

/* Short keys, and long ones that the memtable keeps hints for. */
static void key_text(char *p, size_t i)
{
	(void)snprintf(p, KEY_TEXT,
		       i < KEYS / 2 ? "k%02zu" : "l/long/key/%02zu", i);
}

static void model_step(struct model *m, struct kv_batch *b, struct rng *r)
{
	size_t i = rng_below(r, KEYS), upto;
	size_t range = rng_below(r, KEYS / 2); /* begins at a short key */
	uint32_t v = (uint32_t)rng_u64(r);
	char k[KEY_TEXT], k2[KEY_TEXT];

	key_text(k, i);
	switch (rng_below(r, 8)) {
	case 0:
		upto = range + rng_below(r, KEYS - range) + 1;
		key_text(k, range);
		key_text(k2, upto);
		kv_batch_delete_range(b, str_from(k), str_from(k2));
		memset(m->has + range, 0, (upto - range) * sizeof(*m->has));
		break;
	case 1:
	case 2:
		kv_batch_delete(b, str_from(k));
		m->has[i] = false;
		break;
	default:
		if (m->has[i])
			kv_batch_put(b, str_from(k), str_of(&v, sizeof(v)));
		else
			kv_batch_put_new(b, str_from(k), str_of(&v, sizeof(v)));
		m->has[i] = true;
		m->value[i] = v;
	}
}

/* The first `most` from there on; long keys are one kind, and have an end. */
static void assert_model(struct kv *kv, const struct model *m, size_t from,
			 size_t most)
{
	struct str upto = from < KEYS / 2 ? STR_NULL : STR("l0");
	struct kv_iter *it;
	char k[KEY_TEXT];

	key_text(k, from);
	it = kv_iter_first(kv, str_from(k), upto, most);
	for (size_t i = from; i < KEYS && most > 0; i++) {
		if (!m->has[i])
			continue;
		most--;
		key_text(k, i);
		assert_true(kv_iter_valid(it));
		assert_str_is(kv_iter_key(it), k);
		assert_memory_equal(kv_iter_value(it).p, &m->value[i], 4);
		kv_iter_next(it);
	}
	assert_false(kv_iter_valid(it));
	kv_iter_free(it);
}

static void test_random(void **state)
{
	struct fixture *f = *state;
	struct kv_batch *b = kv_batch_new(f->kv);
	struct model m = { 0 };
	struct rng r;

	test_rng(&r);
	for (int i = 0; i < 600; i++) {
		for (uint64_t n = rng_below(&r, 10); n > 0; n--)
			model_step(&m, b, &r);
		assert_int_equal(kv_write(f->kv, b), 0);
		if (rng_below(&r, 60) == 0)
			assert_int_equal(kv_flush(f->kv, NULL), 0);
		assert_model(f->kv, &m, rng_below(&r, KEYS), SIZE_MAX);
		assert_model(f->kv, &m, rng_below(&r, KEYS),
			     rng_below(&r, KEYS / 2));
	}
	kv_batch_free(b);
}

/* --- durability --- */

static void test_mem_crash(void **state)
{
	struct kv *kv = ((struct fixture *)*state)->kv;

	put(kv, "a", "1");
	kv_mem_crash(kv);
	assert_range(kv, "", "", "");
	put(kv, "a", "1");
	put(kv, "b", "2");
	assert_int_equal(kv_flush(kv, NULL), 0);
	put(kv, "a", "changed");
	put(kv, "c", "3");
	kv_mem_crash(kv);
	assert_range(kv, "", "", "a=1 b=2");
	kv_mem_crash(kv);
	assert_range(kv, "", "", "a=1 b=2");
}

static void test_mem_has_no_checkpoint(void **state)
{
	struct kv *kv = ((struct fixture *)*state)->kv;
	struct buf why = BUF_INIT(100);

	assert_int_equal(kv_checkpoint(kv, "/tmp/none", &why),
			 -ERR_INTERNAL_ERROR);
	assert_true(why.n > 0);
	buf_done(&why);
}

static void test_reopen(void **state)
{
	struct fixture *f = *state;

	put(f->kv, "a", "1");
	assert_int_equal(kv_flush(f->kv, NULL), 0);
	put(f->kv, "b", "2");
	kv_close(f->kv);
	f->kv = open_at(f->path, false);
	assert_get(f->kv, "a", "1");
	/* closing in peace flushes */
	assert_get(f->kv, "b", "2");
}

static void test_checkpoint(void **state)
{
	struct fixture *f = *state;
	struct buf why = BUF_INIT(1024);
	struct kv *copy;
	char path[96];

	put(f->kv, "a", "1");
	(void)snprintf(path, sizeof(path), "%s/copy", f->dir);
	assert_int_equal(kv_checkpoint(f->kv, path, NULL), 0);
	put(f->kv, "a", "2");
	copy = open_at(path, true);
	assert_get(copy, "a", "1");
	assert_get(f->kv, "a", "2");
	kv_close(copy);
	/* it can also be opened to be written: a restored node */
	copy = open_at(path, false);
	put(copy, "a", "3");
	assert_get(copy, "a", "3");
	assert_get(f->kv, "a", "2");
	kv_close(copy);
	/* a directory that is there already is refused, with a reason */
	assert_true(kv_checkpoint(f->kv, path, &why) < 0);
	assert_true(why.n > 0);
	buf_done(&why);
}

static void test_open_refuses(void **state)
{
	struct fixture *f = *state;
	struct kv_options o = small;
	struct buf why = BUF_INIT(1024);
	struct kv *kv = NULL;

	/* a second one on the same directory */
	assert_int_equal(kv_rocks_open(f->path, &o, &kv, &why),
			 -ERR_STORAGE_ERROR);
	assert_true(why.n > 0);
	assert_null(kv);
	/* nothing there to be read */
	buf_clear(&why);
	o.read_only = true;
	assert_true(kv_rocks_open("/tmp/corvo/none", &o, &kv, &why) < 0);
	assert_true(why.n > 0);
	assert_true(kv_error_text()[0] != '\0');
	buf_done(&why);
}

static size_t tables(const char *path)
{
	char pattern[128];
	glob_t found;
	size_t n;

	(void)snprintf(pattern, sizeof(pattern), "%s/*.sst", path);
	n = glob(pattern, 0, NULL, &found) == 0 ? found.gl_pathc : 0;
	globfree(&found);
	return n;
}

static void test_at_rest_little_stays_in_memory(void **state)
{
	struct fixture *f = *state;
	char *value = xcalloc(1, REST_VALUE + 1);

	assert_int_equal(kv_set_write_buffer(f->kv, 64u << 20), 0);
	put(f->kv, "small", "1");
	assert_true(kv_rest(f->kv));
	assert_int_equal(tables(f->path), 0); /* not for so little */
	memset(value, 'x', REST_VALUE);
	put(f->kv, "large", value);
	assert_false(kv_rest(f->kv));
	while (!kv_rest(f->kv))
		sched_yield();
	assert_int_equal(tables(f->path), 1);
	assert_get(f->kv, "small", "1");
	assert_get(f->kv, "large", value);
	free(value);
}

#define ALL(fn)                                                              \
	cmocka_unit_test_setup_teardown(fn, setup_mem, teardown),            \
	    cmocka_unit_test_setup_teardown(fn, setup_rocks, teardown),      \
	    cmocka_unit_test_setup_teardown(fn, setup_behind_mem, teardown), \
	    cmocka_unit_test_setup_teardown(fn, setup_behind_rocks, teardown)
#define MEM(fn)   cmocka_unit_test_setup_teardown(fn, setup_mem, teardown)
#define ROCKS(fn) cmocka_unit_test_setup_teardown(fn, setup_rocks, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ALL(test_get_put_delete),
		ALL(test_bytes),
		ALL(test_ranges),
		ALL(test_iterator_is_of_its_moment),
		ALL(test_random),
		MEM(test_mem_crash),
		MEM(test_mem_has_no_checkpoint),
		ROCKS(test_reopen),
		ROCKS(test_checkpoint),
		ROCKS(test_open_refuses),
		ROCKS(test_at_rest_little_stays_in_memory),
	};

	return cmocka_run_group_tests_name("kv", tests, NULL, NULL);
}
