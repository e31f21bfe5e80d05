/*
 * A store in front of another: batches are gathered in memory and written
 * below by a thread of its own, many at a time. See kv_behind_new in kv.h.
 *
 * What is written goes to a table, `now`. When that is large it becomes `past`,
 * which does not change any more, and is written below at once; so what is
 * below is always a prefix of the batches in order, as it would be without
 * this. Then it is `older`, until the next one takes its place or nothing was
 * written for some seconds: whoever follows what happens finds it in memory.
 *
 * Iterators are in kv_behind_iter.c, the thread in kv_behind_writer.c.
 */
#include <stdio.h>
#include <stdlib.h>

#include "store/batch_list.h"
#include "store/kv_behind_impl.h"
#include "util/clock.h"

/* Without a write for some seconds what gathered is written, unless it is
 * little, and memory for the next one is given back. */
#define REST_PART 64 /* of the limit: little */
/* So many reads after that, and it rests once more. */
#define REST_READS 256

/* A write that waits says so so often, and does so for so long. */
#define WAIT_TELL_NS (500 * NS_PER_MS)
#define WAIT_TOLD_NS (60 * NS_PER_S)

/* --- tables, under the lock --- */

static struct held *held_make(const struct behind *s)
{
	struct held *h = xmalloc(sizeof(*h));

	table_init(&h->t, 2 * s->limit);
	h->refs = 1;
	return h;
}

static struct held *held_new(struct behind *s)
{
	struct held *h = s->spare;

	if (h == NULL)
		return held_make(s);
	s->spare = NULL;
	h->refs = 1;
	return h;
}

void held_unref(struct behind *s, struct held *h)
{
	if (h == NULL || --h->refs > 0)
		return;
	if (s->spare == NULL) {
		table_empty(&h->t);
		s->spare = h;
		return;
	}
	table_done(&h->t);
	free(h);
}

/* What gathered is given to the writer, which has nothing to do. */
void behind_turn_over(struct behind *s)
{
	CHECK(!s->writing);
	table_sort_walked(&s->now->t);
	held_unref(s, s->older);
	s->older = s->past;
	s->past = s->now;
	s->now = held_new(s);
	s->writing = true;
	behind_wake(s);
}

static void wait_for_writer(struct behind *s)
{
	while (s->writing)
		behind_wait(s);
}

/* The writer's error, as that of whoever asks now. */
static int tell_error(const struct behind *s, struct buf *why)
{
	if (s->err == 0)
		return 0;
	if (why != NULL)
		buf_puts(why, s->err_text);
	return kv_error_set(s->err, s->err_text);
}

/* Everything written until now is below. */
static int drain(struct behind *s, struct buf *why)
{
	int r;

	behind_lock(s);
	wait_for_writer(s);
	if (s->err == 0 && s->now->t.bytes > 0) {
		behind_turn_over(s);
		wait_for_writer(s);
	}
	r = tell_error(s, why);
	behind_unlock(s);
	return r;
}

/* --- for the writer --- */

/* A table keeps the memory of all that it once had. */
static void shrink_now(struct behind *s)
{
	struct held *old = s->now;

	s->now = held_make(s);
	table_merge(&s->now->t, &old->t);
	held_unref(s, old);
}

/* Nothing is written for a while: what is below need not be here, too, and
 * memory for the next time is given back. */
void behind_release(struct behind *s)
{
	held_unref(s, s->older);
	s->older = NULL;
	if (s->err == 0) {
		held_unref(s, s->past);
		s->past = NULL;
	}
	shrink_now(s);
	if (s->spare == NULL)
		return;
	table_done(&s->spare->t);
	free(s->spare);
	s->spare = NULL;
}

void behind_note_read(struct behind *s)
{
	s->was_read = true;
	if (!s->rested || ++s->reads < REST_READS)
		return;
	s->rested = false;
	behind_wake(s);
}

bool behind_is_worth_writing(struct behind *s)
{
	return table_weight(&s->now->t) > s->limit / REST_PART;
}

void behind_pass_on(struct behind *s)
{
	const struct table *past = &s->past->t; /* nobody changes it now */
	int r;

	behind_unlock(s);
	r = kv_write_table(s->below, past);
	behind_lock(s);
	s->writing = s->rested = false;
	if (r < 0) {
		s->err = r;
		(void)snprintf(s->err_text, sizeof(s->err_text), "%s",
			       kv_error_text());
	}
	behind_wake(s);
}

static void behind_close(struct kv *kv)
{
	struct behind *s = behind_of(kv);

	(void)drain(s, NULL); /* it was told; the raft log has it all */
	behind_writer_end(s);
	CHECK(s->past == NULL || s->past->refs == 1);
	s->err = 0;
	behind_release(s);
	CHECK(s->now->refs == 1);
	table_done(&s->now->t);
	free(s->now);
	kv_close(s->below);
	free(s);
}

/* --- reads --- */

/* 1 found, 0 gone, -1: look below. */
static int find_in(const struct held *h, struct str key, struct str *ret)
{
	const struct table_entry *e;

	if (h == NULL)
		return -1;
	e = table_find(&h->t, key);
	if (e == NULL)
		return table_in_deleted_range(&h->t, key) ? 0 : -1;
	*ret = e->value;
	return ret->p != NULL;
}

/* Likewise; under the lock, for as long as the value is used. */
static int find(struct behind *s, struct str key, struct str *ret)
{
	int r = find_in(s->now, key, ret);

	if (r < 0)
		r = find_in(s->past, key, ret);
	if (r < 0)
		r = find_in(s->older, key, ret);
	if (r < 0)
		behind_note_read(s);
	return r;
}

static int behind_get(struct kv *kv, struct str key, struct buf *ret)
{
	struct behind *s = behind_of(kv);
	struct str value;
	int r;

	behind_lock(s);
	r = find(s, key, &value);
	if (r > 0) {
		buf_clear(ret);
		buf_put_str(ret, value);
	}
	behind_unlock(s);
	return r >= 0 ? r : kv_get(s->below, key, ret);
}

static int behind_copy(struct kv *kv, struct str key, struct arena *a,
		       struct str *ret)
{
	struct behind *s = behind_of(kv);
	int r;

	behind_lock(s);
	r = find(s, key, ret);
	if (r > 0)
		*ret = arena_copy(a, *ret);
	behind_unlock(s);
	return r >= 0 ? r : kv_copy(s->below, key, a, ret);
}

/* --- writes --- */

static struct kv_batch *behind_batch_new(struct kv *kv _unused_)
{
	return batch_list_new(&behind_ops);
}

static bool is_heavy(const struct behind *s)
{
	return table_weight(&s->now->t) >= s->limit;
}

static bool is_too_heavy(const struct behind *s)
{
	return table_weight(&s->now->t) >= s->limit + s->limit / 2;
}

/* The writer does not keep up: so much and no more is in memory. */
static void wait_for_room(struct behind *s)
{
	uint64_t began_ns = clock_mono_ns(), now_ns = began_ns;

	while (s->writing && is_too_heavy(s)) {
		if (behind_wait_until(s, now_ns + WAIT_TELL_NS))
			continue;
		now_ns = clock_mono_ns();
		if (s->on_wait != NULL && now_ns - began_ns < WAIT_TOLD_NS)
			s->on_wait(s->on_wait_ctx);
	}
}

static bool behind_is_behind(struct kv *kv)
{
	struct behind *s = behind_of(kv);
	bool yes;

	behind_lock(s);
	yes = s->writing && is_heavy(s);
	behind_unlock(s);
	return yes;
}

/* The writer rests again when more than a little has gathered. */
static void note_write(struct behind *s)
{
	s->was_written = true;
	if (!s->rested || !behind_is_worth_writing(s))
		return;
	s->rested = false;
	behind_wake(s);
}

static void apply(struct table *t, const struct batch_op *op)
{
	switch (op->kind) {
	case BATCH_PUT:
	case BATCH_PUT_NEW:
		table_set(t, op->key, op->value.p ? op->value : STR(""),
			  op->kind == BATCH_PUT_NEW);
		break;
	case BATCH_DELETE:
		table_set(t, op->key, STR_NULL, false);
		break;
	case BATCH_DELETE_RANGE:
		table_delete_range(t, op->key, op->value);
		break;
	}
}

/* 0: there is room for what the caller is about to write. */
static int begin_write(struct behind *s)
{
	behind_lock(s);
	wait_for_room(s);
	note_write(s);
	return tell_error(s, NULL);
}

static int end_write(struct behind *s, int r)
{
	if (r == 0 && !s->writing && is_heavy(s))
		behind_turn_over(s);
	behind_unlock(s);
	return r;
}

static int behind_write(struct kv *kv, struct kv_batch *kb)
{
	struct behind *s = behind_of(kv);
	struct batch_list *b = batch_list_of(kb);
	int r = begin_write(s);

	for (size_t i = 0; i < b->n && r == 0; i++)
		apply(&s->now->t, &b->ops[i]);
	batch_list_clear(b);
	return end_write(s, r);
}

static int behind_write_table(struct kv *kv, const struct table *t)
{
	struct behind *s = behind_of(kv);
	int r = begin_write(s);

	if (r == 0)
		table_merge(&s->now->t, t);
	return end_write(s, r);
}

static int behind_flush(struct kv *kv, struct buf *why)
{
	struct behind *s = behind_of(kv);
	int r = drain(s, why);

	return r < 0 ? r : kv_flush(s->below, why);
}

static int behind_checkpoint(struct kv *kv, const char *path, struct buf *why)
{
	struct behind *s = behind_of(kv);
	int r = drain(s, why);

	return r < 0 ? r : kv_checkpoint(s->below, path, why);
}

static bool behind_rest(struct kv *kv)
{
	return kv_rest(behind_of(kv)->below); /* it does so by itself */
}

static int behind_set_write_buffer(struct kv *kv, uint64_t bytes)
{
	return kv_set_write_buffer(behind_of(kv)->below, bytes);
}

const struct kv_ops behind_ops = {
	.close = behind_close,
	.get = behind_get,
	.copy = behind_copy,
	.iter_new = behind_iter_new,
	.iter_valid = behind_iter_valid,
	.iter_key = behind_iter_key,
	.iter_value = behind_iter_value,
	.iter_next = behind_iter_next,
	.iter_error = behind_iter_error,
	.iter_free = behind_iter_free,
	.batch_new = behind_batch_new,
	.batch_free = batch_list_free,
	.batch_put = batch_list_put,
	.batch_put_new = batch_list_put_new,
	.batch_delete = batch_list_delete,
	.batch_delete_range = batch_list_delete_range,
	.write = behind_write,
	.write_table = behind_write_table,
	.flush = behind_flush,
	.checkpoint = behind_checkpoint,
	.set_write_buffer = behind_set_write_buffer,
	.rest = behind_rest,
	.is_behind = behind_is_behind,
};

void kv_behind_crash(struct kv *kv)
{
	struct behind *s = behind_of(kv);

	CHECK(kv->ops == &behind_ops);
	behind_lock(s);
	wait_for_writer(s);
	held_unref(s, s->older);
	held_unref(s, s->past);
	held_unref(s, s->now);
	s->older = s->past = NULL;
	s->now = held_new(s);
	behind_unlock(s);
}

void kv_behind_on_wait(struct kv *kv, void (*fn)(void *ctx), void *ctx)
{
	struct behind *s = behind_of(kv);

	s->on_wait = fn;
	s->on_wait_ctx = ctx;
}

struct kv *kv_behind_new(struct kv *below, size_t bytes)
{
	struct behind *s = xcalloc(1, sizeof(*s));

	s->kv.ops = &behind_ops;
	s->below = below;
	s->limit = bytes;
	s->now = held_new(s);
	behind_writer_begin(s);
	return &s->kv;
}
