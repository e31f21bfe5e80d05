/*
 * A store that contradicts itself, so that a check of the state machine fails.
 * Apart from tests that know the nodes: both have a struct budget.
 */
#ifndef CORVO_FSM_BREAK_H
#define CORVO_FSM_BREAK_H

#include "fsm/fsm.h"
#include "util/str.h"

/* The budget of a queue of which jobs hold something says that nothing is held:
 * the next one that ends fails a check. */
void fsm_break_budget(struct fsm *f, struct str queue);

#endif
