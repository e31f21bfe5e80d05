/*
 * When what has ended may go: bounds, the first of each kind. They may be too
 * early, never too late; purge makes one exact before it decides anything.
 */
#ifndef CORVO_FSM_ORDER_RETENTION_H
#define CORVO_FSM_ORDER_RETENTION_H

#include "fsm/order/queue.h"

/* Something ended or will expire then: purge is told of the first of each. */
void purge_note_job(struct fsm *f, struct fsm_queue *q, uint64_t ended_ns);
void purge_note_batch(struct fsm *f, uint64_t ended_ns);
void purge_note_key(struct fsm *f, uint64_t expires_ns);
/* Its retention is another one now. */
void purge_settings_changed(struct fsm *f, struct fsm_queue *q);
/* After a look at the store. */
void purge_set_first(struct fsm *f, struct fsm_queue *q, uint64_t ended_ns);
void purge_forget(struct fsm *f, struct fsm_queue *q); /* it is removed */

/* The queue whose job ended first, of one of f->purge_*; or NULL. */
struct fsm_queue *purge_first(const struct heap *h);

#endif
