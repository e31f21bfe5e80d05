/*
 * Bulk operations that can go on: asks raftd which they are and proposes one
 * step for each. The state machine judges whether a step still fits, so
 * nothing bad comes of asking twice.
 */
#ifndef CORVO_BULKS_H
#define CORVO_BULKS_H

#include "rt/rpc.h"

struct bulks;

/*
 * A round is over. err: -ERR_* of the first step that was refused. count:
 * steps that did something. more: there is more to do, after a rest.
 */
typedef void bulks_done_fn(void *ctx, int err, uint32_t count, bool more,
			   uint64_t rest_ns);

struct bulks *bulks_new(struct rpc_client *raftd, uint64_t op_timeout_ns,
			bulks_done_fn *done, void *ctx);
void bulks_free(struct bulks *b);

void bulks_start(struct bulks *b); /* one round; done runs once, later */
bool bulks_is_busy(const struct bulks *b);
void bulks_cancel(struct bulks *b); /* done does not run */

#endif
