/*
 * A batch as the list of what is to be done, for stores that keep it
 * themselves until it is written. Keys and values are copied.
 */
#ifndef CORVO_BATCH_LIST_H
#define CORVO_BATCH_LIST_H

#include "store/kv_impl.h"
#include "util/arena.h"

enum batch_kind { BATCH_PUT, BATCH_PUT_NEW, BATCH_DELETE, BATCH_DELETE_RANGE };

struct batch_op {
	enum batch_kind kind;
	struct str key;
	struct str value; /* BATCH_DELETE_RANGE: the end */
};

struct batch_list {
	struct kv_batch b;
	struct arena arena;
	struct batch_op *ops; /* in order */
	size_t n, cap;
};

/* ops: of the store it is for. */
struct kv_batch *batch_list_new(const struct kv_ops *ops);
struct batch_list *batch_list_of(struct kv_batch *b);
void batch_list_clear(struct batch_list *l);

/* As in struct kv_ops. */
void batch_list_free(struct kv_batch *b);
void batch_list_put(struct kv_batch *b, struct str key, struct str value);
void batch_list_put_new(struct kv_batch *b, struct str key, struct str value);
void batch_list_delete(struct kv_batch *b, struct str key);
void batch_list_delete_range(struct kv_batch *b, struct str from,
			     struct str upto);

#endif
