/*
 * The log on disk, read and judged before libraft sees it.
 *
 * The library ends the log in silence at the first batch of an open segment
 * that it cannot read, crashes where a file ends too early, and does not know
 * how far it was acknowledged. So every file is read here first. What a crash
 * leaves is accepted: one unfinished write at the very end. Everything else
 * that cannot be read, or does not fit together, is damage.
 *
 * What is noticed: any change to a closed segment, to a snapshot or to an
 * entry that later entries (they say how far the log was safe when they were
 * written) or the mark (mark.h) know to have been acknowledged; missing files;
 * files of another log. What is not: a change to an entry of the last second
 * before a crash that no entry written after its acknowledgement follows; it
 * looks like the write that the crash interrupted.
 */
#ifndef CORVO_LOGCHECK_H
#define CORVO_LOGCHECK_H

#include "cluster/manifest.h"
#include "cluster/mark.h"

struct log_entry {
	uint64_t index, term;
	unsigned type;              /* of enum segment_entry_type */
	struct str raw;             /* as the log has it */
	bool is_command;            /* else it changes nothing */
	struct entry_origin origin; /* of a command */
	struct str bytes;
};

/* Negative: ends the reading, which returns it. */
typedef int log_entry_fn(void *ctx, const struct log_entry *e);

struct log_segment;

struct log_check {
	/* What was found. Entries from `first` to before `next` can be read. */
	bool is_own;   /* our own log, and not the library's: ownlog.h */
	bool is_new;   /* no entry and no snapshot: nothing was ever begun */
	uint64_t term; /* of the votes; at least that of every entry */
	uint64_t first, next;
	uint64_t snapshot_term;
	struct manifest snapshot; /* index 0: none */
	uint64_t last_term;       /* of the last entry that can be read */
	uint64_t acked;           /* entries known to have been acknowledged */
	struct history history;
	struct mark mark;
	/* What is wrong: a clause that names the file. Empty: nothing. */
	struct buf damage;

	/* private */
	unsigned damages;
	const char *dir;
	struct log_segment *segments; /* the library's */
	size_t segments_n;
	const char *at; /* file being read */
	bool has_first; /* the log's first entry was read */
	log_entry_fn *fn;
	void *ctx;
	int stopped;
};

/*
 * Reads the log in dir; fn, if any, gets every entry in order, up to the first
 * damage. 0, also when it is damaged; -errno with a sentence in why when it
 * cannot be read at all; or what fn returned.
 */
int log_check(struct log_check *c, const char *dir, log_entry_fn *fn, void *ctx,
	      struct buf *why);
void log_check_done(struct log_check *c);

/*
 * Takes away what the library would stumble over in a log that is not damaged:
 * the rest of an unfinished write. 0 or -errno with a sentence in why.
 */
int log_check_mend(struct log_check *c, struct buf *why);
/* Of a new log: takes away what a start that did not get far left behind. */
void log_check_forget(struct log_check *c);

#endif
