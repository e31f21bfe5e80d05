/*
 * Lanes: limits, turns, and which lanes there are. Names of groups come from
 * clients; group_name_fits guards the keys. A queue owns its lanes.
 */
#include "fsm/order/lane.h"

#include <stdlib.h>

#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/order/limiter.h"
#include "fsm/order/queue.h"
#include "fsm/order/window.h"
#include "util/hash.h"

#define STRIDE (1u << 20) /* what one turn costs a lane of weight 1 */

static bool lane_is_base(const struct fsm_lane *l)
{
	return l->group.n == 0;
}

static bool is_fair(const struct fsm_queue *q)
{
	return q->set->fairness == FAIRNESS_GROUP;
}

bool group_name_fits(struct str group)
{
	return group.n > 0 && group.n <= LIMIT_GROUP_BYTES &&
	       memchr(group.p, '\0', group.n) == NULL;
}

/* --- what is set --- */

struct rate lanes_rate(const struct fsm_queue *q)
{
	return (struct rate){ q->set->rate, q->set->period };
}

struct rate lane_rate(const struct fsm_lane *l)
{
	const struct m_set_queue *s = l->q->set;

	if (lane_is_base(l))
		return (struct rate){ 0 };
	if (l->own != NULL && l->own->rate > 0)
		return (struct rate){ l->own->rate, l->own->period };
	return (struct rate){ s->group_rate, s->group_period };
}

uint64_t lane_concurrency(const struct fsm_lane *l)
{
	if (lane_is_base(l))
		return 0;
	return l->own != NULL && l->own->max_concurrency > 0
		   ? l->own->max_concurrency
		   : l->q->set->group_max_concurrency;
}

static uint64_t lane_stride(const struct fsm_lane *l)
{
	uint32_t weight = l->own != NULL ? l->own->weight : 0;

	return STRIDE / MIN(MAX(weight, 1u), (uint32_t)LIMIT_GROUP_WEIGHT);
}

/* --- what may be handed out --- */

/* Pending jobs its slots have room for; the rate is another matter. */
static uint64_t lane_ready(const struct fsm_lane *l)
{
	uint64_t n = l->pending, max = lane_concurrency(l);

	if (l->own != NULL && l->own->paused)
		return 0;
	if (max > 0)
		n = MIN(n, max > l->active ? max - l->active : 0);
	return n;
}

static uint64_t lane_open(const struct fsm_lane *l, uint64_t now)
{
	struct rate r = lane_rate(l);
	uint64_t n = lane_ready(l);

	return r.jobs > 0 && n > 0 ? MIN(n, limiter_left(l->limiter, &r, now))
				   : n;
}

static uint64_t queue_room(const struct fsm_queue *q, uint64_t now)
{
	uint64_t max = q->set->max_concurrency, n = UINT64_MAX;
	uint64_t active = q->counts[JOB_ACTIVE];
	struct rate r = lanes_rate(q);

	if (q->lanes.parting)
		return 0;
	if (max > 0)
		n = max > active ? max - active : 0;
	if (r.jobs > 0 && n > 0)
		n = MIN(n, limiter_left(q->lanes.limiter, &r, now));
	return n;
}

bool lanes_queue_is_open(const struct fsm_queue *q, uint64_t now)
{
	return q->lanes.plain || queue_room(q, now) > 0;
}

uint64_t lanes_takeable(const struct fsm_queue *q, uint64_t now)
{
	const struct heap_node *first = heap_min(&q->lanes.waiting);
	uint64_t n = q->lanes.open;

	if (first != NULL && first->key <= now)
		n++;
	return MIN(n, queue_room(q, now));
}

static struct heap_node *refresh_turn(struct fsm_lane *l, uint8_t prio)
{
	struct heap *turns = &l->q->lanes.turns[prio];
	struct heap_node *n = &l->turn[prio];
	uint64_t first = window_bound(&l->windows[prio]);
	uint64_t key = is_fair(l->q) ? l->pass : first;

	if (l->open == 0 || first == NEVER) {
		heap_remove(turns, n);
	} else if (n->pos == 0 || n->key != key || n->tie != first) {
		n->tie = first;
		heap_update(turns, n, key);
	}
	return n;
}

void lane_refresh(struct fsm *f, struct fsm_lane *l)
{
	struct lanes *ls = &l->q->lanes;
	uint64_t open;

	if (ls->plain)
		return;
	open = lane_open(l, f->now_ns);
	if (open > l->open)
		queue_wake(f, l->q);
	MUST(f, ls->open >= l->open); /* it is the sum of all lanes */
	ls->open += open - l->open;
	l->open = open;
	if (open == 0 && lane_ready(l) > 0) {
		struct rate r = lane_rate(l);

		heap_update(&ls->waiting, &l->wait,
			    limiter_next(l->limiter, &r, f->now_ns));
	} else {
		heap_remove(&ls->waiting, &l->wait);
	}
	for (uint8_t i = 0; i < PRIORITIES; i++)
		refresh_turn(l, i);
}

void lanes_release(struct fsm *f, struct fsm_queue *q)
{
	struct heap_node *n;

	while ((n = heap_min(&q->lanes.waiting)) != NULL && n->key <= f->now_ns)
		lane_refresh(f, container_of(n, struct fsm_lane, wait));
}

struct fsm_lane *lane_next(struct fsm *f, struct fsm_queue *q, uint8_t prio)
{
	struct heap_node *n;

	if (queue_room(q, f->now_ns) == 0)
		return NULL;
	while ((n = heap_min(&q->lanes.turns[prio])) != NULL) {
		struct fsm_lane *l =
		    container_of(n - prio, struct fsm_lane, turn[0]);
		uint64_t bound = n->tie;

		if (lane_open(l, f->now_ns) == 0) {
			lane_refresh(f, l);
			continue;
		}
		if (lane_fill(f, l, prio) < 0)
			return NULL;
		refresh_turn(l, prio);
		if (n->pos == 1 && n->tie == bound)
			return l;
	}
	return NULL;
}

void lanes_look(struct fsm *f, struct fsm_queue *q)
{
	struct lanes *ls = &q->lanes;
	struct heap_node *first = heap_min(&ls->waiting);
	struct rate r = lanes_rate(q);
	uint64_t when = NEVER;

	if (ls->open > 0)
		when = 0;
	else if (first != NULL)
		when = first->key;
	if (when != NEVER && r.jobs > 0 &&
	    limiter_left(ls->limiter, &r, f->now_ns) == 0)
		when = MAX(when, limiter_next(ls->limiter, &r, f->now_ns));
	if (when == 0 && first != NULL)
		when = first->key;
	if (q->closed_ns > f->now_ns && !q->paused)
		heap_update(&f->looks, &ls->look, q->closed_ns);
	else if (ls->plain || q->paused || when == 0 || when == NEVER)
		heap_remove(&f->looks, &ls->look);
	else
		heap_update(&f->looks, &ls->look, when);
}

/* --- which lanes there are --- */

static int cmp_leave(const struct heap_node *a, const struct heap_node *b)
{
	return str_cmp(container_of(a, struct fsm_lane, leave)->group,
		       container_of(b, struct fsm_lane, leave)->group);
}

void lanes_init(struct fsm *f, struct fsm_queue *q)
{
	q->lanes.plain = true;
	q->lanes.idle.cmp = lane_cmp_idle;
	q->lanes.leaving.cmp = cmp_leave;
	q->lanes.wide = lanes_are_wide(f, q->set);
	q->lanes.regroup.tie = q->bounds.due.tie;
	q->lanes.base.q = q;
	list_init(&q->lanes.base.dirty);
	list_init(&q->lanes.crowd);
}

/* A plain queue has empty heaps. */
static void update_plain(struct fsm *f, struct fsm_queue *q)
{
	struct lanes *ls = &q->lanes;
	bool was = ls->plain;

	ls->plain = ls->groups.n == 0 && q->set->max_concurrency == 0 &&
		    q->set->rate == 0 && !is_fair(q) && !ls->parting;
	if (ls->plain && !was) {
		ls->open = ls->base.open = 0;
		for (uint8_t i = 0; i < PRIORITIES; i++)
			heap_remove(&ls->turns[i], &ls->base.turn[i]);
		for (uint8_t i = 0; i < PRIORITIES; i++)
			MUST(f, ls->turns[i].n == 0);
		MUST(f, ls->waiting.n + ls->idle.n + ls->leaving.n == 0);
		heap_remove(&f->looks, &ls->look);
	} else if (was) {
		lane_refresh(f, &ls->base);
	}
}

struct fsm_lane *lane_find(struct fsm_queue *q, struct str group)
{
	return group.n == 0 ? &q->lanes.base
			    : hmap_get(&q->lanes.groups, group);
}

struct fsm_lane *lane_get(struct fsm *f, struct fsm_queue *q, struct str group)
{
	struct fsm_lane *l = lane_find(q, group);
	char *p;

	if (l != NULL)
		return l;
	l = xcalloc(1, sizeof(*l) + group.n);
	p = (char *)(l + 1);
	memcpy(p, group.p, group.n);
	l->group = str_of(p, group.n);
	l->q = q;
	l->own = lane_own(q, group);
	/*
	 * Equal on all replicas: it decides which lanes are forgotten first.
	 * Queues may have groups of the same name, and of each other's.
	 */
	l->idle.tie = hash_stable(p, group.n) + 3 * q->bounds.due.tie;
	l->leave.tie = l->idle.tie;
	list_init(&l->dirty);
	for (int i = 0; i < PRIORITIES; i++)
		window_reset(&l->windows[i], true);
	MUST(f, hmap_put(&q->lanes.groups, l->group, l) == NULL);
	update_plain(f, q);
	return l;
}

static void lane_free(struct fsm_lane *l)
{
	for (int i = 0; i < PRIORITIES; i++)
		window_done(&l->windows[i]);
	free(l->limiter);
	if (!lane_is_base(l))
		free(l);
}

void lanes_done(struct fsm_queue *q)
{
	struct lanes *ls = &q->lanes;
	struct str name;
	size_t pos = 0;
	void *v;

	while (hmap_next(&ls->groups, &pos, &name, &v))
		lane_free(v);
	lane_free(&ls->base);
	free(ls->limiter);
	hmap_done(&ls->groups);
	for (int i = 0; i < PRIORITIES; i++)
		heap_done(&ls->turns[i]);
	heap_done(&ls->waiting);
	heap_done(&ls->idle);
	heap_done(&ls->leaving);
}

void lane_delete(struct fsm *f, struct fsm_lane *l)
{
	struct fsm_queue *q = l->q;
	struct key k;

	MUST(f, l->pending == 0 && l->active == 0);
	lane_clear(f, l);
	lane_refresh(f, l);
	lane_leave_idle(f, l);
	heap_remove(&q->lanes.leaving, &l->leave);
	list_remove(&l->dirty);
	if (l->stored) {
		key_lane(&k, q->space, q->name, l->group);
		fsm_delete(f, &k);
	}
	if (lane_is_base(l))
		return;
	MUST(f, hmap_remove(&q->lanes.groups, l->group) == l);
	lane_free(l);
	update_plain(f, q);
}

void lanes_settings_changed(struct fsm *f, struct fsm_queue *q)
{
	struct lanes *ls = &q->lanes;
	struct str name;
	struct key k;
	size_t pos = 0;
	void *v;

	if (q->set->rate == 0 && ls->limiter != NULL) {
		free(ls->limiter);
		ls->limiter = NULL;
		ls->limiter_dirty = false;
		key_limiter(&k, q->space, q->name);
		fsm_delete(f, &k);
	}
	ls->wide = lanes_are_wide(f, q->set);
	update_plain(f, q);
	lane_refresh(f, &ls->base);
	while (hmap_next(&ls->groups, &pos, &name, &v)) {
		struct fsm_lane *l = v;

		l->own = lane_own(q, l->group);
		lane_refresh(f, l);
		if (l->pending + l->active == 0)
			lane_place_idle(f, l);
		lane_set_leaving(l);
	}
	lanes_note_regroup(f, q);
	lanes_look(f, q);
	if (q->counts[JOB_PENDING] > 0)
		queue_wake(f, q);
}

/* --- changes --- */

void lane_touch(struct fsm *f, struct fsm_lane *l)
{
	if (list_empty(&l->dirty))
		list_push_back(&f->dirty_lanes, &l->dirty);
}

/*
 * It came into being, became idle or is so no more. How many jobs it has is
 * not stored: that would be a write for each, and is counted at start.
 */
static bool lane_wants_look(const struct fsm_lane *l)
{
	return !lane_is_base(l) &&
	       (l->pending + l->active == 0 || l->idle.pos > 0 || !l->stored);
}

void lane_count_pending(struct fsm *f, struct fsm_lane *l, int change)
{
	MUST(f, change > 0 || l->pending > 0);
	l->pending += (uint64_t)(int64_t)change;
	/* the queue counts those of all lanes, and has counted this one */
	MUST(f, change < 0 || l->pending <= l->q->counts[JOB_PENDING]);
	if (lane_wants_look(l))
		lane_touch(f, l);
	if (l->leave.pos > 0 && l->pending == 0) {
		heap_remove(&l->q->lanes.leaving, &l->leave);
		lanes_note_regroup(f, l->q);
	}
	if (l->q->lanes.plain)
		return;
	if (l->pending == 0)
		lane_clear(f, l);
	lane_refresh(f, l);
}

void lane_count_active(struct fsm *f, struct fsm_lane *l, int change)
{
	if (!lane_is_base(l)) {
		MUST(f, change > 0 || l->active > 0);
		l->active += (uint64_t)(int64_t)change;
		/* A job moved while active may be the first of its lane. */
		if (lane_wants_look(l))
			lane_touch(f, l);
	}
	if (l->q->lanes.plain)
		return;
	lane_refresh(f, l);
	if (change < 0 && l->q->set->max_concurrency > 0)
		queue_wake(f, l->q);
}

static void count_rate(struct limiter **l, const struct rate *r, uint64_t now)
{
	if (*l == NULL)
		*l = xcalloc(1, sizeof(**l));
	limiter_add(*l, r, now);
}

void lane_handed_out(struct fsm *f, struct fsm_lane *l)
{
	struct lanes *ls = &l->q->lanes;
	struct rate of_queue = lanes_rate(l->q), r = lane_rate(l);

	if (ls->plain)
		return;
	if (of_queue.jobs > 0) {
		count_rate(&ls->limiter, &of_queue, f->now_ns);
		ls->limiter_dirty = true;
	}
	if (r.jobs > 0) {
		count_rate(&l->limiter, &r, f->now_ns);
		lane_touch(f, l);
	}
	if (is_fair(l->q)) {
		/* A lane that was behind has had its turn, not several. */
		ls->time = MAX(ls->time, l->pass);
		l->pass = ls->time + lane_stride(l);
		lane_touch(f, l);
		lane_touch(f, &ls->base);
	}
	lane_refresh(f, l);
}

/* --- what is stored --- */

/* What is remembered of the queue as a whole. */
static void write_base(const struct fsm_queue *q, struct m_lane_doc *m)
{
	const struct lanes *ls = &q->lanes;

	MSG_SET(m, lane_doc, time, ls->time);
	if (ls->mixed)
		MSG_SET(m, lane_doc, mixed, true);
	if (ls->parting) {
		MSG_SET(m, lane_doc, part_prio, ls->part_prio);
		MSG_SET(m, lane_doc, part_seq, ls->part_seq);
	}
}

static void write_lane(struct fsm *f, struct fsm_lane *l)
{
	struct m_lane_doc m = { 0 };
	struct m_limiter limiter;
	struct key k;

	if (lane_is_base(l))
		write_base(l->q, &m);
	if (l->limiter != NULL) {
		limiter_write(l->limiter, &f->item_arena, &limiter);
		MSG_SET(&m, lane_doc, limiter, &limiter);
	}
	if (l->pass > 0)
		MSG_SET(&m, lane_doc, pass, l->pass);
	buf_clear(&f->scratch);
	msg_encode(&msg_lane_doc, &m, &f->scratch);
	key_lane(&k, l->q->space, l->q->name, l->group);
	if (l->stored)
		txn_put(f->txn, key_str(&k), buf_str(&f->scratch));
	else
		txn_put_new(f->txn, key_str(&k), buf_str(&f->scratch));
	l->stored = true;
}

/* The end of an entry that touched it. */
static void lane_settle(struct fsm *f, struct fsm_lane *l)
{
	struct rate r = lane_rate(l);

	if (r.jobs == 0) {
		free(l->limiter);
		l->limiter = NULL;
	}
	if (lane_is_base(l)) {
		lanes_pass_idle(f, l->q);
	} else if (l->pending + l->active > 0) {
		lane_leave_idle(f, l);
	} else {
		lane_place_idle(f, l);
		if (!l->idle_by_pass && l->idle.key <= f->now_ns) {
			lane_delete(f, l);
			return;
		}
	}
	write_lane(f, l);
	lanes_note_crowd(f, l->q);
}

void lanes_write_dirty(struct fsm *f)
{
	while (!list_empty(&f->dirty_lanes)) {
		struct fsm_lane *l =
		    list_entry(f->dirty_lanes.next, struct fsm_lane, dirty);

		list_remove(&l->dirty);
		lane_settle(f, l);
	}
	lanes_forget(f);
}

void lanes_write_limiter(struct fsm *f, struct fsm_queue *q)
{
	struct m_limiter m;
	struct key k;

	if (!q->lanes.limiter_dirty)
		return;
	q->lanes.limiter_dirty = false;
	limiter_write(q->lanes.limiter, &f->item_arena, &m);
	key_limiter(&k, q->space, q->name);
	fsm_put(f, &k, &msg_limiter, &m);
}
