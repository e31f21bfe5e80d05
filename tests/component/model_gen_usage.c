/*
 * See model_run.h: reports of usage, prices, budgets and scores.
 */
#include "model_run.h"

static struct str some_model(struct run *n)
{
	static const char *const names[] = { "small", "large" };

	return str_from(names[run_below(n, ARRAY_SIZE(names))]);
}

static struct str some_provider(struct run *n)
{
	return run_chance(n, 60) ? STR("acme") : STR("zeta");
}

/* Tokens of one report; now and then as many as may be. */
static uint64_t tokens(struct run *n)
{
	return run_chance(n, 3) ? LIMIT_USAGE_TOKENS : run_below(n, 1000);
}

struct m_usage *run_usage(struct run *n)
{
	struct m_usage *u;

	if (!run_chance(n, 40))
		return NULL;
	u = arena_zalloc(&n->arena, sizeof(*u));
	if (run_chance(n, 80))
		MSG_SET(u, usage, input_tokens, tokens(n));
	if (run_chance(n, 80))
		MSG_SET(u, usage, output_tokens, tokens(n));
	if (run_chance(n, 20))
		MSG_SET(u, usage, cache_read_tokens, run_below(n, 1000));
	if (run_chance(n, 20))
		MSG_SET(u, usage, cache_creation_tokens, run_below(n, 1000));
	if (run_chance(n, 70))
		MSG_SET(u, usage, model, some_model(n));
	if (run_chance(n, 70))
		MSG_SET(u, usage, provider, some_provider(n));
	if (run_chance(n, 40))
		MSG_SET(u, usage, cost_usd, run_below(n, 3 * NS_PER_S));
	if (run_chance(n, 30))
		MSG_SET(u, usage, report_id,
			run_chance(n, 50) ? STR("r1") : STR("r2"));
	return u;
}

void run_price(struct run *n)
{
	struct m_price op = { 0 };
	struct m_price_ref gone = { 0 };

	if (run_chance(n, 30)) {
		MSG_SET(&gone, price_ref, provider, some_provider(n));
		MSG_SET(&gone, price_ref, model, some_model(n));
		model_delete_price(n->m, &gone);
		(void)run_do(n, OP_DELETE_PRICE, &gone, NULL);
		return;
	}
	MSG_SET(&op, price, provider, some_provider(n));
	MSG_SET(&op, price, model, some_model(n));
	MSG_SET(&op, price, input_per_million, run_below(n, 9 * NS_PER_S));
	MSG_SET(&op, price, output_per_million, run_below(n, 9 * NS_PER_S));
	model_set_price(n->m, &op);
	(void)run_do(n, OP_SET_PRICE, &op, NULL);
}

static struct str some_target(struct run *n, uint32_t scope)
{
	static const char *const tags[] = { "g:g0", "g:g1", "a:a0", "a:a1" };

	if (scope == BUDGET_QUEUE)
		return run_queue(n);
	if (scope == BUDGET_GROUP)
		return run_chance(n, 50) ? STR("g0") : STR("g1");
	if (scope == BUDGET_TAG)
		return str_from(tags[run_below(n, ARRAY_SIZE(tags))]);
	return STR("*");
}

void run_budget(struct run *n)
{
	uint32_t scope = (uint32_t)run_below(n, 4);
	struct m_budget op = { 0 };
	struct m_budget_ref gone = { 0 };

	if (run_chance(n, 30)) {
		MSG_SET(&gone, budget_ref, scope,
			str_from(enum_text(&enum_budget_scope, scope)));
		MSG_SET(&gone, budget_ref, target, some_target(n, scope));
		model_delete_budget(n->m, &gone);
		(void)run_do(n, OP_DELETE_BUDGET, &gone, NULL);
		return;
	}
	MSG_SET(&op, budget, scope, scope);
	MSG_SET(&op, budget, target, some_target(n, scope));
	MSG_SET(&op, budget, daily_usd,
		run_chance(n, 10) ? run_below(n, 2)
				  : run_below(n, 50 * NS_PER_S));
	MSG_SET(&op, budget, on_exceed, BUDGET_ALERT);
	model_set_budget(n->m, &op);
	(void)run_do(n, OP_SET_BUDGET, &op, NULL);
}

void run_score(struct run *n)
{
	struct m_score op = { 0 };

	MSG_SET(&op, score, job_id, run_job(n));
	MSG_SET(&op, score, name,
		run_chance(n, 50) ? STR("good") : STR("neat"));
	if (run_chance(n, 50))
		MSG_SET(&op, score, by,
			run_chance(n, 50) ? STR("ann") : STR("bob"));
	/* quarters are exact, whoever adds them */
	MSG_SET(&op, score, value, ((double)run_below(n, 4000) - 2000) / 4);
	if (run_chance(n, 5))
		MSG_SET(&op, score, value, 1000001);
	if (run_chance(n, 30))
		MSG_SET(&op, score, iteration, 1 + (uint32_t)run_below(n, 2));
	model_score(n->m, &op);
	(void)run_do(n, OP_SCORE, &op, NULL);
}
