/*
 * promote, reclaim, expire, release, trim_events: what comes with time, in
 * bounded portions. What is moved follows from the store alone. The bounds kept
 * in memory may be too early, never too late, and differ between replicas: so a
 * bound is made exact before anything is decided by it.
 */
#include "fsm/core/scan.h"
#include "fsm/core/state.h"
#include "fsm/job/active.h"
#include "fsm/job/job.h"
#include "fsm/ops/maintain.h"
#include "fsm/ops/ops.h"
#include "fsm/order/queue.h"
#include "fsm/ties/deps.h"

uint32_t maintain_limit(const struct m_maintain *op)
{
	if (op->limit == 0)
		return LIMIT_MAINTAIN_JOBS;
	return MIN(op->limit, (uint32_t)LIMIT_MAINTAIN_JOBS);
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
static int due_queue(struct fsm *f, struct fsm_queue **ret)
{
	*ret = NULL;
	for (;;) {
		struct heap_node *n = heap_min(&f->due);
		struct due_scan s = { 0 }, r = { 0 };
		struct fsm_queue *q;
		struct key k;
		int err;

		if (n == NULL || n->key > f->now_ns)
			return 0;
		q = container_of(n, struct fsm_queue, due);
		key_prefix_queue(&k, "s|", q->space, q->name);
		err = due_scan_run(f, &k, q->scheduled_from, &s);
		if (err < 0)
			return err;
		key_prefix_queue(&k, "r|", q->space, q->name);
		err = due_scan_run(f, &k, q->retrying_from, &r);
		if (err < 0)
			return err;
		if (MIN(s.next, r.next) == n->key) {
			*ret = q;
			return 0;
		}
		queue_set_due(f, q, s.next, r.next);
	}
}

static int promote_ids(struct fsm *f, const struct due_scan *s)
{
	for (size_t i = 0; i < s->n; i++) {
		struct job j;
		int r = job_find(f, s->ids[i], &j);

		if (r < 0)
			return r;
		CHECK(r > 0);
		job_event(f, &j, EVENT_PROMOTED, STR_NULL);
		job_back_to_pending(f, &j);
		f->counters.promoted++;
	}
	return 0;
}

/* Promotes the due jobs of one queue, at most *left. */
static int promote_queue(struct fsm *f, struct fsm_queue *q, struct str *ids,
			 uint32_t *left)
{
	struct due_scan s = { .ids = ids, .max = *left };
	struct due_scan r = { 0 };
	struct key k;
	int err;

	key_prefix_queue(&k, "s|", q->space, q->name);
	err = due_scan_run(f, &k, q->scheduled_from, &s);
	if (err < 0)
		return err;
	r.ids = ids + s.n;
	r.max = *left - s.n;
	key_prefix_queue(&k, "r|", q->space, q->name);
	err = due_scan_run(f, &k, q->retrying_from, &r);
	if (err < 0)
		return err;
	queue_set_due(f, q, s.next, r.next);
	*left -= (uint32_t)(s.n + r.n);
	err = promote_ids(f, &s);
	return err < 0 ? err : promote_ids(f, &r);
}

int apply_promote(struct fsm *f, const struct m_maintain *op,
		  struct m_maintain_reply *ret)
{
	uint32_t limit = maintain_limit(op), left = limit;
	struct str *ids = new_ids(f, limit);
	struct fsm_queue *q;
	int r;

	for (;;) {
		r = due_queue(f, &q);
		if (r < 0 || q == NULL || left == 0)
			break;
		r = promote_queue(f, q, ids, &left);
		if (r < 0)
			break;
	}
	if (r < 0)
		return r;
	f->counters.promote_ns = f->now_ns;
	maintain_fill(limit - left, q != NULL, ret);
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

static struct heap_node *first_due(const struct fsm *f, const struct heap *h)
{
	struct heap_node *n = heap_min(h);

	return n != NULL && n->key <= f->now_ns ? n : NULL;
}

/* An attempt that has ended, by its timeout or else by its lease; or NULL. */
static struct fsm_active *ended_attempt(const struct fsm *f, bool *timed_out)
{
	struct heap_node *t = first_due(f, &f->timeouts);
	struct heap_node *l = first_due(f, &f->leases);

	*timed_out = t != NULL;
	if (t != NULL)
		return container_of(t, struct fsm_active, timeout);
	return l != NULL ? container_of(l, struct fsm_active, lease) : NULL;
}

int apply_reclaim(struct fsm *f, const struct m_maintain *op,
		  struct m_maintain_reply *ret)
{
	uint32_t limit = maintain_limit(op), count = 0;
	struct fsm_active *a;
	bool timed_out;

	for (; (a = ended_attempt(f, &timed_out)) != NULL && count < limit;
	     count++) {
		struct job j;
		int r;

		/* The active record goes with its id while the job moves. */
		r = job_find(f, arena_copy(&f->item_arena, a->id), &j);
		if (r < 0)
			return r;
		CHECK(r > 0);
		if (!timed_out)
			reclaim_job(f, &j);
		else
			r = time_out_job(f, &j);
		if (r < 0)
			return r;
	}
	f->counters.reclaim_ns = f->now_ns;
	maintain_fill(count, a != NULL, ret);
	return 0;
}

/* --- expire --- */

int apply_expire(struct fsm *f, const struct m_maintain *op,
		 struct m_maintain_reply *ret)
{
	uint32_t limit = maintain_limit(op);
	struct due_scan s = { .ids = new_ids(f, limit), .max = limit };
	struct key k;
	int r;

	key_prefix(&k, "x|");
	r = due_scan_run(f, &k, f->expiry_from, &s);
	if (r < 0)
		return r;
	f->expiry_from = s.next;
	for (size_t i = 0; i < s.n; i++) {
		struct job j;

		r = job_find(f, s.ids[i], &j);
		if (r < 0)
			return r;
		CHECK(r > 0 && job_is_expired(f, &j));
		job_end_expired(f, &j);
	}
	f->counters.expire_ns = f->now_ns;
	maintain_fill((uint32_t)s.n, s.next <= f->now_ns, ret);
	return 0;
}

/* --- release --- */

int apply_release(struct fsm *f, const struct m_maintain *op,
		  struct m_maintain_reply *ret)
{
	uint32_t told = 0;
	int r = deps_release(f, maintain_limit(op), &told);

	if (r < 0)
		return r;
	maintain_fill(told, deps_is_due(f), ret);
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
