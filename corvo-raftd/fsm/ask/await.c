/*
 * Jobs whose end somebody waits for. Outside the state: it changes nothing
 * that is stored or answered by entries, and is empty after a start.
 */
#include "fsm/ask/await.h"

#include <stdlib.h>

#include "fsm/core/state.h"

struct awaited {
	struct list node; /* in f->ended, once it has */
	struct str id;    /* behind the struct */
};

void fsm_await(struct fsm *f, struct str id)
{
	struct awaited *a;

	if (hmap_get(&f->awaited, id) != NULL)
		return;
	a = xcalloc(1, sizeof(*a) + id.n);
	memcpy(a + 1, id.p, id.n);
	a->id = str_of(a + 1, id.n);
	list_init(&a->node);
	hmap_put(&f->awaited, a->id, a);
}

void fsm_unawait(struct fsm *f, struct str id)
{
	struct awaited *a = hmap_remove(&f->awaited, id);

	if (a == NULL)
		return;
	list_remove(&a->node);
	free(a);
}

void await_note_end(struct fsm *f, struct str id)
{
	struct awaited *a = hmap_get(&f->awaited, id);

	if (a != NULL && list_empty(&a->node))
		list_push_back(&f->ended, &a->node);
}

void fsm_take_ended(struct fsm *f, void (*fn)(void *ctx, struct str id),
		    void *ctx)
{
	while (!list_empty(&f->ended)) {
		struct awaited *a =
		    list_entry(f->ended.next, struct awaited, node);

		list_remove(&a->node);
		CHECK(hmap_remove(&f->awaited, a->id) == a);
		fn(ctx, a->id);
		free(a);
	}
}

void await_free(struct fsm *f)
{
	struct str id;
	size_t pos = 0;
	void *v;

	while (hmap_next(&f->awaited, &pos, &id, &v))
		free(v);
	hmap_done(&f->awaited);
}
