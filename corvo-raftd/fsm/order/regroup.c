/*
 * See regroup.h. What is moved is decided by the store and the entry's budget
 * alone: the queue and the lane that come first by their names, from where the
 * last portion ended.
 */
#include "fsm/order/regroup.h"

#include "fsm/core/budget.h"
#include "fsm/core/state.h"
#include "fsm/order/lane.h"

/* A pending job as it is found under its key. */
struct found {
	struct pending p;
	uint8_t prio;
};

struct regroup_scan {
	struct arena *arena;
	struct found *jobs;
	size_t n, max;
	bool more;
};

static bool regroup_scan_add(void *ctx, struct str key, struct str value)
{
	struct regroup_scan *s = ctx;
	struct found *j = &s->jobs[s->n];

	if (s->n == s->max) {
		s->more = true;
		return false;
	}
	lane_value(arena_copy(s->arena, value), &j->p);
	j->p.seq = get_be64(key.p + key.n - 8);
	j->prio = (uint8_t)key.p[key.n - 9];
	s->n++;
	return true;
}

/* Jobs of a lane from a place on. */
static int scan_lane(struct fsm *f, const struct fsm_lane *l, uint8_t prio,
		     uint64_t seq, struct regroup_scan *s)
{
	struct key from, upto;
	int r;

	s->arena = &f->item_arena;
	s->jobs = arena_alloc(s->arena, s->max * sizeof(*s->jobs));
	lane_key(&from, l, prio, seq);
	lane_key(&upto, l, PRIORITIES, 0);
	r = txn_scan_first(f->txn, key_str(&from), key_str(&upto), s->max + 1,
			   regroup_scan_add, s);
	return r < 0 ? fsm_fail(f, r) : 0;
}

/* The windows of the base lane are read anew after this. */
static void move(struct fsm *f, struct fsm_lane *from, struct fsm_lane *to,
		 const struct found *j)
{
	struct key k;

	MUST(f, from != to && from->q == to->q);
	lane_key(&k, from, j->prio, j->p.seq);
	fsm_delete(f, &k);
	lane_adopt(f, to, j->prio, &j->p);
	lane_count_pending(f, to, 1);
	lane_count_pending(f, from, -1);
}

/* Who goes through the indexes of the queue has to begin anew. */
static void note_portion(struct fsm *f, struct fsm_queue *q, size_t n)
{
	if (n == 0)
		return;
	q->lanes.regroups++;
	queue_write_doc(f, q);
}

/* --- from the base lane --- */

static void end_parting(struct fsm *f, struct fsm_queue *q)
{
	MUST(f, q->lanes.parting);
	q->lanes.parting = false;
	if (q->lanes.wide)
		q->lanes.mixed = false;
	lanes_settings_changed(f, q);
}

static int part_some(struct fsm *f, struct fsm_queue *q, uint32_t *left)
{
	struct lanes *ls = &q->lanes;
	struct regroup_scan s = { .max = *left };
	size_t i = 0;
	int r = scan_lane(f, &ls->base, ls->part_prio, ls->part_seq, &s);

	if (r < 0)
		return r;
	for (; i < s.n && !budget_is_spent(f); i++) {
		struct found *j = &s.jobs[i];
		struct str group = j->p.group;

		budget_take_records(f, 1);
		if (lanes_want(q, group))
			move(f, &ls->base, lane_get(f, q, group), j);
		ls->part_prio = j->prio;
		ls->part_seq = j->p.seq + 1;
	}
	*left -= (uint32_t)i;
	note_portion(f, q, i);
	lane_forget(f, &ls->base);
	lane_touch(f, &ls->base);
	if (i < s.n || s.more)
		return 0;
	end_parting(f, q);
	return 1;
}

/* --- and back --- */

static int join_some(struct fsm *f, struct fsm_queue *q, uint32_t *left)
{
	struct lanes *ls = &q->lanes;
	struct fsm_lane *l =
	    container_of(heap_min(&ls->leaving), struct fsm_lane, leave);
	struct regroup_scan s = { .max = *left };
	size_t i = 0;
	int r = scan_lane(f, l, 0, 0, &s);

	if (r < 0)
		return r;
	MUST(f, s.n > 0);
	(void)lane_to_join(f, q, l->group); /* says that they are mixed */
	for (; i < s.n && !budget_is_spent(f); i++) {
		budget_take_records(f, 1);
		s.jobs[i].p.group = l->group;
		move(f, l, &ls->base, &s.jobs[i]);
	}
	*left -= (uint32_t)i;
	note_portion(f, q, i);
	lane_forget(f, &ls->base);
	if (l->pending > 0)
		lane_forget(f, l);
	return 0;
}

/* --- which and when --- */

bool regroup_parts(const struct fsm *f, const struct fsm_queue *q,
		   const struct m_set_queue *set)
{
	if (q->lanes.wide)
		return false;
	if (lanes_are_wide(f, set))
		return true;
	for (size_t i = 0; i < set->groups_n; i++)
		if (!lanes_want(q, set->groups[i].name))
			return true;
	return false;
}

void regroup_begin(struct fsm *f, struct fsm_queue *q, bool part)
{
	struct lanes *ls = &q->lanes;
	bool wanted = lanes_are_wide(f, q->set) || q->set->groups_n > 0;

	if (ls->mixed && ls->base.pending == 0) {
		ls->mixed = ls->parting = false;
		lane_touch(f, &ls->base);
	}
	if (ls->parting && !wanted) {
		ls->parting = false;
		lane_touch(f, &ls->base);
	}
	if (ls->mixed && part) {
		ls->parting = true;
		ls->part_prio = 0;
		ls->part_seq = 0;
		lane_touch(f, &ls->base);
	}
	lanes_settings_changed(f, q);
}

bool regroup_is_due(const struct fsm *f)
{
	return f->regroup.n > 0;
}

int regroup_go_on(struct fsm *f, uint32_t *left, struct fsm_queue **ret)
{
	int r = 0;

	while (r == 0 && f->regroup.n > 0 && *left > 0 && !budget_is_spent(f)) {
		struct fsm_queue *q = container_of(
		    heap_min(&f->regroup), struct fsm_queue, lanes.regroup);

		*ret = q;
		r = q->lanes.parting ? part_some(f, q, left)
				     : join_some(f, q, left);
	}
	return r;
}
