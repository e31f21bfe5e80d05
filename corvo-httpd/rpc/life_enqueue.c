/*
 * Jobs that frames add. See rpc/life_parts.h.
 *
 * Jobs that may depend on others of their request go by themselves: what goes
 * together is done as a whole or not at all.
 */
#include "req/job_check.h"
#include "rpc/life_parts.h"
#include "util/hash.h"

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
	tell_added(f, own, n, false);
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
