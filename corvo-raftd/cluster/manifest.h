/*
 * What a raft snapshot of ours holds: not the state, which is in the store, but
 * what the store must have reached for the log before it to be missed by
 * nobody. One line of text.
 */
#ifndef CORVO_MANIFEST_H
#define CORVO_MANIFEST_H

#include "proto/origin.h"

#define MANIFEST_BYTES 256 /* in the file, filled up with zeros */

struct manifest {
	uint64_t index;   /* of the snapshot: the log was cut here */
	uint64_t applied; /* of the last entry before, if they differ: others
			     than commands change nothing */
	struct entry_origin origin; /* of that entry */
	/* Of a snapshot that came from another node, with a store that had
	 * applied more: up to which entry, and of that; 0: it had not. Those
	 * entries were committed, but are not in the log yet. */
	uint64_t store;
	struct entry_origin store_origin; /* its history is that of `origin` */
};

void manifest_put(struct buf *b, const struct manifest *m); /* all bytes */
bool manifest_parse(struct str s, struct manifest *ret);

#endif
