/*
 * See check/rebuild.h. Rows are written as the feed would write them, but in
 * large transactions and without indexes, which are made afterwards.
 */
#include "check/rebuild.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check/scan.h"
#include "db/db.h"
#include "db/schema.h"
#include "mirror/mirror.h"
#include "rt/file.h"
#include "store/record.h"

#define REBUILD_TXN_JOBS 50000 /* rows of one transaction */
#define PASS_ON_JOBS     16
#define PASS_ON_BYTES    (4u << 20) /* that the file has grown by */

struct loader {
	struct rebuild *task;
	struct scan scan;
	struct db *db;
	struct mirror *mirror;
	int fd;             /* of the file */
	off_t passed_on;    /* bytes of it */
	uint64_t newest_ns; /* last change of any job: the view's time */
};

/* --- jobs --- */

static int load_errors(struct loader *l, struct str id)
{
	struct m_job_error e;
	int r;

	while ((r = scan_error(&l->scan, id, &e)) > 0) {
		r = mirror_error(l->mirror, &e);
		if (r < 0)
			return r;
	}
	return r;
}

/* A large view does not wait for the flush at its end. */
static void pass_on(struct loader *l)
{
	struct stat st;

	if (fstat(l->fd, &st) < 0 || st.st_size < l->passed_on + PASS_ON_BYTES)
		return;
	file_pass_on(l->fd);
	l->passed_on = st.st_size;
}

static uint64_t changed_ns(const struct m_job *j)
{
	uint64_t ns = MAX(j->created_at, j->started_at);

	ns = MAX(ns, j->completed_at);
	ns = MAX(ns, j->failed_at);
	return MAX(ns, j->cancelled_at);
}

static int load_job(struct loader *l, const struct m_job *job)
{
	int r = mirror_job(l->mirror, job);

	if (r == 0)
		r = load_errors(l, job->id);
	if (r < 0)
		return r;
	l->newest_ns = MAX(l->newest_ns, changed_ns(job));
	if (++l->task->jobs % PASS_ON_JOBS == 0)
		pass_on(l);
	if (l->task->jobs % REBUILD_TXN_JOBS != 0)
		return 0;
	r = mirror_commit(l->mirror);
	return r < 0 ? r : mirror_begin(l->mirror);
}

static int load_jobs(struct loader *l)
{
	struct m_job job;
	int r;

	while ((r = scan_job(&l->scan, &job)) > 0) {
		r = load_job(l, &job);
		if (r < 0)
			return r;
		if (atomic_load(&l->task->stop))
			return -ERR_SHUTTING_DOWN;
	}
	return r;
}

/* --- everything else --- */

static int load_row(struct loader *l, enum row_kind kind,
		    const union scan_row *row)
{
	switch (kind) {
	case ROW_QUEUE:
		return mirror_queue(l->mirror, &row->queue);
	case ROW_WORKER:
		return mirror_worker(l->mirror, &row->worker);
	case ROW_LOCK:
		return mirror_lock(l->mirror, &row->lock);
	case ROW_BATCH:
		return mirror_batch(l->mirror, &row->batch);
	case ROW_SCHEDULE:
		return mirror_schedule(l->mirror, &row->schedule);
	case ROW_BUDGET:
		return mirror_budget(l->mirror, &row->budget);
	case ROW_SCORE:
		return mirror_score(l->mirror, &row->score);
	case ROW_POLICY:
		return mirror_policy(l->mirror, &row->policy);
	case ROW_ITERATION:
		return mirror_iteration(l->mirror, &row->iteration);
	case ROW_PROVIDER:
		return mirror_provider(l->mirror, &row->provider);
	case ROW_WEBHOOK:
		return mirror_webhook(l->mirror, &row->webhook);
	case ROW_ERROR: /* came with their jobs */
	case ROW_KINDS:
		break;
	}
	return 0;
}

static int load_kind(struct loader *l, enum row_kind kind)
{
	union scan_row row;
	int r;

	scan_begin(&l->scan, kind);
	while ((r = scan_row(&l->scan, kind, &row)) > 0) {
		r = load_row(l, kind, &row);
		if (r < 0)
			return r;
	}
	return r;
}

static int load_kinds(struct loader *l)
{
	int r = 0;

	for (unsigned k = 0; k < ROW_KINDS && r == 0; k++)
		if (k != ROW_ERROR)
			r = load_kind(l, (enum row_kind)k);
	return r;
}

/* The history is part of what a checkpoint holds. */
static int load_history(struct loader *l)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct record_meta meta;
	int r = record_meta_read(l->scan.kv, &meta);

	if (r < 0) {
		buf_printf(&l->task->why, "cannot read the checkpoint: %s",
			   kv_error_text());
		return r;
	}
	history_put(&b, &meta.origin.history);
	return mirror_history(l->mirror, buf_str(&b));
}

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
		r = load_kinds(l);
	if (r == 0)
		r = load_history(l);
	if (r == 0)
		r = mirror_position(l->mirror, l->task->seq, l->newest_ns);
	if (r == 0)
		r = mirror_commit(l->mirror);
	pass_on(l);
	if (r == 0)
		r = schema_make_indexes(l->db);
	return r;
}

static int open_and_load(struct loader *l)
{
	struct rebuild *task = l->task;
	int r = scan_open(&l->scan, task->checkpoint, &task->why);

	if (r == 0)
		r = db_open(task->path, DB_LOAD, &l->db, &task->why);
	if (r < 0)
		return r;
	l->fd = open(task->path, O_RDONLY | O_CLOEXEC);
	db_set_stop(l->db, &task->stop);
	r = load(l);
	if (r < 0 && atomic_load(&task->stop))
		return -ERR_SHUTTING_DOWN;
	if (r < 0 && task->why.n == 0)
		buf_printf(&task->why, "cannot write %s: %s", task->path,
			   db_error(l->db));
	return r;
}

/* Here and now: the swap of the files, which others wait for, syncs too. */
static int sync_file(struct rebuild *r, int fd)
{
	int err = fsync(fd) < 0 ? errno : 0;

	if (err == 0)
		return 0;
	buf_printf(&r->why, "cannot sync %s: %s", r->path, strerror(err));
	return err == ENOSPC ? -ERR_STORAGE_FULL : -ERR_INTERNAL_ERROR;
}

/* Somebody may have removed that, too. */
static int make_directory(struct rebuild *r)
{
	const char *slash = strrchr(r->path, '/');
	char *dir;
	int err;

	if (slash == NULL)
		return 0;
	dir = xstrndup(r->path, (size_t)(slash - r->path));
	err = dir_make(dir);
	if (err < 0)
		buf_printf(&r->why, "cannot make %s: %s", dir, strerror(-err));
	free(dir);
	return err < 0 ? -ERR_INTERNAL_ERROR : 0;
}

int rebuild_run(struct rebuild *r)
{
	struct loader l = { .task = r, .fd = -1 };
	int err;

	r->jobs = 0;
	buf_clear(&r->why);
	err = make_directory(r);
	if (err < 0)
		return err;
	if (unlink(r->path) < 0 && errno != ENOENT) {
		buf_printf(&r->why, "cannot remove %s: %s", r->path,
			   strerror(errno));
		return -ERR_INTERNAL_ERROR;
	}
	err = open_and_load(&l);
	mirror_free(l.mirror);
	db_close(l.db);
	scan_close(&l.scan);
	if (err == 0)
		err = sync_file(r, l.fd);
	if (l.fd >= 0)
		(void)close(l.fd);
	malloc_trim(0); /* much was used, and will not be used again */
	if (err < 0)
		(void)unlink(r->path); /* a leftover is removed next time */
	return err;
}
