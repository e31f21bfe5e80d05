/*
 * purge: ended jobs past the retention of their queue, ended batches and those
 * nobody seals past the general one, idempotency keys and bulk operations past
 * their end, old sums of usage. In bounded portions; what goes follows from the
 * store, the op and the settings alone. The bounds of batches and keys may be
 * too early, never too late.
 */
#include "fsm/core/entry.h"
#include "fsm/core/scan.h"
#include "fsm/core/state.h"
#include "fsm/job/portion.h"
#include "fsm/ops/maintain.h"
#include "fsm/ops/ops.h"
#include "fsm/order/bounds.h"
#include "fsm/order/retention.h"
#include "fsm/order/roster.h"
#include "fsm/ties/batch.h"
#include "fsm/ties/bulk.h"
#include "fsm/ties/schedule.h"
#include "fsm/ties/usage.h"
#include "proto/scheddb.h"

/*
 * A purge comes a little later than it could, so that one serves many jobs:
 * by this part of the retention, at most so long.
 */
#define SLACK_PART   64
#define SLACK_MAX_NS (10 * NS_PER_S)

static uint64_t retention_of(const struct fsm_queue *q, uint64_t otherwise)
{
	return q->bounds.purge_is_own ? q->set->retention : otherwise;
}

static uint64_t ended_from(const struct fsm_queue *q)
{
	return q->bounds.first[BOUND_ENDED];
}

static uint64_t late(uint64_t from, uint64_t retention)
{
	return time_after(time_after(from, retention),
			  MIN(retention / SLACK_PART, SLACK_MAX_NS));
}

/* Ended by then is past the retention. */
static uint64_t cutoff(const struct fsm *f, uint64_t retention)
{
	return f->now_ns > retention ? f->now_ns - retention : 0;
}

/* Recurrentes of Scheduled-DB go as the jobs of their queue do. */
static uint64_t recurring_retention(const struct fsm *f, uint64_t otherwise)
{
	const struct fsm_queue *q = hmap_get(&f->queues, STR(SDB_QUEUE));

	return q != NULL && MSG_HAS(q->set, set_queue, retention)
		   ? q->set->retention
		   : otherwise;
}

/* When the first of them goes; NEVER: none does. */
static uint64_t recurring_from(const struct fsm *f, uint64_t retention_ns)
{
	uint64_t ns = recurring_retention(f, retention_ns);

	return ns > 0 && schedules_purge_from(f) != NEVER
		   ? late(schedules_purge_from(f), ns)
		   : NEVER;
}

/* Those that ended by then are past it; 0: none is. */
static uint64_t recurring_upto(const struct fsm *f, uint64_t retention_ns)
{
	uint64_t ns = recurring_retention(f, retention_ns);

	return ns > 0 ? cutoff(f, ns) : 0;
}

uint64_t fsm_purge_due(const struct fsm *f, uint64_t retention_ns,
		       uint64_t idle_ns)
{
	const struct fsm_queue *own = purge_first(&f->purge_own);
	const struct fsm_queue *other = purge_first(&f->purge_default);
	uint64_t first = NEVER;

	if (own != NULL)
		first = MIN(first, late(ended_from(own), own->set->retention));
	if (other != NULL && retention_ns > 0)
		first = MIN(first, late(ended_from(other), retention_ns));
	if (f->batches_from != NEVER && retention_ns > 0)
		first = MIN(first, late(f->batches_from, retention_ns));
	if (f->open_from != NEVER && retention_ns > 0)
		first = MIN(first, late(f->open_from, retention_ns));
	if (roster_idle_from(f) != NEVER && idle_ns > 0)
		first = MIN(first, late(roster_idle_from(f), idle_ns));
	if (f->keys_from != NEVER)
		first = MIN(first, time_after(f->keys_from, SLACK_MAX_NS));
	if (recurring_from(f, retention_ns) != NEVER)
		first = MIN(first, recurring_from(f, retention_ns));
	if (bulks_purge_from(f) != NEVER)
		first =
		    MIN(first, time_after(bulks_purge_from(f), SLACK_MAX_NS));
	if (usage_purge_from(f) != NEVER)
		first =
		    MIN(first, time_after(usage_purge_from(f), SLACK_MAX_NS));
	return first == NEVER ? 0 : first;
}

static bool is_due(const struct fsm *f, const struct fsm_queue *q, uint64_t ns)
{
	return q != NULL && ns > 0 && ended_from(q) <= cutoff(f, ns);
}

/* Of the two heaps, the queue whose first job goes first; or NULL. */
static struct fsm_queue *due_queue(const struct fsm *f, uint64_t retention_ns)
{
	struct fsm_queue *own = purge_first(&f->purge_own);
	struct fsm_queue *other = purge_first(&f->purge_default);

	if (own != NULL && !is_due(f, own, own->set->retention))
		own = NULL;
	if (!is_due(f, other, retention_ns))
		other = NULL;
	if (own == NULL || other == NULL)
		return own != NULL ? own : other;
	return own->bounds.purge.key <=
		       time_after(ended_from(other), retention_ns)
		   ? own
		   : other;
}

static int purge_queue(struct fsm *f, struct fsm_queue *q, uint64_t retention,
		       struct portion *p)
{
	struct due_scan s = { .max = p->max - p->jobs,
			      .upto_ns = cutoff(f, retention) };
	struct key k;
	int r;

	s.ids = arena_alloc(&f->item_arena, s.max * sizeof(*s.ids));
	key_prefix_queue(&k, "t|", q->space, q->name);
	r = due_scan_run(f, &k, ended_from(q), &s);
	for (size_t i = 0; r == 0 && i < s.n && !portion_is_full(f, p); i++)
		r = portion_delete(f, p, s.ids[i], 0, EVENT_PURGED);
	return r < 0 ? r : bounds_settle(f);
}

/* Records that have an index by time and one by id, and nothing else. */
struct pairs {
	const char *by_time;
	void (*by_id)(struct key *k, struct str id); /* what follows the time */
	uint64_t *from;                              /* bound */
	uint64_t upto_ns;
	void (*gone)(struct fsm *f, struct str id); /* NULL: nobody is told */
};

static void key_of_answer(struct key *k, struct str rest)
{
	uint32_t space;

	CHECK(key_take_space(&rest, &space));
	key_idempotency(k, space, rest);
}

static void purge_pair(struct fsm *f, const struct pairs *w, struct str id,
		       struct str by_time)
{
	struct key k;

	w->by_id(&k, id);
	fsm_delete(f, &k);
	txn_delete(f->txn, by_time);
	if (w->gone != NULL)
		w->gone(f, id);
	budget_take_job(f);
}

static int purge_pairs(struct fsm *f, const struct pairs *w, struct portion *p)
{
	struct due_scan s = { .upto_ns = w->upto_ns };
	struct key k;
	size_t i = 0;
	int r;

	if (w->upto_ns == 0)
		return 0;
	/* Also when the portion is full: the answer tells whether there is
	 * more, and a bound that is too early is so only on nodes that were
	 * not started since. */
	if (!portion_is_full(f, p))
		s.max = p->max - p->jobs;
	s.ids = arena_alloc(&f->item_arena, s.max * sizeof(*s.ids));
	s.keys = arena_alloc(&f->item_arena, s.max * sizeof(*s.keys));
	key_prefix(&k, w->by_time);
	r = due_scan_run(f, &k, *w->from, &s);
	if (r < 0)
		return r;
	for (; i < s.n && !budget_is_spent(f); i++)
		purge_pair(f, w, s.ids[i], s.keys[i]);
	p->jobs += (uint32_t)i;
	if (i == s.n)
		*w->from = s.next;
	return 0;
}

/* The first queue that is idle for long enough; or NULL. */
static struct fsm_queue *idle_queue(const struct fsm *f, uint64_t idle_ns)
{
	return idle_ns > 0 ? roster_idle(f, cutoff(f, idle_ns)) : NULL;
}

static int purge_idle(struct fsm *f, uint64_t idle_ns, struct portion *p)
{
	struct fsm_queue *q;
	int r = 0;

	while (r >= 0 && !portion_is_full(f, p) &&
	       (q = idle_queue(f, idle_ns)) != NULL) {
		r = queue_remove(f, q);
		p->jobs += r > 0;
		budget_take_job(f);
	}
	return MIN(r, 0);
}

/* What the cluster has set holds; entries of older versions name it. */
static uint64_t retention_for(const struct fsm *f, const struct m_maintain *op)
{
	return MSG_HAS(&f->settings, cluster_settings, retention)
		   ? f->settings.retention
		   : op->retention_ns;
}

static uint64_t idle_for(const struct fsm *f, const struct m_maintain *op)
{
	return MSG_HAS(&f->settings, cluster_settings, queue_idle)
		   ? f->settings.queue_idle
		   : op->idle_ns;
}

int apply_purge(struct fsm *f, const struct m_maintain *op,
		struct m_maintain_reply *ret)
{
	uint64_t retention = retention_for(f, op), idle = idle_for(f, op);
	uint64_t upto = retention > 0 ? cutoff(f, retention) : 0;
	struct pairs batches = { "bt|", key_batch, &f->batches_from, upto,
				 batch_purged };
	struct pairs keys = { "ie|", key_of_answer, &f->keys_from, f->now_ns,
			      NULL };
	struct portion p = { .max = maintain_limit(op) };
	int r = bounds_settle(f);

	while (r == 0 && !portion_is_full(f, &p)) {
		struct fsm_queue *q = due_queue(f, retention);

		if (q == NULL)
			break;
		r = purge_queue(f, q, retention_of(q, retention), &p);
	}
	if (r == 0)
		r = purge_pairs(f, &batches, &p);
	if (r == 0 && upto > 0)
		r = batches_purge_open(f, upto, &p);
	if (r == 0)
		r = purge_pairs(f, &keys, &p);
	if (r == 0)
		r = schedules_purge(f, recurring_upto(f, retention), &p);
	if (r == 0)
		r = bulks_purge(f, &p);
	if (r == 0)
		r = usage_purge(f, &p);
	if (r == 0)
		r = purge_idle(f, idle, &p);
	if (r < 0)
		return r;
	f->counters.purged += p.jobs;
	f->counters.purge_ns = f->now_ns;
	MSG_SET(ret, maintain_reply, count, p.jobs);
	MSG_SET(ret, maintain_reply, more,
		due_queue(f, retention) != NULL || f->batches_from <= upto ||
		    f->open_from <= upto || f->keys_from <= f->now_ns ||
		    schedules_purge_from(f) <= recurring_upto(f, retention) ||
		    bulks_purge_from(f) <= f->now_ns ||
		    usage_purge_from(f) <= f->now_ns ||
		    idle_queue(f, idle) != NULL);
	return 0;
}
