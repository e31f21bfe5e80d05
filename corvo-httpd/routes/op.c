/*
 * The generic handler: JSON to the op's request, the op, its reply to JSON.
 * Most writes need nothing else, and so do questions raftd answers as asked.
 */
#include "proto/msg_json.h"
#include "req/req.h"
#include "routes/handlers.h"
#include "util/turn.h"

/* Queue the message is about: where it would be routed. */
static struct str routing_key(const struct msg_desc *d, const void *m)
{
	for (size_t i = 0; i < d->n; i++) {
		const struct field_desc *f = &d->fields[i];

		if (f->kind == K_str && (f->flags & F_QUEUE))
			return *(const struct str *)((const char *)m +
						     f->offset);
	}
	return STR_NULL;
}

/* What v0.3.0 answered where there is no such job. */
static int unknown_job_03(unsigned op)
{
	switch (op) {
	case OP_ACK:
		return ERR_ACK_ERROR;
	case OP_FAIL:
		return ERR_FAIL_ERROR;
	case OP_RETRY:
		return ERR_RETRY_ERROR;
	case OP_CANCEL:
		return ERR_CANCEL_ERROR;
	case OP_MOVE:
		return ERR_MOVE_ERROR;
	case OP_PRIORITY:
		return ERR_PRIORITY_ERROR;
	case OP_REQUEUE:
		return ERR_REQUEUE_ERROR;
	case OP_HOLD:
		return ERR_HOLD_ERROR;
	case OP_APPROVE:
		return ERR_APPROVE_ERROR;
	case OP_REJECT:
		return ERR_REJECT_ERROR;
	case OP_REPLAY:
		return ERR_REPLAY_ERROR;
	case OP_DELETE_POLICY:
		return ERR_POLICY_ERROR;
	default:
		return ERR_NOT_FOUND;
	}
}

/* Which it was for clients of that version, whether there was one or not. */
static void answer_deleted_03(struct req *r)
{
	struct m_status_reply m = { 0 };

	MSG_SET(&m, status_reply, status, STR("deleted"));
	req_answer_message(r, &msg_status_reply, &m, 200);
}

void req_answer_op(struct req *r, const struct rpc_reply *reply)
{
	const struct msg_desc *d = op_info(r->match.route->target)->reply;
	const void *m;

	if (reply->err == ERR_NOT_FOUND && req_is_compat(r)) {
		if (r->match.route->target == OP_DELETE_BUDGET) {
			answer_deleted_03(r);
			return;
		}
		req_fail_text(r, unknown_job_03(r->match.route->target),
			      reply->body);
		return;
	}
	m = req_reply(r, d, reply);

	if (m != NULL)
		req_answer_message(r, d, m, r->match.route->status);
}

void h_op(struct req *r)
{
	unsigned id = r->match.route->target;
	const struct msg_desc *d = op_info(id)->request;
	void *m = arena_zalloc(&r->arena, d->size);

	if (req_read(r, d, m))
		req_call_raftd(r, id, routing_key(d, m), d, m, req_answer_op);
}

/* --- a question raftd answers as it is asked --- */

void req_answer_query(struct req *r, const struct rpc_reply *reply)
{
	const struct msg_desc *d = query_info(r->match.route->target)->reply;
	const void *m = req_reply(r, d, reply);

	if (m == NULL)
		return;
	r->x.seq = 0; /* a read has no index of its own */
	req_answer_message(r, d, m, r->match.route->status);
}

void h_query(struct req *r)
{
	unsigned id = r->match.route->target;
	const struct msg_desc *d = query_info(id)->request;
	void *m = arena_zalloc(&r->arena, d->size);

	if (req_read(r, d, m))
		req_call_raftd(r, id, routing_key(d, m), d, m,
			       req_answer_query);
}

/* --- the same, of which the answer is one list: the items alone --- */

static void on_items(struct req *r, const struct rpc_reply *reply)
{
	const struct msg_desc *d = query_info(r->match.route->target)->reply;
	const char *m = req_reply(r, d, reply);
	const struct field_desc *f = &d->fields[0];
	struct json_style style = req_style(r);
	struct json_writer w;
	const char *items;
	size_t n;

	if (m == NULL)
		return;
	REQUIRE(f->kind == K_msgs);
	items = *(const char *const *)(m + f->offset);
	n = *(const size_t *)(m + f->count_offset);
	r->x.seq = 0; /* a read has no index of its own */
	w = req_json(r);
	turn_open();
	jw_array(&w);
	for (size_t i = 0; i < n; i++)
		msg_to_json(f->sub, items + i * f->sub->size, &style, &w);
	jw_array_end(&w);
	turn_close();
	req_answer(r, r->match.route->status);
}

static void ask_items(struct req *r)
{
	static const struct m_nothing nothing;

	req_call_raftd(r, r->match.route->target, STR_NULL, &msg_nothing,
		       &nothing, on_items);
}

void h_budgets(struct req *r)
{
	ask_items(r);
}

void h_policies(struct req *r)
{
	ask_items(r);
}
