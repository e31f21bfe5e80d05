/*
 * A node without a cluster looks for one (serve/gather.h) and asks its members
 * to take it in, in turn, until one has, and a leader has sent its log. Or it
 * is chosen to make a new one. Loop thread.
 */
#ifndef CORVO_JOIN_H
#define CORVO_JOIN_H

#include "cluster/port.h"
#include "serve/parts.h"

struct join;

struct join_ops {
	/* The cluster has taken this node in. False: it has the log of another
	 * one. */
	bool (*on_joined)(void *ctx, const struct history *cluster);
	/* There is none, and all agree that this node makes it. */
	void (*on_chosen)(void *ctx);
};

struct join *join_new(struct parts *p, struct port *port,
		      const struct join_ops *ops, void *ctx);
void join_free(struct join *j); /* NULL is ignored */
void join_turn_end(struct join *j);

#endif
