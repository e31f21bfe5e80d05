/*
 * Jobs lie in the store in the order of their ids, and so do their live parts
 * and their errors: three iterators walk side by side, and no record is
 * looked up by key but the lease of an active job and the payload of a batch.
 */
#include "check/scan.h"

#include "store/format.h"
#include "store/key.h"
#include "store/record.h"

#define SCAN_CACHE_BYTES (8u << 20) /* the store is read once, in order */
#define KEY_TAIL         5          /* of je| and it|: NUL and a number */

static const char *const prefixes[ROW_KINDS] = {
	[ROW_QUEUE] = "qc|",  [ROW_WORKER] = "wk|",    [ROW_LOCK] = "u|",
	[ROW_BATCH] = "b|",   [ROW_SCHEDULE] = "sc|",  [ROW_BUDGET] = "bg|",
	[ROW_SCORE] = "so|",  [ROW_ITERATION] = "it|", [ROW_PROVIDER] = "pv|",
	[ROW_POLICY] = "ap|", [ROW_WEBHOOK] = "wh|",
};

static struct kv_iter *iterate(struct kv *kv, const char *kind)
{
	struct key from, upto;

	key_prefix(&from, kind);
	key_prefix_end(&from, &upto);
	return kv_iter_new(kv, key_str(&from), key_str(&upto));
}

/* What follows the prefix of a key. */
static struct str key_rest(struct str key)
{
	struct str head, rest;

	(void)str_split(key, '|', &head, &rest);
	return rest;
}

/* The same of a key that begins with a namespace; there is one only. */
static bool key_name(struct str key, struct str *ret)
{
	uint32_t space;

	*ret = key_rest(key);
	return key_take_space(ret, &space) && space == SPACE_DEFAULT;
}

static int bad_record(struct scan *s, struct str key)
{
	buf_printf(s->why,
		   "the record %.*s of the checkpoint cannot be "
		   "read",
		   (int)MIN(key.n, strnlen(key.p, key.n)), key.p);
	return -ERR_INTERNAL_ERROR;
}

int scan_open(struct scan *s, const char *checkpoint, struct buf *why)
{
	struct kv_options options = { .cache_bytes = SCAN_CACHE_BYTES,
				      .read_only = true };
	int r;

	*s = (struct scan){ .why = why };
	r = kv_rocks_open(checkpoint, &options, &s->kv, why);
	if (r == 0)
		r = format_check(s->kv, why);
	if (r < 0)
		return r;
	s->jobs = iterate(s->kv, "j|");
	s->lives = iterate(s->kv, "jl|");
	s->errors = iterate(s->kv, "je|");
	return 0;
}

void scan_close(struct scan *s)
{
	struct kv_iter *all[] = { s->jobs, s->lives, s->errors, s->rows };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (all[i] != NULL)
			kv_iter_free(all[i]);
	if (s->kv != NULL)
		kv_close(s->kv);
	arena_done(&s->arena);
	*s = (struct scan){ 0 };
}

/* --- jobs --- */

/* 1: the iterator stands on the live part of `id`; 0: there is none. */
static int seek_live(struct scan *s, struct str id)
{
	while (kv_iter_valid(s->lives)) {
		int c = str_cmp(key_rest(kv_iter_key(s->lives)), id);

		if (c >= 0)
			return c == 0;
		kv_iter_next(s->lives);
	}
	return kv_iter_error(s->lives);
}

static int compose(struct scan *s, struct str id, struct str doc_raw,
		   struct m_job *ret)
{
	struct m_job_live live;
	struct m_job_doc doc;
	int r;

	if (msg_decode(&msg_job_doc, doc_raw, &s->arena, &doc) < 0)
		return bad_record(s, id);
	r = seek_live(s, id);
	if (r < 0)
		return r;
	if (r == 1 && msg_decode(&msg_job_live, kv_iter_value(s->lives),
				 &s->arena, &live) < 0)
		return bad_record(s, id);
	if (r == 1 && live.state == JOB_ACTIVE) {
		r = record_job(s->kv, id, 0, &s->arena, ret);
		return r == 0 ? bad_record(s, id) : MIN(r, 0);
	}
	record_compose(id, &doc, r == 1 ? &live : NULL, ret);
	return 0;
}

int scan_job(struct scan *s, struct m_job *ret)
{
	int r;

	arena_reset(&s->arena);
	if (s->job_read)
		kv_iter_next(s->jobs);
	s->job_read = kv_iter_valid(s->jobs);
	if (!s->job_read)
		return kv_iter_error(s->jobs);
	r = compose(s, key_rest(kv_iter_key(s->jobs)), kv_iter_value(s->jobs),
		    ret);
	return r < 0 ? r : 1;
}

/* Errors of jobs before it have no job and are passed over. */
int scan_error(struct scan *s, struct str job_id, struct m_job_error *ret)
{
	for (; kv_iter_valid(s->errors); kv_iter_next(s->errors)) {
		struct str key = kv_iter_key(s->errors);
		struct str rest = key_rest(key), raw;
		int c;

		if (rest.n < KEY_TAIL)
			return bad_record(s, key);
		rest.n -= KEY_TAIL;
		c = str_cmp(rest, job_id);
		if (c > 0)
			return 0;
		if (c < 0)
			continue;
		raw = arena_copy(&s->arena, kv_iter_value(s->errors));
		if (msg_decode(&msg_job_error, raw, &s->arena, ret) < 0)
			return bad_record(s, key);
		MSG_SET(ret, job_error, job_id, job_id);
		MSG_SET(ret, job_error, id, get_be32(key.p + key.n - 4));
		kv_iter_next(s->errors);
		return 1;
	}
	return kv_iter_error(s->errors);
}

/* --- other records --- */

void scan_begin(struct scan *s, enum row_kind kind)
{
	if (s->rows != NULL)
		kv_iter_free(s->rows);
	s->rows = iterate(s->kv, prefixes[kind]);
	s->row_read = false;
}

static int read_queue(struct scan *s, struct str name, struct str raw,
		      struct m_queue *ret)
{
	struct m_queue_doc doc;

	if (msg_decode(&msg_queue_doc, raw, &s->arena, &doc) < 0)
		return bad_record(s, name);
	record_queue(name, &doc, ret);
	return 1;
}

static int read_worker(struct scan *s, struct str id, struct str raw,
		       struct m_worker *ret)
{
	if (msg_decode(&msg_worker, raw, &s->arena, ret) < 0)
		return bad_record(s, id);
	MSG_SET(ret, worker, id, id);
	return 1;
}

static int read_batch(struct scan *s, struct str id, struct str raw,
		      struct m_batch *ret)
{
	struct m_batch_doc doc;
	struct buf payload = BUF_INIT(0);
	struct key k;
	int r = 0;

	if (id.n > LIMIT_JOB_ID_BYTES ||
	    msg_decode(&msg_batch_doc, raw, &s->arena, &doc) < 0)
		return bad_record(s, id);
	record_batch(id, &doc, ret);
	if (doc.ended_at == 0) {
		key_batch_payload(&k, id);
		r = kv_get(s->kv, key_str(&k), &payload);
	}
	if (r > 0)
		MSG_SET(ret, batch, callback_payload,
			arena_copy(&s->arena, buf_str(&payload)));
	buf_done(&payload);
	return r < 0 ? r : 1;
}

static int read_lock(struct scan *s, struct str rest, struct str raw,
		     struct m_unique_lock *ret)
{
	struct str queue, key;

	if (!str_split(rest, '\0', &queue, &key) ||
	    !record_lock(queue, key, raw, ret))
		return bad_record(s, rest);
	return 1;
}

static int read_iteration(struct scan *s, struct str rest, struct str raw,
			  struct m_iteration *ret)
{
	struct str id = rest;

	if (rest.n < KEY_TAIL)
		return bad_record(s, rest);
	id.n -= KEY_TAIL;
	if (!record_iteration(id, get_be32(rest.p + rest.n - 4), raw, &s->arena,
			      ret))
		return bad_record(s, rest);
	return 1;
}

int scan_row(struct scan *s, enum row_kind kind, union scan_row *ret)
{
	struct str key, raw;

	arena_reset(&s->arena);
	if (s->row_read)
		kv_iter_next(s->rows);
	s->row_read = kv_iter_valid(s->rows);
	if (!s->row_read)
		return kv_iter_error(s->rows);
	raw = kv_iter_value(s->rows);
	if (kind == ROW_BATCH || kind == ROW_SCORE || kind == ROW_ITERATION)
		key = key_rest(kv_iter_key(s->rows));
	else if (!key_name(kv_iter_key(s->rows), &key))
		return bad_record(s, kv_iter_key(s->rows));
	switch (kind) {
	case ROW_QUEUE:
		return read_queue(s, key, raw, &ret->queue);
	case ROW_WORKER:
		return read_worker(s, key, raw, &ret->worker);
	case ROW_LOCK:
		return read_lock(s, key, raw, &ret->lock);
	case ROW_BATCH:
		return read_batch(s, key, raw, &ret->batch);
	case ROW_SCHEDULE:
		if (msg_decode(&msg_schedule, raw, &s->arena, &ret->schedule) <
		    0)
			return bad_record(s, key);
		return 1;
	case ROW_BUDGET:
		if (msg_decode(&msg_budget, raw, &s->arena, &ret->budget) < 0)
			return bad_record(s, key);
		return 1;
	case ROW_SCORE:
		if (msg_decode(&msg_score, raw, &s->arena, &ret->score) < 0)
			return bad_record(s, key);
		return 1;
	case ROW_POLICY:
		if (msg_decode(&msg_policy, raw, &s->arena, &ret->policy) < 0)
			return bad_record(s, key);
		return 1;
	case ROW_ITERATION:
		return read_iteration(s, key, raw, &ret->iteration);
	case ROW_PROVIDER:
		if (msg_decode(&msg_provider_doc, raw, &s->arena,
			       &ret->provider) < 0)
			return bad_record(s, key);
		return 1;
	case ROW_WEBHOOK:
		if (msg_decode(&msg_webhook, raw, &s->arena, &ret->webhook) < 0)
			return bad_record(s, key);
		return 1;
	case ROW_ERROR:
	case ROW_KINDS:
		break;
	}
	CHECK(!"errors are read with their jobs");
	return -ERR_INTERNAL_ERROR;
}
