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
	return str_starts(key, STR("bg|")) || str_starts(key, STR("bw|")) ||
	       str_starts(key, STR("ba|"));
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

/* What it expects in usd and has not reported since it was handed out. */
static uint64_t still_expected(const struct fx_side *side, struct str id,
			       const struct m_job *j, struct arena *a)
{
	struct m_job_live live;
	uint64_t used;
	struct str raw;
	struct key k;

	key_live(&k, id);
	assert_int_equal(txn_get(side->f->txn, key_str(&k), &raw), 1);
	assert_int_equal(
	    msg_decode(&msg_job_live, arena_copy(a, raw), a, &live), 0);
	used = live.usage != NULL ? live.usage->cost_usd : 0;
	if (live.usage_before != NULL)
		used -= live.usage_before->cost_usd;
	return j->expected_cost - MIN(j->expected_cost, used);
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
			sum += still_expected(side, id, &j, &arena);
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

/* Jobs that are set aside stand under the budget that did it. */
static void check_aside(const struct fx_side *side)
{
	struct arena a = ARENA_INIT;
	struct key from, upto;
	struct kv_iter *it;
	size_t n = 0;

	key_live(&from, STR(""));
	key_prefix_end(&from, &upto);
	it = kv_iter_new(side->kv, key_str(&from), key_str(&upto));
	for (; kv_iter_valid(it); kv_iter_next(it), arena_reset(&a)) {
		struct str id = str_skip(kv_iter_key(it), from.n), raw;
		struct m_job_live live;
		struct key k;

		assert_int_equal(
		    msg_decode(&msg_job_live, kv_iter_value(it), &a, &live), 0);
		if (live.aside.n == 0)
			continue;
		assert_int_equal(live.state, JOB_SCHEDULED);
		key_aside(&k, live.aside, id);
		assert_int_equal(txn_get(side->f->txn, key_str(&k), &raw), 1);
		n++;
	}
	kv_iter_free(it);
	arena_done(&a);
	assert_int_equal(fx_count_keys(side, "ba|"), n);
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
	check_aside(side);
	fx_check_hooks(side);
	fx_check_sdb(side);
	fx_check_webhooks(side);
	fx_check_policies(side);
}
