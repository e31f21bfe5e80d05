/*
 * Binary min-heap of embedded nodes ordered by (key, tie, cmp). A node knows
 * its place, so it can be moved or removed in O(log n).
 */
#ifndef CORVO_HEAP_H
#define CORVO_HEAP_H

#include "util/base.h"

struct heap_node {
	uint64_t key;
	uint64_t tie; /* second order; equal keys come out by it */
	size_t pos;   /* 1-based place in the heap; 0: not in a heap */
};

struct heap {
	struct heap_node **nodes;
	size_t n;
	size_t cap;
	/*
	 * Which of two with the same key and tie comes first: <0 the first one.
	 * NULL: they come in any order. Where a tie is the hash of a name, two
	 * names may have the same.
	 */
	int (*cmp)(const struct heap_node *a, const struct heap_node *b);
};

/* Frees the array, not the nodes; forgets cmp. */
void heap_done(struct heap *h);
struct heap_node *heap_min(const struct heap *h);      /* NULL when empty */
void heap_insert(struct heap *h, struct heap_node *n); /* n->key set before */
void heap_remove(struct heap *h, struct heap_node *n); /* no-op if absent */
/* Gives n a new key: inserts it if it was not in the heap. */
void heap_update(struct heap *h, struct heap_node *n, uint64_t key);

/* The nodes up to that key in order, at most max; the heap stays as it is. */
size_t heap_upto(struct heap *h, uint64_t key, struct heap_node **ret,
		 size_t max);

/* Calls fn for every node up to that key, in no order; fn changes no key. */
void heap_each_upto(const struct heap *h, uint64_t key,
		    void (*fn)(void *ctx, struct heap_node *n), void *ctx);

#endif
