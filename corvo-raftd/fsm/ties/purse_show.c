/*
 * Budgets as clients see them: with how far each limit is used. See
 * ties/purse.h.
 */
#include "fsm/core/state.h"
#include "fsm/ties/purse.h"

/* As much again in each moment to come as in those that have passed. */
static uint64_t forecast(uint64_t spent, uint64_t from, uint64_t until,
			 uint64_t now)
{
	unsigned __int128 v = spent;

	if (now <= from)
		return spent;
	v = v * (until - from) / (now - from);
	return v > UINT64_MAX ? UINT64_MAX : (uint64_t)v;
}

static void show_limit(const struct fsm *f, const struct fsm_purse *p, size_t i,
		       uint64_t now, struct m_budget_state *ret)
{
	const struct m_budget_limit *l = &p->m.limits[i];
	const struct purse_count *c = &p->counts[i];
	uint64_t spent = purse_spent(f, l, c, now);
	uint64_t until = purse_until(f, l, now);

	*ret = (struct m_budget_state){ 0 };
	MSG_SET(ret, budget_state, unit, l->unit);
	MSG_SET(ret, budget_state, per, l->per);
	MSG_SET(ret, budget_state, amount, l->amount);
	MSG_SET(ret, budget_state, spent, spent);
	MSG_SET(ret, budget_state, reserved, purse_reserved(c));
	MSG_SET(ret, budget_state, exceeded, spent >= l->amount);
	if (c->next_ns > now)
		MSG_SET(ret, budget_state, next_at, c->next_ns);
	if (l->per == BUDGET_PER_WINDOW)
		return;
	MSG_SET(ret, budget_state, until, until);
	MSG_SET(ret, budget_state, forecast,
		forecast(spent, purse_from(f, l, now), until, now));
}

void purse_show(const struct fsm *f, const struct fsm_purse *p, uint64_t now,
		struct arena *a, struct m_budget *ret)
{
	struct m_budget_state *state =
	    arena_alloc(a, p->m.limits_n * sizeof(*state));
	size_t n = 0;

	*ret = p->m;
	for (size_t i = 0; i < p->m.limits_n; i++)
		if (!purse_is_per_job(&p->m.limits[i]))
			show_limit(f, p, i, now, &state[n++]);
	MSG_SET_LIST(ret, budget, state, state, n);
}
