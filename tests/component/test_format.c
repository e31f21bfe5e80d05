/*
 * Formats of the store: an empty one gets the number, one of 0.4.0 is upgraded
 * in place, however often that is interrupted, and a newer one is refused.
 */
#include "lib/testlib.h"

#include "store/format.h"

struct row {
	struct str old, now; /* keys; now empty: it stays */
};

#define ROW(old, now)              \
	{                          \
		STR(old), STR(now) \
	}

#define TIME "\1\0\0\0\0\0\0\7"
#define ZERO "\0\0\0\0"

/* One of each kind that names something, and what looks much like them. */
static const struct row rows[] = {
	ROW("p|q\0\2\0\0\0\0\0\0\0\1", "p|" ZERO "q\0\2\0\0\0\0\0\0\0\1"),
	ROW("a|q\0job_1", "a|" ZERO "q\0job_1"),
	ROW("s|q\0" TIME "job_1", "s|" ZERO "q\0" TIME "job_1"),
	ROW("r|q\0" TIME "job_1", "r|" ZERO "q\0" TIME "job_1"),
	ROW("h|q\0job_1", "h|" ZERO "q\0job_1"),
	ROW("bl|q\0job_1", "bl|" ZERO "q\0job_1"),
	ROW("t|q\0" TIME "job_1", "t|" ZERO "q\0" TIME "job_1"),
	ROW("u|q\0\0key", "u|" ZERO "q\0\0key"),
	ROW("ik|key", "ik|" ZERO "key"),
	ROW("ix|" TIME "key", "ie|" TIME ZERO "key"),
	ROW("ix|" TIME ZERO "key", "ie|" TIME ZERO ZERO "key"),
	ROW("sc|sch_1", "sc|" ZERO "sch_1"),
	ROW("group-jobs|q\0g\0\2\0\0\0\0\0\0\0\1",
	    "group-jobs|" ZERO "q\0g\0\2\0\0\0\0\0\0\0\1"),
	ROW("group-turn|q\0", "group-turn|" ZERO "q\0"),
	ROW("rl|q", "rl|" ZERO "q"),
	ROW("qc|q", "qc|" ZERO "q"),
	ROW("qc|\xff\xff", "qc|" ZERO "\xff\xff"),
	ROW("qs|q", "qs|" ZERO "q"),
	ROW("w|worker", "wk|" ZERO "worker"),
	ROW("w|\0", "wk|" ZERO "\0"),
	ROW("w|" ZERO "worker", "wk|" ZERO ZERO "worker"),
	ROW("j|job_1", ""),
	ROW("jl|job_1", ""),
	ROW("je|job_1\0\0\0\0\1", ""),
	ROW("x|" TIME "job_1", ""),
	ROW("d|job_1\0\0\0\0\0\0\0\0\1job_2", ""),
	ROW("dr|job_1\0\0\0\0\0\0\0\0\1", ""),
	ROW("b|batch_1", ""),
	ROW("bp|batch_1", ""),
	ROW("bt|" TIME "batch_1", ""),
	ROW("bo|" TIME "batch_1", ""),
	ROW("bk|bulk_1", ""),
	ROW("bi|bulk_1\0\0\0\0\1", ""),
	ROW("bc|bulk_1\0job_1", ""),
	ROW("l|job_1\0\0\0\0\1", ""),
	ROW("ev|\0\0\0\0\0\0\0\1", ""),
	ROW("m|", ""),
};

static void put(struct kv *kv, struct str key, struct str value)
{
	struct kv_batch *b = kv_batch_new(kv);

	kv_batch_put(b, key, value);
	assert_int_equal(kv_write(kv, b), 0);
	kv_batch_free(b);
}

/* A store of format 1: the value of each key is the key. */
static struct kv *store_of_1(void)
{
	struct kv *kv = kv_mem_new();

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		put(kv, rows[i].old, rows[i].old);
	assert_int_equal(kv_flush(kv, NULL), 0);
	return kv;
}

static uint32_t format_of(struct kv *kv)
{
	uint32_t format = UINT32_MAX;

	assert_int_equal(format_read(kv, &format), 0);
	return format;
}

static size_t count(struct kv *kv)
{
	struct kv_iter *it = kv_iter_new(kv, STR_NULL, STR_NULL);
	size_t n = 0;

	for (; kv_iter_valid(it); kv_iter_next(it))
		n++;
	kv_iter_free(it);
	return n;
}

static void assert_upgraded(struct kv *kv)
{
	struct buf v = BUF_INIT(0);

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct row *r = &rows[i];

		if (kv_get(kv, r->now.n > 0 ? r->now : r->old, &v) != 1)
			fail_msg("row %zu is not where it should be", i);
		assert_true(str_eq(buf_str(&v), r->old));
	}
	assert_int_equal(count(kv), ARRAY_SIZE(rows) + 1); /* the format */
	assert_int_equal(format_of(kv), STORED_FORMAT);
	buf_done(&v);
}

static void prepare(struct kv *kv, const struct format_upgrade *u)
{
	struct buf why = BUF_INIT(0);

	if (format_prepare(kv, u, &why) != 0)
		fail_msg("%.*s", STR_ARG(buf_str(&why)));
	assert_int_equal(why.n, 0);
	buf_done(&why);
}

static void test_empty_store_gets_the_number(void **state)
{
	struct kv *kv = kv_mem_new();

	(void)state;
	assert_int_equal(format_of(kv), 0);
	prepare(kv, NULL);
	assert_int_equal(format_of(kv), STORED_FORMAT);
	kv_mem_crash(kv); /* it is on disk */
	assert_int_equal(format_of(kv), STORED_FORMAT);
	assert_int_equal(count(kv), 1);
	kv_close(kv);
}

static void test_store_of_0_4_0_is_upgraded(void **state)
{
	struct kv *kv = store_of_1();

	(void)state;
	assert_int_equal(format_of(kv), 1);
	prepare(kv, NULL);
	assert_upgraded(kv);
	prepare(kv, NULL); /* once more changes nothing */
	assert_upgraded(kv);
	kv_mem_crash(kv);
	assert_upgraded(kv);
	kv_close(kv);
}

/* Keeps a copy of the store as it is after so many batches. */
struct crash {
	struct kv *kv, *left;
	uint64_t batches, after;
};

static void on_batch(void *ctx, uint64_t keys)
{
	struct crash *c = ctx;
	struct kv_iter *it;

	assert_true(keys <= ARRAY_SIZE(rows));
	if (++c->batches != c->after)
		return;
	it = kv_iter_new(c->kv, STR_NULL, STR_NULL);
	for (; kv_iter_valid(it); kv_iter_next(it))
		put(c->left, kv_iter_key(it), kv_iter_value(it));
	kv_iter_free(it);
}

/* False: there were fewer batches. */
static bool crash_after(uint64_t batches, uint32_t batch_keys)
{
	struct crash c = { .after = batches };
	struct format_upgrade u = { on_batch, &c, batch_keys };

	c.kv = store_of_1();
	c.left = kv_mem_new();
	prepare(c.kv, &u);
	assert_upgraded(c.kv);
	if (c.batches > batches)
		assert_int_equal(format_of(c.left), 1);
	if (c.batches >= batches) {
		prepare(c.left, NULL);
		assert_upgraded(c.left);
	}
	kv_close(c.kv);
	kv_close(c.left);
	return c.batches >= batches;
}

static void test_interrupted_upgrade_goes_on(void **state)
{
	(void)state;
	for (uint32_t keys = 1; keys <= 7; keys += 2) {
		uint64_t batches = 1;

		while (crash_after(batches, keys))
			batches++;
		assert_true(batches > ARRAY_SIZE(rows) / keys / 2);
	}
}

static void test_newer_store_is_refused_by_name(void **state)
{
	struct kv *kv = kv_mem_new();
	struct buf why = BUF_INIT(0);
	struct key k;

	(void)state;
	key_format(&k);
	put(kv, key_str(&k), STR("\0\0\1\1"));
	assert_int_equal(format_of(kv), 257);
	assert_int_equal(format_prepare(kv, NULL, &why), -ERR_CONFLICT);
	assert_str_is(buf_str(&why),
		      "the store has format 257 and this version of Corvo "
		      "knows formats up to 2; start the version that wrote it, "
		      "or use another --data-dir");
	assert_int_equal(count(kv), 1);
	assert_int_equal(format_of(kv), 257);
	buf_clear(&why);
	assert_int_equal(format_check(kv, &why), -ERR_CONFLICT);
	assert_true(why.n > 0);
	buf_done(&why);
	kv_close(kv);
}

/* Readers upgrade nothing. */
static void test_readers_refuse_an_older_store(void **state)
{
	struct kv *kv = store_of_1();
	struct buf why = BUF_INIT(0);

	(void)state;
	assert_int_equal(format_check(kv, &why), -ERR_CONFLICT);
	assert_str_is(buf_str(&why), "the store has format 1 and this reads "
				     "only 2");
	assert_int_equal(format_of(kv), 1);
	prepare(kv, NULL);
	assert_int_equal(format_check(kv, &why), 0);
	buf_done(&why);
	kv_close(kv);
}

static void test_damaged_key_stops_an_upgrade(void **state)
{
	struct kv *kv = store_of_1();
	struct buf why = BUF_INIT(0);

	(void)state;
	put(kv, STR("ix|\1\2\3"), STR(""));
	assert_int_equal(format_prepare(kv, NULL, &why), -ERR_INTERNAL_ERROR);
	assert_str_is(buf_str(&why), "a key of kind ix| is not one of format "
				     "1");
	assert_int_equal(format_of(kv), 1);
	buf_done(&why);
	kv_close(kv);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty_store_gets_the_number),
		cmocka_unit_test(test_store_of_0_4_0_is_upgraded),
		cmocka_unit_test(test_interrupted_upgrade_goes_on),
		cmocka_unit_test(test_newer_store_is_refused_by_name),
		cmocka_unit_test(test_readers_refuse_an_older_store),
		cmocka_unit_test(test_damaged_key_stops_an_upgrade),
	};

	return cmocka_run_group_tests_name("format", tests, NULL, NULL);
}
