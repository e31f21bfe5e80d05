/*
 * One event of the log as a stream has it.
 */
#ifndef CORVO_EVENT_JSON_H
#define CORVO_EVENT_JSON_H

#include "proto/event.h"

/* As a frame of a stream, under its sequence. */
void event_frame(struct buf *out, const struct m_event *e);

#endif
