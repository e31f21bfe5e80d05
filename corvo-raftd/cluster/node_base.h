/*
 * What the library stands on, below all that this folder puts before it: term
 * and vote, snapshots, ticks, and the way to other nodes. The one of node_uv.c
 * is the library's own on libuv; the simulation of tests/sim has another, and
 * nothing above this header knows which it is.
 */
#ifndef CORVO_NODE_BASE_H
#define CORVO_NODE_BASE_H

#include "cluster/node_impl.h"

/* Fills n->io; dir: of its files. 0 or an error of the library. */
int node_base_open(struct node *n, const struct settings *s, const char *dir);
/* Others may talk to this node from now on, if it belongs to a cluster. */
void node_base_let_in(struct node *n);
/* After io.close has said that it is closed: whether nothing of it is left on
 * the loop. */
bool node_base_is_settled(struct node *n);
/* Gives back what node_base_open has made. */
void node_base_close(struct node *n);
/* One turn of the loop, for somebody who waits for the end. */
void node_base_wait(struct node *n);

#endif
