/*
 * grpc.health.v1: what /readyz tells, for probes of Kubernetes and load
 * balancers that speak gRPC.
 */
#include "routes/handlers.h"
#include "rpc/flow.h"
#include "rpc/streams.h"

#define WATCH_NS (2 * NS_PER_S) /* a watch looks so often */

static bool is_service(struct str name)
{
	const struct pb_method *m;

	for (size_t i = 0; (m = pb_method_at(i)) != NULL; i++) {
		struct str package = str_from(m->file->package), rest = name;

		if (!str_starts(rest, package))
			continue;
		rest = str_skip(rest, package.n);
		if (rest.n > 0 && rest.p[0] == '.' &&
		    str_is(str_skip(rest, 1), m->service))
			return true;
	}
	return false;
}

static enum serving_status status_of(struct arena *a,
				     const struct rpc_reply *reply)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);
	struct m_node_status m;

	return reply->err == 0 &&
		       msg_decode(&msg_node_status, reply->body, a, &m) == 0 &&
		       node_fault(&m, &why) == 0
		   ? HEALTH_SERVING
		   : HEALTH_NOT_SERVING;
}

static bool can_ask(const struct req *r)
{
	return !r->h->draining && rpc_client_is_up(r->h->raftd);
}

/* --- Check --- */

static void answer_health(struct req *r, enum serving_status status)
{
	struct m_health_reply m = { 0 };

	MSG_SET(&m, health_reply, status, status);
	r->x.seq = 0;
	req_answer_message(r, &msg_health_reply, &m, 200);
}

static void on_health(struct req *r, const struct rpc_reply *reply)
{
	answer_health(r, status_of(&r->arena, reply));
}

void serve_health_check(struct req *r)
{
	struct m_health_ask m = { 0 };

	if (!req_read(r, &msg_health_ask, &m))
		return;
	if (m.service.n > 0 && !is_service(m.service))
		req_fail(r, ERR_NOT_FOUND, "there is no such service");
	else if (can_ask(r))
		node_ask(r, on_health);
	else
		answer_health(r, HEALTH_NOT_SERVING);
}

/* --- Watch --- */

struct health_watch {
	struct req *r;
	struct flow *flow;
	struct loop_timer *timer;
	struct rpc_call *call;
	bool is_known; /* the service */
	bool has_told;
	enum serving_status told;
};

static void tell(struct health_watch *w, enum serving_status status)
{
	struct m_health_reply m = { 0 };

	if (w->has_told && w->told == status)
		return;
	w->has_told = true;
	w->told = status;
	MSG_SET(&m, health_reply, status, status);
	flow_send(w->flow, &pb_HealthCheckResponse, &m);
}

static void on_status(void *ctx, const struct rpc_reply *reply)
{
	struct health_watch *w = ctx;
	struct arena a = ARENA_INIT;

	w->call = NULL;
	tell(w, status_of(&a, reply));
	arena_done(&a);
	loop_timer_arm(w->timer, WATCH_NS);
}

static void look(void *ctx)
{
	struct health_watch *w = ctx;

	if (!w->is_known) {
		tell(w, HEALTH_SERVICE_UNKNOWN);
	} else if (can_ask(w->r)) {
		w->call = node_call(w->r->h, on_status, w);
	} else {
		tell(w, HEALTH_NOT_SERVING);
		loop_timer_arm(w->timer, WATCH_NS);
	}
}

static void no_message(_unused_ void *ctx, _unused_ struct str bytes)
{
}

static void nothing(_unused_ void *ctx)
{
}

static void on_closed(void *ctx)
{
	struct health_watch *w = ctx;

	if (w->call != NULL)
		rpc_cancel(w->r->h->raftd, w->call);
	loop_timer_remove(w->timer);
}

static const struct flow_ops watch_ops = {
	.message = no_message,
	.ended = nothing,
	.room = nothing,
	.closed = on_closed,
};

void serve_health_watch(struct req *r)
{
	struct health_watch *w = arena_zalloc(&r->arena, sizeof(*w));
	struct m_health_ask m = { 0 };

	/* which may take long */
	if (!req_read(r, &msg_health_ask, &m) || !flow_may_begin(r))
		return;
	w->r = r;
	w->is_known = m.service.n == 0 || is_service(m.service);
	w->timer = loop_timer_add(r->h->d->loop, look, w);
	w->flow = flow_begin(r, &watch_ops, w, false);
	look(w);
}
