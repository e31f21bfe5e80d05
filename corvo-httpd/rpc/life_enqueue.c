/*
 * Jobs that frames add. See rpc/life_parts.h.
 *
 * Jobs that may depend on others of their request go by themselves: what goes
 * together is done as a whole or not at all. A frame that is refused so asks
 * for half of it, and again, until it has found the first job that has to be
 * refused; then for all that are left. But a frame that may be sent again stays
 * one request, and so do jobs that name each other.
 *
 * Each time is an entry of the log. So a queue that was full for one job is
 * full for those behind it, and nobody is asked about them.
 */
#include "req/job_check.h"
#include "rpc/life_parts.h"
#include "util/hash.h"
#include "util/turn.h"

/* After so many requests of a frame, what is refused is refused as one: sooner
 * where all of it may be sent again. */
#define ASKS_MAX      64
#define ASKS_FULL_MAX 24

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

static struct str together(struct life_frame *f, struct str text)
{
	return arena_printf(&f->a,
			    "refused together with others of the frame, of "
			    "which one says: %.*s",
			    STR_ARG(text));
}

/* Some would be added under the key, and then the frame that has been put right
 * is another one. */
static void refuse_rest(struct life_frame *f, bool *refused)
{
	struct str text = together(f, f->bad_job.text);

	for (size_t i = 0; i < f->m.enqueues_n && !turn_step(); i++) {
		if (refused[i])
			continue;
		refused[i] = true;
		life_refuse_item(f, LIFE_JOBS, i, f->bad_job.err, text);
	}
}

/* Those of the frame that are not refused; if nobody wants them any more, any
 * of them. */
static void choose(struct life_frame *f)
{
	size_t all = f->m.enqueues_n, n = 0;
	bool *refused = arena_zalloc(&f->a, all * sizeof(*refused));
	bool some = false;

	for (size_t i = 0; i < all && !turn_is_over(); i++) {
		turn_step();
		refused[i] = !is_job_ok(f, i);
		some |= refused[i];
	}
	if (some)
		life_refuse_refs(f, refused);
	if (some && f->m.idempotency_key.n > 0)
		refuse_rest(f, refused);
	f->places = arena_alloc(&f->a, all * sizeof(*f->places));
	for (size_t i = 0; i < all && !turn_step(); i++) {
		if (refused[i])
			continue;
		f->places[n] = i;
		f->m.enqueues[n++] = f->m.enqueues[i];
	}
	MSG_SET_LIST(&f->batch, enqueue_batch, jobs, f->m.enqueues, n);
	life_move_refs(f);
}

static void name_jobs(struct life_frame *f)
{
	struct m_enqueue_batch *b = &f->batch;

	for (size_t i = 0; i < b->jobs_n && !turn_step(); i++)
		job_give_ids(f->l->h, &f->a, &b->jobs[i]);
}

void life_prepare_enqueue(struct life_frame *f)
{
	struct m_enqueue_batch *b = &f->batch;
	struct str key = f->m.idempotency_key;
	bool is_over;

	if (f->m.enqueues_n == 0 ||
	    !life_text_ok(f, LIFE_JOBS, "idempotency_key", key,
			  LIMIT_UNIQUE_KEY_BYTES))
		return;
	turn_open();
	choose(f);
	is_over = turn_is_over();
	turn_close();
	if (is_over)
		return;
	if (b->jobs_n > 0 && key.n > 0) {
		MSG_SET(b, enqueue_batch, idempotency_hash,
			hash_jobs(f->l->h, b));
		MSG_SET(b, enqueue_batch, idempotency_key, key);
	}
	turn_open();
	name_jobs(f);
	turn_stride(); /* what follows is as long as the frame */
	turn_close();
}

/* --- by itself --- */

static void make_answers(struct life_frame *f)
{
	size_t n = f->m.enqueues_n;

	f->added = arena_zalloc(&f->a, n * sizeof(*f->added));
	f->ids = arena_alloc(&f->a, f->batch.jobs_n * sizeof(*f->ids));
	MSG_SET_LIST(&f->reply, lifecycle_reply, enqueued, f->added, n);
}

/* The n next jobs have been added; their texts are the frame's. */
static void tell_added(struct life_frame *f, const struct m_enqueue_reply *jobs,
		       size_t n, bool replayed)
{
	size_t ids_n = f->reply.enqueued_job_ids_n;

	if (f->added == NULL)
		make_answers(f);
	for (size_t i = 0; i < n; i++) {
		size_t place = f->places[f->settled_n + i];

		f->added[place] = enqueue_answer_of(&jobs[i]);
		f->added[place].replayed = replayed;
		f->ids[ids_n++] = jobs[i].job_id;
	}
	f->settled_n += n;
	MSG_SET_LIST(&f->reply, lifecycle_reply, enqueued_job_ids, f->ids,
		     ids_n);
}

static size_t left_of(const struct life_frame *f)
{
	return f->batch.jobs_n - f->settled_n;
}

/* Whether those that are asked for are added together or not at all. */
static bool is_bound(const struct life_frame *f)
{
	return f->has_refs || f->batch.idempotency_key.n > 0;
}

static bool may_split(const struct life_frame *f, int err)
{
	size_t max = err_again(err) == AGAIN_AFTER ? ASKS_FULL_MAX : ASKS_MAX;

	return f->asked_n > 1 && !is_bound(f) && f->asks_n < max;
}

/* Whether it is refused for what a job was refused for. One with a unique_key
 * may be there already; and of a chain it may have been another queue. */
static bool is_as_full(const struct m_enqueue *e, const struct m_enqueue *full,
		       int err)
{
	if (err == ERR_QUEUE_LIMIT && MSG_HAS(full, enqueue, chain))
		return false;
	return (err == ERR_QUEUE_FULL || err == ERR_QUEUE_LIMIT) &&
	       e->unique_key.n == 0 && str_eq(e->queue, full->queue);
}

/* Of those that are left, the ones for the queue of the job. */
static void refuse_as_full(struct life_frame *f, const struct m_enqueue *full,
			   const struct rpc_reply *reply)
{
	struct m_enqueue *jobs = f->batch.jobs;
	size_t n = f->settled_n;

	for (size_t i = n; i < f->batch.jobs_n; i++) {
		if (is_as_full(&jobs[i], full, reply->err)) {
			life_refuse_item(f, LIFE_JOBS, f->places[i], reply->err,
					 reply->body);
			continue;
		}
		f->places[n] = f->places[i];
		jobs[n++] = jobs[i];
	}
	f->batch.jobs_n = n;
}

/* All that were asked for, of which some may be good. */
static void refuse_asked(struct life_frame *f, const struct rpc_reply *reply)
{
	struct m_enqueue first = f->batch.jobs[f->settled_n];
	struct str text = reply->body;
	size_t n = f->asked_n;

	if (n > 1 && reply->err != ERR_IDEMPOTENCY_MISMATCH)
		text = together(f, text);
	for (size_t i = 0; i < n; i++)
		life_refuse_item(f, LIFE_JOBS, f->places[f->settled_n + i],
				 reply->err, text);
	f->settled_n += n;
	f->among_n = 0;
	if (n == 1)
		refuse_as_full(f, &first, reply);
}

static void on_refused(struct life_frame *f, const struct rpc_reply *reply)
{
	if (may_split(f, reply->err))
		f->among_n = f->asked_n;
	else
		refuse_asked(f, reply);
}

static void on_added(struct life_frame *f, const struct rpc_reply *reply)
{
	const struct m_enqueue_batch_reply *m =
	    life_decode(f, LIFE_JOBS, f->places[f->settled_n],
			&msg_enqueue_batch_reply, reply);

	if (m == NULL) {
		f->batch.jobs_n = f->settled_n; /* nor would the rest be */
		return;
	}
	REQUIRE(m->jobs_n == f->asked_n);
	tell_added(f, m->jobs, f->asked_n, m->replayed);
	f->among_n -= MIN(f->among_n, f->asked_n);
}

static void ask_more(struct life_frame *f);

static void on_enqueued(struct life_frame *f, _unused_ struct part *p,
			const struct rpc_reply *reply)
{
	if (life_is_about_items(reply->err))
		on_refused(f, reply);
	else
		on_added(f, reply);
	if (left_of(f) > 0)
		ask_more(f);
}

/* For all, or for half of those of which some cannot be added. */
static void ask_more(struct life_frame *f)
{
	struct m_enqueue_batch b = f->batch;

	f->asked_n =
	    f->among_n == 0 ? left_of(f) : MAX(f->among_n / 2, (size_t)1);
	f->asks_n++;
	MSG_SET_LIST(&b, enqueue_batch, jobs, b.jobs + f->settled_n,
		     f->asked_n);
	life_change(f, &f->enqueue, OP_ENQUEUE_BATCH, b.jobs[0].queue,
		    &msg_enqueue_batch, &b, on_enqueued);
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

static void refused(struct life_frame *f, const struct rpc_reply *reply)
{
	f->asked_n = left_of(f);
	on_enqueued(f, &f->enqueue, reply);
}

const struct gather_kind gather_jobs = {
	.part = LIFE_JOBS,
	.op = OP_ENQUEUE_BATCH,
	.item = &msg_enqueue,
	.reply = &msg_enqueue_batch_reply,
	.items = items,
	.encode = encode,
	.answered = answered,
	.tell = tell,
	.alone = ask_more,
	.refused = refused,
};

void life_start_enqueue(struct life_frame *f)
{
	if (f->batch.jobs_n == 0)
		return;
	if (may_go_together(f))
		life_gather(f, GATHER_JOBS, f->batch.jobs_n);
	else
		ask_more(f);
}
