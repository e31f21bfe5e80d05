/*
 * The generic handler: JSON to the op's request, the op, its reply to JSON.
 * Most writes need nothing else, and so do questions raftd answers as asked.
 */
#include "req/req.h"
#include "routes/handlers.h"

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

static void on_op_reply(struct req *r, const struct rpc_reply *reply)
{
	const struct msg_desc *d = op_info(r->match.route->target)->reply;
	const void *m = req_reply(r, d, reply);

	if (m != NULL)
		req_answer_message(r, d, m, r->match.route->status);
}

void h_op(struct req *r)
{
	unsigned id = r->match.route->target;
	const struct msg_desc *d = op_info(id)->request;
	void *m = arena_zalloc(&r->arena, d->size);

	if (req_read(r, d, m))
		req_call_raftd(r, id, routing_key(d, m), d, m, on_op_reply);
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
