/*
 * What the leader asks between entries; nothing changes by it.
 */
#include "fsm/core/clock.h"
#include "fsm/core/state.h"
#include "fsm/job/active.h"
#include "fsm/job/job.h"
#include "fsm/job/worker.h"
#include "fsm/order/lane.h"
#include "fsm/order/queue.h"
#include "fsm/order/regroup.h"
#include "fsm/ties/deps.h"
#include "fsm/ties/purse.h"

#define DUE_QUEUES 64 /* named at once */

static uint64_t heap_first(const struct heap *h)
{
	const struct heap_node *n = heap_min(h);

	return n != NULL && n->key != NEVER ? n->key : 0;
}

uint64_t fsm_applied_index(const struct fsm *f)
{
	return f->applied_index;
}

uint64_t fsm_last_seq(const struct fsm *f)
{
	return f->last_seq;
}

uint64_t fsm_first_seq(const struct fsm *f)
{
	return f->first_seq;
}

/* By a budget; one that refuses lets fetches in, to be told so. */
static bool is_closed(struct fsm *f, struct fsm_queue *q, uint64_t now)
{
	struct purse_block b;

	if (f->purses.by_name.n == 0)
		return false;
	if (now < q->closed_ns)
		return true;
	if (purse_queue_is_open(f, q, now, &b) ||
	    b.purse->m.on_exceed == BUDGET_REJECT)
		return false;
	queue_close(f, q, b.until);
	return true;
}

uint64_t fsm_queue_takeable(struct fsm *f, struct str queue, uint64_t now)
{
	struct fsm_queue *q = queue_find(f, queue);

	if (q == NULL || q->paused || is_closed(f, q, now))
		return 0;
	return q->lanes.plain ? q->counts[JOB_PENDING] : lanes_takeable(q, now);
}

bool fsm_queue_is_open(struct fsm *f, struct str queue, uint64_t now)
{
	struct fsm_queue *q = queue_find(f, queue);

	return q == NULL || (!q->paused && !is_closed(f, q, now) &&
			     lanes_queue_is_open(q, now));
}

uint64_t fsm_look_ns(const struct fsm *f)
{
	return heap_first(&f->looks);
}

void fsm_take_looks(struct fsm *f, uint64_t now,
		    void (*fn)(void *ctx, struct str queue), void *ctx)
{
	size_t left = f->looks.n;
	struct heap_node *n;

	/* each at most once: a look may say when to look again */
	for (; left > 0 && (n = heap_min(&f->looks)) != NULL && n->key <= now;
	     left--) {
		heap_remove(&f->looks, n);
		fn(ctx, container_of(n, struct fsm_queue, lanes.look)->name);
	}
}

void fsm_each_due_queue(struct fsm *f, uint64_t now_ns,
			void (*fn)(void *ctx, struct str queue), void *ctx)
{
	struct heap_node *some[DUE_QUEUES];
	size_t n = heap_upto(&f->due, now_ns, some, ARRAY_SIZE(some));

	for (size_t i = 0; i < n; i++)
		fn(ctx,
		   container_of(some[i], struct fsm_queue, bounds.due)->name);
}

bool fsm_queue(struct fsm *f, struct str name, struct m_queue *ret)
{
	const struct fsm_queue *q = queue_find(f, name);

	struct purse_block b;

	if (q == NULL)
		return false;
	queue_show(q, ret);
	if (!purse_queue_is_open(f, q, f->now_ns, &b))
		MSG_SET(ret, queue, budget, b.purse->m.id);
	return true;
}

void fsm_take_woken(struct fsm *f, void (*fn)(void *ctx, struct str queue),
		    void *ctx)
{
	while (!list_empty(&f->woken)) {
		struct fsm_queue *q =
		    list_entry(f->woken.next, struct fsm_queue, woken);

		list_remove(&q->woken);
		fn(ctx, q->name);
	}
}

int fsm_job_check(struct fsm *f, struct str id)
{
	struct job j;
	int r;

	arena_reset(&f->item_arena);
	r = job_find(f, id, &j);
	if (r > 0)
		r = job_need_doc(f, &j);
	return MIN(r, 0);
}

bool fsm_fetch_holds(const struct fsm *f, uint64_t fetch_id)
{
	return bynum_first(&f->given, fetch_id) != NULL;
}

static void tell_lease(const struct fsm_active *a, struct fsm_lease *ret)
{
	ret->token = a->token;
	ret->granted_ns = a->granted_ns;
	ret->expires_ns = a->lease.key;
}

bool fsm_lease_find(struct fsm *f, struct str job_id, struct fsm_lease *ret)
{
	const struct fsm_active *a = active_find(f, job_id);

	if (a != NULL)
		tell_lease(a, ret);
	return a != NULL;
}

size_t fsm_renewal_bytes(const struct fsm *f, struct str job_id,
			 struct str *ret_worker)
{
	const struct fsm_active *a = active_find(f, job_id);
	const struct fsm_worker *w = a != NULL && a->worker.n > 0
					 ? hmap_get(&f->workers, a->worker)
					 : NULL;

	if (w == NULL)
		return 0;
	*ret_worker = w->id;
	return w->list_n;
}

struct lease_walk {
	fsm_lease_fn *fn;
	void *ctx;
};

static void walk_lease(void *ctx, struct heap_node *n)
{
	const struct lease_walk *w = ctx;
	const struct fsm_active *a = container_of(n, struct fsm_active, lease);
	struct fsm_lease lease;

	tell_lease(a, &lease);
	w->fn(w->ctx, a->id, &lease);
}

void fsm_each_lease_upto(const struct fsm *f, uint64_t expires_ns,
			 fsm_lease_fn *fn, void *ctx)
{
	struct lease_walk w = { .fn = fn, .ctx = ctx };

	heap_each_upto(&f->leases, expires_ns, walk_lease, &w);
}

int fsm_lease_check(struct fsm *f, const struct m_beat *b, struct str worker_id,
		    enum fsm_lease_state *ret_state, struct fsm_lease *ret)
{
	struct claim c = {
		.job_id = b->job_id,
		.worker = b->worker_id.n > 0 ? b->worker_id : worker_id,
		.has_token = MSG_HAS(b, beat, lease_token),
		.token = b->lease_token,
	};
	struct fsm_active *a;

	f->fatal = 0;
	*ret_state = claim_judge(f, &c, &a);
	*ret = (struct fsm_lease){ 0 };
	if (a != NULL)
		tell_lease(a, ret);
	return f->fatal;
}

void fsm_due(struct fsm *f, struct m_due_reply *ret)
{
	MSG_SET(ret, due_reply, promote_ns, heap_first(&f->due));
	if (!clock_holds_leases(f))
		MSG_SET(ret, due_reply, reclaim_ns,
			min_nonzero(heap_first(&f->leases),
				    heap_first(&f->timeouts)));
	MSG_SET(ret, due_reply, expire_ns,
		f->expiry_from == NEVER ? 0 : f->expiry_from);
	MSG_SET(ret, due_reply, deadline_ns,
		f->deadline_from == NEVER ? 0 : f->deadline_from);
	/* Long ago, whatever the clock says, and another moment with each
	 * entry: so sched hears of the other moments too, for as long as this
	 * takes. */
	if (deps_is_due(f) || regroup_is_due(f))
		MSG_SET(ret, due_reply, release_ns, f->applied_index + 1);
	MSG_SET(ret, due_reply, fire_ns, heap_first(&f->fires));
	MSG_SET(ret, due_reply, bulk_ns, heap_first(&f->bulks.due));
}

const struct fsm_counters *fsm_counters(const struct fsm *f)
{
	return &f->counters;
}

bool fsm_clock_is_moving(const struct fsm *f)
{
	return f->clock.open;
}

uint64_t fsm_now_ns(const struct fsm *f)
{
	return f->now_ns;
}

uint64_t fsm_max_queues(const struct fsm *f)
{
	return f->settings.max_queues;
}

const struct m_cluster_settings *fsm_settings(const struct fsm *f)
{
	return &f->settings;
}

const struct m_settings_seed *fsm_seeds(const struct fsm *f)
{
	return &f->seeds;
}
