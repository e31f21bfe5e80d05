/*
 * See model_run.h: agents' jobs.
 */
#include "model_run.h"

static struct str tokens(struct run *n)
{
	return arena_printf(&n->arena, "{\"tokens\":%d}",
			    (int)run_below(n, 5000));
}

void run_fill_agent(struct run *n, struct m_enqueue *op)
{
	struct m_agent *a = arena_zalloc(&n->arena, sizeof(*a));

	if (run_chance(n, 60))
		MSG_SET(a, agent, max_iterations, (uint32_t)run_below(n, 5));
	if (run_chance(n, 30))
		MSG_SET(a, agent, max_cost_usd, run_below(n, 5 * NS_PER_S));
	else if (run_chance(n, 20))
		MSG_SET(a, agent, max_cost, run_below(n, 5 * NS_PER_S));
	if (run_chance(n, 30))
		MSG_SET(a, agent, iteration_timeout,
			1 + run_below(n, 9 * NS_PER_S));
	if (run_chance(n, 30))
		MSG_SET(a, agent, limits, tokens(n));
	MSG_SET(op, enqueue, agent, a);
}

void run_fill_turn(struct run *n, struct m_ack *op)
{
	const struct model_job *j = model_find(n->m, op->job_id);
	bool agent = j != NULL && j->agent.used;

	if (!run_chance(n, agent ? 80 : 4))
		return;
	if (run_chance(n, 90))
		MSG_SET(op, ack, agent_status, (uint32_t)run_below(n, 3));
	else
		MSG_SET(op, ack, ack_status, (uint32_t)run_below(n, 3));
	if (run_chance(n, 30))
		MSG_SET(op, ack, hold_reason, STR("ask me"));
	if (run_chance(n, 20))
		MSG_SET(op, ack, trace, STR("{\"t\":1}"));
}

void run_approve(struct run *n)
{
	struct m_approve op = { 0 };
	struct m_status_reply r;
	const char *status;

	MSG_SET(&op, approve, job_id, run_job(n));
	if (run_chance(n, 25))
		MSG_SET(&op, approve, max_iterations,
			(uint32_t)run_below(n, 9));
	if (run_chance(n, 15))
		MSG_SET(&op, approve, max_cost_usd, run_below(n, 9 * NS_PER_S));
	else if (run_chance(n, 5))
		MSG_SET(&op, approve, max_cost, run_below(n, 9 * NS_PER_S));
	if (run_chance(n, 10))
		MSG_SET(&op, approve, iteration_timeout,
			run_below(n, 9 * NS_PER_S));
	if (run_chance(n, 10))
		MSG_SET(&op, approve, limits, tokens(n));
	if (run_chance(n, 30))
		MSG_SET(&op, approve, by, STR("ada"));
	if (run_chance(n, 30))
		MSG_SET(&op, approve, comment, STR("go on"));
	if (run_chance(n, 5))
		MSG_SET(&op, approve, number, 1); /* of no hold */
	status = model_approve(n->m, &op);
	if (run_do(n, OP_APPROVE, &op, &r))
		assert_str_is(r.status, status);
}

/* Mostly of one that can be. */
static struct str agent_job(struct run *n)
{
	MODEL_EACH(n->m, j)
	{
		if (j->agent.last != NULL && run_chance(n, 30))
			return j->id;
	}
	return run_job(n);
}

void run_replay(struct run *n)
{
	struct m_replay op = { 0 };
	struct m_enqueue_reply r;

	MSG_SET(&op, replay, job_id, agent_job(n));
	MSG_SET(&op, replay, from, (uint32_t)run_below(n, 5));
	MSG_SET(
	    &op, replay, new_job_id,
	    arena_printf(&n->arena, "job_%llu", (unsigned long long)n->ids++));
	model_replay_agent(n->m, &op);
	if (run_do(n, OP_REPLAY, &op, &r))
		assert_true(str_eq(r.job_id, op.new_job_id));
}
