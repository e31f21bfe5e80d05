/*
 * Heartbeats that only extend a lease: answered from the leader's memory and
 * written to the log about once a second, all together.
 *
 * A leader that is new (or was restarted) does not know the last second of
 * heartbeats: no lease granted before it ends until one full period has gone
 * by. And a lease lasts as long as it was granted for by the leader's monotonic
 * clock, whatever becomes of the wall clock, by which the log tells its end.
 * Both are kept in memory, and written for those that would end before.
 *
 * The leader before may have answered some yet while the new one began, so the
 * period begins a little later, and one that does not know whether it leads
 * must not answer from memory (node_is_sure).
 *
 * A node that follows remembers what the leader answered through it: who reads
 * the job here finds the lease as it was told.
 */
#ifndef CORVO_LEASES_H
#define CORVO_LEASES_H

#include "fsm/fsm.h"
#include "propose/proposer.h"

struct leases;

struct leases *leases_new(struct loop *l, struct fsm *f, struct proposer *p);
void leases_free(struct leases *l);

/* Answers the request if it carries nothing to store; else false. */
bool leases_heartbeat(struct leases *l, struct rpc_req req,
		      const struct frame_request *item);

/*
 * When the lease of an active job ends, with the heartbeats that are not in
 * the log yet; 0: it has none.
 */
uint64_t leases_end(const struct leases *l, struct str job_id);

/* The leader's answer to a heartbeat that was passed on. */
void leases_told(struct leases *l, struct str reply);

/* For proposer_config.take_renewals. */
bool leases_take(struct leases *l, struct buf *body, bool *more);

/* This node has begun to lead; another one may have answered heartbeats until
 * blind_ns from now. */
void leases_lead(struct leases *l, uint64_t blind_ns);
/* It does not lead any more: what it has heard is of no use. */
void leases_lead_no_more(struct leases *l);

uint64_t leases_renewed(const struct leases *l); /* since start */

#endif
