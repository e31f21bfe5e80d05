/*
 * Jobs that wait for jobs. Ends can cause ends, so nothing recurses: what is
 * to be told is written down and worked off, see ties/release.c.
 */
#ifndef CORVO_FSM_TIES_DEPS_H
#define CORVO_FSM_TIES_DEPS_H

#include "fsm/job/job.h"

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
/*
 * Until the end: jobs of this queue that end are deleted with all the others up
 * to this place. Those that wait for them there go with them, whenever they are
 * told.
 */
void deps_begin_sweep(struct fsm *f, const struct fsm_sweep *s);
void deps_end_sweep(struct fsm *f);
/* It ended while it waits for others: they need not tell it. */
void deps_unlink(struct fsm *f, struct job *j);
/* After each item: tells dependents, in bounded portions. */
void deps_settle(struct fsm *f);
/* Dependents are still to be told: RELEASE is due. */
bool deps_is_due(const struct fsm *f);
/* Tells dependents until the portion is full. 0 or -ERR_*. */
struct portion;
int deps_release(struct fsm *f, struct portion *p);

#endif
