/*
 * A node without a cluster looks for others, in rounds: it asks everybody at
 * the addresses it knows (cluster/discover.h, and those other nodes told of)
 * what they are. Nodes of a cluster are told to whoever owns this. Where there
 * is none, and setting bootstrap_expect is N, a new one may be made:
 *
 *   - exactly N nodes are there, with different names, none of which has a
 *     cluster, all expecting N, and nobody who may be there cannot be asked;
 *   - each of them sees the same, and names the same one to make it: that with
 *     the smallest name. It has promised that to nobody else just before.
 *
 * There is no time after which less is enough: a node that cannot be asked may
 * be the one with the data. Loop thread.
 */
#ifndef CORVO_GATHER_H
#define CORVO_GATHER_H

#include "cluster/found.h"
#include "cluster/port.h"
#include "serve/parts.h"

struct gather;

struct gather_ops {
	/* Nodes of a cluster are at these addresses. Nobody is asked any more
	 * until gather_go. */
	void (*on_members)(void *ctx, const struct found *members);
	/* All agree that this node makes the cluster. Called once. */
	void (*on_chosen)(void *ctx);
};

struct gather *gather_new(struct parts *p, struct port *port,
			  const struct gather_ops *ops, void *ctx);
void gather_free(struct gather *g); /* NULL is ignored */
/* Begins a round; the next ones follow by themselves. */
void gather_go(struct gather *g);
/* What it waits for, in a clause; empty: nothing. */
struct str gather_waits(const struct gather *g);
void gather_turn_end(struct gather *g);

#endif
