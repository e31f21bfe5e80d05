/*
 * Reports of usage. See ties/usage.h. Numbers come from clients, within the
 * limits of messages.def; sums stay at the largest number there is.
 */
#include "fsm/ties/usage.h"

#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "proto/units.h"
#include "proto/usage.h"
#include "util/hash.h"
#include "util/json.h"
#include "util/nano.h"

/* --- checks --- */

int usage_check(struct fsm *f, const struct m_usage *u)
{
	struct unit list[LIMIT_UNITS];
	size_t n, fresh = 0;
	int r;

	if (u->units.n == 0)
		return 0;
	buf_clear(&f->why);
	r = units_check(u->units, LIMIT_UNIT_AMOUNT, "usage.units",
			&f->item_arena, &f->why);
	if (r < 0)
		return r;
	n = units_list(u->units, &f->item_arena, list);
	for (size_t i = 0; i < n; i++) {
		fresh += !usage_unit_is_known(f, list[i].name);
		if (f->usage.set.units_n + fresh <= LIMIT_UNITS)
			continue;
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "usage.units.%.*s: there are %d units "
				  "already, which is as many as there may be; "
				  "use one of them",
				  STR_ARG(list[i].name), LIMIT_UNITS);
	}
	return 0;
}

/* --- sums --- */

uint64_t usage_cost_of(const struct m_job_live *l)
{
	return l->usage != NULL ? l->usage->cost_usd : 0;
}

uint64_t usage_tokens_of(const struct m_job_live *l)
{
	return l->usage != NULL ? usage_sum_tokens(l->usage) : 0;
}

/* One report as a sum of one. */
static void sum_of(struct fsm *f, const struct m_usage *u,
		   struct m_usage_sum *ret)
{
	const struct m_price *p = NULL;

	*ret = (struct m_usage_sum){ 0 };
	MSG_SET(ret, usage_sum, count, 1);
	MSG_SET(ret, usage_sum, input_tokens, u->input_tokens);
	MSG_SET(ret, usage_sum, output_tokens, u->output_tokens);
	MSG_SET(ret, usage_sum, cache_creation_tokens,
		u->cache_creation_tokens);
	MSG_SET(ret, usage_sum, cache_read_tokens, u->cache_read_tokens);
	if (u->units.n > 0)
		MSG_SET(ret, usage_sum, units,
			units_add(STR_NULL, u->units, &f->item_arena));
	if (MSG_HAS(u, usage, cost_usd)) {
		MSG_SET(ret, usage_sum, cost_usd, u->cost_usd);
		return;
	}
	p = price_find(f, u->provider, u->model);
	if (p != NULL) {
		MSG_SET(ret, usage_sum, cost_usd,
			price_cost(p, u, &f->item_arena));
		MSG_SET(ret, usage_sum, computed_usd, ret->cost_usd);
	} else if (usage_sum_tokens(ret) > 0) {
		MSG_SET(ret, usage_sum, unpriced, 1);
	}
}

/* --- rows --- */

static int add_to_row(struct fsm *f, struct m_usage_row *row,
		      const struct m_usage_sum *more)
{
	struct usage_place at;
	struct m_usage_sum sum = { 0 };
	int r = usage_row_open(f, row, &at);

	if (r <= 0 && at.key.n == 0)
		return r;
	MUST(f, r <= 0 || at.found.sum != NULL);
	if (r > 0)
		sum = *at.found.sum;
	usage_sum_add(&sum, more, &f->item_arena);
	MSG_SET(row, usage_row, sum, &sum);
	fsm_put(f, &at.key, &msg_usage_row, row);
	return 0;
}

/* --- reports --- */

static void learn_units(struct fsm *f, struct str units)
{
	struct m_usage_settings set = f->usage.set;
	struct unit list[LIMIT_UNITS];
	struct str names[LIMIT_UNITS];
	size_t n = units_list(units, &f->item_arena, list), known = set.units_n;

	for (size_t i = 0; i < known; i++)
		names[i] = set.units[i];
	for (size_t i = 0; i < n; i++) {
		if (usage_unit_is_known(f, list[i].name))
			continue;
		MUST(f, known < LIMIT_UNITS); /* usage_check has seen to it */
		names[known++] = list[i].name;
	}
	if (known == set.units_n)
		return;
	MSG_SET_LIST(&set, usage_settings, units, names, known);
	usage_settings_save(f, &set);
}

static void add_to_job(struct fsm *f, struct job *j, const struct m_usage *u,
		       const struct m_usage_sum *more)
{
	struct m_usage_sum *sum = arena_zalloc(&f->item_arena, sizeof(*sum));

	if (j->live.usage != NULL)
		*sum = *j->live.usage;
	usage_sum_add(sum, more, &f->item_arena);
	if (u->model.n > 0)
		MSG_SET(sum, usage_sum, model, u->model);
	if (u->provider.n > 0)
		MSG_SET(sum, usage_sum, provider, u->provider);
	if (u->report_id.n > 0)
		MSG_SET(sum, usage_sum, last,
			hash_stable(u->report_id.p, u->report_id.n));
	MSG_SET(&j->live, job_live, usage, sum);
}

static void put_number(struct json_writer *w, const char *name, uint64_t v)
{
	if (v == 0)
		return;
	jw_key(w, name);
	jw_u64(w, v);
}

static void put_text(struct json_writer *w, const char *name, struct str v)
{
	if (v.n == 0)
		return;
	jw_key(w, name);
	jw_str(w, v);
}

/* All that was counted: whoever adds up the events comes to the same sums. */
static struct str event_data(struct fsm *f, const struct m_usage *u,
			     const struct m_usage_sum *s, const char *phase)
{
	struct json_writer w = JSON_WRITER(&f->data);

	buf_clear(&f->data);
	jw_object(&w);
	jw_key(&w, "phase");
	jw_cstr(&w, phase);
	put_text(&w, "model", u->model);
	put_text(&w, "provider", u->provider);
	put_number(&w, "input_tokens", s->input_tokens);
	put_number(&w, "output_tokens", s->output_tokens);
	put_number(&w, "cache_creation_tokens", s->cache_creation_tokens);
	put_number(&w, "cache_read_tokens", s->cache_read_tokens);
	if (!MSG_HAS(s, usage_sum, unpriced)) {
		jw_key(&w, "cost_usd");
		jw_nano(&w, s->cost_usd);
	}
	if (MSG_HAS(s, usage_sum, computed_usd)) {
		jw_key(&w, "computed");
		jw_bool(&w, true);
	}
	if (s->units.n > 0) {
		jw_key(&w, "units");
		jw_raw(&w, s->units);
	}
	jw_object_end(&w);
	return buf_str(&f->data);
}

static void count(struct fsm *f, const struct m_usage_sum *s)
{
	struct fsm_counters *c = &f->counters;

	c->usage_reports++;
	c->usage_unpriced += s->unpriced;
	c->usage_input += s->input_tokens;
	c->usage_output += s->output_tokens;
	c->usage_cache_creation += s->cache_creation_tokens;
	c->usage_cache_read += s->cache_read_tokens;
	c->usage_cost = nano_add(c->usage_cost, s->cost_usd);
}

/* Nothing was used, or this very report was counted before. */
static bool is_nothing(const struct job *j, const struct m_usage *u,
		       const struct m_usage_sum *s)
{
	const struct m_usage_sum *sum = j->live.usage;

	if (u->report_id.n > 0 && sum != NULL &&
	    MSG_HAS(sum, usage_sum, last) &&
	    sum->last == hash_stable(u->report_id.p, u->report_id.n))
		return true;
	return usage_sum_tokens(s) == 0 && s->cost_usd == 0 && s->units.n == 0;
}

int usage_check_job(struct fsm *f, struct job *j, const struct m_usage *u)
{
	struct purse_report report;
	struct m_usage_sum s;
	int r;

	if (f->purses.by_name.n == 0)
		return 0;
	sum_of(f, u, &s);
	if (is_nothing(j, u, &s))
		return 0;
	r = purse_foresee(f, j, &s, &report);
	if (r < 0 || !report.over_job || report.action != BUDGET_REJECT)
		return r;
	return purse_refuse(f, &report.block);
}

int usage_add(struct fsm *f, struct job *j, const struct m_usage *u,
	      const char *phase, struct usage_counted *ret)
{
	const struct m_usage_sum *before;
	struct m_usage_row row = { 0 };
	struct m_usage_sum s;
	int r;

	*ret = (struct usage_counted){ 0 };
	sum_of(f, u, &s);
	if (is_nothing(j, u, &s))
		return 0;
	r = usage_row_name(f, j, u->model, u->provider, &row);
	if (r == 0)
		r = add_to_row(f, &row, &s);
	if (r < 0)
		return r;
	if (s.units.n > 0)
		learn_units(f, s.units);
	before = j->live.usage;
	add_to_job(f, j, u, &s);
	job_event(f, j, EVENT_USAGE, event_data(f, u, &s, phase));
	count(f, &s);
	ret->tokens = usage_sum_tokens(&s);
	ret->cost = s.cost_usd;
	return purse_spend(f, j, before, &s, &ret->budget);
}
