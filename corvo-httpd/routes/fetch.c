/*
 * POST /fetch and /fetch/batch. The waiting is done by raftd; here the fetch
 * is only parked, so that it can be dropped when its client goes away.
 */
#include "front/park.h"
#include "req/req.h"
#include "routes/handlers.h"

#define FETCH_WAIT_DEFAULT_NS (30 * NS_PER_S)
#define FETCH_WAIT_MAX_NS     (LIMIT_FETCH_WAIT_S * NS_PER_S)
#define LEASE_MIN_NS          NS_PER_MS
#define LEASE_MAX_NS          (LIMIT_LEASE_S * NS_PER_S)

static bool is_batch(const struct req *r)
{
	return r->state != NULL;
}

static void answer(struct req *r, const struct m_fetch_reply *m)
{
	if (is_batch(r))
		req_answer_message(r, &msg_fetch_reply, m, 200);
	else if (m->jobs_n == 0)
		req_answer_empty(r, 204);
	else
		req_answer_message(r, &msg_fetched, &m->jobs[0], 200);
}

/* Nothing came in time, or the node is going away. */
static void answer_nothing(struct req *r)
{
	struct m_fetch_reply none = { 0 };

	answer(r, &none);
}

static void on_fetched(struct req *r, const struct rpc_reply *reply)
{
	struct m_fetch_reply *m;

	/*
	 * A fetch that was sent again to a restarted raftd begins its wait
	 * anew and may pass our deadline; that is no failure.
	 */
	if (reply->err == ERR_REQUEST_TIMEOUT) {
		if (rpc_client_is_up(r->client))
			answer_nothing(r);
		else
			req_fail_text(r,
				      reply->sent ? ERR_OUTCOME_UNKNOWN
						  : ERR_LEADER_UNAVAILABLE,
				      STR_NULL);
		return;
	}
	m = req_reply(r, &msg_fetch_reply, reply);
	if (m != NULL)
		answer(r, m);
}

/* False when an error has been answered. */
static bool fill_defaults(struct req *r, struct m_fetch *f)
{
	uint64_t wait_ns = FETCH_WAIT_DEFAULT_NS;
	uint32_t count = 1;

	if (MSG_HAS(f, fetch, timeout))
		wait_ns = MIN(f->timeout, FETCH_WAIT_MAX_NS);
	if (MSG_HAS(f, fetch, lease_duration) &&
	    (f->lease_duration < LEASE_MIN_NS ||
	     f->lease_duration > LEASE_MAX_NS)) {
		req_fail(r, ERR_VALIDATION_ERROR,
			 "lease_duration: must be from 0.001 to %d seconds",
			 LIMIT_LEASE_S);
		return false;
	}
	if (f->queues_n > LIMIT_FETCH_QUEUES) {
		req_fail(r, ERR_VALIDATION_ERROR,
			 "queues: must have at most %d items",
			 LIMIT_FETCH_QUEUES);
		return false;
	}
	if (is_batch(r) && f->count > 0)
		count = MIN(f->count, LIMIT_FETCH_COUNT);
	MSG_SET(f, fetch, timeout, wait_ns);
	if (!MSG_HAS(f, fetch, lease_duration))
		MSG_SET(f, fetch, default_lease, r->h->set->lease_duration);
	MSG_SET(f, fetch, count, count);
	MSG_SET(f, fetch, fetch_id, rng_u64(&r->h->rng));
	return true;
}

static void fetch(struct req *r)
{
	struct m_fetch *f = arena_zalloc(&r->arena, sizeof(*f));

	if (!req_read(r, &msg_fetch, f) || !fill_defaults(r, f))
		return;
	if (r->h->draining)
		MSG_SET(f, fetch, timeout, 0);
	req_call(r, &(struct req_call){
			.client = r->h->raftd,
			.id = OP_FETCH,
			.key = f->queues[0],
			.desc = &msg_fetch,
			.m = f,
			.timeout_ns = f->timeout + r->h->set->op_timeout,
			.timeout_err = ERR_REQUEST_TIMEOUT,
			.then = on_fetched,
		    });
	if (f->timeout == 0)
		return;
	r->end_parked = answer_nothing;
	park_add(&r->x);
}

void h_fetch(struct req *r)
{
	fetch(r);
}

void h_fetch_batch(struct req *r)
{
	r->state = r; /* anything: a batch answers an object with a list */
	fetch(r);
}
