/*
 * The operations: one function per row of ops.def.
 */
#ifndef CORVO_FSM_OPS_OPS_H
#define CORVO_FSM_OPS_OPS_H

#include "fsm/core/state.h"
#include "proto/proto.h"

/* 0 with *reply filled, or fsm_refuse(...) with nothing changed. */
#define OP(num, NAME, name, request, reply, who, level, doc)          \
	int apply_##name(struct fsm *f, const struct m_##request *op, \
			 struct m_##reply *ret);
#include "proto/defs/ops.def"

#endif
