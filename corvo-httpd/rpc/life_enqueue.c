/*
 * Jobs that frames add. See rpc/life_parts.h.
 *
 * Jobs that may depend on others of their request go by themselves: what goes
 * together is done as a whole or not at all. A frame that is refused so asks
 * for its halves, and again, until only those are refused that have to be; but
 * a frame that may be sent again stays one request, and so do jobs that name
 * each other.
 */
#include "req/job_check.h"
#include "rpc/life_parts.h"
#include "util/hash.h"

/* A frame is asked for in parts so often; what is refused then is refused as
 * one. */
#define SPLITS_MAX 64

/* --- what may be added --- */

static bool is_job_ok(struct life_frame *f, size_t i)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);
	const struct m_enqueue *e = &f->m.enqueues[i];
	int r;

	if (!life_item_ok(f, LIFE_JOBS, i, e))
		return false;
	r = job_check(f->l->h->set, e, &why);
	if (r < 0)
		life_refuse_item(f, LIFE_JOBS, i, -r, buf_str(&why));
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

/* Those of the frame that are not refused. */
static void choose(struct life_frame *f)
{
	size_t all = f->m.enqueues_n, n = 0;
	bool *refused = arena_zalloc(&f->a, all * sizeof(*refused));
	bool some = false;

	for (size_t i = 0; i < all; i++) {
		refused[i] = !is_job_ok(f, i);
		some |= refused[i];
	}
	if (some)
		life_refuse_refs(f, refused);
	f->places = arena_alloc(&f->a, all * sizeof(*f->places));
	for (size_t i = 0; i < all; i++) {
		if (refused[i])
			continue;
		f->places[n] = i;
		f->m.enqueues[n++] = f->m.enqueues[i];
	}
	MSG_SET_LIST(&f->batch, enqueue_batch, jobs, f->m.enqueues, n);
	life_move_refs(f);
}

void life_prepare_enqueue(struct life_frame *f)
{
	struct m_enqueue_batch *b = &f->batch;

	if (f->m.enqueues_n == 0)
		return;
	choose(f);
	if (b->jobs_n > 0 && f->m.idempotency_key.n > 0) {
		MSG_SET(b, enqueue_batch, idempotency_hash,
			hash_jobs(f->l->h, b));
		MSG_SET(b, enqueue_batch, idempotency_key,
			f->m.idempotency_key);
	}
	for (size_t i = 0; i < b->jobs_n; i++)
		job_give_ids(f->l->h, &f->a, &b->jobs[i]);
}

/* --- by itself --- */

static void make_answers(struct life_frame *f)
{
	size_t n = f->m.enqueues_n;

	f->added = arena_zalloc(&f->a, n * sizeof(*f->added));
	f->ids = arena_alloc(&f->a, f->batch.jobs_n * sizeof(*f->ids));
	MSG_SET_LIST(&f->reply, lifecycle_reply, enqueued, f->added, n);
}

/* The n jobs from that one on have been added; their texts are the frame's. */
static void tell_added(struct life_frame *f, size_t from,
		       const struct m_enqueue_reply *jobs, size_t n,
		       bool replayed)
{
	size_t ids_n = f->reply.enqueued_job_ids_n;

	if (f->added == NULL)
		make_answers(f);
	for (size_t i = 0; i < n; i++) {
		struct m_enqueue_answer *a = &f->added[f->places[from + i]];

		*a = enqueue_answer_of(&jobs[i]);
		a->replayed = replayed;
		f->ids[ids_n++] = jobs[i].job_id;
	}
	MSG_SET_LIST(&f->reply, lifecycle_reply, enqueued_job_ids, f->ids,
		     ids_n);
}

static void start_range(struct life_frame *f);

static void add_range(struct life_frame *f, size_t from, size_t n)
{
	REQUIRE(f->ranges_n < LIFE_RANGES && n > 0);
	f->ranges[f->ranges_n++] = (struct job_range){ from, n };
}

static bool may_split(const struct life_frame *f, const struct job_range *g)
{
	return g->n > 1 && !f->has_refs && f->splits_n < SPLITS_MAX &&
	       f->batch.idempotency_key.n == 0;
}

static void refuse_range(struct life_frame *f, const struct job_range *g,
			 const struct rpc_reply *reply)
{
	for (size_t i = 0; i < g->n; i++)
		life_refuse_item(f, LIFE_JOBS, f->places[g->from + i],
				 reply->err, reply->body);
}

static void on_refused(struct life_frame *f, const struct job_range *g,
		       const struct rpc_reply *reply)
{
	size_t half = g->n / 2;

	if (!may_split(f, g)) {
		refuse_range(f, g, reply);
		return;
	}
	f->splits_n++;
	add_range(f, g->from + half, g->n - half);
	add_range(f, g->from, half);
}

static void on_added(struct life_frame *f, const struct job_range *g,
		     const struct rpc_reply *reply)
{
	const struct m_enqueue_batch_reply *m =
	    life_decode(f, "enqueue: ", &msg_enqueue_batch_reply, reply);

	if (m == NULL) {
		f->ranges_n = 0; /* nor would the rest be */
		return;
	}
	REQUIRE(m->jobs_n == g->n);
	tell_added(f, g->from, m->jobs, g->n, m->replayed);
}

static void on_enqueued(struct life_frame *f, _unused_ struct part *p,
			const struct rpc_reply *reply)
{
	const struct job_range g = f->ranges[--f->ranges_n];

	if (life_is_about_items(reply->err))
		on_refused(f, &g, reply);
	else
		on_added(f, &g, reply);
	if (f->ranges_n > 0)
		start_range(f);
}

static void start_range(struct life_frame *f)
{
	const struct job_range *g = &f->ranges[f->ranges_n - 1];
	struct m_enqueue_batch b = f->batch;

	MSG_SET_LIST(&b, enqueue_batch, jobs, f->batch.jobs + g->from, g->n);
	life_change(f, &f->enqueue, OP_ENQUEUE_BATCH, b.jobs[0].queue,
		    &msg_enqueue_batch, &b, on_enqueued);
}

static void start_alone(struct life_frame *f)
{
	add_range(f, 0, f->batch.jobs_n);
	start_range(f);
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

	if (!life_may_gather(f, b->jobs_n) || b->idempotency_key.n > 0)
		return false;
	for (size_t i = 0; i < b->jobs_n; i++)
		if (!is_plain(&b->jobs[i]))
			return false;
	return true;
}

static void *items(struct life_frame *f)
{
	return f->batch.jobs;
}

static struct str encode(void *all, size_t n, struct buf *out)
{
	struct m_enqueue *jobs = all;
	struct m_enqueue_batch b = { 0 };

	MSG_SET_LIST(&b, enqueue_batch, jobs, jobs, n);
	msg_encode(&msg_enqueue_batch, &b, out);
	return jobs[0].queue;
}

static size_t answered(const void *reply)
{
	const struct m_enqueue_batch_reply *m = reply;

	return m->jobs_n;
}

/* A job's texts are those of the reply to all. */
static void tell(struct life_frame *f, size_t at, const void *reply)
{
	const struct m_enqueue_batch_reply *m = reply;
	size_t n = f->batch.jobs_n;
	struct m_enqueue_reply *own = arena_alloc(&f->a, n * sizeof(*own));

	memcpy(own, m->jobs + at, n * sizeof(*own));
	for (size_t i = 0; i < n; i++) {
		REQUIRE(str_eq(own[i].job_id, f->batch.jobs[i].job_id));
		REQUIRE(own[i].batch_id.n == 0);
		own[i].job_id = f->batch.jobs[i].job_id;
	}
	tell_added(f, 0, own, n, false);
}

static void refused(struct life_frame *f, const struct rpc_reply *reply)
{
	add_range(f, 0, f->batch.jobs_n);
	on_enqueued(f, &f->enqueue, reply);
}

const struct gather_kind gather_jobs = {
	.what = "enqueue: ",
	.op = OP_ENQUEUE_BATCH,
	.item = &msg_enqueue,
	.reply = &msg_enqueue_batch_reply,
	.items = items,
	.encode = encode,
	.answered = answered,
	.tell = tell,
	.alone = start_alone,
	.refused = refused,
};

void life_start_enqueue(struct life_frame *f)
{
	if (f->batch.jobs_n == 0)
		return;
	if (may_go_together(f))
		life_gather(f, GATHER_JOBS, f->batch.jobs_n);
	else
		start_alone(f);
}
