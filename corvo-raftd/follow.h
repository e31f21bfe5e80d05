/*
 * A node that is too far behind for the log: it takes the leader's snapshot,
 * and ends itself, since the next start puts it in place (cluster/install.h).
 *
 * While it fetches one, the leader may have taken newer ones. These are fetched
 * after it, each taking the files it has in common with the one before, until
 * one was quick: what is missing then is still in the leader's log.
 *
 * A node whose store is damaged takes one in the place of its store, when its
 * log has what follows.
 *
 * Loop thread.
 */
#ifndef CORVO_FOLLOW_H
#define CORVO_FOLLOW_H

#include "cluster/node.h"
#include "rt/rpc.h"

struct follow;

struct follow_config {
	struct loop *loop;
	const struct settings *settings;
	/* A link for files to the node with that raft id; NULL: not now. Its
	 * owner flushes it. */
	struct rpc_client *(*open)(void *ctx, uint64_t raft_id);
	void (*close)(void *ctx, struct rpc_client *c);
	/* Whether the log is still behind it, or has got there by itself. */
	bool (*is_needed)(void *ctx, const struct node_install *i);
	/* Of a store by itself: whether the log has the entry it ends with, so
	 * that it goes on from there. Asked until it has, for a minute. */
	bool (*has_entry)(void *ctx, uint64_t index,
			  const struct entry_origin *o);
	/* One is about to be fetched, after none was. NULL: nobody minds. */
	void (*on_begin)(void *ctx);
	/* All is there: the process is to end, and to be started again. */
	void (*on_ready)(void *ctx);
	void *ctx;
};

struct follow *follow_new(const struct follow_config *c);
void follow_free(struct follow *f);

/* The leader offers its snapshot, as it does again and again; or it was asked
 * for one that is to heal this node's store. */
void follow_offer(struct follow *f, const struct node_install *i);

struct follow_status {
	bool active;          /* a snapshot is on its way */
	uint64_t index;       /* of it */
	uint64_t done, total; /* bytes; total 0: not known yet */
	uint64_t received;    /* bytes in all */
	uint64_t failures;    /* tries in all */
	struct str problem;   /* why the last try failed; empty: it did not */
};

void follow_status(const struct follow *f, struct follow_status *ret);

#endif
