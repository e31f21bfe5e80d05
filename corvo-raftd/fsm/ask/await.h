/*
 * Jobs whose end somebody waits for.
 */
#ifndef CORVO_FSM_ASK_AWAIT_H
#define CORVO_FSM_ASK_AWAIT_H

#include "fsm/core/entry.h"

/* A job that may be awaited ended or was deleted. */
void await_note_end(struct fsm *f, struct str id);
void await_free(struct fsm *f);

#endif
