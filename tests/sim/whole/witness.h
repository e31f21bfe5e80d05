/*
 * The state machine once more, on a store of its own: it gets every committed
 * entry once, in order, when the first node applies it. It knows what each
 * request was answered in the log, whoever tells it to a client, so every
 * answer is held against it. Its own rules are held against a naive model by
 * test_fsm_model; here its store is looked through from time to time, and it is
 * loaded anew while the nodes live on.
 *
 * It stands between corvo-raftd and fsm_apply: the linker puts
 * __wrap_fsm_apply in that place.
 */
#ifndef CORVO_SIM_WITNESS_H
#define CORVO_SIM_WITNESS_H

#include "rt/rpc.h"
#include "util/arena.h"
#include "util/base.h"

struct whole;
struct witness;
struct fsm;
struct fx;
struct kv;

struct witness *witness_new(struct whole *w);
void witness_free(struct witness *x);
/* It begins with that store, which becomes its own, instead of with nothing. */
void witness_begin_with(struct witness *x, struct kv *kv);

/* What it knows of a job, for a person. */
void witness_tell(struct witness *x, struct str job_id, struct buf *ret);

/* Its store and state, as the generators of random requests want them; now_ns
 * is the present. */
struct fx *witness_fx(struct witness *x);
/* The state machine itself, to ask. */
struct fsm *witness_fsm(struct witness *x);
/* A job as it has it; false: there is none. */
struct m_job;
bool witness_job(struct witness *x, struct str job_id, struct arena *a,
		 struct m_job *ret);
/* Events so far, and the first one that is kept. */
uint64_t witness_seq(const struct witness *x);
uint64_t witness_first_seq(const struct witness *x);
/* Fails unless they are the events after that one, as it has them itself. */
struct m_events_reply;
void witness_look_at_events(struct witness *x, uint64_t after_seq,
			    const struct m_events_reply *m);

/* What a request that is kept was answered: to a call of that number. */
struct witness_call {
	uint64_t origin, number;
	unsigned op;
};

void witness_hear(struct witness *x, const struct witness_call *c,
		  const struct rpc_reply *r);

/* The same of fetches. */
struct fetches;
struct fetches *witness_fetches(struct witness *x);

/* Each job is in one order, counters are what is counted, and so on. */
void witness_check(struct witness *x);
struct machine;
/* The same of what that node has in memory and in its store, at the same entry.
 */
void witness_check_node(struct witness *x, struct machine *m);
/* Fails unless that node has the same to the byte, if it is at the same entry.
 * True: it is. */
bool witness_compare(struct witness *x, struct machine *m);

#endif
