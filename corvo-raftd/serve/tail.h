/*
 * The event feed for the view: answers `tail` when there is something new, in
 * the pace of serve/pace.h. While readers yield to writers the answers say so,
 * and the view's own answers say how far behind it is.
 */
#ifndef CORVO_TAIL_H
#define CORVO_TAIL_H

#include "serve/parts.h"

struct tail;

struct tail *tail_new(struct parts *p);
void tail_free(struct tail *t);

/* Takes a question; it is answered now or when there is something new. */
void tail_ask(struct tail *t, struct rpc_req req, const struct m_tail *m);
/* Nobody waits for that one any more: it takes no turn of those that do. */
void tail_cancel(struct tail *t, struct rpc_req req);

/* Looks whether a waiting question can be answered. */
void tail_turn_end(struct tail *t);

#endif
