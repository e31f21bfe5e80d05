/*
 * max_backlog: room for new jobs in a queue. A duplicate takes none.
 */
#ifndef CORVO_FSM_TIES_BACKLOG_H
#define CORVO_FSM_TIES_BACKLOG_H

#include "fsm/job/job.h"

/* Room for these jobs in their queues: 0, or QUEUE_FULL. */
int backlog_check(struct fsm *f, const struct m_enqueue *ops, size_t n);
/* The same for one new job, when another ends for it; NULL: none does. */
int backlog_check_swap(struct fsm *f, struct str name,
		       const struct job *leaving);

#endif
