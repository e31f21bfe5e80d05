/*
 * Jobs lie in the store in the order of their ids, and so do their live parts
 * and their errors: three iterators walk side by side, and no record is
 * looked up by key but the lease of an active job.
 */
#include "rebuild.h"

#include <errno.h>
#include <malloc.h>
#include <unistd.h>

#include "db.h"
#include "mirror.h"
#include "proto/proto.h"
#include "schema.h"
#include "store/key.h"
#include "store/kv.h"
#include "store/record.h"

#define REBUILD_TXN_JOBS    50000      /* rows of one transaction */
#define REBUILD_CACHE_BYTES (8u << 20) /* the store is read once, in order */
#define ERROR_KEY_TAIL      5          /* of je|: NUL and a number */

struct loader {
	struct rebuild *task;
	struct kv *kv;
	struct db *db;
	struct mirror *mirror;
	struct kv_iter *lives;
	struct kv_iter *errors;
	struct arena arena; /* of one job */
	uint64_t newest_ns; /* last change of any job: the view's time */
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

static int bad_record(struct loader *l, struct str key)
{
	buf_printf(&l->task->why,
		   "the record %.*s of the checkpoint cannot be "
		   "read",
		   (int)MIN(key.n, strnlen(key.p, key.n)), key.p);
	return -ERR_INTERNAL_ERROR;
}

/* --- jobs --- */

/* 1: the iterator stands on the live part of `id`; 0: there is none. */
static int seek_live(struct loader *l, struct str id)
{
	while (kv_iter_valid(l->lives)) {
		int c = str_cmp(key_rest(kv_iter_key(l->lives)), id);

		if (c >= 0)
			return c == 0;
		kv_iter_next(l->lives);
	}
	return kv_iter_error(l->lives);
}

static int compose(struct loader *l, struct str id, struct str doc_raw,
		   struct m_job *ret)
{
	struct m_job_live live;
	struct m_job_doc doc;
	int r;

	if (msg_decode(&msg_job_doc, doc_raw, &l->arena, &doc) < 0)
		return bad_record(l, id);
	r = seek_live(l, id);
	if (r < 0)
		return r;
	if (r == 1 && msg_decode(&msg_job_live, kv_iter_value(l->lives),
				 &l->arena, &live) < 0)
		return bad_record(l, id);
	if (r == 1 && live.state == JOB_ACTIVE) {
		r = record_job(l->kv, id, 0, &l->arena, ret);
		return r == 0 ? bad_record(l, id) : MIN(r, 0);
	}
	record_compose(id, &doc, r == 1 ? &live : NULL, ret);
	return 0;
}

static int load_error(struct loader *l, struct str id, struct str key)
{
	struct m_job_error e;

	if (msg_decode(&msg_job_error, kv_iter_value(l->errors), &l->arena,
		       &e) < 0)
		return bad_record(l, key);
	MSG_SET(&e, job_error, job_id, id);
	MSG_SET(&e, job_error, id, get_be32(key.p + key.n - 4));
	return mirror_error(l->mirror, &e);
}

/* Errors of `id`; those of jobs before it have no job and are passed over. */
static int load_errors(struct loader *l, struct str id)
{
	for (; kv_iter_valid(l->errors); kv_iter_next(l->errors)) {
		struct str key = kv_iter_key(l->errors);
		struct str rest = key_rest(key);
		int c, r;

		if (rest.n < ERROR_KEY_TAIL)
			return bad_record(l, key);
		rest.n -= ERROR_KEY_TAIL;
		c = str_cmp(rest, id);
		if (c > 0)
			return 0;
		r = c == 0 ? load_error(l, id, key) : 0;
		if (r < 0)
			return r;
	}
	return kv_iter_error(l->errors);
}

static uint64_t changed_ns(const struct m_job *j)
{
	uint64_t ns = MAX(j->created_at, j->started_at);

	ns = MAX(ns, j->completed_at);
	ns = MAX(ns, j->failed_at);
	return MAX(ns, j->cancelled_at);
}

static int load_job(struct loader *l, struct str id, struct str doc_raw)
{
	struct m_job job;
	int r = compose(l, id, doc_raw, &job);

	if (r == 0)
		r = mirror_job(l->mirror, &job);
	if (r == 0)
		r = load_errors(l, id);
	if (r < 0)
		return r;
	l->newest_ns = MAX(l->newest_ns, changed_ns(&job));
	arena_reset(&l->arena);
	if (++l->task->jobs % REBUILD_TXN_JOBS != 0)
		return 0;
	r = mirror_commit(l->mirror);
	return r < 0 ? r : mirror_begin(l->mirror);
}

static int load_jobs(struct loader *l)
{
	struct kv_iter *it = iterate(l->kv, "j|");
	int r = 0;

	l->lives = iterate(l->kv, "jl|");
	l->errors = iterate(l->kv, "je|");
	for (; kv_iter_valid(it) && r == 0; kv_iter_next(it)) {
		r = load_job(l, key_rest(kv_iter_key(it)), kv_iter_value(it));
		if (r == 0 && atomic_load(&l->task->stop))
			r = -ERR_SHUTTING_DOWN;
	}
	if (r == 0)
		r = kv_iter_error(it);
	kv_iter_free(it);
	kv_iter_free(l->lives);
	kv_iter_free(l->errors);
	return r;
}

/* --- queues and workers --- */

static int load_queue(struct loader *l, struct str name, struct str raw)
{
	struct m_queue_doc doc;
	struct m_queue q;

	if (msg_decode(&msg_queue_doc, raw, &l->arena, &doc) < 0)
		return bad_record(l, name);
	record_queue(name, &doc, &q);
	return mirror_queue(l->mirror, &q);
}

static int load_worker(struct loader *l, struct str id, struct str raw)
{
	struct m_worker w;

	if (msg_decode(&msg_worker, raw, &l->arena, &w) < 0)
		return bad_record(l, id);
	MSG_SET(&w, worker, id, id);
	return mirror_worker(l->mirror, &w);
}

static int load_kind(struct loader *l, const char *kind,
		     int (*fn)(struct loader *, struct str, struct str))
{
	struct kv_iter *it = iterate(l->kv, kind);
	int r = 0;

	for (; kv_iter_valid(it) && r == 0; kv_iter_next(it)) {
		r = fn(l, key_rest(kv_iter_key(it)), kv_iter_value(it));
		arena_reset(&l->arena);
	}
	if (r == 0)
		r = kv_iter_error(it);
	kv_iter_free(it);
	return r;
}

/* --- the whole --- */

static int load(struct loader *l)
{
	int r = schema_make_tables(l->db);

	if (r == 0)
		r = mirror_new(l->db, &l->mirror);
	if (r == 0)
		r = mirror_begin(l->mirror);
	if (r == 0)
		r = load_jobs(l);
	if (r == 0)
		r = load_kind(l, "qc|", load_queue);
	if (r == 0)
		r = load_kind(l, "w|", load_worker);
	if (r == 0)
		r = mirror_position(l->mirror, l->task->seq, l->newest_ns);
	if (r == 0)
		r = mirror_commit(l->mirror);
	if (r == 0)
		r = schema_make_indexes(l->db);
	return r;
}

static int open_and_load(struct loader *l)
{
	struct rebuild *task = l->task;
	struct kv_options options = { .cache_bytes = REBUILD_CACHE_BYTES,
				      .read_only = true };
	int r = kv_rocks_open(task->checkpoint, &options, &l->kv, &task->why);

	if (r == 0)
		r = db_open(task->path, DB_LOAD, &l->db, &task->why);
	if (r < 0)
		return r;
	db_set_stop(l->db, &task->stop);
	r = load(l);
	if (r < 0 && atomic_load(&task->stop))
		return -ERR_SHUTTING_DOWN;
	if (r < 0 && task->why.n == 0)
		buf_printf(&task->why, "cannot write %s: %s", task->path,
			   db_error(l->db));
	return r;
}

int rebuild_run(struct rebuild *r)
{
	struct loader l = { .task = r };
	int err;

	r->jobs = 0;
	buf_clear(&r->why);
	if (unlink(r->path) < 0 && errno != ENOENT) {
		buf_printf(&r->why, "cannot remove %s: %s", r->path,
			   strerror(errno));
		return -ERR_INTERNAL_ERROR;
	}
	err = open_and_load(&l);
	mirror_free(l.mirror);
	db_close(l.db);
	if (l.kv != NULL)
		kv_close(l.kv);
	arena_done(&l.arena);
	malloc_trim(0); /* much was used, and will not be used again */
	if (err < 0)
		(void)unlink(r->path); /* a leftover is removed next time */
	return err;
}
