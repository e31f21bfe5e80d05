#include "keeper.h"

#include <stdlib.h>

#include "corvo-sched/bulks.h"
#include "corvo-sched/fires.h"
#include "corvo-sched/push/push.h"
#include "machine.h"
#include "rt/rpc.h"
#include "util/clock.h"
#include "whole.h"

#define LOOK_NS       (20 * NS_PER_MS)
#define OP_TIMEOUT_NS (5 * NS_PER_S)

struct task {
	struct keeper *k;
	unsigned op;
	bool is_asked;
};

enum { PROMOTE, RECLAIM, EXPIRE, RELEASE, PURGE, DEADLINE, TASKS };

struct keeper {
	struct machine *m;
	struct loop loop;
	struct ipc *ipc;
	struct rpc_client *raftd;
	struct sim_event look;
	bool is_asked, is_trimming;
	struct task task[TASKS];
	struct fires *fires; /* corvo-sched's own */
	struct bulks *bulks;
	struct push *push;
	struct daemon d; /* that push is a part of */
};

static void on_turn(void *ctx)
{
	struct keeper *k = ctx;

	push_turn_end(k->push);
	rpc_client_flush(k->raftd);
}

static void on_link(void *ctx, bool up)
{
	push_link(((struct keeper *)ctx)->push, up);
}

/* Nothing it asks for is beyond what corvo-raftd can do. */
static void look_at(const struct keeper *k, const char *what, int err)
{
	if (err == ERR_INTERNAL_ERROR || err == ERR_BAD_MESSAGE)
		whole_fail(k->m->w,
			   "%s for the sched of node %u is answered %s", what,
			   k->m->host.number, err_code(err));
}

static void on_done(void *ctx, const struct rpc_reply *r)
{
	struct task *t = ctx;

	look_at(t->k, op_info(t->op)->name, r->err);
	t->is_asked = false;
}

static void propose(struct task *t, uint64_t due_ns)
{
	struct m_maintain m = { 0 };
	struct buf b = BUF_INIT(0);

	if (due_ns == 0 || due_ns > clock_wall_ns() || t->is_asked)
		return;
	MSG_SET(&m, maintain, limit, LIMIT_MAINTAIN_JOBS);
	if (t->op == OP_RECLAIM)
		MSG_SET(&m, maintain, asked_ns, clock_wall_ns());
	msg_encode(&msg_maintain, &m, &b);
	t->is_asked = true;
	(void)rpc_call(t->k->raftd, t->op, STR_NULL, buf_str(&b),
		       clock_mono_ns() + OP_TIMEOUT_NS, ERR_LEADER_UNAVAILABLE,
		       RPC_ONCE, on_done, t);
	buf_done(&b);
}

static void on_trimmed(void *ctx, const struct rpc_reply *r)
{
	struct keeper *k = ctx;

	look_at(k, "trim_events", r->err);
	k->is_trimming = false;
}

static void trim(struct keeper *k, uint64_t upto_seq)
{
	struct m_maintain m = { 0 };
	struct buf b = BUF_INIT(0);

	if (upto_seq == 0 || k->is_trimming)
		return;
	k->is_trimming = true;
	MSG_SET(&m, maintain, upto_seq, upto_seq);
	msg_encode(&msg_maintain, &m, &b);
	(void)rpc_call(k->raftd, OP_TRIM_EVENTS, STR_NULL, buf_str(&b),
		       clock_mono_ns() + OP_TIMEOUT_NS, ERR_LEADER_UNAVAILABLE,
		       RPC_ONCE, on_trimmed, k);
	buf_done(&b);
}

static bool is_due(uint64_t due_ns)
{
	return due_ns != 0 && due_ns <= clock_wall_ns();
}

static void on_fired(void *ctx, int err, uint32_t count)
{
	look_at(ctx, "a step", -err);
	(void)count;
}

static void on_stepped(void *ctx, int err, uint32_t count, bool more,
		       uint64_t rest_ns)
{
	(void)more;
	(void)rest_ns;
	on_fired(ctx, err, count);
}

static void act(struct keeper *k, const struct m_due_reply *m)
{
	propose(&k->task[PROMOTE], m->promote_ns);
	propose(&k->task[RECLAIM], m->reclaim_ns);
	propose(&k->task[EXPIRE], m->expire_ns);
	propose(&k->task[RELEASE], m->release_ns);
	propose(&k->task[PURGE], m->purge_ns);
	propose(&k->task[DEADLINE], m->deadline_ns);
	trim(k, m->trim_seq);
	if (is_due(m->fire_ns) && !fires_is_busy(k->fires))
		fires_start(k->fires);
	if (is_due(m->bulk_ns) && !bulks_is_busy(k->bulks))
		bulks_start(k->bulks);
}

static void on_due(void *ctx, const struct rpc_reply *r)
{
	struct keeper *k = ctx;
	struct arena a = ARENA_INIT;
	struct m_due_reply m;

	k->is_asked = false;
	look_at(k, "due", r->err);
	if (r->err == 0) {
		CHECK(msg_decode(&msg_due_reply, r->body, &a, &m) == 0);
		if (m.leader)
			act(k, &m);
	}
	arena_done(&a);
}

static void on_look(void *ctx)
{
	struct keeper *k = ctx;
	struct m_due m = { 0 };
	struct buf b = BUF_INIT(0);

	sim_after(k->loop.sim, &k->look, &k->loop, LOOK_NS, on_look, k);
	if (k->is_asked)
		return;
	k->is_asked = true;
	msg_encode(&msg_due, &m, &b);
	(void)rpc_call(k->raftd, QUERY_DUE, STR_NULL, buf_str(&b), 0,
		       ERR_LEADER_UNAVAILABLE, RPC_ONCE, on_due, k);
	buf_done(&b);
}

struct keeper *keeper_new(struct machine *m)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	struct keeper *k = xcalloc(1, sizeof(*k));
	static const unsigned ops[TASKS] = {
		[PROMOTE] = OP_PROMOTE, [RECLAIM] = OP_RECLAIM,
		[EXPIRE] = OP_EXPIRE,   [RELEASE] = OP_RELEASE,
		[PURGE] = OP_PURGE,     [DEADLINE] = OP_DEADLINE,
	};
	struct loop *before;

	k->m = m;
	k->loop.sim = m->host.sim;
	k->loop.host = &m->host;
	for (unsigned i = 0; i < TASKS; i++)
		k->task[i] = (struct task){ .k = k, .op = ops[i] };
	before = sim_enter(&k->loop);
	k->ipc = ipc_new(&k->loop);
	daemon_link_path(&m->d, PROC_RAFTD, PROC_SCHED, 0, &path);
	k->raftd = rpc_client_new(k->ipc, path.p, PROC_SCHED, &why);
	CHECK(k->raftd != NULL);
	k->fires = fires_new(k->raftd, OP_TIMEOUT_NS, on_fired, k);
	k->bulks = bulks_new(k->raftd, OP_TIMEOUT_NS, on_stepped, k);
	k->d = (struct daemon){ .proc = PROC_SCHED, .loop = &k->loop };
	CHECK(settings_load(0, NULL, &k->d.settings, &why) == 0);
	k->push = push_new(&k->d, k->raftd, &why);
	CHECK(k->push != NULL);
	rpc_client_on_state(k->raftd, on_link, k);
	loop_on_turn_end(&k->loop, on_turn, k);
	sim_after(k->loop.sim, &k->look, &k->loop, LOOK_NS, on_look, k);
	(void)sim_enter(before);
	return k;
}

static void on_told(void *ctx, const struct rpc_reply *r)
{
	look_at(ctx, "what a stranger has", r->err);
}

void keeper_ask(struct keeper *k, unsigned op, struct str body)
{
	struct loop *before = sim_enter(&k->loop);

	(void)rpc_call(k->raftd, op, STR_NULL, body,
		       clock_mono_ns() + OP_TIMEOUT_NS, ERR_LEADER_UNAVAILABLE,
		       RPC_ONCE, on_told, k);
	rpc_client_flush(k->raftd);
	(void)sim_enter(before);
}

void keeper_free(struct keeper *k)
{
	sim_forget(k->loop.sim, &k->look);
	rpc_client_free(k->raftd);
	fires_free(k->fires);
	bulks_free(k->bulks);
	push_free(k->push);
	settings_done(&k->d.settings);
	ipc_free(k->ipc);
	free(k);
}
