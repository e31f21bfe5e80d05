/*
 * Questions about one job, perhaps once it has ended. A question that waits
 * costs no entry: the state machine says which jobs have ended. Those who wait
 * for one are answered with one reading of it, in portions: of so much time in
 * a turn, and while their peer takes the answers. Ids come from clients. Loop
 * thread.
 */
#include <stdlib.h>

#include "proto/job.h"
#include "serve/svc_impl.h"
#include "store/record.h"
#include "util/clock.h"
#include "util/heap.h"
#include "util/hmap.h"

#define WAITS_TURN_NS (10 * NS_PER_MS) /* for answers, in a turn */

/* A job somebody waits for. */
struct job_wait {
	struct list waiters;
	size_t n;      /* of them, and of those that are due */
	bool ended;    /* in svc_waits.jobs no more */
	struct str id; /* behind the struct */
};

/* One question that waits. */
struct job_waiter {
	struct list node; /* in job_wait.waiters, or svc_waits.due */
	struct rpc_req req;
	struct job_wait *job;
	struct heap_node end; /* key: clock_mono_ns; of one that is not due */
};

struct svc_waits {
	struct svc *s;
	struct hmap jobs; /* id -> struct job_wait */
	struct hmap reqs; /* struct rpc_req -> struct job_waiter */
	struct heap ends;
	struct list due; /* to be answered; those of one job together */
	struct loop_timer *timer;
	uint64_t armed_ns; /* 0: not armed */
};

/* --- answers --- */

void svc_reply_no_job(struct svc *s, struct rpc_req req, struct str id)
{
	struct str text =
	    arena_printf(&s->scratch, "job \"%.*s\" not found", STR_ARG(id));

	rpc_reply(req, ERR_NOT_FOUND, fsm_last_seq(s->p->fsm), text);
}

/* 1 found, 0 absent, -ERR_*. */
static int read_job(struct svc *s, struct str id, unsigned what,
		    struct m_job *ret)
{
	int r = fsm_flush(s->p->fsm);

	return r < 0 ? r : record_job(s->p->kv, id, what, &s->scratch, ret);
}

void svc_show_lease(struct m_job *job, uint64_t end_ns)
{
	if (job->state == JOB_ACTIVE && end_ns != 0)
		MSG_SET(job, job, lease_expires_at, end_ns);
}

/* The store has the lease as it was granted; heartbeats are in memory. */
static void reply_found(struct svc *s, struct rpc_req req, struct m_job *job)
{
	if (job->state == JOB_ACTIVE)
		svc_show_lease(job, leases_end(s->p->leases, job->id));
	svc_reply(s, req, &msg_job, job);
}

static void reply_job(struct svc *s, struct rpc_req req, struct str id)
{
	struct m_job job;
	int r = read_job(s, id, RECORD_ALL, &job);

	if (r < 0)
		svc_reply_error(req, -r);
	else if (r == 0)
		svc_reply_no_job(s, req, id);
	else
		reply_found(s, req, &job);
}

/* --- waiting --- */

static void waiter_free(struct svc_waits *w, struct job_waiter *a)
{
	struct job_wait *j = a->job;

	list_remove(&a->node);
	heap_remove(&w->ends, &a->end);
	CHECK(hmap_remove(&w->reqs, rpc_req_key(&a->req)) == a);
	free(a);
	if (--j->n > 0)
		return;
	if (!j->ended) {
		fsm_unawait(w->s->p->fsm, j->id);
		CHECK(hmap_remove(&w->jobs, j->id) == j);
	}
	free(j);
}

static void make_due(struct svc_waits *w, struct job_waiter *a)
{
	list_remove(&a->node);
	heap_remove(&w->ends, &a->end);
	list_push_back(&w->due, &a->node);
}

/* Those that can be, for a while; no more waits begin meanwhile. */
static void answer_due(struct svc_waits *w)
{
	uint64_t end_ns = clock_mono_ns() + WAITS_TURN_NS;
	const struct job_wait *last = NULL; /* its answer was made last */
	struct svc *s = w->s;

	LIST_FOREACH_SAFE (it, &w->due) {
		struct job_waiter *a = list_entry(it, struct job_waiter, node);

		if (rpc_req_is_live(a->req) &&
		    !rpc_req_has_room(a->req, RPC_LARGE))
			continue;
		if (a->job == last && s->replied) {
			svc_reply_again(s, a->req);
		} else if (rpc_req_is_live(a->req)) {
			arena_reset(&s->scratch);
			s->replied = false;
			last = a->job;
			reply_job(s, a->req, a->job->id);
		}
		waiter_free(w, a);
		if (clock_mono_ns() >= end_ns) {
			svc_waits_look(w);
			return;
		}
	}
}

static void arm(struct svc_waits *w)
{
	const struct heap_node *n = heap_min(&w->ends);
	uint64_t now;

	if (n == NULL || (w->armed_ns != 0 && w->armed_ns <= n->key))
		return;
	now = clock_mono_ns();
	w->armed_ns = n->key;
	loop_timer_arm(w->timer, n->key > now ? n->key - now : 0);
}

static void on_timer(void *ctx)
{
	struct svc_waits *w = ctx;
	uint64_t now = clock_mono_ns();
	struct heap_node *n;

	w->armed_ns = 0;
	while ((n = heap_min(&w->ends)) != NULL && n->key <= now)
		make_due(w, container_of(n, struct job_waiter, end));
	arm(w); /* svc_waits_turn_end of this turn answers */
}

void svc_waits_look(struct svc_waits *w)
{
	if (list_empty(&w->due))
		return;
	w->armed_ns = clock_mono_ns();
	loop_timer_arm(w->timer, 0);
}

static struct job_wait *job_wait_of(struct svc_waits *w, struct str id)
{
	struct job_wait *j = hmap_get(&w->jobs, id);

	if (j != NULL)
		return j;
	j = xcalloc(1, sizeof(*j) + id.n);
	memcpy(j + 1, id.p, id.n);
	j->id = str_of(j + 1, id.n);
	list_init(&j->waiters);
	hmap_put(&w->jobs, j->id, j);
	fsm_await(w->s->p->fsm, j->id);
	return j;
}

static void wait_for(struct svc *s, struct rpc_req req,
		     const struct m_job_ref *m)
{
	struct svc_waits *w = s->waits;
	struct job_waiter *a;

	if (w->reqs.n >= s->p->d->settings.raft_max_parked) {
		rpc_reply(req, ERR_OVERLOADED, 0,
			  STR("too many reads are waiting"));
		return;
	}
	if (hmap_get(&w->reqs, rpc_req_key(&req)) != NULL) {
		svc_reply_error(req, ERR_BAD_MESSAGE); /* its id comes twice */
		return;
	}
	a = xcalloc(1, sizeof(*a));
	a->req = req;
	a->job = job_wait_of(w, m->job_id);
	a->end.key = clock_mono_ns() + MIN(m->wait_ns, LIMIT_WAIT_S * NS_PER_S);
	a->job->n++;
	list_push_back(&a->job->waiters, &a->node);
	heap_insert(&w->ends, &a->end);
	hmap_put(&w->reqs, rpc_req_key(&a->req), a);
	arm(w);
}

void q_get_job(struct svc *s, struct rpc_req req, const struct m_job_ref *m)
{
	struct m_job job;

	if (m->wait_ns > 0 && !s->draining &&
	    read_job(s, m->job_id, 0, &job) > 0 &&
	    !job_state_is_terminal(job.state))
		wait_for(s, req, m);
	else
		reply_job(s, req, m->job_id);
}

static void on_ended(void *ctx, struct str id)
{
	struct svc_waits *w = ctx;
	struct job_wait *j = hmap_remove(&w->jobs, id);

	if (j == NULL)
		return;
	j->ended = true; /* should it begin anew, others wait for that */
	LIST_FOREACH_SAFE (it, &j->waiters)
		make_due(w, list_entry(it, struct job_waiter, node));
}

struct svc_waits *svc_waits_new(struct svc *s)
{
	struct svc_waits *w = xcalloc(1, sizeof(*w));

	w->s = s;
	list_init(&w->due);
	w->timer = loop_timer_add(s->p->d->loop, on_timer, w);
	return w;
}

void svc_waits_free(struct svc_waits *w)
{
	struct heap_node *n;

	while ((n = heap_min(&w->ends)) != NULL)
		make_due(w, container_of(n, struct job_waiter, end));
	LIST_FOREACH_SAFE (it, &w->due)
		waiter_free(w, list_entry(it, struct job_waiter, node));
	hmap_done(&w->jobs);
	hmap_done(&w->reqs);
	heap_done(&w->ends);
	loop_timer_remove(w->timer);
	free(w);
}

void svc_waits_turn_end(struct svc_waits *w)
{
	fsm_take_ended(w->s->p->fsm, on_ended, w);
	if (!list_empty(&w->due))
		answer_due(w);
}

size_t svc_waits_count(const struct svc_waits *w)
{
	return w->reqs.n;
}

void svc_waits_drain(struct svc_waits *w)
{
	struct heap_node *n;

	while ((n = heap_min(&w->ends)) != NULL)
		make_due(w, container_of(n, struct job_waiter, end));
}

void svc_waits_cancel(struct svc_waits *w, struct rpc_req req)
{
	struct job_waiter *a = hmap_get(&w->reqs, rpc_req_key(&req));

	if (a != NULL)
		waiter_free(w, a);
}

void svc_waits_peer_down(struct svc_waits *w, const struct rpc_peer *peer)
{
	size_t pos = 0;
	struct str key;
	void *v;

	while (hmap_next(&w->reqs, &pos, &key, &v)) {
		struct job_waiter *a = v;

		if (a->req.peer == peer)
			waiter_free(w, a);
	}
}
