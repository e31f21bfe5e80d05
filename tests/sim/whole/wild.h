/*
 * Random requests of every op a client or corvo-sched may ask for. They have
 * queues and jobs of their own, whose names begin otherwise than those of
 * clients.c.
 */
#ifndef CORVO_SIM_WILD_H
#define CORVO_SIM_WILD_H

#include "util/buf.h"

struct fx;
struct wild;

struct wild *wild_new(uint64_t seed);
void wild_free(struct wild *x);
/* One that fits the state of x->side[FX_MEM]: appends it to ret. False: this
 * time there is none. */
bool wild_next(struct wild *x, struct fx *state, unsigned *op, struct buf *ret);
/* Requests made so far, but for refused ones. */
uint64_t wild_jobs(const struct wild *x);

#endif
