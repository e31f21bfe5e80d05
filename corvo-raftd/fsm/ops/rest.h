/*
 * Requests too large to be kept with their answers. Whoever sends one again
 * sends all of it, so it is enough to know how far it has come.
 */
#ifndef CORVO_FSM_OPS_REST_H
#define CORVO_FSM_OPS_REST_H

#include "fsm/core/state.h"

/*
 * What is left of a request, without what its sender has: what was answered so
 * far. False: of this operation that is not known. *ret is in the arena of the
 * entry.
 */
bool rest_shorten(struct fsm *f, enum op_id op, struct str left,
		  struct str *ret);

/*
 * The other way: what is left of a request that came again, by what
 * rest_shorten has made of it. False: they do not belong together.
 */
bool rest_resume(struct fsm *f, enum op_id op, struct str request,
		 struct str shortened, struct str *ret);

/* A fetch that came again finds its jobs by its name, without its answer. */
bool rest_is_given_again(struct fsm *f, enum op_id op, struct str request);

#endif
