/*
 * Creates jobs: for clients, chains, batches and schedules alike. What was
 * asked for has been checked by the caller.
 */
#include "fsm/job/create.h"

#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/job/checkpoint.h"
#include "fsm/job/sdb.h"
#include "fsm/job/tag.h"
#include "fsm/order/lane.h"
#include "fsm/order/queue.h"
#include "fsm/order/window.h"

/* What the job names, else what the queue does, else ours. */
static void fill_retry_rules(const struct m_enqueue *op,
			     const struct m_set_queue *set, struct m_job_doc *d)
{
#define RULE(field, fallback)                                 \
	MSG_SET(d, job_doc, field,                            \
		MSG_HAS(op, enqueue, field)      ? op->field  \
		: MSG_HAS(set, set_queue, field) ? set->field \
						 : (fallback))
	RULE(max_retries, JOB_DEFAULT_MAX_RETRIES);
	RULE(retry_backoff, BACKOFF_EXPONENTIAL);
	RULE(retry_base_delay, JOB_DEFAULT_BASE_DELAY_NS);
	RULE(retry_max_delay, JOB_DEFAULT_MAX_DELAY_NS);
	RULE(retry_jitter, 0);
#undef RULE
	d->retry_jitter = MIN(d->retry_jitter, 1.0);
	if (!(d->retry_jitter > 0))
		MSG_UNSET(d, job_doc, retry_jitter);
}

/* What ties the job to others. */
static void fill_links(const struct new_job *n, struct m_job_doc *d)
{
	const struct m_enqueue *op = n->op;

	if (op->unique_key.n > 0)
		MSG_SET(d, job_doc, unique_key, op->unique_key);
	if (op->unique_key.n > 0)
		MSG_SET(d, job_doc, unique_period, op->unique_period);
	if (op->as_numbers != 0)
		MSG_SET(d, job_doc, as_numbers, op->as_numbers);
	if (op->depends_on_n > 0) {
		MSG_SET_LIST(d, job_doc, depends_on, op->depends_on,
			     op->depends_on_n);
		MSG_SET(d, job_doc, on_dependency_failure,
			op->on_dependency_failure);
	}
	if (n->waiting_on > 0)
		MSG_SET(d, job_doc, waiting_on, n->waiting_on);
	if (MSG_HAS(op, enqueue, chain)) {
		MSG_SET(d, job_doc, chain_id, op->chain_id);
		MSG_SET(d, job_doc, chain_step, n->chain_step);
		MSG_SET(d, job_doc, chain, op->chain);
	}
	if (op->batch_id.n > 0)
		MSG_SET(d, job_doc, batch_id, op->batch_id);
	if (MSG_HAS(op, enqueue, agent))
		MSG_SET(d, job_doc, agent, op->agent);
	if (n->replay_of.n > 0) {
		MSG_SET(d, job_doc, replay_of, n->replay_of);
		MSG_SET(d, job_doc, replay_from, n->replay_from);
	}
	if (op->scheduled_db != NULL)
		MSG_SET(d, job_doc, scheduled_db, op->scheduled_db);
	if (n->schedule_id.n > 0) {
		MSG_SET(d, job_doc, schedule_id, n->schedule_id);
		MSG_SET(d, job_doc, scheduled_for, n->scheduled_for);
	}
}

/* What the queue's group_tag says; a text or a number can be a group. */
static struct str group_by_tag(struct fsm *f, const struct fsm_queue *q,
			       struct str tags)
{
	struct str group = tag_find(f, tags, q->set->group_tag);

	return group_name_fits(group) ? group : STR_NULL;
}

static void fill_doc(struct fsm *f, const struct new_job *n,
		     const struct fsm_queue *q, struct m_job_doc *d)
{
	const struct m_enqueue *op = n->op;
	struct str group = group_name_fits(op->group)
			       ? op->group
			       : group_by_tag(f, q, op->tags);

	*d = (struct m_job_doc){ 0 };
	if (op->payload.n > 0)
		MSG_SET(d, job_doc, payload, op->payload);
	MSG_SET(d, job_doc, queue, op->queue);
	MSG_SET(d, job_doc, priority,
		MSG_HAS(op, enqueue, priority) && op->priority < PRIORITIES
		    ? op->priority
		    : PRIORITY_NORMAL);
	fill_retry_rules(op, q->set, d);
	MSG_SET(d, job_doc, created_at, f->now_ns);
	MSG_SET(d, job_doc, seq, ++f->last_job_seq);
	if (enqueue_due(f, op) > f->now_ns)
		MSG_SET(d, job_doc, scheduled_at, enqueue_due(f, op));
	if (op->expire_after > 0)
		MSG_SET(d, job_doc, expire_at, fsm_later(f, op->expire_after));
	if (op->tags.n > 0)
		MSG_SET(d, job_doc, tags, op->tags);
	if (op->checkpoint.n > 0)
		checkpoint_create(f, op->job_id, op->checkpoint, d);
	if (op->parent_id.n > 0)
		MSG_SET(d, job_doc, parent_id, op->parent_id);
	if (group.n > 0)
		MSG_SET(d, job_doc, group, group);
	if (op->timeout > 0)
		MSG_SET(d, job_doc, timeout, op->timeout);
	if (op->expected_cost > 0)
		MSG_SET(d, job_doc, expected_cost, op->expected_cost);
	if (op->expected.n > 0)
		MSG_SET(d, job_doc, expected, op->expected);
	fill_links(n, d);
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
	struct pending p = {
		.seq = d->seq, .id = id, .as_created = true, .doc = encoded
	};
	struct key k;

	if (d->waiting_on > 0) {
		key_blocked(&k, q->space, q->name, id);
		txn_put(f->txn, key_str(&k), STR(""));
		queue_count(f, q, JOB_BLOCKED, 1);
	} else if (d->scheduled_at != 0) {
		key_scheduled(&k, q->space, q->name, d->scheduled_at, id);
		txn_put(f->txn, key_str(&k), STR(""));
		bounds_add(f, q, JOB_SCHEDULED, d->scheduled_at);
		queue_count(f, q, JOB_SCHEDULED, 1);
	} else {
		queue_rates(f, q)->in++;
		queue_count(f, q, JOB_PENDING, 1);
		queue_add_pending(f, q, d->group, (uint8_t)d->priority, &p);
	}
	if (d->expire_at != 0) {
		key_expiry(&k, d->expire_at, id);
		txn_put(f->txn, key_str(&k), STR(""));
		f->expiry_from = MIN(f->expiry_from, d->expire_at);
	}
}

/* The queue may have filled in rules the request did not name. */
static void reply_rules(const struct m_job_doc *d, struct m_enqueue_reply *ret)
{
#define RULE(field, known)                                            \
	do {                                                          \
		if (d->field != (known))                              \
			MSG_SET(ret, enqueue_reply, field, d->field); \
	} while (0)
	RULE(max_retries, JOB_DEFAULT_MAX_RETRIES);
	RULE(retry_backoff, BACKOFF_EXPONENTIAL);
	RULE(retry_base_delay, JOB_DEFAULT_BASE_DELAY_NS);
	RULE(retry_max_delay, JOB_DEFAULT_MAX_DELAY_NS);
#undef RULE
	if (d->retry_jitter > 0)
		MSG_SET(ret, enqueue_reply, retry_jitter, d->retry_jitter);
}

void job_reply(struct str id, const struct m_job_doc *d,
	       struct m_enqueue_reply *ret)
{
	MSG_SET(ret, enqueue_reply, job_id, id);
	MSG_SET(ret, enqueue_reply, status,
		job_state_shown(job_state_at_creation(d)));
	MSG_SET(ret, enqueue_reply, unique_existing, false);
	MSG_SET(ret, enqueue_reply, created_at, d->created_at);
	if (d->batch_id.n > 0)
		MSG_SET(ret, enqueue_reply, batch_id, d->batch_id);
	if (MSG_HAS(d, job_doc, chain))
		MSG_SET(ret, enqueue_reply, chain_id, d->chain_id);
	reply_rules(d, ret);
}

void job_create(struct fsm *f, const struct new_job *n,
		struct m_enqueue_reply *ret)
{
	const struct m_enqueue *op = n->op;
	struct fsm_queue *q = queue_get(f, op->queue);
	bool policies = f->policies.of[POINT_ENQUEUE] > 0;
	struct m_job_doc doc;
	struct key k;

	/* whoever names them has checked that, and keys rely on it */
	MUST(f, op->job_id.n > 0 && op->job_id.n <= LIMIT_JOB_ID_BYTES);
	fill_doc(f, n, q, &doc);
	MSG_SET(&doc, job_doc, event, enqueued_event(f, op));
	if (policies)
		f->hooks->creating(f, &doc);
	key_job(&k, op->job_id);
	fsm_put(f, &k, &msg_job_doc, &doc);
	add_to_indexes(f, q, op->job_id, &doc, buf_str(&f->scratch));
	if (doc.scheduled_db != NULL)
		sdb_created(f, doc.scheduled_db);
	job_reply(op->job_id, &doc, ret);
	f->counters.enqueued++;
	if (policies && !MSG_HAS(&doc, job_doc, unasked) &&
	    f->hooks->created(f, op->job_id, &doc))
		MSG_SET(ret, enqueue_reply, status, JOB_HELD);
}
