/*
 * One answer of raftd, one transaction. See mirror/mirror.h; jobs are in
 * mirror/job.c, other rows in mirror/rows.c.
 */
#include "mirror/mirror.h"

#include <stdio.h>
#include <stdlib.h>

#include "db/schema.h"
#include "mirror/mirror_impl.h"
#include "store/record.h"
#include "util/giveway.h"

#define RECORDS_AT_ONCE 64

/* Counters are written in the order of their numbers: ?2 is state 1. */
_Static_assert(
    JOB_PENDING == 1 && JOB_ACTIVE == 2 && JOB_HELD == 3 &&
	JOB_COMPLETED == 4 && JOB_RETRYING == 5 && JOB_DEAD == 6 &&
	JOB_CANCELLED == 7 && JOB_SCHEDULED == 8 && JOB_STATES_SHOWN == 9,
    "a state needs a column in queue_stats and a place in STMT_COUNT");

static const char *const sql[STMT_MAX] = {
	[STMT_JOB_FIND] = "SELECT " MIRROR_ROW " FROM jobs j WHERE id=?1",
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
	[STMT_TEXT_ADD_NEW] = "INSERT INTO jobs_fts(rowid,queue,tags,payload)"
			      " SELECT rowid,queue,tags,payload FROM jobs"
			      " WHERE rowid>=?1 AND rowid<?2",
	[STMT_TEXT_SIZES] =
	    "SELECT rowid, length(payload)+coalesce(length(tags),0),"
	    " created_at FROM jobs WHERE rowid>=?1 ORDER BY rowid",
	[STMT_ERROR_TRIM] = "DELETE FROM job_errors WHERE job_id=?1 AND n<=?2",
	[STMT_ERRORS_DELETE] = "DELETE FROM job_errors WHERE job_id=?1",
	[STMT_SCORES_DELETE] =
	    "DELETE FROM job_scores WHERE job_id IN (SELECT id FROM jobs"
	    " WHERE rowid IN (SELECT value FROM json_each(?1)))",
	[STMT_ITERATIONS_DELETE] =
	    "DELETE FROM job_iterations WHERE job_id IN (SELECT id FROM jobs"
	    " WHERE rowid IN (SELECT value FROM json_each(?1)))",
	[STMT_ITERATION_TRIM] =
	    "DELETE FROM job_iterations WHERE job_id=?1 AND iteration<=?2",
	[STMT_QUEUE_DELETE] = "DELETE FROM queues WHERE name=?1",
	/* Of a queue that has jobs again, or still, they are needed. */
	[STMT_STATS_DELETE] =
	    "DELETE FROM queue_stats WHERE queue=?1 AND pending=0"
	    " AND active=0 AND held=0 AND completed=0 AND retrying=0"
	    " AND dead=0 AND cancelled=0 AND scheduled=0",
	[STMT_LOCK_DELETE] =
	    "DELETE FROM unique_locks WHERE queue=?1 AND unique_key=?2",
	[STMT_UNLOCK] = "DELETE FROM unique_locks WHERE job_id=?1",
	[STMT_BATCH_DELETE] = "DELETE FROM batches WHERE id=?1",
	[STMT_SCHEDULE_DELETE] = "DELETE FROM schedules WHERE id=?1",
	[STMT_PROVIDER_DELETE] = "DELETE FROM providers WHERE name=?1",
	[STMT_BUDGET_DELETE] = "DELETE FROM budgets WHERE id=?1",
	[STMT_POLICY_DELETE] = "DELETE FROM approval_policies WHERE id=?1",
	[STMT_WEBHOOK_DELETE] = "DELETE FROM webhooks WHERE id=?1",
	[STMT_WORKERS_IDLE] = "DELETE FROM workers WHERE last_heartbeat<=?1",
	[STMT_WORKERS_OLD] =
	    "DELETE FROM workers WHERE id IN (SELECT id FROM workers"
	    " ORDER BY last_heartbeat DESC LIMIT -1 OFFSET ?1)",
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

/* Statements that follow from lists of columns. */
static void put_sql(unsigned stmt, struct buf *ret)
{
	if (stmt <= STMT_JOBS_FIND) {
		mirror_job_sql((enum mirror_stmt)stmt, ret);
		return;
	}
	buf_clear(ret);
	row_put_upsert(ret, &row_tables[stmt - STMT_ROW]);
	buf_putc(ret, '\0');
}

static int add_source(struct mirror *m)
{
	struct buf *b = &m->source_columns;

	mirror_job_names(b, false);
	buf_putc(b, '\0');
	m->source = (struct db_source){ .name = MIRROR_SOURCE,
					.columns = b->p,
					.put = mirror_source_put,
					.ctx = m };
	return db_add_source(m->db, &m->source);
}

int mirror_new(struct db *db, struct mirror **ret)
{
	struct mirror *m = xcalloc(1, sizeof(*m));
	struct buf b = BUF_INIT(0);
	uint64_t text_next = 0;
	int r = 0;

	m->db = db;
	m->jobs = xmalloc(RECORDS_AT_ONCE * sizeof(*m->jobs));
	r = add_source(m);
	for (unsigned i = 0; i < STMT_MAX && r == 0; i++) {
		if (sql[i] == NULL)
			put_sql(i, &b);
		r = db_prepare(db, sql[i] != NULL ? sql[i] : b.p, &m->stmts[i]);
	}
	buf_done(&b);
	if (r == 0)
		r = meta_get_u64(db, META_TEXT_NEXT, &text_next);
	m->text_saved = (int64_t)text_next;
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
	row_text_done(&m->row_text);
	hmap_done(&m->deltas);
	arena_done(&m->arena);
	arena_done(&m->restored);
	free(m->jobs);
	buf_done(&m->rowids);
	buf_done(&m->source_columns);
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
	m->text_next = m->text_saved;
	arena_reset(&m->arena);
}

static int put_meta(struct mirror *m, const char *key, uint64_t v)
{
	struct db_stmt *s = m->stmts[STMT_META];

	db_bind_text(s, 1, str_from(key));
	db_bind_i64(s, 2, (int64_t)v);
	return db_run(s);
}

/* --- transactions --- */

int mirror_begin(struct mirror *m)
{
	forget_changes(m);
	return db_exec(m->db, "BEGIN IMMEDIATE");
}

static int write_text_next(struct mirror *m)
{
	return m->text_next == m->text_saved
		   ? 0
		   : put_meta(m, META_TEXT_NEXT, (uint64_t)m->text_next);
}

/* Without the full text of new rows. */
static int commit_rows(struct mirror *m)
{
	int64_t text_next = m->text_next;
	struct str queue;
	size_t pos = 0;
	void *d;
	int r = write_text_next(m);

	while (r == 0 && hmap_next(&m->deltas, &pos, &queue, &d)) {
		r = write_delta(m, queue, d);
		if (r == 0 && ((struct mirror_delta *)d)->gone)
			r = delete_stats(m, queue);
	}
	forget_changes(m);
	if (r == 0)
		r = db_exec(m->db, "COMMIT");
	if (r == 0)
		m->text_saved = m->text_next = text_next;
	return r;
}

int mirror_commit(struct mirror *m)
{
	int r = mirror_text_commit(m);

	return r < 0 ? r : commit_rows(m);
}

/* SQLite has rolled back by itself after some errors; then this fails. */
void mirror_rollback(struct mirror *m)
{
	forget_changes(m);
	(void)db_exec(m->db, "ROLLBACK");
}

/* --- position --- */

int mirror_position(struct mirror *m, uint64_t seq, uint64_t at_ns)
{
	int r = put_meta(m, META_POSITION, seq);

	if (r < 0 || at_ns == 0)
		return r;
	return put_meta(m, META_POSITION_AT, at_ns);
}

int mirror_history(struct mirror *m, struct str history)
{
	struct db_stmt *s = m->stmts[STMT_META];

	db_bind_text(s, 1, str_from(META_HISTORY));
	db_bind_text(s, 2, history.n > 0 ? history : STR("")); /* not NULL */
	return db_run(s);
}

/* --- one answer --- */

static int delete_each(struct mirror *m, enum mirror_stmt which,
		       const struct str *ids, size_t n)
{
	struct db_stmt *s = m->stmts[which];
	int err = 0;

	for (size_t i = 0; i < n && err == 0; i++) {
		db_bind_text(s, 1, ids[i]);
		err = db_run(s);
	}
	return err;
}

/* Locks come after the jobs: one that ended gave its own back. */
static int apply_rest(struct mirror *m, const struct m_tail_reply *r)
{
	int err = delete_each(m, STMT_BATCH_DELETE, r->gone_batches,
			      r->gone_batches_n);

	if (err == 0)
		err = delete_each(m, STMT_SCHEDULE_DELETE, r->gone_schedules,
				  r->gone_schedules_n);
	if (err == 0)
		err = delete_each(m, STMT_BUDGET_DELETE, r->gone_budgets,
				  r->gone_budgets_n);
	if (err == 0)
		err = delete_each(m, STMT_PROVIDER_DELETE, r->gone_providers,
				  r->gone_providers_n);
	for (size_t i = 0; i < r->providers_n && err == 0; i++)
		err = mirror_provider(m, &r->providers[i]);
	for (size_t i = 0; i < r->budgets_n && err == 0; i++)
		err = mirror_budget(m, &r->budgets[i]);
	if (err == 0)
		err = delete_each(m, STMT_POLICY_DELETE, r->gone_policies,
				  r->gone_policies_n);
	for (size_t i = 0; i < r->policies_n && err == 0; i++)
		err = mirror_policy(m, &r->policies[i]);
	if (err == 0)
		err = delete_each(m, STMT_WEBHOOK_DELETE, r->gone_webhooks,
				  r->gone_webhooks_n);
	for (size_t i = 0; i < r->webhooks_n && err == 0; i++)
		err = mirror_webhook(m, &r->webhooks[i]);
	for (size_t i = 0; i < r->batches_n && err == 0; i++)
		err = mirror_batch(m, &r->batches[i]);
	for (size_t i = 0; i < r->schedules_n && err == 0; i++)
		err = mirror_schedule(m, &r->schedules[i]);
	for (size_t i = 0; i < r->locks_n && err == 0; i++)
		err = mirror_lock(m, &r->locks[i]);
	return err;
}

/*
 * A few at a time: what they are read into is used again and stays in the
 * processor's cache, and others need not wait for the rest.
 */
static int apply_records(struct mirror *m, const struct m_job_record *rec,
			 size_t n)
{
	int err = 0;

	for (size_t i = 0; i < n && err == 0; i += RECORDS_AT_ONCE) {
		size_t some = MIN(n - i, (size_t)RECORDS_AT_ONCE);

		arena_reset(&m->restored);
		for (size_t k = 0; k < some && err == 0; k++)
			err = record_restore(&rec[i + k], &m->restored,
					     &m->jobs[k]);
		if (err == 0)
			err = mirror_jobs(m, m->jobs, some);
		(void)give_way();
	}
	return err;
}

static int apply_rows(struct mirror *m, const struct m_tail_reply *r)
{
	uint64_t at_ns = r->events_n > 0 ? r->events[r->events_n - 1].at : 0;
	int err = 0;

	for (size_t i = 0; i < r->queues_n && err == 0; i++)
		err = mirror_queue(m, &r->queues[i]);
	if (err == 0)
		err = mirror_workers(m, r->workers, r->workers_n);
	if (err == 0)
		err = mirror_jobs(m, r->jobs, r->jobs_n);
	if (err == 0)
		err = apply_records(m, r->records, r->records_n);
	/* After their jobs, whose rows they need. */
	for (size_t i = 0; i < r->errors_n && err == 0; i++)
		err = mirror_error(m, &r->errors[i]);
	for (size_t i = 0; i < r->scores_n && err == 0; i++)
		err = mirror_score(m, &r->scores[i]);
	for (size_t i = 0; i < r->iterations_n && err == 0; i++)
		err = mirror_iteration(m, &r->iterations[i]);
	if (err == 0)
		err = apply_rest(m, r);
	if (err == 0)
		err = mirror_history(m, r->history);
	return err < 0 ? err : mirror_position(m, r->last_seq, at_ns);
}

int mirror_end(struct mirror *m, int err)
{
	if (err == 0)
		err = commit_rows(m);
	if (err < 0) {
		/* Before the rollback has a message of its own. */
		(void)snprintf(m->why, sizeof(m->why), "%s",
			       err == -ERR_BAD_MESSAGE
				   ? "the record of a job cannot be read"
				   : db_error(m->db));
		if (err == -ERR_INTERNAL_ERROR && db_is_foreign(m->db))
			err = -ERR_VIEW_UNAVAILABLE;
		mirror_rollback(m);
	}
	return err;
}

int mirror_apply_rows(struct mirror *m, const struct m_tail_reply *r)
{
	bool was_whole = mirror_text_is_whole(m);
	int err = mirror_begin(m);

	if (err == 0)
		err = apply_rows(m, r);
	err = mirror_end(m, err);
	if (was_whole && r->events_n > 0)
		m->text_next_ns = r->events[0].at;
	return err;
}

/* What was left for later is not in the way of what comes now. */
int mirror_apply(struct mirror *m, const struct m_tail_reply *r)
{
	bool was_whole = mirror_text_is_whole(m);
	int err = mirror_begin(m);

	if (err == 0)
		err = apply_rows(m, r);
	if (err == 0 && was_whole)
		err = mirror_text_commit(m);
	return mirror_end(m, err);
}

const char *mirror_why(const struct mirror *m)
{
	return m->why;
}
