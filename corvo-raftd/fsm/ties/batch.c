/*
 * Batches: jobs counted together, and a job made when all of them have ended.
 *
 * A batch ends when it is sealed and everything added to it was counted, each
 * job once, at its first end. A nested batch counts in its parent as one job;
 * its end may end the parent, and so on, at most LIMIT_BATCH_DEPTH times.
 *
 * Each job that ends rewrites the record of its batch, so the payload of the
 * callback, which may be large, has a record of its own until the end.
 *
 * An open batch nobody seals goes by the retention, counted from its last
 * change. A key for each change would be one more write for each job, so the
 * key bo| has the time at which it was last looked at: it may be too early, and
 * is put right when the purge meets it.
 */
#include "fsm/ties/batch.h"

#include "fsm/core/entry.h"
#include "fsm/core/scan.h"
#include "fsm/core/state.h"
#include "fsm/job/create.h"
#include "fsm/job/job.h"
#include "fsm/job/portion.h"
#include "fsm/order/queue.h"
#include "fsm/order/retention.h"
#include "fsm/order/roster.h"
#include "fsm/ties/payload.h"
#include "store/record.h"

/* A batch being changed; slices live in the item's arena. */
struct batch {
	struct str id;
	struct m_batch_doc doc;
};

static bool batch_id_fits(struct str id)
{
	return id.n > 0 && id.n <= LIMIT_JOB_ID_BYTES;
}

/* 1 found, 0 absent (also for an impossible id), -ERR_*. */
static int batch_find(struct fsm *f, struct str id, struct batch *ret)
{
	struct key k;

	ret->id = id;
	if (!batch_id_fits(id))
		return 0;
	key_batch(&k, id);
	return fsm_read(f, &k, &msg_batch_doc, &ret->doc);
}

/* One that is known to be there and not to have ended. 0 or -ERR_*. */
static int must_have(struct fsm *f, struct str id, struct batch *ret)
{
	int r = batch_find(f, id, ret);

	MUST(f, r < 0 || (r > 0 && ret->doc.ended_at == 0));
	return MIN(r, 0);
}

static void write_batch(struct fsm *f, const struct batch *b)
{
	struct key k;

	key_batch(&k, b->id);
	fsm_put(f, &k, &msg_batch_doc, &b->doc);
}

/* After a change. */
static void batch_save(struct fsm *f, struct batch *b)
{
	MUST(f, b->doc.succeeded + b->doc.failed <= b->doc.total);
	if (!b->doc.sealed)
		MSG_SET(&b->doc, batch_doc, changed_at, f->now_ns);
	write_batch(f, b);
}

/* --- open ones, by time; the caller saves --- */

static void list_open(struct fsm *f, struct batch *b, uint64_t ns)
{
	struct key k;

	MSG_SET(&b->doc, batch_doc, listed_at, ns);
	key_batch_open(&k, ns, b->id);
	txn_put(f->txn, key_str(&k), STR(""));
	f->open_from = MIN(f->open_from, ns);
}

static void unlist_open(struct fsm *f, const struct batch *b)
{
	struct key k;

	key_batch_open(&k, b->doc.listed_at, b->id);
	fsm_delete(f, &k);
}

/* --- events --- */

static void batch_event(struct fsm *f, const struct batch *b,
			enum event_type type)
{
	struct json_writer w = JSON_WRITER(&f->data);
	struct m_event e = { 0 };

	buf_clear(&f->data);
	jw_object(&w);
	jw_key(&w, "batch_id");
	jw_str(&w, b->id);
	if (b->doc.parent_id.n > 0) {
		jw_key(&w, "parent_id");
		jw_str(&w, b->doc.parent_id);
	}
	if (type == EVENT_BATCH_ENDED) {
		jw_key(&w, "total");
		jw_u64(&w, b->doc.total);
		jw_key(&w, "succeeded");
		jw_u64(&w, b->doc.succeeded);
		jw_key(&w, "failed");
		jw_u64(&w, b->doc.failed);
	}
	jw_object_end(&w);
	MSG_SET(&e, event, type, type);
	MSG_SET(&e, event, data, buf_str(&f->data));
	fsm_event(f, &e);
}

void batch_purged(struct fsm *f, struct str id)
{
	struct batch b = { .id = id };

	batch_event(f, &b, EVENT_BATCH_PURGED);
}

/* --- the end --- */

static void put_callback_payload(struct fsm *f, const struct batch *b,
				 struct buf *out)
{
	const struct m_batch_doc *d = &b->doc;
	struct json_writer w = JSON_WRITER(out);

	jw_object(&w);
	if (!payload_put_members(f, &w, d->callback_payload, "batch") &&
	    d->callback_payload.n > 0) {
		jw_key(&w, "payload");
		jw_raw(&w, d->callback_payload);
	}
	jw_key(&w, "batch");
	jw_object(&w);
	jw_key(&w, "id");
	jw_str(&w, b->id);
	jw_key(&w, "total");
	jw_u64(&w, d->total);
	jw_key(&w, "succeeded");
	jw_u64(&w, d->succeeded);
	jw_key(&w, "failed");
	jw_u64(&w, d->failed);
	jw_object_end(&w);
	jw_object_end(&w);
}

static void make_callback(struct fsm *f, struct batch *b)
{
	struct m_enqueue op = { 0 };
	struct new_job n = { .op = &op };
	struct m_enqueue_reply reply = { 0 };

	buf_clear(&f->payload);
	put_callback_payload(f, b, &f->payload);
	MSG_SET(&op, enqueue, job_id, fsm_make_id(f, "job_"));
	MSG_SET(&op, enqueue, queue, b->doc.callback_queue);
	MSG_SET(&op, enqueue, payload, buf_str(&f->payload));
	job_create(f, &n, &reply);
	MSG_SET(&b->doc, batch_doc, callback_job_id, op.job_id);
}

/* Its payload moves into the record, which changes no more. */
static int take_payload(struct fsm *f, struct batch *b)
{
	struct str raw;
	struct key k;
	int r;

	key_batch_payload(&k, b->id);
	r = fsm_get(f, &k, &raw);
	if (r <= 0)
		return r;
	MSG_SET(&b->doc, batch_doc, callback_payload, raw);
	fsm_delete(f, &k);
	return 0;
}

static int batch_end(struct fsm *f, struct batch *b)
{
	struct key k;
	int r = take_payload(f, b);

	if (r < 0)
		return r;
	MUST(f, b->doc.sealed && b->doc.ended_at == 0);
	MSG_SET(&b->doc, batch_doc, ended_at, f->now_ns);
	key_batch_end(&k, f->now_ns, b->id);
	txn_put(f->txn, key_str(&k), STR(""));
	purge_note_batch(f, f->now_ns);
	batch_event(f, b, EVENT_BATCH_ENDED);
	if (b->doc.callback_queue.n > 0)
		make_callback(f, b);
	batch_save(f, b);
	return 0;
}

static bool waits(const struct m_batch_doc *d)
{
	return d->succeeded + d->failed < d->total;
}

static void count(struct fsm *f, struct m_batch_doc *d, bool succeeded)
{
	MUST(f, waits(d)); /* for the one that is counted */
	if (succeeded)
		MSG_SET(d, batch_doc, succeeded, d->succeeded + 1);
	else
		MSG_SET(d, batch_doc, failed, d->failed + 1);
}

static bool is_complete(const struct m_batch_doc *d)
{
	return d->sealed && !waits(d);
}

/*
 * Writes it; when that was the last of it, ends it and tells its parent. *b is
 * the one written last then.
 */
static void batch_settle(struct fsm *f, struct batch *b)
{
	while (is_complete(&b->doc)) {
		struct str parent_id = b->doc.parent_id;
		bool succeeded = b->doc.failed == 0;

		if (batch_end(f, b) < 0 || parent_id.n == 0)
			return;
		/* It has not ended: it had this one to wait for. */
		if (must_have(f, parent_id, b) < 0)
			return;
		count(f, &b->doc, succeeded);
	}
	batch_save(f, b);
}

/* --- changes --- */

/* For a batch that something is to be added to: 0, or refused. */
static int must_be_open(struct fsm *f, struct str id, struct batch *ret)
{
	int r = batch_find(f, id, ret);

	if (r < 0)
		return r;
	if (r == 0)
		return fsm_refuse(f, ERR_NOT_FOUND, "batch \"%.*s\" not found",
				  STR_ARG(id));
	if (ret->doc.sealed)
		return fsm_refuse(f, ERR_BATCH_ERROR,
				  "batch \"%.*s\" is sealed: nothing can be "
				  "added to it",
				  STR_ARG(id));
	return 0;
}

int batch_check(struct fsm *f, struct str id)
{
	struct batch b;

	return must_be_open(f, id, &b);
}

static int find_parent(struct fsm *f, struct str id, struct batch *ret)
{
	int r = must_be_open(f, id, ret);

	if (r == 0 && ret->doc.depth >= LIMIT_BATCH_DEPTH)
		return fsm_refuse(f, ERR_BATCH_ERROR,
				  "parent_id: batches may be nested %d deep "
				  "at most",
				  LIMIT_BATCH_DEPTH);
	return r;
}

static void put_payload(struct fsm *f, struct str id, struct str payload)
{
	struct key k;

	key_batch_payload(&k, id);
	txn_put(f->txn, key_str(&k), payload);
}

static int check_new(struct fsm *f, struct str id,
		     const struct m_batch_options *o)
{
	struct batch b;
	int r;

	if (!batch_id_fits(id))
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "batch_id: must have 1 to %d bytes",
				  LIMIT_JOB_ID_BYTES);
	if (o->callback_queue.n > 0 && !queue_name_fits(o->callback_queue))
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "callback_queue: must have 1 to %d bytes",
				  LIMIT_QUEUE_NAME_BYTES);
	r = o->callback_queue.n > 0 ? roster_check(f, &o->callback_queue, 1)
				    : 0;
	if (r == 0)
		r = batch_find(f, id, &b);
	if (r > 0)
		return fsm_refuse(f, ERR_CONFLICT,
				  "batch \"%.*s\" exists already", STR_ARG(id));
	return r;
}

int batch_create(struct fsm *f, struct str id, const struct m_batch_options *o,
		 bool sealed)
{
	struct batch parent = { 0 }, b = { .id = id };
	int r = check_new(f, id, o);

	if (r == 0 && o->parent_id.n > 0)
		r = find_parent(f, o->parent_id, &parent);
	if (r < 0)
		return r;
	MSG_SET(&b.doc, batch_doc, created_at, f->now_ns);
	MSG_SET(&b.doc, batch_doc, sealed, sealed);
	MSG_SET(&b.doc, batch_doc, depth, parent.doc.depth + 1);
	if (o->callback_queue.n > 0)
		MSG_SET(&b.doc, batch_doc, callback_queue, o->callback_queue);
	if (o->callback_payload.n > 0)
		put_payload(f, id, o->callback_payload);
	if (o->parent_id.n > 0) {
		MSG_SET(&b.doc, batch_doc, parent_id, o->parent_id);
		MSG_SET(&parent.doc, batch_doc, total, parent.doc.total + 1);
		batch_save(f, &parent);
	}
	if (!sealed)
		list_open(f, &b, f->now_ns);
	batch_event(f, &b, EVENT_BATCH_OPENED);
	batch_save(f, &b);
	return 0;
}

int batch_exists(struct fsm *f, struct str id)
{
	struct batch b;

	return batch_find(f, id, &b);
}

void batch_add(struct fsm *f, struct str id, uint32_t n)
{
	struct batch b;

	if (must_have(f, id, &b) < 0)
		return;
	MSG_SET(&b.doc, batch_doc, total, b.doc.total + n);
	batch_settle(f, &b);
}

void batch_on_end(struct fsm *f, struct job *j, enum job_state end)
{
	struct batch b;

	if (job_need_doc(f, j) < 0)
		return;
	MSG_SET(&j->live, job_live, counted, true);
	if (must_have(f, j->doc.batch_id, &b) < 0)
		return;
	count(f, &b.doc, end == JOB_COMPLETED);
	batch_settle(f, &b);
}

int batch_seal(struct fsm *f, struct str id)
{
	struct batch b;
	int r = batch_find(f, id, &b);

	if (r <= 0 || b.doc.sealed)
		return r;
	MSG_SET(&b.doc, batch_doc, sealed, true);
	unlist_open(f, &b);
	MSG_UNSET(&b.doc, batch_doc, listed_at);
	MSG_UNSET(&b.doc, batch_doc, changed_at);
	batch_event(f, &b, EVENT_BATCH_SEALED);
	batch_settle(f, &b);
	return 1;
}

/* --- open ones nobody seals --- */

/* Its parent need not wait for it any more. */
static int give_up(struct fsm *f, struct batch *b)
{
	struct str parent_id = b->doc.parent_id;
	struct key k;
	int r;

	unlist_open(f, b);
	key_batch_payload(&k, b->id);
	fsm_delete(f, &k);
	key_batch(&k, b->id);
	fsm_delete(f, &k);
	batch_event(f, b, EVENT_BATCH_PURGED);
	if (parent_id.n == 0)
		return 0;
	r = must_have(f, parent_id, b);
	if (r < 0)
		return r;
	count(f, &b->doc, false);
	batch_settle(f, b);
	return 0;
}

/* 1: it went; 0: it is looked at again later; -ERR_*. */
static int look_at_open(struct fsm *f, struct str id, uint64_t upto_ns)
{
	struct batch b;
	int r = must_have(f, id, &b);

	if (r < 0)
		return r;
	if (!waits(&b.doc) && b.doc.changed_at <= upto_ns) {
		r = give_up(f, &b);
		return r < 0 ? r : 1;
	}
	unlist_open(f, &b);
	list_open(f, &b, waits(&b.doc) ? f->now_ns : b.doc.changed_at);
	write_batch(f, &b);
	return 0;
}

int batches_purge_open(struct fsm *f, uint64_t upto_ns, struct portion *p)
{
	uint64_t first = f->open_from;
	struct due_scan s = { .upto_ns = upto_ns };
	struct key k;
	size_t i = 0;
	int r;

	/* Also when the portion is full: a seal has left the bound too early,
	 * and the answer tells whether there is more. */
	if (!portion_is_full(f, p))
		s.max = p->max - p->jobs;
	s.ids = arena_alloc(&f->item_arena, s.max * sizeof(*s.ids));
	key_prefix(&k, "bo|");
	r = due_scan_run(f, &k, first, &s);
	if (r < 0)
		return r;
	f->open_from = s.next;
	for (; i < s.n && !budget_is_spent(f); i++) {
		r = look_at_open(f, s.ids[i], upto_ns);
		budget_take_job(f);
		if (r < 0)
			return r;
		p->jobs += (uint32_t)r;
	}
	if (i < s.n)
		f->open_from = MIN(f->open_from, first);
	return 0;
}

/* --- reading --- */

int batch_read(struct fsm *f, struct str id, struct m_batch *ret)
{
	struct batch b;
	struct key k;
	int r = batch_find(f, id, &b);

	if (r <= 0)
		return r;
	if (b.doc.ended_at == 0) {
		key_batch_payload(&k, id);
		r = fsm_get(f, &k, &b.doc.callback_payload);
		if (r < 0)
			return r;
	}
	record_batch(id, &b.doc, ret);
	return 1;
}
