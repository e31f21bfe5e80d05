/*
 * POST /fetch and /fetch/batch. The waiting is done by raftd; here the fetch
 * is only parked, so that it can be dropped when its client goes away.
 *
 * A job in the hands of a client that has left is lost until its lease ends.
 * So the socket is looked at before jobs are asked for and before they are
 * handed out, and what could not be sent goes back at once.
 */
#include "front/park.h"
#include "front/server.h"
#include "proto/job.h"
#include "req/give_back.h"
#include "req/job_check.h"
#include "req/req.h"
#include "routes/handlers.h"
#include "util/clock.h"

#define FETCH_WAIT_DEFAULT_NS (30 * NS_PER_S)
#define FETCH_WAIT_MAX_NS     (LIMIT_FETCH_WAIT_S * NS_PER_S)
#define DEADLINE_MARGIN_NS    (500 * NS_PER_MS)

struct asked {
	bool batch;          /* answers an object with a list */
	struct m_fail *back; /* what gives the jobs of the answer back */
	size_t n;
};

static bool is_batch(const struct req *r)
{
	return ((const struct asked *)r->state)->batch;
}

/* --- giving back --- */

static void give_back(struct req *r)
{
	struct asked *a = r->state;

	for (size_t i = 0; i < a->n; i++)
		give_back_job(r->h, &a->back[i]);
	a->n = 0;
}

/* The reply lasts only for the call; what names its jobs is copied. */
static void remember(struct req *r, const struct m_fetch_reply *m)
{
	struct asked *a = r->state;

	a->n = m->jobs_n;
	a->back = arena_zalloc(&r->arena, a->n * sizeof(*a->back));
	for (size_t i = 0; i < a->n; i++) {
		a->back[i] = fetched_give_back(&m->jobs[i]);
		a->back[i].job_id = arena_copy(&r->arena, m->jobs[i].job_id);
	}
	if (a->n > 0)
		r->unsent = give_back;
}

/* --- answers --- */

static void answer(struct req *r, const struct m_fetch_reply *m)
{
	if (is_batch(r))
		req_answer_message(r, &msg_fetch_reply, m, 200);
	else if (m->jobs_n == 0)
		req_answer_empty(r, 204);
	else
		req_answer_message(r, &msg_fetched, &m->jobs[0], 200);
}

/* The node is going away, and nothing was asked for. */
static void answer_nothing(struct req *r)
{
	struct m_fetch_reply none = { 0 };

	answer(r, &none);
}

static void on_fetched(struct req *r, const struct rpc_reply *reply)
{
	struct m_fetch_reply *m = req_reply(r, &msg_fetch_reply, reply);

	if (m == NULL)
		return;
	remember(r, m);
	if (m->jobs_n == 0) {
		answer(r, m);
	} else if (!exchange_fits_answer(&r->x, 2 * reply->body.n, true)) {
		give_back(r);
		req_fail_text(r, ERR_OVERLOADED, REQ_NO_ROOM);
	} else if (!exchange_if_left(&r->x)) {
		answer(r, m);
	}
}

/* The answer has to be there before its client gives up. */
static uint64_t longest_wait(const struct req *r)
{
	uint64_t now, left;

	if (r->deadline_ns == 0)
		return FETCH_WAIT_MAX_NS;
	now = clock_mono_ns();
	left = r->deadline_ns > now ? r->deadline_ns - now : 0;
	return left - MIN(left / 4, DEADLINE_MARGIN_NS);
}

/* False when an error has been answered. */
static bool fill_defaults(struct req *r, struct m_fetch *f)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);
	uint64_t wait_ns = FETCH_WAIT_DEFAULT_NS;
	uint32_t count = 1;
	int err;

	if (MSG_HAS(f, fetch, timeout))
		wait_ns = MIN(f->timeout, FETCH_WAIT_MAX_NS);
	wait_ns = MIN(wait_ns, longest_wait(r));
	err = fetch_check(f, &why);
	if (err < 0) {
		req_fail_text(r, -err, buf_str(&why));
		return false;
	}
	if (is_batch(r) && f->count > 0)
		count = MIN(f->count, LIMIT_FETCH_COUNT);
	MSG_SET(f, fetch, timeout, wait_ns);
	MSG_SET(f, fetch, count, count);
	MSG_SET(f, fetch, fetch_id, rng_u64(&r->h->rng));
	return true;
}

/* Its deadline may be sooner after the end of the wait than is usual, which who
 * makes it wait could not tell from one that has waited before. */
static void tell_margin(const struct req *r, struct m_fetch *f)
{
	uint64_t end = clock_mono_ns() + f->timeout;

	if (r->deadline_ns == 0 ||
	    r->deadline_ns >= end + r->h->set->op_timeout)
		return;
	MSG_SET(f, fetch, margin, r->deadline_ns - MIN(end, r->deadline_ns));
}

static void fetch(struct req *r, bool batch)
{
	struct m_fetch *f = arena_zalloc(&r->arena, sizeof(*f));
	struct asked *a = arena_zalloc(&r->arena, sizeof(*a));

	a->batch = batch;
	r->state = a;
	if (!req_read(r, &msg_fetch, f))
		return;
	if (!batch && MSG_HAS(f, fetch, count))
		req_ignore(r, STR("count"));
	if (!req_read_done(r) || !fill_defaults(r, f) ||
	    exchange_if_left(&r->x))
		return;
	if (r->h->draining)
		MSG_SET(f, fetch, timeout, 0);
	tell_margin(r, f);
	req_call(r, &(struct req_call){
			.client = r->h->raftd,
			.id = OP_FETCH,
			.key = f->queues[0],
			.desc = &msg_fetch,
			.m = f,
			.timeout_ns = f->timeout + r->h->set->op_timeout,
			.timeout_err = ERR_LEADER_UNAVAILABLE,
			.flags = RPC_CHANGES,
			.then = on_fetched,
		    });
	r->too_late = give_back_late;
	rpc_when_late(r->call, give_back_late, r->h);
	if (f->timeout == 0)
		return;
	r->end_parked = answer_nothing;
	park_add(&r->x);
}

void h_fetch(struct req *r)
{
	fetch(r, false);
}

void h_fetch_batch(struct req *r)
{
	fetch(r, true);
}
