/*
 * An overlay over the store: the changes are a table (store/table.h), reads
 * look there first. One thread. Keys and values are copied in.
 */
#include "store/txn.h"

#include <stdlib.h>

#include "store/table.h"

#define CHANGE_BYTES 64         /* what a change weighs beside key and value */
#define KEEP_BYTES   (2u << 20) /* memory of larger ones is given back */

#define SCANS_MAX 4 /* one inside another */

struct txn {
	struct kv *kv;
	struct table table;
	struct buf got; /* value last read from the store */
	uint64_t written;
	struct scan {
		struct kv_iter *it;
		uint32_t *own;
	} scans[SCANS_MAX]; /* under way */
	size_t scans_n;
};

static void scan_begin(struct txn *t, struct kv_iter *it, uint32_t *own)
{
	CHECK(t->scans_n < SCANS_MAX);
	t->scans[t->scans_n++] = (struct scan){ it, own };
}

static void scan_end(struct txn *t)
{
	const struct scan *s;

	CHECK(t->scans_n > 0);
	s = &t->scans[--t->scans_n];
	kv_iter_free(s->it);
	free(s->own);
}

struct txn *txn_new(struct kv *kv)
{
	struct txn *t = xcalloc(1, sizeof(*t));

	t->kv = kv;
	table_init(&t->table, KEEP_BYTES);
	return t;
}

void txn_free(struct txn *t)
{
	if (t == NULL)
		return;
	while (t->scans_n > 0)
		scan_end(t);
	table_done(&t->table);
	buf_done(&t->got);
	free(t);
}

static void txn_set(struct txn *t, struct str key, struct str value,
		    bool is_new)
{
	t->written += key.n + value.n + CHANGE_BYTES;
	table_set(&t->table, key, value, is_new);
}

int txn_get(struct txn *t, struct str key, struct str *ret)
{
	const struct table_entry *e = table_find(&t->table, key);
	int r;

	if (e != NULL) {
		*ret = e->value;
		return e->value.p != NULL;
	}
	if (table_in_deleted_range(&t->table, key))
		return 0;
	r = kv_get(t->kv, key, &t->got);
	if (r > 0)
		*ret = buf_str(&t->got);
	return r;
}

bool txn_has(const struct txn *t, struct str key)
{
	return table_find(&t->table, key) != NULL;
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
	table_delete_range(&t->table, from, upto);
}

/*
 * The store's keys that may be hidden by ours are so many more to ask for; of
 * ranges nobody knows how many they hide.
 */
static struct kv_iter *iter_below(struct txn *t, struct str from,
				  struct str upto, size_t most, size_t own_n)
{
	if (t->table.ranges_n > 0 || most > SIZE_MAX - own_n)
		return kv_iter_new(t->kv, from, upto);
	return kv_iter_first(t->kv, from, upto, most + own_n);
}

int txn_scan_first(struct txn *t, struct str from, struct str upto, size_t most,
		   txn_scan_fn *fn, void *ctx)
{
	struct kv_iter *it;
	uint32_t *own;
	size_t own_n, i = 0;
	bool go_on = true;
	int r;

	if (from.n > 0)
		table_sort_kind(&t->table, from);
	own_n = table_range(&t->table, from, upto, &own);
	it = iter_below(t, from, upto, most, own_n);
	scan_begin(t, it, own);
	while (go_on && most > 0 && (i < own_n || kv_iter_valid(it))) {
		const struct table_entry *e =
		    i < own_n ? &t->table.entries[own[i]] : NULL;
		int c = -1;

		if (kv_iter_valid(it))
			c = e ? str_cmp(e->key, kv_iter_key(it)) : 1;
		if (c > 0) {
			struct str key = kv_iter_key(it);

			if (!table_in_deleted_range(&t->table, key)) {
				go_on = fn(ctx, key, kv_iter_value(it));
				most--;
			}
			kv_iter_next(it);
			continue;
		}
		CHECK(e != NULL); /* one of both goes on */
		if (e->value.p != NULL) {
			go_on = fn(ctx, e->key, e->value);
			most--;
		}
		i++;
		if (c == 0) /* ours stands for the store's */
			kv_iter_next(it);
	}
	r = kv_iter_error(it);
	scan_end(t);
	return r;
}

int txn_scan(struct txn *t, struct str from, struct str upto, txn_scan_fn *fn,
	     void *ctx)
{
	return txn_scan_first(t, from, upto, SIZE_MAX, fn, ctx);
}

size_t txn_bytes(const struct txn *t)
{
	return t->table.bytes;
}

uint64_t txn_written(const struct txn *t)
{
	return t->written;
}

void txn_mark(struct txn *t)
{
	CHECK(t->scans_n == 0);
	table_mark(&t->table);
}

void txn_back(struct txn *t)
{
	while (t->scans_n > 0)
		scan_end(t);
	table_back(&t->table);
}

int txn_commit(struct txn *t)
{
	int r;

	CHECK(t->scans_n == 0); /* they go through what is emptied here */
	r = kv_write_table(t->kv, &t->table);
	if (t->got.cap > KEEP_BYTES) /* a large one came */
		buf_done(&t->got);
	table_empty(&t->table);
	return r;
}
