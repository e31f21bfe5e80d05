/*
 * This node among others: its port, the link to whoever leads, the links of
 * the nodes that ask this one, and how it joins a cluster. Loop thread.
 */
#ifndef CORVO_PEERS_H
#define CORVO_PEERS_H

#include "cluster/port.h"
#include "lead.h"
#include "serve/parts.h"

struct peers;
struct svc;

/* Without a log of its own this node becomes part of a cluster that exists. */
bool peers_joins(const struct settings *s);

/*
 * Opens the port; before the node is started, which needs it. 0 or -ERR_* with
 * a sentence in `why`.
 */
int peers_open(struct parts *p, struct svc *svc, struct peers **ret,
	       struct buf *why);
struct port *peers_port(struct peers *n);
/* The node has been started. */
void peers_start(struct peers *n);
void peers_free(struct peers *n); /* NULL is ignored */

/* Of a lead: who votes. ctx: struct parts. */
void peers_voters(void *ctx, struct lead_voters *ret);

/* Where a node is now, as it said itself, or as others know. */
void peers_find(struct peers *n, uint64_t raft_id, const char *configured,
		struct buf *ret);

/* The leader's log begins after what this node has. */
void peers_on_install(struct peers *n, const struct node_install *i);

/*
 * Before this node stops: it leaves, where setting leave_on_term says so; or
 * it leads, and another one is made to. fn is called once, in bounded time;
 * -ERR_*: nobody took over. False: there is nothing to be done.
 */
bool peers_hand_over(struct peers *n, node_done_fn *fn, void *ctx);

/* Who leads, or readiness, changed. */
void peers_on_change(struct peers *n);
void peers_turn_end(struct peers *n);

#endif
