/*
 * A file of the log, of either kind, as a whole.
 */
#ifndef CORVO_LOG_FILE_H
#define CORVO_LOG_FILE_H

#include "util/buf.h"

/* In the place of what is in ret. 0 or -errno, with a sentence in why. */
int log_file_read(const char *dir, const char *name, struct buf *ret,
		  struct buf *why);

#endif
