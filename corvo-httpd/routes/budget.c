/*
 * Budgets: what may be spent. Bodies come from clients.
 */
#include "req/req.h"
#include "routes/handlers.h"

static void on_set(struct req *r, const struct rpc_reply *reply)
{
	const void *m;

	if (reply->err == ERR_VALIDATION_ERROR) {
		req_fail_text(r, req_mistake(r, ERR_BUDGET_ERROR), reply->body);
		return;
	}
	m = req_reply(r, &msg_budget, reply);
	if (m != NULL)
		req_answer_message(r, &msg_budget, m, r->match.route->status);
}

void h_set_budget(struct req *r)
{
	struct m_budget *m = arena_zalloc(&r->arena, sizeof(*m));

	if (req_read(r, &msg_budget, m))
		req_call_raftd(r, OP_SET_BUDGET, STR_NULL, &msg_budget, m,
			       on_set);
}
