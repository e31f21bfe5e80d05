/*
 * What operations on one job by hand share.
 */
#ifndef CORVO_FSM_OPS_HAND_H
#define CORVO_FSM_OPS_HAND_H

#include "fsm/job/job.h"

/* 0 found; refused when absent, or -ERR_* of the store. */
int job_must_find(struct fsm *f, struct str id, struct job *ret);
/*
 * Ids are new, but in a resend whose answer is not kept any more (in entries of
 * format 1 none ever was): it created that job, and must not again. 0, or
 * refused.
 */
int job_refuse_resend(struct fsm *f, struct str id);
/* `done`: what cannot be done to it, as in "cancelled". */
int job_refuse_state(struct fsm *f, int err, const struct job *j,
		     const char *done);
/*
 * An ended or scheduled job goes to the end of its queue, with so many attempts
 * used; also saves. Refused when another job holds its unique key.
 */
int job_rerun(struct fsm *f, struct job *j, enum event_type type,
	      uint32_t attempt);

#endif
