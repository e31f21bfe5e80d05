/*
 * A node without a cluster asks members of one to take it in, in turn, until
 * one has, and a leader has sent its log. Loop thread.
 */
#ifndef CORVO_JOIN_H
#define CORVO_JOIN_H

#include "cluster/port.h"
#include "serve/parts.h"

struct join;

/* The cluster has taken this node in. */
typedef void join_fn(void *ctx, const struct history *cluster);
struct join *join_new(struct parts *p, struct port *port, join_fn *fn,
		      void *ctx);
void join_free(struct join *j); /* NULL is ignored */
void join_turn_end(struct join *j);

#endif
