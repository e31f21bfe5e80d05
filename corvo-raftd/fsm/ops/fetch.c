/*
 * fetch: hands jobs to a worker. The best priority over all queues named,
 * inside a priority the job that stands first, over all of them.
 */
#include <stdlib.h>

#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/job/active.h"
#include "fsm/job/checkpoint.h"
#include "fsm/job/job.h"
#include "fsm/job/timing.h"
#include "fsm/job/worker.h"
#include "fsm/ops/ops.h"
#include "fsm/order/lane.h"
#include "fsm/order/queue.h"
#include "fsm/order/window.h"
#include "fsm/ties/policy.h"
#include "fsm/ties/purse.h"
#include "proto/agent.h"

#define LEASE_DEFAULT_NS (60 * NS_PER_S)
#define FETCH_BYTES_MAX  (8u << 20) /* payloads in one answer */

struct fetch {
	const struct m_fetch *op;
	struct fsm_queue *queues[LIMIT_FETCH_QUEUES];
	size_t queues_n;
	struct m_fetched *jobs;
	size_t n, max;
	size_t bytes;               /* of payloads and checkpoints */
	struct purse_block refused; /* by this budget, if nothing else is */
};

/* A budget keeps jobs of the queue from being handed out. */
static void note_closed(struct fsm *f, struct fetch *ft, struct fsm_queue *q,
			const struct purse_block *b)
{
	if (b->purse->m.on_exceed != BUDGET_REJECT)
		queue_close(f, q, b->until);
	else if (q->counts[JOB_PENDING] > 0 && ft->refused.purse == NULL)
		ft->refused = *b;
}

static void find_queues(struct fsm *f, struct fetch *ft)
{
	size_t n = MIN(ft->op->queues_n, (size_t)LIMIT_FETCH_QUEUES);

	ft->queues_n = 0;
	for (size_t i = 0; i < n; i++) {
		struct fsm_queue *q = queue_find(f, ft->op->queues[i]);
		struct purse_block b;

		if (q == NULL || q->paused)
			continue;
		if (!purse_queue_is_open(f, q, f->now_ns, &b)) {
			note_closed(f, ft, q, &b);
			continue;
		}
		if (!q->lanes.plain)
			lanes_release(f, q);
		ft->queues[ft->queues_n++] = q;
	}
}

/*
 * Takes off the first job of a lane if it has left. A lane of a fair queue is
 * chosen by its turn: a place that nobody stands at must not be weighed against
 * jobs of other queues, since a replica may or may not remember it. Elsewhere
 * the place itself decides, and who takes the job finds out. As created, it has
 * not left. True: look again.
 */
static bool drop_left(struct fsm *f, const struct fetch *ft, struct fsm_lane *l,
		      uint8_t prio, const struct window_job *w)
{
	struct window_job left;
	struct str value;
	struct key k;
	int r;

	if (ft->queues_n < 2 || w->as_created ||
	    l->q->set->fairness != FAIRNESS_GROUP)
		return false;
	lane_key(&k, l, prio, w->seq);
	r = txn_get(f->txn, key_str(&k), &value);
	if (r < 0)
		(void)fsm_fail(f, r);
	if (r != 0)
		return false;
	lane_pop(f, l, prio, &left);
	free(left.doc);
	return true;
}

/* The lane whose job of that priority stands first, over all queues. */
static struct fsm_lane *best_lane(struct fsm *f, const struct fetch *ft,
				  uint8_t prio)
{
	struct fsm_lane *best = NULL;
	uint64_t best_seq = NEVER;

	for (size_t i = 0; i < ft->queues_n; i++) {
		const struct window_job *w;
		struct fsm_lane *l;

		do
			w = queue_first(f, ft->queues[i], prio, &l);
		while (w != NULL && drop_left(f, ft, l, prio, w));
		if (w != NULL && w->seq < best_seq) {
			best = l;
			best_seq = w->seq;
		}
	}
	return best;
}

/*
 * The id of a window's job; long ones are only in the store. One that is not as
 * created may have left: 0 then. Its record is not read for that: it may be
 * large, and a replica whose window has forgotten it would not read it either.
 */
static int window_job_id(struct fsm *f, const struct fsm_lane *l, uint8_t prio,
			 const struct window_job *w, struct str *ret)
{
	struct pending p;
	struct str value;
	struct key k;
	int r;

	if (w->as_created && w->id_n > 0) {
		*ret = arena_copy(&f->item_arena, str_of(w->id, w->id_n));
		return 1;
	}
	lane_key(&k, l, prio, w->seq);
	r = txn_get(f->txn, key_str(&k), &value);
	if (r < 0)
		return fsm_fail(f, r);
	if (r > 0) {
		lane_value(value, &p);
		*ret = arena_copy(&f->item_arena, p.id);
	}
	return r;
}

/* Takes the first job off the window. 1: it is pending there; 0: stale. */
static int take_first(struct fsm *f, struct fsm_lane *l, uint8_t prio,
		      struct job *ret)
{
	struct window_job w;
	struct str id, doc;
	int r;

	lane_pop(f, l, prio, &w);
	doc = arena_copy(&f->item_arena, str_of(w.doc, w.doc_n));
	free(w.doc);
	r = window_job_id(f, l, prio, &w, &id);
	if (r <= 0)
		return r;
	r = w.as_created ? job_find_as_created(f, id, doc, ret)
			 : job_find(f, id, ret);
	if (r < 0)
		return r;
	MUST(f, r > 0 && ret->live.state == JOB_PENDING &&
		    ret->live.seq == w.seq && ret->q == l->q &&
		    ret->prio == prio);
	ret->taken = true;
	return 1;
}

/* The next job to hand out, and its lane: 1 found, 0 none, -ERR_*. */
static int next_job(struct fsm *f, struct fetch *ft, struct job *ret,
		    struct fsm_lane **ret_lane)
{
	uint8_t prio = 0;

	while (prio < PRIORITIES && !budget_is_spent(f)) {
		struct fsm_lane *l = best_lane(f, ft, prio);
		int r;

		if (f->fatal < 0)
			return f->fatal;
		if (l == NULL) {
			prio++;
			continue;
		}
		*ret_lane = l;
		r = take_first(f, l, prio, ret);
		if (r < 0)
			return r;
		if (r == 0)
			continue;
		if (!job_is_expired(f, ret))
			return 1;
		job_end_expired(f, ret);
		budget_take_job(f);
		/* its chain may have put a better one there, perhaps into a
		 * queue that was not there before */
		find_queues(f, ft);
		prio = 0;
	}
	return 0;
}

static uint64_t lease_of(const struct fsm *f, const struct m_fetch *op,
			 const struct fsm_queue *q)
{
	uint64_t ns = op->lease_duration;

	if (ns == 0)
		ns = q->set->lease_duration;
	if (ns == 0)
		ns = op->default_lease; /* entries of older versions */
	if (ns == 0)
		ns = f->settings.lease_duration;
	if (ns == 0)
		ns = LEASE_DEFAULT_NS;
	return MIN(ns, LIMIT_LEASE_S * NS_PER_S);
}

/*
 * The job is in the hands of who sent the fetch, under a token of its own. A
 * token is the number of the event that tells of it: none is given twice.
 */
static void fill_start(struct fsm *f, const struct m_fetch *op, struct job *j)
{
	struct m_job_live *l = &j->live;

	MSG_SET(l, job_live, started_at, f->now_ns);
	MSG_SET(l, job_live, lease_ns, lease_of(f, op, j->q));
	MSG_SET(l, job_live, lease_token, f->last_seq + 1);
	MSG_UNSET(l, job_live, usage_before);
	l->usage_before = NULL;
	if ((j->extras & EXTRA_EXPECTED) && l->usage != NULL)
		MSG_SET(l, job_live, usage_before, l->usage);
	if (timing_limit(j) > 0)
		MSG_SET(l, job_live, timeout_at, fsm_later(f, timing_limit(j)));
}

static void tell_start(struct fsm *f, struct job *j)
{
	uint64_t seq = job_event(f, j, EVENT_STARTED, STR_NULL);

	MUST(f, seq == j->live.lease_token);
	job_save(f, j);
}

static void start_job(struct fsm *f, const struct fetch *ft, struct job *j)
{
	const struct m_fetch *op = ft->op;
	struct m_job_live *l = &j->live;

	timing_note_start(f, j);
	MSG_SET(l, job_live, attempt, l->attempt + 1);
	MSG_SET(l, job_live, worker_id, op->worker_id);
	MSG_SET(l, job_live, hostname, op->hostname);
	if (op->worker_id.n == 0)
		MSG_UNSET(l, job_live, worker_id);
	if (op->hostname.n == 0)
		MSG_UNSET(l, job_live, hostname);
	MSG_SET(l, job_live, fetch_id, op->fetch_id);
	/* they were of the last attempt */
	l->response = STR_NULL;
	MSG_UNSET(l, job_live, response);
	l->accepted = false;
	MSG_UNSET(l, job_live, accepted);
	fill_start(f, op, j);
	job_move(f, j, JOB_ACTIVE);
	tell_start(f, j);
}

/* What a job belongs to, where it does. */
static void hand_out_links(const struct job *j, struct m_fetched *r)
{
	const struct m_job_doc *d = &j->doc;

	if (j->live.timeout_at != 0)
		MSG_SET(r, fetched, timeout_at, j->live.timeout_at);
	if (MSG_HAS(d, job_doc, group))
		MSG_SET(r, fetched, group, d->group);
	if (MSG_HAS(d, job_doc, chain_id)) {
		MSG_SET(r, fetched, chain_id, d->chain_id);
		MSG_SET(r, fetched, chain_step, d->chain_step);
	}
	if (MSG_HAS(d, job_doc, batch_id))
		MSG_SET(r, fetched, batch_id, d->batch_id);
	if (d->scheduled_db != NULL)
		MSG_SET(r, fetched, scheduled_db, d->scheduled_db);
}

/* Where it comes from. Entries of older releases weigh what they did there. */
static void hand_out_origin(const struct fsm *f, const struct job *j,
			    struct m_fetched *r)
{
	const struct m_job_doc *d = &j->doc;

	if (f->entry_format < 2)
		return;
	MSG_SET(r, fetched, created_at, d->created_at);
	if (MSG_HAS(d, job_doc, schedule_id))
		MSG_SET(r, fetched, schedule_id, d->schedule_id);
	if (d->scheduled_for != 0)
		MSG_SET(r, fetched, scheduled_for, d->scheduled_for);
}

static int hand_out(struct fsm *f, struct fetch *ft, const struct job *j)
{
	struct m_fetched *r = &ft->jobs[ft->n++];
	const struct m_job_doc *d = &j->doc;
	const struct m_job_live *l = &j->live;
	struct str checkpoint;
	int err = checkpoint_get(f, j, &checkpoint);

	if (err < 0)
		return err;
	*r = (struct m_fetched){ 0 };
	MSG_SET(r, fetched, job_id, j->id);
	MSG_SET(r, fetched, queue, j->q->name);
	MSG_SET(r, fetched, payload,
		MSG_HAS(d, job_doc, payload) ? d->payload : STR("{}"));
	MSG_SET(r, fetched, priority, j->prio);
	MSG_SET(r, fetched, attempt, l->attempt);
	MSG_SET(r, fetched, max_retries, d->max_retries);
	MSG_SET(r, fetched, lease_duration, l->lease_ns);
	MSG_SET(r, fetched, lease_token, l->lease_token);
	if (checkpoint.n > 0)
		MSG_SET(r, fetched, checkpoint, checkpoint);
	if (MSG_HAS(d, job_doc, tags))
		MSG_SET(r, fetched, tags, d->tags);
	if (j->extras & EXTRA_AGENT) {
		MSG_SET(r, fetched, agent,
			arena_alloc(&f->item_arena, sizeof(*r->agent)));
		agent_show(d, l, r->agent);
	}
	if (j->q->set->push != NULL)
		MSG_SET(r, fetched, push_version, j->q->set->push->version);
	hand_out_links(j, r);
	hand_out_origin(f, j, r);
	ft->bytes += r->payload.n + checkpoint.n + d->tags.n;
	return 0;
}

static int by_token(const void *a, const void *b)
{
	const struct fsm_active *x = *(struct fsm_active *const *)a;
	const struct fsm_active *y = *(struct fsm_active *const *)b;

	return (x->token > y->token) - (x->token < y->token);
}

/* Jobs the first try of this fetch was given, in the order of that try. */
static size_t find_given(struct fsm *f, uint64_t fetch_id,
			 struct fsm_active ***ret)
{
	struct bynum_node *first = bynum_first(&f->given, fetch_id), *g;
	size_t n = 0;

	for (g = first; g != NULL; g = bynum_next(g))
		n++;
	*ret = arena_alloc(&f->item_arena, n * sizeof(**ret));
	n = 0;
	for (g = first; g != NULL; g = bynum_next(g))
		(*ret)[n++] = container_of(g, struct fsm_active, given);
	qsort(*ret, n, sizeof(**ret), by_token);
	return n;
}

/*
 * The answer to the first try may be on its way back to the queue already, or
 * may be given back later: that concerns its token. Who is answered now holds
 * the job under another one, and begins now.
 */
static int start_again(struct fsm *f, struct fetch *ft, struct fsm_active *a)
{
	struct job j;
	int r = job_find(f, a->id, &j);

	if (r < 0)
		return r;
	MUST(f, r > 0);
	r = job_need_doc(f, &j);
	if (r < 0)
		return r;
	/* what it expects is held under its token */
	if (j.extras & EXTRA_EXPECTED)
		f->hooks->handed(f, &j, -1);
	fill_start(f, ft->op, &j);
	if (j.extras & EXTRA_EXPECTED)
		f->hooks->handed(f, &j, 1);
	active_grant_again(f, a, &j);
	tell_start(f, &j);
	return hand_out(f, ft, &j);
}

static int hand_out_again(struct fsm *f, struct fetch *ft)
{
	struct fsm_active **given;
	size_t n = find_given(f, ft->op->fetch_id, &given);
	int r = 0;

	for (size_t i = 0; i < n && ft->n < ft->max && r == 0; i++)
		r = start_again(f, ft, given[i]);
	if (r == 0 && ft->n > 0)
		worker_seen(f, ft->op);
	return r;
}

/* The queue is not asked again by this fetch. */
static void leave_queue(struct fetch *ft, const struct fsm_queue *q)
{
	size_t n = 0;

	for (size_t i = 0; i < ft->queues_n; i++)
		if (ft->queues[i] != q)
			ft->queues[n++] = ft->queues[i];
	ft->queues_n = n;
}

static void hold_for(struct fsm *f, struct job *j, const struct purse_block *b)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);

	buf_puts(&why, "budget exceeded: ");
	purse_describe(f, b, &why);
	job_hold(f, j,
		 &(struct hold){
		     .kind = HELD_BY_BUDGET,
		     .by = b->purse->m.id,
		     .reason = arena_copy(&f->item_arena, buf_str(&why)) });
	budget_take_job(f);
}

/* 1: no policy wants somebody to look at it first; 0: it is held; -ERR_*. */
static int pass_policies(struct fsm *f, struct job *j)
{
	int r = policy_hold_at_fetch(f, j);

	if (r > 0)
		budget_take_job(f);
	return r < 0 ? r : r == 0;
}

/* 1: its budgets and policies allow it; 0: they do not, and it is out of the
 * way; -ERR_*. */
static int admit(struct fsm *f, struct fetch *ft, struct fsm_lane *l,
		 struct job *j)
{
	struct pending p = { .seq = j->live.seq, .id = j->id };
	struct purse_block b;
	int r = purse_judge(f, j, f->now_ns, &b);

	if (r < 0)
		return r;
	if (r == PURSE_GO)
		return pass_policies(f, j);
	if (r == PURSE_HOLD || (r == PURSE_ASIDE && b.purse->m.holds_jobs &&
				b.purse->m.on_exceed == BUDGET_HOLD)) {
		hold_for(f, j, &b);
		return 0;
	}
	if (r == PURSE_ASIDE) {
		purse_set_aside(f, j, &b);
		budget_take_job(f);
		return 0;
	}
	lane_put_back(f, l, j->prio, &p);
	note_closed(f, ft, j->q, &b);
	leave_queue(ft, j->q);
	return 0;
}

static int hand_out_new(struct fsm *f, struct fetch *ft)
{
	struct fsm_lane *l;
	struct job j;
	int r = 0;

	find_queues(f, ft);
	while (ft->n < ft->max && ft->bytes < FETCH_BYTES_MAX) {
		r = next_job(f, ft, &j, &l);
		if (r <= 0)
			break;
		r = admit(f, ft, l, &j);
		if (r < 0)
			break;
		if (r == 0)
			continue;
		start_job(f, ft, &j);
		lane_handed_out(f, l);
		r = hand_out(f, ft, &j);
		if (r == 0)
			r = purse_handed_out(f, &j);
		if (r < 0)
			break;
	}
	for (size_t i = 0; ft->n == 0 && i < ft->queues_n; i++)
		lanes_look(f, ft->queues[i]);
	if (r >= 0 && ft->n > 0)
		worker_seen(f, ft->op);
	return MIN(r, 0);
}

int apply_fetch(struct fsm *f, const struct m_fetch *op,
		struct m_fetch_reply *ret)
{
	struct fetch *ft = arena_zalloc(&f->item_arena, sizeof(*ft));
	int r = 0;

	ft->op = op;
	ft->max = MIN(MAX(op->count, 1u), (uint32_t)LIMIT_FETCH_COUNT);
	ft->jobs = arena_alloc(&f->item_arena, ft->max * sizeof(*ft->jobs));
	if (fsm_is_resend(f) && op->fetch_id != 0)
		r = hand_out_again(f, ft);
	if (r == 0 && ft->n == 0)
		r = hand_out_new(f, ft);
	if (r < 0)
		return r;
	/* It met so many expired jobs that it came to no other. */
	if (ft->n == 0 && budget_is_spent(f))
		return fsm_go_on_with(f, op);
	if (ft->n == 0 && ft->refused.purse != NULL)
		return purse_refuse(f, &ft->refused);
	MSG_SET_LIST(ret, fetch_reply, jobs, ft->jobs, ft->n);
	return 0;
}
