/*
 * Budgets: what may be spent. Bodies come from clients.
 */
#include "proto/msg_json.h"
#include "req/req.h"
#include "routes/handlers.h"

/* --- GET /budgets --- */

static void on_budgets(struct req *r, const struct rpc_reply *reply)
{
	struct m_budget_list *m = req_reply(r, &msg_budget_list, reply);
	struct json_style style = req_style(r);
	struct json_writer w;

	if (m == NULL)
		return;
	r->x.seq = 0; /* a read has no index of its own */
	w = req_json(r);
	jw_array(&w);
	for (size_t i = 0; i < m->budgets_n; i++)
		msg_to_json(&msg_budget, &m->budgets[i], &style, &w);
	jw_array_end(&w);
	req_answer(r, 200);
}

void h_budgets(struct req *r)
{
	static const struct m_nothing nothing;

	req_call_raftd(r, QUERY_LIST_BUDGETS, STR_NULL, &msg_nothing, &nothing,
		       on_budgets);
}

/* --- POST /budgets --- */

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
