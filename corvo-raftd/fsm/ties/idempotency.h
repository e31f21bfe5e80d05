/*
 * Requests sent twice by their sender.
 */
#ifndef CORVO_FSM_TIES_IDEMPOTENCY_H
#define CORVO_FSM_TIES_IDEMPOTENCY_H

#include "fsm/core/entry.h"

/* 1: answered before, *reply is what; 0: new; -ERR_*, also for a mismatch. */
int idempotency_find(struct fsm *f, struct str key, uint64_t hash,
		     const struct msg_desc *d, void *reply);
void idempotency_keep(struct fsm *f, struct str key, uint64_t hash,
		      const struct msg_desc *d, const void *reply);

#endif
