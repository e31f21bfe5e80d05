/*
 * A round of work: asks raftd what is due, proposes operations for it, and
 * tells when all of them were answered. One round at a time.
 *
 * Loop thread. raftd's answers are read as messages by the owner.
 */
#ifndef CORVO_ROUND_H
#define CORVO_ROUND_H

#include "rt/rpc.h"

#define ROUND_MAX 512 /* operations of one round */

struct round;

struct round_ops {
	unsigned query; /* what is due; takes no members */
	/* The answer: calls round_propose for what is to be done. 0 or
	 * -ERR_*. */
	int (*on_due)(void *ctx, struct str body);
	/* err: -ERR_* of the first that was refused. count: operations that
	 * did something. */
	void (*on_done)(void *ctx, int err, uint32_t count);
};

struct round *round_new(struct rpc_client *raftd, uint64_t op_timeout_ns,
			const struct round_ops *ops, void *ctx);
void round_free(struct round *r); /* the client goes, its calls with it */

void round_start(struct round *r); /* on_done runs once, later */
bool round_is_busy(const struct round *r);
void round_cancel(struct round *r); /* on_done does not run */

/* The answer of an operation that was not refused: 1 when it did something,
 * 0 when not, -ERR_* when it cannot be read. */
typedef int round_did_fn(void *ctx, struct str body);

/* Only in on_due, and not when it is full. */
bool round_is_full(const struct round *r);
void round_propose(struct round *r, unsigned op, const void *m,
		   round_did_fn *did);

#endif
