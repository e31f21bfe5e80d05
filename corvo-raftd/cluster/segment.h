/*
 * A segment of the log, as libraft 0.15 writes it, read without the library:
 * a word that says the format, then batches of entries.
 *
 *   crc of the header:4  crc of the data:4
 *   header: entries:8, for each term:8 type:1 unused:3 length:4
 *   data:   the entries
 *
 * little-endian. An open segment has its full size from the start and is
 * filled up with zeros; a write replaces the block it begins in. Neither kind
 * says in itself at which index it begins.
 */
#ifndef CORVO_SEGMENT_H
#define CORVO_SEGMENT_H

#include "proto/origin.h"
#include "util/buf.h"

enum segment_entry_type {
	SEGMENT_COMMAND = 1,
	SEGMENT_BARRIER,
	SEGMENT_MEMBERS, /* the configuration of the cluster */
};

struct segment_entry {
	uint64_t index;
	uint64_t term;
	unsigned type;
	struct str data;
};

/* False ends the walk. */
typedef bool segment_fn(void *ctx, const struct segment_entry *e);

enum segment_end {
	SEGMENT_WHOLE,   /* batches up to the last byte */
	SEGMENT_UNUSED,  /* then only zeros */
	SEGMENT_BROKEN,  /* then something that is no batch */
	SEGMENT_CUT,     /* the file ends in the middle of a batch */
	SEGMENT_STRANGE, /* no segment, or one of another format */
	SEGMENT_STOPPED, /* fn returned false */
};

struct segment_walk {
	struct str bytes; /* the file */
	uint64_t next;    /* index of the next entry: set before the walk */
	size_t end;       /* of the last batch that can be read */
};

/* Gives fn every entry, up to the first batch that cannot be read. */
enum segment_end segment_walk(struct segment_walk *w, segment_fn *fn,
			      void *ctx);

/* Appends a batch of that entry to what is to be a closed segment. Its data
 * must be whole words, as all that the library writes are. */
void segment_put(struct buf *b, const struct segment_entry *e);

/*
 * The highest index that entries of this history (none: of any), found anywhere
 * after byte `at`, know to have been in the log for good; 0: there are none.
 */
uint64_t segment_committed_after(struct str bytes, size_t at,
				 const struct history *h);

#endif
