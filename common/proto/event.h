/*
 * One event of the log as clients see it.
 */
#ifndef CORVO_EVENT_H
#define CORVO_EVENT_H

#include "proto/proto.h"
#include "util/json.h"

/* Its members, and the time also as at_ns. */
void event_to_json(const struct m_event *e, struct json_writer *w);

#endif
