/*
 * Chains: the end of a step makes the next one.
 */
#ifndef CORVO_FSM_TIES_CHAIN_H
#define CORVO_FSM_TIES_CHAIN_H

#include "fsm/job/job.h"

int chain_check(struct fsm *f, const struct m_enqueue *op);
/* A step ended: makes the next one, on_failure or on_exit. */
void chain_on_end(struct fsm *f, struct job *j, enum job_state end);

#endif
