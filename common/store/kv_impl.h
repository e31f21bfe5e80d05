/*
 * What an implementation of kv.h provides. Each embeds the three structs as
 * its first member; kv.c calls through `ops`.
 */
#ifndef CORVO_KV_IMPL_H
#define CORVO_KV_IMPL_H

#include "store/kv.h"

struct kv_ops {
	void (*close)(struct kv *kv);
	int (*get)(struct kv *kv, struct str key, struct buf *ret);
	/* NULL: get is used */
	int (*copy)(struct kv *kv, struct str key, struct arena *a,
		    struct str *ret);
	/* More than `most` keys will not be asked for. */
	struct kv_iter *(*iter_new)(struct kv *kv, struct str from,
				    struct str upto, size_t most);
	bool (*iter_valid)(const struct kv_iter *it);
	struct str (*iter_key)(const struct kv_iter *it);
	struct str (*iter_value)(const struct kv_iter *it);
	void (*iter_next)(struct kv_iter *it);
	int (*iter_error)(const struct kv_iter *it);
	void (*iter_free)(struct kv_iter *it);
	struct kv_batch *(*batch_new)(struct kv *kv);
	void (*batch_free)(struct kv_batch *b);
	void (*batch_put)(struct kv_batch *b, struct str key, struct str value);
	void (*batch_put_new)(struct kv_batch *b, struct str key,
			      struct str value);
	void (*batch_delete)(struct kv_batch *b, struct str key);
	void (*batch_delete_range)(struct kv_batch *b, struct str from,
				   struct str upto);
	int (*write)(struct kv *kv, struct kv_batch *b);
	/* NULL: a batch is made of it */
	int (*write_table)(struct kv *kv, const struct table *t);
	int (*flush)(struct kv *kv, struct buf *why);
	int (*checkpoint)(struct kv *kv, const char *path, struct buf *why);
	int (*set_write_buffer)(struct kv *kv, uint64_t bytes);
	bool (*rest)(struct kv *kv);
	bool (*is_behind)(struct kv *kv); /* NULL: never */
};

struct kv {
	const struct kv_ops *ops;
};

struct kv_iter {
	const struct kv_ops *ops;
	size_t left; /* kv.c's: keys until it ends */
};

struct kv_batch {
	const struct kv_ops *ops;
};

/* What kv_write_table does where a store has no way of its own. */
int kv_write_as_batch(struct kv *kv, const struct table *t);

/* Keeps `text` for kv_error_text; returns err. */
int kv_error_set(int err, const char *text);

#endif
