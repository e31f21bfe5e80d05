/*
 * Rows of the tables besides jobs: errors, queues, workers, unique locks,
 * batches and schedules. See mirror/mirror.h.
 */
#include "mirror/mirror_impl.h"

/* Old workers are looked for when one is so much newer than the last time. */
#define WORKERS_EVERY_NS (60 * NS_PER_S)

static int put_row(struct mirror *m, enum row_kind kind, const void *msg)
{
	struct db_stmt *s = m->stmts[STMT_ROW + kind];

	row_bind(s, kind, msg, &m->row_text);
	return db_run(s);
}

static int insert_error(struct mirror *m, const struct m_job_error *e)
{
	int r = put_row(m, ROW_ERROR, e);

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
	db_bind_text(s, 2, e->error.p != NULL ? e->error : STR(""));
	db_bind_i64(s, 3, e->id);
	return db_run(s);
}

int mirror_queue(struct mirror *m, const struct m_queue *q)
{
	if (!q->deleted)
		return put_row(m, ROW_QUEUE, q);
	mirror_delta(m, q->name)->gone = true;
	db_bind_text(m->stmts[STMT_QUEUE_DELETE], 1, q->name);
	return db_run(m->stmts[STMT_QUEUE_DELETE]);
}

int mirror_worker(struct mirror *m, const struct m_worker *w)
{
	return put_row(m, ROW_WORKER, w);
}

/*
 * The store forgets workers without an event, at the moment a new one comes:
 * idle ones, and the oldest when they are too many. Here some more may stay
 * for a while: of workers seen at the same time it is not known who went.
 */
static int forget_workers(struct mirror *m, uint64_t now_ns)
{
	struct db_stmt *idle = m->stmts[STMT_WORKERS_IDLE];
	struct db_stmt *old = m->stmts[STMT_WORKERS_OLD];
	uint64_t keep_ns = LIMIT_WORKER_IDLE_S * NS_PER_S;
	struct timetext times = { 0 };
	char text[TIMETEXT_LEN];
	int r;

	timetext_put(&times, now_ns > keep_ns ? now_ns - keep_ns : 0, text);
	db_bind_text(idle, 1, str_of(text, sizeof(text)));
	r = db_run(idle);
	if (r < 0)
		return r;
	db_bind_i64(old, 1, 2 * LIMIT_WORKERS);
	return db_run(old);
}

int mirror_workers(struct mirror *m, const struct m_worker *w, size_t n)
{
	uint64_t newest_ns = 0;
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		r = mirror_worker(m, &w[i]);
		newest_ns = MAX(newest_ns, w[i].started_at);
	}
	if (r < 0 || newest_ns < m->workers_ns + WORKERS_EVERY_NS)
		return r;
	m->workers_ns = newest_ns;
	return forget_workers(m, newest_ns);
}

int mirror_batch(struct mirror *m, const struct m_batch *b)
{
	return put_row(m, ROW_BATCH, b);
}

int mirror_schedule(struct mirror *m, const struct m_schedule *s)
{
	return put_row(m, ROW_SCHEDULE, s);
}

int mirror_budget(struct mirror *m, const struct m_budget *b)
{
	return put_row(m, ROW_BUDGET, b);
}

int mirror_score(struct mirror *m, const struct m_score *s)
{
	return put_row(m, ROW_SCORE, s);
}

int mirror_policy(struct mirror *m, const struct m_policy *p)
{
	return put_row(m, ROW_POLICY, p);
}

int mirror_iteration(struct mirror *m, const struct m_iteration *i)
{
	struct db_stmt *trim = m->stmts[STMT_ITERATION_TRIM];
	int r = put_row(m, ROW_ITERATION, i);

	if (r < 0 || i->iteration <= LIMIT_ITERATIONS_KEPT)
		return r;
	/* The store keeps the newest only; so do we. */
	db_bind_text(trim, 1, i->job_id);
	db_bind_i64(trim, 2, (int64_t)i->iteration - LIMIT_ITERATIONS_KEPT);
	return db_run(trim);
}

int mirror_provider(struct mirror *m, const struct m_provider_doc *p)
{
	return put_row(m, ROW_PROVIDER, p);
}

int mirror_webhook(struct mirror *m, const struct m_webhook *w)
{
	return put_row(m, ROW_WEBHOOK, w);
}

int mirror_lock(struct mirror *m, const struct m_unique_lock *l)
{
	struct db_stmt *s = m->stmts[STMT_LOCK_DELETE];

	if (l->job_id.n > 0)
		return put_row(m, ROW_LOCK, l);
	db_bind_text(s, 1, l->queue);
	db_bind_text(s, 2, l->unique_key);
	return db_run(s);
}

int mirror_unlock(struct mirror *m, struct str job_id)
{
	db_bind_text(m->stmts[STMT_UNLOCK], 1, job_id);
	return db_run(m->stmts[STMT_UNLOCK]);
}
