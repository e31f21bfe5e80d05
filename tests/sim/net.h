/*
 * Messages between nodes: late, lost, twice, out of order, or refused, as the
 * links are. A cut goes one way.
 */
#ifndef CORVO_SIM_NET_H
#define CORVO_SIM_NET_H

#include "host.h"

#define SIM_NODES 5

/* What becomes of messages while a link is cut. */
enum cut {
	CUT_NONE,
	CUT_LOSES,   /* they are gone, and nobody hears of it */
	CUT_REFUSES, /* the sender is told */
	CUT_HOLDS    /* they wait, and arrive when the cut ends */
};

struct sim_net {
	struct sim *sim;
	struct sim_host *host[SIM_NODES];
	enum cut cut[SIM_NODES][SIM_NODES]; /* from, to */
	uint64_t last_ns[SIM_NODES]
			[SIM_NODES]; /* of streams: arrives not before */
	struct list sends; /* struct net_send under way, of all nodes */
	struct list held;  /* struct net_message that wait for a link */
	struct list flying;
	/* for all links */
	bool is_stream; /* nothing overtakes, nothing comes twice */
	unsigned loss, twice, refuse; /* of a hundred */
	uint64_t delay_min_ns, delay_max_ns;
};

void net_init(struct sim_net *net, struct sim *s);
void net_done(struct sim_net *net);

/* Of raft_io. may_dial: as node_may_dial says of whom it is for. */
int net_send(struct sim_host *from, bool may_dial, struct raft_io_send *req,
	     const struct raft_message *m, raft_io_send_cb cb);
/* The node is about to end: what it sent is told to be cancelled. Its
 * messages, and those to it, may be lost. */
void net_leave(struct sim_host *h);
/* The same of one whose process is dead: it does not hear of what it sent. */
void net_abandon(struct sim_host *h);

void net_cut(struct sim_net *net, unsigned from, unsigned to, enum cut c);
/* All links work, at once and without faults. */
void net_heal(struct sim_net *net);

#endif
