/*
 * Inbound webhooks, for who asks between entries; nothing changes by it.
 */
#include <stdlib.h>

#include "fsm/core/state.h"
#include "fsm/ties/inbound.h"

const struct m_hook *fsm_hook(const struct fsm *f, struct str name)
{
	return inbound_find(f, name);
}

static int by_name(const void *a, const void *b)
{
	const struct m_hook *x = a, *y = b;

	return str_cmp(x->name, y->name);
}

void fsm_hooks(const struct fsm *f, struct arena *a, struct m_hook_list *ret)
{
	struct m_hook *list = arena_alloc(a, f->inbound.n * sizeof(*list));
	struct str name;
	size_t pos = 0, n = 0;
	void *v;

	while (hmap_next(&f->inbound, &pos, &name, &v)) {
		list[n] = *inbound_find(f, name);
		/* a list is for people */
		MSG_UNSET(&list[n], hook, secret);
		MSG_UNSET(&list[n], hook, previous_secret);
		n++;
	}
	qsort(list, n, sizeof(*list), by_name);
	MSG_SET_LIST(ret, hook_list, hooks, list, n);
}
