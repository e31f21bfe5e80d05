/*
 * A new file of the view from a checkpoint of raftd's store: all rows and
 * counters in bulk, indexes afterwards.
 *
 * Runs on a thread of its own and touches nothing but the two paths. The
 * checkpoint is raftd's; a record that cannot be read ends the rebuild.
 */
#ifndef CORVO_REBUILD_H
#define CORVO_REBUILD_H

#include <stdatomic.h>

#include "util/buf.h"

struct rebuild {
	char *checkpoint; /* directory of the store */
	char *path;       /* file to make; removed first, and on failure */
	uint64_t seq;     /* last event the checkpoint holds */
	atomic_bool stop; /* set by another thread: give up soon */
	uint64_t jobs;    /* result: rows of table jobs */
	struct buf why;   /* result: a sentence on failure */
};

/* 0 or -ERR_*; -ERR_SHUTTING_DOWN when stopped. */
int rebuild_run(struct rebuild *r);

#endif
