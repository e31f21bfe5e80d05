/*
 * Where clients ask: one place in each machine, which stands for corvo-httpd.
 * Every answer is held against what the log says.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "clients.h"
#include "proto/job.h"
#include "rt/rpc_client.h"
#include "util/clock.h"
#include "whole.h"
#include "witness.h"

#define LATE_NS NS_PER_S /* for the answer to come back */

struct ask {
	struct list node; /* in desk.asks */
	struct desk *desk;
	struct witness_call call;
	uint64_t until_ns; /* its deadline; 0: none */
	bool is_kept;
	struct rpc_call *rpc;
	rpc_reply_fn *fn;
	void *ctx;
};

static void on_desk_turn(void *ctx)
{
	struct desk *d = ctx;

	rpc_client_flush(d->raftd);
}

struct desk *desk_new(struct machine *m)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	struct desk *d = xcalloc(1, sizeof(*d));
	struct loop *before;

	d->m = m;
	d->loop.sim = m->host.sim;
	d->loop.host = &m->host;
	list_init(&d->asks);
	before = sim_enter(&d->loop);
	d->ipc = ipc_new(&d->loop);
	daemon_link_path(&m->d, PROC_RAFTD, PROC_HTTPD, 0, &path);
	d->raftd = rpc_client_new(d->ipc, path.p, PROC_HTTPD, &why);
	CHECK(d->raftd != NULL);
	loop_on_turn_end(&d->loop, on_desk_turn, d);
	(void)sim_enter(before);
	return d;
}

static void ask_free(struct ask *a)
{
	list_remove(&a->node);
	free(a);
}

void desk_free(struct desk *d)
{
	LIST_FOREACH_SAFE (it, &d->asks)
		ask_free(list_entry(it, struct ask, node));
	rpc_client_free(d->raftd);
	ipc_free(d->ipc);
	free(d);
}

struct desk *desk_any(struct whole *w)
{
	return w->machine[sim_below(w->sim, w->plan.machines)].desk;
}

static void on_reply(void *ctx, const struct rpc_reply *r)
{
	struct ask *a = ctx;

	if (r->err == ERR_INTERNAL_ERROR || r->err == ERR_BAD_MESSAGE)
		whole_fail(a->desk->m->w,
			   "request %u by node %u is answered %s", a->call.op,
			   a->desk->m->host.number, err_code(r->err));
	if (a->call.op >= QUERY_FIRST)
		whole_count(a->desk->m->w, a->call.op, r->err);
	if (a->is_kept)
		witness_hear(a->desk->m->w->witness, &a->call, r);
	if (a->fn != NULL)
		a->fn(a->ctx, r);
	ask_free(a);
}

/* The jobs of a fetch that nobody waits for any more, as corvo-httpd does it.
 */
static void give_back(void *ctx, const struct rpc_reply *r)
{
	struct desk *d = ctx;
	struct arena a = ARENA_INIT;
	struct buf b = BUF_INIT(0);
	struct m_fetch_reply m;

	if (r->err != 0)
		return;
	CHECK(msg_decode(&msg_fetch_reply, r->body, &a, &m) == 0);
	for (size_t i = 0; i < m.jobs_n; i++) {
		struct m_fail fail = fetched_give_back(&m.jobs[i]);

		buf_clear(&b);
		msg_encode(&msg_fail, &fail, &b);
		(void)desk_ask(d, OP_FAIL, buf_str(&b),
			       clock_mono_ns() + OP_TIMEOUT_NS, NULL, NULL);
		d->m->w->tally.given_back++;
	}
	buf_done(&b);
	arena_done(&a);
}

struct ask *desk_ask(struct desk *d, unsigned op, struct str body,
		     uint64_t until_ns, rpc_reply_fn *fn, void *ctx)
{
	struct loop *before = sim_enter(&d->loop);
	struct ask *a = xcalloc(1, sizeof(*a));
	bool is_query = op >= QUERY_FIRST;
	unsigned flags = call_changes(op) ? RPC_CHANGES : 0;

	a->desk = d;
	a->fn = fn;
	a->ctx = ctx;
	a->until_ns = until_ns;
	a->is_kept = !is_query && op != OP_FETCH;
	list_push_back(&d->asks, &a->node);
	a->rpc =
	    rpc_call(d->raftd, op, STR_NULL, body, until_ns,
		     is_query ? ERR_REQUEST_TIMEOUT : ERR_LEADER_UNAVAILABLE,
		     flags | (a->is_kept ? RPC_KEEP : 0), on_reply, a);
	a->call = (struct witness_call){ .origin = d->raftd->origin,
					 .number = a->rpc->id,
					 .op = op };
	if (op == OP_FETCH)
		rpc_when_late(a->rpc, give_back, d);
	rpc_client_flush(d->raftd);
	(void)sim_enter(before);
	return a;
}

void desk_check(const struct desk *d)
{
	LIST_FOREACH (it, &d->asks) {
		const struct ask *a = list_entry(it, struct ask, node);

		if (a->until_ns != 0 &&
		    d->m->w->sim->now_ns > a->until_ns + LATE_NS)
			whole_fail(
			    d->m->w,
			    "request %u by node %u has had no answer for "
			    "%" PRIu64 " s after its deadline",
			    a->call.op, d->m->host.number,
			    (d->m->w->sim->now_ns - a->until_ns) / NS_PER_S);
	}
}

void desk_withdraw(struct ask *a)
{
	struct loop *before = sim_enter(&a->desk->loop);

	if (a->call.op == OP_FETCH)
		(void)rpc_abandon(a->desk->raftd, a->rpc, give_back, a->desk);
	else
		rpc_cancel(a->desk->raftd, a->rpc);
	rpc_client_flush(a->desk->raftd);
	ask_free(a);
	(void)sim_enter(before);
}
