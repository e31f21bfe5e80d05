/*
 * Payloads made of others.
 */
#ifndef CORVO_FSM_TIES_PAYLOAD_H
#define CORVO_FSM_TIES_PAYLOAD_H

#include "fsm/core/entry.h"
#include "util/json.h"

/* Whether it is an object with that member. */
bool payload_has(struct fsm *f, struct str raw, const char *name);
/* Writes the members of an object but one; false, and nothing, of others. */
bool payload_put_members(struct fsm *f, struct json_writer *w, struct str raw,
			 const char *except);

#endif
