/*
 * The event feed for the view: answers `tail` when there is something new.
 *
 * Readers yield to writers. While there is always something new the view is
 * answered only every so often: what happened to one job meanwhile is one row
 * to write instead of three. While the write path is saturated, which shows in
 * deep entries and busy processors, the view gets little at a time and falls
 * behind; it catches up when the burst is over, and its answers say how far
 * behind it is.
 */
#ifndef CORVO_TAIL_H
#define CORVO_TAIL_H

#include "raftd.h"

struct tail;

struct tail *tail_new(struct raftd *r);
void tail_free(struct tail *t);

/* Takes a question; it is answered now or when there is something new. */
void tail_ask(struct tail *t, struct rpc_req req, const struct m_tail *m);

/* Looks whether a waiting question can be answered. */
void tail_turn_end(struct tail *t);

#endif
