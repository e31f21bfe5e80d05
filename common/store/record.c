/*
 * Reads records of the store and puts them together. Any thread; slices of
 * what is returned live in the caller's arena. Records were written by the
 * state machine: one that cannot be read is a damaged store, and an error.
 */
#include "store/record.h"

#include "proto/job.h"
#include "store/event_pack.h"
#include "store/key.h"
#include "util/hmap.h"

#define META_BYTES      32
#define LEASE_BYTES     16
#define FEED_BYTES_MAX  (8u << 20) /* of one answer: well below a message */
#define RECORD_OVERHEAD 64         /* what a record adds beside its texts */

static int record_damaged(void)
{
	return -ERR_INTERNAL_ERROR;
}

/* 1 found, copied into `a`; 0 absent; or -ERR_*. */
static int record_get(struct kv *kv, const struct key *k, struct arena *a,
		      struct str *ret)
{
	struct buf b = BUF_INIT(0);
	int r = kv_get(kv, key_str(k), &b);

	if (r > 0)
		*ret = arena_copy(a, b.n ? buf_str(&b) : STR(""));
	buf_done(&b);
	return r;
}

/* record_get, decoded. */
static int record_read(struct kv *kv, const struct key *k,
		       const struct msg_desc *d, struct arena *a, void *ret)
{
	struct str raw;
	int r = record_get(kv, k, a, &raw);

	if (r <= 0)
		return r;
	return msg_decode(d, raw, a, ret) < 0 ? record_damaged() : 1;
}

int record_meta_read(struct kv *kv, struct record_meta *ret)
{
	struct buf b = BUF_INIT(0);
	struct key k;
	int r;

	*ret = (struct record_meta){ .first_seq = 1 };
	key_meta(&k);
	r = kv_get(kv, key_str(&k), &b);
	if (r > 0 && b.n < META_BYTES)
		r = record_damaged();
	if (r > 0) {
		ret->applied_index = get_be64(b.p);
		ret->last_seq = get_be64(b.p + 8);
		ret->last_job_seq = get_be64(b.p + 16);
		ret->first_seq = get_be64(b.p + 24);
	}
	buf_done(&b);
	return r < 0 ? r : 0;
}

/* --- one job --- */

#define COPY(from, m, field, to)                              \
	do {                                                  \
		if (MSG_HAS(from, m, field))                  \
			MSG_SET(ret, job, to, (from)->field); \
	} while (0)

#define COPY_TIME(from, m, field)                                \
	do {                                                     \
		if ((from)->field != 0)                          \
			MSG_SET(ret, job, field, (from)->field); \
	} while (0)

static void compose_doc(const struct m_job_doc *d, struct m_job *ret)
{
	MSG_SET(ret, job, payload,
		MSG_HAS(d, job_doc, payload) ? d->payload : STR("{}"));
	MSG_SET(ret, job, queue, d->queue);
	MSG_SET(ret, job, priority, d->priority);
	MSG_SET(ret, job, max_retries, d->max_retries);
	MSG_SET(ret, job, retry_backoff, d->retry_backoff);
	MSG_SET(ret, job, retry_base_delay, d->retry_base_delay);
	MSG_SET(ret, job, retry_max_delay, d->retry_max_delay);
	COPY(d, job_doc, retry_jitter, retry_jitter);
	COPY(d, job_doc, tags, tags);
	COPY(d, job_doc, checkpoint, checkpoint);
	COPY(d, job_doc, parent_id, parent_id);
	MSG_SET(ret, job, created_at, d->created_at);
	COPY_TIME(d, job_doc, expire_at);
	COPY(d, job_doc, unique_key, unique_key);
	COPY(d, job_doc, chain_id, chain_id);
	COPY(d, job_doc, chain_step, chain_step);
	COPY(d, job_doc, batch_id, batch_id);
	COPY(d, job_doc, group, group);
	COPY(d, job_doc, schedule_id, schedule_id);
	COPY(d, job_doc, scheduled_for, scheduled_for);
	COPY_TIME(d, job_doc, timeout);
	if (MSG_HAS(d, job_doc, chain))
		MSG_SET(ret, job, chain_config, d->chain);
	if (d->depends_on_n > 0) {
		MSG_SET_LIST(ret, job, depends_on, d->depends_on,
			     d->depends_on_n);
		MSG_SET(ret, job, on_dependency_failure,
			d->on_dependency_failure);
	}
}

/* To clients a job that waits for others is pending. */
static void set_state(struct m_job *ret, enum job_state s)
{
	MSG_SET(ret, job, state, job_state_shown(s));
	if (s == JOB_BLOCKED)
		MSG_SET(ret, job, blocked, true);
}

static void compose_live(const struct m_job_live *l, struct m_job *ret)
{
	set_state(ret, l->state);
	MSG_SET(ret, job, attempt, l->attempt);
	MSG_SET(ret, job, seq, l->seq);
	COPY(l, job_live, worker_id, worker_id);
	COPY(l, job_live, hostname, hostname);
	COPY(l, job_live, progress, progress);
	COPY(l, job_live, checkpoint, checkpoint);
	COPY(l, job_live, result, result);
	if (l->cancel_requested)
		MSG_SET(ret, job, cancel_requested, true);
	COPY_TIME(l, job_live, scheduled_at);
	COPY_TIME(l, job_live, started_at);
	COPY_TIME(l, job_live, completed_at);
	COPY_TIME(l, job_live, failed_at);
	COPY_TIME(l, job_live, cancelled_at);
	COPY_TIME(l, job_live, timeout_at);
	COPY(l, job_live, queue, queue);
	COPY(l, job_live, priority, priority);
	COPY(l, job_live, hold_reason, hold_reason);
	if (l->waiting_on > 0)
		MSG_SET(ret, job, waiting_on, l->waiting_on);
	if (l->lost_leases > 0)
		MSG_SET(ret, job, lost_leases, l->lost_leases);
	if (l->log_lines > 0)
		MSG_SET(ret, job, log_lines, l->log_lines);
}

void record_compose(struct str id, const struct m_job_doc *doc,
		    const struct m_job_live *live, struct m_job *ret)
{
	*ret = (struct m_job){ 0 };
	MSG_SET(ret, job, id, id);
	compose_doc(doc, ret);
	if (live != NULL) {
		compose_live(live, ret);
		if (live->no_expiry)
			MSG_UNSET(ret, job, expire_at);
		return;
	}
	set_state(ret, job_state_at_creation(doc));
	MSG_SET(ret, job, attempt, 0);
	MSG_SET(ret, job, seq, doc->seq);
	if (doc->waiting_on > 0)
		MSG_SET(ret, job, waiting_on, doc->waiting_on);
	COPY_TIME(doc, job_doc, scheduled_at);
}

/* The end of the lease of an active job, from its a| record. */
static int read_lease(struct kv *kv, struct str queue, struct arena *a,
		      struct m_job *ret)
{
	struct str raw;
	struct key k;
	int r;

	if (ret->state != JOB_ACTIVE)
		return 0;
	key_active(&k, queue, ret->id);
	r = record_get(kv, &k, a, &raw);
	if (r <= 0) /* it may end between the two reads */
		return r;
	if (raw.n < LEASE_BYTES)
		return record_damaged();
	MSG_SET(ret, job, lease_expires_at, get_be64(raw.p));
	return 0;
}

static int read_error(struct str id, struct str key, struct str value,
		      struct arena *a, struct m_job_error *ret)
{
	if (msg_decode(&msg_job_error, arena_copy(a, value), a, ret) < 0)
		return record_damaged();
	MSG_SET(ret, job_error, id, get_be32(key.p + key.n - 4));
	MSG_SET(ret, job_error, job_id, id);
	MSG_SET(ret, job_error, created_at, ret->at);
	return 0;
}

/* Errors of the job recorded at `since` or later, oldest first. */
static int read_errors(struct kv *kv, struct str id, uint64_t since,
		       struct arena *a, struct m_job_error **ret, size_t *ret_n)
{
	struct m_job_error *list =
	    arena_alloc(a, LIMIT_JOB_ERRORS * sizeof(*list));
	struct kv_iter *it;
	struct key from, upto;
	size_t n = 0;
	int r = 0;

	key_error(&from, id, 0);
	key_error(&upto, id, UINT32_MAX);
	it = kv_iter_new(kv, key_str(&from), key_str(&upto));
	for (; kv_iter_valid(it) && n < LIMIT_JOB_ERRORS && r == 0;
	     kv_iter_next(it)) {
		r = read_error(id, kv_iter_key(it), kv_iter_value(it), a,
			       &list[n]);
		if (r == 0 && list[n].at >= since)
			n++;
	}
	if (r == 0)
		r = kv_iter_error(it);
	kv_iter_free(it);
	*ret = list;
	*ret_n = n;
	return r;
}

static int find_in_pack(struct str raw, uint64_t want, struct arena *a,
			struct m_event *ret)
{
	struct event_pack p;
	uint64_t seq;
	struct str e;
	int r;

	if (!event_pack_open(&p, raw))
		return record_damaged();
	while ((r = event_pack_next(&p, &seq, &e)) > 0 && seq <= want) {
		if (seq < want)
			continue;
		if (msg_decode(&msg_event, arena_copy(a, e), a, ret) < 0)
			return record_damaged();
		MSG_SET(ret, event, seq, seq);
		return 1;
	}
	return r < 0 ? record_damaged() : 0;
}

/* 1 found, 0 trimmed. */
static int read_event(struct kv *kv, uint64_t seq, struct arena *a,
		      struct m_event *ret)
{
	struct kv_iter *it;
	struct key from, upto;
	int r = 0;

	key_event(&from, seq);
	key_event(&upto, UINT64_MAX);
	it = kv_iter_new(kv, key_str(&from), key_str(&upto));
	if (kv_iter_valid(it))
		r = find_in_pack(kv_iter_value(it), seq, a, ret);
	else
		r = kv_iter_error(it);
	kv_iter_free(it);
	return r;
}

/* Follows the job's events back from its newest one. */
static int read_timeline(struct kv *kv, uint64_t seq, struct arena *a,
			 struct m_job *ret)
{
	struct m_event *list = arena_alloc(a, LIMIT_TIMELINE * sizeof(*list));
	size_t n = LIMIT_TIMELINE; /* filled from the end */

	while (seq != 0 && n > 0) {
		int r = read_event(kv, seq, a, &list[n - 1]);

		if (r < 0)
			return r;
		if (r == 0) /* trimmed */
			break;
		n--;
		seq = list[n].prev;
	}
	MSG_SET_LIST(ret, job, timeline, list + n, LIMIT_TIMELINE - n);
	return 0;
}

static int read_errors_into(struct kv *kv, struct arena *a, struct m_job *ret)
{
	struct m_job_error *list;
	size_t n;
	int r = read_errors(kv, ret->id, 0, a, &list, &n);

	if (r < 0 || n == 0)
		return r;
	MSG_SET_LIST(ret, job, errors, list, n);
	MSG_SET(ret, job, last_error, list[n - 1].error);
	return 0;
}

int record_job(struct kv *kv, struct str id, unsigned what, struct arena *a,
	       struct m_job *ret)
{
	struct m_job_doc doc;
	struct m_job_live live;
	struct key k;
	int r, has_live;

	if (id.n == 0 || id.n > LIMIT_JOB_ID_BYTES)
		return 0;
	key_job(&k, id);
	r = record_read(kv, &k, &msg_job_doc, a, &doc);
	if (r <= 0)
		return r;
	key_live(&k, id);
	has_live = record_read(kv, &k, &msg_job_live, a, &live);
	if (has_live < 0)
		return has_live;
	record_compose(arena_copy(a, id), &doc, has_live ? &live : NULL, ret);
	r = read_lease(kv, ret->queue, a, ret);
	if (r == 0 && what & RECORD_ERRORS && has_live && live.errors > 0)
		r = read_errors_into(kv, a, ret);
	if (r == 0 && what & RECORD_TIMELINE)
		r = read_timeline(kv, has_live ? live.event : doc.event, a,
				  ret);
	return r < 0 ? r : 1;
}

/* --- the feed --- */

struct feed {
	struct kv *kv;
	struct arena *a;
	struct m_tail_reply *ret;
	struct hmap jobs, failed, queues, workers; /* seen already */
	size_t jobs_cap, errors_cap, queues_cap, workers_cap;
	size_t bytes;
};

/* The next item of a growing list in the arena. */
#define FEED_ADD(f, list)                                                  \
	({                                                                 \
		struct m_tail_reply *r_ = (f)->ret;                        \
		if (r_->list##_n == (f)->list##_cap)                       \
			r_->list =                                         \
			    feed_grow((f)->a, r_->list, sizeof(*r_->list), \
				      r_->list##_n, &(f)->list##_cap);     \
		r_->has |= MSG_BIT(tail_reply, list);                      \
		&r_->list[r_->list##_n++];                                 \
	})

static void *feed_grow(struct arena *a, void *list, size_t size, size_t n,
		       size_t *cap)
{
	void *p;

	*cap = MAX(*cap * 2, (size_t)64);
	p = arena_alloc(a, *cap * size);
	if (n > 0)
		memcpy(p, list, n * size);
	return p;
}

static bool feed_seen(struct hmap *m, struct str id)
{
	static char mark;

	return hmap_put(m, id, &mark) != NULL;
}

static size_t job_bytes(const struct m_job *j)
{
	return 4 * RECORD_OVERHEAD + j->payload.n + j->tags.n + j->progress.n +
	       j->checkpoint.n + j->result.n + chain_bytes(j->chain_config);
}

/* The unchanging part stays out unless this answer tells of the creation. */
static int feed_read_job(struct feed *f, const struct m_event *e,
			 struct m_job *j)
{
	struct m_job_live live;
	struct key k;
	int r = 0;

	if (e->type != EVENT_ENQUEUED) {
		key_live(&k, e->job_id);
		r = record_read(f->kv, &k, &msg_job_live, f->a, &live);
		if (r < 0)
			return r;
	}
	if (r > 0 && !live.no_expiry && !live.rewritten) {
		*j = (struct m_job){ 0 };
		MSG_SET(j, job, id, e->job_id);
		compose_live(&live, j);
		MSG_SET(j, job, partial, true);
		return read_lease(f->kv, e->queue, f->a, j);
	}
	r = record_job(f->kv, e->job_id, 0, f->a, j);
	if (r == 0) {
		*j = (struct m_job){ 0 };
		MSG_SET(j, job, id, e->job_id);
		MSG_SET(j, job, deleted, true);
	}
	return r < 0 ? r : 0;
}

static int feed_job(struct feed *f, const struct m_event *e)
{
	struct m_job *j;
	int r;

	if (feed_seen(&f->jobs, e->job_id))
		return 0;
	j = FEED_ADD(f, jobs);
	r = feed_read_job(f, e, j);
	f->bytes += job_bytes(j);
	return r;
}

static bool event_records_error(const struct m_event *e)
{
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
	r = read_errors(f->kv, e->job_id, e->at, f->a, &list, &n);
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
	key_queue(&k, name);
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
	key_worker(&k, id);
	r = record_read(f->kv, &k, &msg_worker, f->a, &w);
	if (r <= 0) /* forgotten since */
		return r;
	MSG_SET(&w, worker, id, id);
	*FEED_ADD(f, workers) = w;
	return 0;
}

/* What one event touches. */
static int feed_event(struct feed *f, const struct m_event *e)
{
	int r;

	f->bytes += RECORD_OVERHEAD + e->data.n;
	if (e->job_id.n > 0) {
		r = feed_job(f, e);
		if (r == 0 && event_records_error(e))
			r = feed_errors(f, e);
		return r;
	}
	if (e->type == EVENT_WORKER_SEEN)
		return feed_worker(f, e->worker_id);
	return e->queue.n > 0 ? feed_queue(f, e->queue) : 0;
}

static bool feed_is_full(const struct feed *f, uint32_t limit)
{
	return f->ret->events_n >= limit || f->bytes >= FEED_BYTES_MAX;
}

/* 1: go on with the next event; 0: enough. */
static int feed_one(struct feed *f, uint64_t seq, struct str raw)
{
	struct m_tail_reply *ret = f->ret;
	struct m_event *e = &ret->events[ret->events_n];
	int r;

	if (seq <= ret->last_seq)
		return 1;               /* the view has it */
	if (seq != ret->last_seq + 1) { /* trimmed meanwhile */
		MSG_SET(ret, tail_reply, lost, true);
		return 0;
	}
	if (msg_decode(&msg_event, arena_copy(f->a, raw), f->a, e) < 0)
		return record_damaged();
	MSG_SET(e, event, seq, seq);
	ret->last_seq = seq;
	ret->head_seq = MAX(ret->head_seq, seq);
	ret->events_n++;
	r = feed_event(f, e);
	return r < 0 ? r : 1;
}

static int feed_pack(struct feed *f, struct str raw, uint32_t limit)
{
	struct event_pack p;
	uint64_t seq;
	struct str e;
	int r;

	if (!event_pack_open(&p, raw))
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
	if (after_seq + 1 < meta.first_seq) {
		MSG_SET(ret, tail_reply, lost, true);
		return 0;
	}
	limit = MIN(limit, (uint32_t)LIMIT_TAIL_EVENTS);
	MSG_SET_LIST(ret, tail_reply, events,
		     arena_alloc(a, limit * sizeof(*ret->events)), 0);
	r = feed_events(&f, after_seq, limit);
	hmap_done(&f.jobs);
	hmap_done(&f.failed);
	hmap_done(&f.queues);
	hmap_done(&f.workers);
	return r;
}
