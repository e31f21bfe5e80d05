/*
 * What the maintenance operations share.
 */
#ifndef CORVO_FSM_OPS_MAINTAIN_H
#define CORVO_FSM_OPS_MAINTAIN_H

#include "proto/proto.h"

/* How many jobs the operation may move. */
uint32_t maintain_limit(const struct m_maintain *op);
struct fsm;

/* Goes on moving jobs between lanes: order/regroup.h. 0 or -ERR_*. */
int maintain_regroup(struct fsm *f);
void maintain_fill(uint32_t count, bool more, struct m_maintain_reply *ret);

#endif
