/*
 * See view_rows.h.
 */
#include "view_rows.h"

#include "lib/testlib.h"

/* All rows of a query as text, one line each. */
void dump(struct db *db, const char *sql, int columns, struct buf *ret)
{
	struct db_stmt *s;

	assert_int_equal(db_prepare(db, sql, &s), 0);
	while (db_step(s) == 1) {
		for (int i = 0; i < columns; i++)
			buf_printf(ret, "%s%.*s", i > 0 ? "|" : "",
				   STR_ARG(db_text(s, i)));
		buf_putc(ret, '\n');
	}
	db_finalize(s);
}

void assert_rows(struct db *db, const char *sql, int columns,
		 const char *expected)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	dump(db, sql, columns, &b);
	buf_putc(&b, '\0');
	assert_string_equal(b.p, expected);
}

int64_t number(struct db *db, const char *sql)
{
	struct db_stmt *s;
	int64_t n;

	assert_int_equal(db_prepare(db, sql, &s), 0);
	assert_int_equal(db_step(s), 1);
	n = db_i64(s, 0);
	db_finalize(s);
	return n;
}

static void assert_counters(struct db *db)
{
	_cleanup_(buf_done) struct buf kept = BUF_INIT(0);
	_cleanup_(buf_done) struct buf counted = BUF_INIT(0);

	dump(db,
	     "SELECT queue, pending, active, held, completed, retrying, dead,"
	     " cancelled, scheduled, failed, blocked FROM queue_stats"
	     " WHERE pending+active+held+completed+retrying+dead+cancelled"
	     "+scheduled > 0 ORDER BY queue",
	     11, &kept);
	dump(db,
	     "SELECT queue, sum(state='pending'), sum(state='active'),"
	     " sum(state='held'), sum(state='completed'),"
	     " sum(state='retrying'), sum(state='dead'),"
	     " sum(state='cancelled'), sum(state='scheduled'),"
	     " sum(error_count), sum(blocked) FROM jobs GROUP BY queue"
	     " ORDER BY queue",
	     11, &counted);
	buf_putc(&kept, '\0');
	buf_putc(&counted, '\0');
	assert_string_equal(kept.p, counted.p);
}

/* FTS5 compares its index with the rows; 1 asks for the latter. */
static void assert_full_text(struct db *db)
{
	if (db_exec(db, "INSERT INTO jobs_fts(jobs_fts, rank)"
			" VALUES('integrity-check', 1)") < 0)
		fail_msg("jobs_fts is not what jobs is: %s", db_error(db));
}

void assert_consistent(struct db *db)
{
	assert_counters(db);
	assert_full_text(db);
}

/* Everything that does not depend on when the mirror looked. */
static void dump_all(struct db *db, struct buf *ret)
{
	dump(db,
	     "SELECT id, queue, state, priority, attempt, max_retries,"
	     " retry_backoff, retry_base_delay_ms, retry_jitter, worker_id,"
	     " hostname, parent_id, cancel_requested, seq, lease_expires_at,"
	     " scheduled_at, expire_at, created_at, started_at, completed_at,"
	     " failed_at, cancelled_at, error_count, last_error, tags,"
	     " progress, checkpoint, result, unique_key, batch_id, chain_id,"
	     " chain_step, group_name, schedule_id, on_dependency_failure,"
	     " waiting_on, blocked, lost_leases, log_lines, timeout_ms,"
	     " timeout_at, hold_reason, depends_on, chain_config, payload,"
	     " agent_iteration FROM jobs ORDER BY id",
	     46, ret);
	dump(db,
	     "SELECT job_id, n, attempt, error, backtrace, worker_id,"
	     " hostname, created_at FROM job_errors ORDER BY job_id, n",
	     8, ret);
	dump(db, "SELECT name, paused, created_at FROM queues ORDER BY name", 3,
	     ret);
	dump(db, "SELECT id, hostname, started_at FROM workers ORDER BY id", 3,
	     ret);
	dump(db,
	     "SELECT queue, unique_key, job_id, expires_at FROM unique_locks"
	     " ORDER BY queue, unique_key",
	     4, ret);
	dump(db,
	     "SELECT id, status, total, pending, succeeded, failed, sealed,"
	     " parent_id, callback_queue, callback_job_id, created_at,"
	     " completed_at, callback_payload FROM batches ORDER BY id",
	     13, ret);
	dump(db, "SELECT * FROM schedules ORDER BY id", 24, ret);
	dump(db, "SELECT * FROM providers ORDER BY name", 6, ret);
	dump(db,
	     "SELECT job_id, n, dimension, value, scorer, iteration,"
	     " created_at FROM job_scores ORDER BY job_id, n",
	     7, ret);
	dump(db,
	     "SELECT job_id, iteration, status, hold_reason, result, trace,"
	     " input_tokens, model, provider, cost_usd, created_at,"
	     " started_at, attempt, worker_id, hostname, checkpoint"
	     " FROM job_iterations ORDER BY job_id, iteration",
	     16, ret);
	dump(db,
	     "SELECT id, url, events, secret, enabled, retry_limit,"
	     " created_at, last_error, queues, updated_at, disabled_at,"
	     " disabled_reason FROM webhooks ORDER BY id",
	     12, ret);
	/* A queue whose jobs are all gone may have a row of zeros or none. */
	dump(db,
	     "SELECT * FROM queue_stats WHERE pending OR active OR held OR"
	     " completed OR retrying OR dead OR cancelled OR scheduled OR"
	     " failed ORDER BY queue",
	     11, ret);
}

void assert_same_rows(struct db *a, struct db *b)
{
	_cleanup_(buf_done) struct buf da = BUF_INIT(0);
	_cleanup_(buf_done) struct buf db = BUF_INIT(0);

	dump_all(a, &da);
	dump_all(b, &db);
	buf_putc(&da, '\0');
	buf_putc(&db, '\0');
	assert_true(da.n > 1);
	assert_string_equal(da.p, db.p);
}

void make_job(struct m_job *j, const char *id, enum job_state state)
{
	*j = (struct m_job){ 0 };
	MSG_SET(j, job, id, str_from(id));
	MSG_SET(j, job, queue, STR("q"));
	MSG_SET(j, job, state, state);
	MSG_SET(j, job, payload, STR("1"));
	MSG_SET(j, job, checkpoint, STR("\"kept\""));
	MSG_SET(j, job, created_at, NS_PER_S);
	MSG_SET(j, job, worker_id, STR("w"));
}
