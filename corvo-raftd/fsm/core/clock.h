/*
 * What is left to do since the leader's clock was set: a walk over the ends
 * that are counted from now, in the order of their keys, a portion with each
 * clock_set. It is in the store, so that whoever leads goes on with it.
 */
#ifndef CORVO_FSM_CORE_CLOCK_H
#define CORVO_FSM_CORE_CLOCK_H

#include "fsm/core/state.h"

int clock_load(struct fsm *f);
/* Writes down where the walk is, or that there is none. */
void clock_save(struct fsm *f);

static inline bool clock_went_forward(const struct fsm *f)
{
	return f->clock.to_ns > f->clock.from_ns;
}

/*
 * Leases may have ended only because the clock was set forward: nothing is
 * taken back until all of them have moved.
 */
static inline bool clock_holds_leases(const struct fsm *f)
{
	return f->clock.open && clock_went_forward(f);
}

#endif
