/*
 * What a large body asks for is read in turns with everybody else's requests
 * (rt/turns.h), so that nobody waits for it; and so is a large reply.
 */
#ifndef CORVO_WORK_H
#define CORVO_WORK_H

#include "req/req.h"

#define REQ_WORKS 16 /* large ones that are worked on at a time */

/* Runs fn now, or in turns, if there are so many bytes to be read. */
void req_work(struct req *r, size_t bytes, req_fn *fn);
/* Memory for what is made of it, counted until it asks or answers. False: there
 * is none, and that was answered. */
bool req_work_fits(struct req *r, size_t bytes);
/*
 * Of the work: it ends as soon as it can, and what it comes to is neither done
 * nor told. Its client has left, or waits to hear that the process is stopping.
 */
bool req_is_unwanted(const struct req *r);
/* Nobody wants what it comes to: it ends soon. */
void req_hurry_work(struct req *r);
/* It is not to go on. */
void req_end_work(struct req *r);

#endif
