/*
 * corvo-raftd: the only writer of truth. Wires the raft node, the state
 * machine, the proposer and the services together.
 */
#ifndef CORVO_RAFTD_H
#define CORVO_RAFTD_H

#include "cluster/node.h"
#include "fsm/fsm.h"
#include "propose/leases.h"
#include "propose/proposer.h"
#include "rt/daemon.h"
#include "rt/worker.h"
#include "serve/throughput.h"

struct svc;

struct raftd {
	struct daemon *d;
	struct kv *kv;
	struct fsm *fsm;
	struct node *node;
	struct proposer *proposer;
	struct leases *leases;
	struct worker *worker; /* the feed and checkpoints */
	struct rpc_server *rpc;
	struct svc *svc;
	struct throughput throughput;
	uint64_t started_ns;
	int lock_fd;  /* <data-dir>/raftd.lock */
	bool leading; /* grace was given for this leadership */
	bool draining;
	bool stopping; /* the node is being closed */
};

extern const struct daemon_ops raftd_ops;

#endif
