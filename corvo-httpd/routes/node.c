/*
 * What the node says about itself: status, health, version, its own API.
 */
#include "api/openapi.h"
#include "req/req.h"
#include "routes/handlers.h"
#include "util/clock.h"

/* A probe is answered within this time, whatever raftd does. */
#define PROBE_NS (1 * NS_PER_S)

static void ask_status(struct req *r, uint64_t timeout_ns, unsigned flags,
		       req_reply_fn *then)
{
	static const struct m_nothing nothing;

	req_call(r, &(struct req_call){ .client = r->h->raftd,
					.id = QUERY_NODE_STATUS,
					.desc = &msg_nothing,
					.m = &nothing,
					.timeout_ns = timeout_ns,
					.timeout_err = ERR_LEADER_UNAVAILABLE,
					.flags = flags,
					.then = then });
}

/* --- GET /api/v1/cluster/status --- */

/* Clients read these two as decimal texts; all else is as the table says. */
static const char *const index_names[] = { "applied_index", "commit_index" };

static bool is_index(const struct field_desc *f)
{
	for (size_t i = 0; i < ARRAY_SIZE(index_names); i++)
		if (str_is(str_from(index_names[i]), f->name))
			return true;
	return false;
}

static void write_status(struct req *r, const struct m_node_status *m,
			 struct json_writer *w)
{
	struct json_style style = req_style(r);
	struct msg_desc d = msg_node_status;
	struct field_desc *f;

	f = arena_alloc(&r->arena, d.n * sizeof(*f));
	memcpy(f, d.fields, d.n * sizeof(*f));
	for (size_t i = 0; i < d.n; i++) {
		uint64_t v;

		if (!is_index(&f[i]))
			continue;
		f[i].flags |= F_INTERNAL; /* the generic writer skips it */
		v = *(const uint64_t *)((const char *)m + f[i].offset);
		jw_key(w, f[i].name);
		jw_str(w,
		       arena_printf(&r->arena, "%llu", (unsigned long long)v));
	}
	d.fields = f;
	msg_members_to_json(&d, m, &style, w);
}

static void on_status(struct req *r, const struct rpc_reply *reply)
{
	struct m_node_status *m = req_reply(r, &msg_node_status, reply);
	struct json_writer w;

	if (m == NULL)
		return;
	r->x.seq = 0;
	w = req_json(r);
	jw_object(&w);
	jw_key(&w, "mode");
	jw_cstr(&w, "cluster");
	jw_key(&w, "status");
	jw_cstr(&w, m->leader_id.n > 0 ? "healthy" : "no leader");
	write_status(r, m, &w);
	jw_object_end(&w);
	req_answer(r, 200);
}

void h_cluster_status(struct req *r)
{
	ask_status(r, r->h->set->op_timeout, 0, on_status);
}

/* --- GET /healthz --- */

static void answer_alive(struct req *r, const struct m_node_status *m)
{
	struct json_writer w = req_json(r);

	r->x.seq = 0;
	jw_object(&w);
	jw_key(&w, "status");
	jw_cstr(&w, "ok");
	if (m != NULL) {
		jw_key(&w, "raft_state");
		jw_str(&w, m->state);
		jw_key(&w, "leader");
		jw_bool(&w, m->leader);
	}
	jw_object_end(&w);
	req_answer(r, 200);
}

static void on_health(struct req *r, const struct rpc_reply *reply)
{
	struct m_node_status m;

	if (reply->err == 0 &&
	    msg_decode(&msg_node_status, reply->body, &r->arena, &m) == 0)
		answer_alive(r, &m);
	else
		answer_alive(r, NULL);
}

void h_healthz(struct req *r)
{
	if (rpc_client_is_up(r->h->raftd))
		ask_status(r, PROBE_NS, RPC_ONCE, on_health);
	else
		answer_alive(r, NULL);
}

/* --- GET /readyz --- */

int node_fault(const struct m_node_status *m, struct buf *why)
{
	if (m->damage.n > 0) {
		buf_put_str(why, m->damage);
		return -ERR_STORAGE_ERROR;
	}
	if (m->membership.n > 0) {
		buf_printf(why, "this node is in no cluster: %.*s",
			   STR_ARG(m->membership));
		return -ERR_LEADER_UNAVAILABLE;
	}
	if (m->leader_id.n == 0) {
		buf_puts(why, "no leader is known");
		return -ERR_LEADER_UNAVAILABLE;
	}
	if (!m->ready) {
		buf_puts(why, "the log is not applied completely yet");
		return -ERR_LEADER_UNAVAILABLE;
	}
	if (!m->disk_ok)
		return -ERR_STORAGE_FULL;
	if (m->snapshot_failures < LIMIT_SNAPSHOT_FAILURES)
		return 0;
	buf_printf(
	    why,
	    "no snapshot of the store could be taken %u times in a row, "
	    "so the raft log only grows; the log of corvo-raftd says why",
	    m->snapshot_failures);
	return -ERR_STORAGE_ERROR;
}

static void on_readiness(struct req *r, const struct rpc_reply *reply)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);
	struct m_node_status *m = req_reply(r, &msg_node_status, reply);
	struct json_writer w;
	int err;

	if (m == NULL)
		return;
	r->x.seq = 0;
	err = node_fault(m, &why);
	if (err < 0) {
		req_fail_text(r, -err, buf_str(&why));
		return;
	}
	w = req_json(r);
	jw_object(&w);
	jw_key(&w, "status");
	jw_cstr(&w, "ready");
	jw_object_end(&w);
	req_answer(r, 200);
}

void node_ask(struct req *r, req_reply_fn *then)
{
	ask_status(r, PROBE_NS, RPC_ONCE, then);
}

struct rpc_call *node_call(struct httpd *h, rpc_reply_fn *fn, void *ctx)
{
	static const struct m_nothing nothing;

	buf_clear(&h->scratch);
	msg_encode(&msg_nothing, &nothing, &h->scratch);
	return rpc_call(h->raftd, QUERY_NODE_STATUS, STR_NULL,
			buf_str(&h->scratch), clock_mono_ns() + PROBE_NS,
			ERR_LEADER_UNAVAILABLE, RPC_ONCE, fn, ctx);
}

void h_readyz(struct req *r)
{
	if (r->h->draining)
		req_fail_text(r, ERR_SHUTTING_DOWN, STR_NULL);
	else if (!rpc_client_is_up(r->h->raftd))
		req_fail(r, ERR_LEADER_UNAVAILABLE,
			 "corvo-raftd is not running; it is being restarted");
	else
		node_ask(r, on_readiness);
}

/* --- GET /api/v1/info, /openapi.json --- */

void h_info(struct req *r)
{
	struct json_writer w = req_json(r);

	jw_object(&w);
	jw_key(&w, "server_version");
	jw_cstr(&w, corvo_version);
	jw_key(&w, "api_version");
	jw_cstr(&w, corvo_version);
	jw_object_end(&w);
	req_answer(r, 200);
}

void h_openapi(struct req *r)
{
	if (r->h->openapi.n == 0)
		openapi_write(&r->h->openapi);
	(void)req_json(r);
	buf_put_str(&r->x.out, buf_str(&r->h->openapi));
	req_answer(r, 200);
}
