/*
 * The event feed: events, and the present state of all they touch. See
 * record.h. Any thread; what is returned lives in the caller's arena. Records
 * were written by the state machine: one that cannot be read is a damaged
 * store, and an error.
 */
#include "proto/job.h"
#include "store/event_pack.h"
#include "store/key.h"
#include "store/record_feed_impl.h"
#include "util/giveway.h"

#define FEED_BYTES_MAX  (8u << 20) /* of one answer: well below a message */
#define GIVE_WAY_EVENTS 256        /* others need not wait for more */

/* A job of the answer. */
struct told {
	size_t at;          /* in the list of records */
	uint32_t iteration; /* of an agent's job, the present one; else 0 */
	bool as_created;    /* nothing was said of it but that it is there */
	bool is_gone;       /* it has no record */
	bool is_deleted;    /* one of its id was, and that was said */
};

static size_t record_bytes(const struct m_job_record *r)
{
	return RECORD_OVERHEAD + r->doc.n + r->live.n;
}

/* 1 found, 0 absent, or -ERR_*. */
static int feed_read_doc(struct feed *f, struct str id, struct m_job_doc *ret)
{
	struct key k;

	key_job(&k, id);
	return record_read(f->kv, &k, &msg_job_doc, f->a, ret);
}

/* --- batches --- */

/* 1: it is in the answer; 0: there is none; or -ERR_*. */
static int feed_read_batch(struct feed *f, struct str id, struct str *parent)
{
	struct m_batch_doc doc;
	struct m_batch *b;
	struct key k;
	int r;

	key_batch(&k, id);
	r = record_read(f->kv, &k, &msg_batch_doc, f->a, &doc);
	if (r <= 0)
		return r;
	*parent = doc.parent_id;
	b = FEED_ADD(f, batches);
	record_batch(id, &doc, b);
	if (doc.ended_at == 0) {
		key_batch_payload(&k, id);
		r = record_get(f->kv, &k, f->a, &b->callback_payload);
		if (r > 0)
			b->has |= MSG_BIT(batch, callback_payload);
	}
	f->bytes += RECORD_OVERHEAD + b->callback_payload.n;
	return r < 0 ? r : 1;
}

/* What changes a batch may end it, and that changes the one it counts in. */
static int feed_batch(struct feed *f, struct str id)
{
	while (id.n > 0 && id.n <= LIMIT_JOB_ID_BYTES &&
	       !feed_seen(&f->batches, id)) {
		struct str parent = STR_NULL;
		int r = feed_read_batch(f, id, &parent);

		if (r < 0)
			return r;
		if (r == 0)
			*FEED_ADD(f, gone_batches) = id;
		id = parent;
	}
	return 0;
}

/* --- schedules --- */

static int feed_schedule(struct feed *f, struct str id)
{
	struct m_schedule s;
	struct key k;
	int r;

	if (id.n == 0 || id.n > LIMIT_SCHED_NAME_BYTES ||
	    feed_seen(&f->schedules, id))
		return 0;
	key_schedule(&k, SPACE_DEFAULT, id);
	r = record_read(f->kv, &k, &msg_schedule, f->a, &s);
	if (r > 0)
		*FEED_ADD(f, schedules) = s;
	else if (r == 0)
		*FEED_ADD(f, gone_schedules) = id;
	if (r > 0 && s.job != NULL)
		f->bytes += s.job->payload.n + s.job->tags.n;
	f->bytes += RECORD_OVERHEAD;
	return MIN(r, 0);
}

/* --- unique locks --- */

/* Whoever holds it now, or that nobody does. */
static int feed_lock(struct feed *f, struct str queue, struct str unique_key)
{
	struct m_unique_lock *l = FEED_ADD(f, locks);
	struct str raw;
	struct key k;
	int r;

	*l = (struct m_unique_lock){ 0 };
	MSG_SET(l, unique_lock, queue, queue);
	MSG_SET(l, unique_lock, unique_key, unique_key);
	key_unique(&k, SPACE_DEFAULT, queue, unique_key);
	r = record_get(f->kv, &k, f->a, &raw);
	if (r > 0 && !record_lock(queue, unique_key, raw, l))
		return record_damaged();
	return MIN(r, 0);
}

/* A job that is run again takes its lock again. */
static int feed_lock_again(struct feed *f, struct str id)
{
	struct m_job_doc doc;
	int r = feed_read_doc(f, id, &doc);

	return r > 0 && doc.unique_key.n > 0
		   ? feed_lock(f, doc.queue, doc.unique_key)
		   : MIN(r, 0);
}

/* --- jobs --- */

/* The batch of a job whose document is left out. */
static int feed_batch_of(struct feed *f, struct str id)
{
	struct m_job_doc doc;
	int r = feed_read_doc(f, id, &doc);

	return r <= 0 ? r : feed_batch(f, doc.batch_id);
}

/* The last record takes its place. */
static void feed_take_back(struct feed *f, struct told *t)
{
	struct m_tail_reply *ret = f->ret;
	const struct m_job_record *last = &ret->records[--ret->records_n];
	struct told *moved = hmap_get(&f->jobs, last->id);

	CHECK(moved != NULL);
	f->bytes -= record_bytes(&ret->records[t->at]);
	ret->records[t->at] = *last;
	moved->at = t->at;
}

/* Once: its row is taken off the counts. */
static void feed_deletion(struct feed *f, struct str id, struct told *t)
{
	struct m_job *j;

	if (t->is_deleted)
		return;
	t->is_deleted = true;
	j = FEED_ADD(f, jobs);
	*j = (struct m_job){ 0 };
	MSG_SET(j, job, id, id);
	MSG_SET(j, job, deleted, true);
	f->bytes += RECORD_OVERHEAD;
}

static void feed_gone(struct feed *f, struct str id, struct told *t)
{
	feed_take_back(f, t);
	t->is_gone = true;
	feed_deletion(f, id, t);
}

/* Its document, which it has as long as it is there. */
static int feed_doc(struct feed *f, const struct m_event *e, struct told *t)
{
	struct m_job_record *rec = &f->ret->records[t->at];
	struct m_job_doc doc;
	struct str raw;
	struct key k;
	int r;

	key_job(&k, e->job_id);
	r = record_read_raw(f->kv, &k, &msg_job_doc, f->a, &raw, &doc);
	if (r == 0)
		feed_gone(f, e->job_id, t);
	if (r <= 0)
		return r;
	f->bytes += raw.n - rec->doc.n; /* it may have been read before */
	MSG_SET(rec, job_record, doc, raw);
	if (t->iteration == 0 && MSG_HAS(&doc, job_doc, agent))
		t->iteration = 1;
	if (doc.batch_id.n > 0)
		r = feed_batch(f, doc.batch_id);
	if (r >= 0 && doc.unique_key.n > 0 && e->type == EVENT_ENQUEUED)
		r = feed_lock(f, e->queue, doc.unique_key);
	return MIN(r, 0);
}

/* While a worker has it; it may end between the two reads. */
static int feed_lease(struct feed *f, const struct m_event *e,
		      const struct m_job_live *live, struct m_job_record *rec)
{
	uint64_t at;
	int r;

	if (live->state != JOB_ACTIVE)
		return 0;
	r = record_lease_end(f->kv, live->queue.n > 0 ? live->queue : e->queue,
			     e->job_id, f->a, &at);
	if (r > 0)
		MSG_SET(rec, job_record, lease_expires_at, at);
	return MIN(r, 0);
}

/* 1: it has changed, 0: it is as it was created, or gone; or -ERR_*. */
static int feed_live(struct feed *f, const struct m_event *e, struct told *t,
		     struct m_job_live *live)
{
	struct m_job_record *rec = &f->ret->records[t->at];
	struct str raw;
	struct key k;
	int r;

	key_live(&k, e->job_id);
	r = record_read_raw(f->kv, &k, &msg_job_live, f->a, &raw, live);
	if (r <= 0)
		return r;
	MSG_SET(rec, job_record, live, raw);
	f->bytes += raw.n;
	if (live->agent != NULL)
		t->iteration = live->agent->iteration;
	r = feed_lease(f, e, live, rec);
	return r < 0 ? r : 1;
}

/*
 * The unchanging part stays out: an answer before told of the creation. Unless
 * it has changed after all.
 */
static int feed_changed(struct feed *f, const struct m_event *e, struct told *t)
{
	struct m_job_live live;
	int r = feed_live(f, e, t, &live);

	if (r < 0)
		return r;
	if (r == 0 || live.no_expiry || live.rewritten)
		return feed_doc(f, e, t);
	return live.counted ? feed_batch_of(f, e->job_id) : 0;
}

/*
 * This answer told of the creation, and now that something happened since. Of
 * most jobs of a busy hour it does not: then nothing is looked up that is not
 * there.
 */
static int feed_job_again(struct feed *f, const struct m_event *e,
			  struct told *t)
{
	struct m_job_live live;
	int r;

	if (!t->as_created || t->is_gone)
		return 0;
	t->as_created = false;
	r = feed_live(f, e, t, &live);
	return r == 0 ? feed_doc(f, e, t) : MIN(r, 0);
}

static int feed_job(struct feed *f, const struct m_event *e,
		    struct told **ret_told)
{
	struct told *t = *ret_told = hmap_get(&f->jobs, e->job_id);
	struct m_job_record *rec;

	if (t != NULL)
		return feed_job_again(f, e, t);
	t = *ret_told = arena_alloc(f->a, sizeof(*t));
	*t = (struct told){ .at = f->ret->records_n,
			    .as_created = e->type == EVENT_ENQUEUED };
	hmap_put(&f->jobs, e->job_id, t);
	rec = FEED_ADD(f, records);
	*rec = (struct m_job_record){ 0 };
	MSG_SET(rec, job_record, id, e->job_id);
	f->bytes += record_bytes(rec);
	return t->as_created ? feed_doc(f, e, t) : feed_changed(f, e, t);
}

/* Of a cancellation it says so: most have none. */
static bool event_records_error(const struct m_event *e)
{
	if (e->type == EVENT_CANCELLED)
		return e->data.n > 0;
	return e->type == EVENT_FAILED || e->type == EVENT_RECLAIMED ||
	       e->type == EVENT_EXPIRED || e->type == EVENT_TIMED_OUT ||
	       e->type == EVENT_REJECTED || e->type == EVENT_DEPENDENCY_FAILED;
}

/* From the first failure in this answer on, so the job needs one look. */
static int feed_errors(struct feed *f, const struct m_event *e)
{
	struct m_job_error *list;
	size_t n;
	int r;

	if (feed_seen(&f->failed, e->job_id))
		return 0;
	r = record_errors(f->kv, e->job_id, e->at, f->a, &list, &n);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		*FEED_ADD(f, errors) = list[i];
		f->bytes +=
		    RECORD_OVERHEAD + list[i].error.n + list[i].backtrace.n;
	}
	return 0;
}

static int feed_queue(struct feed *f, struct str name)
{
	struct m_queue_doc doc;
	struct m_queue *q;
	struct key k;
	int r;

	if (feed_seen(&f->queues, name))
		return 0;
	key_queue(&k, SPACE_DEFAULT, name);
	r = record_read(f->kv, &k, &msg_queue_doc, f->a, &doc);
	if (r < 0)
		return r;
	q = FEED_ADD(f, queues);
	if (r > 0) {
		record_queue(name, &doc, q);
		return 0;
	}
	*q = (struct m_queue){ 0 };
	MSG_SET(q, queue, name, name);
	MSG_SET(q, queue, deleted, true);
	return 0;
}

static int feed_worker(struct feed *f, struct str id)
{
	struct m_worker w;
	struct key k;
	int r;

	if (feed_seen(&f->workers, id))
		return 0;
	key_worker(&k, SPACE_DEFAULT, id);
	r = record_read(f->kv, &k, &msg_worker, f->a, &w);
	if (r <= 0) /* forgotten since */
		return r;
	MSG_SET(&w, worker, id, id);
	*FEED_ADD(f, workers) = w;
	return 0;
}

/* Of a job that is gone: what it was tied to may be there still. And so may
 * another one with its id, of whose life its rows say nothing. */
static int feed_ties_of_gone(struct feed *f, const struct m_event *e,
			     struct told *t)
{
	struct str unique_key = feed_member(f, e, "unique_key");
	int r = feed_batch(f, feed_member(f, e, "batch_id"));

	if (r == 0 && !t->is_gone)
		r = feed_doc(f, e, t);
	if (r == 0 && !t->is_gone)
		feed_deletion(f, e->job_id, t);
	if (r == 0 && unique_key.n > 0)
		r = feed_lock(f, feed_member(f, e, "unique_in"), unique_key);
	return r;
}

static int feed_job_event(struct feed *f, const struct m_event *e)
{
	struct told *t;
	int r = feed_job(f, e, &t);

	if (r == 0 && event_records_error(e))
		r = feed_errors(f, e);
	if (r == 0 && t->iteration > 0)
		r = feed_iteration(f, e, t->iteration);
	if (r < 0)
		return r;
	switch (e->type) {
	case EVENT_SCORED:
		return feed_scores(f, e->job_id);
	case EVENT_RETRIED:
	case EVENT_REQUEUED:
		return feed_lock_again(f, e->job_id);
	case EVENT_DELETED:
	case EVENT_PURGED:
		return feed_ties_of_gone(f, e, t);
	default:
		return 0;
	}
}

static int feed_batch_event(struct feed *f, const struct m_event *e)
{
	int r = feed_batch(f, feed_member(f, e, "batch_id"));

	return r < 0 ? r : feed_batch(f, feed_member(f, e, "parent_id"));
}

/* What one event touches. */
static int feed_event(struct feed *f, const struct m_event *e)
{
	f->bytes += RECORD_OVERHEAD + e->data.n;
	if (e->job_id.n > 0)
		return feed_job_event(f, e);
	switch (e->type) {
	case EVENT_WORKER_SEEN:
		return feed_worker(f, e->worker_id);
	case EVENT_BATCH_OPENED:
	case EVENT_BATCH_SEALED:
	case EVENT_BATCH_ENDED:
	case EVENT_BATCH_PURGED:
		return feed_batch_event(f, e);
	case EVENT_SCHEDULE_SET:
	case EVENT_SCHEDULE_FIRED:
	case EVENT_SCHEDULE_SKIPPED:
	case EVENT_SCHEDULE_PAUSED:
	case EVENT_SCHEDULE_RESUMED:
	case EVENT_SCHEDULE_ENDED:
	case EVENT_SCHEDULE_DELETED:
		return feed_schedule(f, feed_member(f, e, "schedule_id"));
	case EVENT_PROVIDER_CHANGED:
	case EVENT_PROVIDER_FORGOTTEN:
		return feed_provider(f, e);
	case EVENT_BUDGET_SET:
	case EVENT_BUDGET_DELETED:
		return feed_budget(f, e);
	case EVENT_POLICY_SET:
	case EVENT_POLICY_DELETED:
		return feed_policy(f, e);
	case EVENT_WEBHOOK_SET:
	case EVENT_WEBHOOK_DELETED:
	case EVENT_WEBHOOK_DISABLED:
		return feed_webhook(f, e);
	default:
		return e->queue.n > 0 ? feed_queue(f, e->queue) : 0;
	}
}

static bool feed_is_full(const struct feed *f, uint32_t limit)
{
	return f->events >= limit || f->bytes >= FEED_BYTES_MAX;
}

/* The first and the last: of the others the view does not want to know. */
static void feed_note(struct feed *f, const struct m_event *e)
{
	struct m_tail_reply *ret = f->ret;

	if (ret->events == NULL)
		ret->events = arena_alloc(f->a, 2 * sizeof(*ret->events));
	ret->events_n = MIN(f->events + 1, (size_t)2);
	ret->events[ret->events_n - 1] = *e;
	f->events++;
}

/* 1: go on with the next event; 0: enough. */
static int feed_one(struct feed *f, uint64_t seq, struct str raw)
{
	struct m_tail_reply *ret = f->ret;
	struct m_event e;
	int r;

	if (seq <= ret->last_seq)
		return 1;               /* the view has it */
	if (seq != ret->last_seq + 1) { /* trimmed meanwhile */
		MSG_SET(ret, tail_reply, lost, true);
		return 0;
	}
	if (msg_decode(&msg_event, raw, f->a, &e) < 0)
		return record_damaged();
	MSG_SET(&e, event, seq, seq);
	ret->last_seq = seq;
	ret->head_seq = MAX(ret->head_seq, seq);
	feed_note(f, &e);
	if (f->events % GIVE_WAY_EVENTS == 0)
		(void)give_way();
	r = feed_event(f, &e);
	return r < 0 ? r : 1;
}

static int feed_pack(struct feed *f, struct str raw, uint32_t limit)
{
	struct event_pack p;
	uint64_t seq;
	struct str e;
	int r;

	if (!event_pack_open(&p, arena_copy(f->a, raw)))
		return record_damaged();
	while ((r = event_pack_next(&p, &seq, &e)) > 0) {
		r = feed_one(f, seq, e);
		if (r <= 0 || feed_is_full(f, limit))
			return MIN(r, 0);
	}
	return r < 0 ? record_damaged() : 1;
}

static int feed_events(struct feed *f, uint64_t after_seq, uint32_t limit)
{
	struct kv_iter *it;
	struct key from, upto;
	int r = 1;

	key_event(&from, after_seq + 1);
	key_event(&upto, UINT64_MAX);
	it = kv_iter_new(f->kv, key_str(&from), key_str(&upto));
	for (; kv_iter_valid(it) && r > 0; kv_iter_next(it))
		r = feed_pack(f, kv_iter_value(it), limit);
	if (r >= 0)
		r = kv_iter_error(it);
	kv_iter_free(it);
	return r;
}

static void put_history(const struct record_meta *meta, struct arena *a,
			struct m_tail_reply *ret)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	history_put(&b, &meta->origin.history);
	MSG_SET(ret, tail_reply, history, arena_copy(a, buf_str(&b)));
}

int record_feed(struct kv *kv, uint64_t after_seq, uint32_t limit,
		struct arena *a, struct m_tail_reply *ret)
{
	struct feed f = { .kv = kv, .a = a, .ret = ret };
	struct record_meta meta;
	int r = record_meta_read(kv, &meta);

	if (r < 0)
		return r;
	*ret = (struct m_tail_reply){ 0 };
	MSG_SET(ret, tail_reply, head_seq, meta.last_seq);
	MSG_SET(ret, tail_reply, last_seq, after_seq);
	put_history(&meta, a, ret);
	if (after_seq + 1 < meta.first_seq) {
		MSG_SET(ret, tail_reply, lost, true);
		return 0;
	}
	limit = MIN(limit, (uint32_t)LIMIT_TAIL_EVENTS);
	MSG_SET_LIST(ret, tail_reply, events, NULL, 0);
	r = feed_events(&f, after_seq, limit);
	hmap_done(&f.jobs);
	hmap_done(&f.failed);
	hmap_done(&f.scored);
	hmap_done(&f.queues);
	hmap_done(&f.workers);
	hmap_done(&f.batches);
	hmap_done(&f.schedules);
	hmap_done(&f.budgets);
	hmap_done(&f.policies);
	hmap_done(&f.webhooks);
	hmap_done(&f.providers);
	return r;
}
