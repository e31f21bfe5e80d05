/*
 * Jobs in workers' hands, and the rule of who may speak for one.
 */
#include "fsm/job/active.h"

#include <stdlib.h>

#include "fsm/core/budget.h"
#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/job/job.h"
#include "fsm/order/lane.h"

#define LIVE_CACHE_BYTES 1024 /* largest live record kept in memory */
#define LOOK_BYTES       64   /* one that is looked at weighs as much */

struct fsm_active *active_find(const struct fsm *f, struct str id)
{
	return hmap_get(&f->active, id);
}

/* Ends of the lease and, unless 0, of the attempt, ordered by the token. */
static void set_times(struct fsm *f, struct fsm_active *a,
		      uint64_t lease_expires, uint64_t timeout_at)
{
	a->lease.key = lease_expires;
	a->lease.tie = a->token;
	heap_insert(&f->leases, &a->lease);
	if (timeout_at == 0)
		return;
	a->timeout.key = timeout_at;
	a->timeout.tie = a->token;
	heap_insert(&f->timeouts, &a->timeout);
}

struct fsm_active *active_add(struct fsm *f, const struct job *j,
			      uint64_t lease_expires)
{
	const struct m_job_live *l = &j->live;
	struct fsm_active *a =
	    xcalloc(1, sizeof(*a) + j->id.n + l->worker_id.n + j->group.n);
	char *p = (char *)(a + 1);

	memcpy(p, j->id.p, j->id.n);
	if (l->worker_id.n > 0)
		memcpy(p + j->id.n, l->worker_id.p, l->worker_id.n);
	a->id = str_of(p, j->id.n);
	a->worker = str_of(p + j->id.n, l->worker_id.n);
	p += j->id.n + l->worker_id.n;
	if (j->group.n > 0)
		memcpy(p, j->group.p, j->group.n);
	a->group = str_of(p, j->group.n);
	a->q = j->q;
	a->lane = lane_of_active(f, j->q, j->group);
	lane_count_active(f, a->lane, 1);
	a->prio = j->prio;
	a->extras = j->extras;
	a->max_retries = j->max_retries;
	a->expire_at = j->expire_at;
	a->token = l->lease_token;
	a->granted_ns = l->lease_ns;
	a->given.num = l->fetch_id;
	if (l->fetch_id != 0)
		bynum_add(&f->given, &a->given);
	a->cancel_requested = l->cancel_requested;
	a->accepted = l->accepted;
	set_times(f, a, lease_expires, l->timeout_at);
	MUST(f, hmap_put(&f->active, a->id, a) == NULL);
	return a;
}

void active_free(struct fsm_active *a)
{
	free(a->live);
	free(a);
}

void active_remove(struct fsm *f, struct fsm_active *a)
{
	MUST(f, a->lease.pos != 0);
	heap_remove(&f->leases, &a->lease);
	heap_remove(&f->timeouts, &a->timeout);
	bynum_remove(&f->given, &a->given);
	MUST(f, hmap_remove(&f->active, a->id) == a);
	lane_count_active(f, a->lane, -1);
	active_free(a);
}

void active_regroup(struct fsm *f, const struct fsm_queue *q)
{
	struct str id;
	size_t pos = 0;
	void *v;

	if (f->cluster.level >= 2)
		budget_take(f, f->active.n * LOOK_BYTES);
	while (hmap_next(&f->active, &pos, &id, &v)) {
		struct fsm_active *a = v;
		struct fsm_lane *l;

		if (a->group.n == 0 || (q != NULL && a->q != q))
			continue;
		l = lane_of_active(f, a->q, a->group);
		if (l == a->lane)
			continue;
		lane_count_active(f, a->lane, -1);
		a->lane = l;
		lane_count_active(f, l, 1);
	}
}

void active_keep_live(struct fsm_active *a, struct str encoded)
{
	if (encoded.n > LIVE_CACHE_BYTES) {
		free(a->live);
		a->live = NULL;
		a->live_n = a->live_cap = 0;
		return;
	}
	if (encoded.n > a->live_cap) {
		a->live = xrealloc(a->live, encoded.n);
		a->live_cap = encoded.n;
	}
	memcpy(a->live, encoded.p, encoded.n);
	a->live_n = encoded.n;
}

static void write_lease(struct fsm *f, const struct fsm_active *a)
{
	struct key k;
	char v[16];

	put_be64(v, a->lease.key);
	put_be64(v + 8, a->token);
	key_active(&k, a->q->space, a->q->name, a->id);
	txn_put(f->txn, key_str(&k), str_of(v, sizeof(v)));
}

void active_grant_again(struct fsm *f, struct fsm_active *a,
			const struct job *j)
{
	const struct m_job_live *l = &j->live;

	MUST(f, l->lease_token > a->token);
	heap_remove(&f->leases, &a->lease);
	heap_remove(&f->timeouts, &a->timeout);
	a->token = l->lease_token;
	a->granted_ns = l->lease_ns;
	set_times(f, a, fsm_later(f, l->lease_ns), l->timeout_at);
	write_lease(f, a);
}

bool active_extend(struct fsm *f, struct fsm_active *a, uint64_t expires)
{
	if (expires <= a->lease.key)
		return false;
	active_set_lease(f, a, expires);
	return true;
}

void active_set_lease(struct fsm *f, struct fsm_active *a, uint64_t expires)
{
	MUST(f, a->lease.pos != 0);
	heap_update(&f->leases, &a->lease, expires);
	write_lease(f, a);
}

void active_set_timeout(struct fsm *f, struct fsm_active *a, uint64_t at)
{
	MUST(f, a->timeout.pos != 0);
	heap_update(&f->timeouts, &a->timeout, at);
}

/* A job handed to a nameless worker is held by whoever has the token. */
static bool claim_holds(const struct claim *c, const struct fsm_active *a)
{
	if (c->has_token && c->token != a->token)
		return false;
	return c->worker.n == 0 || a->worker.n == 0 ||
	       str_eq(c->worker, a->worker);
}

enum fsm_lease_state claim_judge(struct fsm *f, const struct claim *c,
				 struct fsm_active **ret)
{
	struct fsm_active *a = active_find(f, c->job_id);
	struct str doc;
	struct key k;
	int r;

	*ret = a;
	if (a != NULL) {
		if (!claim_holds(c, a))
			return FSM_LEASE_LOST;
		return a->cancel_requested ? FSM_LEASE_CANCEL : FSM_LEASE_OK;
	}
	if (c->job_id.n == 0 || c->job_id.n > LIMIT_JOB_ID_BYTES)
		return FSM_LEASE_UNKNOWN;
	key_job(&k, c->job_id);
	r = txn_get(f->txn, key_str(&k), &doc);
	if (r < 0)
		(void)fsm_fail(f, r);
	return r > 0 ? FSM_LEASE_ENDED : FSM_LEASE_UNKNOWN;
}
