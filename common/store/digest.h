/*
 * A digest of all keys and values of a store: two replicas that applied the
 * same entries have the same one. It is of one moment, whatever is written
 * meanwhile, and tells by its index which that was. Not cryptographic: it finds
 * replicas that differ by a mistake.
 *
 * format| is left out: each replica upgrades its store by itself. All else
 * follows from the log.
 */
#ifndef CORVO_DIGEST_H
#define CORVO_DIGEST_H

#include "store/kv.h"

#define DIGEST_TEXT_LEN 32 /* hex digits */

struct digest;

/* Of the store as it is now; what is gathered elsewhere is not in it. Any
 * thread, one at a time. */
struct digest *digest_new(struct kv *kv);
void digest_free(struct digest *d); /* NULL: nothing */
/* Reads on, for about so many bytes. 1: there is more; 0: that is all; or
 * -ERR_*. */
int digest_step(struct digest *d, size_t bytes);

struct digest_result {
	uint64_t index; /* of the last entry applied; 0: none */
	uint64_t seq;   /* newest event */
	uint64_t keys, bytes;
	char text[DIGEST_TEXT_LEN + 1];
};

/* After digest_step has said that this is all. */
void digest_result(const struct digest *d, struct digest_result *ret);

#endif
