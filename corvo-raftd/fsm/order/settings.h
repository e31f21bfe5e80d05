/*
 * What is set for a queue.
 */
#ifndef CORVO_FSM_ORDER_SETTINGS_H
#define CORVO_FSM_ORDER_SETTINGS_H

#include "fsm/order/queue.h"

/* Copies them into the queue's own memory; NULL: nothing is set. */
void settings_keep(struct fsm *f, struct fsm_queue *q,
		   const struct m_set_queue *s);
/*
 * What the settings become with this change, in the item's arena. 0, or
 * refused.
 */
int settings_merge(struct fsm *f, const struct m_set_queue *now,
		   const struct m_set_queue *change, struct m_set_queue *ret);

#endif
