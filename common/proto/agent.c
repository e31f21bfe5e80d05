/*
 * See agent.h. Pure functions; what is returned points into the records.
 */
#include "proto/agent.h"

bool agent_settle(struct m_agent *a)
{
	if (!MSG_HAS(a, agent, max_cost))
		return true;
	if (MSG_HAS(a, agent, max_cost_usd) && a->max_cost != a->max_cost_usd)
		return false;
	MSG_SET(a, agent, max_cost_usd, a->max_cost);
	a->max_cost = 0;
	MSG_UNSET(a, agent, max_cost);
	return true;
}

uint32_t agent_iteration(const struct m_job_live *live)
{
	return live != NULL && live->agent != NULL ? live->agent->iteration : 1;
}

const struct m_agent *agent_limits(const struct m_job_doc *doc,
				   const struct m_job_live *live)
{
	if (live != NULL && live->agent != NULL && live->agent->limits != NULL)
		return live->agent->limits;
	return doc->agent;
}

static void show_limits(const struct m_agent *a, struct m_agent_state *ret)
{
	if (a->max_iterations > 0)
		MSG_SET(ret, agent_state, max_iterations, a->max_iterations);
	if (a->max_cost_usd > 0)
		MSG_SET(ret, agent_state, max_cost_usd, a->max_cost_usd);
	if (a->iteration_timeout > 0)
		MSG_SET(ret, agent_state, iteration_timeout,
			a->iteration_timeout);
	if (a->limits.n > 0)
		MSG_SET(ret, agent_state, limits, a->limits);
}

void agent_show(const struct m_job_doc *doc, const struct m_job_live *live,
		struct m_agent_state *ret)
{
	*ret = (struct m_agent_state){ 0 };
	show_limits(agent_limits(doc, live), ret);
	MSG_SET(ret, agent_state, iteration, agent_iteration(live));
	MSG_SET(ret, agent_state, total_cost_usd,
		live != NULL && live->usage != NULL ? live->usage->cost_usd
						    : 0);
	if (doc->replay_of.n > 0) {
		MSG_SET(ret, agent_state, replay_of, doc->replay_of);
		MSG_SET(ret, agent_state, replay_from, doc->replay_from);
	}
	if (live != NULL && live->agent != NULL && live->agent->replays_n > 0)
		MSG_SET_LIST(ret, agent_state, replays, live->agent->replays,
			     live->agent->replays_n);
}
