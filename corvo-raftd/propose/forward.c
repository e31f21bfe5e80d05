#include "propose/forward.h"

#include <stdlib.h>

#include "proto/job.h"
#include "rt/log.h"
#include "util/clock.h"
#include "util/hmap.h"

#define TELL_NS (10 * NS_PER_S) /* then it is forgotten */
/* Whoever asked is told that nobody leads so long before his time is over: he
 * would take silence for something else. */
#define NO_LEADER_NS (100 * NS_PER_MS)
#define LEADER_NS    NS_PER_S /* a drain waits so long for one */

struct forward {
	struct rpc_client *client;
	struct hmap passed; /* struct rpc_req -> struct passed */
	uint64_t seq;
	uint64_t own;      /* calls of our own so far */
	uint64_t passed_n; /* of others */
	forward_told_fn *told;
	void *told_ctx;
	forward_beat_fn *beat;
	void *beat_ctx;
	struct arena scratch;
};

struct passed {
	struct forward *f;
	bool own; /* nobody waits but ourselves */
	struct rpc_req req;
	rpc_reply_fn *fn; /* of forward_ask, with its ctx; or NULL */
	void *ctx;
	uint32_t op;
	bool cancelled; /* who asked does not want it any more */
	struct rpc_call *call;
};

struct forward *forward_new(struct loop *l, rpc_open_fn *open, void *ctx)
{
	struct forward *f = xcalloc(1, sizeof(*f));

	f->client = rpc_client_to_node(l, "the leader", open, ctx);
	return f;
}

void forward_free(struct forward *f)
{
	size_t pos = 0;
	struct str key;
	void *v;

	if (f == NULL)
		return;
	rpc_client_free(f->client);
	while (hmap_next(&f->passed, &pos, &key, &v))
		free(v);
	hmap_done(&f->passed);
	arena_done(&f->scratch);
	free(f);
}

static void forget(struct passed *p)
{
	hmap_remove(&p->f->passed, rpc_req_key(&p->req));
	free(p);
}

/* --- our own --- */

static struct passed *passed_new(struct forward *f, struct rpc_req req,
				 uint32_t op)
{
	struct passed *p = xcalloc(1, sizeof(*p));

	p->f = f;
	p->req = req;
	p->op = op;
	CHECK(hmap_get(&f->passed, rpc_req_key(&p->req)) == NULL);
	hmap_put(&f->passed, rpc_req_key(&p->req), p);
	return p;
}

static void on_told(void *ctx, const struct rpc_reply *r)
{
	struct passed *p = ctx;
	struct forward *f = p->f;
	uint32_t op = p->op;

	forget(p);
	if (f->told != NULL)
		f->told(f->told_ctx, op, r);
}

static struct passed *own_new(struct forward *f, uint32_t op)
{
	/* no connection has such a number */
	struct rpc_req req = { .id = UINT64_MAX - ++f->own };
	struct passed *p = passed_new(f, req, op);

	p->own = true;
	return p;
}

void forward_tell(struct forward *f, uint32_t id, struct str body)
{
	struct frame_request item = {
		.op = id, .body = body, .deadline_ns = clock_mono_ns() + TELL_NS
	};
	struct passed *p = own_new(f, id);

	p->call =
	    rpc_forward(f->client, &item, ERR_LEADER_UNAVAILABLE, on_told, p);
}

void forward_on_told(struct forward *f, forward_told_fn *fn, void *ctx)
{
	f->told = fn;
	f->told_ctx = ctx;
}

void forward_on_beat(struct forward *f, forward_beat_fn *fn, void *ctx)
{
	f->beat = fn;
	f->beat_ctx = ctx;
}

static void on_asked(void *ctx, const struct rpc_reply *r)
{
	struct passed *p = ctx;
	rpc_reply_fn *fn = p->fn;
	void *fn_ctx = p->ctx;

	forget(p);
	fn(fn_ctx, r);
}

void forward_ask(struct forward *f, uint32_t id, struct str body,
		 uint64_t deadline_ns, rpc_reply_fn *fn, void *ctx)
{
	struct frame_request item = { .op = id,
				      .body = body,
				      .deadline_ns = deadline_ns };
	struct passed *p = own_new(f, id);

	p->fn = fn;
	p->ctx = ctx;
	p->call =
	    rpc_forward(f->client, &item, ERR_LEADER_UNAVAILABLE, on_asked, p);
}

/* Should that be lost, the job waits for the end of its lease. */
static void give_back(struct forward *f, const struct rpc_reply *r)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(0);
	struct m_fetch_reply m;

	arena_reset(&f->scratch);
	if (msg_decode(&msg_fetch_reply, r->body, &f->scratch, &m) < 0)
		return;
	for (size_t i = 0; i < m.jobs_n; i++) {
		struct m_fail fail = fetched_give_back(&m.jobs[i]);

		buf_clear(&body);
		msg_encode(&msg_fail, &fail, &body);
		forward_tell(f, OP_FAIL, buf_str(&body));
	}
}

/* --- passing on --- */

/* Whoever asked wants no jobs any more, and is told that it has none. */
static void tell_empty(const struct passed *p)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(0);
	struct m_fetch_reply none = { 0 };

	MSG_SET_LIST(&none, fetch_reply, jobs, NULL, 0);
	msg_encode(&msg_fetch_reply, &none, &body);
	rpc_reply(p->req, 0, 0, buf_str(&body));
}

static void on_reply(void *ctx, const struct rpc_reply *r)
{
	struct passed *p = ctx;
	struct forward *f = p->f;
	bool gone = p->cancelled || !rpc_req_is_live(p->req);

	if (r->err == 0 && (op_info(p->op) != NULL || p->op == QUERY_FENCE))
		f->seq = MAX(f->seq, r->seq);
	if (r->err == 0 && p->op == OP_HEARTBEAT && f->beat != NULL)
		f->beat(f->beat_ctx, r->body);
	if (p->op == OP_FETCH && r->err == 0 && gone) {
		give_back(f, r);
		tell_empty(p);
	} else {
		rpc_reply(p->req, r->err, r->seq, r->body);
	}
	forget(p);
}

void forward_submit(struct forward *f, struct rpc_req req,
		    const struct frame_request *item)
{
	struct passed *p;

	if (hmap_get(&f->passed, rpc_req_key(&req)) != NULL) {
		rpc_reply(req, ERR_BAD_MESSAGE, 0,
			  str_from(err_text(ERR_BAD_MESSAGE)));
		return; /* its id comes twice */
	}
	p = passed_new(f, req, item->op);
	f->passed_n += op_info(item->op) != NULL;
	p->call =
	    rpc_forward(f->client, item, ERR_LEADER_UNAVAILABLE, on_reply, p);
	if (item->deadline_ns > NO_LEADER_NS && !rpc_client_is_up(f->client))
		rpc_send_by(f->client, p->call,
			    item->deadline_ns - NO_LEADER_NS);
}

static void refuse(const struct passed *p, int err)
{
	rpc_reply(p->req, err, 0, str_from(err_text(err)));
}

/*
 * Whoever asked may wait for the answer yet: a job may be in it, or he has to
 * end and wants to know whether it was done. Nobody knows that of a change that
 * a leader had who is gone. What a fetch may have been given is asked for all
 * the same.
 */
void forward_cancel(struct forward *f, struct rpc_req req)
{
	struct passed *p = hmap_get(&f->passed, rpc_req_key(&req));

	if (p == NULL)
		return;
	p->cancelled = true;
	if (rpc_abandon(f->client, p->call, on_reply, p)) {
		if (p->op == OP_FETCH)
			tell_empty(p);
		else
			refuse(p, ERR_LEADER_UNAVAILABLE);
		forget(p);
	} else if (!rpc_client_is_up(f->client)) {
		refuse(p, call_changes(p->op) ? ERR_OUTCOME_UNKNOWN
					      : ERR_LEADER_UNAVAILABLE);
		if (p->op == OP_FETCH)
			return;
		rpc_cancel(f->client, p->call);
		forget(p);
	}
}

void forward_peer_down(struct forward *f, const struct rpc_peer *peer)
{
	size_t pos = 0;
	struct str key;
	void *v;

	while (hmap_next(&f->passed, &pos, &key, &v)) {
		struct passed *p = v;

		if (p->req.peer == peer &&
		    rpc_abandon(f->client, p->call, on_reply, p))
			forget(p);
	}
}

struct taking {
	forward_fn *fn;
	void *ctx;
};

static void on_taken(void *arg, void *ctx, const struct frame_request *item)
{
	const struct taking *t = arg;
	struct passed *p = ctx;
	struct rpc_req req = p->req;
	bool own = p->own;

	if (p->fn != NULL) {
		on_asked(p,
			 &(struct rpc_reply){
			     .err = frame_refusal(item, ERR_LEADER_UNAVAILABLE),
			     .body = STR("this node leads now"),
			 });
		return;
	}
	if (p->cancelled && p->op == OP_FETCH) {
		tell_empty(p);
		forget(p);
		return;
	}
	forget(p);
	/* of our own: news are for others, changes are not */
	if (own && op_info(item->op) != NULL)
		t->fn(t->ctx, (struct rpc_req){ 0 }, item);
	else if (!own && rpc_req_is_live(req))
		t->fn(t->ctx, req, item);
}

void forward_take_back(struct forward *f, forward_fn *fn, void *ctx)
{
	struct taking t = { fn, ctx };

	rpc_client_take_back(f->client, on_taken, &t);
}

void forward_flush(struct forward *f)
{
	rpc_client_flush(f->client);
}

bool forward_is_up(const struct forward *f)
{
	return rpc_client_is_up(f->client);
}

size_t forward_pending(const struct forward *f)
{
	return rpc_client_pending(f->client);
}

bool forward_is_over(const struct forward *f, uint64_t since_ns)
{
	if (forward_pending(f) == 0)
		return true;
	if (forward_is_up(f) || clock_mono_ns() < since_ns + LEADER_NS)
		return false;
	log_info("stopping; no leader answers: %zu requests to one are given "
		 "up",
		 forward_pending(f));
	return true;
}

uint64_t forward_passed(const struct forward *f)
{
	return f->passed_n;
}

uint64_t forward_seq(const struct forward *f)
{
	return f->seq;
}
