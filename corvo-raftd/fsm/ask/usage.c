/*
 * What is asked about usage between entries; nothing changes by it.
 */
#include <stdlib.h>

#include "fsm/core/state.h"
#include "fsm/ties/provider.h"
#include "fsm/ties/usage.h"

const struct m_usage_settings *fsm_usage_settings(const struct fsm *f)
{
	return &f->usage.set;
}

static int by_name(const void *a, const void *b)
{
	const struct m_price *x = a, *y = b;
	int order = str_cmp(x->provider, y->provider);

	return order != 0 ? order : str_cmp(x->model, y->model);
}

void fsm_prices(const struct fsm *f, struct arena *a, struct m_price_list *ret)
{
	struct m_price *list =
	    arena_alloc(a, f->usage.prices.n * sizeof(*list));
	size_t n = prices_copy(f, list);

	qsort(list, n, sizeof(*list), by_name);
	MSG_SET_LIST(ret, price_list, prices, list, n);
}

static int by_provider(const void *a, const void *b)
{
	const struct m_provider *x = a, *y = b;

	return str_cmp(x->name, y->name);
}

void fsm_providers(const struct fsm *f, uint64_t now_ns, struct arena *a,
		   struct m_provider_list *ret)
{
	struct m_provider *list =
	    arena_alloc(a, f->providers.n * sizeof(*list));
	size_t n = providers_copy(f, now_ns, list);

	qsort(list, n, sizeof(*list), by_provider);
	MSG_SET_LIST(ret, provider_list, providers, list, n);
}
