#include "fsm/core/watch.h"

#include <stdlib.h>

#include "fsm/core/state.h"

struct watched {
	struct list node; /* in f->changed, once it has */
	struct str queue; /* behind the struct */
};

void fsm_watch_queue(struct fsm *f, struct str queue)
{
	struct watched *w;

	if (hmap_get(&f->watched, queue) != NULL)
		return;
	w = xcalloc(1, sizeof(*w) + queue.n);
	memcpy(w + 1, queue.p, queue.n);
	w->queue = str_of(w + 1, queue.n);
	list_init(&w->node);
	hmap_put(&f->watched, w->queue, w);
}

void fsm_unwatch_queue(struct fsm *f, struct str queue)
{
	struct watched *w = hmap_remove(&f->watched, queue);

	if (w == NULL)
		return;
	list_remove(&w->node);
	free(w);
}

static void note(struct fsm *f, struct watched *w)
{
	if (list_empty(&w->node))
		list_push_back(&f->changed, &w->node);
}

void watch_note(struct fsm *f, struct str queue)
{
	struct watched *w = NULL;

	if (f->watched.n > 0)
		w = hmap_get(&f->watched, queue);
	if (w != NULL)
		note(f, w);
}

void watch_note_all(struct fsm *f)
{
	struct str queue;
	size_t pos = 0;
	void *v;

	while (hmap_next(&f->watched, &pos, &queue, &v))
		note(f, v);
}

void fsm_take_changed(struct fsm *f, void (*fn)(void *ctx, struct str queue),
		      void *ctx)
{
	while (!list_empty(&f->changed)) {
		struct watched *w =
		    list_entry(f->changed.next, struct watched, node);

		list_remove(&w->node);
		fn(ctx, w->queue);
	}
}

void watch_free(struct fsm *f)
{
	struct str queue;
	size_t pos = 0;
	void *v;

	while (hmap_next(&f->watched, &pos, &queue, &v))
		free(v);
	hmap_done(&f->watched);
}
