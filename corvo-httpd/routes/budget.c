/*
 * Budgets: what may be spent. Bodies come from clients.
 */
#include "req/req.h"
#include "routes/handlers.h"

static void on_set(struct req *r, const struct rpc_reply *reply)
{
	const void *m = req_reply(r, &msg_budget, reply);

	if (m != NULL)
		req_answer_message(r, &msg_budget, m, r->match.route->status);
}

void h_set_budget(struct req *r)
{
	struct m_budget *m = arena_zalloc(&r->arena, sizeof(*m));

	r->mistake_03 = ERR_BUDGET_ERROR;
	if (!req_read(r, &msg_budget, m))
		return;
	if (req_is_compat(r))
		MSG_SET(m, budget, holds_jobs, true);
	req_call_raftd(r, OP_SET_BUDGET, STR_NULL, &msg_budget, m, on_set);
}
