/*
 * When what has ended may go: the first of each kind. Of jobs see
 * order/bounds.h; the others may be too early, never too late.
 */
#ifndef CORVO_FSM_ORDER_RETENTION_H
#define CORVO_FSM_ORDER_RETENTION_H

#include "fsm/order/queue.h"

/* Something ended or will expire then: purge is told of the first of each. */
void purge_note_batch(struct fsm *f, uint64_t ended_ns);
void purge_note_key(struct fsm *f, uint64_t expires_ns);

/* The queue whose job ended first, of one of f->purge_*; or NULL. */
struct fsm_queue *purge_first(const struct heap *h);

#endif
