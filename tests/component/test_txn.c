/*
 * A transaction over the store in memory, and over the one that writes behind:
 * reads see its own writes, a commit writes them as one batch.
 */
#include "lib/testlib.h"

#include "store/txn.h"

#define KEYS         40
#define BEHIND_BYTES 4096 /* more is written below: several times per test */

struct fixture {
	struct kv *kv;
	struct txn *t;
};

static bool is_behind; /* the store */
static jmp_buf gave_up;

static int setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));

	f->kv = kv_mem_new();
	if (is_behind)
		f->kv = kv_behind_new(f->kv, BEHIND_BYTES);
	f->t = txn_new(f->kv);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	txn_free(f->t);
	kv_close(f->kv);
	free(f);
	return 0;
}

static void put(struct fixture *f, const char *k, const char *v)
{
	txn_put(f->t, str_from(k), str_from(v));
}

static void assert_txn(struct fixture *f, const char *k, const char *v)
{
	struct str got;

	assert_int_equal(txn_get(f->t, str_from(k), &got), v != NULL);
	if (v != NULL)
		assert_str_is(got, v);
}

static void assert_store(struct fixture *f, const char *k, const char *v)
{
	struct buf b = BUF_INIT(0);

	assert_int_equal(kv_get(f->kv, str_from(k), &b), v != NULL);
	if (v != NULL)
		assert_str_is(buf_str(&b), v);
	buf_done(&b);
}

struct scan {
	struct buf text;
	size_t left;
};

static bool on_key(void *ctx, struct str key, struct str value)
{
	struct scan *s = ctx;

	buf_printf(&s->text, "%s%.*s=%.*s", s->text.n ? " " : "", STR_ARG(key),
		   STR_ARG(value));
	return --s->left > 0;
}

static void assert_scan(struct fixture *f, const char *from, const char *upto,
			size_t max, const char *expected)
{
	struct scan s = { .left = max };

	assert_int_equal(
	    txn_scan(f->t, str_from(from), str_from(upto), on_key, &s), 0);
	assert_str_is(s.text.n ? buf_str(&s.text) : STR(""), expected);
	buf_clear(&s.text);
	/* told how many are wanted, it finds the same */
	s.left = SIZE_MAX;
	assert_int_equal(txn_scan_first(f->t, str_from(from), str_from(upto),
					max, on_key, &s),
			 0);
	assert_str_is(s.text.n ? buf_str(&s.text) : STR(""), expected);
	buf_done(&s.text);
}

static void test_reads_own_writes(void **state)
{
	struct fixture *f = *state;

	assert_txn(f, "a", NULL);
	put(f, "a", "1");
	put(f, "b", "");
	assert_txn(f, "a", "1");
	assert_txn(f, "b", "");
	assert_store(f, "a", NULL);
	put(f, "a", "2");
	assert_int_equal(txn_commit(f->t), 0);
	assert_store(f, "a", "2");
	assert_store(f, "b", "");
	assert_txn(f, "a", "2");
	txn_delete(f->t, STR("a"));
	assert_txn(f, "a", NULL);
	assert_store(f, "a", "2");
	put(f, "a", "3");
	txn_delete(f->t, STR("a"));
	txn_delete(f->t, STR("never"));
	assert_int_equal(txn_commit(f->t), 0);
	assert_store(f, "a", NULL);
	/* an empty one is fine */
	assert_int_equal(txn_commit(f->t), 0);
}

/* A new key that goes again in the same txn is not written at all. */
static void test_put_new(void **state)
{
	struct fixture *f = *state;

	put(f, "a", "1");
	assert_int_equal(txn_commit(f->t), 0);
	txn_put_new(f->t, STR("b"), STR("2"));
	assert_txn(f, "b", "2");
	txn_delete(f->t, STR("b"));
	assert_txn(f, "b", NULL);
	assert_scan(f, "a", "z", 99, "a=1");
	txn_put_new(f->t, STR("c"), STR("3"));
	/* deleted first: the store has it, so it must be written */
	txn_delete(f->t, STR("a"));
	txn_put_new(f->t, STR("a"), STR("4"));
	txn_delete(f->t, STR("a"));
	assert_int_equal(txn_commit(f->t), 0);
	assert_store(f, "a", NULL);
	assert_store(f, "b", NULL);
	assert_store(f, "c", "3");
}

static void test_scan_merges(void **state)
{
	struct fixture *f = *state;

	put(f, "b", "1");
	put(f, "d", "1");
	put(f, "f", "1");
	assert_int_equal(txn_commit(f->t), 0);
	put(f, "g", "2");
	put(f, "a", "2");
	put(f, "d", "2");
	txn_delete(f->t, STR("f"));
	put(f, "c", "2");
	assert_scan(f, "a", "", 99, "a=2 b=1 c=2 d=2 g=2");
	assert_scan(f, "b", "d", 99, "b=1 c=2");
	assert_scan(f, "b", "z", 2, "b=1 c=2");
	assert_scan(f, "e", "g", 99, "");
	assert_scan(f, "h", "", 99, "");
}

static void test_what_is_gone_does_not_count(void **state)
{
	struct fixture *f = *state;

	put(f, "a", "1");
	put(f, "b", "1");
	put(f, "c", "1");
	put(f, "d", "1");
	assert_int_equal(txn_commit(f->t), 0);
	txn_delete(f->t, STR("a"));
	txn_delete(f->t, STR("b"));
	assert_scan(f, "a", "z", 1, "c=1");
	assert_scan(f, "a", "z", 2, "c=1 d=1");
}

static void test_delete_range(void **state)
{
	struct fixture *f = *state;

	put(f, "a", "1");
	put(f, "b", "1");
	put(f, "c", "1");
	assert_int_equal(txn_commit(f->t), 0);
	txn_delete_range(f->t, STR("a"), STR("c"));
	assert_txn(f, "a", NULL);
	assert_txn(f, "c", "1");
	assert_scan(f, "a", "z", 99, "c=1");
	assert_scan(f, "a", "z", 1, "c=1");
	assert_int_equal(txn_commit(f->t), 0);
	assert_store(f, "b", NULL);
	assert_store(f, "c", "1");
	/* the range is forgotten with the commit */
	put(f, "a", "2");
	assert_int_equal(txn_commit(f->t), 0);
	assert_txn(f, "a", "2");
}

/* Many keys of several kinds, in any order, against arrays. */
static void test_random(void **state)
{
	struct fixture *f = *state;
	static const char *const kinds[] = { "j|", "jl|", "p|", "ev|", "x" };
	uint32_t want[ARRAY_SIZE(kinds)][KEYS] = { 0 };
	struct rng r;

	test_rng(&r);
	for (int round = 0; round < 60; round++) {
		for (uint64_t n = rng_below(&r, 400); n > 0; n--) {
			size_t kind = rng_below(&r, ARRAY_SIZE(kinds));
			size_t i = rng_below(&r, KEYS);
			uint32_t v = (uint32_t)rng_below(&r, 5);
			char key[32];

			(void)snprintf(key, sizeof(key), "%s%zu", kinds[kind],
				       i);
			if (v > 0 && want[kind][i] == 0)
				txn_put_new(f->t, str_from(key),
					    str_of(&v, sizeof(v)));
			else if (v > 0)
				txn_put(f->t, str_from(key),
					str_of(&v, sizeof(v)));
			else
				txn_delete(f->t, str_from(key));
			want[kind][i] = v;
		}
		if (rng_below(&r, 2))
			assert_int_equal(txn_commit(f->t), 0);
		for (size_t i = 0; i < ARRAY_SIZE(kinds) * KEYS; i++) {
			uint32_t v = want[i / KEYS][i % KEYS];
			struct str got;
			char key[32];

			(void)snprintf(key, sizeof(key), "%s%zu",
				       kinds[i / KEYS], i % KEYS);
			assert_int_equal(txn_get(f->t, str_from(key), &got),
					 v > 0);
			if (v > 0)
				assert_memory_equal(got.p, &v, sizeof(v));
		}
	}
}

static void change(struct fixture *f, struct rng *r)
{
	static const char *const kinds[] = { "j|", "p|", "ev" };
	const char *kind = kinds[rng_below(r, ARRAY_SIZE(kinds))];
	unsigned from = (unsigned)rng_below(r, 90) + 10;
	char key[32], upto[32], value[32];

	(void)snprintf(key, sizeof(key), "%s%u", kind, from);
	(void)snprintf(upto, sizeof(upto), "%s%u", kind, from + 3);
	(void)snprintf(value, sizeof(value), "%llu",
		       (unsigned long long)rng_below(r, 1000));
	switch (rng_below(r, 12)) {
	case 0:
		txn_delete_range(f->t, str_from(key), str_from(upto));
		break;
	case 1:
	case 2:
		txn_delete(f->t, str_from(key));
		break;
	default:
		put(f, key, value);
	}
}

static void dump(struct fixture *f, struct scan *s)
{
	buf_clear(&s->text);
	s->left = SIZE_MAX;
	assert_int_equal(txn_scan(f->t, STR("a"), STR("z"), on_key, s), 0);
}

/* Whatever was changed since the mark, and however often. */
static void test_back_to_a_mark(void **state)
{
	struct fixture *f = *state;
	struct scan before = { 0 }, after = { 0 };
	struct rng r;

	test_rng(&r);
	for (int round = 0; round < 200; round++) {
		size_t bytes;

		for (uint64_t n = rng_below(&r, 60); n > 0; n--)
			change(f, &r);
		if (rng_below(&r, 3) == 0)
			assert_int_equal(txn_commit(f->t), 0);
		if (rng_below(&r, 4) > 0)
			dump(f, &before); /* which puts it in order */
		txn_mark(f->t);
		bytes = txn_bytes(f->t);
		dump(f, &before);
		for (uint64_t n = rng_below(&r, 2000); n > 0; n--)
			change(f, &r);
		if (rng_below(&r, 2))
			dump(f, &after);
		txn_back(f->t);
		assert_int_equal(txn_bytes(f->t), bytes);
		dump(f, &after);
		assert_true(
		    str_eq(buf_str(&before.text), buf_str(&after.text)));
	}
	assert_int_equal(txn_commit(f->t), 0);
	dump(f, &after);
	assert_true(str_eq(buf_str(&before.text), buf_str(&after.text)));
	buf_done(&before.text);
	buf_done(&after.text);
}

static bool give_up(void *ctx, struct str key _unused_,
		    struct str value _unused_)
{
	struct fixture *f = ctx;

	txn_back(f->t);
	longjmp(gave_up, 1);
}

/* Nothing of a scan that was left is kept. */
static void test_back_from_inside_a_scan(void **state)
{
	struct fixture *f = *state;

	put(f, "a", "1");
	assert_int_equal(txn_commit(f->t), 0);
	put(f, "b", "2");
	txn_mark(f->t);
	put(f, "b", "3");
	if (setjmp(gave_up) == 0)
		(void)txn_scan(f->t, STR("a"), STR("c"), give_up, f);
	assert_scan(f, "a", "c", SIZE_MAX, "a=1 b=2");
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_reads_own_writes),
		TEST(test_put_new),
		TEST(test_scan_merges),
		TEST(test_what_is_gone_does_not_count),
		TEST(test_delete_range),
		TEST(test_random),
		TEST(test_back_to_a_mark),
		TEST(test_back_from_inside_a_scan),
	};
	int failed = cmocka_run_group_tests_name("txn", tests, NULL, NULL);

	is_behind = true;
	return failed +
	       cmocka_run_group_tests_name("txn, behind", tests, NULL, NULL);
}
