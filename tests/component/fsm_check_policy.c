/*
 * Approval policies: what is in memory is in the store, and in order.
 */
#include "fsm/core/state.h"
#include "fsm/ties/policy.h"
#include "fsm_check.h"
#include "fsm_fixture.h"

void check_deadline(struct check *c, struct str id, const struct m_job_live *l)
{
	const struct m_hold_state *h = l->held;
	struct key k;

	if (h == NULL || h->deadline == 0 || h->escalated)
		return;
	key_deadline(&k, h->deadline, id);
	assert_true(check_has_key(c, &k));
	assert_true(c->f->deadline_from <= h->deadline);
	c->deadlines++;
}

void fx_check_policies(const struct fx_side *side)
{
	const struct fsm_policies *s = &side->f->policies;
	size_t of[POLICY_POINTS] = { 0 }, tests = 0;

	assert_int_equal(s->n, fx_count_keys(side, "ap|"));
	for (size_t i = 0; i < s->n; i++) {
		const struct policy *p = &s->list[i]->p;
		_cleanup_(buf_done) struct buf b = BUF_INIT(0);
		_cleanup_(buf_done) struct buf stored = BUF_INIT(0);
		struct key k;

		key_policy(&k, SPACE_DEFAULT, p->m.id);
		assert_int_equal(kv_get(side->kv, key_str(&k), &stored), 1);
		msg_encode(&msg_policy, &p->m, &b);
		assert_true(str_eq(buf_str(&b), buf_str(&stored)));
		if (i > 0)
			assert_true(s->list[i - 1]->p.m.priority >=
				    p->m.priority);
		for (int at = 0; at < POLICY_POINTS; at++)
			of[at] += policy_is_at(p, (enum policy_point)at);
		tests += p->tests;
	}
	assert_memory_equal(of, s->of, sizeof(of));
	assert_int_equal(tests, s->tests);
	assert_true(tests <= LIMIT_POLICY_TESTS);
}
