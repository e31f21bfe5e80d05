/*
 * Fetches that wait for a job. While a request waits, the server library does
 * not look at its socket, so a worker that went away would be given a job.
 * A fetch that has waited for a moment is therefore watched here, and dropped
 * when its client closes; one that is answered at once costs nothing.
 */
#ifndef CORVO_PARK_H
#define CORVO_PARK_H

#include "req/req.h"

struct park;

struct park *park_new(struct loop *l);
void park_free(struct park *p);

void park_add(struct req *r);    /* its call is under way */
void park_remove(struct req *r); /* no-op when it is not parked */

/* Ends all of them with what end_parked answers. */
void park_end_all(struct park *p);

#endif
