/*
 * Entries that are left out: fsm_skip of fsm/fsm.h.
 */
#ifndef CORVO_FSM_SKIP_H
#define CORVO_FSM_SKIP_H

#include "fsm/core/state.h"

/* An entry begins: whether it is one of them. Tells of it, if so. */
void skip_begin(struct fsm *f);
/* The answer to each of its ops. */
int skip_refuse(struct fsm *f);

#endif
