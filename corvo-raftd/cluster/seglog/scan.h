/*
 * Our own log on disk, read and judged.
 *
 * A crash leaves the last segment with one group of records that was not
 * flushed, of which any part may be there: the log ends before the first record
 * that is not whole. Nothing of that group was acknowledged. A record that
 * cannot be read although a later one says that it was flushed is damage, and
 * so is everything else that does not fit together.
 *
 * What is not noticed here: a change to the last group that was flushed, since
 * nothing after it knows of it. The mark (mark.h) does, a second later.
 */
#ifndef CORVO_SEGLOG_SCAN_H
#define CORVO_SEGLOG_SCAN_H

#include "cluster/segment.h"
#include "util/buf.h"

#define SEG_NAME_MAX 48
#define SEG_PREFIX   "log-"

/* One file of the chain. */
struct seg_file {
	char name[SEG_NAME_MAX];
	uint64_t number;
	uint32_t salt;
	size_t size;
	size_t end;          /* of the last record that counts */
	size_t used;         /* of what is not zero; only of the last one */
	uint64_t last_index; /* the highest of its entries; 0: it has none */
	bool is_ended;       /* the log goes on in the next one */
	bool is_torn; /* a part of a group that was not finished follows */
};

/* From there on no entry with that index or a higher one counts any more. */
struct seg_cut {
	uint64_t number; /* of the segment */
	size_t at;
	uint64_t index;
};

struct seglog_scan {
	/* The segments that count, oldest first: the last is the one to go on
	 * with. None: nothing was ever written. */
	struct seg_file *files;
	size_t n;
	/* Behind them: prepared, and not used yet. */
	struct seg_file *rest;
	size_t rest_n;
	/* Before them, with a gap between: not put away yet. */
	struct seg_file *old;
	size_t old_n;
	/* Entries from `first` to before `next`; equal: there are none, and
	 * both are 0 when there is nothing to tell from. */
	uint64_t first, next;
	uint64_t highest_number; /* of any file there is */
	/* What is wrong: a clause that names file and byte. Empty: nothing. */
	struct buf damage;

	/* private */
	const char *dir;
	struct seg_file *all;
	size_t all_n, all_cap;
	struct seg_cut *cuts;
	size_t cuts_n, cuts_cap;
};

/*
 * Reads the log in dir, which may be missing. 0, also when it is damaged: then
 * what is before the damage counts. -errno with a sentence in why when it
 * cannot be read at all.
 */
int seglog_scan(struct seglog_scan *s, const char *dir, struct buf *why);
void seglog_scan_done(struct seglog_scan *s);

/* Gives fn every entry that counts, in order; false ends it. *at names the file
 * meanwhile. 0 or -errno with a sentence in why. */
int seglog_each(const struct seglog_scan *s, segment_fn *fn, void *ctx,
		const char **at, struct buf *why);

#endif
