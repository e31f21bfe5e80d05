/*
 * Jobs of groups change their lanes, because of settings or of a higher feature
 * level: from the base lane of their queue to lanes of their own, or back. One
 * entry moves a bounded number of them; what is left is found in f->regroup and
 * goes on with RELEASE, also after a restart.
 *
 * A queue whose jobs go to lanes of their own hands out nothing until all are
 * there: before, nobody can tell which group is next, or at its limit. On the
 * way back the order is that of places on both sides, and fetches go on.
 */
#ifndef CORVO_FSM_ORDER_REGROUP_H
#define CORVO_FSM_ORDER_REGROUP_H

#include "fsm/order/queue.h"

#define REGROUP_JOBS 10000 /* looked at in one entry */

/* With these settings more groups have a lane than with q->set. */
bool regroup_parts(const struct fsm *f, const struct fsm_queue *q,
		   const struct m_set_queue *set);
/*
 * q->set or the level is another. part: more groups have lanes than before.
 * Active jobs are to be told, and nothing has moved yet.
 */
void regroup_begin(struct fsm *f, struct fsm_queue *q, bool part);
bool regroup_is_due(const struct fsm *f);
/*
 * Moves jobs as long as the entry may. 1: a queue has all its lanes now, and
 * *ret is it; 0: there is no more to do, or the entry has done enough; -ERR_*.
 */
int regroup_go_on(struct fsm *f, uint32_t *left, struct fsm_queue **ret);

#endif
