/*
 * An entry as it stands in the log: a head, the bytes, zeros up to eight.
 *
 *   length:4     of the bytes; the highest bit says that the rest follows
 *   behind:4     how far the commit was behind when this was proposed
 *   index:8      its own
 *   id:8         by chance
 *   history:16
 *
 * little-endian. Entries of the first versions have the length only. The
 * library pads entries when it writes them but not when it reads them, so
 * entries of other lengths would cut off all that follow them.
 */
#ifndef CORVO_ENTRY_H
#define CORVO_ENTRY_H

#include "proto/origin.h"

#define ENTRY_HEAD_BYTES 40
#define ENTRY_ALIGN      8

struct entry_head {
	uint64_t index; /* 0: not known, as everything below */
	/* All entries up to here were in the log for good when this one was
	 * written. */
	uint64_t committed;
	uint64_t id;
	struct history history;
};

/* Length of the entry in the log. */
size_t entry_wrapped_len(size_t len);
/* Writes so many bytes to p. */
void entry_wrap(const struct entry_head *h, struct str bytes, char *p);
/* False: it is none of ours. */
bool entry_unwrap(struct str raw, struct entry_head *ret, struct str *bytes);

#endif
