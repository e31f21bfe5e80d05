/*
 * enqueue, enqueue_batch: new jobs. Ids were chosen before the entry was
 * proposed and are new, except in a resend, which may meet its own first try.
 */
#include "fsm_impl.h"

static uint64_t add_saturating(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? NEVER - 1 : sum;
}

static void fill_retry_rules(const struct m_enqueue *op, struct m_job_doc *d)
{
	MSG_SET(d, job_doc, max_retries,
		MSG_HAS(op, enqueue, max_retries) ? op->max_retries
						  : JOB_DEFAULT_MAX_RETRIES);
	MSG_SET(d, job_doc, retry_backoff,
		MSG_HAS(op, enqueue, retry_backoff) ? op->retry_backoff
						    : BACKOFF_EXPONENTIAL);
	MSG_SET(d, job_doc, retry_base_delay,
		MSG_HAS(op, enqueue, retry_base_delay)
		    ? op->retry_base_delay
		    : JOB_DEFAULT_BASE_DELAY_NS);
	MSG_SET(d, job_doc, retry_max_delay,
		MSG_HAS(op, enqueue, retry_max_delay)
		    ? op->retry_max_delay
		    : JOB_DEFAULT_MAX_DELAY_NS);
	if (op->retry_jitter > 0)
		MSG_SET(d, job_doc, retry_jitter, MIN(op->retry_jitter, 1.0));
}

static void fill_doc(struct fsm *f, const struct m_enqueue *op,
		     struct m_job_doc *d)
{
	*d = (struct m_job_doc){ 0 };
	if (op->payload.n > 0)
		MSG_SET(d, job_doc, payload, op->payload);
	MSG_SET(d, job_doc, queue, op->queue);
	MSG_SET(d, job_doc, priority,
		MSG_HAS(op, enqueue, priority) && op->priority < PRIORITIES
		    ? op->priority
		    : PRIORITY_NORMAL);
	fill_retry_rules(op, d);
	MSG_SET(d, job_doc, created_at, f->now_ns);
	MSG_SET(d, job_doc, seq, ++f->last_job_seq);
	if (op->scheduled_at > f->now_ns)
		MSG_SET(d, job_doc, scheduled_at, op->scheduled_at);
	if (op->expire_after > 0)
		MSG_SET(d, job_doc, expire_at,
			add_saturating(f->now_ns, op->expire_after));
	if (op->tags.n > 0)
		MSG_SET(d, job_doc, tags, op->tags);
	if (op->checkpoint.n > 0)
		MSG_SET(d, job_doc, checkpoint, op->checkpoint);
	if (op->parent_id.n > 0)
		MSG_SET(d, job_doc, parent_id, op->parent_id);
}

static uint64_t enqueued_event(struct fsm *f, const struct m_enqueue *op)
{
	struct m_event e = { 0 };

	MSG_SET(&e, event, type, EVENT_ENQUEUED);
	MSG_SET(&e, event, job_id, op->job_id);
	MSG_SET(&e, event, queue, op->queue);
	return fsm_event(f, &e);
}

/* The keys by which the new job is found. */
static void add_to_indexes(struct fsm *f, struct fsm_queue *q, struct str id,
			   const struct m_job_doc *d, struct str encoded)
{
	struct pending p = { d->seq, id, true, encoded };
	struct key k;

	if (d->scheduled_at != 0) {
		key_scheduled(&k, q->name, d->scheduled_at, id);
		txn_put(f->txn, key_str(&k), STR(""));
		queue_add_due(f, q, JOB_SCHEDULED, d->scheduled_at);
		queue_count(f, q, JOB_SCHEDULED, 1);
	} else {
		queue_count(f, q, JOB_PENDING, 1);
		queue_add_pending(f, q, (uint8_t)d->priority, &p);
	}
	if (d->expire_at != 0) {
		key_expiry(&k, d->expire_at, id);
		txn_put(f->txn, key_str(&k), STR(""));
		f->expiry_from = MIN(f->expiry_from, d->expire_at);
	}
}

static void fill_reply(struct str id, const struct m_job_doc *d,
		       struct m_enqueue_reply *ret)
{
	MSG_SET(ret, enqueue_reply, job_id, id);
	MSG_SET(ret, enqueue_reply, status,
		d->scheduled_at ? JOB_SCHEDULED : JOB_PENDING);
	MSG_SET(ret, enqueue_reply, unique_existing, false);
	MSG_SET(ret, enqueue_reply, created_at, d->created_at);
}

static void create_job(struct fsm *f, const struct m_enqueue *op,
		       struct m_enqueue_reply *ret)
{
	struct fsm_queue *q = queue_get(f, op->queue);
	struct m_job_doc doc;
	struct key k;

	fill_doc(f, op, &doc);
	MSG_SET(&doc, job_doc, event, enqueued_event(f, op));
	key_job(&k, op->job_id);
	fsm_put(f, &k, &msg_job_doc, &doc);
	add_to_indexes(f, q, op->job_id, &doc, buf_str(&f->scratch));
	fill_reply(op->job_id, &doc, ret);
	f->counters.enqueued++;
}

/* 1: this resend was carried out already, *ret says how; 0; or -ERR_*. */
static int find_earlier(struct fsm *f, const struct m_enqueue *op,
			struct m_enqueue_reply *ret)
{
	struct m_job_doc doc;
	struct key k;
	int r;

	key_job(&k, op->job_id);
	r = fsm_read(f, &k, &msg_job_doc, &doc);
	if (r > 0)
		fill_reply(op->job_id, &doc, ret);
	return r;
}

static int check_job(struct fsm *f, const struct m_enqueue *op)
{
	if (op->job_id.n == 0 || op->job_id.n > LIMIT_JOB_ID_BYTES)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "job_id: must have 1 to %d bytes",
				  LIMIT_JOB_ID_BYTES);
	if (!queue_name_fits(op->queue))
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "queue: must have 1 to %d bytes",
				  LIMIT_QUEUE_NAME_BYTES);
	return 0;
}

int apply_enqueue(struct fsm *f, const struct m_enqueue *op,
		  struct m_enqueue_reply *ret)
{
	int r = check_job(f, op);

	if (r < 0)
		return r;
	if (fsm_is_resend(f)) {
		r = find_earlier(f, op, ret);
		if (r != 0)
			return MIN(r, 0);
	}
	create_job(f, op, ret);
	return 0;
}

/* All of a batch were created in one entry, so the first speaks for all. */
static int find_earlier_batch(struct fsm *f, const struct m_enqueue_batch *op,
			      struct m_enqueue_reply *replies)
{
	for (size_t i = 0; i < op->jobs_n; i++) {
		int r = find_earlier(f, &op->jobs[i], &replies[i]);

		if (r < 0 || (r == 0 && i == 0))
			return r;
		if (r == 0) /* deleted since */
			MSG_SET(&replies[i], enqueue_reply, job_id,
				op->jobs[i].job_id);
	}
	return op->jobs_n > 0;
}

int apply_enqueue_batch(struct fsm *f, const struct m_enqueue_batch *op,
			struct m_enqueue_batch_reply *ret)
{
	struct m_enqueue_reply *replies =
	    arena_zalloc(&f->item_arena, op->jobs_n * sizeof(*replies));
	struct str *ids =
	    arena_alloc(&f->item_arena, op->jobs_n * sizeof(*ids));
	int r = 0;

	for (size_t i = 0; i < op->jobs_n; i++) {
		r = check_job(f, &op->jobs[i]);
		if (r < 0)
			return r;
		ids[i] = op->jobs[i].job_id;
	}
	if (fsm_is_resend(f))
		r = find_earlier_batch(f, op, replies);
	if (r < 0)
		return r;
	for (size_t i = 0; r == 0 && i < op->jobs_n; i++)
		create_job(f, &op->jobs[i], &replies[i]);
	MSG_SET_LIST(ret, enqueue_batch_reply, job_ids, ids, op->jobs_n);
	MSG_SET_LIST(ret, enqueue_batch_reply, jobs, replies, op->jobs_n);
	return 0;
}
