/*
 * The jobs of a frame, and who leads. See rpc/life_parts.h.
 *
 * A job in the hands of a client that has left is lost until its lease ends:
 * what crossed with its leaving goes back.
 */
#include "proto/job.h"
#include "req/give_back.h"
#include "req/job_check.h"
#include "rpc/life_parts.h"

#define WAIT_MAX_NS (LIMIT_FETCH_WAIT_S * NS_PER_S)

/* --- the fetch --- */

void life_give_back(struct life_frame *f)
{
	for (size_t i = 0; i < f->reply.jobs_n; i++) {
		struct m_fail m = fetched_give_back(&f->reply.jobs[i]);

		give_back_job(f->l->h, &m);
	}
	f->reply.jobs_n = 0;
}

/* A client that does not read its answers is given no more of them. */
static bool has_room_for(struct life_frame *f, const struct rpc_reply *reply)
{
	return f->l->kept <= LIFECYCLE_JOBS_BYTES &&
	       exchange_fits_answer(&f->l->r->x, 2 * reply->body.n, true);
}

static void on_fetched(struct life_frame *f, _unused_ struct part *p,
		       const struct rpc_reply *reply)
{
	struct m_fetch_reply *m;

	m = life_decode(f, LIFE_FETCH, 0, &msg_fetch_reply, reply);
	if (m == NULL)
		return;
	MSG_SET_LIST(&f->reply, lifecycle_reply, jobs, m->jobs, m->jobs_n);
	if (m->jobs_n == 0)
		return;
	if (!has_room_for(f, reply)) {
		life_give_back(f);
		life_error(f, &(struct life_fault){ .part = LIFE_FETCH,
						    .err = ERR_OVERLOADED,
						    .text = REQ_NO_ROOM });
	} else if (f->wait_ns > 0 && exchange_is_left(&f->l->r->x)) {
		life_give_back(f); /* the end of the stream comes */
	} else if (f->l->pushes) {
		for (size_t i = 0; i < m->jobs_n; i++)
			pushed_add(f->l, m->jobs[i].job_id, reply->seq);
	}
}

/* An empty fetch waits a little, so that workers that only poll do it slowly;
 * a job that comes meanwhile ends the wait. */
static uint64_t wait_of(const struct life_frame *f)
{
	if (f->l->is_stopping)
		return 0;
	if (f->waits)
		return MIN(f->m.wait, WAIT_MAX_NS);
	if (f->m.acks_n + f->m.enqueues_n + f->m.fails_n + f->m.heartbeats_n >
	    0)
		return 0;
	return f->l->h->set->idle_fetch_sleep;
}

static bool fill_fetch(struct life_frame *f, struct m_fetch *m)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);
	int r;

	if (f->m.queues_n > 0)
		MSG_SET_LIST(m, fetch, queues, f->m.queues, f->m.queues_n);
	if (f->m.worker_id.n > 0)
		MSG_SET(m, fetch, worker_id, f->m.worker_id);
	if (f->m.hostname.n > 0)
		MSG_SET(m, fetch, hostname, f->m.hostname);
	if (MSG_HAS(&f->m, lifecycle, lease_duration))
		MSG_SET(m, fetch, lease_duration, f->m.lease_duration);
	MSG_SET(m, fetch, count,
		MIN(f->m.fetch_count, (uint32_t)LIMIT_FETCH_COUNT));
	MSG_SET(m, fetch, timeout, wait_of(f));
	MSG_SET(m, fetch, fetch_id, rng_u64(&f->l->h->rng));
	r = msg_check(&msg_fetch, m, &why);
	if (r == 0)
		r = fetch_check(m, &why);
	if (r < 0)
		life_error(f, &(struct life_fault){ .part = LIFE_FETCH,
						    .err = -r,
						    .text = buf_str(&why) });
	return r == 0;
}

void life_start_fetch(struct life_frame *f)
{
	struct m_fetch m = { 0 };

	if (f->m.fetch_count == 0 || !fill_fetch(f, &m))
		return;
	f->wait_ns = m.timeout;
	life_ask(f, &f->fetch,
		 &(struct life_call){
		     .id = OP_FETCH,
		     .key = m.queues[0],
		     .d = &msg_fetch,
		     .m = &m,
		     .timeout_ns = m.timeout + f->l->h->set->op_timeout,
		     .timeout_err = ERR_LEADER_UNAVAILABLE,
		     .flags = RPC_CHANGES,
		     /* acks that come later wake it */
		     .any_order = m.timeout > 0,
		     .then = on_fetched,
		 });
	rpc_when_late(f->fetch.call, give_back_late, f->l->h);
}

void life_drop_fetch(struct life_frame *f)
{
	struct part *p = &f->fetch;

	if (p->call == NULL)
		return;
	(void)rpc_abandon(f->l->h->raftd, p->call, give_back_late, f->l->h);
	life_asked(p);
}

/* --- who leads --- */

/* Nothing has been done yet, and what of it is refused is for who does it to
 * say. */
static void send_away(struct life_frame *f, const struct m_node_status *m)
{
	life_refuse_frame(f, ERR_NOT_LEADER, STR("NOT_LEADER"));
	f->is_wrong = false;
	f->is_last = true;
	for (size_t i = 0; i < m->nodes_n; i++)
		if (str_eq(m->nodes[i].id, m->leader_id) &&
		    m->nodes[i].http.n > 0)
			MSG_SET(&f->reply, lifecycle_reply, leader_addr,
				arena_printf(&f->a, "http://%.*s",
					     STR_ARG(m->nodes[i].http)));
}

static void on_status(struct life_frame *f, _unused_ struct part *p,
		      const struct rpc_reply *reply)
{
	const struct m_node_status *m;

	m = life_decode(f, LIFE_WHOLE, 0, &msg_node_status, reply);
	if (m == NULL)
		life_refuse_frame(
		    f, reply->err != 0 ? reply->err : ERR_BAD_MESSAGE,
		    reply->err != 0 ? reply->body : STR_NULL);
	else if (m->leader)
		f->leads = true;
	else
		send_away(f, m);
}

void life_start_status(struct life_frame *f)
{
	static const struct m_nothing nothing;

	life_ask(f, &f->status,
		 &(struct life_call){
		     .id = QUERY_NODE_STATUS,
		     .d = &msg_nothing,
		     .m = &nothing,
		     .timeout_ns = f->l->h->set->op_timeout,
		     .timeout_err = ERR_LEADER_UNAVAILABLE,
		     .then = on_status,
		 });
}
