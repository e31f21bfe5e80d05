/*
 * What the log of a node says of operations that failed a check: fsm_fault of
 * fsm/fsm.h.
 */
#ifndef CORVO_FAULTLOG_H
#define CORVO_FAULTLOG_H

#include "fsm/fsm.h"

/* Those of the entry that was applied last. */
void faultlog_tell(const struct fsm *f);

#endif
