/*
 * Random entries of bulk operations in the background: several at once over
 * the same few jobs, often with canaries.
 */
#ifndef CORVO_RANDOM_BULK_H
#define CORVO_RANDOM_BULK_H

#include "random_world.h"

#define BULK_JOBS 8

/* One of the last few. */
static inline struct str some_bulk(struct world *w)
{
	uint64_t back = 1 + rng_below(&w->r, 4);

	return text(w, "q", w->bulks > back ? w->bulks - back : 0);
}

static inline void add_bulk_start(struct world *w)
{
	static const enum bulk_action actions[] = {
		BULK_RETRY, BULK_RETRY,  BULK_REQUEUE,
		BULK_HOLD,  BULK_CANCEL, BULK_DELETE,
	};
	enum bulk_action action =
	    actions[rng_below(&w->r, ARRAY_SIZE(actions))];
	struct m_bulk_create create = { 0 };
	struct m_bulk_add add = { 0 };
	size_t n = rng_below(&w->r, BULK_JOBS + 1);
	struct str *ids = arena_alloc(&w->arena, (n + 1) * sizeof(*ids));
	struct str id = text(w, "q", w->bulks++);

	for (size_t i = 0; i < n; i++)
		ids[i] = some_id(w, rng_below(&w->r, IDS));
	MSG_SET(&create, bulk_create, bulk_id, id);
	MSG_SET(&create, bulk_create, action, action);
	if (action == BULK_RETRY || action == BULK_REQUEUE)
		MSG_SET(&create, bulk_create, canary,
			(uint32_t)rng_below(&w->r, 3));
	fx_add(w->x, OP_BULK_CREATE, 0, &create);
	MSG_SET(&add, bulk_add, bulk_id, id);
	MSG_SET_LIST(&add, bulk_add, job_ids, ids, n);
	MSG_SET(&add, bulk_add, last, true);
	fx_add(w->x, OP_BULK_ADD, 0, &add);
}

static inline void add_bulk_step(struct world *w)
{
	struct m_bulk_step step = { 0 };
	struct str id = some_bulk(w);
	struct m_bulk b = { 0 };

	(void)fsm_bulk(w->x->side[FX_MEM].f, id, &w->arena, &b);
	MSG_SET(&step, bulk_step, bulk_id, id);
	MSG_SET(&step, bulk_step, processed, b.processed);
	MSG_SET(&step, bulk_step, max, (uint32_t)rng_below(&w->r, BULK_JOBS));
	fx_add(w->x, OP_BULK_STEP, 0, &step);
}

static inline void add_bulk(struct world *w)
{
	static const enum bulk_status wishes[] = { BULK_PAUSED, BULK_RUNNING,
						   BULK_RUNNING,
						   BULK_CANCELLED };
	struct m_bulk_control c = { 0 };

	if (one_in(w, 4)) {
		add_bulk_start(w);
		return;
	}
	if (!one_in(w, 6)) {
		add_bulk_step(w);
		return;
	}
	MSG_SET(&c, bulk_control, bulk_id, some_bulk(w));
	MSG_SET(&c, bulk_control, status,
		wishes[rng_below(&w->r, ARRAY_SIZE(wishes))]);
	fx_add(w->x, OP_BULK_CONTROL, 0, &c);
}

#endif
