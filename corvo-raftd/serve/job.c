/*
 * Questions about one job: the job itself, perhaps once it has ended, and its
 * log. A question that waits costs no entry: the state machine says which
 * jobs have ended. Ids come from clients. Loop thread.
 */
#include <stdlib.h>

#include "proto/job.h"
#include "serve/svc_impl.h"
#include "store/record.h"
#include "util/clock.h"
#include "util/heap.h"
#include "util/hmap.h"

/* A job somebody waits for. */
struct job_wait {
	struct list waiters;
	struct str id; /* behind the struct */
};

/* One question that waits. */
struct job_waiter {
	struct list node; /* in job_wait.waiters */
	struct rpc_req req;
	struct job_wait *job;
	struct heap_node end; /* key: clock_mono_ns */
};

struct svc_waits {
	struct svc *s;
	struct hmap jobs; /* id -> struct job_wait */
	struct hmap reqs; /* struct rpc_req -> struct job_waiter */
	struct heap ends;
	struct loop_timer *timer;
	uint64_t armed_ns; /* 0: not armed */
};

static struct str req_key(const struct rpc_req *req)
{
	return str_of(req, sizeof(*req));
}

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
	CHECK(hmap_remove(&w->reqs, req_key(&a->req)) == a);
	free(a);
	if (!list_empty(&j->waiters))
		return;
	fsm_unawait(w->s->p->fsm, j->id);
	CHECK(hmap_remove(&w->jobs, j->id) == j);
	free(j);
}

static void waiter_answer(struct svc_waits *w, struct job_waiter *a)
{
	struct svc *s = w->s;
	struct rpc_req req = a->req;
	struct str id;

	arena_reset(&s->scratch);
	id = arena_copy(&s->scratch, a->job->id);
	waiter_free(w, a);
	reply_job(s, req, id);
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
		waiter_answer(w, container_of(n, struct job_waiter, end));
	arm(w);
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
	a = xcalloc(1, sizeof(*a));
	a->req = req;
	a->job = job_wait_of(w, m->job_id);
	a->end.key = clock_mono_ns() + MIN(m->wait_ns, LIMIT_WAIT_S * NS_PER_S);
	list_push_back(&a->job->waiters, &a->node);
	heap_insert(&w->ends, &a->end);
	hmap_put(&w->reqs, req_key(&a->req), a);
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
	struct job_wait *j;

	/* it goes with the last of its waiters */
	while ((j = hmap_get(&w->jobs, id)) != NULL)
		waiter_answer(
		    w, list_entry(j->waiters.next, struct job_waiter, node));
}

struct svc_waits *svc_waits_new(struct svc *s)
{
	struct svc_waits *w = xcalloc(1, sizeof(*w));

	w->s = s;
	w->timer = loop_timer_add(s->p->d->loop, on_timer, w);
	return w;
}

void svc_waits_free(struct svc_waits *w)
{
	struct heap_node *n;

	while ((n = heap_min(&w->ends)) != NULL)
		waiter_free(w, container_of(n, struct job_waiter, end));
	hmap_done(&w->jobs);
	hmap_done(&w->reqs);
	heap_done(&w->ends);
	loop_timer_remove(w->timer);
	free(w);
}

void svc_waits_turn_end(struct svc_waits *w)
{
	fsm_take_ended(w->s->p->fsm, on_ended, w);
}

size_t svc_waits_count(const struct svc_waits *w)
{
	return w->reqs.n;
}

void svc_waits_drain(struct svc_waits *w)
{
	struct heap_node *n;

	while ((n = heap_min(&w->ends)) != NULL)
		waiter_answer(w, container_of(n, struct job_waiter, end));
}

void svc_waits_cancel(struct svc_waits *w, struct rpc_req req)
{
	struct job_waiter *a = hmap_get(&w->reqs, req_key(&req));

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

/* --- what is listed of a job --- */

/* Else it has been answered. */
static bool is_there(struct svc *s, struct rpc_req req, struct str id)
{
	struct m_job job;
	int r = read_job(s, id, 0, &job);

	if (r == 0)
		svc_reply_no_job(s, req, id);
	else if (r < 0)
		svc_reply_error(req, -r);
	return r > 0;
}

static void reply_list(struct svc *s, struct rpc_req req, int r,
		       const struct msg_desc *d, const void *list)
{
	if (r < 0)
		svc_reply_error(req, -r);
	else
		svc_reply(s, req, d, list);
}

void q_job_scores(struct svc *s, struct rpc_req req, const struct m_job_ref *m)
{
	struct m_score_list list;

	if (is_there(s, req, m->job_id))
		reply_list(
		    s, req,
		    record_scores(s->p->kv, m->job_id, &s->scratch, &list),
		    &msg_score_list, &list);
}

void q_job_logs(struct svc *s, struct rpc_req req, const struct m_job_logs *m)
{
	struct m_job_logs_reply logs;

	if (is_there(s, req, m->job_id))
		reply_list(s, req,
			   record_logs(s->p->kv, m->job_id, m->after, m->limit,
				       &s->scratch, &logs),
			   &msg_job_logs_reply, &logs);
}

void q_list_iterations(struct svc *s, struct rpc_req req,
		       const struct m_iterations *m)
{
	struct m_iteration_list list;

	if (is_there(s, req, m->job_id))
		reply_list(s, req,
			   record_iterations(s->p->kv, m->job_id, m->after,
					     m->limit, &s->scratch, &list),
			   &msg_iteration_list, &list);
}
