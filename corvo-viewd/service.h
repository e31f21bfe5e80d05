/*
 * Answers httpd's questions. Each may name an event it wants to see; it waits
 * for the view to hold it, without a thread, and then runs on one of the
 * readers (a thread each), so that a slow search delays neither the feed
 * nor, while a reader is free, other questions.
 *
 * Loop thread. Requests come from httpd; one that cannot be read is refused.
 */
#ifndef CORVO_SERVICE_H
#define CORVO_SERVICE_H

#include "rt/daemon.h"
#include "rt/rpc.h"
#include "view.h"

struct service;

struct service_ops {
	/* A reader met a damaged file. */
	void (*on_damage)(void *ctx);
	/* The file is not where it was, or not as it was (view_place). */
	void (*on_displaced)(void *ctx, enum view_place place);
	/* rebuild_view or verify_view: answered by whoever takes it. */
	void (*on_admin)(void *ctx, unsigned query, struct rpc_req req);
	/* Nobody waits any more for that one, or (NULL) for any of the peer. */
	void (*on_admin_gone)(void *ctx, const struct rpc_peer *peer,
			      const struct rpc_req *req);
};

struct service *service_new(struct daemon *d, const struct view *v,
			    const struct service_ops *ops, void *ctx);
void service_free(struct service *s); /* no reader runs; NULL: fine */
/* One link per httpd process. 0 or -ERR_* with a sentence in why. */
int service_listen(struct service *s, struct buf *why);
void service_flush(struct service *s);

/* Whether the view may be shown; until then questions wait or get 503. */
void service_set_usable(struct service *s, bool usable);
/* Whether writers need the processors. While they do, for a second after it
 * was last said, one search runs at a time and a rest follows it; likewise of
 * quick questions, beside it. */
void service_set_busy(struct service *s, bool busy);
bool service_is_busy(const struct service *s);
/* The view moved: v->position is new. head_seq and rebuilds: for metrics. */
void service_advance(struct service *s, uint64_t head_seq, uint64_t rebuilds);

/* The writer is at work, and the file changes. */
void service_set_writing(struct service *s, bool writing);

/* Starts no further reader; idle(ctx) runs when none is at work. */
void service_pause(struct service *s, loop_fn *idle, void *ctx);
void service_resume(struct service *s);
/* Makes readers that are at work end soon. */
void service_interrupt(struct service *s);
/* The same for searches, which begin anew when they may: before a pause that
 * others wait for. */
void service_yield(struct service *s);

#endif
