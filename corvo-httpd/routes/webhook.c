/*
 * Webhooks: URLs that are called on events. Bodies come from clients; secrets
 * in them are not shown again.
 */
#include "proto/webhook.h"

#include "proto/msg_json.h"
#include "req/job_check.h"
#include "req/req.h"
#include "routes/handlers.h"
#include "routes/queue_parts.h"
#include "util/clock.h"

#define CLOCK_SLACK_NS NS_PER_S /* events of this moment are there already */

/* --- as clients see one --- */

static void write_members(struct req *r, const struct m_webhook *w,
			  struct json_writer *jw)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct json_writer headers = JSON_WRITER(&b);
	struct json_style style = req_style(r);
	struct m_webhook shown = *w;

	if (MSG_HAS(w, webhook, headers)) {
		push_headers_write(w->headers, &headers);
		shown.headers = buf_str(&b);
	}
	msg_members_to_json(&msg_webhook, &shown, &style, jw);
}

static void on_list(struct req *r, const struct rpc_reply *reply)
{
	const struct m_webhook_list *m = req_reply(r, &msg_webhook_list, reply);
	struct json_writer w;

	if (m == NULL)
		return;
	r->x.seq = 0; /* a read has no index of its own */
	w = req_json(r);
	jw_array(&w);
	for (size_t i = 0; i < m->webhooks_n; i++) {
		jw_object(&w);
		write_members(r, &m->webhooks[i], &w);
		jw_object_end(&w);
	}
	jw_array_end(&w);
	req_answer(r, 200);
}

void h_webhooks(struct req *r)
{
	static const struct m_nothing nothing;

	req_call_raftd(r, QUERY_LIST_WEBHOOKS, STR_NULL, &msg_nothing, &nothing,
		       on_list);
}

static void answer_one(struct req *r, const struct m_webhook *m,
		       const char *status)
{
	struct json_writer w = req_json(r);

	jw_object(&w);
	if (status != NULL) {
		jw_key(&w, "status");
		jw_cstr(&w, status);
	}
	write_members(r, m, &w);
	jw_object_end(&w);
	req_answer(r, 200);
}

static void on_one(struct req *r, const struct rpc_reply *reply)
{
	const struct m_webhook *m = req_reply(r, &msg_webhook, reply);

	if (m == NULL)
		return;
	r->x.seq = 0;
	answer_one(r, m, NULL);
}

void h_get_webhook(struct req *r)
{
	struct m_webhook_ref *m = arena_zalloc(&r->arena, sizeof(*m));

	if (req_read_path(r, &msg_webhook_ref, m))
		req_call_raftd(r, QUERY_GET_WEBHOOK, STR_NULL, &msg_webhook_ref,
			       m, on_one);
}

/* --- setting one --- */

static void on_set(struct req *r, const struct rpc_reply *reply)
{
	const struct m_webhook *m = req_reply(r, &msg_webhook, reply);

	if (m != NULL)
		answer_one(r, m, "ok");
}

static bool check_secret(struct req *r, struct m_set_webhook *m)
{
	if (req_is_compat(r)) {
		MSG_SET(m, set_webhook, any_secret, true);
		return true;
	}
	if (m->secret.n <= LIMIT_PUSH_SECRET_BYTES)
		return true;
	req_fail(r, ERR_VALIDATION_ERROR, "secret: must be at most %d bytes",
		 LIMIT_PUSH_SECRET_BYTES);
	return false;
}

static bool check(struct req *r, struct m_set_webhook *m)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);

	if (webhook_check_events(m->events, m->events_n, &why) < 0) {
		req_fail_text(r, ERR_VALIDATION_ERROR, buf_str(&why));
		return false;
	}
	if (!check_secret(r, m))
		return false;
	if (!MSG_HAS(m, set_webhook, url))
		return true;
	if (!push_url_part(r, "url", &m->url, &m->credentials))
		return false;
	if (m->credentials.p != NULL)
		MSG_SET(m, set_webhook, credentials, m->credentials);
	return true;
}

void h_set_webhook(struct req *r)
{
	struct m_set_webhook *m = arena_zalloc(&r->arena, sizeof(*m));

	r->mistake_03 = ERR_WEBHOOK_ERROR;
	if (!req_read(r, &msg_set_webhook, m))
		return;
	if (m->url.n == 0) {
		req_fail(r, ERR_VALIDATION_ERROR, "url: is required");
		return;
	}
	if (!MSG_HAS(m, set_webhook, id) || m->id.n == 0)
		MSG_SET(m, set_webhook, id,
			job_make_id(r->h, &r->arena, "wh_"));
	if (check(r, m))
		req_call_raftd(r, OP_SET_WEBHOOK, STR_NULL, &msg_set_webhook, m,
			       on_set);
}

/* The id stands in the path here, and in the body of others. */
static bool read_change(struct req *r, struct json v, struct m_set_webhook *m)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);
	struct msg_reader rd = req_reader(r, &why);
	int err = msg_from_json(&rd, &msg_set_webhook, v, m);

	if (err == 0 || r->unknown.n > 0)
		return req_read_done(r);
	req_fail_text(r, -err, buf_str(&why));
	return false;
}

void h_change_webhook(struct req *r)
{
	struct m_set_webhook *m = arena_zalloc(&r->arena, sizeof(*m));
	struct m_webhook_ref ref = { 0 };
	struct str *nulls;
	struct json v;
	size_t n;

	r->mistake_03 = ERR_WEBHOOK_ERROR;
	if (!req_read_path(r, &msg_webhook_ref, &ref) ||
	    !req_read_json(r, true, &v) || !read_change(r, v, m))
		return;
	if (MSG_HAS(m, set_webhook, id) && !str_eq(m->id, ref.id)) {
		req_fail(r, ERR_VALIDATION_ERROR,
			 "id: must be that of the path, or absent");
		return;
	}
	n = queue_read_nulls(r, &msg_set_webhook, v, &nulls);
	if (n > 0)
		MSG_SET_LIST(m, set_webhook, remove, nulls, n);
	MSG_SET(m, set_webhook, id, ref.id);
	MSG_SET(m, set_webhook, change, true);
	if (check(r, m))
		req_call_raftd(r, OP_SET_WEBHOOK, STR_NULL, &msg_set_webhook, m,
			       on_set);
}

/* --- deliveries --- */

static void on_deliveries(struct req *r, const struct rpc_reply *reply)
{
	const struct m_delivery_list *m =
	    req_reply(r, &msg_delivery_list, reply);

	if (m == NULL)
		return;
	r->x.seq = 0;
	req_answer_message(r, &msg_delivery_list, m, 200);
}

void h_deliveries(struct req *r)
{
	struct m_deliveries_ask *m = arena_zalloc(&r->arena, sizeof(*m));
	uint64_t limit = 0, before = 0;
	struct str state = STR_NULL;
	uint32_t number;

	if (!req_read_path(r, &msg_deliveries_ask, m) ||
	    !req_number_argument(r, "limit", 1, LIMIT_WEBHOOK_LOG, &limit) ||
	    !req_number_argument(r, "before", 1, UINT64_MAX, &before) ||
	    !req_text_argument(r, "state", &state))
		return;
	if (state.n > 0 && !enum_parse(&enum_delivery_state, state, &number)) {
		req_fail(r, ERR_VALIDATION_ERROR,
			 "state: must be one of delivered, retrying, failed");
		return;
	}
	if (state.n > 0)
		MSG_SET(m, deliveries_ask, state, number);
	MSG_SET(m, deliveries_ask, limit, (uint32_t)limit);
	MSG_SET(m, deliveries_ask, before, before);
	req_call_raftd(r, QUERY_LIST_DELIVERIES, STR_NULL, &msg_deliveries_ask,
		       m, on_deliveries);
}

/* --- replays --- */

static void send_replay(struct req *r, const struct m_replay_webhook *m)
{
	req_call_raftd(r, OP_REPLAY_WEBHOOK, STR_NULL, &msg_replay_webhook, m,
		       req_answer_op);
}

void h_replay_delivery(struct req *r)
{
	struct m_replay_webhook *m = arena_zalloc(&r->arena, sizeof(*m));
	uint64_t seq;

	if (!req_read(r, &msg_replay_webhook, m))
		return;
	if (MSG_HAS(m, replay_webhook, from) ||
	    MSG_HAS(m, replay_webhook, to)) {
		req_fail(r, ERR_VALIDATION_ERROR,
			 "from and to are for a time, not for one delivery");
		return;
	}
	if (!webhook_read_delivery_id(m->seq, m->id, &seq)) {
		req_fail(r, ERR_VALIDATION_ERROR,
			 "seq: must be the number of an event, or the "
			 "delivery_id of a delivery to this webhook");
		return;
	}
	MSG_UNSET(m, replay_webhook, seq);
	MSG_SET(m, replay_webhook, from_seq, seq);
	MSG_SET(m, replay_webhook, one, true);
	send_replay(r, m);
}

static void on_place(struct req *r, const struct rpc_reply *reply)
{
	const struct m_event_place *p = req_reply(r, &msg_event_place, reply);
	struct m_replay_webhook *m = r->state;

	if (p == NULL)
		return;
	r->x.seq = 0; /* nothing was written yet */
	MSG_SET(m, replay_webhook, from_seq, p->from_seq);
	MSG_SET(m, replay_webhook, to_seq, p->to_seq);
	send_replay(r, m);
}

void h_replay_webhook(struct req *r)
{
	struct m_replay_webhook *m = arena_zalloc(&r->arena, sizeof(*m));
	struct m_event_at at = { 0 };

	if (!req_read(r, &msg_replay_webhook, m))
		return;
	if (!MSG_HAS(m, replay_webhook, from)) {
		req_fail(r, ERR_VALIDATION_ERROR, "from: is required");
		return;
	}
	if (!MSG_HAS(m, replay_webhook, to))
		MSG_SET(m, replay_webhook, to,
			clock_wall_ns() + CLOCK_SLACK_NS);
	if (m->to < m->from) {
		req_fail(r, ERR_VALIDATION_ERROR, "to: is before from");
		return;
	}
	MSG_SET(&at, event_at, from, m->from);
	MSG_SET(&at, event_at, to, m->to);
	r->state = m;
	req_call_raftd(r, QUERY_EVENT_AT, STR_NULL, &msg_event_at, &at,
		       on_place);
}
