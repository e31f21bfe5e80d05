/*
 * Fetches: parked outside the log until there is something to take. See
 * propose/proposer.h and propose/lot.h.
 */
#include <stdlib.h>

#include "propose/proposer_impl.h"
#include "proto/job.h"
#include "util/clock.h"

#define SMALL_FETCH 1024 /* bytes: one of some queues */

void fetch_init(struct proposer *p)
{
	struct m_fetch_reply none = { 0 };

	MSG_SET_LIST(&none, fetch_reply, jobs, NULL, 0);
	msg_encode(&msg_fetch_reply, &none, &p->no_jobs);
}

static void tell_empty(struct proposer *p, struct op *op)
{
	rpc_reply(op->req, 0, fsm_last_seq(p->c.fsm), buf_str(&p->no_jobs));
}

static void reply_empty(struct proposer *p, struct op *op)
{
	tell_empty(p, op);
	op_free(p, op);
}

static struct presence_time moment(const struct proposer *p)
{
	return (struct presence_time){ .mono_ns = clock_mono_ns(),
				       .wall_ns = proposer_now(p) };
}

void fetch_free(struct proposer *p, struct op *op)
{
	struct fetch *f = op->fetch;

	if (f->waiter.parked)
		lot_unpark(&p->lot, &f->waiter);
	lot_leave(&p->lot, &f->waiter);
	if (f->worker != NULL)
		presence_leave(&p->presence, f->worker, moment(p));
	hmap_remove(&p->fetches, rpc_req_key(&op->req));
	free(f);
	op->fetch = NULL;
}

static void arm_deadline(struct proposer *p)
{
	struct waiter *w = lot_next_deadline(&p->lot);
	uint64_t now;

	if (w == NULL) {
		p->deadline_armed_ns = 0;
		return; /* a timer that fires in vain costs less than stopping
			   it */
	}
	if (p->deadline_armed_ns != 0 &&
	    p->deadline_armed_ns <= w->deadline.key)
		return;
	now = clock_mono_ns();
	p->deadline_armed_ns = w->deadline.key;
	loop_timer_arm(p->deadline,
		       w->deadline.key > now ? w->deadline.key - now : 0);
}

void fetch_on_deadline(void *ctx)
{
	struct proposer *p = ctx;
	uint64_t now = clock_mono_ns();
	struct waiter *w;

	while ((w = lot_next_deadline(&p->lot)) != NULL &&
	       w->deadline.key <= now)
		reply_empty(p, container_of(w, struct fetch, waiter)->op);
	p->deadline_armed_ns = 0;
	arm_deadline(p);
}

static void park(struct proposer *p, struct op *op, bool first)
{
	lot_park(&p->lot, &op->fetch->waiter, first);
	arm_deadline(p);
	fetch_arm_look(p);
}

static void into_log(struct proposer *p, struct op *op)
{
	lot_add_demand(&op->fetch->waiter);
	proposer_enqueue(p, op);
}

static uint64_t takeable(struct proposer *p, const struct lot_queue *q)
{
	return fsm_queue_takeable(p->c.fsm, lot_queue_name(q), proposer_now(p));
}

/* Jobs of this queue that fetches under way have not asked for yet. */
static bool queue_has_spare(struct proposer *p, const struct lot_queue *q)
{
	return takeable(p, q) > lot_demand(q);
}

static bool any_queue(struct proposer *p, struct waiter *w, bool spare)
{
	for (size_t i = 0; i < w->n; i++) {
		struct lot_queue *q = w->places[i].queue;

		if (spare ? queue_has_spare(p, q) : takeable(p, q) > 0)
			return true;
	}
	return false;
}

/* Small ones always fit, so that workers go on whatever others do. */
static bool is_too_large(const struct proposer *p, const struct waiter *w)
{
	return w->bytes > SMALL_FETCH &&
	       p->lot.bytes > p->c.settings->raft_max_pending_bytes / 2;
}

static bool too_many(struct proposer *p, struct waiter *w)
{
	const struct settings *s = p->c.settings;

	if (p->lot.parked >= s->raft_max_parked || is_too_large(p, w))
		return true;
	for (size_t i = 0; i < w->n; i++)
		if (lot_demand(w->places[i].queue) >
		    s->raft_max_fetch_inflight * (uint64_t)w->count)
			return true;
	return false;
}

/*
 * One that comes again, to another process or node, does not begin its wait
 * anew: its deadline is op_timeout after the end of it, or what it says itself,
 * where its client waits for less.
 */
static uint64_t wait_end(const struct proposer *p, const struct op *op,
			 const struct m_fetch *m)
{
	uint64_t end_ns = op->arrived_ns + m->timeout;
	uint64_t later_ns =
	    MSG_HAS(m, fetch, margin) ? m->margin : p->c.settings->op_timeout;

	if (op->deadline_ns <= later_ns)
		return end_ns;
	return MIN(end_ns, MAX(op->deadline_ns - later_ns, op->arrived_ns));
}

static struct fetch *fetch_new(struct proposer *p, struct op *op,
			       const struct m_fetch *m)
{
	struct fetch *f =
	    xcalloc(1, sizeof(*f) + m->queues_n * sizeof(f->places[0]));

	f->op = op;
	f->id = m->fetch_id;
	f->waiter.count = m->count == 0 ? 1 : m->count;
	f->waiter.places = f->places;
	f->waiter.bytes = op->body.n;
	f->waiter.deadline.key = wait_end(p, op, m);
	lot_enter(&p->lot, &f->waiter, m->queues, m->queues_n);
	f->worker = presence_ask(&p->presence, m, moment(p));
	return f;
}

/*
 * A resend is like any other fetch unless its first try was given jobs, which
 * the state machine knows once it has applied the whole log.
 */
static bool holds_jobs(struct proposer *p, const struct op *op)
{
	return (op->flags & FRAME_RESEND) &&
	       fsm_fetch_holds(p->c.fsm, op->fetch->id);
}

/* Whether the log has, or may have, something for it. */
static bool must_ask(struct proposer *p, const struct op *op, bool waits)
{
	struct waiter *w = &op->fetch->waiter;

	if (holds_jobs(p, op) || any_queue(p, w, true))
		return true;
	return !waits && (!node_is_ready(p->node) || any_queue(p, w, false));
}

void fetch_look_again(struct proposer *p)
{
	size_t pos = 0;
	struct str key;
	void *v;

	p->unsure = false;
	while (hmap_next(&p->fetches, &pos, &key, &v)) {
		struct op *op = v;

		if (!op->fetch->waiter.parked || !holds_jobs(p, op))
			continue;
		lot_unpark(&p->lot, &op->fetch->waiter);
		into_log(p, op);
	}
}

void fetch_submit(struct proposer *p, struct op *op)
{
	struct m_fetch m;
	struct waiter *w;

	arena_reset(&p->scratch);
	if (msg_decode(&msg_fetch, op->body, &p->scratch, &m) < 0) {
		op_reply(op, ERR_BAD_MESSAGE, 0,
			 str_from(err_text(ERR_BAD_MESSAGE)));
		op_free(p, op);
		return;
	}
	op->fetch = fetch_new(p, op, &m);
	w = &op->fetch->waiter;
	hmap_put(&p->fetches, rpc_req_key(&op->req), op);
	if (too_many(p, w)) {
		p->stats.fetch_overload++;
		op_refuse(p, op, ERR_OVERLOADED,
			  "too many fetches are waiting");
	} else if (must_ask(p, op, m.timeout > 0)) {
		into_log(p, op);
	} else if (m.timeout == 0) {
		reply_empty(p, op);
	} else {
		p->unsure |= !node_is_ready(p->node);
		park(p, op, false);
	}
}

static void wake_line(struct proposer *p, struct lot_queue *q)
{
	struct waiter *w;

	while ((w = lot_first(q)) != NULL && queue_has_spare(p, q)) {
		lot_unpark(&p->lot, w);
		into_log(p, container_of(w, struct fetch, waiter)->op);
	}
}

void fetch_wake(struct proposer *p, struct str queue)
{
	struct lot_queue *q = lot_find(&p->lot, queue);

	if (q != NULL)
		wake_line(p, q);
}

static void on_look(void *ctx, struct str queue)
{
	fetch_wake(ctx, queue);
}

void fetch_on_look(void *ctx)
{
	struct proposer *p = ctx;

	p->look_armed_ns = 0;
	fsm_take_looks(p->c.fsm, proposer_now(p), on_look, p);
	fetch_arm_look(p);
}

void fetch_arm_look(struct proposer *p)
{
	uint64_t when = fsm_look_ns(p->c.fsm), now;

	if (p->lot.parked == 0 || when == 0 ||
	    (p->look_armed_ns != 0 && p->look_armed_ns <= when))
		return;
	now = proposer_now(p);
	p->look_armed_ns = when;
	loop_timer_arm(p->look, when > now ? when - now : 0);
}

/* Calls at most `jobs` waiting fetches of the queue into the entry. */
static void ride(struct proposer *p, struct str queue, uint64_t jobs,
		 struct list *into, size_t *n)
{
	struct lot_queue *q = lot_find(&p->lot, queue);
	struct waiter *w;

	if (q == NULL || lot_first(q) == NULL ||
	    !fsm_queue_is_open(p->c.fsm, queue, proposer_now(p)))
		return;
	for (; jobs > 0 && (w = lot_first(q)) != NULL; jobs--) {
		struct op *op = container_of(w, struct fetch, waiter)->op;

		lot_unpark(&p->lot, w);
		lot_add_demand(w);
		proposer_count(p, op);
		list_push_back(into, &op->node);
		(*n)++;
	}
}

struct ride {
	struct proposer *p;
	struct list *into;
	size_t *n;
};

static void ride_due(void *ctx, struct str queue)
{
	const struct ride *r = ctx;

	ride(r->p, queue, 1, r->into, r->n);
}

void fetch_ride_along(struct proposer *p, const struct op *op,
		      struct list *into, size_t *n)
{
	struct ride r = { .p = p, .into = into, .n = n };
	struct m_enqueue_batch m;

	if (p->lot.parked == 0)
		return;
	if (op->id == OP_ENQUEUE)
		ride(p, op->key, 1, into, n);
	if (op->id == OP_PROMOTE)
		fsm_each_due_queue(p->c.fsm, proposer_now(p), ride_due, &r);
	if (op->id != OP_ENQUEUE_BATCH)
		return;
	arena_reset(&p->scratch);
	if (msg_decode(&msg_enqueue_batch, op->body, &p->scratch, &m) < 0)
		return; /* apply refuses it */
	for (size_t i = 0; i < m.jobs_n && p->lot.parked > 0; i++)
		ride(p, m.jobs[i].queue, 1, into, n);
}

/*
 * Whoever asked is gone: what it was given goes back to its place at once,
 * without using an attempt, instead of waiting for the lease to end.
 */
static void give_back(struct proposer *p, struct str reply)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct m_fetch_reply m;
	int r;

	arena_reset(&p->scratch);
	r = msg_decode(&msg_fetch_reply, reply, &p->scratch, &m);
	CHECK(r == 0); /* the state machine has just written it */
	for (size_t i = 0; i < m.jobs_n; i++) {
		struct m_fail fail = fetched_give_back(&m.jobs[i]);

		buf_clear(&b);
		msg_encode(&msg_fail, &fail, &b);
		proposer_submit_own(p, OP_FAIL, buf_str(&b));
	}
}

/* It may have taken less than it asked for: the rest is for others. */
static void leave_rest(struct proposer *p, struct op *op)
{
	struct waiter *w = &op->fetch->waiter;

	for (size_t i = 0; i < w->n; i++)
		wake_line(p, w->places[i].queue);
	op_free(p, op);
}

void fetch_applied(struct proposer *p, struct op *op, int err, uint64_t seq,
		   struct str body)
{
	struct waiter *w = &op->fetch->waiter;
	bool gone = op->cancelled || !rpc_req_is_live(op->req);
	bool has_none = err == 0 && str_eq(body, buf_str(&p->no_jobs));

	lot_remove_demand(w);
	list_remove(&op->node);
	if (err == 0 && gone) {
		give_back(p, body);
		tell_empty(p, op);
		leave_rest(p, op);
	} else if (has_none && !p->draining &&
		   w->deadline.key > clock_mono_ns()) {
		park(p, op, true);
		for (size_t i = 0; w->parked && i < w->n; i++)
			wake_line(p, w->places[i].queue);
	} else {
		op_reply(op, err, seq, body);
		leave_rest(p, op);
	}
}

bool proposer_is_asked_for(struct proposer *p, struct str queue)
{
	return lot_find(&p->lot, queue) != NULL;
}

void proposer_heard(struct proposer *p, struct str worker)
{
	presence_heard(&p->presence, worker, moment(p));
}

const struct presence *proposer_presence(struct proposer *p)
{
	presence_forget(&p->presence, moment(p));
	return &p->presence;
}

void proposer_cancel(struct proposer *p, struct rpc_req req)
{
	struct op *op = hmap_get(&p->fetches, rpc_req_key(&req));

	if (op == NULL)
		return; /* only fetches wait long enough to be worth it */
	op->cancelled = true;
	if (op->fetch->waiter.parked)
		reply_empty(p, op); /* it was not given anything before */
}

void proposer_peer_down(struct proposer *p, struct rpc_peer *peer)
{
	size_t pos = 0;
	struct str key;
	void *v;

	while (hmap_next(&p->fetches, &pos, &key, &v)) {
		struct op *op = v;

		if (op->req.peer == peer)
			op->cancelled = true;
		if (op->cancelled && op->fetch->waiter.parked)
			op_free(p, op);
	}
}

void fetch_drain(struct proposer *p)
{
	struct waiter *w;

	while ((w = lot_next_deadline(&p->lot)) != NULL)
		reply_empty(p, container_of(w, struct fetch, waiter)->op);
}
