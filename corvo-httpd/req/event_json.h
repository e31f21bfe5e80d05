/*
 * One event of the log as clients see it.
 */
#ifndef CORVO_EVENT_JSON_H
#define CORVO_EVENT_JSON_H

#include "proto/msg_json.h"

/* Its members, and the time also as at_ns. */
void event_to_json(const struct m_event *e, struct json_writer *w);

/* The same as a frame of a stream, under its sequence. */
void event_frame(struct buf *out, const struct m_event *e);

#endif
