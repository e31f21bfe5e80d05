/*
 * Compares the view with the store, row by row, at one event: the records of
 * a checkpoint of raftd's store against a snapshot of the view that has been
 * brought to the checkpoint's last event. Both sides are read once, in the
 * order of their keys; nothing is loaded whole but the counters of queues.
 *
 * Runs on other threads than the loop's. Rows may hold anything, as somebody
 * else may have written them: that is what this is for.
 */
#ifndef CORVO_VERIFY_H
#define CORVO_VERIFY_H

#include <stdatomic.h>

#include "mirror/mirror.h"

struct verify {
	char *checkpoint; /* directory of the store */
	uint64_t seq;     /* last event it holds; verify_align makes it exact */
	atomic_bool stop; /* set by another thread: give up soon */

	struct db *db; /* the snapshot; between verify_align and verify_end */

	/* results */
	struct m_verify_reply reply;
	struct arena arena; /* its texts */
	struct buf why;     /* a sentence on failure */
};

/* The view that is compared, as its writer has it. */
struct verify_view {
	struct mirror *mirror;
	const char *path;
	uint64_t position;    /* last event in the file */
	uint64_t position_ns; /* its time, UNIX; 0: not known */
};

/*
 * Brings the view, whose last event is v->position, to the checkpoint's, and
 * takes a snapshot of it. The writer's thread; nothing else may write. On
 * success the view's position is t->seq. 0 or -ERR_*; -ERR_SHUTTING_DOWN when
 * stopped.
 */
int verify_align(struct verify *t, struct verify_view *v);

/* Fills the reply, duration apart. 0 or -ERR_* as above. */
int verify_compare(struct verify *t);

/* Adds what is wrong with the full text. The writer's thread; it may take
 * long, and ends early when t->stop is set and then the writer interrupted. */
int verify_text(struct verify *t, struct db *writer);

void verify_end(struct verify *t); /* ready for another one */

#endif
