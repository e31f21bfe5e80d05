/*
 * The files of our own raft log, byte by byte. Little-endian everywhere.
 *
 * A segment begins with a head of one page, of which 32 bytes are used:
 *
 *   magic:8    "corvolog"
 *   format:4   1
 *   salt:4     by chance, of this use of the file; never 0
 *   number:8   of the segment, as in its name
 *   unused:4
 *   crc:4      CRC-32C of all before it
 *
 * Records follow, one for each entry, each at a multiple of eight:
 *
 *   crc:4      CRC-32C of all after it, the padding included
 *   salt:4     of the segment
 *   length:4   of the data
 *   flushed:4  everything in this segment before that byte, and all of the
 *              segments before it, was on the disk when this was written;
 *              0: nothing is known to have been
 *   index:8
 *   term:8
 *   kind:8
 *   data, and zeros up to eight
 *
 * A file is used again and again. What stands in it from an earlier use has
 * another salt, so it is no record. Zeros are none either.
 */
#ifndef CORVO_SEGLOG_RECORD_H
#define CORVO_SEGLOG_RECORD_H

#include "util/str.h"

#define SEG_HEAD_BYTES 4096 /* before the first record */
#define SEG_HEAD_USED  32
#define REC_HEAD_BYTES 40
#define REC_SALT_AT    4
#define REC_ALIGN      8

enum rec_kind {
	/* 1 to 3: entries, as enum segment_entry_type has them */
	REC_ENTRY_MAX = 3,
	/* What was appended from `index` on does not count any more. */
	REC_TRUNCATE = 16,
	/* The log goes on in the next segment. */
	REC_END,
};

struct seg_head {
	uint64_t number;
	uint32_t salt;
};

void seg_head_put(const struct seg_head *h, char ret[SEG_HEAD_USED]);
/* False: these bytes are none. */
bool seg_head_parse(struct str bytes, struct seg_head *ret);

struct rec {
	unsigned kind;
	uint32_t flushed;
	uint64_t index, term;
	struct str data;
};

/* Of the record with so much data. */
static inline size_t rec_size(size_t data)
{
	return REC_HEAD_BYTES +
	       ((data + REC_ALIGN - 1) & ~(size_t)(REC_ALIGN - 1));
}

/* What stands before the data; rec_size says how many zeros come after it. */
void rec_head_put(const struct rec *r, uint32_t salt, char ret[REC_HEAD_BYTES]);

/* The record at that byte of a segment. False: there is none. */
bool rec_parse(struct str segment, size_t at, uint32_t salt, struct rec *ret);

static inline bool rec_is_entry(const struct rec *r)
{
	return r->kind <= REC_ENTRY_MAX;
}

/*
 * Whether a record after byte `at` says that the one at `flushed` was on the
 * disk: then that it cannot be read is no unfinished write.
 */
bool rec_says_flushed(struct str segment, size_t at, uint32_t salt,
		      size_t flushed);

#endif
