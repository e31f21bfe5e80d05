/*
 * Tags of jobs, as they were given.
 */
#ifndef CORVO_FSM_JOB_TAG_H
#define CORVO_FSM_JOB_TAG_H

#include "fsm/core/state.h"

/* The value of a tag, a text or a number; empty: there is none. */
struct str tag_find(struct fsm *f, struct str tags, struct str name);

#endif
