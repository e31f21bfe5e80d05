/*
 * Jobs that frames add. See rpc/life_parts.h.
 *
 * What frames of one turn add, whosever they are, goes into the log as one
 * operation: a producer that sends one job a frame would otherwise pay for each
 * what a batch costs. It is done as a whole or not at all. When it is refused
 * for what somebody's jobs are, each frame asks by itself and hears of its own.
 *
 * Jobs that may depend on others of their request go by themselves. So do large
 * frames, which need no company.
 */
#include <stdlib.h>

#include "req/job_check.h"
#include "rpc/life_parts.h"
#include "util/clock.h"
#include "util/hash.h"

#define GATHER_JOBS  64
#define GATHER_BYTES (64u << 10)

/* Frames that go together. */
struct gather {
	struct lifecycles *all;
	struct list frames;
	size_t frames_n;
	size_t jobs_n, bytes;
	struct rpc_call *call; /* NULL: it gathers yet */
};

/* --- what may be added --- */

static bool is_job_ok(struct life_frame *f, const struct m_enqueue *e)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);
	int r;

	if (!life_item_ok(f, "enqueue: ", &msg_enqueue, e))
		return false;
	r = job_check(f->l->h->set, e, &why);
	if (r < 0)
		life_error(f, "enqueue: ", -r, buf_str(&why));
	return r == 0;
}

/* Of the jobs, before they have ids: what else a frame that is sent again
 * says may differ. */
static uint64_t hash_jobs(struct httpd *h, const struct m_enqueue_batch *b)
{
	buf_clear(&h->scratch);
	msg_encode(&msg_enqueue_batch, b, &h->scratch);
	return hash_stable(h->scratch.p, h->scratch.n) | 1;
}

void life_prepare_enqueue(struct life_frame *f)
{
	struct m_enqueue_batch *b = &f->batch;
	size_t n = 0;

	for (size_t i = 0; i < f->m.enqueues_n; i++)
		if (is_job_ok(f, &f->m.enqueues[i]))
			f->m.enqueues[n++] = f->m.enqueues[i];
	MSG_SET_LIST(b, enqueue_batch, jobs, f->m.enqueues, n);
	if (n > 0 && f->m.idempotency_key.n > 0) {
		MSG_SET(b, enqueue_batch, idempotency_hash,
			hash_jobs(f->l->h, b));
		MSG_SET(b, enqueue_batch, idempotency_key,
			f->m.idempotency_key);
	}
	for (size_t i = 0; i < n; i++)
		job_give_ids(f->l->h, &f->a, &b->jobs[i]);
}

/* --- by itself --- */

/* The n jobs it has added; their texts are the frame's. */
static void tell_added(struct life_frame *f, struct m_enqueue_reply *jobs,
		       size_t n, bool replayed)
{
	struct m_enqueue_answer *a = arena_zalloc(&f->a, n * sizeof(*a));
	struct str *ids = arena_alloc(&f->a, n * sizeof(*ids));

	for (size_t i = 0; i < n; i++) {
		ids[i] = jobs[i].job_id;
		a[i] = enqueue_answer_of(&jobs[i]);
		a[i].replayed = replayed;
	}
	MSG_SET_LIST(&f->reply, lifecycle_reply, enqueued_job_ids, ids, n);
	MSG_SET_LIST(&f->reply, lifecycle_reply, enqueued, a, n);
}

static void on_enqueued(struct life_frame *f, _unused_ struct part *p,
			const struct rpc_reply *reply)
{
	struct m_enqueue_batch_reply *m =
	    life_decode(f, "enqueue: ", &msg_enqueue_batch_reply, reply);

	if (m != NULL)
		tell_added(f, m->jobs, m->jobs_n, m->replayed);
}

static void start_alone(struct life_frame *f)
{
	const struct m_enqueue_batch *b = &f->batch;

	life_change(f, &f->enqueue, OP_ENQUEUE_BATCH, b->jobs[0].queue,
		    &msg_enqueue_batch, b, on_enqueued);
}

/* --- together --- */

static bool is_plain(const struct m_enqueue *e)
{
	return e->depends_on_n == 0 && e->unique_key.n == 0 &&
	       e->batch_id.n == 0 && !MSG_HAS(e, enqueue, chain);
}

static bool may_go_together(const struct life_frame *f)
{
	const struct m_enqueue_batch *b = &f->batch;

	if (b->jobs_n > GATHER_JOBS / 2 || f->bytes_n > GATHER_BYTES / 2 ||
	    b->idempotency_key.n > 0)
		return false;
	for (size_t i = 0; i < b->jobs_n; i++)
		if (!is_plain(&b->jobs[i]))
			return false;
	return true;
}

/* It has its answer, or needs none. */
static void take_out(struct life_frame *f)
{
	list_remove(&f->gathered);
	f->gather->frames_n--;
	f->gather = NULL;
	f->open--;
}

/* A job's texts are those of the reply to all. */
static void tell_share(struct life_frame *f, const struct m_enqueue_reply *jobs)
{
	size_t n = f->batch.jobs_n;
	struct m_enqueue_reply *own = arena_alloc(&f->a, n * sizeof(*own));

	memcpy(own, jobs, n * sizeof(*own));
	for (size_t i = 0; i < n; i++) {
		own[i].job_id = f->batch.jobs[i].job_id;
		CHECK(str_eq(own[i].job_id, jobs[i].job_id));
		CHECK(own[i].batch_id.n == 0);
	}
	tell_added(f, own, n, false);
}

/* It is refused for what some of the jobs are. */
static bool is_about_jobs(int err)
{
	return err_again(err) == AGAIN_NO || err == ERR_QUEUE_FULL ||
	       err == ERR_QUEUE_LIMIT;
}

static void tell_frame(struct life_frame *f, const struct rpc_reply *reply,
		       const struct m_enqueue_batch_reply *m, bool ask_again)
{
	size_t at = f->gather_at;

	take_out(f);
	if (ask_again)
		start_alone(f);
	else if (m != NULL)
		tell_share(f, m->jobs + at);
	else
		life_error(f, "enqueue: ",
			   reply->err != 0 ? reply->err : ERR_BAD_MESSAGE,
			   reply->err != 0 ? reply->body : STR_NULL);
	life_settle(f);
}

static void on_gathered(void *ctx, const struct rpc_reply *reply)
{
	struct gather *g = ctx;
	struct httpd *h = g->all->h;
	struct arena a = { 0 };
	struct m_enqueue_batch_reply m;
	bool ask_again = g->frames_n > 1 && is_about_jobs(reply->err);
	bool is_good =
	    reply->err == 0 &&
	    msg_decode(&msg_enqueue_batch_reply, reply->body, &a, &m) == 0 &&
	    m.jobs_n == g->jobs_n;

	g->call = NULL;
	h->seq = MAX(h->seq, reply->seq);
	while (!list_empty(&g->frames))
		tell_frame(
		    list_entry(g->frames.next, struct life_frame, gathered),
		    reply, is_good ? &m : NULL, ask_again);
	arena_done(&a);
	free(g);
}

void life_gather_send(struct lifecycles *all)
{
	struct gather *g = all->gather;
	struct httpd *h = all->h;
	struct m_enqueue_batch b = { 0 };
	struct m_enqueue jobs[GATHER_JOBS];
	size_t n = 0;

	if (g == NULL)
		return;
	all->gather = NULL;
	LIST_FOREACH (it, &g->frames) {
		struct life_frame *f =
		    list_entry(it, struct life_frame, gathered);

		f->l->gathers = false;
		f->gather_at = n;
		memcpy(jobs + n, f->batch.jobs,
		       f->batch.jobs_n * sizeof(jobs[0]));
		n += f->batch.jobs_n;
	}
	CHECK(n == g->jobs_n && n > 0);
	MSG_SET_LIST(&b, enqueue_batch, jobs, jobs, n);
	buf_clear(&h->scratch);
	msg_encode(&msg_enqueue_batch, &b, &h->scratch);
	CHECK(!h->scratch.full);
	g->call = rpc_call(
	    h->raftd, OP_ENQUEUE_BATCH, jobs[0].queue, buf_str(&h->scratch),
	    clock_mono_ns() + h->set->op_timeout, ERR_LEADER_UNAVAILABLE,
	    RPC_CHANGES | RPC_KEEP, on_gathered, g);
}

static struct gather *gather_for(struct life_frame *f)
{
	struct lifecycles *all = f->l->all;
	struct gather *g = all->gather;

	if (g != NULL && (g->jobs_n + f->batch.jobs_n > GATHER_JOBS ||
			  g->bytes + f->bytes_n > GATHER_BYTES))
		life_gather_send(all);
	if (all->gather == NULL) {
		g = all->gather = xcalloc(1, sizeof(*g));
		g->all = all;
		list_init(&g->frames);
	}
	return all->gather;
}

void life_start_enqueue(struct life_frame *f)
{
	struct gather *g;

	if (f->batch.jobs_n == 0)
		return;
	if (!may_go_together(f)) {
		start_alone(f);
		return;
	}
	g = gather_for(f);
	f->gather = g;
	f->open++;
	f->l->gathers = true;
	list_push_back(&g->frames, &f->gathered);
	g->frames_n++;
	g->jobs_n += f->batch.jobs_n;
	g->bytes += f->bytes_n;
	if (g->jobs_n < GATHER_JOBS)
		return;
	/* the log need not wait for the rest of the turn */
	life_gather_send(g->all);
	rpc_client_flush(f->l->h->raftd);
}

void life_drop_enqueue(struct life_frame *f)
{
	struct gather *g = f->gather;

	if (g == NULL)
		return;
	take_out(f);
	if (g->call == NULL) {
		g->jobs_n -= f->batch.jobs_n;
		g->bytes -= f->bytes_n;
	}
	if (g->frames_n > 0)
		return;
	if (g->call != NULL)
		rpc_cancel(g->all->h->raftd, g->call);
	else
		g->all->gather = NULL;
	free(g);
}
