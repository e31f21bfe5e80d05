/*
 * Budgets: what is in memory is in the store, and what is reserved is what the
 * active jobs expect that were handed out since.
 */
#include "fsm/core/state.h"
#include "fsm/job/active.h"
#include "fsm/job/tag.h"
#include "fsm/ties/purse.h"
#include "fsm_fixture.h"

bool fx_is_purse_key(struct str key)
{
	return str_starts(key, STR("bg|")) || str_starts(key, STR("bw|"));
}

static bool is_of(struct fsm *f, const struct fsm_purse *p,
		  const struct fsm_active *a, const struct m_job *j)
{
	struct str name, value;

	switch ((enum budget_scope)p->m.scope) {
	case BUDGET_GLOBAL:
		return true;
	case BUDGET_QUEUE:
		return str_eq(p->m.target, a->q->name);
	case BUDGET_GROUP:
		return str_eq(p->m.target, j->group);
	case BUDGET_TAG:
		(void)str_split(p->m.target, ':', &name, &value);
		return str_eq(tag_find(f, j->tags, name), value);
	}
	return false;
}

/* In usd; the tests expect nothing else. */
static uint64_t reserved_usd(const struct fx_side *side,
			     const struct fsm_purse *p, uint64_t since)
{
	struct arena arena = ARENA_INIT;
	uint64_t sum = 0;
	struct str id;
	size_t pos = 0;
	void *v;

	while (hmap_next(&side->f->active, &pos, &id, &v)) {
		const struct fsm_active *a = v;
		struct m_job j;

		assert_int_equal(record_job(side->kv, id, 0, &arena, &j), 1);
		if (a->token > since && is_of(side->f, p, a, &j))
			sum += j.expected_cost;
	}
	arena_done(&arena);
	return sum;
}

static void check_purse(const struct fx_side *side, const struct fsm_purse *p)
{
	for (size_t i = 0; i < p->m.limits_n; i++) {
		const struct purse_count *c = &p->counts[i];
		uint64_t sum = 0;

		for (size_t k = 0; c->slots != NULL && k < LIMIT_BUDGET_SLOTS;
		     k++)
			sum += c->slots[k];
		if (c->slots != NULL)
			assert_int_equal(sum, c->spent);
		if (!purse_is_per_job(&p->m.limits[i]) &&
		    str_is(p->m.limits[i].unit, "usd"))
			assert_int_equal(c->reserved,
					 reserved_usd(side, p, c->since));
	}
}

void fx_check_purses(const struct fx_side *side)
{
	const struct fsm_purses *s = &side->f->purses;
	size_t n = 0, tags = 0, pos = 0;
	struct str key;
	void *v;

	for (size_t i = 0; i < ARRAY_SIZE(s->of); i++)
		n += s->of[i];
	assert_int_equal(s->by_name.n, n);
	for (size_t i = 0; i < s->tags_n; i++)
		tags += s->tags[i].n;
	assert_int_equal(s->of[BUDGET_TAG], tags);
	assert_int_equal(fx_count_keys(side, "bg|"), n);
	assert_int_equal(fx_count_keys(side, "bw|"), n);
	while (hmap_next(&s->by_name, &pos, &key, &v))
		check_purse(side, v);
	fx_check_hooks(side);
	fx_check_sdb(side);
	fx_check_webhooks(side);
	fx_check_policies(side);
}
