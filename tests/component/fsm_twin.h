/*
 * Twins of the state machine in memory. They read its store as it is before an
 * entry, do the entry first, and must do it like the one that has lived on: the
 * same writes, the same answers, the same weight, to the byte. What a replica
 * remembers, or in which order, shows here.
 *
 * One is loaded from the store for every entry, another lives for a while, so
 * that fresh memories and those of middle age are compared with an old one.
 */
#ifndef CORVO_FSM_TWIN_H
#define CORVO_FSM_TWIN_H

#include "fsm_fixture.h"

struct twins;

/* From now on, until twins_stop; seed: when the second is loaded anew, and how
 * many jobs their windows hold. */
void twins_start(struct fx *x, uint64_t seed);
void twins_stop(struct fx *x);

/*
 * fn changes what the one that is loaded for every entry remembers, as a
 * mistake would; NULL: no more. Meanwhile a difference is not a failure, and
 * counted.
 */
typedef void twins_spoil_fn(struct fsm *f);
void twins_spoil(struct fx *x, twins_spoil_fn *fn);
uint64_t twins_differed(const struct fx *x);

/* By the fixture, around an entry of the one in memory. */
void twins_apply(struct fx *x, struct str entry);
void twins_told(struct fx *x, size_t item, int err, uint64_t seq,
		struct str body);
void twins_compare(struct fx *x, int result);

#endif
