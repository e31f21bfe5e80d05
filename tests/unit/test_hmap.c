#include "util/hmap.h"

#include "lib/testlib.h"
#include "util/hash.h"

#define MODEL_KEYS 400
#define KEY_MAX    128

/*
 * The model: a fixed set of keys, each with its value or NULL. Values are
 * addresses into `cells`, so that any mix-up shows.
 */
struct model {
	char keys[MODEL_KEYS][KEY_MAX];
	size_t len[MODEL_KEYS];
	void *v[MODEL_KEYS];
	size_t n;
};

static char cells[1000];

/* Lengths on both sides of the inline limit; distinct by the number. */
static void model_init(struct model *md, struct rng *r)
{
	memset(md, 0, sizeof(*md));
	for (size_t i = 0; i < MODEL_KEYS; i++) {
		size_t pad = rng_below(r, 60);
		int n = snprintf(md->keys[i], KEY_MAX, "%zu:%.*s", i, (int)pad,
				 "------------------------------"
				 "------------------------------");

		md->len[i] = (size_t)n;
	}
	md->len[0] = 0; /* the empty key is a key */
}

static struct str model_key(const struct model *md, size_t i)
{
	return str_of(md->keys[i], md->len[i]);
}

static size_t model_find(const struct model *md, struct str key)
{
	for (size_t i = 0; i < MODEL_KEYS; i++)
		if (str_eq(model_key(md, i), key))
			return i;
	fail_msg("unknown key '%.*s'", STR_ARG(key));
	return 0;
}

static void model_put(struct model *md, struct hmap *m, size_t i, void *v)
{
	assert_ptr_equal(hmap_put(m, model_key(md, i), v), md->v[i]);
	md->n += md->v[i] == NULL;
	md->v[i] = v;
}

static void model_remove(struct model *md, struct hmap *m, size_t i)
{
	assert_ptr_equal(hmap_remove(m, model_key(md, i)), md->v[i]);
	md->n -= md->v[i] != NULL;
	md->v[i] = NULL;
}

/* Each entry exactly once in a walk, and the counters in their bounds. */
static void model_check(const struct model *md, const struct hmap *m)
{
	bool seen[MODEL_KEYS] = { false };
	struct str key;
	size_t pos = 0, walked = 0;
	void *v;

	while (hmap_next(m, &pos, &key, &v)) {
		size_t i = model_find(md, key);

		assert_false(seen[i]);
		seen[i] = true;
		assert_ptr_equal(v, md->v[i]);
		walked++;
	}
	assert_int_equal(walked, md->n);
	assert_int_equal(m->n, md->n);
	assert_true((m->n + m->gone) * 10 <= m->cap * 7);
	assert_int_equal(m->cap & (m->cap - 1), 0);
	for (size_t i = 0; i < MODEL_KEYS; i++)
		assert_ptr_equal(hmap_get(m, model_key(md, i)), md->v[i]);
}

/* Removes about half of the entries during a walk. */
static void model_walk_remove(struct model *md, struct hmap *m, struct rng *r)
{
	size_t pos = 0, walked = 0, before = md->n;
	struct str key;
	void *v;

	while (hmap_next(m, &pos, &key, &v)) {
		walked++;
		if (rng_below(r, 2) == 0)
			model_remove(md, m, model_find(md, key));
	}
	assert_int_equal(walked, before);
}

static void test_against_model(void **state _unused_)
{
	static struct model md;
	struct hmap m = { 0 };
	struct rng r;

	test_rng(&r);
	model_init(&md, &r);
	for (int phase = 0; phase < 60; phase++) {
		/* From mostly removing to mostly adding, over few or many. */
		uint64_t put_of_10 = rng_below(&r, 11);
		uint64_t keys = 1 + rng_below(&r, MODEL_KEYS);

		for (int i = 0; i < 500; i++) {
			size_t k = rng_below(&r, keys);

			if (rng_below(&r, 10) < put_of_10)
				model_put(&md, &m, k,
					  cells + rng_below(&r, sizeof(cells)));
			else
				model_remove(&md, &m, k);
		}
		model_check(&md, &m);
		if (phase % 10 == 5)
			model_walk_remove(&md, &m, &r);
		if (phase % 20 == 19) {
			hmap_clear(&m);
			memset(md.v, 0, sizeof(md.v));
			md.n = 0;
		}
		model_check(&md, &m);
	}
	hmap_done(&m);
}

static void test_empty_map(void **state _unused_)
{
	struct hmap m = { 0 };
	struct str key;
	size_t pos = 0;
	void *v;

	assert_null(hmap_get(&m, STR("a")));
	assert_null(hmap_remove(&m, STR("a")));
	assert_false(hmap_next(&m, &pos, &key, &v));
	hmap_clear(&m);
	hmap_done(&m);
	hmap_done(&m);
}

static void test_keys_are_copied(void **state _unused_)
{
	struct hmap m = { 0 };
	char small[] = "abc";
	char large[100];

	memset(large, 'x', sizeof(large));
	assert_null(hmap_put(&m, str_from(small), cells));
	assert_null(hmap_put(&m, str_of(large, sizeof(large)), cells + 1));
	memset(small, 'z', 3);
	memset(large, 'z', sizeof(large));
	assert_ptr_equal(hmap_get(&m, STR("abc")), cells);
	memset(large, 'x', sizeof(large));
	assert_ptr_equal(hmap_get(&m, str_of(large, 100)), cells + 1);
	assert_null(hmap_get(&m, str_of(large, 99)));
	hmap_done(&m);
}

static void test_key_of_the_map_itself(void **state _unused_)
{
	struct hmap m = { 0 };
	struct str key;
	size_t pos = 0;
	void *v;
	char large[64] = { 0 };

	hmap_put(&m, str_of(large, sizeof(large)), cells);
	assert_true(hmap_next(&m, &pos, &key, &v));
	assert_ptr_equal(hmap_put(&m, key, cells + 1), cells);
	assert_ptr_equal(hmap_remove(&m, key), cells + 1);
	assert_int_equal(m.n, 0);
	hmap_done(&m);
}

/* A queue of fixed length passing through must not make the map grow. */
static void test_churn_stays_small(void **state _unused_)
{
	struct hmap m = { 0 };
	char key[32];

	for (size_t i = 0; i < 200000; i++) {
		int n = snprintf(key, sizeof(key), "job_%zu", i);

		assert_null(hmap_put(&m, str_of(key, (size_t)n), cells));
		if (i < 100)
			continue;
		n = snprintf(key, sizeof(key), "job_%zu", i - 100);
		assert_ptr_equal(hmap_remove(&m, str_of(key, (size_t)n)),
				 cells);
	}
	assert_int_equal(m.n, 100);
	assert_true(m.cap <= 512);
	hmap_done(&m);
}

/* An entry that comes and goes takes a gone slot again: no rebuild. */
static void test_gone_slots_are_reused(void **state _unused_)
{
	enum { KEYS = 85 }; /* of the 89 that 128 slots take */
	struct hmap m = { 0 };
	struct hmap_slot *slots;
	char key;

	for (key = 0; key < KEYS; key++)
		hmap_put(&m, str_of(&key, 1), cells);
	slots = m.slots;
	for (int i = 0; i < KEYS * 200; i++) {
		key = (char)(i / 200);
		assert_ptr_equal(hmap_remove(&m, str_of(&key, 1)), cells);
		assert_null(hmap_put(&m, str_of(&key, 1), cells));
		assert_ptr_equal(m.slots, slots);
	}
	hmap_done(&m);
}

static void test_hash_depends_on_every_byte(void **state _unused_)
{
	unsigned char text[100];

	for (size_t n = 0; n < sizeof(text); n++) {
		uint64_t whole;

		memset(text, 0, sizeof(text));
		whole = hash_stable(text, n);
		assert_true(whole != hash_stable(text, n + 1));
		for (size_t bit = 0; bit < n * 8; bit++) {
			text[bit / 8] ^= (unsigned char)(1 << bit % 8);
			assert_true(hash_stable(text, n) != whole);
			text[bit / 8] ^= (unsigned char)(1 << bit % 8);
		}
	}
}

/*
 * One flipped input bit flips each output bit in about half of the cases.
 * 4000 throws: a fair bit stays within 10 standard deviations (320).
 */
static void test_hash_avalanche(void **state _unused_)
{
	static const size_t lens[] = { 3, 8, 13, 16, 30, 47 };
	struct rng r;

	test_rng(&r);
	for (size_t l = 0; l < ARRAY_SIZE(lens); l++) {
		int flips[64] = { 0 };

		for (int i = 0; i < 4000; i++) {
			unsigned char text[64];
			size_t bit = rng_below(&r, lens[l] * 8);
			uint64_t a, b;

			for (size_t j = 0; j < lens[l]; j++)
				text[j] = (unsigned char)rng_u64(&r);
			a = hash_stable(text, lens[l]);
			text[bit / 8] ^= (unsigned char)(1 << bit % 8);
			b = hash_stable(text, lens[l]);
			for (int k = 0; k < 64; k++)
				flips[k] += (int)((a ^ b) >> k & 1);
		}
		for (int k = 0; k < 64; k++)
			assert_in_range(flips[k], 2000 - 320, 2000 + 320);
	}
}

/* --- keys that were chosen to collide --- */

#define CHOSEN      500
#define CHOSEN_BITS 10

/* The next text whose public hash ends like that of the empty one. */
static size_t choose(char *to, size_t max, uint64_t *n)
{
	uint64_t mask = (1u << CHOSEN_BITS) - 1;
	uint64_t want = hash_stable("", 0) & mask;
	size_t len;

	do
		len = (size_t)snprintf(to, max, "job_%llu",
				       (unsigned long long)(*n)++);
	while ((hash_stable(to, len) & mask) != want);
	return len;
}

static size_t places_taken(const bool *taken)
{
	size_t n = 0;

	for (size_t i = 0; i < 1u << CHOSEN_BITS; i++)
		n += taken[i];
	return n;
}

/*
 * 500 throws into 1,024 places take about 395 of them, if nobody can aim.
 */
static void test_nobody_can_choose_keys_that_collide(void **state _unused_)
{
	bool taken[1u << CHOSEN_BITS] = { false };
	uint64_t seed = hash_new_seed(), n = 0;
	char text[32];

	for (size_t i = 0; i < CHOSEN; i++) {
		size_t len = choose(text, sizeof(text), &n);

		taken[hash_secret(seed, text, len) &
		      ((1u << CHOSEN_BITS) - 1)] = true;
	}
	assert_in_range(places_taken(taken), 340, CHOSEN);
}

/* The order of one says nothing about that of another. */
static void test_two_maps_have_different_orders(void **state _unused_)
{
	struct hmap a = { 0 }, b = { 0 };
	size_t at_a = 0, at_b = 0;
	struct str key_a, key_b;
	bool same = true;
	void *v;

	for (int i = 0; i < 100; i++) {
		char text[16];
		struct str key =
		    str_of(text, (size_t)snprintf(text, sizeof(text), "%d", i));

		(void)hmap_put(&a, key, &a);
		(void)hmap_put(&b, key, &b);
	}
	while (hmap_next(&a, &at_a, &key_a, &v) &&
	       hmap_next(&b, &at_b, &key_b, &v))
		same &= str_eq(key_a, key_b);
	assert_false(same);
	hmap_done(&a);
	hmap_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_against_model),
		cmocka_unit_test(test_empty_map),
		cmocka_unit_test(test_keys_are_copied),
		cmocka_unit_test(test_key_of_the_map_itself),
		cmocka_unit_test(test_churn_stays_small),
		cmocka_unit_test(test_gone_slots_are_reused),
		cmocka_unit_test(test_hash_depends_on_every_byte),
		cmocka_unit_test(test_hash_avalanche),
		cmocka_unit_test(test_nobody_can_choose_keys_that_collide),
		cmocka_unit_test(test_two_maps_have_different_orders),
	};

	return cmocka_run_group_tests_name("hmap", tests, NULL, NULL);
}
