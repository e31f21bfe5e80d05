/*
 * Inside the state machine: what ties jobs to each other and to requests that
 * were sent before. Conventions as in fsm/fsm_impl.h, which includes this.
 */
#ifndef CORVO_FSM_TIES_H
#define CORVO_FSM_TIES_H

#include "proto/job.h"
#include "proto/proto.h"

struct fsm;
struct job;
struct portion;

/* --- ties/unique.c: at most one job per key --- */

/* 1: an earlier job holds the key, *holder is it; 0: free; -ERR_*. */
int unique_find(struct fsm *f, struct str queue, struct str key,
		struct str *holder);
void unique_take(struct fsm *f, struct str queue, struct str key, struct str id,
		 uint64_t period);
/* The job has ended: frees its key, if it still is its own. */
void unique_release(struct fsm *f, struct job *j);
/* A job could take its key again: 0; refused when another has it. */
int unique_check(struct fsm *f, struct job *j);
/* It is to be pending again: takes its key; refused when another has it. */
int unique_retake(struct fsm *f, struct job *j);
/* A duplicate arrived: answers for it, and replaces the payload if asked. */
int unique_answer(struct fsm *f, const struct m_enqueue *op, struct str holder,
		  struct m_enqueue_reply *ret);

/* --- ties/idempotency.c: requests sent twice by their sender --- */

/* 1: answered before, *reply is what; 0: new; -ERR_*, also for a mismatch. */
int idempotency_find(struct fsm *f, struct str key, uint64_t hash,
		     const struct msg_desc *d, void *reply);
void idempotency_keep(struct fsm *f, struct str key, uint64_t hash,
		      const struct msg_desc *d, const void *reply);

/* --- ties/deps.c: jobs that wait for jobs --- */

/*
 * Jobs of one request, n of them, may depend on each other: 0, or refused for
 * unknown ids, too many, positions that are none, and cycles.
 */
int deps_check(struct fsm *f, const struct m_enqueue *ops, size_t n);
/*
 * The same once the ids of all are known (of a duplicate, that of the earlier
 * job): depends_on without repetitions, "#N" replaced, and how many of them
 * have not ended. *failed: one did not complete and the job's policy is to
 * fail with it; the job counts as waiting then. 0 or -ERR_*.
 */
struct deps {
	struct str *ids;
	size_t n;
	uint32_t waiting_on;
	struct str failed;
	uint64_t seq; /* of the job, once it was created */
};
int deps_resolve(struct fsm *f, const struct m_enqueue *op,
		 const struct str *ids, struct deps *ret);
/* All jobs of the request were created: those they wait for will tell them. */
int deps_link(struct fsm *f, struct str id, const struct deps *d);
/* They are to be told that it ended. JOB_STATE_MAX: it is deleted. */
void deps_add_release(struct fsm *f, struct str id, enum job_state end);
/* It ended while others wait for it. */
void deps_on_end(struct fsm *f, struct job *j, enum job_state end);
/* It ended while it waits for others: they need not tell it. */
void deps_unlink(struct fsm *f, struct job *j);
/* After each item: tells dependents, in bounded portions. */
void deps_settle(struct fsm *f);
/* Dependents are still to be told: RELEASE is due. */
bool deps_is_due(const struct fsm *f);
int deps_load(struct fsm *f);

/* --- ties/batch.c --- */

/* Jobs may be added to it: 0, or refused. */
int batch_check(struct fsm *f, struct str id);
int batch_exists(struct fsm *f, struct str id); /* 1, 0 or -ERR_* */
/* 0; refused when the parent is not open, or the nesting is too deep. */
int batch_create(struct fsm *f, struct str id, const struct m_batch_options *o,
		 bool sealed);
/*
 * n jobs were added, perhaps none; a sealed one without any has ended. Comes
 * before anything may end those jobs.
 */
void batch_add(struct fsm *f, struct str id, uint32_t n);
/* A job of a batch ended for the first time. */
void batch_on_end(struct fsm *f, struct job *j, enum job_state end);
/* Nothing is added any more; 1 found, sealed before or now; 0 absent; -ERR_* */
int batch_seal(struct fsm *f, struct str id);
/*
 * Open ones go that have nothing to wait for and did not change after that
 * time: nobody seals them any more. 0 or -ERR_*.
 */
int batches_purge_open(struct fsm *f, uint64_t upto_ns, struct portion *p);
/* The event of a batch whose record is gone. */
void batch_purged(struct fsm *f, struct str id);
/* As clients see it; 1 found, 0 absent, -ERR_*. */
int batch_read(struct fsm *f, struct str id, struct m_batch *ret);

/* --- ties/chain.c --- */

int chain_check(struct fsm *f, const struct m_enqueue *op);
/* A step ended: makes the next one, on_failure or on_exit. */
void chain_on_end(struct fsm *f, struct job *j, enum job_state end);

#endif
