/*
 * The event log, for all streams of this process: raftd is asked once for the
 * newest events, however many watch, and they are kept in a ring of fixed
 * size. Who is behind the ring reads its part of the log from raftd by itself,
 * one page at a time, until it has come up.
 *
 * A raftd that is away is waited for; nothing is lost or comes twice by that.
 *
 * Loop thread. Nothing is asked while nobody watches.
 */
#ifndef CORVO_HUB_H
#define CORVO_HUB_H

#include "proto/proto.h"
#include "req/req.h"

struct hub;
struct hub_sub;

struct hub *hub_new(struct httpd *h);
void hub_free(struct hub *hub); /* no subscription is left; NULL: fine */

/*
 * From raftd's answer about the log: where a subscription begins. *pos is the
 * place a client named (resumed), or becomes the newest event. False: the
 * request was answered, with an error or that the log no longer has it.
 */
bool hub_place(struct req *r, const struct rpc_reply *reply, bool resumed,
	       uint64_t *pos);

typedef void hub_wake_fn(void *ctx);

/*
 * Events after after_seq. wake(ctx): hub_next has something again; it never
 * runs inside a call from outside, and may end its own subscription.
 */
struct hub_sub *hub_subscribe(struct hub *hub, uint64_t after_seq,
			      hub_wake_fn *wake, void *ctx);
void hub_unsubscribe(struct hub_sub *s);
/* What is read ahead for it counts as held by that exchange, which lasts as
 * long as the subscription. */
void hub_charge(struct hub_sub *s, struct exchange *x);

/*
 * 1: *ret is the next event, good until the loop goes on; 0: none now, or
 * enough of them in this turn of the loop, and wake will be called;
 * -ERR_EVENTS_LOST: the log no longer has what comes next.
 */
int hub_next(struct hub_sub *s, struct m_event *ret);

/* There is no room for the next one: what was read ahead goes, as the client
 * may never take anything again, and is read anew. */
void hub_rest(struct hub_sub *s);

/* The event hub_next gave last as a frame of a stream, made once for all. */
struct str hub_frame(struct hub_sub *s);

#endif
