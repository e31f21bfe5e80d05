/*
 * Reads records of the store and puts them together. Any thread; slices of
 * what is returned live in the caller's arena. Records were written by the
 * state machine: one that cannot be read is a damaged store, and an error.
 */
#include "store/record_impl.h"

#include "proto/job.h"
#include "store/event_pack.h"
#include "store/key.h"

#define OLD_META_BYTES 32 /* without the origin */
#define NO_TIME_BYTES  64 /* with it, without the time */
#define LEASE_BYTES    16

int record_damaged(void)
{
	return -ERR_INTERNAL_ERROR;
}

int record_get(struct kv *kv, const struct key *k, struct arena *a,
	       struct str *ret)
{
	return kv_copy(kv, key_str(k), a, ret);
}

int record_read_raw(struct kv *kv, const struct key *k,
		    const struct msg_desc *d, struct arena *a, struct str *raw,
		    void *ret)
{
	int r = record_get(kv, k, a, raw);

	if (r <= 0)
		return r;
	return msg_decode(d, *raw, a, ret) < 0 ? record_damaged() : 1;
}

int record_read(struct kv *kv, const struct key *k, const struct msg_desc *d,
		struct arena *a, void *ret)
{
	struct str raw;

	return record_read_raw(kv, k, d, a, &raw, ret);
}

void record_meta_encode(const struct record_meta *m,
			char ret[RECORD_META_BYTES])
{
	put_be64(ret, m->applied_index);
	put_be64(ret + 8, m->last_seq);
	put_be64(ret + 16, m->last_job_seq);
	put_be64(ret + 24, m->first_seq);
	put_be64(ret + 32, m->origin.term);
	put_be64(ret + 40, m->origin.id);
	memcpy(ret + 48, m->origin.history.id, HISTORY_BYTES);
	put_be64(ret + 64, m->now_ns);
}

bool record_meta_decode(struct str raw, struct record_meta *ret)
{
	*ret = (struct record_meta){ .first_seq = 1 };
	if (raw.n < OLD_META_BYTES)
		return false;
	ret->applied_index = get_be64(raw.p);
	ret->last_seq = get_be64(raw.p + 8);
	ret->last_job_seq = get_be64(raw.p + 16);
	ret->first_seq = get_be64(raw.p + 24);
	if (raw.n >= NO_TIME_BYTES) {
		ret->origin.term = get_be64(raw.p + 32);
		ret->origin.id = get_be64(raw.p + 40);
		memcpy(ret->origin.history.id, raw.p + 48, HISTORY_BYTES);
	}
	if (raw.n >= RECORD_META_BYTES)
		ret->now_ns = get_be64(raw.p + 64);
	return true;
}

int record_meta_read(struct kv *kv, struct record_meta *ret)
{
	struct buf b = BUF_INIT(0);
	struct key k;
	int r;

	*ret = (struct record_meta){ .first_seq = 1 };
	key_meta(&k);
	r = kv_get(kv, key_str(&k), &b);
	if (r > 0 && !record_meta_decode(buf_str(&b), ret))
		r = record_damaged();
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
	if (d->checkpoint_apart) {
		MSG_SET(ret, job, checkpoint, STR("null"));
		MSG_SET(ret, job, checkpoint_in, 0);
	}
	COPY(d, job_doc, parent_id, parent_id);
	MSG_SET(ret, job, created_at, d->created_at);
	COPY_TIME(d, job_doc, expire_at);
	if (d->expire_at != 0)
		MSG_SET(ret, job, expire_after, d->expire_at - d->created_at);
	COPY(d, job_doc, unique_key, unique_key);
	COPY_TIME(d, job_doc, unique_period);
	COPY(d, job_doc, as_numbers, as_numbers);
	COPY(d, job_doc, chain_id, chain_id);
	COPY(d, job_doc, chain_step, chain_step);
	COPY(d, job_doc, batch_id, batch_id);
	COPY(d, job_doc, group, group);
	COPY(d, job_doc, schedule_id, schedule_id);
	COPY(d, job_doc, scheduled_for, scheduled_for);
	COPY_TIME(d, job_doc, timeout);
	COPY(d, job_doc, expected_cost, expected_cost);
	COPY(d, job_doc, expected, expected);
	if (MSG_HAS(d, job_doc, agent))
		MSG_SET(ret, job, iteration, 1);
	COPY(d, job_doc, scheduled_db, scheduled_db);
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
	if (MSG_HAS(l, job_live, checkpoint))
		MSG_UNSET(ret, job, checkpoint_in);
	if (MSG_HAS(l, job_live, checkpoint_in)) {
		/* said, so that the view forgets what it had */
		MSG_SET(ret, job, checkpoint, STR("null"));
		MSG_SET(ret, job, checkpoint_in, l->checkpoint_in);
	}
	COPY(l, job_live, result, result);
	COPY(l, job_live, response, response);
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
	COPY(l, job_live, usage, usage);
	COPY(l, job_live, held, held);
	COPY(l, job_live, decision, decision);
	if (l->agent != NULL)
		MSG_SET(ret, job, iteration, l->agent->iteration);
	COPY(l, job_live, cancel_reason, cancel_reason);
	if (l->waiting_on > 0)
		MSG_SET(ret, job, waiting_on, l->waiting_on);
	if (l->lost_leases > 0)
		MSG_SET(ret, job, lost_leases, l->lost_leases);
	if (l->log_lines > 0)
		MSG_SET(ret, job, log_lines, l->log_lines);
}

/* A whole job that is as it was created is made what it is now. */
static void compose_change(const struct m_job_live *live, struct m_job *ret)
{
	ret->blocked = false;
	MSG_UNSET(ret, job, blocked);
	MSG_UNSET(ret, job, waiting_on);
	MSG_UNSET(ret, job, scheduled_at);
	compose_live(live, ret);
	if (live->no_expiry)
		MSG_UNSET(ret, job, expire_at);
}

void record_compose(struct str id, const struct m_job_doc *doc,
		    const struct m_job_live *live, struct m_job *ret)
{
	*ret = (struct m_job){ 0 };
	MSG_SET(ret, job, id, id);
	compose_doc(doc, ret);
	if (live != NULL) {
		compose_change(live, ret);
		return;
	}
	set_state(ret, job_state_at_creation(doc));
	MSG_SET(ret, job, attempt, 0);
	MSG_SET(ret, job, seq, doc->seq);
	if (doc->waiting_on > 0)
		MSG_SET(ret, job, waiting_on, doc->waiting_on);
	COPY_TIME(doc, job_doc, scheduled_at);
}

int record_lease_end(struct kv *kv, struct str queue, struct str id,
		     struct arena *a, uint64_t *ret)
{
	struct str raw;
	struct key k;
	int r;

	key_active(&k, SPACE_DEFAULT, queue, id);
	r = record_get(kv, &k, a, &raw);
	if (r <= 0)
		return r;
	if (raw.n < LEASE_BYTES)
		return record_damaged();
	*ret = get_be64(raw.p);
	return 1;
}

static int read_lease(struct kv *kv, struct arena *a, struct m_job *ret)
{
	uint64_t at;
	int r;

	if (ret->state != JOB_ACTIVE)
		return 0;
	r = record_lease_end(kv, ret->queue, ret->id, a, &at);
	if (r > 0) /* it may end between the two reads */
		MSG_SET(ret, job, lease_expires_at, at);
	return MIN(r, 0);
}

int record_restore(const struct m_job_record *rec, struct arena *a,
		   struct m_job *ret)
{
	bool has_live = MSG_HAS(rec, job_record, live);
	struct m_job_doc doc;
	struct m_job_live live;

	if (has_live && msg_decode(&msg_job_live, rec->live, a, &live) < 0)
		return -ERR_BAD_MESSAGE;
	if (MSG_HAS(rec, job_record, doc)) {
		if (msg_decode(&msg_job_doc, rec->doc, a, &doc) < 0)
			return -ERR_BAD_MESSAGE;
		record_compose(rec->id, &doc, has_live ? &live : NULL, ret);
	} else if (has_live) {
		*ret = (struct m_job){ 0 };
		MSG_SET(ret, job, id, rec->id);
		compose_live(&live, ret);
	} else {
		return -ERR_BAD_MESSAGE;
	}
	COPY(rec, job_record, lease_expires_at, lease_expires_at);
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

int record_errors(struct kv *kv, struct str id, uint64_t since, struct arena *a,
		  struct m_job_error **ret, size_t *ret_n)
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
	int r = record_errors(kv, ret->id, 0, a, &list, &n);

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
	has_live = what & RECORD_AS_CREATED
		       ? 0
		       : record_read(kv, &k, &msg_job_live, a, &live);
	if (has_live < 0)
		return has_live;
	record_compose(arena_copy(a, id), &doc, has_live ? &live : NULL, ret);
	r = read_lease(kv, a, ret);
	if (r == 0 && what & RECORD_AGENT)
		r = record_agent(kv, &doc, has_live ? &live : NULL, a, ret);
	if (r == 0 && what & RECORD_ERRORS && has_live && live.errors > 0)
		r = read_errors_into(kv, a, ret);
	if (r == 0 && what & RECORD_TIMELINE)
		r = read_timeline(kv, has_live ? live.event : doc.event, a,
				  ret);
	return r < 0 ? r : 1;
}
