/*
 * What jobs have used, and what models cost.
 */
#include "script.h"

static void settings(struct script *s)
{
	struct m_usage_settings m = { 0 };
	struct m_zone_offset offsets[2] = { 0 };
	struct str tags[] = { STR("team") };

	MSG_SET(&offsets[0], zone_offset, from_ns, s->now_ns);
	MSG_SET(&offsets[0], zone_offset, seconds, -3600);
	MSG_SET(&offsets[1], zone_offset, from_ns, s->now_ns + SECOND);
	MSG_SET(&offsets[1], zone_offset, seconds, 7200);
	MSG_SET_LIST(&m, usage_settings, tags, tags, 1);
	MSG_SET(&m, usage_settings, timezone, STR("Europe/Berlin"));
	MSG_SET_LIST(&m, usage_settings, offsets, offsets, 2);
	MSG_SET(&m, usage_settings, retention, 2400 * 3600 * SECOND);
	script_one(s, OP_SET_USAGE, &m, NULL);
}

static void prices(struct script *s)
{
	struct m_price m = { 0 };
	struct m_price_ref gone = { 0 };

	MSG_SET(&m, price, provider, STR("acme"));
	MSG_SET(&m, price, model, STR("large"));
	MSG_SET(&m, price, input_per_million, 3 * NS_PER_S);
	MSG_SET(&m, price, output_per_million, 15 * NS_PER_S);
	MSG_SET(&m, price, units, STR("{\"gpu_seconds\":0.001}"));
	script_one(s, OP_SET_PRICE, &m, NULL);
	MSG_SET(&m, price, model, STR("small"));
	script_one(s, OP_SET_PRICE, &m, NULL);
	MSG_SET(&gone, price_ref, provider, STR("acme"));
	MSG_SET(&gone, price_ref, model, STR("small"));
	script_one(s, OP_DELETE_PRICE, &gone, NULL);
}

static struct m_usage report(const char *model)
{
	struct m_usage u = { 0 };

	MSG_SET(&u, usage, input_tokens, 1000);
	MSG_SET(&u, usage, output_tokens, 201);
	MSG_SET(&u, usage, model, str_from(model));
	MSG_SET(&u, usage, provider, STR("acme"));
	return u;
}

static void make(struct script *s, const char *id)
{
	struct m_enqueue m = { 0 };
	struct m_fetch fetch = { 0 };
	struct str queue = STR("paid");

	MSG_SET(&m, enqueue, job_id, str_from(id));
	MSG_SET(&m, enqueue, queue, queue);
	MSG_SET(&m, enqueue, tags, STR("{\"team\":\"red\"}"));
	MSG_SET(&m, enqueue, expected_cost, NS_PER_S / 2);
	MSG_SET(&m, enqueue, expected, STR("{\"tokens\":2000}"));
	script_one(s, OP_ENQUEUE, &m, NULL);
	MSG_SET_LIST(&fetch, fetch, queues, &queue, 1);
	script_one(s, OP_FETCH, &fetch, NULL);
}

static void budgets(struct script *s)
{
	struct m_budget m = { 0 };
	struct m_budget_limit l[2] = { 0 };
	struct m_budget_ref gone = { 0 };

	MSG_SET(&l[0], budget_limit, unit, STR("tokens"));
	MSG_SET(&l[0], budget_limit, per, BUDGET_PER_MONTH);
	MSG_SET(&l[0], budget_limit, amount, 5000000 * NS_PER_S);
	MSG_SET(&l[1], budget_limit, per, BUDGET_PER_WINDOW);
	MSG_SET(&l[1], budget_limit, window, 3600 * SECOND);
	MSG_SET(&l[1], budget_limit, amount, 1);
	MSG_SET(&m, budget, scope, BUDGET_QUEUE);
	MSG_SET(&m, budget, target, STR("paid"));
	MSG_SET(&m, budget, daily_usd, 10 * NS_PER_S);
	MSG_SET(&m, budget, per_job_usd, NS_PER_S);
	MSG_SET(&m, budget, on_exceed, BUDGET_ALERT);
	MSG_SET_LIST(&m, budget, limits, l, 2);
	script_one(s, OP_SET_BUDGET, &m, NULL);
	MSG_SET(&m, budget, scope, BUDGET_TAG);
	MSG_SET(&m, budget, target, STR("team:red"));
	script_one(s, OP_SET_BUDGET, &m, NULL);
	MSG_SET(&m, budget, target, STR("team:blue"));
	script_one(s, OP_SET_BUDGET, &m, NULL);
	MSG_SET(&gone, budget_ref, scope, STR("tag"));
	MSG_SET(&gone, budget_ref, target, STR("team:blue"));
	script_one(s, OP_DELETE_BUDGET, &gone, NULL);
}

static void scores(struct script *s, const char *id)
{
	struct m_score m = { 0 };

	MSG_SET(&m, score, job_id, str_from(id));
	MSG_SET(&m, score, name, STR("accuracy"));
	MSG_SET(&m, score, value, 0.75);
	MSG_SET(&m, score, by, STR("ann"));
	MSG_SET(&m, score, comment, STR("one name is wrong"));
	script_one(s, OP_SCORE, &m, NULL);
	MSG_SET(&m, score, value, 0.5);
	script_one(s, OP_SCORE, &m, NULL);
	MSG_SET(&m, score, name, STR("tone"));
	MSG_SET(&m, score, value, -1);
	script_one(s, OP_SCORE, &m, NULL);
}

void script_usage(struct script *s)
{
	struct m_usage large = report("large"), small = report("small");
	struct m_heartbeat beats = { 0 };
	struct m_beat beat = { 0 };
	struct m_fail fail = { 0 };
	struct m_ack ack = { 0 };

	settings(s);
	prices(s);
	budgets(s);
	make(s, "job_u0");
	MSG_SET(&beat, beat, job_id, STR("job_u0"));
	MSG_SET(&beat, beat, usage, &large);
	MSG_SET_LIST(&beats, heartbeat, jobs, &beat, 1);
	script_one(s, OP_HEARTBEAT, &beats, NULL);
	MSG_SET(&small, usage, cost_usd, 12345678);
	MSG_SET(&small, usage, units,
		STR("{\"gpu_seconds\":12.5,\"pages\":2}"));
	MSG_SET(&small, usage, report_id, STR("second"));
	MSG_SET(&ack, ack, job_id, STR("job_u0"));
	MSG_SET(&ack, ack, usage, &small);
	MSG_SET(&ack, ack, latency, SECOND);
	script_one(s, OP_ACK, &ack, NULL);
	scores(s, "job_u0");
	make(s, "job_u1");
	MSG_SET(&fail, fail, job_id, STR("job_u1"));
	MSG_SET(&fail, fail, error, STR("broken"));
	MSG_SET(&fail, fail, usage, &large);
	MSG_SET(&fail, fail, provider, STR("acme"));
	MSG_SET(&fail, fail, latency, 30 * SECOND);
	script_one(s, OP_FAIL, &fail, NULL);
}
