/*
 * The store that writes behind: what is below, and when; what is never written;
 * crashes, errors and other threads. What it shares with all stores is in
 * test_kv.c.
 */
#include "kv_assert.h"

#include <pthread.h>
#include <stdatomic.h>

#include "proto/err.h"
#include "store/kv_impl.h"

#define LARGE (1u << 20) /* nothing is written below by itself */
#define KEYS  16

struct fixture {
	struct kv *below;
	struct kv *kv;
	struct kv_batch *b;
};

static void open_behind(struct fixture *f, struct kv *below, size_t bytes)
{
	f->below = below;
	f->kv = kv_behind_new(below, bytes);
	f->b = kv_batch_new(f->kv);
}

static void close_behind(struct fixture *f)
{
	kv_batch_free(f->b);
	kv_close(f->kv);
}

static void write_one(struct fixture *f, const char *key, const char *value)
{
	kv_batch_put(f->b, str_from(key), str_from(value));
	assert_int_equal(kv_write(f->kv, f->b), 0);
}

/* --- what is below --- */

static void test_a_flush_writes_all_of_it(void **state _unused_)
{
	struct fixture f;

	open_behind(&f, kv_mem_new(), LARGE);
	write_one(&f, "a", "1");
	assert_has(f.kv, "a", "1");
	assert_has(f.below, "a", NULL);
	assert_int_equal(kv_flush(f.kv, NULL), 0);
	assert_has(f.below, "a", "1");
	/* the table that was written still answers */
	write_one(&f, "b", "2");
	kv_batch_delete(f.b, STR("a"));
	assert_int_equal(kv_write(f.kv, f.b), 0);
	assert_has(f.kv, "a", NULL);
	assert_has(f.below, "a", "1");
	assert_int_equal(kv_flush(f.kv, NULL), 0);
	assert_has(f.below, "a", NULL);
	assert_has(f.below, "b", "2");
	close_behind(&f);
}

static void test_much_is_written_by_itself(void **state _unused_)
{
	struct fixture f;
	char key[16];

	open_behind(&f, kv_mem_new(), 1000);
	for (int i = 0; i < 100; i++) {
		(void)snprintf(key, sizeof(key), "k%02d", i);
		write_one(&f, key, "value");
	}
	kv_behind_crash(f.kv); /* waits for what is being written */
	assert_has(f.below, "k00", "value");
	assert_has(f.kv, "k99", NULL);
	close_behind(&f);
}

/* --- what is never written: a store that counts what it is given --- */

struct counting {
	struct kv kv;
	struct kv_batch b;
	size_t puts, deletes, ranges, reads;
	bool broken;
};

static struct counting *counting_of(struct kv_batch *b)
{
	return container_of(b, struct counting, b);
}

static void counting_close(struct kv *kv _unused_)
{
}

static struct kv_batch *counting_batch(struct kv *kv)
{
	return &container_of(kv, struct counting, kv)->b;
}

static void counting_batch_free(struct kv_batch *b _unused_)
{
}

static void counting_put(struct kv_batch *b, struct str key _unused_,
			 struct str value _unused_)
{
	counting_of(b)->puts++;
}

static void counting_delete(struct kv_batch *b, struct str key _unused_)
{
	counting_of(b)->deletes++;
}

static void counting_range(struct kv_batch *b, struct str from _unused_,
			   struct str upto _unused_)
{
	counting_of(b)->ranges++;
}

static int counting_write(struct kv *kv, struct kv_batch *b _unused_)
{
	return container_of(kv, struct counting, kv)->broken
		   ? kv_error_set(-ERR_STORAGE_ERROR, "file 7 is broken")
		   : 0;
}

/* It is asked for nothing that it would have. */
static int counting_get(struct kv *kv, struct str key _unused_,
			struct buf *ret _unused_)
{
	container_of(kv, struct counting, kv)->reads++;
	return 0;
}

static int counting_flush(struct kv *kv _unused_, struct buf *why _unused_)
{
	return 0;
}

static const struct kv_ops counting_ops = {
	.close = counting_close,
	.get = counting_get,
	.batch_new = counting_batch,
	.batch_free = counting_batch_free,
	.batch_put = counting_put,
	.batch_put_new = counting_put,
	.batch_delete = counting_delete,
	.batch_delete_range = counting_range,
	.write = counting_write,
	.flush = counting_flush,
};

static void counting_init(struct counting *c)
{
	*c = (struct counting){ .kv.ops = &counting_ops,
				.b.ops = &counting_ops };
}

static void test_what_came_and_went_is_not_written(void **state _unused_)
{
	struct counting c;
	struct fixture f;

	counting_init(&c);
	open_behind(&f, &c.kv, LARGE);
	kv_batch_put_new(f.b, STR("q1"), STR("x"));
	kv_batch_put_new(f.b, STR("q2"), STR("x"));
	kv_batch_put(f.b, STR("q3"), STR("x"));
	assert_int_equal(kv_write(f.kv, f.b), 0);
	kv_batch_delete(f.b, STR("q1"));
	kv_batch_delete(f.b, STR("q3"));
	assert_int_equal(kv_write(f.kv, f.b), 0);
	write_one(&f, "q2", "y");
	write_one(&f, "q2", "z");
	assert_int_equal(kv_flush(f.kv, NULL), 0);
	assert_int_equal(c.puts, 1);    /* q2, once */
	assert_int_equal(c.deletes, 1); /* q3, which may have been there */
	close_behind(&f);
}

static void flush_one(struct fixture *f, const char *key, const char *value)
{
	write_one(f, key, value);
	assert_int_equal(kv_flush(f->kv, NULL), 0);
}

/* Whoever follows what happens is some tables behind. */
static void
test_the_last_two_that_were_written_still_answer(void **state _unused_)
{
	struct counting c;
	struct fixture f;

	counting_init(&c);
	open_behind(&f, &c.kv, LARGE);
	flush_one(&f, "a", "1");
	flush_one(&f, "b", "1");
	flush_one(&f, "b", "2");
	assert_has(f.kv, "b", "2");
	assert_int_equal(c.reads, 0);
	assert_has(f.kv, "a", NULL); /* the third last is asked for below */
	assert_int_equal(c.reads, 1);
	flush_one(&f, "c", "1");
	assert_has(f.kv, "b", "2");
	assert_int_equal(c.reads, 1);
	close_behind(&f);
}

static void test_an_error_ends_all_writes(void **state _unused_)
{
	struct buf why = BUF_INIT(100);
	struct counting c;
	struct fixture f;

	counting_init(&c);
	c.broken = true;
	open_behind(&f, &c.kv, LARGE);
	write_one(&f, "a", "1");
	assert_int_equal(kv_flush(f.kv, &why), -ERR_STORAGE_ERROR);
	assert_str_is(buf_str(&why), "file 7 is broken");
	kv_batch_put(f.b, STR("b"), STR("2"));
	c.broken = false; /* too late: a part is missing */
	assert_int_equal(kv_write(f.kv, f.b), -ERR_STORAGE_ERROR);
	assert_string_equal(kv_error_text(), "file 7 is broken");
	close_behind(&f);
	buf_done(&why);
}

/* --- a crash --- */

/* Batch i sets key i % KEYS to i: what is there tells how far it came. */
static void put_number(struct fixture *f, uint32_t i)
{
	char key[16];

	(void)snprintf(key, sizeof(key), "k%02u", i % KEYS);
	kv_batch_put(f->b, str_from(key), str_of(&i, sizeof(i)));
	kv_batch_put(f->b, STR("last"), str_of(&i, sizeof(i)));
	assert_int_equal(kv_write(f->kv, f->b), 0);
}

static uint32_t get_number(struct kv *kv, const char *key)
{
	struct buf got = BUF_INIT(0);
	uint32_t v = 0;

	if (kv_get(kv, str_from(key), &got) > 0)
		memcpy(&v, got.p, sizeof(v));
	buf_done(&got);
	return v;
}

static void assert_prefix(struct kv *kv, uint32_t most)
{
	uint32_t last = get_number(kv, "last");
	char key[16];

	assert_true(last <= most);
	for (uint32_t i = last; i > 0 && i + KEYS > last; i--) {
		(void)snprintf(key, sizeof(key), "k%02u", i % KEYS);
		assert_int_equal(get_number(kv, key), i);
	}
}

static void test_a_crash_leaves_the_first_batches(void **state _unused_)
{
	struct fixture f;
	uint32_t i = 1;
	struct rng r;

	test_rng(&r);
	open_behind(&f, kv_mem_new(), 2000);
	for (int round = 0; round < 50; round++) {
		for (uint64_t n = rng_below(&r, 60); n > 0; n--)
			put_number(&f, i++);
		if (rng_below(&r, 3) == 0)
			assert_int_equal(kv_flush(f.kv, NULL), 0);
		kv_behind_crash(f.kv);
		assert_prefix(f.kv, i - 1);
		i = get_number(f.kv, "last") + 1;
	}
	close_behind(&f);
}

/* --- while a table is being written --- */

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_passed = PTHREAD_COND_INITIALIZER;
static bool passed; /* since gated_new */
static const struct kv_ops *open_ops;
static struct kv_ops gated_ops;

static int gated_write(struct kv *kv, struct kv_batch *b)
{
	pthread_mutex_lock(&gate);
	passed = true;
	pthread_cond_broadcast(&gate_passed);
	pthread_mutex_unlock(&gate);
	return open_ops->write(kv, b);
}

static struct kv_batch *gated_batch_new(struct kv *kv)
{
	struct kv_batch *b = open_ops->batch_new(kv);

	b->ops = &gated_ops;
	return b;
}

/* A store in memory that writes only while nobody holds the gate. */
static struct kv *gated_new(void)
{
	struct kv *kv = kv_mem_new();

	open_ops = kv->ops;
	gated_ops = *open_ops;
	gated_ops.write = gated_write;
	gated_ops.batch_new = gated_batch_new;
	kv->ops = &gated_ops;
	passed = false;
	return kv;
}

/* Deleted in a table that is not below yet; then it came and went again. */
static void test_what_is_gone_stays_gone(void **state _unused_)
{
	static const char filler[2000];
	struct kv_iter *it;
	struct fixture f;

	open_behind(&f, gated_new(), 1000);
	write_one(&f, "q1", "x");
	assert_int_equal(kv_flush(f.kv, NULL), 0);
	pthread_mutex_lock(&gate);
	kv_batch_delete(f.b, STR("q1"));
	kv_batch_put(f.b, STR("z"), str_of(filler, sizeof(filler)));
	assert_int_equal(kv_write(f.kv, f.b), 0); /* is being written */
	kv_batch_put_new(f.b, STR("q1"), STR("y"));
	assert_int_equal(kv_write(f.kv, f.b), 0);
	kv_batch_delete(f.b, STR("q1"));
	assert_int_equal(kv_write(f.kv, f.b), 0);
	assert_has(f.kv, "q1", NULL);
	it = kv_iter_new(f.kv, STR("q"), STR("r"));
	assert_false(kv_iter_valid(it));
	kv_iter_free(it);
	pthread_mutex_unlock(&gate);
	close_behind(&f);
}

/* --- other threads --- */

struct reader {
	struct kv *kv;
	atomic_bool stop;
	atomic_uint rounds;
	bool torn;
};

/* All keys are always set to one value by one batch. */
struct waiting {
	unsigned told;
};

/* The writer may go on once the one who waits has said so twice. */
static void on_wait(void *ctx)
{
	struct waiting *w = ctx;

	if (++w->told == 2)
		pthread_mutex_unlock(&gate);
}

static void
test_who_writes_too_much_is_told_before_it_waits(void **state _unused_)
{
	struct waiting w = { 0 };
	struct fixture f;
	char key[16];
	unsigned i = 0;

	open_behind(&f, gated_new(), 10000);
	kv_behind_on_wait(f.kv, on_wait, &w);
	pthread_mutex_lock(&gate);
	for (; !kv_is_behind(f.kv); i++) {
		assert_true(i < 100000);
		(void)snprintf(key, sizeof(key), "k%u", i);
		write_one(&f, key, "v");
	}
	assert_int_equal(w.told, 0);
	for (; w.told == 0; i++) {
		assert_true(i < 100000);
		(void)snprintf(key, sizeof(key), "k%u", i);
		write_one(&f, key, "v");
	}
	assert_int_equal(w.told, 2);
	assert_int_equal(kv_flush(f.kv, NULL), 0);
	assert_false(kv_is_behind(f.kv));
	assert_has(f.kv, key, "v");
	close_behind(&f);
}

static void
test_what_gathered_is_written_when_nothing_comes(void **state _unused_)
{
	struct fixture f;

	open_behind(&f, gated_new(), 10000);
	write_one(&f, "little", "v");
	for (unsigned i = 0; i < 10; i++)
		write_one(&f, "much", "a value of some length");
	pthread_mutex_lock(&gate);
	while (!passed)
		pthread_cond_wait(&gate_passed, &gate);
	pthread_mutex_unlock(&gate);
	kv_behind_crash(f.kv);
	assert_has(f.kv, "little", "v");
	close_behind(&f);
}

static void *reader_main(void *ctx)
{
	struct reader *r = ctx;

	while (!atomic_load(&r->stop)) {
		struct kv_iter *it = kv_iter_new(r->kv, STR("p"), STR("q"));
		uint32_t first = 0, v, n = 0;

		for (; kv_iter_valid(it); kv_iter_next(it), n++) {
			memcpy(&v, kv_iter_value(it).p, sizeof(v));
			if (n == 0)
				first = v;
			r->torn |= v != first;
		}
		r->torn |= n != 0 && n != KEYS;
		kv_iter_free(it);
		atomic_fetch_add(&r->rounds, 1);
	}
	return NULL;
}

static void write_pair(struct fixture *f, uint32_t v)
{
	char key[16];

	for (uint32_t k = 0; k < KEYS; k++) {
		(void)snprintf(key, sizeof(key), "p%02u", (k * 7) % KEYS);
		kv_batch_put(f->b, str_from(key), str_of(&v, sizeof(v)));
	}
	assert_int_equal(kv_write(f->kv, f->b), 0);
}

static void test_readers_see_whole_batches(void **state _unused_)
{
	struct reader r = { .torn = false };
	struct fixture f;
	pthread_t thread;

	open_behind(&f, kv_mem_new(), 5000);
	r.kv = f.kv;
	assert_int_equal(pthread_create(&thread, NULL, reader_main, &r), 0);
	for (uint32_t v = 1; v < 500 || atomic_load(&r.rounds) < 200; v++)
		write_pair(&f, v);
	atomic_store(&r.stop, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_false(r.torn);
	close_behind(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_flush_writes_all_of_it),
		cmocka_unit_test(test_much_is_written_by_itself),
		cmocka_unit_test(test_what_came_and_went_is_not_written),
		cmocka_unit_test(
		    test_the_last_two_that_were_written_still_answer),
		cmocka_unit_test(test_an_error_ends_all_writes),
		cmocka_unit_test(test_a_crash_leaves_the_first_batches),
		cmocka_unit_test(test_what_is_gone_stays_gone),
		cmocka_unit_test(
		    test_who_writes_too_much_is_told_before_it_waits),
		cmocka_unit_test(
		    test_what_gathered_is_written_when_nothing_comes),
		cmocka_unit_test(test_readers_see_whole_batches),
	};

	return cmocka_run_group_tests_name("kv_behind", tests, NULL, NULL);
}
