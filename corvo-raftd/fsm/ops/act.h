/*
 * Inside the state machine: what people do to one job, by itself or to many at
 * once.
 */
#ifndef CORVO_FSM_ACT_H
#define CORVO_FSM_ACT_H

#include "fsm/job/job.h"

struct act {
	enum bulk_action action;
	struct str queue;                /* move: a name that fits */
	uint32_t priority;               /* change_priority: below PRIORITIES */
	struct str reason;               /* hold, reject; empty: none */
	struct ruling verdict;           /* hold (by), approve, reject */
	bool dry_run;                    /* only judge: nothing changes */
	const struct m_approve *approve; /* what else it says; or NULL */
};

/*
 * 1: the job was changed, or would be; 0: it is already as it shall be;
 * refused, before anything changed, with the action's own code, also for an
 * unknown id. *ret is the job, if there is one.
 */
int act_on(struct fsm *f, const struct act *a, struct str id, struct job *ret);

/*
 * The same for an operation on this one job: a resend finds what was done the
 * first time, and to be already as it shall be is no refusal. 0 or -ERR_*.
 */
int act_alone(struct fsm *f, const struct act *a, struct str id,
	      struct m_status_reply *ret);

/* As clients are told of it. */
struct str act_state_text(const struct job *j);

#endif
