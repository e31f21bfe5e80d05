/*
 * Ordered key-value store as the state machine sees it: RocksDB, or memory for
 * tests. Keys are bytes in memcmp order. One thread writes; any thread may
 * read (each with its own iterator).
 *
 * Writes are atomic per batch and lost in a crash unless flushed: the raft log
 * is the write-ahead log, so RocksDB's own is off. Everything is in one column
 * family, so a flush is always a prefix of the batches in order.
 */
#ifndef CORVO_KV_H
#define CORVO_KV_H

#include "util/arena.h"
#include "util/buf.h"

struct kv;
struct kv_iter;
struct kv_batch;
struct table;

struct kv_options {
	uint64_t write_buffer_bytes;
	uint64_t cache_bytes;
	bool read_only; /* a checkpoint, or a look from outside */
	/* There is no room on the disk: what is written stays in memory until
	 * kv_set_write_buffer is called. */
	bool no_room;
};

/* 0 or -ERR_STORAGE_FULL, -ERR_STORAGE_ERROR with a sentence in why. */
int kv_rocks_open(const char *path, const struct kv_options *o, struct kv **ret,
		  struct buf *why);
struct kv *kv_mem_new(void);
/*
 * In front of another store, which is closed with it: batches gather in memory
 * and are written below together, by a thread of its own, when they weigh that
 * much. What came and went meanwhile is never written. Reads see all of it.
 * Memory: three and a half times that weight at most; a write that would be
 * more waits. Who asks kv_is_behind before it makes more work never has to.
 *
 * An error of that thread is the answer to all writes from then on.
 */
struct kv *kv_behind_new(struct kv *below, size_t bytes);
/* Called every so often while a write waits, up to a minute: who watches over
 * the caller shall know that it is not stuck. */
void kv_behind_on_wait(struct kv *kv, void (*fn)(void *ctx), void *ctx);
/* More was written than could be passed on: it is time to write less. */
bool kv_is_behind(struct kv *kv);
void kv_close(struct kv *kv);

/* 1: found, the value replaces what is in `ret`; 0: absent; or -ERR_*. */
int kv_get(struct kv *kv, struct str key, struct buf *ret);
/* The same, with a copy of the value in the arena; one that is empty is "". */
int kv_copy(struct kv *kv, struct str key, struct arena *a, struct str *ret);

/* Walks keys in [from, upto) as of now; upto empty: no end. */
struct kv_iter *kv_iter_new(struct kv *kv, struct str from, struct str upto);
/* Ends after that many keys: those behind them need not be looked for. */
struct kv_iter *kv_iter_first(struct kv *kv, struct str from, struct str upto,
			      size_t most);
bool kv_iter_valid(const struct kv_iter *it);
struct str kv_iter_key(const struct kv_iter *it);
struct str kv_iter_value(const struct kv_iter *it);
void kv_iter_next(struct kv_iter *it);
int kv_iter_error(const struct kv_iter *it); /* 0 or -ERR_* */
void kv_iter_free(struct kv_iter *it);

struct kv_batch *kv_batch_new(struct kv *kv);
void kv_batch_free(struct kv_batch *b);
void kv_batch_put(struct kv_batch *b, struct str key, struct str value);
/* The store does not have the key: deleted soon, it need not be written. */
void kv_batch_put_new(struct kv_batch *b, struct str key, struct str value);
void kv_batch_delete(struct kv_batch *b, struct str key);
void kv_batch_delete_range(struct kv_batch *b, struct str from,
			   struct str upto);
/* Writes and empties the batch. 0 or -ERR_*. */
int kv_write(struct kv *kv, struct kv_batch *b);
/* Writes all changes of a table (store/table.h) like a batch. 0 or -ERR_*. */
int kv_write_table(struct kv *kv, const struct table *t);

/*
 * What the store said about this thread's last -ERR_* of get, write or an
 * iterator, for the log. RocksDB names the file.
 */
const char *kv_error_text(void);

/*
 * Hears of every error of every store of this process, on the thread that met
 * it. Set once, before there are several threads.
 */
typedef void kv_error_fn(const char *text);
void kv_on_error(kv_error_fn *fn);

/* Everything written so far is on disk. Any thread; may take long. */
int kv_flush(struct kv *kv, struct buf *why);
/* Flushes, then hard-links the files into a new directory `path`. */
int kv_checkpoint(struct kv *kv, const char *path, struct buf *why);

/* Little will be asked of it for a while: memory it can do without goes. False:
 * it still puts in order what was written, and has more to give afterwards. */
bool kv_rest(struct kv *kv);

/* Another size of the write buffer, from now on, and room. 0 or -ERR_*. */
int kv_set_write_buffer(struct kv *kv, uint64_t bytes);

/* kv_mem only: forgets writes since the last kv_flush, as a crash would. */
void kv_mem_crash(struct kv *kv);
/* kv_behind only: forgets what is not below yet, as a crash would. */
void kv_behind_crash(struct kv *kv);

#endif
