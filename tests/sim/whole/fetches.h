/*
 * What fetches were given in the log, and what their workers are told of it. A
 * fetch is known by its fetch_id, to whomever it is sent again.
 */
#ifndef CORVO_SIM_FETCHES_H
#define CORVO_SIM_FETCHES_H

#include "rt/rpc.h"

struct fetches;
struct whole;

struct fetches *fetches_new(struct whole *w);
void fetches_free(struct fetches *f);
/* A request, and its answer in an entry. */
void fetches_note(struct fetches *f, struct str request, struct str answer);
/* What its worker is told: jobs that it was given, nothing, or that nothing was
 * done; then it is given nothing. */
void fetches_hear(struct fetches *f, uint64_t fetch_id,
		  const struct rpc_reply *r);

#endif
