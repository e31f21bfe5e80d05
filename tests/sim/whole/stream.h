/*
 * Somebody who reads the event log, page by page, now from this node, now from
 * that one: every event comes once, in order, and is the one that happened.
 */
#ifndef CORVO_SIM_STREAM_H
#define CORVO_SIM_STREAM_H

#include <stdbool.h>

struct whole;
struct stream;

struct stream *stream_new(struct whole *w);
void stream_free(struct stream *t);
/* It has all there are. */
bool stream_is_done(const struct stream *t);

#endif
