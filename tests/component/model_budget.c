/*
 * Budgets that only tell, per day: what is spent of them. See model.h.
 */
#include "fsm_fixture.h"
#include "model.h"

#define DAY (86400 * NS_PER_S)

static struct model_budget *find(struct model *m, uint32_t scope,
				 struct str target)
{
	for (size_t i = 0; i < MODEL_BUDGETS; i++) {
		struct model_budget *b = &m->budgets[i];

		if (b->used && b->scope == scope && str_eq(b->target, target))
			return b;
	}
	return NULL;
}

void model_set_budget(struct model *m, const struct m_budget *op)
{
	struct str target = op->scope == BUDGET_GLOBAL ? STR("*") : op->target;
	struct model_budget *b = find(m, op->scope, target);

	for (size_t i = 0; b == NULL && i < MODEL_BUDGETS; i++) {
		if (m->budgets[i].used)
			continue;
		b = &m->budgets[i];
		*b = (struct model_budget){ .used = true };
	}
	assert_non_null(b);
	b->scope = op->scope;
	b->target = model_copy(m, target);
	b->amount = op->daily_usd;
}

void model_delete_budget(struct model *m, const struct m_budget_ref *op)
{
	uint32_t scope;
	struct model_budget *b;

	assert_true(enum_parse(&enum_budget_scope, op->scope, &scope));
	b = find(m, scope, op->target);
	if (b != NULL)
		b->used = false;
	else
		model_refuse(m, ERR_NOT_FOUND);
}

static bool has_tag(const struct model_job *j, struct str target)
{
	struct str name, value;
	struct buf b = BUF_INIT(0);
	bool has;

	(void)str_split(target, ':', &name, &value);
	buf_printf(&b, "\"%.*s\":\"%.*s\"", STR_ARG(name), STR_ARG(value));
	has = j->tags.n > 0 && memmem(j->tags.p, j->tags.n, b.p, b.n) != NULL;
	buf_done(&b);
	return has;
}

static bool is_of(const struct model_budget *b, const struct model_job *j)
{
	if (b->scope == BUDGET_GLOBAL)
		return true;
	if (b->scope == BUDGET_QUEUE)
		return str_eq(b->target, j->queue);
	if (b->scope == BUDGET_GROUP)
		return str_eq(b->target, j->group);
	return has_tag(j, b->target);
}

void model_spend(struct model *m, const struct model_job *j, uint64_t cost)
{
	for (size_t i = 0; i < MODEL_BUDGETS; i++) {
		struct model_budget *b = &m->budgets[i];

		if (!b->used || !is_of(b, j))
			continue;
		if (b->day != m->now / DAY)
			b->spent = 0;
		b->day = m->now / DAY;
		b->spent += cost;
	}
}

void model_compare_budgets(struct model *m, struct fx *x)
{
	struct m_budget_list list = { 0 };
	size_t n = 0;

	fsm_budgets(x->side[FX_MEM].f, m->now, &x->arena, &list);
	for (size_t i = 0; i < MODEL_BUDGETS; i++)
		n += m->budgets[i].used;
	assert_int_equal(list.budgets_n, n);
	for (size_t i = 0; i < n; i++) {
		const struct m_budget *r = &list.budgets[i];
		const struct model_budget *b = find(m, r->scope, r->target);
		uint64_t spent;

		assert_non_null(b);
		spent = b->day == m->now / DAY ? b->spent : 0;
		assert_int_equal(r->state_n, 1);
		assert_int_equal(r->state[0].amount, b->amount);
		if (r->state[0].spent != spent)
			fail_msg("of the budget of %.*s %llu is spent, the "
				 "rules say %llu",
				 STR_ARG(r->target),
				 (unsigned long long)r->state[0].spent,
				 (unsigned long long)spent);
		assert_int_equal(r->state[0].exceeded, spent >= b->amount);
	}
}
