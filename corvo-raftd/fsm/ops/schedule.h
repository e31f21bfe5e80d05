/*
 * What operations on schedules share.
 */
#ifndef CORVO_FSM_OPS_SCHEDULE_H
#define CORVO_FSM_OPS_SCHEDULE_H

#include "fsm/core/entry.h"

/* It has no further times, and is not paused; the caller saves it. */
void schedule_end(struct fsm *f, struct m_schedule *s);

#endif
