/*
 * Keeps the view in step with raftd: asks for events, writes them on a pool
 * thread while the next ones are on their way, and rebuilds the file from a
 * checkpoint when it cannot be continued.
 *
 * Loop thread. Answers are raftd's; one that cannot be read is asked for
 * again.
 */
#ifndef CORVO_FEED_H
#define CORVO_FEED_H

#include "rt/daemon.h"
#include "service.h"
#include "view.h"

struct feed;

/* v may be open already. NULL with a sentence in why. */
struct feed *feed_new(struct daemon *d, struct view *v, struct buf *why);
void feed_free(struct feed *f); /* after feed_stop ended; NULL: fine */
void feed_flush(struct feed *f);

/* Begins; s is told of every step. */
void feed_start(struct feed *f, struct service *s);

/* A reader found the file damaged. */
void feed_damaged(struct feed *f);

/* The file is not where it was, or not as it was. */
void feed_displaced(struct feed *f, enum view_place place);

/* rebuild_view or verify_view; it is answered in time. */
void feed_admin(struct feed *f, unsigned query, struct rpc_req req);
/* Nobody waits any more for that one, or (NULL) for any of the peer. */
void feed_admin_gone(struct feed *f, const struct rpc_peer *peer,
		     const struct rpc_req *req);

/* Ends what is under way, then calls done(ctx); the writer is idle then. */
void feed_stop(struct feed *f, loop_fn *done, void *ctx);

#endif
