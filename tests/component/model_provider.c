/*
 * How providers do. See model.h.
 */
#include "fsm/fsm.h"
#include "fsm_fixture.h"
#include "model.h"

#define MINUTE (60 * NS_PER_S)
#define WINDOW 10 /* minutes, of which the present one has begun */

static bool is_in_window(const struct model *m, const struct model_heard *h)
{
	return h->at / MINUTE + WINDOW > m->now / MINUTE;
}

void model_heard(struct model *m, struct str provider, bool failed,
		 uint64_t latency)
{
	size_t n = 0;

	if (provider.n == 0)
		return;
	for (size_t i = 0; i < m->heard_n; i++)
		if (is_in_window(m, &m->heard[i]))
			m->heard[n++] = m->heard[i];
	assert_true(n < MODEL_REPORTS);
	m->heard[n] = (struct model_heard){ .provider = model_copy(m, provider),
					    .at = m->now,
					    .latency = latency,
					    .failed = failed };
	m->heard_n = n + 1;
}

static const char *state_of(uint64_t n, uint64_t failed)
{
	if (n < 5)
		return "unknown";
	if (failed * 2 >= n)
		return "failing";
	return failed * 10 >= n ? "degraded" : "ok";
}

static void compare(const struct model *m, const struct m_provider *p)
{
	uint64_t n = 0, failed = 0, longest = 0;

	for (size_t i = 0; i < m->heard_n; i++) {
		const struct model_heard *h = &m->heard[i];

		if (!str_eq(h->provider, p->name) || !is_in_window(m, h))
			continue;
		n++;
		failed += h->failed;
		longest = MAX(longest, h->latency);
	}
	if (p->succeeded != n - failed || p->failed != failed ||
	    p->latency_max != longest)
		fail_msg("%.*s: %llu succeeded and %llu failed, the rules say "
			 "%llu and %llu",
			 STR_ARG(p->name), (unsigned long long)p->succeeded,
			 (unsigned long long)p->failed,
			 (unsigned long long)(n - failed),
			 (unsigned long long)failed);
	assert_string_equal(enum_text(&enum_provider_state, p->state),
			    state_of(n, failed));
}

void model_compare_providers(struct model *m, struct fx *x)
{
	struct m_provider_list list = { 0 };

	fsm_providers(x->side[FX_MEM].f, m->now, &x->arena, &list);
	for (size_t i = 0; i < list.providers_n; i++)
		compare(m, &list.providers[i]);
	for (size_t i = 0; i < m->heard_n; i++) {
		bool known = false;

		for (size_t k = 0; k < list.providers_n; k++)
			known |= str_eq(list.providers[k].name,
					m->heard[i].provider);
		assert_true(known);
	}
}
