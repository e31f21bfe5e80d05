/*
 * corvo-raftd: the only writer of truth. Wires the raft node, the state
 * machine, the proposer and the services together.
 */
#ifndef CORVO_RAFTD_H
#define CORVO_RAFTD_H

#include "rt/daemon.h"

extern const struct daemon_ops raftd_ops;

#endif
