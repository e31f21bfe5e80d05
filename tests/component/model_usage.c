/*
 * What jobs have used, and what models cost. See model.h.
 */
#include "fsm_fixture.h"
#include "model.h"

#define MILLION 1000000u

/* --- the price list --- */

static struct model_price *find_price(struct model *m, struct str provider,
				      struct str model)
{
	for (size_t i = 0; i < MODEL_PRICES; i++) {
		struct model_price *p = &m->prices[i];

		if (p->used && str_eq(p->provider, provider) &&
		    str_eq(p->model, model))
			return p;
	}
	return NULL;
}

void model_set_price(struct model *m, const struct m_price *op)
{
	struct model_price *p = find_price(m, op->provider, op->model);

	for (size_t i = 0; p == NULL && i < MODEL_PRICES; i++) {
		if (!m->prices[i].used)
			p = &m->prices[i];
	}
	assert_non_null(p);
	p->used = true;
	p->provider = model_copy(m, op->provider);
	p->model = model_copy(m, op->model);
	p->input = op->input_per_million;
	p->output = op->output_per_million;
}

void model_delete_price(struct model *m, const struct m_price_ref *op)
{
	struct model_price *p = find_price(m, op->provider, op->model);

	if (p == NULL)
		model_refuse(m, ERR_NOT_FOUND);
	else
		p->used = false;
}

/* --- reports --- */

void model_usage_said(struct buf *b, const struct m_usage *u)
{
	if (u == NULL)
		return;
	msg_encode(&msg_usage, u, b);
	buf_putc(b, '|');
}

static void add(struct model_usage *sum, const struct model_usage *more)
{
	sum->count += more->count;
	sum->input += more->input;
	sum->output += more->output;
	sum->cached += more->cached;
	sum->read += more->read;
	sum->cost += more->cost;
	sum->unpriced += more->unpriced;
}

static struct model_usage *sums_of(struct model *m, struct str queue,
				   const struct m_usage *u)
{
	struct model_usage *s = m->usage;

	for (; s->count > 0; s++) {
		assert_true(s < m->usage + MODEL_USAGES - 1);
		if (str_eq(s->queue, queue) && str_eq(s->model, u->model) &&
		    str_eq(s->provider, u->provider))
			return s;
	}
	s->queue = model_copy(m, queue);
	s->model = model_copy(m, u->model);
	s->provider = model_copy(m, u->provider);
	return s;
}

void model_report(struct model *m, struct model_job *j, const struct m_usage *u)
{
	struct model_usage one = { .count = 1 };
	const struct model_price *p;
	uint64_t tokens;

	if (u == NULL)
		return;
	if (u->report_id.n > 0 && str_eq(u->report_id, j->last_report))
		return;
	one.input = u->input_tokens;
	one.output = u->output_tokens;
	one.cached = u->cache_creation_tokens;
	one.read = u->cache_read_tokens;
	tokens = one.input + one.output + one.cached + one.read;
	p = find_price(m, u->provider, u->model);
	if (MSG_HAS(u, usage, cost_usd))
		one.cost = u->cost_usd;
	else if (p != NULL)
		one.cost = (one.input * p->input + one.output * p->output +
			    MILLION / 2) /
			   MILLION;
	else
		one.unpriced = tokens > 0;
	if (tokens + one.cost == 0)
		return;
	if (u->report_id.n > 0)
		j->last_report = model_copy(m, u->report_id);
	if (u->model.n > 0)
		j->last_model = model_copy(m, u->model);
	if (u->provider.n > 0)
		j->last_provider = model_copy(m, u->provider);
	add(&j->usage, &one);
	add(sums_of(m, j->queue, u), &one);
	model_spend(m, j, one.cost);
}

/* --- against the state machine --- */

static void same(struct str what, const struct model_usage *want,
		 const struct m_usage_sum *got)
{
	static const struct m_usage_sum none;

	if (got == NULL)
		got = &none;
	if (got->count != want->count || got->input_tokens != want->input ||
	    got->output_tokens != want->output ||
	    got->cache_creation_tokens != want->cached ||
	    got->cache_read_tokens != want->read ||
	    got->cost_usd != want->cost || got->unpriced != want->unpriced)
		fail_msg("%.*s has used %llu of %llu and %llu tokens in %llu "
			 "reports, the rules say %llu of %llu and %llu in %llu",
			 STR_ARG(what), (unsigned long long)got->cost_usd,
			 (unsigned long long)got->input_tokens,
			 (unsigned long long)got->output_tokens,
			 (unsigned long long)got->count,
			 (unsigned long long)want->cost,
			 (unsigned long long)want->input,
			 (unsigned long long)want->output,
			 (unsigned long long)want->count);
}

void model_compare_job_usage(const struct model_job *j, const struct m_job *r)
{
	same(j->id, &j->usage, r->usage);
}

void model_compare_usage(struct model *m, struct fx *x)
{
	static struct str names[] = { { "queue", 5 },
				      { "model", 5 },
				      { "provider", 8 } };
	struct m_usage_ask ask = { 0 };
	struct buf why = BUF_INIT(0);
	struct m_usage_reply r;
	size_t n = 0;

	MSG_SET(&ask, usage_ask, to, UINT64_MAX / 2);
	MSG_SET_LIST(&ask, usage_ask, group_by, names, ARRAY_SIZE(names));
	assert_int_equal(
	    record_usage(x->side[FX_MEM].kv, &ask, &x->arena, &r, &why), 0);
	for (; m->usage[n].count > 0; n++) {
		struct m_usage u = { .model = m->usage[n].model,
				     .provider = m->usage[n].provider };
		const struct m_usage_sum *got = NULL;

		for (size_t i = 0; i < r.groups_n; i++) {
			const struct str *k = r.groups[i].keys;

			if (str_eq(k[0], m->usage[n].queue) &&
			    str_eq(k[1], u.model) && str_eq(k[2], u.provider))
				got = r.groups[i].sum;
		}
		same(m->usage[n].queue, &m->usage[n], got);
	}
	assert_int_equal(r.groups_n, n);
	buf_done(&why);
}
