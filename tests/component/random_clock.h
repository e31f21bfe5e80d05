/*
 * The clock of random entries is set, as the first thing in an entry.
 */
#ifndef CORVO_RANDOM_CLOCK_H
#define CORVO_RANDOM_CLOCK_H

#include "random_world.h"

/* One way or the other; or what moves with it goes on. */
static inline bool make_clock_set(struct world *w, struct m_clock_set *ret)
{
	struct fx *x = w->x;
	uint64_t by = 1 + rng_below(&w->r, 2000);

	*ret = (struct m_clock_set){ 0 };
	if (fsm_clock_is_moving(x->side[0].f) || !one_in(w, 12))
		return one_in(w, 2);
	MSG_SET(ret, clock_set, from_ns, x->now_ns);
	x->now_ns += one_in(w, 2) ? by : -by;
	MSG_SET(ret, clock_set, to_ns, x->now_ns);
	return true;
}

/* Begins the entry, since its time is what the clock says then. */
static inline void begin_entry(struct world *w)
{
	struct m_clock_set m;
	bool is_set;

	w->x->now_ns += rng_below(&w->r, 20);
	is_set = make_clock_set(w, &m);
	fx_begin(w->x);
	if (is_set)
		fx_add(w->x, OP_CLOCK_SET, 0, &m);
}

#endif
