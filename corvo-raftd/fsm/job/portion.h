/*
 * Many jobs, some at a time.
 */
#ifndef CORVO_FSM_JOB_PORTION_H
#define CORVO_FSM_JOB_PORTION_H

#include "fsm/job/job.h"

/* What an operation may do: so many jobs, within the budget of its entry. */
struct portion {
	uint32_t jobs, max; /* done, and how many may be */
};

bool portion_is_full(const struct fsm *f, const struct portion *p);

/*
 * Deletes the job, unless its place in the queue is after upto_seq (0: in any
 * case). 0 or -ERR_*.
 */
int portion_delete(struct fsm *f, struct portion *p, struct str id,
		   uint64_t upto_seq, enum event_type type);

#endif
