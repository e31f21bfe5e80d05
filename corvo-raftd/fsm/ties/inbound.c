/*
 * See ties/inbound.h. All of them are in memory too: there are few, and each
 * delivery asks for one.
 */
#include "fsm/ties/inbound.h"

#include <stdlib.h>

#include "fsm/core/scan.h"
#include "fsm/core/state.h"

/* The record is in the arena, and m points into it. */
struct fsm_hook {
	struct m_hook m;
	struct arena arena;
};

static void hook_free(struct fsm_hook *h)
{
	if (h == NULL)
		return;
	arena_done(&h->arena);
	free(h);
}

const struct m_hook *inbound_find(const struct fsm *f, struct str name)
{
	const struct fsm_hook *h = hmap_get(&f->inbound, name);

	return h != NULL ? &h->m : NULL;
}

static int keep(struct fsm *f, struct str name, struct str raw)
{
	struct fsm_hook *h = xcalloc(1, sizeof(*h));

	if (msg_decode(&msg_hook, arena_copy(&h->arena, raw), &h->arena,
		       &h->m) < 0) {
		hook_free(h);
		return -ERR_INTERNAL_ERROR;
	}
	hook_free(hmap_put(&f->inbound, name, h));
	return 0;
}

void inbound_save(struct fsm *f, const struct m_hook *m)
{
	struct key k;

	key_hook(&k, SPACE_DEFAULT, m->name);
	fsm_put(f, &k, &msg_hook, m);
	MUST(f, keep(f, m->name, buf_str(&f->scratch)) == 0);
}

void inbound_remove(struct fsm *f, struct str name)
{
	struct key k;

	key_hook(&k, SPACE_DEFAULT, name);
	fsm_delete(f, &k);
	hook_free(hmap_remove(&f->inbound, name));
}

int inbound_load(struct fsm *f)
{
	return load_all_named(f, "hk|", keep);
}

void inbound_free(struct fsm *f)
{
	struct str name;
	size_t pos = 0;
	void *v;

	while (hmap_next(&f->inbound, &pos, &name, &v))
		hook_free(v);
	hmap_done(&f->inbound);
}
