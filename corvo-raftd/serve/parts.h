/*
 * The parts of this process that its services answer from. raftd.c makes them,
 * wires them and owns them; here they are only used. Loop thread.
 */
#ifndef CORVO_PARTS_H
#define CORVO_PARTS_H

#include "cluster/node.h"
#include "fsm/fsm.h"
#include "propose/forward.h"
#include "propose/leases.h"
#include "propose/proposer.h"
#include "rt/daemon.h"
#include "rt/worker.h"
#include "serve/throughput.h"

struct gather;
struct keep;
struct port;

/* A snapshot of the leader, while this node fetches it. */
struct fetching {
	uint64_t index;       /* of it; 0: none */
	uint64_t done, total; /* bytes; total 0: not known yet */
	uint64_t received;    /* bytes, since the start of the process */
	uint64_t failures;    /* tries, since then */
	struct str problem;   /* why the last one failed; empty: it did not */
};

struct parts {
	struct daemon *d;
	struct kv *kv;
	struct fsm *fsm;
	struct node *node;
	struct proposer *proposer;
	struct leases *leases;
	struct forward *forward; /* NULL: there are no other nodes */
	struct port *port;       /* for those; NULL: the same */
	struct gather *gather;   /* NULL: this node need not look for others */
	const char *address;     /* by which those reach this one */
	struct worker *worker;   /* the feed, checkpoints and snapshots */
	struct worker *prompt; /* the feed of a view that is late, and lists */
	struct keep *keep;
	/* NULL: there are no other nodes, and nothing is fetched. */
	void (*fetching)(void *ctx, struct fetching *ret);
	void *fetching_ctx;
	uint64_t installed; /* snapshot this start has put in place; 0: none */
	bool healed;        /* and it took the place of a damaged store */
	struct throughput throughput;
	uint64_t started_ns; /* this process; clock_mono_ns */
	bool removed;        /* from the cluster, by others */
	struct buf damage;   /* why the node has frozen, in a sentence */
};

#endif
