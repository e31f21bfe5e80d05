/*
 * Which lane jobs of a group belong to: one of its own, or the queue's base
 * lane.
 */
#include <stdlib.h>

#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/order/lane.h"
#include "fsm/order/queue.h"

static int limit_cmp(const void *name, const void *limit)
{
	return str_cmp(*(const struct str *)name,
		       ((const struct m_group_limit *)limit)->name);
}

const struct m_group_limit *lane_own(const struct fsm_queue *q,
				     struct str group)
{
	if (q->set->groups_n == 0 || group.n == 0)
		return NULL;
	return bsearch(&group, q->set->groups, q->set->groups_n,
		       sizeof(*q->set->groups), limit_cmp);
}

bool lanes_are_wide(const struct fsm *f, const struct m_set_queue *s)
{
	return f->cluster.level < 2 || s->fairness == FAIRNESS_GROUP ||
	       s->group_max_concurrency > 0 || s->group_rate > 0;
}

bool lanes_want(const struct fsm_queue *q, struct str group)
{
	return group.n > 0 && (q->lanes.wide || lane_own(q, group) != NULL);
}

struct fsm_lane *lane_to_join(struct fsm *f, struct fsm_queue *q,
			      struct str group)
{
	struct lanes *ls = &q->lanes;

	if (group.n == 0)
		return &ls->base;
	if (lanes_want(q, group))
		return lane_get(f, q, group);
	if (!ls->mixed) {
		ls->mixed = true;
		lane_touch(f, &ls->base);
	}
	return &ls->base;
}

struct fsm_lane *lane_of_active(struct fsm *f, struct fsm_queue *q,
				struct str group)
{
	return !q->lanes.parting && lanes_want(q, group) ? lane_get(f, q, group)
							 : &q->lanes.base;
}

/*
 * Only while jobs go from one to the other a group may have some in both, and
 * its keys tell.
 */
struct fsm_lane *lane_of_pending(struct fsm *f, struct fsm_queue *q,
				 struct str group, uint8_t prio, uint64_t seq)
{
	struct lanes *ls = &q->lanes;
	struct fsm_lane *l = lane_find(q, group);
	struct str value;
	struct key k;
	int r;

	if (l == NULL || l->pending == 0)
		return &ls->base;
	if (group.n == 0 || !ls->mixed || ls->regroup.pos == 0)
		return l;
	lane_key(&k, l, prio, seq);
	r = txn_get(f->txn, key_str(&k), &value);
	if (r < 0)
		(void)fsm_fail(f, r);
	return r == 0 ? &ls->base : l;
}

void lanes_note_regroup(struct fsm *f, struct fsm_queue *q)
{
	struct lanes *ls = &q->lanes;

	if (ls->parting || ls->leaving.n > 0)
		heap_update(&f->regroup, &ls->regroup, ls->parting ? 0 : 1);
	else
		heap_remove(&f->regroup, &ls->regroup);
}

/* Its jobs go where those of groups without settings are, or stay. */
void lane_set_leaving(struct fsm_lane *l)
{
	struct heap *leaving = &l->q->lanes.leaving;

	if (l->pending > 0 && !lanes_want(l->q, l->group))
		heap_update(leaving, &l->leave, 0);
	else
		heap_remove(leaving, &l->leave);
}
