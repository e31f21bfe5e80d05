/*
 * The scheduler process: sleeps until raftd has due work, then proposes
 * bounded batches of promote, reclaim and expire. It stores nothing: after a
 * restart it asks raftd again. One thread, the daemon's loop. Its only input
 * is raftd's answers, which are read as messages and refused when malformed.
 */
#ifndef CORVO_SCHED_H
#define CORVO_SCHED_H

#include "rt/daemon.h"

extern const struct daemon_ops sched_ops;

#endif
