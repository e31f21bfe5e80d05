/*
 * Numbers for people and autoscalers: how long jobs wait and run, how fast they
 * come and go, who waits longest. Notes cost a few additions; the questions are
 * asked by the leader between entries and change nothing.
 *
 * Who waits longest is told from the windows: of the jobs pending since their
 * creation the one created first, and of those that came back the one that
 * stands first. So it is exact, except where many jobs that came back stand in
 * front of each other.
 */
#include <stdlib.h>

#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/job/job.h"
#include "fsm/job/timing.h"
#include "fsm/order/lane.h"
#include "fsm/order/queue.h"
#include "fsm/order/rates.h"
#include "fsm/order/window.h"
#include "util/hash.h"

#define LANES_LOOKED_AT 1000 /* groups of a queue */

/* --- who waits longest --- */

/* The place of a pending job. */
struct spot {
	struct fsm_lane *lane; /* NULL: none */
	const struct window_job *w;
	uint64_t seq;
	uint8_t prio;
	bool as_created;
};

struct search {
	struct fsm *f;
	struct spot created, returned; /* the first of each */
	unsigned *fills;
	bool unknown; /* a window is not read in, and no more may be */
};

static void take(struct search *s, const struct spot *p)
{
	struct spot *best = p->as_created ? &s->created : &s->returned;

	if (best->lane == NULL || p->seq < best->seq)
		*best = *p;
}

static int fill(struct search *s, struct fsm_lane *l, uint8_t prio)
{
	if (*s->fills == 0) {
		s->unknown = true;
		return 0;
	}
	(*s->fills)--;
	return lane_fill(s->f, l, prio);
}

static int look_at_lane(struct search *s, struct fsm_lane *l)
{
	int r = 0;

	for (uint8_t i = 0; r == 0 && l->pending > 0 && i < PRIORITIES; i++) {
		const struct window *w = &l->windows[i];
		struct spot p = { .lane = l, .prio = i };

		if (window_is_dry(w)) {
			r = fill(s, l, i);
			if (r < 0)
				break;
		}
		p.w = window_first_created(w);
		if (p.w != NULL) {
			p.seq = p.w->seq;
			p.as_created = true;
			take(s, &p);
		}
		p.w = window_first(w);
		if (p.w != NULL && !p.w->as_created) {
			p.seq = p.w->seq;
			p.as_created = false;
			take(s, &p);
		}
	}
	return r;
}

static int look_at_lanes(struct search *s, struct fsm_queue *q)
{
	int r = look_at_lane(s, &q->lanes.base);
	struct str group;
	size_t pos = 0;
	void *l;

	for (int i = 0; r == 0 && i < LANES_LOOKED_AT &&
			hmap_next(&q->lanes.groups, &pos, &group, &l);
	     i++)
		r = look_at_lane(s, l);
	return r;
}

static int spot_id(struct fsm *f, const struct spot *p, struct str *ret)
{
	struct pending stored;
	struct key k;
	int r;

	if (p->w->id_n > 0) {
		*ret = str_of(p->w->id, p->w->id_n);
		return 1;
	}
	lane_key(&k, p->lane, p->prio, p->seq);
	r = fsm_get(f, &k, ret);
	if (r > 0) {
		lane_value(*ret, &stored);
		*ret = stored.id;
	}
	return r;
}

/* Since when the job there is pending; NEVER: it has left. */
static int spot_since(struct fsm *f, const struct spot *p, uint64_t *ret)
{
	struct str id, doc = STR_NULL;
	struct job j;
	int r;

	*ret = NEVER;
	if (p->lane == NULL)
		return 0;
	r = spot_id(f, p, &id);
	if (r <= 0)
		return r;
	if (p->as_created)
		doc = str_of(p->w->doc, p->w->doc_n);
	r = p->as_created ? job_find_as_created(f, id, doc, &j)
			  : job_find(f, id, &j);
	if (r > 0 && j.live.state == JOB_PENDING && j.live.seq == p->seq &&
	    j.q == p->lane->q)
		*ret = timing_pending_since(&j);
	return MIN(r, 0);
}

/* 0 with NEVER when nothing waits, or it is not known. */
static int oldest_waiting(struct fsm *f, struct fsm_queue *q, unsigned *fills,
			  uint64_t *ret)
{
	struct search s = { .f = f, .fills = fills };
	uint64_t returned;
	int r;

	*ret = NEVER;
	if (q->counts[JOB_PENDING] == 0)
		return 0;
	arena_reset(&f->item_arena); /* nothing of an entry is in it now */
	r = look_at_lanes(&s, q);
	if (r < 0 || s.unknown)
		return r;
	r = spot_since(f, &s.created, ret);
	if (r == 0)
		r = spot_since(f, &s.returned, &returned);
	if (r == 0)
		*ret = MIN(*ret, returned);
	return r;
}

/* --- the questions --- */

/* A paused queue hands out nothing, and beyond a limit nobody helps. */
static uint64_t suggest(const struct fsm_queue *q, const struct rates_sum *s)
{
	uint64_t active = q->counts[JOB_ACTIVE];
	uint64_t n =
	    rates_workers(s, q->paused ? 0 : q->counts[JOB_PENDING], active);

	if (q->set->max_concurrency > 0)
		n = MIN(n, (uint64_t)q->set->max_concurrency);
	return n;
}

int fsm_scale(struct fsm *f, struct str queue, uint64_t now_ns, unsigned *fills,
	      struct m_scale *ret)
{
	struct fsm_queue *q = queue_find(f, queue);
	struct rates_sum s;
	uint64_t oldest;
	int r;

	if (q == NULL)
		return 0;
	r = oldest_waiting(f, q, fills, &oldest);
	if (r < 0)
		return r;
	rates_read(&q->rates, now_ns, f->since_ns, &s);
	*ret = (struct m_scale){ 0 };
	MSG_SET(ret, scale, queue, q->name);
	MSG_SET(ret, scale, waiting, q->counts[JOB_PENDING]);
	MSG_SET(ret, scale, active, q->counts[JOB_ACTIVE]);
	MSG_SET(ret, scale, rate_in, s.in_s);
	MSG_SET(ret, scale, rate_out, s.out_s);
	MSG_SET(ret, scale, run_seconds, s.run_s);
	MSG_SET(ret, scale, suggested_workers, suggest(q, &s));
	MSG_SET(ret, scale, oldest_waiting_seconds, 0);
	if (oldest != NEVER) {
		MSG_SET(ret, scale, oldest_waiting_at, oldest);
		MSG_SET(ret, scale, oldest_waiting_seconds,
			(double)timing_passed(oldest, now_ns) /
			    (double)NS_PER_S);
	}
	MSG_SET(ret, scale, paused, q->paused);
	return 1;
}

void fsm_totals(struct fsm *f, uint64_t active_since_ns, struct fsm_totals *ret)
{
	*ret = (struct fsm_totals){ .queues = f->queues.n,
				    .workers = f->workers.n };
	for (int i = 0; i < JOB_STATE_MAX; i++)
		ret->jobs[job_state_shown((enum job_state)i)] += f->jobs[i];
	for (size_t i = 0; i < f->seen.n; i++)
		if (f->seen.nodes[i]->key >= active_since_ns)
			ret->workers_active++;
}

struct place {
	struct heap_node node; /* key: its jobs, tie: its name */
	const struct fsm_queue *q;
};

/* Equals are told apart by name: the choice is the same each time. */
static bool is_busier(const struct place *p, uint64_t jobs, struct str name)
{
	if (p->q == NULL || jobs != p->node.key)
		return p->q == NULL || jobs > p->node.key;
	return hash_stable(name.p, name.n) > p->node.tie;
}

static int by_name(const void *a, const void *b)
{
	const struct str *x = a, *y = b;

	return str_cmp(*x, *y);
}

size_t fsm_busiest(struct fsm *f, size_t max, struct arena *a, struct str **ret)
{
	size_t pos = 0, n = 0, cap = MIN(max, f->queues.n);
	struct place *places = arena_zalloc(a, cap * sizeof(*places));
	struct heap least = { 0 };
	struct str name;
	void *v;

	*ret = arena_alloc(a, cap * sizeof(**ret));
	while (cap > 0 && hmap_next(&f->queues, &pos, &name, &v)) {
		const struct fsm_queue *q = v;
		uint64_t jobs = q->counts[JOB_PENDING] + q->counts[JOB_ACTIVE];
		struct place *p = &places[n];

		if (n < cap)
			n++;
		else
			p = container_of(heap_min(&least), struct place, node);
		if (!is_busier(p, jobs, name))
			continue;
		p->q = q;
		heap_remove(&least, &p->node);
		p->node.tie = hash_stable(name.p, name.n);
		heap_update(&least, &p->node, jobs);
	}
	heap_done(&least);
	for (size_t i = 0; i < n; i++)
		(*ret)[i] = places[i].q->name;
	qsort(*ret, n, sizeof(**ret), by_name);
	return n;
}
