/*
 * Requests of this node's processes while another node leads: passed on to it
 * as they came, and its answers back. What was not answered when leadership
 * moves goes, as a resend, to the next leader, or is done here when that is
 * this node; nothing waits longer than its own deadline.
 *
 * Loop thread only.
 */
#ifndef CORVO_FORWARD_H
#define CORVO_FORWARD_H

#include "rt/rpc.h"

struct forward;

/* open makes the link to whoever leads; see rpc_client_to_node. */
struct forward *forward_new(struct loop *l, rpc_open_fn *open, void *ctx);
void forward_free(struct forward *f); /* unanswered requests are dropped */

void forward_submit(struct forward *f, struct rpc_req req,
		    const struct frame_request *item);
/* It is answered at once, unless the leader is at it: that it was not done, or,
 * when whoever led had it and is gone, that nobody knows. */
void forward_cancel(struct forward *f, struct rpc_req req);
void forward_peer_down(struct forward *f, const struct rpc_peer *peer);

/* A word to the leader. Should it become this node, a change is taken back, and
 * all else is forgotten. */
void forward_tell(struct forward *f, uint32_t id, struct str body);
/* What is answered to that, or that nothing was. */
typedef void forward_told_fn(void *ctx, uint32_t id, const struct rpc_reply *r);
void forward_on_told(struct forward *f, forward_told_fn *fn, void *ctx);

/* fn gets what the leader answered to heartbeats, before who asked does. */
typedef void forward_beat_fn(void *ctx, struct str reply);
void forward_on_beat(struct forward *f, forward_beat_fn *fn, void *ctx);

/*
 * A question of this process itself to the leader. fn as for rpc_call; when
 * this node becomes the leader, as if it had been refused.
 */
void forward_ask(struct forward *f, uint32_t id, struct str body,
		 uint64_t deadline_ns, rpc_reply_fn *fn, void *ctx);

/* This node leads: fn gets whatever was not answered, oldest first. A change of
 * this process' own has no peer in req, and nobody waits for its answer. */
typedef void forward_fn(void *ctx, struct rpc_req req,
			const struct frame_request *item);
void forward_take_back(struct forward *f, forward_fn *fn, void *ctx);

/* The end of a turn: sends what has gathered. */
void forward_flush(struct forward *f);

bool forward_is_up(const struct forward *f); /* the leader answers */
size_t forward_pending(const struct forward *f);
/* For a drain since then: what the leader was asked is waited for; that there
 * is one again, for a moment only. */
bool forward_is_over(const struct forward *f, uint64_t since_ns);
uint64_t forward_passed(const struct forward *f); /* ops, since the start */
/* Event sequence of the last change that was answered through here, or that the
 * leader was asked for. */
uint64_t forward_seq(const struct forward *f);

#endif
