#include "util/heap.h"

#include <stdlib.h>

#define CAP_MIN 16

static bool node_before(const struct heap *h, const struct heap_node *a,
			const struct heap_node *b)
{
	if (a->key != b->key)
		return a->key < b->key;
	if (a->tie != b->tie || h->cmp == NULL)
		return a->tie < b->tie;
	return h->cmp(a, b) < 0;
}

static void heap_set(struct heap *h, size_t pos, struct heap_node *n)
{
	h->nodes[pos - 1] = n;
	n->pos = pos;
}

/* Puts n in the hole at pos, after moving the hole up to where n belongs. */
static void heap_sift_up(struct heap *h, size_t pos, struct heap_node *n)
{
	while (pos > 1) {
		struct heap_node *parent = h->nodes[pos / 2 - 1];

		if (!node_before(h, n, parent))
			break;
		heap_set(h, pos, parent);
		pos /= 2;
	}
	heap_set(h, pos, n);
}

static void heap_sift_down(struct heap *h, size_t pos, struct heap_node *n)
{
	for (;;) {
		size_t child = pos * 2;

		if (child > h->n)
			break;
		if (child < h->n &&
		    node_before(h, h->nodes[child], h->nodes[child - 1]))
			child++;
		if (!node_before(h, h->nodes[child - 1], n))
			break;
		heap_set(h, pos, h->nodes[child - 1]);
		pos = child;
	}
	heap_set(h, pos, n);
}

/* Puts n in the hole at pos, whichever way it has to move. */
static void heap_place(struct heap *h, size_t pos, struct heap_node *n)
{
	if (pos > 1 && node_before(h, n, h->nodes[pos / 2 - 1]))
		heap_sift_up(h, pos, n);
	else
		heap_sift_down(h, pos, n);
}

void heap_done(struct heap *h)
{
	free(h->nodes);
	*h = (struct heap){ 0 };
}

struct heap_node *heap_min(const struct heap *h)
{
	return h->n ? h->nodes[0] : NULL;
}

void heap_insert(struct heap *h, struct heap_node *n)
{
	CHECK(n->pos == 0);
	if (h->n == h->cap) {
		h->cap = MAX(h->cap * 2, (size_t)CAP_MIN);
		h->nodes = xrealloc(h->nodes, h->cap * sizeof(*h->nodes));
	}
	h->n++;
	heap_sift_up(h, h->n, n);
}

void heap_remove(struct heap *h, struct heap_node *n)
{
	size_t pos = n->pos;
	struct heap_node *last;

	if (pos == 0)
		return;
	CHECK(pos <= h->n && h->nodes[pos - 1] == n);
	last = h->nodes[h->n - 1];
	h->n--;
	n->pos = 0;
	if (last != n)
		heap_place(h, pos, last);
}

void heap_update(struct heap *h, struct heap_node *n, uint64_t key)
{
	n->key = key;
	if (n->pos == 0) {
		heap_insert(h, n);
		return;
	}
	CHECK(n->pos <= h->n && h->nodes[n->pos - 1] == n);
	heap_place(h, n->pos, n);
}

size_t heap_upto(struct heap *h, uint64_t key, struct heap_node **ret,
		 size_t max)
{
	size_t n = 0;

	while (n < max && h->n > 0 && h->nodes[0]->key <= key) {
		ret[n] = h->nodes[0];
		heap_remove(h, ret[n++]);
	}
	for (size_t i = 0; i < n; i++)
		heap_insert(h, ret[i]);
	return n;
}

static void each_below(const struct heap *h, size_t pos, uint64_t key,
		       void (*fn)(void *ctx, struct heap_node *n), void *ctx)
{
	if (pos > h->n || h->nodes[pos - 1]->key > key)
		return; /* what is below it comes later still */
	fn(ctx, h->nodes[pos - 1]);
	each_below(h, pos * 2, key, fn, ctx);
	each_below(h, pos * 2 + 1, key, fn, ctx);
}

void heap_each_upto(const struct heap *h, uint64_t key,
		    void (*fn)(void *ctx, struct heap_node *n), void *ctx)
{
	each_below(h, 1, key, fn, ctx);
}
