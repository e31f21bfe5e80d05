/*
 * Lanes without jobs: which are remembered, and for how long.
 */
#include "fsm/order/lane.h"

#include "fsm/core/state.h"
#include "fsm/order/limiter.h"
#include "fsm/order/queue.h"

#ifdef CORVO_FAULTS
size_t lanes_idle_max = 65536;
#endif

int lane_cmp_idle(const struct heap_node *a, const struct heap_node *b)
{
	const struct fsm_lane *x = container_of(a, struct fsm_lane, idle);
	const struct fsm_lane *y = container_of(b, struct fsm_lane, idle);
	int order = str_cmp(x->q->name, y->q->name);

	return order != 0 ? order : str_cmp(x->group, y->group);
}

void lane_leave_idle(struct fsm *f, struct fsm_lane *l)
{
	heap_remove(l->idle_by_pass ? &l->q->lanes.idle : &f->idle, &l->idle);
}

void lane_place_idle(struct fsm *f, struct fsm_lane *l)
{
	struct rate r = lane_rate(l);

	lane_leave_idle(f, l);
	l->idle_by_pass =
	    l->q->set->fairness == FAIRNESS_GROUP && l->pass > l->q->lanes.time;
	if (l->idle_by_pass)
		heap_update(&l->q->lanes.idle, &l->idle, l->pass);
	else
		heap_update(&f->idle, &l->idle,
			    l->limiter != NULL && r.jobs > 0
				? limiter_end(l->limiter, &r)
				: 0);
}

void lanes_pass_idle(struct fsm *f, struct fsm_queue *q)
{
	struct heap_node *n;

	while ((n = heap_min(&q->lanes.idle)) != NULL &&
	       n->key <= q->lanes.time)
		lane_place_idle(f, container_of(n, struct fsm_lane, idle));
}

void lanes_note_crowd(struct fsm *f, struct fsm_queue *q)
{
	if (f->cluster.level >= 2 && q->lanes.idle.n > lanes_idle_max &&
	    list_empty(&q->lanes.crowd))
		list_push_back(&f->crowds, &q->lanes.crowd);
}

/* Those that are ahead least are forgotten: they lose the least by it. Only
 * when all lanes of an entry are settled: one of them may have jobs again. */
static void forget_ahead(struct fsm *f, struct fsm_queue *q)
{
	struct heap *idle = &q->lanes.idle;

	for (int i = 0; i < LIMIT_MAINTAIN_JOBS && idle->n > lanes_idle_max;
	     i++) {
		struct fsm_lane *l =
		    container_of(heap_min(idle), struct fsm_lane, idle);
		struct rate r = lane_rate(l);

		if (l->limiter != NULL &&
		    limiter_end(l->limiter, &r) > f->now_ns)
			return; /* what it counted still holds */
		lane_delete(f, l);
	}
}

/* Those whose rate counts nothing any more, a bounded number at a time. */
void lanes_forget(struct fsm *f)
{
	struct heap_node *n;

	while (!list_empty(&f->crowds)) {
		struct lanes *ls =
		    list_entry(f->crowds.next, struct lanes, crowd);

		list_remove(&ls->crowd);
		list_init(&ls->crowd);
		forget_ahead(f, ls->base.q);
	}
	for (int i = 0; i < LIMIT_MAINTAIN_JOBS; i++) {
		n = heap_min(&f->idle);
		if (n == NULL || n->key > f->now_ns)
			break;
		lane_delete(f, container_of(n, struct fsm_lane, idle));
	}
}
