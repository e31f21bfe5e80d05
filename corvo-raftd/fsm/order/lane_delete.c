/*
 * The lanes of a queue that goes: as many in an entry as its budget allows.
 */
#include "fsm/core/budget.h"
#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/order/lane.h"
#include "fsm/order/queue.h"

/* Groups that have a record, in the order of their names. */
struct lane_scan {
	struct arena *arena;
	size_t prefix_n;
	struct str groups[LIMIT_MAINTAIN_JOBS];
	size_t n;
};

static bool lane_scan_add(void *ctx, struct str key, struct str value _unused_)
{
	struct lane_scan *s = ctx;
	struct str group = str_skip(key, s->prefix_n);

	if (s->n == ARRAY_SIZE(s->groups))
		return false;
	if (group.n > 0) /* the base lane goes last */
		s->groups[s->n++] = arena_copy(s->arena, group);
	return true;
}

/* In the order of the store, so that all replicas keep the same ones. */
static int delete_stored(struct fsm *f, struct fsm_queue *q)
{
	struct lane_scan *s = arena_zalloc(&f->item_arena, sizeof(*s));
	struct key from, upto;
	size_t i = 0;
	int r;

	s->arena = &f->item_arena;
	key_prefix_queue(&from, "group-turn|", q->space, q->name);
	key_prefix_end(&from, &upto);
	s->prefix_n = from.n;
	r = txn_scan(f->txn, key_str(&from), key_str(&upto), lane_scan_add, s);
	if (r < 0)
		return fsm_fail(f, r);
	for (; i < s->n && !budget_is_spent(f); i++) {
		lane_delete(f, hmap_get(&q->lanes.groups, s->groups[i]));
		budget_take_job(f);
	}
	return i == s->n && i < ARRAY_SIZE(s->groups);
}

int lanes_delete(struct fsm *f, struct fsm_queue *q)
{
	struct lanes *ls = &q->lanes;
	struct str name;
	struct key k;
	size_t pos = 0;
	void *v;
	int r = ls->groups.n == 0 ? 1 : delete_stored(f, q);

	if (r <= 0)
		return r;
	while (hmap_next(&ls->groups, &pos, &name, &v))
		lane_delete(f, v); /* of this very entry */
	lane_delete(f, &ls->base);
	heap_remove(&f->looks, &ls->look);
	key_limiter(&k, q->space, q->name);
	fsm_delete(f, &k);
	return 1;
}
