/*
 * Queues that somebody watches: he hears of each that may have changed. Outside
 * the state: it changes nothing that is stored or answered by entries, and is
 * empty after a start.
 */
#ifndef CORVO_FSM_CORE_WATCH_H
#define CORVO_FSM_CORE_WATCH_H

#include "fsm/fsm.h"

/* A queue that may be watched has changed, or is gone. */
void watch_note(struct fsm *f, struct str queue);
/* Any of them may have. */
void watch_note_all(struct fsm *f);
void watch_free(struct fsm *f);

#endif
