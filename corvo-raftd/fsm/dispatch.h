/*
 * From an op's number to its function.
 */
#ifndef CORVO_FSM_DISPATCH_H
#define CORVO_FSM_DISPATCH_H

#include "fsm/core/state.h"

int fsm_dispatch(struct fsm *f, unsigned op, const void *request, void *reply);

#endif
