/*
 * One answer of raftd, one transaction. See mirror.h; jobs are in
 * mirror_job.c.
 */
#include "mirror.h"

#include <stdio.h>
#include <stdlib.h>

#include "mirror_impl.h"
#include "schema.h"

/* Counters are written in the order of their numbers: ?2 is state 1. */
_Static_assert(
    JOB_PENDING == 1 && JOB_ACTIVE == 2 && JOB_HELD == 3 &&
	JOB_COMPLETED == 4 && JOB_RETRYING == 5 && JOB_DEAD == 6 &&
	JOB_CANCELLED == 7 && JOB_SCHEDULED == 8 && JOB_STATES_SHOWN == 9,
    "a state needs a column in queue_stats and a place in STMT_COUNT");

static const char *const sql[STMT_MAX] = {
	[STMT_JOB_FIND] = "SELECT rowid, queue, state, error_count,"
			  " blocked FROM jobs"
			  " WHERE id=?1",
	[STMT_JOBS_DELETE] = "DELETE FROM jobs WHERE rowid IN"
			     " (SELECT value FROM json_each(?1))",
	[STMT_JOB_FAILED] = "UPDATE jobs SET last_error=?2, error_count=?3"
			    " WHERE rowid=?1",
	[STMT_TEXT_CHANGED] = "SELECT (queue,tags,payload) IS NOT (?2,?3,?4)"
			      " FROM jobs WHERE rowid=?1",
	[STMT_TEXT_REMOVE] =
	    "INSERT INTO jobs_fts(jobs_fts,rowid,queue,tags,payload)"
	    " SELECT 'delete',j.rowid,j.queue,j.tags,j.payload"
	    " FROM json_each(?1) e CROSS JOIN jobs j ON j.rowid=e.value",
	[STMT_TEXT_ADD] =
	    "INSERT INTO jobs_fts(rowid,queue,tags,payload)"
	    " SELECT j.rowid,j.queue,j.tags,j.payload"
	    " FROM json_each(?1) e CROSS JOIN jobs j ON j.rowid=e.value",
	[STMT_TEXT_ADD_NEW] =
	    "INSERT INTO jobs_fts(rowid,queue,tags,payload)"
	    " SELECT rowid,queue,tags,payload FROM jobs WHERE rowid>=?1",
	[STMT_ERROR_INSERT] =
	    "INSERT INTO job_errors(job_id,n,attempt,error,backtrace,"
	    "worker_id,hostname,created_at) VALUES(?1,?2,?3,?4,?5,?6,?7,?8)"
	    " ON CONFLICT(job_id,n) DO NOTHING",
	[STMT_ERROR_TRIM] = "DELETE FROM job_errors WHERE job_id=?1 AND n<=?2",
	[STMT_ERRORS_DELETE] = "DELETE FROM job_errors WHERE job_id=?1",
	[STMT_QUEUE] =
	    "INSERT INTO queues(name,paused,created_at,max_concurrency,"
	    "rate_limit,rate_window_ms) VALUES(?1,?2,?3,?4,?5,?6)"
	    " ON CONFLICT(name) DO UPDATE SET paused=?2, created_at=?3,"
	    " max_concurrency=?4, rate_limit=?5, rate_window_ms=?6",
	[STMT_QUEUE_DELETE] = "DELETE FROM queues WHERE name=?1",
	/* Of a queue that has jobs again, or still, they are needed. */
	[STMT_STATS_DELETE] =
	    "DELETE FROM queue_stats WHERE queue=?1 AND pending=0"
	    " AND active=0 AND held=0 AND completed=0 AND retrying=0"
	    " AND dead=0 AND cancelled=0 AND scheduled=0",
	[STMT_WORKER] =
	    "INSERT INTO workers(id,hostname,queues,last_heartbeat,started_at)"
	    " VALUES(?1,?2,?3,?4,?5) ON CONFLICT(id) DO UPDATE"
	    " SET hostname=?2, queues=?3, last_heartbeat=?4, started_at=?5",
	[STMT_COUNT] =
	    "INSERT INTO queue_stats(queue,pending,active,held,completed,"
	    "retrying,dead,cancelled,scheduled,failed,blocked)"
	    " VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11)"
	    " ON CONFLICT(queue) DO UPDATE SET"
	    " pending=pending+?2, active=active+?3, held=held+?4,"
	    " completed=completed+?5, retrying=retrying+?6, dead=dead+?7,"
	    " cancelled=cancelled+?8, scheduled=scheduled+?9,"
	    " failed=failed+?10, blocked=blocked+?11",
	[STMT_META] = "INSERT INTO meta(key,value) VALUES(?1,?2)"
		      " ON CONFLICT(key) DO UPDATE SET value=?2",
};

int mirror_new(struct db *db, struct mirror **ret)
{
	struct mirror *m = xcalloc(1, sizeof(*m));
	struct buf b = BUF_INIT(0);
	int r = 0;

	m->db = db;
	for (unsigned i = 0; i < STMT_MAX && r == 0; i++) {
		if (sql[i] == NULL)
			mirror_job_sql((enum mirror_stmt)i, &b);
		r = db_prepare(db, sql[i] != NULL ? sql[i] : b.p, &m->stmts[i]);
	}
	buf_done(&b);
	if (r < 0) {
		mirror_free(m);
		return r;
	}
	*ret = m;
	return 0;
}

void mirror_free(struct mirror *m)
{
	if (m == NULL)
		return;
	for (size_t i = 0; i < STMT_MAX; i++)
		db_finalize(m->stmts[i]);
	column_text_done(&m->text);
	hmap_done(&m->deltas);
	arena_done(&m->arena);
	buf_done(&m->rowids);
	free(m);
}

/* --- counters --- */

struct mirror_delta *mirror_delta(struct mirror *m, struct str queue)
{
	struct mirror_delta *d;

	if (m->last_delta != NULL && str_eq(m->last_queue, queue))
		return m->last_delta;
	d = hmap_get(&m->deltas, queue);
	if (d == NULL) {
		d = arena_zalloc(&m->arena, sizeof(*d));
		hmap_put(&m->deltas, queue, d);
	}
	m->last_delta = d;
	m->last_queue = arena_copy(&m->arena, queue);
	return d;
}

static bool delta_is_zero(const struct mirror_delta *d)
{
	int64_t any = d->failed | d->blocked;

	for (size_t i = 1; i < JOB_STATES_SHOWN; i++)
		any |= d->jobs[i];
	return any == 0;
}

static int write_delta(struct mirror *m, struct str queue,
		       const struct mirror_delta *d)
{
	struct db_stmt *s = m->stmts[STMT_COUNT];

	if (delta_is_zero(d))
		return 0;
	db_bind_text(s, 1, queue);
	for (int i = 1; i < JOB_STATES_SHOWN; i++)
		db_bind_i64(s, i + 1, d->jobs[i]);
	db_bind_i64(s, JOB_STATES_SHOWN + 1, d->failed);
	db_bind_i64(s, JOB_STATES_SHOWN + 2, d->blocked);
	return db_run(s);
}

/* After its last change, so that no counter is left behind. */
static int delete_stats(struct mirror *m, struct str queue)
{
	db_bind_text(m->stmts[STMT_STATS_DELETE], 1, queue);
	return db_run(m->stmts[STMT_STATS_DELETE]);
}

static void forget_changes(struct mirror *m)
{
	hmap_clear(&m->deltas);
	m->last_delta = NULL;
	m->text_new = 0;
	arena_reset(&m->arena);
}

/* --- transactions --- */

int mirror_begin(struct mirror *m)
{
	forget_changes(m);
	return db_exec(m->db, "BEGIN IMMEDIATE");
}

int mirror_commit(struct mirror *m)
{
	struct str queue;
	size_t pos = 0;
	void *d;
	int r = mirror_text_commit(m);

	while (r == 0 && hmap_next(&m->deltas, &pos, &queue, &d)) {
		r = write_delta(m, queue, d);
		if (r == 0 && ((struct mirror_delta *)d)->gone)
			r = delete_stats(m, queue);
	}
	forget_changes(m);
	return r < 0 ? r : db_exec(m->db, "COMMIT");
}

/* SQLite has rolled back by itself after some errors; then this fails. */
void mirror_rollback(struct mirror *m)
{
	forget_changes(m);
	(void)db_exec(m->db, "ROLLBACK");
}

/* --- rows --- */

static void bind_time(struct mirror *m, struct db_stmt *s, int i, uint64_t ns)
{
	char *text = arena_alloc(&m->arena, TIMETEXT_LEN);

	timetext_put(&m->text.times, ns, text);
	db_bind_text(s, i, str_of(text, TIMETEXT_LEN));
}

static struct str text_or_empty(struct str s)
{
	return s.p != NULL ? s : STR("");
}

static int insert_error(struct mirror *m, const struct m_job_error *e)
{
	struct db_stmt *s = m->stmts[STMT_ERROR_INSERT];
	int r;

	db_bind_text(s, 1, e->job_id);
	db_bind_i64(s, 2, e->id);
	db_bind_i64(s, 3, e->attempt);
	db_bind_text(s, 4, text_or_empty(e->error));
	db_bind_text(s, 5, e->backtrace);
	db_bind_text(s, 6, e->worker_id);
	db_bind_text(s, 7, e->hostname);
	bind_time(m, s, 8, e->at);
	r = db_run(s);
	if (r < 0 || e->id <= LIMIT_JOB_ERRORS)
		return r;
	/* The store keeps the newest only; so do we. */
	db_bind_text(m->stmts[STMT_ERROR_TRIM], 1, e->job_id);
	db_bind_i64(m->stmts[STMT_ERROR_TRIM], 2,
		    (int64_t)e->id - LIMIT_JOB_ERRORS);
	return db_run(m->stmts[STMT_ERROR_TRIM]);
}

int mirror_error(struct mirror *m, const struct m_job_error *e)
{
	struct db_stmt *s = m->stmts[STMT_JOB_FAILED];
	struct mirror_row row;
	int r = mirror_find(m, e->job_id, &row);

	if (r != 1) /* deleted since */
		return r;
	r = insert_error(m, e);
	if (r < 0 || (int64_t)e->id <= row.error_count)
		return r;
	row.delta->failed += (int64_t)e->id - row.error_count;
	db_bind_i64(s, 1, row.rowid);
	db_bind_text(s, 2, text_or_empty(e->error));
	db_bind_i64(s, 3, e->id);
	return db_run(s);
}

/* 0: no limit is set. */
static void bind_limit(struct db_stmt *s, int i, uint64_t v)
{
	if (v > 0)
		db_bind_i64(s, i, (int64_t)v);
	else
		db_bind_null(s, i);
}

int mirror_queue(struct mirror *m, const struct m_queue *q)
{
	struct db_stmt *s = m->stmts[STMT_QUEUE];

	if (q->deleted) {
		mirror_delta(m, q->name)->gone = true;
		db_bind_text(m->stmts[STMT_QUEUE_DELETE], 1, q->name);
		return db_run(m->stmts[STMT_QUEUE_DELETE]);
	}
	db_bind_text(s, 1, q->name);
	db_bind_i64(s, 2, q->paused);
	bind_time(m, s, 3, q->created_at);
	bind_limit(s, 4, q->max_concurrency);
	bind_limit(s, 5, q->rate_limit);
	bind_limit(s, 6, q->rate_window_ms);
	return db_run(s);
}

int mirror_worker(struct mirror *m, const struct m_worker *w)
{
	struct db_stmt *s = m->stmts[STMT_WORKER];

	db_bind_text(s, 1, w->id);
	db_bind_text(s, 2, w->hostname);
	db_bind_text(s, 3, w->queues);
	bind_time(m, s, 4, w->last_heartbeat);
	bind_time(m, s, 5, w->started_at);
	return db_run(s);
}

static int put_meta(struct mirror *m, const char *key, uint64_t v)
{
	struct db_stmt *s = m->stmts[STMT_META];

	db_bind_text(s, 1, str_from(key));
	db_bind_i64(s, 2, (int64_t)v);
	return db_run(s);
}

int mirror_position(struct mirror *m, uint64_t seq, uint64_t at_ns)
{
	int r = put_meta(m, META_POSITION, seq);

	if (r < 0 || at_ns == 0)
		return r;
	return put_meta(m, META_POSITION_AT, at_ns);
}

/* --- one answer --- */

static int apply_rows(struct mirror *m, const struct m_tail_reply *r)
{
	uint64_t at_ns = r->events_n > 0 ? r->events[r->events_n - 1].at : 0;
	int err = 0;

	for (size_t i = 0; i < r->queues_n && err == 0; i++)
		err = mirror_queue(m, &r->queues[i]);
	for (size_t i = 0; i < r->workers_n && err == 0; i++)
		err = mirror_worker(m, &r->workers[i]);
	if (err == 0)
		err = mirror_jobs(m, r->jobs, r->jobs_n);
	/* After their jobs, whose rows they need. */
	for (size_t i = 0; i < r->errors_n && err == 0; i++)
		err = mirror_error(m, &r->errors[i]);
	return err < 0 ? err : mirror_position(m, r->last_seq, at_ns);
}

int mirror_apply(struct mirror *m, const struct m_tail_reply *r)
{
	int err = mirror_begin(m);

	if (err == 0)
		err = apply_rows(m, r);
	if (err == 0)
		err = mirror_commit(m);
	if (err < 0) {
		/* Before the rollback has a message of its own. */
		(void)snprintf(m->why, sizeof(m->why), "%s", db_error(m->db));
		mirror_rollback(m);
	}
	return err;
}

const char *mirror_why(const struct mirror *m)
{
	return m->why;
}
