/*
 * Our own log in the place of the library's, which keeps term and vote,
 * snapshots, ticks and the transport.
 */
#ifndef CORVO_NODE_LOG_H
#define CORVO_NODE_LOG_H

#include "cluster/node_impl.h"

/* After node_base_open, before others stand before what it has. dir: of the
 * library's files. */
void node_log_wire(struct node *n, const struct settings *s, const char *dir);
/* After raft_init: begins to write. 0 or -ERR_* with a sentence in why. */
int node_log_open(struct node *n, const char *dir, struct buf *why);
/* The library will not ask for entries up to there any more. */
void node_log_cut(struct node *n, uint64_t index);
void node_log_done(struct node *n);

#endif
