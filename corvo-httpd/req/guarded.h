/*
 * Work for one request. A REQUIRE that fails in it ends that request and no
 * other: it is logged, counted and answered 500, and a stream is ended. What
 * the request had been given goes back, what it asks for is withdrawn.
 *
 * Whatever calls into handlers calls them by this: a request that is whole, a
 * reply, a place in a stream, an event.
 */
#ifndef CORVO_GUARDED_H
#define CORVO_GUARDED_H

#include "req/req.h"

typedef void guarded_fn(struct req *r, void *arg);

void req_guarded(struct req *r, guarded_fn *fn, void *arg);

/*
 * The two halves of it, for work that is not done on the loop (rt/turns.h):
 * there a request cannot be ended. False: it failed, and the loop has to give
 * the request up.
 */
bool req_try(struct req *r, guarded_fn *fn, void *arg);
void req_give_up(struct req *r);

#endif
