/*
 * Requests of every op of ops.def: as resend_gen.h makes them, with at least
 * two of everything that has a name, and distorted (wild_distort.h).
 */
#ifndef CORVO_WILD_GEN_H
#define CORVO_WILD_GEN_H

#include "wild_distort.h"

/* Ops that have to do with each other, of which an entry is made. */
size_t wild_family(struct rw *w);
/* One of them, or one that makes jobs and moves them on, or any. */
enum op_id wild_op(struct rw *w, size_t family);
/* Its request, in the arena. */
void *wild_request(struct rw *w, enum op_id op);
/* The time of the next entry; a clock_set that has to be told, if true. */
bool wild_pass_time(struct rw *w, struct m_clock_set *ret);

#endif
