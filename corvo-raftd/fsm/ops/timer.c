/*
 * promote, reclaim, expire, release, trim_events: what comes with time, in
 * bounded portions. What is moved follows from the store alone.
 */
#include "fsm/core/budget.h"
#include "fsm/core/clock.h"
#include "fsm/core/scan.h"
#include "fsm/core/state.h"
#include "fsm/job/active.h"
#include "fsm/job/job.h"
#include "fsm/job/portion.h"
#include "fsm/ops/maintain.h"
#include "fsm/ops/ops.h"
#include "fsm/order/bounds.h"
#include "fsm/order/queue.h"
#include "fsm/order/regroup.h"
#include "fsm/ties/deps.h"

uint32_t maintain_limit(const struct m_maintain *op)
{
	if (op->limit == 0)
		return LIMIT_MAINTAIN_JOBS;
	return MIN(op->limit, (uint32_t)LIMIT_MAINTAIN_JOBS);
}

int maintain_regroup(struct fsm *f)
{
	uint32_t left = REGROUP_JOBS;
	struct fsm_queue *q;
	int r;

	while ((r = regroup_go_on(f, &left, &q)) > 0)
		active_regroup(f, q);
	return r;
}

static struct str *new_ids(struct fsm *f, uint32_t n)
{
	return arena_alloc(&f->item_arena, n * sizeof(struct str));
}

void maintain_fill(uint32_t count, bool more, struct m_maintain_reply *ret)
{
	MSG_SET(ret, maintain_reply, count, count);
	MSG_SET(ret, maintain_reply, more, more);
}

/* --- promote --- */

/* The queue whose first job is due first of all; NULL: nothing is due. */
static struct fsm_queue *due_queue(const struct fsm *f)
{
	struct heap_node *n = heap_min(&f->due);

	return n != NULL && n->key <= f->now_ns
		   ? container_of(n, struct fsm_queue, bounds.due)
		   : NULL;
}

static int promote_job(struct fsm *f, struct str id)
{
	struct job j;
	int r = job_find(f, id, &j);

	if (r < 0)
		return r;
	MUST(f, r > 0);
	job_event(f, &j, EVENT_PROMOTED, STR_NULL);
	job_back_to_pending(f, &j);
	f->counters.promoted++;
	budget_take_job(f);
	return 0;
}

/* Promotes due jobs of one queue and kind. */
static int promote_some(struct fsm *f, struct fsm_queue *q, enum bound b,
			struct portion *p)
{
	struct due_scan s = { .max = p->max - p->jobs };
	struct key k;
	int r;

	if (q->bounds.first[b] > f->now_ns)
		return 0;
	s.ids = new_ids(f, p->max - p->jobs);
	key_prefix_queue(&k, bounds_prefix(b), q->space, q->name);
	r = due_scan_run(f, &k, q->bounds.first[b], &s);
	for (size_t i = 0; r == 0 && i < s.n && !portion_is_full(f, p); i++) {
		r = promote_job(f, s.ids[i]);
		p->jobs++;
	}
	return r;
}

int apply_promote(struct fsm *f, const struct m_maintain *op,
		  struct m_maintain_reply *ret)
{
	struct portion p = { .max = maintain_limit(op) };
	struct fsm_queue *q;
	int r = bounds_settle(f);

	while (r == 0 && (q = due_queue(f)) != NULL &&
	       !portion_is_full(f, &p)) {
		r = promote_some(f, q, BOUND_SCHEDULED, &p);
		if (r == 0)
			r = promote_some(f, q, BOUND_RETRYING, &p);
		if (r == 0)
			r = bounds_settle(f);
	}
	if (r < 0)
		return r;
	f->counters.promote_ns = f->now_ns;
	maintain_fill(p.jobs, due_queue(f) != NULL, ret);
	return 0;
}

/* --- reclaim --- */

static void reclaim_job(struct fsm *f, struct job *j)
{
	bool last = job_attempts_left(j->max_retries, j->live.attempt) == 0;

	MSG_SET(&j->live, job_live, lost_leases, j->live.lost_leases + 1);
	job_record_error(f, j, STR("lease expired"), STR_NULL);
	job_event(f, j, EVENT_RECLAIMED, STR_NULL);
	if (j->live.cancel_requested)
		job_end_cancelled(f, j);
	else if (last)
		job_end_dead(f, j, "lease expired");
	else
		job_back_to_pending(f, j);
	f->counters.reclaimed++;
}

/* The attempt took too long: it has failed, whatever its worker says. */
static int time_out_job(struct fsm *f, struct job *j)
{
	job_record_error(f, j, STR("timeout"), STR_NULL);
	job_event(f, j, EVENT_TIMED_OUT, STR_NULL);
	f->counters.failed++;
	if (!j->live.cancel_requested)
		return job_retry_or_die(f, j, NULL, "timeout");
	job_end_cancelled(f, j);
	return 0;
}

/*
 * Up to when attempts have ended. What ended after a reclaim was asked for is
 * left to the next one: the worker may have spoken in time, and its words wait
 * behind this one.
 */
static uint64_t reclaim_upto(const struct fsm *f, const struct m_maintain *op)
{
	return op->asked_ns == 0 ? f->now_ns : MIN(op->asked_ns, f->now_ns);
}

static struct heap_node *first_due(const struct heap *h, uint64_t upto)
{
	struct heap_node *n = heap_min(h);

	return n != NULL && n->key <= upto ? n : NULL;
}

/* An attempt that has ended, by its timeout or else by its lease; or NULL. */
static struct fsm_active *ended_attempt(const struct fsm *f, uint64_t upto,
					bool *timed_out)
{
	struct heap_node *t = first_due(&f->timeouts, upto);
	struct heap_node *l = first_due(&f->leases, upto);

	*timed_out = t != NULL;
	if (t != NULL)
		return container_of(t, struct fsm_active, timeout);
	return l != NULL ? container_of(l, struct fsm_active, lease) : NULL;
}

static int end_attempt(struct fsm *f, const struct fsm_active *a,
		       bool timed_out)
{
	struct job j;
	/* The active record goes with its id while the job moves. */
	int r = job_find(f, arena_copy(&f->item_arena, a->id), &j);

	if (r < 0)
		return r;
	MUST(f, r > 0);
	if (timed_out)
		return time_out_job(f, &j);
	reclaim_job(f, &j);
	return 0;
}

int apply_reclaim(struct fsm *f, const struct m_maintain *op,
		  struct m_maintain_reply *ret)
{
	struct portion p = { .max = maintain_limit(op) };
	uint64_t upto = reclaim_upto(f, op);
	struct fsm_active *a;
	bool timed_out;

	if (clock_holds_leases(f)) {
		maintain_fill(0, false, ret);
		return 0;
	}
	while ((a = ended_attempt(f, upto, &timed_out)) != NULL &&
	       !portion_is_full(f, &p)) {
		int r = end_attempt(f, a, timed_out);

		if (r < 0)
			return r;
		budget_take_job(f);
		p.jobs++;
	}
	f->counters.reclaim_ns = f->now_ns;
	maintain_fill(p.jobs, a != NULL, ret);
	return 0;
}

/* --- expire --- */

static int expire_job(struct fsm *f, struct str id)
{
	struct job j;
	int r = job_find(f, id, &j);

	if (r < 0)
		return r;
	MUST(f, r > 0 && job_is_expired(f, &j));
	job_end_expired(f, &j);
	budget_take_job(f);
	return 0;
}

int apply_expire(struct fsm *f, const struct m_maintain *op,
		 struct m_maintain_reply *ret)
{
	struct portion p = { .max = maintain_limit(op) };
	struct due_scan s = { .ids = new_ids(f, p.max), .max = p.max };
	uint64_t first = f->expiry_from;
	struct key k;
	int r;

	key_prefix(&k, "x|");
	r = due_scan_run(f, &k, first, &s);
	if (r < 0)
		return r;
	f->expiry_from = s.next;
	while (p.jobs < s.n && !portion_is_full(f, &p)) {
		r = expire_job(f, s.ids[p.jobs++]);
		if (r < 0)
			return r;
	}
	if (p.jobs < s.n) /* the next portion goes on from there */
		f->expiry_from = MIN(f->expiry_from, first);
	f->counters.expire_ns = f->now_ns;
	maintain_fill(p.jobs, p.jobs < s.n || s.next <= f->now_ns, ret);
	return 0;
}

/* --- release --- */

int apply_release(struct fsm *f, const struct m_maintain *op,
		  struct m_maintain_reply *ret)
{
	struct portion p = { .max = maintain_limit(op) };
	int r = deps_release(f, &p);

	if (r == 0)
		r = maintain_regroup(f);
	if (r < 0)
		return r;
	maintain_fill(p.jobs, deps_is_due(f) || regroup_is_due(f), ret);
	return 0;
}

/* --- trim_events --- */

int apply_trim_events(struct fsm *f, const struct m_maintain *op,
		      struct m_maintain_reply *ret)
{
	/* Events of this very entry are not in the store yet. A record that
	 * also holds later events stays until they go too. */
	uint64_t upto = MIN(op->upto_seq, f->committed_seq);
	struct key from, end;
	uint64_t count;

	if (upto < f->first_seq) {
		maintain_fill(0, false, ret);
		return 0;
	}
	count = upto - f->first_seq + 1;
	key_event(&from, f->first_seq);
	key_event(&end, upto + 1);
	txn_delete_range(f->txn, key_str(&from), key_str(&end));
	f->first_seq = upto + 1;
	maintain_fill((uint32_t)MIN(count, (uint64_t)UINT32_MAX), false, ret);
	return 0;
}
