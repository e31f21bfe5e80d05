/*
 * A clock that was set, and jobs that change while others still follow it.
 */
#ifndef CORVO_FSM_OPS_CLOCK_H
#define CORVO_FSM_OPS_CLOCK_H

#include "fsm/job/job.h"

/*
 * It is in another queue now, as it is stored, and the walk may have been there
 * already: what the walk would do to it is done here. Twice does no harm. The
 * job may be stored anew: j is out of date then. 0 or -ERR_*.
 */
int clock_changed_queue(struct fsm *f, const struct job *j);

#endif
