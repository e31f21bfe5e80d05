/*
 * A queue whose jobs are pushed, and a webhook that is told of their ends, by
 * the real corvo-sched: each job is done, after a call that worked, and of each
 * one its end is told.
 */
#ifndef CORVO_SIM_PUSHED_H
#define CORVO_SIM_PUSHED_H

#include "util/buf.h"

struct clients;
struct pushed;

struct pushed *pushed_new(struct clients *c);
void pushed_free(struct pushed *p);
/* No new jobs. */
void pushed_calm(struct pushed *p);
/* They are all done, and all of them were told of. */
bool pushed_is_done(const struct pushed *p);
/* What is missing. */
void pushed_tell(const struct pushed *p, struct buf *ret);
/* A receiver was called, and said whether it is well. */
void pushed_hear(struct pushed *p, struct str url, struct str body, bool ok);

#endif
