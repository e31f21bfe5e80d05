/*
 * Schedules whose time has come: asks raftd which they are, computes what is
 * to be done with each, and proposes it. The state machine judges whether the
 * plan still holds, so nothing bad comes of asking twice.
 */
#ifndef CORVO_FIRES_H
#define CORVO_FIRES_H

#include "rt/rpc.h"

struct fires;

/*
 * A round is over. err: -ERR_* of the first operation that was refused.
 * count: operations that did something.
 */
typedef void fires_done_fn(void *ctx, int err, uint32_t count);

struct fires *fires_new(struct rpc_client *raftd, uint64_t op_timeout_ns,
			fires_done_fn *done, void *ctx);
void fires_free(struct fires *f);

void fires_start(struct fires *f); /* one round; done runs once, later */
bool fires_is_busy(const struct fires *f);
void fires_cancel(struct fires *f); /* done does not run */

#endif
