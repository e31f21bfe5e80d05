/*
 * Our own raft log: entries in, one thread that writes them. Everything that
 * gathered while it was busy goes to the disk with one flush.
 *
 * The next segment is prepared, and old ones are put away, on a second thread,
 * so that nobody waits at the end of a segment. Memory: what was pushed and is
 * not written yet, which the caller bounds.
 *
 * An error of a file stops the process: with a disk that fails nobody knows
 * what is on it. Files and format: record.h.
 */
#ifndef CORVO_SEGLOG_H
#define CORVO_SEGLOG_H

#include "cluster/seglog/scan.h"
#include "util/hist.h"
#include "util/list.h"

struct seglog;

struct seglog_config {
	const char *dir; /* made if missing; must stay */
	size_t segment_bytes;
	unsigned spares; /* segments kept for later */
	bool durable;    /* false: what was written is not flushed */
};

/*
 * Goes on where the log that was scanned ends, which must not be damaged. What
 * is there is on the disk then. 0 or -errno with a sentence in why.
 */
int seglog_open(const struct seglog_config *c, const struct seglog_scan *s,
		struct seglog **ret, struct buf *why);
/* Waits until all is written, and on the disk. */
void seglog_stop(struct seglog *l);
/* After seglog_stop, and after all was taken. */
void seglog_free(struct seglog *l);

/* Something to be written, in the order it was pushed. */
struct seglog_op {
	struct list node; /* seglog's, until it was taken */
	void *ctx;        /* the caller's */
	/* Of the first entry; n is 0: entries from there on do not count any
	 * more. */
	uint64_t index;
	size_t n;
	struct segment_entry entry[]; /* what they point to must stay, too */
};

struct seglog_op *seglog_op_new(uint64_t index, size_t n); /* free() it */

void seglog_push(struct seglog *l, struct seglog_op *op);
/* Until all that was pushed is written. */
void seglog_wait(struct seglog *l);
/* Readable when there is something to take. */
int seglog_fd(const struct seglog *l);
/* Moves the ops that are done to the end of a list. */
void seglog_take(struct seglog *l, struct list *ret);

/* How long groups took, from the first byte to the end of the flush. */
void seglog_flush_time(struct seglog *l, struct hist *ret);

/* Entries up to `index` are not needed any more; segments that have no others
 * are put away soon. */
void seglog_cut(struct seglog *l, uint64_t index);

#endif
