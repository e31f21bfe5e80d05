/*
 * How far the log is known to have been acknowledged: a small file beside its
 * segments, written about once a second while entries come in. Without it the
 * end of a log that lost its last entries looks like one whose last write was
 * not finished.
 *
 * Two places in it are written in turn, so that one can always be read.
 */
#ifndef CORVO_MARK_H
#define CORVO_MARK_H

#include "proto/origin.h"

#define MARK_NAME "acked"

struct mark {
	uint64_t acked; /* all entries up to here; 0: not known */
	struct history history;
	unsigned turn; /* of the next write */
};

/* 0 or -errno. A file that is missing or says nothing is no error. */
int mark_read(const char *dir, struct mark *ret);

/* A descriptor to write to, or -errno. */
int mark_open(const char *dir);
/* Flushed. The turn is to grow by one with each call. 0 or -errno. */
int mark_write(int fd, const struct mark *m);

#endif
