/*
 * GET /api/v1/metrics: raftd's numbers, then viewd's, then our own. A process
 * that is away leaves its numbers out; the rest is still answered.
 */
#include "handlers.h"
#include "metrics.h"
#include "req.h"
#include "server.h"

#define METRICS_NS (1 * NS_PER_S) /* for each of the two */

struct collection {
	struct m_metrics raftd;
	struct m_metrics viewd;
	struct m_metrics own;
};

static void answer(struct req *r)
{
	struct collection *c = r->state;
	const struct m_metrics *sets[] = { &c->raftd, &c->viewd, &c->own };

	r->seq = 0;
	metrics_collect(r->h->metrics, server_connections(r->h->server),
			&r->arena, &c->own);
	(void)req_json(r);
	metrics_write(sets, ARRAY_SIZE(sets), &r->out);
	r->content_type = "text/plain; version=0.0.4; charset=utf-8";
	req_answer(r, 200);
}

/*
 * The reply's bytes are gone after the callback and labels point into them,
 * so it is decoded from a copy.
 */
static void take(struct req *r, const struct rpc_reply *reply,
		 struct m_metrics *ret)
{
	struct str body;

	if (reply->err != 0)
		return;
	body = arena_copy(&r->arena, reply->body);
	if (msg_decode(&msg_metrics, body, &r->arena, ret) != 0)
		*ret = (struct m_metrics){ 0 };
}

static bool ask(struct req *r, struct rpc_client *client, unsigned id,
		req_reply_fn *then)
{
	static const struct m_nothing nothing;

	if (!rpc_client_is_up(client))
		return false;
	req_call(r, &(struct req_call){ .client = client,
					.id = id,
					.desc = &msg_nothing,
					.m = &nothing,
					.timeout_ns = METRICS_NS,
					.timeout_err = ERR_LEADER_UNAVAILABLE,
					.flags = RPC_ONCE,
					.then = then });
	return true;
}

static void on_viewd(struct req *r, const struct rpc_reply *reply)
{
	struct collection *c = r->state;

	take(r, reply, &c->viewd);
	answer(r);
}

static void ask_viewd(struct req *r)
{
	if (!ask(r, r->h->viewd, QUERY_VIEWD_METRICS, on_viewd))
		answer(r);
}

static void on_raftd(struct req *r, const struct rpc_reply *reply)
{
	struct collection *c = r->state;

	take(r, reply, &c->raftd);
	ask_viewd(r);
}

void h_metrics(struct req *r)
{
	r->state = arena_zalloc(&r->arena, sizeof(struct collection));
	if (!ask(r, r->h->raftd, QUERY_RAFTD_METRICS, on_raftd))
		ask_viewd(r);
}
