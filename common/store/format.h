/*
 * The format of a store: one number for the layout of its keys (key.h) and for
 * what its records and the entries of its log mean, STORED_FORMAT. A store
 * carries it; one without is of format 1, which 0.4.0 wrote.
 */
#ifndef CORVO_FORMAT_H
#define CORVO_FORMAT_H

#include "proto/frame.h"
#include "store/key.h"
#include "store/kv.h"

/* Of the store; 0: it is empty. 0 or -ERR_*. */
int format_read(struct kv *kv, uint32_t *ret);

/* How an upgrade goes; all of it may be 0. */
struct format_upgrade {
	/* Called after each batch, with the keys moved so far. */
	void (*on_batch)(void *ctx, uint64_t keys);
	void *ctx;
	uint32_t batch_keys; /* 0: as many as are good */
};

/*
 * Makes the store one of STORED_FORMAT before anything else reads it: an empty
 * one gets the number, an older one is upgraded in place. A crash in between
 * loses nothing: the next call goes on. u may be NULL. 0, or with a sentence
 * in why:
 * -ERR_CONFLICT for a newer one, or -ERR_* of the store.
 */
int format_prepare(struct kv *kv, const struct format_upgrade *u,
		   struct buf *why);

/* The same for who only reads: an older one is refused as well. */
int format_check(struct kv *kv, struct buf *why);

/*
 * What a key of format 1 is now. False: what it was, or it is none; then *ret
 * is not set.
 */
bool format_key_of_1(struct str key, struct key *ret);

#endif
