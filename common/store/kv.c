/*
 * Calls of kv.h, passed on to RocksDB or to memory.
 */
#include <stdio.h>

#include "store/kv_impl.h"
#include "store/table.h"

/* Per thread, so that a reader does not overwrite what the writer met. */
static _Thread_local char error_text[512];
static kv_error_fn *error_fn;

void kv_on_error(kv_error_fn *fn)
{
	error_fn = fn;
}

int kv_error_set(int err, const char *text)
{
	(void)snprintf(error_text, sizeof(error_text), "%s", text);
	if (error_fn != NULL)
		error_fn(error_text);
	return err;
}

const char *kv_error_text(void)
{
	return error_text;
}

void kv_close(struct kv *kv)
{
	if (kv != NULL)
		kv->ops->close(kv);
}

int kv_get(struct kv *kv, struct str key, struct buf *ret)
{
	return kv->ops->get(kv, key, ret);
}

int kv_copy(struct kv *kv, struct str key, struct arena *a, struct str *ret)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	int r;

	if (kv->ops->copy != NULL)
		return kv->ops->copy(kv, key, a, ret);
	r = kv->ops->get(kv, key, &b);
	if (r > 0)
		*ret = arena_copy(a, b.n > 0 ? buf_str(&b) : STR(""));
	return r;
}

struct kv_iter *kv_iter_first(struct kv *kv, struct str from, struct str upto,
			      size_t most)
{
	struct kv_iter *it = kv->ops->iter_new(kv, from, upto, most);

	it->left = most;
	return it;
}

struct kv_iter *kv_iter_new(struct kv *kv, struct str from, struct str upto)
{
	return kv_iter_first(kv, from, upto, SIZE_MAX);
}

bool kv_iter_valid(const struct kv_iter *it)
{
	return it->left > 0 && it->ops->iter_valid(it);
}

struct str kv_iter_key(const struct kv_iter *it)
{
	return it->ops->iter_key(it);
}

struct str kv_iter_value(const struct kv_iter *it)
{
	return it->ops->iter_value(it);
}

void kv_iter_next(struct kv_iter *it)
{
	it->left--;
	it->ops->iter_next(it);
}

int kv_iter_error(const struct kv_iter *it)
{
	return it->ops->iter_error(it);
}

void kv_iter_free(struct kv_iter *it)
{
	if (it != NULL)
		it->ops->iter_free(it);
}

struct kv_batch *kv_batch_new(struct kv *kv)
{
	return kv->ops->batch_new(kv);
}

void kv_batch_free(struct kv_batch *b)
{
	if (b != NULL)
		b->ops->batch_free(b);
}

void kv_batch_put(struct kv_batch *b, struct str key, struct str value)
{
	b->ops->batch_put(b, key, value);
}

void kv_batch_put_new(struct kv_batch *b, struct str key, struct str value)
{
	b->ops->batch_put_new(b, key, value);
}

void kv_batch_delete(struct kv_batch *b, struct str key)
{
	b->ops->batch_delete(b, key);
}

void kv_batch_delete_range(struct kv_batch *b, struct str from, struct str upto)
{
	b->ops->batch_delete_range(b, from, upto);
}

int kv_write(struct kv *kv, struct kv_batch *b)
{
	CHECK(kv->ops == b->ops);
	return kv->ops->write(kv, b);
}

int kv_write_as_batch(struct kv *kv, const struct table *t)
{
	struct kv_batch *b = kv_batch_new(kv);
	int r;

	table_fill_batch(t, b);
	r = kv_write(kv, b);
	kv_batch_free(b);
	return r;
}

int kv_write_table(struct kv *kv, const struct table *t)
{
	return kv->ops->write_table != NULL ? kv->ops->write_table(kv, t)
					    : kv_write_as_batch(kv, t);
}

int kv_flush(struct kv *kv, struct buf *why)
{
	return kv->ops->flush(kv, why);
}

int kv_checkpoint(struct kv *kv, const char *path, struct buf *why)
{
	return kv->ops->checkpoint(kv, path, why);
}

bool kv_is_behind(struct kv *kv)
{
	return kv->ops->is_behind != NULL && kv->ops->is_behind(kv);
}

bool kv_rest(struct kv *kv)
{
	return kv->ops->rest(kv);
}

int kv_set_write_buffer(struct kv *kv, uint64_t bytes)
{
	return kv->ops->set_write_buffer(kv, bytes);
}
