/*
 * Shared by kv_behind.c (tables and writes), kv_behind_iter.c, and
 * kv_behind_writer.c.
 */
#ifndef CORVO_KV_BEHIND_IMPL_H
#define CORVO_KV_BEHIND_IMPL_H

#include <pthread.h>

#include "store/kv_impl.h"
#include "store/table.h"

struct held {
	struct table t;
	unsigned refs; /* guarded by the lock */
};

struct behind {
	struct kv kv;
	struct kv *below;
	size_t limit; /* weight of a table that is to be written */
	pthread_t writer;
	pthread_mutex_t lock;
	pthread_cond_t changed; /* one of these: */
	struct held *now;
	struct held *past;  /* NULL: none yet */
	struct held *older; /* is below, too; or NULL */
	struct held *spare; /* empty; NULL: none */
	bool writing;       /* past is not below yet */
	bool was_read;      /* below, of late */
	bool was_written;   /* of late */
	bool rested;        /* since the last write, or many reads */
	unsigned reads;     /* below, since it rested */
	bool stop;
	void (*on_wait)(void *ctx); /* of a write; or NULL */
	void *on_wait_ctx;
	int err; /* of the writer; what is below ends there for good */
	char err_text[256];
};

extern const struct kv_ops behind_ops;

static inline struct behind *behind_of(struct kv *kv)
{
	return container_of(kv, struct behind, kv);
}

/* Under the lock; h may be NULL. */
void held_unref(struct behind *s, struct held *h);
/* Under the lock: somebody reads below. */
void behind_note_read(struct behind *s);

/* Under the lock: what gathered is `past` now, and to be passed on. */
void behind_turn_over(struct behind *s);
/* Under the lock, which it lets go meanwhile: writes `past` below. */
void behind_pass_on(struct behind *s);
/* Under the lock: little happens, so memory is given back. */
void behind_release(struct behind *s);
bool behind_is_worth_writing(struct behind *s);

/* --- kv_behind_writer.c --- */

void behind_writer_begin(struct behind *s);
/* There is nothing to be passed on any more. */
void behind_writer_end(struct behind *s);

void behind_lock(struct behind *s);
void behind_unlock(struct behind *s);
/* Under the lock, which those that wait let go meanwhile. */
void behind_wake(struct behind *s);
void behind_wait(struct behind *s);
/* False: it is that late. */
bool behind_wait_until(struct behind *s, uint64_t mono_ns);

/* --- kv_behind_iter.c --- */

struct kv_iter *behind_iter_new(struct kv *kv, struct str from, struct str upto,
				size_t most);
bool behind_iter_valid(const struct kv_iter *kit);
struct str behind_iter_key(const struct kv_iter *kit);
struct str behind_iter_value(const struct kv_iter *kit);
void behind_iter_next(struct kv_iter *kit);
int behind_iter_error(const struct kv_iter *kit);
void behind_iter_free(struct kv_iter *kit);

#endif
