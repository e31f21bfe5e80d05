/*
 * The writes of one raft entry or several: reads see them at once, the store
 * gets them at once and sorted (measured half again as fast).
 */
#ifndef CORVO_TXN_H
#define CORVO_TXN_H

#include "store/kv.h"
#include "util/arena.h"

struct txn;

struct txn *txn_new(struct kv *kv); /* reusable */
void txn_free(struct txn *t);

/* 1 found (slice valid until the next txn call), 0 absent, -ERR_*. */
int txn_get(struct txn *t, struct str key, struct str *ret);
/* It holds a change of the key: what the store has is old. */
bool txn_has(const struct txn *t, struct str key);
void txn_put(struct txn *t, struct str key, struct str value);
/*
 * The same for a key that the store does not have: put and deleted in one
 * txn, it is not written at all.
 */
void txn_put_new(struct txn *t, struct str key, struct str value);
void txn_delete(struct txn *t, struct str key);
/* Keys in [from, upto) go, also those this txn has written. */
void txn_delete_range(struct txn *t, struct str from, struct str upto);

/*
 * Calls fn for each live key in [from, upto), store and own writes merged, in
 * order, until it returns false. fn may not write to the txn.
 */
typedef bool txn_scan_fn(void *ctx, struct str key, struct str value);
int txn_scan(struct txn *t, struct str from, struct str upto, txn_scan_fn *fn,
	     void *ctx);
/* The same for the first `most` of them: those behind are not looked for. */
int txn_scan_first(struct txn *t, struct str from, struct str upto, size_t most,
		   txn_scan_fn *fn, void *ctx);

/* Bytes of keys and values gathered since the last commit. */
size_t txn_bytes(const struct txn *t);
/*
 * Weight of all changes ever made: bytes of keys and values, also of those
 * written over since, and a little for each change.
 */
uint64_t txn_written(const struct txn *t);

/*
 * txn_back takes back the changes since the last txn_mark, or commit. It may be
 * called from inside a scan that is not gone on with.
 */
void txn_mark(struct txn *t);
void txn_back(struct txn *t);

int txn_commit(struct txn *t); /* writes them, forgets them; 0 or -ERR_* */

#endif
