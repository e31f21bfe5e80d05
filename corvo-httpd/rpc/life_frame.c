/*
 * One frame: from its bytes to operations, from their replies to its answer.
 * See rpc/lifecycle.h. The bytes are hostile.
 *
 * Acks, fails, heartbeats and the fetch are asked for together; in the log acks
 * come first, so that what they free can be fetched. Jobs to add follow when
 * the fetch is answered, so that a frame is not given its own jobs; unless it
 * waits for jobs, which may take a minute.
 */
#include <stdio.h>
#include <stdlib.h>

#include "proto/job.h"
#include "req/give_back.h"
#include "req/job_check.h"
#include "rpc/lifecycle.h"
#include "util/clock.h"
#include "util/hash.h"

#define WAIT_MAX_NS  (LIMIT_FETCH_WAIT_S * NS_PER_S)
#define LEASE_MAX_NS (LIMIT_LEASE_S * NS_PER_S)
#define ARENA_BLOCK  1024

struct part;
typedef void part_fn(struct life_frame *f, struct part *p,
		     const struct rpc_reply *reply);

/* One operation of it. */
struct part {
	struct life_frame *f;
	struct rpc_call *call; /* NULL: none under way */
	part_fn *then;
	size_t index; /* of fails */
	bool is_fetch;
};

struct life_frame {
	struct list node; /* in lifecycle.frames */
	struct lifecycle *l;
	struct arena a;
	size_t counted; /* bytes of it in lifecycle.kept */
	struct m_lifecycle m;
	struct m_lifecycle_reply reply;
	struct part ack, fetch, enqueue, beat, status;
	struct part *fails; /* one for each */
	size_t open;        /* parts under way */
	bool adds_later;    /* jobs are added when the fetch is answered */
	bool waits;
	bool is_working; /* counted in lifecycles.inflight */
	bool is_starting;
	bool is_wrong;   /* an error that is no overload */
	bool is_last;    /* the stream ends with it */
	bool asks_first; /* who leads, before anything else */
	struct m_enqueue_batch batch;
};

struct life_frame *life_frame_of(struct list *node)
{
	return list_entry(node, struct life_frame, node);
}

bool life_frame_is_done(const struct life_frame *f)
{
	return f->open == 0 && !f->is_starting;
}

bool life_frame_waits(const struct life_frame *f)
{
	return f->waits;
}

static void count(struct life_frame *f)
{
	size_t now = sizeof(*f) + arena_bytes(&f->a);

	f->l->kept += now - f->counted;
	f->counted = now;
}

static void stop_working(struct life_frame *f)
{
	if (!f->is_working)
		return;
	f->is_working = false;
	lifecycles_release(f->l->all);
}

/* --- errors --- */

/* The first one is told. what: which part it was. */
static void note_error(struct life_frame *f, const char *what, int err,
		       struct str text)
{
	bool is_overload = err_rpc(err) == CODE_RESOURCE_EXHAUSTED;

	if (is_overload)
		f->l->h->calls.overloads++;
	else
		f->is_wrong = true;
	if (f->reply.error.n > 0)
		return;
	if (text.n == 0)
		text = str_from(err_text(err));
	MSG_SET(&f->reply, lifecycle_reply, error,
		arena_printf(&f->a, "%s%s%.*s",
			     is_overload ? "OVERLOADED: " : "", what,
			     STR_ARG(text)));
	MSG_SET(&f->reply, lifecycle_reply, code, str_from(err_code(err)));
	if (err_again(err) == AGAIN_AFTER)
		MSG_SET(&f->reply, lifecycle_reply, retry_after_ms, 1000);
}

/* Checks one item by its table; false: it is left out. */
static bool is_item_ok(struct life_frame *f, const char *what,
		       const struct msg_desc *d, const void *m)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);
	int r = msg_check(d, m, &why);

	if (r < 0)
		note_error(f, what, -r, buf_str(&why));
	return r == 0;
}

/* --- asking --- */

static void settle(struct life_frame *f);

static void on_reply(void *ctx, const struct rpc_reply *reply)
{
	struct part *p = ctx;
	struct life_frame *f = p->f;

	p->call = NULL;
	f->open--;
	f->l->h->seq = MAX(f->l->h->seq, reply->seq);
	p->then(f, p, reply);
	settle(f);
}

/* A resend is recognised by its id, so none is done twice. */
static void ask(struct life_frame *f, struct part *p, unsigned op,
		struct str key, const struct msg_desc *d, const void *m,
		part_fn *then)
{
	struct httpd *h = f->l->h;

	buf_clear(&h->scratch);
	msg_encode(d, m, &h->scratch);
	p->f = f;
	p->then = then;
	f->open++;
	p->call = rpc_call(h->raftd, op, key, buf_str(&h->scratch),
			   clock_mono_ns() + h->set->op_timeout,
			   ERR_LEADER_UNAVAILABLE, RPC_CHANGES | RPC_KEEP,
			   on_reply, p);
}

/* The decoded reply in the frame's arena; NULL: an error has been noted. */
static void *decode(struct life_frame *f, const char *what,
		    const struct msg_desc *d, const struct rpc_reply *reply)
{
	void *m;

	if (reply->err != 0) {
		note_error(f, what, reply->err, reply->body);
		return NULL;
	}
	m = arena_alloc(&f->a, d->size);
	if (msg_decode(d, arena_copy(&f->a, reply->body), &f->a, m) == 0)
		return m;
	note_error(f, what, ERR_BAD_MESSAGE, STR_NULL);
	return NULL;
}

/* --- acks --- */

static void on_acked(struct life_frame *f, _unused_ struct part *p,
		     const struct rpc_reply *reply)
{
	struct m_ack_batch_reply *m =
	    decode(f, "ack: ", &msg_ack_batch_reply, reply);

	if (m == NULL)
		return;
	MSG_SET(&f->reply, lifecycle_reply, acked, m->acked);
	MSG_SET_LIST(&f->reply, lifecycle_reply, refused, m->refused,
		     m->refused_n);
}

static void start_acks(struct life_frame *f)
{
	struct m_ack_batch m = { 0 };
	size_t n = 0;

	for (size_t i = 0; i < f->m.acks_n; i++) {
		if (!is_item_ok(f, "ack: ", &msg_ack_item, &f->m.acks[i]))
			continue;
		pushed_remove(f->l, f->m.acks[i].job_id);
		f->m.acks[n++] = f->m.acks[i];
	}
	if (n == 0)
		return;
	MSG_SET_LIST(&m, ack_batch, acks, f->m.acks, n);
	ask(f, &f->ack, OP_ACK_BATCH, STR_NULL, &msg_ack_batch, &m, on_acked);
}

/* --- fails --- */

static void on_failed(struct life_frame *f, struct part *p,
		      const struct rpc_reply *reply)
{
	struct m_fail_result *r = &f->reply.failed[p->index];
	struct m_fail_reply *m;

	if (reply->err != 0) {
		MSG_SET(r, fail_result, code, str_from(err_code(reply->err)));
		MSG_SET(r, fail_result, error, arena_copy(&f->a, reply->body));
	}
	m = decode(f, "fail: ", &msg_fail_reply, reply);
	if (m == NULL)
		return;
	MSG_SET(r, fail_result, status, m->status);
	if (MSG_HAS(m, fail_reply, next_attempt_at))
		MSG_SET(r, fail_result, next_attempt_at, m->next_attempt_at);
	MSG_SET(r, fail_result, attempts_remaining, m->attempts_remaining);
}

static void start_fails(struct life_frame *f)
{
	size_t n = f->m.fails_n;

	if (n == 0)
		return;
	f->fails = arena_zalloc(&f->a, n * sizeof(*f->fails));
	MSG_SET_LIST(&f->reply, lifecycle_reply, failed,
		     arena_zalloc(&f->a, n * sizeof(*f->reply.failed)), n);
	for (size_t i = 0; i < n; i++) {
		const struct m_fail *m = &f->m.fails[i];

		MSG_SET(&f->reply.failed[i], fail_result, job_id, m->job_id);
		if (!is_item_ok(f, "fail: ", &msg_fail, m)) {
			MSG_SET(&f->reply.failed[i], fail_result, code,
				STR("VALIDATION_ERROR"));
			continue;
		}
		pushed_remove(f->l, m->job_id);
		f->fails[i].index = i;
		ask(f, &f->fails[i], OP_FAIL, STR_NULL, &msg_fail, m,
		    on_failed);
	}
}

/* --- heartbeats --- */

static void on_beaten(struct life_frame *f, _unused_ struct part *p,
		      const struct rpc_reply *reply)
{
	struct m_heartbeat_reply *m =
	    decode(f, "heartbeat: ", &msg_heartbeat_reply, reply);

	if (m != NULL)
		MSG_SET_LIST(&f->reply, lifecycle_reply, heartbeats, m->jobs,
			     m->jobs_n);
}

static void start_beats(struct life_frame *f)
{
	struct m_heartbeat m = { 0 };
	size_t n = 0;

	for (size_t i = 0; i < f->m.heartbeats_n; i++)
		if (is_item_ok(f, "heartbeat: ", &msg_beat,
			       &f->m.heartbeats[i]))
			f->m.heartbeats[n++] = f->m.heartbeats[i];
	if (n == 0)
		return;
	if (f->m.worker_id.n > 0)
		MSG_SET(&m, heartbeat, worker_id, f->m.worker_id);
	MSG_SET_LIST(&m, heartbeat, jobs, f->m.heartbeats, n);
	ask(f, &f->beat, OP_HEARTBEAT, STR_NULL, &msg_heartbeat, &m, on_beaten);
}

/* --- jobs to add --- */

static void on_enqueued(struct life_frame *f, _unused_ struct part *p,
			const struct rpc_reply *reply)
{
	struct m_enqueue_batch_reply *m =
	    decode(f, "enqueue: ", &msg_enqueue_batch_reply, reply);
	struct m_enqueue_answer *a;

	if (m == NULL)
		return;
	MSG_SET_LIST(&f->reply, lifecycle_reply, enqueued_job_ids, m->job_ids,
		     m->job_ids_n);
	a = arena_zalloc(&f->a, m->jobs_n * sizeof(*a));
	for (size_t i = 0; i < m->jobs_n; i++) {
		a[i] = enqueue_answer_of(&m->jobs[i]);
		a[i].replayed = m->replayed;
	}
	MSG_SET_LIST(&f->reply, lifecycle_reply, enqueued, a, m->jobs_n);
}

static void start_enqueue(struct life_frame *f)
{
	struct m_enqueue_batch *b = &f->batch;

	if (b->jobs_n > 0)
		ask(f, &f->enqueue, OP_ENQUEUE_BATCH, b->jobs[0].queue,
		    &msg_enqueue_batch, b, on_enqueued);
}

static bool is_job_ok(struct life_frame *f, const struct m_enqueue *e)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);
	int r;

	if (!is_item_ok(f, "enqueue: ", &msg_enqueue, e))
		return false;
	r = job_check(f->l->h->set, e, &why);
	if (r < 0)
		note_error(f, "enqueue: ", -r, buf_str(&why));
	return r == 0;
}

/* Those that can be added; their ids are made once. */
static void prepare_enqueue(struct life_frame *f, struct str bytes)
{
	struct m_enqueue_batch *b = &f->batch;
	size_t n = 0;

	for (size_t i = 0; i < f->m.enqueues_n; i++)
		if (is_job_ok(f, &f->m.enqueues[i])) {
			f->m.enqueues[n] = f->m.enqueues[i];
			job_give_ids(f->l->h, &f->a, &f->m.enqueues[n++]);
		}
	MSG_SET_LIST(b, enqueue_batch, jobs, f->m.enqueues, n);
	if (f->m.idempotency_key.n == 0)
		return;
	MSG_SET(b, enqueue_batch, idempotency_key, f->m.idempotency_key);
	MSG_SET(b, enqueue_batch, idempotency_hash,
		hash_stable(bytes.p, bytes.n) | 1);
}

/* --- the fetch --- */

static void give_all_back(struct life_frame *f)
{
	for (size_t i = 0; i < f->reply.jobs_n; i++) {
		struct m_fail m = fetched_give_back(&f->reply.jobs[i]);

		give_back_job(f->l->h, &m);
	}
	f->reply.jobs_n = 0;
}

static void on_fetched(struct life_frame *f, _unused_ struct part *p,
		       const struct rpc_reply *reply)
{
	struct m_fetch_reply *m;

	/* It came again to a restarted raftd and began its wait anew. */
	if (reply->err == ERR_REQUEST_TIMEOUT &&
	    rpc_client_is_up(f->l->h->raftd))
		return;
	if (reply->err == ERR_REQUEST_TIMEOUT) {
		note_error(f, "fetch: ", ERR_LEADER_UNAVAILABLE, STR_NULL);
		return;
	}
	m = decode(f, "fetch: ", &msg_fetch_reply, reply);
	if (m == NULL)
		return;
	MSG_SET_LIST(&f->reply, lifecycle_reply, jobs, m->jobs, m->jobs_n);
	if (m->jobs_n > 0 &&
	    !exchange_fits_answer(&f->l->r->x, 2 * reply->body.n, true)) {
		give_all_back(f);
		note_error(f, "fetch: ", ERR_OVERLOADED, REQ_NO_ROOM);
	}
}

/* An empty fetch waits a little, so that workers that only poll do it slowly;
 * a job that comes meanwhile ends the wait. */
static uint64_t wait_of(const struct life_frame *f)
{
	if (f->l->h->draining)
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
	if (!is_item_ok(f, "fetch: ", &msg_fetch, m))
		return false;
	if (m->lease_duration <= LEASE_MAX_NS)
		return true;
	note_error(f, "fetch: ", ERR_VALIDATION_ERROR,
		   STR("lease_duration: must be at most a day"));
	return false;
}

static void start_fetch(struct life_frame *f)
{
	struct httpd *h = f->l->h;
	struct m_fetch m = { 0 };

	if (f->m.fetch_count == 0 || !fill_fetch(f, &m))
		return;
	buf_clear(&h->scratch);
	msg_encode(&msg_fetch, &m, &h->scratch);
	f->fetch =
	    (struct part){ .f = f, .then = on_fetched, .is_fetch = true };
	f->open++;
	f->fetch.call =
	    rpc_call(h->raftd, OP_FETCH, m.queues[0], buf_str(&h->scratch),
		     clock_mono_ns() + m.timeout + h->set->op_timeout,
		     ERR_REQUEST_TIMEOUT, 0, on_reply, &f->fetch);
}

/* --- who leads --- */

static void on_status(struct life_frame *f, _unused_ struct part *p,
		      const struct rpc_reply *reply)
{
	struct m_node_status *m = decode(f, "", &msg_node_status, reply);

	if (m == NULL || m->leader)
		return;
	for (size_t i = 0; i < m->nodes_n; i++)
		if (str_eq(m->nodes[i].id, m->leader_id) &&
		    m->nodes[i].http.n > 0)
			MSG_SET(&f->reply, lifecycle_reply, leader_addr,
				arena_printf(&f->a, "http://%.*s",
					     STR_ARG(m->nodes[i].http)));
	MSG_SET(&f->reply, lifecycle_reply, error, STR("NOT_LEADER"));
	f->is_last = true;
}

static void start_status(struct life_frame *f)
{
	static const struct m_nothing nothing;
	struct httpd *h = f->l->h;

	buf_clear(&h->scratch);
	msg_encode(&msg_nothing, &nothing, &h->scratch);
	f->status = (struct part){ .f = f, .then = on_status };
	f->open++;
	f->status.call =
	    rpc_call(h->raftd, QUERY_NODE_STATUS, STR_NULL,
		     buf_str(&h->scratch), clock_mono_ns() + h->set->op_timeout,
		     ERR_LEADER_UNAVAILABLE, 0, on_reply, &f->status);
}

/* --- its life --- */

static void start_work(struct life_frame *f)
{
	start_acks(f);
	start_fails(f);
	start_beats(f);
	start_fetch(f);
	if (f->adds_later && f->open > 0)
		return;
	f->adds_later = false;
	start_enqueue(f);
}

/* Something of it has ended. */
static void settle(struct life_frame *f)
{
	if (f->is_starting)
		return;
	if (f->open == 0 && f->asks_first) {
		f->asks_first = false;
		if (f->reply.error.n == 0) /* this node leads */
			start_work(f);
	} else if (f->open == 0 && f->adds_later) {
		f->adds_later = false;
		start_enqueue(f);
	}
	count(f);
	/* one that only waits for jobs is no work */
	if (f->open == 0 || (f->open == 1 && f->waits && f->fetch.call != NULL))
		stop_working(f);
	if (f->open == 0)
		lifecycle_done(f->l);
}

static void read_frame(struct life_frame *f, struct str bytes)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);
	struct msg_reader rd = { .a = &f->a,
				 .why = &why,
				 .compat_03 = f->l->h->compat_03 };
	int r = remote_parse_unchecked(f->l->r, bytes, &rd,
				       &pb_LifecycleStreamRequest, &f->m);

	MSG_SET(&f->reply, lifecycle_reply, request_id, f->m.request_id);
	if (r < 0) {
		note_error(f, "", -r, buf_str(&why));
		return;
	}
	f->waits = f->m.fetch_count > 0 && f->m.wait > 0;
	f->adds_later = f->m.fetch_count > 0 && !f->waits;
	if (f->m.push_cancels)
		f->l->pushes = true;
	prepare_enqueue(f, bytes);
	f->asks_first = f->l->redirects;
	if (f->asks_first)
		start_status(f);
	else
		start_work(f);
}

void life_frame_begin(struct lifecycle *l, struct str bytes)
{
	struct life_frame *f = xcalloc(1, sizeof(*f));

	f->l = l;
	f->a.block_size = ARENA_BLOCK;
	f->is_working = true;
	f->is_starting = true;
	lifecycle_add(l, &f->node);
	read_frame(f, arena_copy(&f->a, bytes));
	f->is_starting = false;
	settle(f);
}

static void drop(struct life_frame *f, struct part *p)
{
	struct httpd *h = f->l->h;

	if (p->call == NULL)
		return;
	if (p->is_fetch)
		(void)rpc_abandon(h->raftd, p->call, give_back_late, h);
	else
		rpc_cancel(h->raftd, p->call);
	p->call = NULL;
	f->open--;
}

void life_frame_abandon(struct life_frame *f)
{
	struct part *parts[] = { &f->ack, &f->fetch, &f->enqueue, &f->beat,
				 &f->status };

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		drop(f, parts[i]);
	for (size_t i = 0; f->fails != NULL && i < f->m.fails_n; i++)
		drop(f, &f->fails[i]);
	give_all_back(f);
}

void life_frame_send(struct life_frame *f)
{
	struct lifecycle *l = f->l;

	CHECK(f->open == 0);
	lifecycle_judge(l, f->is_wrong);
	for (size_t i = 0; i < f->reply.jobs_n; i++)
		lifecycle_note_job(l, &f->reply.jobs[i]);
	flow_send(l->flow, &pb_LifecycleStreamResponse, &f->reply);
	if (f->is_last)
		flow_end(l->flow, 0, STR_NULL);
}

void life_frame_free(struct life_frame *f)
{
	CHECK(f->open == 0);
	stop_working(f);
	f->l->kept -= f->counted;
	list_remove(&f->node);
	arena_done(&f->a);
	free(f);
}
