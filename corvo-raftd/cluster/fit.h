/*
 * Whether a log and a store belong together: one history, and the last entry
 * that the store applied is in the log, or known to its snapshot (manifest.h).
 */
#ifndef CORVO_FIT_H
#define CORVO_FIT_H

#include "cluster/logcheck.h"

/* What a store says of itself. */
struct store_state {
	uint64_t index; /* of the last entry applied; 0: empty */
	struct entry_origin origin;
};

/* A log that was read, and the store beside it. */
struct fit {
	struct log_check log;
	struct store_state store;
	bool has_entry; /* the log has the entry the store ends with */
	struct entry_origin entry;
	/* Every entry, if set, in order. Negative ends the reading. */
	log_entry_fn *fn;
	void *ctx;
};

/* Reads the log in dir. 0, -errno with a sentence in why, or what fn returned.
 */
int fit_read(struct fit *f, const char *dir, struct buf *why);
void fit_done(struct fit *f);

/* False with a clause in why that names both sides. The log may be damaged. */
bool fit_judge(const struct fit *f, struct buf *why);

/* The entries after the store's, as far as they can be read, go on from it. */
bool fit_goes_on(const struct fit *f);

#endif
