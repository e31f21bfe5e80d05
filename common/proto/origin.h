/*
 * Where the state in a store comes from: which history, and which entry of the
 * log was the last one.
 *
 * A history is one line of changes, from the first entry of a new node on. Its
 * id is made by chance when it begins, travels in every entry of the log and
 * in every snapshot, and is written to the store with the changes. A log, a
 * store, a checkpoint or a view with another id tells of other changes under
 * the same numbers, and does not fit.
 */
#ifndef CORVO_ORIGIN_H
#define CORVO_ORIGIN_H

#include "util/buf.h"

#define HISTORY_BYTES    16
#define HISTORY_TEXT_LEN (2 * HISTORY_BYTES)

struct history {
	uint8_t id[HISTORY_BYTES]; /* zeros: none, data of an old version */
};

struct entry_origin {
	uint64_t term; /* of the raft entry; 0: not known */
	uint64_t id;   /* by chance, no two entries have it; 0: not known */
	struct history history;
};

void history_make(struct history *ret); /* from the system's randomness */
bool history_is_none(const struct history *h);
bool history_eq(const struct history *a, const struct history *b);
/* 32 hex digits; nothing for none. */
void history_put(struct buf *b, const struct history *h);
/* False: not such a text. The empty one is none. */
bool history_parse(struct str s, struct history *ret);

/*
 * Whether what a store says of the last entry it applied is true of the entry
 * the log has there. A store of an old version says nothing, which is true.
 */
bool origin_fits(const struct entry_origin *store,
		 const struct entry_origin *log);

#endif
