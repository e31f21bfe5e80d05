/*
 * Which queues there are: how many there may be, and those nobody needs any
 * more. The limit is one of the settings of the cluster.
 *
 * A queue that has no jobs, no settings and is not paused is idle. After some
 * time purge forgets it; naming it again makes it again.
 */
#ifndef CORVO_FSM_ORDER_ROSTER_H
#define CORVO_FSM_ORDER_ROSTER_H

#include "fsm/order/queue.h"

/* So many more fit, whatever their names are. */
bool roster_has_room(const struct fsm *f, size_t n);
/*
 * A client names these queues, some of which may exist: 0, or QUEUE_LIMIT when
 * the others would be too many. What follows from jobs that were accepted (the
 * next step of a chain, the callback of a batch) is not asked: it was, when it
 * was named.
 */
int roster_check(struct fsm *f, const struct str *names, size_t n);

/*
 * The queue was touched and its counts are right: it is idle, or not. One that
 * is touched is not idle for the rest of the entry.
 */
void roster_settle(struct fsm *f, struct fsm_queue *q);
/* As loaded; since 0: its record does not say. */
void roster_load_idle(struct fsm *f, struct fsm_queue *q, uint64_t since);
bool roster_is_idle(const struct fsm_queue *q);
/* The one that is idle longest, since upto_ns at least; or NULL. */
struct fsm_queue *roster_idle(const struct fsm *f, uint64_t upto_ns);
/* Since when; NEVER: there is none. */
uint64_t roster_idle_from(const struct fsm *f);

#endif
