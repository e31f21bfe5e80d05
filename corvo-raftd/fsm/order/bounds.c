/*
 * See bounds.h.
 */
#include "fsm/order/bounds.h"

#include "fsm/core/budget.h"
#include "fsm/core/scan.h"
#include "fsm/order/queue.h"

static const char *const prefixes[BOUNDS] = {
	[BOUND_SCHEDULED] = "s|",
	[BOUND_RETRYING] = "r|",
	[BOUND_ENDED] = "t|",
};

const char *bounds_prefix(enum bound b)
{
	return prefixes[b];
}

void bounds_init(struct fsm_queue *q, uint64_t tie)
{
	struct bounds *m = &q->bounds;

	for (int i = 0; i < BOUNDS; i++)
		m->first[i] = NEVER;
	/* Equal on all replicas: it decides whose jobs are moved first. */
	m->due.tie = m->purge.tie = tie;
	list_init(&m->unsure);
}

static void leave_purge(struct fsm *f, struct bounds *m)
{
	heap_remove(m->purge_is_own ? &f->purge_own : &f->purge_default,
		    &m->purge);
}

void bounds_done(struct fsm *f, struct fsm_queue *q)
{
	for (int i = 0; i < BOUNDS; i++) /* it has no jobs */
		MUST(f, q->bounds.first[i] == NEVER);
	leave_purge(f, &q->bounds);
	heap_remove(&f->due, &q->bounds.due);
	list_remove(&q->bounds.unsure);
}

static enum bound bound_of(enum job_state s)
{
	if (s == JOB_SCHEDULED)
		return BOUND_SCHEDULED;
	return s == JOB_RETRYING ? BOUND_RETRYING : BOUND_ENDED;
}

bool bounds_has(const struct fsm_queue *q, enum bound b)
{
	if (b == BOUND_SCHEDULED)
		return q->counts[JOB_SCHEDULED] > 0;
	if (b == BOUND_RETRYING)
		return q->counts[JOB_RETRYING] > 0;
	return q->counts[JOB_COMPLETED] + q->counts[JOB_DEAD] +
		   q->counts[JOB_CANCELLED] >
	       0;
}

static void place_due(struct fsm *f, struct bounds *m)
{
	uint64_t first =
	    MIN(m->first[BOUND_SCHEDULED], m->first[BOUND_RETRYING]);

	if (first == NEVER)
		heap_remove(&f->due, &m->due);
	else if (m->due.pos == 0 || m->due.key != first)
		heap_update(&f->due, &m->due, first);
}

/* By when it goes where the queue says how long jobs stay; else by its end. */
static void place_purge(struct fsm *f, struct fsm_queue *q)
{
	struct bounds *m = &q->bounds;
	bool own = MSG_HAS(q->set, set_queue, retention);
	uint64_t key = m->first[BOUND_ENDED];

	if (own && key != NEVER)
		key = time_after(key, q->set->retention);
	if (m->purge_is_own != own)
		leave_purge(f, m);
	m->purge_is_own = own;
	if (key == NEVER || (own && q->set->retention == 0))
		leave_purge(f, m);
	else if (m->purge.pos == 0 || m->purge.key != key)
		heap_update(own ? &f->purge_own : &f->purge_default, &m->purge,
			    key);
}

void bounds_set(struct fsm *f, struct fsm_queue *q, enum bound b, uint64_t ns)
{
	q->bounds.first[b] = ns;
	if (b == BOUND_ENDED)
		place_purge(f, q);
	else
		place_due(f, &q->bounds);
}

void bounds_settings_changed(struct fsm *f, struct fsm_queue *q)
{
	place_purge(f, q);
}

void bounds_add(struct fsm *f, struct fsm_queue *q, enum job_state s,
		uint64_t ns)
{
	enum bound b = bound_of(s);

	MUST(f, ns != NEVER); /* which stands for none */
	if (ns < q->bounds.first[b])
		bounds_set(f, q, b, ns);
}

void bounds_leave(struct fsm *f, struct fsm_queue *q, enum job_state s,
		  uint64_t ns)
{
	struct bounds *m = &q->bounds;
	enum bound b = bound_of(s);

	MUST(f, ns >= m->first[b]);
	if (!bounds_has(q, b)) {
		m->unsure_bounds &= (uint8_t) ~(1u << b);
		bounds_set(f, q, b, NEVER);
	} else if (ns == m->first[b]) {
		m->unsure_bounds |= (uint8_t)(1u << b);
		if (!list_empty(&m->unsure))
			return;
		list_push_back(&f->unsure, &m->unsure);
		m->unsure_item = f->item;
	}
}

static int settle_one(struct fsm *f, struct fsm_queue *q, enum bound b)
{
	struct due_scan s = { 0 };
	struct key k;
	int r;

	key_prefix_queue(&k, prefixes[b], q->space, q->name);
	r = due_scan_run(f, &k, q->bounds.first[b], &s);
	if (r < 0)
		return r;
	MUST(f, s.next != NEVER); /* by the counts there is one */
	budget_take_records(f, 1);
	bounds_set(f, q, b, s.next);
	return 0;
}

static struct fsm_queue *first_unsure(const struct fsm *f)
{
	return list_entry(f->unsure.next, struct fsm_queue, bounds.unsure);
}

bool bounds_are_unsure(const struct fsm *f, uint32_t *ret)
{
	if (list_empty(&f->unsure))
		return false;
	*ret = first_unsure(f)->bounds.unsure_item;
	return true;
}

int bounds_settle_first(struct fsm *f)
{
	struct fsm_queue *q = first_unsure(f);

	for (enum bound b = 0; b < BOUNDS; b++) {
		int r;

		if (!(q->bounds.unsure_bounds & 1u << b))
			continue;
		r = settle_one(f, q, b);
		if (r < 0)
			return r;
	}
	q->bounds.unsure_bounds = 0;
	list_remove(&q->bounds.unsure);
	return 0;
}

int bounds_settle(struct fsm *f)
{
	int r = 0;

	while (r == 0 && !list_empty(&f->unsure))
		r = bounds_settle_first(f);
	return r;
}
