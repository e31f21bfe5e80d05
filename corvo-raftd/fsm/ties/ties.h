/*
 * Everything that is tied to jobs hears of their ends in one place, whichever
 * way they ended.
 */
#ifndef CORVO_FSM_TIES_TIES_H
#define CORVO_FSM_TIES_TIES_H

#include "fsm/job/job.h"

/* For struct job_hooks. */
void ties_on_end(struct fsm *f, struct job *j, enum job_state end);
void ties_on_error(struct fsm *f, const struct job *j);

#endif
