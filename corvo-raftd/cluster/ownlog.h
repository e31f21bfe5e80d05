/*
 * Which of the two kinds of log there is in <data-dir>/raft, and how to make
 * one of the other.
 *
 * Ours is the folder raft/segments (seglog/). While it is there it is the log,
 * and segments of the library's are what a conversion has left behind. Term and
 * vote, snapshots and the mark are the same files with both.
 */
#ifndef CORVO_OWNLOG_H
#define CORVO_OWNLOG_H

#include "cluster/logcheck.h"
#include "rt/config.h"

#define OWNLOG_FOLDER "segments"

/* The folder of ours, with a NUL. */
void ownlog_path(const char *dir, struct buf *ret);
bool ownlog_is_there(const char *dir);
/* The settings ask for ours. */
bool ownlog_is_wanted(const struct settings *s);

/* Takes away one that nothing was ever written to. */
void ownlog_forget(const char *dir);

/*
 * Makes the log in dir, which was read into `c` and is not damaged, one of the
 * kind the settings ask for. A crash at any moment leaves one of both, whole.
 * 0 or -errno with a sentence in why.
 */
int ownlog_convert(const struct log_check *c, const struct settings *s,
		   struct buf *why);

#endif
