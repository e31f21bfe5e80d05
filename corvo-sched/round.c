/*
 * See round.h.
 */
#include "round.h"

#include <stdlib.h>

#include "util/clock.h"

struct slot {
	struct round *r;
	round_did_fn *did;
	struct rpc_call *call; /* NULL: answered */
};

struct round {
	struct rpc_client *raftd;
	uint64_t op_timeout_ns;
	const struct round_ops *ops;
	void *ctx;
	struct buf scratch;
	struct rpc_call *query;
	struct slot slots[ROUND_MAX]; /* the operations under way */
	size_t slots_n;               /* used in this round */
	size_t open;                  /* not answered yet */
	uint32_t count;
	int err;
};

struct round *round_new(struct rpc_client *raftd, uint64_t op_timeout_ns,
			const struct round_ops *ops, void *ctx)
{
	struct round *r = xcalloc(1, sizeof(*r));

	r->raftd = raftd;
	r->op_timeout_ns = op_timeout_ns;
	r->ops = ops;
	r->ctx = ctx;
	for (size_t i = 0; i < ROUND_MAX; i++)
		r->slots[i].r = r;
	return r;
}

void round_free(struct round *r)
{
	if (r == NULL)
		return;
	buf_done(&r->scratch);
	free(r);
}

bool round_is_busy(const struct round *r)
{
	return r->query != NULL || r->open > 0;
}

void round_cancel(struct round *r)
{
	if (r->query != NULL)
		rpc_cancel(r->raftd, r->query);
	r->query = NULL;
	for (size_t i = 0; i < r->slots_n; i++)
		if (r->slots[i].call != NULL)
			rpc_cancel(r->raftd, r->slots[i].call);
	r->slots_n = r->open = 0;
}

static void end_if_all(struct round *r)
{
	if (r->open > 0)
		return;
	r->slots_n = 0;
	r->ops->on_done(r->ctx, r->err, r->count);
}

static struct rpc_call *call(struct round *r, unsigned id,
			     const struct msg_desc *d, const void *m,
			     rpc_reply_fn *fn, void *ctx)
{
	buf_clear(&r->scratch);
	msg_encode(d, m, &r->scratch);
	return rpc_call(r->raftd, id, STR_NULL, buf_str(&r->scratch),
			clock_mono_ns() + r->op_timeout_ns,
			ERR_LEADER_UNAVAILABLE, RPC_ONCE, fn, ctx);
}

static void on_answer(void *ctx, const struct rpc_reply *reply)
{
	struct slot *s = ctx;
	struct round *r = s->r;

	int did = -reply->err;

	s->call = NULL;
	r->open--;
	if (did == 0)
		did = s->did(r->ctx, reply->body);
	if (did > 0)
		r->count++;
	else if (r->err == 0)
		r->err = did;
	end_if_all(r);
}

bool round_is_full(const struct round *r)
{
	return r->slots_n == ROUND_MAX;
}

void round_propose(struct round *r, unsigned op, const void *m,
		   round_did_fn *did)
{
	struct slot *s;

	CHECK(!round_is_full(r));
	s = &r->slots[r->slots_n++];
	s->did = did;
	r->open++;
	s->call = call(r, op, op_info(op)->request, m, on_answer, s);
}

static void on_due(void *ctx, const struct rpc_reply *reply)
{
	struct round *r = ctx;

	r->query = NULL;
	r->err = -reply->err;
	if (r->err == 0)
		r->err = r->ops->on_due(r->ctx, reply->body);
	end_if_all(r);
}

void round_start(struct round *r)
{
	static const struct m_nothing nothing;

	CHECK(!round_is_busy(r));
	r->slots_n = 0;
	r->count = 0;
	r->err = 0;
	r->query = call(r, r->ops->query, &msg_nothing, &nothing, on_due, r);
}
