/*
 * An overlay over the store: a hash table from key to the newest value or
 * the mark that it is gone. Keys and values live in an arena until commit.
 *
 * The batch wants sorted keys. Entries are kept apart by the first two bytes
 * of their key, which are the kind of record: inside a kind keys mostly come
 * in ascending order already, so most commits sort nothing.
 *
 * One thread. Keys and values are copied in.
 */
#include "store/txn.h"

#include <stdlib.h>

#include "util/hash.h"

#define SLOTS_MIN    1024
#define ARENA_BYTES  (256u << 10)
#define CHANGE_BYTES 64         /* what a change weighs beside key and value */
#define KEEP_BYTES   (2u << 20) /* memory of larger ones is given back */
#define KEEP_ENTRIES 65536

struct entry {
	struct str key;
	struct str value; /* p NULL: gone */
	uint32_t hash;
	uint32_t slot;
	bool is_new; /* the store does not have the key */
};

/* Entries whose keys begin with the same two bytes. */
struct group {
	unsigned kind;
	bool sorted;
	uint32_t *entries; /* by index */
	size_t n, cap;
};

struct range {
	struct str from, upto;
};

struct txn {
	struct kv *kv;
	struct kv_batch *batch;
	struct arena arena;
	struct buf got; /* value last read from the store */
	struct entry *entries;
	size_t n, cap;
	uint32_t *slots; /* index of an entry + 1; 0: free */
	size_t slots_n;  /* power of two */
	uint64_t seed;   /* of their hashes */
	struct group *groups;
	size_t groups_n, groups_cap;
	struct range *ranges; /* deleted */
	size_t ranges_n, ranges_cap;
	size_t bytes; /* copied in since the last commit */
	uint64_t written;
};

struct txn *txn_new(struct kv *kv)
{
	struct txn *t = xcalloc(1, sizeof(*t));

	t->kv = kv;
	t->batch = kv_batch_new(kv);
	t->arena.block_size = ARENA_BYTES;
	t->slots_n = SLOTS_MIN;
	t->seed = hash_new_seed();
	t->slots = xcalloc(t->slots_n, sizeof(*t->slots));
	return t;
}

void txn_free(struct txn *t)
{
	if (t == NULL)
		return;
	for (size_t i = 0; i < t->groups_n; i++)
		free(t->groups[i].entries);
	free(t->groups);
	free(t->ranges);
	free(t->slots);
	free(t->entries);
	buf_done(&t->got);
	arena_done(&t->arena);
	kv_batch_free(t->batch);
	free(t);
}

static void *grow(void *p, size_t *cap, size_t size)
{
	*cap = MAX(*cap * 2, (size_t)16);
	return xrealloc(p, *cap * size);
}

/* --- the table --- */

static uint32_t txn_hash(const struct txn *t, struct str key)
{
	uint64_t h = hash_secret(t->seed, key.p, key.n);

	return (uint32_t)(h ^ h >> 32);
}

/* The slot that holds the key, or the free one where it belongs. */
static size_t txn_slot(const struct txn *t, struct str key, uint32_t hash)
{
	size_t mask = t->slots_n - 1;
	size_t i = hash & mask;

	for (; t->slots[i] != 0; i = (i + 1) & mask) {
		const struct entry *e = &t->entries[t->slots[i] - 1];

		if (e->hash == hash && str_eq(e->key, key))
			break;
	}
	return i;
}

static struct entry *txn_find(const struct txn *t, struct str key)
{
	size_t i;

	if (t->n == 0)
		return NULL;
	i = txn_slot(t, key, txn_hash(t, key));
	return t->slots[i] ? &t->entries[t->slots[i] - 1] : NULL;
}

static void txn_grow_slots(struct txn *t)
{
	size_t mask;

	t->slots_n *= 2;
	mask = t->slots_n - 1;
	free(t->slots);
	t->slots = xcalloc(t->slots_n, sizeof(*t->slots));
	for (size_t e = 0; e < t->n; e++) {
		size_t i = t->entries[e].hash & mask;

		while (t->slots[i] != 0)
			i = (i + 1) & mask;
		t->slots[i] = (uint32_t)e + 1;
		t->entries[e].slot = (uint32_t)i;
	}
}

static unsigned kind_of(struct str key)
{
	unsigned kind = (unsigned char)key.p[0];

	return kind << 8 | (key.n > 1 ? (unsigned char)key.p[1] : 0);
}

static struct group *txn_find_group(const struct txn *t, unsigned kind)
{
	for (size_t i = 0; i < t->groups_n; i++) {
		if (t->groups[i].kind == kind)
			return &t->groups[i];
	}
	return NULL;
}

static struct group *txn_group(struct txn *t, struct str key)
{
	unsigned kind = kind_of(key);
	struct group *g = txn_find_group(t, kind);

	if (g != NULL)
		return g;
	if (t->groups_n == t->groups_cap)
		t->groups = grow(t->groups, &t->groups_cap, sizeof(*t->groups));
	t->groups[t->groups_n] = (struct group){ .kind = kind, .sorted = true };
	return &t->groups[t->groups_n++];
}

static void group_add(struct txn *t, struct group *g, uint32_t entry)
{
	if (g->n > 0 && g->sorted)
		g->sorted = str_cmp(t->entries[g->entries[g->n - 1]].key,
				    t->entries[entry].key) < 0;
	if (g->n == g->cap)
		g->entries = grow(g->entries, &g->cap, sizeof(*g->entries));
	g->entries[g->n++] = entry;
}

static void txn_set(struct txn *t, struct str key, struct str value,
		    bool is_new)
{
	uint32_t hash = txn_hash(t, key);
	size_t i = txn_slot(t, key, hash);
	struct entry *e;
	char *p;

	CHECK(key.n > 0);
	t->bytes += key.n + value.n;
	t->written += key.n + value.n + CHANGE_BYTES;
	if (t->slots[i] != 0) {
		t->entries[t->slots[i] - 1].value =
		    arena_copy(&t->arena, value);
		return;
	}
	if (t->n == t->cap)
		t->entries = grow(t->entries, &t->cap, sizeof(*t->entries));
	e = &t->entries[t->n++];
	p = arena_alloc(&t->arena, key.n + value.n);
	memcpy(p, key.p, key.n);
	if (value.n > 0)
		memcpy(p + key.n, value.p, value.n);
	e->key = str_of(p, key.n);
	e->value = value.p ? str_of(p + key.n, value.n) : STR_NULL;
	e->hash = hash;
	e->slot = (uint32_t)i;
	e->is_new = is_new;
	t->slots[i] = (uint32_t)t->n;
	group_add(t, txn_group(t, key), (uint32_t)t->n - 1);
	if (t->n * 2 > t->slots_n)
		txn_grow_slots(t);
}

/* --- reads and writes --- */

static bool txn_in_deleted_range(const struct txn *t, struct str key)
{
	for (size_t i = 0; i < t->ranges_n; i++) {
		if (str_cmp(key, t->ranges[i].from) >= 0 &&
		    str_cmp(key, t->ranges[i].upto) < 0)
			return true;
	}
	return false;
}

int txn_get(struct txn *t, struct str key, struct str *ret)
{
	const struct entry *e = txn_find(t, key);
	int r;

	if (e != NULL) {
		*ret = e->value;
		return e->value.p != NULL;
	}
	if (txn_in_deleted_range(t, key))
		return 0;
	r = kv_get(t->kv, key, &t->got);
	if (r > 0)
		*ret = buf_str(&t->got);
	return r;
}

bool txn_has(const struct txn *t, struct str key)
{
	return txn_find(t, key) != NULL;
}

void txn_put(struct txn *t, struct str key, struct str value)
{
	txn_set(t, key, value.p ? value : STR(""), false);
}

void txn_put_new(struct txn *t, struct str key, struct str value)
{
	txn_set(t, key, value.p ? value : STR(""), true);
}

void txn_delete(struct txn *t, struct str key)
{
	txn_set(t, key, STR_NULL, false);
}

void txn_delete_range(struct txn *t, struct str from, struct str upto)
{
	if (t->ranges_n == t->ranges_cap)
		t->ranges = grow(t->ranges, &t->ranges_cap, sizeof(*t->ranges));
	t->ranges[t->ranges_n++] =
	    (struct range){ arena_copy(&t->arena, from),
			    arena_copy(&t->arena, upto) };
}

static int entry_cmp(const void *a, const void *b, void *entries)
{
	const struct entry *e = entries;

	return str_cmp(e[*(const uint32_t *)a].key,
		       e[*(const uint32_t *)b].key);
}

static void group_sort(const struct txn *t, struct group *g)
{
	if (!g->sorted)
		qsort_r(g->entries, g->n, sizeof(*g->entries), entry_cmp,
			t->entries);
	g->sorted = true;
}

/* Where the first key at or after this one stands in a sorted group. */
static size_t group_lower(const struct txn *t, const struct group *g,
			  struct str key)
{
	size_t from = 0, upto = g->n;

	while (from < upto) {
		size_t mid = from + (upto - from) / 2;

		if (str_cmp(t->entries[g->entries[mid]].key, key) < 0)
			from = mid + 1;
		else
			upto = mid;
	}
	return from;
}

/* Nearly every range: all its keys begin with the same two bytes. */
static bool is_one_kind(struct str from, struct str upto)
{
	if (from.n < 2 || upto.n < 2)
		return false;
	return kind_of(upto) == kind_of(from) ||
	       (upto.n == 2 && kind_of(upto) == kind_of(from) + 1);
}

static size_t range_of_kind(struct txn *t, struct str from, struct str upto,
			    uint32_t **ret)
{
	struct group *g = txn_find_group(t, kind_of(from));
	size_t first, end;

	*ret = NULL;
	if (g == NULL)
		return 0;
	group_sort(t, g);
	first = group_lower(t, g, from);
	end = group_lower(t, g, upto);
	if (first >= end)
		return 0;
	*ret = xmalloc((end - first) * sizeof(**ret));
	memcpy(*ret, g->entries + first, (end - first) * sizeof(**ret));
	return end - first;
}

/*
 * Own writes in [from, upto), sorted, as indexes of entries, which are the
 * caller's to free.
 */
static size_t txn_range(struct txn *t, struct str from, struct str upto,
			uint32_t **ret)
{
	uint32_t *found = NULL;
	size_t n = 0, cap = 0;

	if (is_one_kind(from, upto))
		return range_of_kind(t, from, upto, ret);
	for (size_t i = 0; i < t->n; i++) {
		struct str key = t->entries[i].key;

		if (str_cmp(key, from) < 0 ||
		    (upto.n > 0 && str_cmp(key, upto) >= 0))
			continue;
		if (n == cap)
			found = grow(found, &cap, sizeof(*found));
		found[n++] = (uint32_t)i;
	}
	if (n > 1)
		qsort_r(found, n, sizeof(*found), entry_cmp, t->entries);
	*ret = found;
	return n;
}

int txn_scan(struct txn *t, struct str from, struct str upto, txn_scan_fn *fn,
	     void *ctx)
{
	struct kv_iter *it = kv_iter_new(t->kv, from, upto);
	uint32_t *own;
	size_t own_n = txn_range(t, from, upto, &own);
	size_t i = 0;
	bool go_on = true;
	int r;

	while (go_on && (i < own_n || kv_iter_valid(it))) {
		const struct entry *e = i < own_n ? &t->entries[own[i]] : NULL;
		int c = -1;

		if (kv_iter_valid(it))
			c = e ? str_cmp(e->key, kv_iter_key(it)) : 1;
		if (c > 0) {
			struct str key = kv_iter_key(it);

			if (!txn_in_deleted_range(t, key))
				go_on = fn(ctx, key, kv_iter_value(it));
			kv_iter_next(it);
			continue;
		}
		if (e->value.p != NULL)
			go_on = fn(ctx, e->key, e->value);
		i++;
		if (c == 0) /* ours stands for the store's */
			kv_iter_next(it);
	}
	r = kv_iter_error(it);
	kv_iter_free(it);
	free(own);
	return r;
}

/* --- commit --- */

static int group_cmp(const void *a, const void *b)
{
	unsigned x = ((const struct group *)a)->kind;
	unsigned y = ((const struct group *)b)->kind;

	return (x > y) - (x < y);
}

static void txn_fill_batch(struct txn *t)
{
	for (size_t i = 0; i < t->ranges_n; i++)
		kv_batch_delete_range(t->batch, t->ranges[i].from,
				      t->ranges[i].upto);
	qsort(t->groups, t->groups_n, sizeof(*t->groups), group_cmp);
	for (size_t i = 0; i < t->groups_n; i++) {
		struct group *g = &t->groups[i];

		group_sort(t, g);
		for (size_t k = 0; k < g->n; k++) {
			const struct entry *e = &t->entries[g->entries[k]];

			if (e->value.p != NULL)
				kv_batch_put(t->batch, e->key, e->value);
			else if (!e->is_new)
				kv_batch_delete(t->batch, e->key);
		}
	}
}

/* A large txn came: the next ones need not carry its memory along. */
static void txn_give_back(struct txn *t)
{
	for (size_t i = 0; i < t->groups_n; i++)
		free(t->groups[i].entries);
	t->groups_n = 0;
	free(t->slots);
	free(t->entries);
	t->entries = NULL;
	t->cap = 0;
	t->slots_n = SLOTS_MIN;
	t->seed = hash_new_seed();
	t->slots = xcalloc(t->slots_n, sizeof(*t->slots));
	kv_batch_free(t->batch);
	t->batch = kv_batch_new(t->kv);
}

static void txn_forget(struct txn *t)
{
	bool large = t->bytes > KEEP_BYTES || t->n > KEEP_ENTRIES;

	for (size_t i = 0; i < t->n; i++)
		t->slots[t->entries[i].slot] = 0;
	t->n = 0;
	for (size_t i = 0; i < t->groups_n; i++) {
		t->groups[i].n = 0;
		t->groups[i].sorted = true;
	}
	t->ranges_n = 0;
	t->bytes = 0;
	arena_reset(&t->arena);
	if (t->got.cap > KEEP_BYTES)
		buf_done(&t->got);
	if (large)
		txn_give_back(t);
}

size_t txn_bytes(const struct txn *t)
{
	return t->bytes;
}

uint64_t txn_written(const struct txn *t)
{
	return t->written;
}

int txn_commit(struct txn *t)
{
	int r;

	txn_fill_batch(t);
	r = kv_write(t->kv, t->batch);
	txn_forget(t);
	return r;
}
