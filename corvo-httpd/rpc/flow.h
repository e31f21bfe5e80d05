/*
 * A call with a stream of messages, in one direction or in both. Messages are
 * handed on one by one as they come, and no more are read while their reader
 * says so: the client's window closes then, and nothing piles up here.
 *
 * Loop thread. The request lives until flow_ops.closed.
 */
#ifndef CORVO_RPC_FLOW_H
#define CORVO_RPC_FLOW_H

#include "rpc/remote.h"

struct flow;

struct flow_ops {
	/* The first bytes have come: it is more than a head, and may be ended.
	 * NULL: nobody needs to know. */
	void (*begun)(void *ctx);
	/* Whether a message that is here is to be handed on; false: it waits
	 * until flow_go. NULL: each is. */
	bool (*ready)(void *ctx);
	/* One message, which lasts for the call. */
	void (*message)(void *ctx, struct str bytes);
	/* The client sends nothing more, and all was handed on. */
	void (*ended)(void *ctx);
	/* All that was written is on its way. */
	void (*room)(void *ctx);
	/* The server stops: it is to be ended soon. NULL: it is, at once. */
	void (*stop)(void *ctx);
	/* The client left, or the end has been sent: the last call. */
	void (*closed)(void *ctx);
};

/* Whether one may begin, which it does not when the server stops; false: an
 * error has been answered. */
bool flow_may_begin(struct req *r);
/* Begins the answer. keepalive: an empty message goes out in long silence. */
struct flow *flow_begin(struct req *r, const struct flow_ops *ops, void *ctx,
			bool keepalive);

/* Bytes that can be written now; a message may be larger than that. */
size_t flow_room(const struct flow *f);
void flow_send(struct flow *f, const struct pb_desc *d, const void *m);
/* Nothing comes after it: err 0, or why. Later ones mean nothing. */
void flow_end(struct flow *f, int err, struct str text);
bool flow_is_ending(const struct flow *f);

/* No message is handed on until flow_go; neither runs a callback at once. */
void flow_pause(struct flow *f);
void flow_go(struct flow *f);

/* Its reader keeps so many bytes. */
void flow_keeps(struct flow *f, size_t n);
/* It keeps more than little while memory is short: its reader does better to
 * be done with some of it before more comes. */
bool flow_is_crowded(const struct flow *f);

/* --- for rpc/dispatch.c --- */

/* What came of the body; and its end. */
void flow_feed(struct flow *f, struct str bytes);
void flow_feed_end(struct flow *f);

#endif
