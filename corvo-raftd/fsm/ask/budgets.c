/*
 * All budgets, for who asks between entries; nothing changes by it.
 */
#include <stdlib.h>

#include "fsm/core/state.h"
#include "fsm/ties/purse.h"

static int by_name(const void *a, const void *b)
{
	const struct m_budget *x = a, *y = b;

	if (x->scope != y->scope)
		return x->scope < y->scope ? -1 : 1;
	return str_cmp(x->target, y->target);
}

void fsm_budgets(struct fsm *f, uint64_t now_ns, struct arena *a,
		 struct m_budget_list *ret)
{
	struct m_budget *list =
	    arena_alloc(a, f->purses.by_name.n * sizeof(*list));
	struct str key;
	size_t pos = 0, n = 0;
	void *v;

	while (hmap_next(&f->purses.by_name, &pos, &key, &v))
		purse_show(f, v, now_ns, a, &list[n++]);
	qsort(list, n, sizeof(*list), by_name);
	MSG_SET_LIST(ret, budget_list, budgets, list, n);
}

size_t fsm_budgets_n(const struct fsm *f)
{
	return f->purses.by_name.n;
}
