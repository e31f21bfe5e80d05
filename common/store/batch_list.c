/*
 * See store/batch_list.h.
 */
#include "store/batch_list.h"

#include <stdlib.h>

struct kv_batch *batch_list_new(const struct kv_ops *ops)
{
	struct batch_list *l = xcalloc(1, sizeof(*l));

	l->b.ops = ops;
	l->arena.block_size = 64u << 10;
	return &l->b;
}

struct batch_list *batch_list_of(struct kv_batch *b)
{
	return container_of(b, struct batch_list, b);
}

void batch_list_clear(struct batch_list *l)
{
	l->n = 0;
	arena_reset(&l->arena);
}

void batch_list_free(struct kv_batch *b)
{
	struct batch_list *l = batch_list_of(b);

	arena_done(&l->arena);
	free(l->ops);
	free(l);
}

static void add(struct kv_batch *b, enum batch_kind kind, struct str key,
		struct str value)
{
	struct batch_list *l = batch_list_of(b);

	if (l->n == l->cap) {
		l->cap = MAX(l->cap * 2, (size_t)64);
		l->ops = xrealloc(l->ops, l->cap * sizeof(*l->ops));
	}
	l->ops[l->n++] = (struct batch_op){ kind, arena_copy(&l->arena, key),
					    arena_copy(&l->arena, value) };
}

void batch_list_put(struct kv_batch *b, struct str key, struct str value)
{
	add(b, BATCH_PUT, key, value);
}

void batch_list_put_new(struct kv_batch *b, struct str key, struct str value)
{
	add(b, BATCH_PUT_NEW, key, value);
}

void batch_list_delete(struct kv_batch *b, struct str key)
{
	add(b, BATCH_DELETE, key, STR_NULL);
}

void batch_list_delete_range(struct kv_batch *b, struct str from,
			     struct str upto)
{
	add(b, BATCH_DELETE_RANGE, from, upto);
}
