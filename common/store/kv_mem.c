/*
 * kv.h in memory, for tests and simulation: an AVL tree whose nodes are
 * shared by reference count. A node with one owner is changed in place, a
 * shared one is copied first, so a snapshot is one reference to a root: that
 * is all an iterator, kv_flush and kv_mem_crash need.
 *
 * A mutex guards the root; iterators walk without it, on nodes that nobody
 * changes any more. Recursion is as deep as the tree is high (DEPTH_MAX).
 */
#include <pthread.h>
#include <stdlib.h>

#include "proto/err.h"
#include "store/batch_list.h"
#include "util/arena.h"

#define DEPTH_MAX 64 /* of an AVL tree with more nodes than fit anywhere */

struct item {
	uint32_t refs;
	uint32_t key_n;
	size_t value_n;
	char data[]; /* key, value */
};

struct node {
	uint32_t refs;
	int height;
	struct item *item;
	struct node *kid[2];
};

struct mem {
	struct kv kv;
	pthread_mutex_t lock;
	struct node *root;
	struct node *flushed; /* what a crash goes back to */
};

struct mem_iter {
	struct kv_iter it;
	struct node *root;
	const struct node *path[DEPTH_MAX]; /* nodes still to be visited */
	size_t depth;
	size_t upto_n;
	char upto[];
};

/* --- the tree --- */

static void ref(uint32_t *refs)
{
	__atomic_add_fetch(refs, 1, __ATOMIC_RELAXED);
}

static bool unref(uint32_t *refs)
{
	return __atomic_sub_fetch(refs, 1, __ATOMIC_ACQ_REL) == 0;
}

static struct str item_key(const struct item *it)
{
	return str_of(it->data, it->key_n);
}

static struct str item_value(const struct item *it)
{
	return str_of(it->data + it->key_n, it->value_n);
}

static struct item *item_new(struct str key, struct str value)
{
	struct item *it = xmalloc(sizeof(*it) + key.n + value.n);

	it->refs = 1;
	it->key_n = (uint32_t)key.n;
	it->value_n = value.n;
	if (key.n > 0)
		memcpy(it->data, key.p, key.n);
	if (value.n > 0)
		memcpy(it->data + key.n, value.p, value.n);
	return it;
}

static void item_unref(struct item *it)
{
	if (unref(&it->refs))
		free(it);
}

static void node_unref(struct node *n)
{
	if (n == NULL || !unref(&n->refs))
		return;
	node_unref(n->kid[0]);
	node_unref(n->kid[1]);
	item_unref(n->item);
	free(n);
}

static struct node *node_ref(struct node *n)
{
	if (n != NULL)
		ref(&n->refs);
	return n;
}

static struct node *node_new(struct item *it)
{
	struct node *n = xcalloc(1, sizeof(*n));

	n->refs = 1;
	n->height = 1;
	n->item = it;
	return n;
}

/* A node the caller may change: n itself, or a copy when others share it. */
static struct node *node_own(struct node *n)
{
	struct node *copy;

	if (__atomic_load_n(&n->refs, __ATOMIC_ACQUIRE) == 1)
		return n;
	copy = xmalloc(sizeof(*copy));
	*copy = *n;
	copy->refs = 1;
	ref(&copy->item->refs);
	node_ref(copy->kid[0]);
	node_ref(copy->kid[1]);
	node_unref(n);
	return copy;
}

static int height(const struct node *n)
{
	return n ? n->height : 0;
}

static void node_measure(struct node *n)
{
	n->height = 1 + MAX(height(n->kid[0]), height(n->kid[1]));
}

/* Lifts the kid on `side` above n; both are owned. */
static struct node *node_rotate(struct node *n, int side)
{
	struct node *k = node_own(n->kid[side]);

	n->kid[side] = k->kid[!side];
	k->kid[!side] = n;
	node_measure(n);
	node_measure(k);
	return k;
}

static struct node *node_balance(struct node *n)
{
	int tilt = height(n->kid[1]) - height(n->kid[0]);
	int side = tilt > 0;
	struct node *k = n->kid[side];

	node_measure(n);
	if (tilt >= -1 && tilt <= 1)
		return n;
	if (height(k->kid[!side]) > height(k->kid[side])) {
		k = node_own(k);
		n->kid[side] = node_rotate(k, !side);
	}
	return node_rotate(n, side);
}

static struct node *node_put(struct node *n, struct item *it)
{
	int c;

	if (n == NULL)
		return node_new(it);
	n = node_own(n);
	c = str_cmp(item_key(it), item_key(n->item));
	if (c == 0) {
		item_unref(n->item);
		n->item = it;
		return n;
	}
	n->kid[c > 0] = node_put(n->kid[c > 0], it);
	return node_balance(n);
}

/* Takes the first node out of the subtree; its item moves to *ret. */
static struct node *node_take_first(struct node *n, struct item **ret)
{
	n = node_own(n);
	if (n->kid[0] == NULL) {
		struct node *right = n->kid[1];

		*ret = n->item;
		free(n);
		return right;
	}
	n->kid[0] = node_take_first(n->kid[0], ret);
	return node_balance(n);
}

static struct node *node_drop(struct node *n)
{
	struct node *left = n->kid[0], *right = n->kid[1];

	item_unref(n->item);
	if (left == NULL || right == NULL) {
		free(n);
		return left ? left : right;
	}
	n->kid[1] = node_take_first(right, &n->item);
	return node_balance(n);
}

/* The key is there. */
static struct node *node_delete(struct node *n, struct str key)
{
	int c;

	n = node_own(n);
	c = str_cmp(key, item_key(n->item));
	if (c == 0)
		return node_drop(n);
	n->kid[c > 0] = node_delete(n->kid[c > 0], key);
	return node_balance(n);
}

/* The first item at or after key. */
static const struct item *node_seek(const struct node *n, struct str key)
{
	const struct item *best = NULL;

	while (n != NULL) {
		int c = str_cmp(key, item_key(n->item));

		if (c == 0)
			return n->item;
		if (c < 0)
			best = n->item;
		n = n->kid[c > 0];
	}
	return best;
}

static const struct item *node_find(const struct node *n, struct str key)
{
	const struct item *it = node_seek(n, key);

	return it != NULL && str_eq(item_key(it), key) ? it : NULL;
}

/* --- kv --- */

static struct mem *mem_of(struct kv *kv)
{
	return container_of(kv, struct mem, kv);
}

static void mem_close(struct kv *kv)
{
	struct mem *m = mem_of(kv);

	node_unref(m->root);
	node_unref(m->flushed);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

static int mem_get(struct kv *kv, struct str key, struct buf *ret)
{
	struct mem *m = mem_of(kv);
	const struct item *it;

	pthread_mutex_lock(&m->lock);
	it = node_find(m->root, key);
	if (it != NULL) {
		buf_clear(ret);
		buf_put_str(ret, item_value(it));
	}
	pthread_mutex_unlock(&m->lock);
	return it != NULL;
}

static struct mem_iter *iter_of(const struct kv_iter *it)
{
	return (struct mem_iter *)container_of(it, const struct mem_iter, it);
}

static void iter_push(struct mem_iter *it, const struct node *n)
{
	for (; n != NULL; n = n->kid[0]) {
		CHECK(it->depth < DEPTH_MAX);
		it->path[it->depth++] = n;
	}
}

static const struct kv_ops mem_ops;

static struct kv_iter *mem_iter_new(struct kv *kv, struct str from,
				    struct str upto, _unused_ size_t most)
{
	struct mem *m = mem_of(kv);
	struct mem_iter *it = xmalloc(sizeof(*it) + upto.n);
	const struct node *n;

	it->it.ops = &mem_ops;
	it->depth = 0;
	it->upto_n = upto.n;
	if (upto.n > 0)
		memcpy(it->upto, upto.p, upto.n);
	pthread_mutex_lock(&m->lock);
	it->root = node_ref(m->root);
	pthread_mutex_unlock(&m->lock);
	for (n = it->root; n != NULL;) {
		bool after = str_cmp(item_key(n->item), from) >= 0;

		if (after) {
			CHECK(it->depth < DEPTH_MAX);
			it->path[it->depth++] = n;
		}
		n = n->kid[!after];
	}
	return &it->it;
}

static const struct item *iter_item(const struct kv_iter *kit)
{
	const struct mem_iter *it = iter_of(kit);

	CHECK(it->depth > 0);
	return it->path[it->depth - 1]->item;
}

static bool mem_iter_valid(const struct kv_iter *kit)
{
	const struct mem_iter *it = iter_of(kit);

	if (it->depth == 0)
		return false;
	return it->upto_n == 0 || str_cmp(item_key(iter_item(kit)),
					  str_of(it->upto, it->upto_n)) < 0;
}

static struct str mem_iter_key(const struct kv_iter *it)
{
	return item_key(iter_item(it));
}

static struct str mem_iter_value(const struct kv_iter *it)
{
	return item_value(iter_item(it));
}

static void mem_iter_next(struct kv_iter *kit)
{
	struct mem_iter *it = iter_of(kit);

	CHECK(it->depth > 0);
	iter_push(it, it->path[--it->depth]->kid[1]);
}

static int mem_iter_error(const struct kv_iter *it _unused_)
{
	return 0;
}

static void mem_iter_free(struct kv_iter *kit)
{
	struct mem_iter *it = iter_of(kit);

	node_unref(it->root);
	free(it);
}

static struct kv_batch *mem_batch_new(struct kv *kv _unused_)
{
	return batch_list_new(&mem_ops);
}

static void mem_delete_range(struct mem *m, struct str from, struct str upto)
{
	const struct item *it;

	while ((it = node_seek(m->root, from)) != NULL &&
	       str_cmp(item_key(it), upto) < 0)
		m->root = node_delete(m->root, item_key(it));
}

static void mem_apply(struct mem *m, const struct batch_op *op)
{
	switch (op->kind) {
	case BATCH_PUT:
	case BATCH_PUT_NEW:
		m->root = node_put(m->root, item_new(op->key, op->value));
		break;
	case BATCH_DELETE:
		if (node_find(m->root, op->key) != NULL)
			m->root = node_delete(m->root, op->key);
		break;
	case BATCH_DELETE_RANGE:
		mem_delete_range(m, op->key, op->value);
		break;
	}
}

static int mem_write(struct kv *kv, struct kv_batch *kb)
{
	struct mem *m = mem_of(kv);
	struct batch_list *b = batch_list_of(kb);

	pthread_mutex_lock(&m->lock);
	for (size_t i = 0; i < b->n; i++)
		mem_apply(m, &b->ops[i]);
	pthread_mutex_unlock(&m->lock);
	batch_list_clear(b);
	return 0;
}

static int mem_flush(struct kv *kv, struct buf *why _unused_)
{
	struct mem *m = mem_of(kv);
	struct node *old;

	pthread_mutex_lock(&m->lock);
	old = m->flushed;
	m->flushed = node_ref(m->root);
	pthread_mutex_unlock(&m->lock);
	node_unref(old);
	return 0;
}

static int mem_checkpoint(struct kv *kv _unused_, const char *path _unused_,
			  struct buf *why)
{
	if (why != NULL)
		buf_puts(why, "a store in memory has no files to link");
	return -ERR_INTERNAL_ERROR;
}

static bool mem_rest(struct kv *kv _unused_)
{
	return true;
}

static int mem_set_write_buffer(struct kv *kv _unused_, uint64_t bytes _unused_)
{
	return 0;
}

static const struct kv_ops mem_ops = {
	.close = mem_close,
	.get = mem_get,
	.iter_new = mem_iter_new,
	.iter_valid = mem_iter_valid,
	.iter_key = mem_iter_key,
	.iter_value = mem_iter_value,
	.iter_next = mem_iter_next,
	.iter_error = mem_iter_error,
	.iter_free = mem_iter_free,
	.batch_new = mem_batch_new,
	.batch_free = batch_list_free,
	.batch_put = batch_list_put,
	.batch_put_new = batch_list_put_new,
	.batch_delete = batch_list_delete,
	.batch_delete_range = batch_list_delete_range,
	.write = mem_write,
	.flush = mem_flush,
	.checkpoint = mem_checkpoint,
	.set_write_buffer = mem_set_write_buffer,
	.rest = mem_rest,
};

struct kv *kv_mem_new(void)
{
	struct mem *m = xcalloc(1, sizeof(*m));

	m->kv.ops = &mem_ops;
	CHECK(pthread_mutex_init(&m->lock, NULL) == 0);
	return &m->kv;
}

void kv_mem_crash(struct kv *kv)
{
	struct mem *m = mem_of(kv);
	struct node *old;

	CHECK(kv->ops == &mem_ops);
	pthread_mutex_lock(&m->lock);
	old = m->root;
	m->root = node_ref(m->flushed);
	pthread_mutex_unlock(&m->lock);
	node_unref(old);
}
