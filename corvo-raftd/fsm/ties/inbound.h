/*
 * Inbound webhooks: what deliveries from outside become. Only kept here; who
 * takes a delivery asks for the webhook and makes a job of it by an enqueue.
 */
#ifndef CORVO_FSM_TIES_INBOUND_H
#define CORVO_FSM_TIES_INBOUND_H

#include "fsm/core/entry.h"

const struct m_hook *inbound_find(const struct fsm *f, struct str name);
void inbound_save(struct fsm *f, const struct m_hook *m);
void inbound_remove(struct fsm *f, struct str name);
int inbound_load(struct fsm *f);
void inbound_free(struct fsm *f);

#endif
