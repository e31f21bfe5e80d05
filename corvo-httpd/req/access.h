/*
 * A line for each request that is over: to a file or to the log, in the common
 * log format or as JSON (settings access_log, access_log_format); with
 * log_level debug to the log in any case. Lines gather in memory and are
 * written at the end of a turn; what a disk does not take is dropped, counted
 * and told. The file is opened anew on reload, so that it can be moved away.
 */
#ifndef CORVO_ACCESS_H
#define CORVO_ACCESS_H

#include "req/req.h"

struct access;

/* NULL with a sentence in why: the file cannot be written. */
struct access *access_new(const struct settings *set, struct buf *why);
void access_free(struct access *a); /* NULL: fine */

void access_note(struct access *a, const struct req *r);
void access_flush(struct access *a); /* end of a turn */
void access_reopen(struct access *a);

#endif
