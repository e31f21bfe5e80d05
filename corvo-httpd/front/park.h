/*
 * Fetches that wait for a job, and what else may take long. While a request
 * waits, the server library does not look at its socket, so a worker that went
 * away would be given a job. A fetch that has waited for a moment is therefore
 * watched here, and dropped when its client closes; one that is answered at
 * once costs nothing.
 */
#ifndef CORVO_PARK_H
#define CORVO_PARK_H

#include "front/exchange.h"
#include "rt/loop.h"

struct park;

struct park *park_new(struct loop *l);
void park_free(struct park *p);

void park_add(struct exchange *x);    /* its call is under way */
void park_remove(struct exchange *x); /* no-op when it is not parked */

/* Ends all of them through end_parked of the server's ops. */
void park_end_all(struct park *p);

#endif
