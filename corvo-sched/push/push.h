/*
 * Push queues: their due jobs are fetched like by a worker, a URL is called for
 * each, and what came of it is reported like by a worker. Nothing is kept here:
 * a job that was fetched by a process that is gone is given back by the next
 * one, or taken back when its lease ends.
 *
 * Loop thread.
 */
#ifndef CORVO_PUSH_PUSH_H
#define CORVO_PUSH_PUSH_H

#include "rt/daemon.h"
#include "rt/rpc.h"

struct push;

/* NULL with a sentence in why. */
struct push *push_new(struct daemon *d, struct rpc_client *raftd,
		      struct buf *why);
void push_free(struct push *p); /* after the client: no call has an answer */
void push_link(struct push *p, bool up);
void push_turn_end(struct push *p);
/* Takes nothing more; `done` runs when no call is under way any more, or after
 * a while. */
void push_drain(struct push *p, loop_fn *done, void *ctx);

#endif
