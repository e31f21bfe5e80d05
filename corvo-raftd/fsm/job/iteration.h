/*
 * Iterations of agents' jobs that have ended, under it|. live.agent.recorded
 * counts all that ever were; the newest LIMIT_ITERATIONS_KEPT are kept.
 */
#ifndef CORVO_FSM_JOB_ITERATION_H
#define CORVO_FSM_JOB_ITERATION_H

#include "fsm/job/job.h"

/* What the worker said of the iteration. */
struct iteration_end {
	enum agent_status status;
	struct str hold_reason, result, trace;
};

/* Where the loop is, in the item's arena; made when there is none yet. */
struct m_agent_live *iteration_live(struct fsm *f, struct job *j);

/*
 * The present iteration has ended: writes its record, with what the job has
 * used in it and its checkpoint. 0 or -ERR_*. The caller saves.
 */
int iteration_record(struct fsm *f, struct job *j,
		     const struct iteration_end *e);

/* The next one begins, with all its attempts. The caller saves. */
void iteration_begin(struct fsm *f, struct job *j);

/* 1 found, 0 there is none, or none any more, -ERR_*. */
int iteration_find(struct fsm *f, const struct job *j, uint32_t n,
		   struct m_iteration *ret);

/* The job goes. */
void iterations_delete(struct fsm *f, const struct job *j);

#endif
