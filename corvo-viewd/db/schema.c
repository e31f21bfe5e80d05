/*
 * Tables and indexes as SQL. jobs, job_errors, queues and workers have the
 * documented columns and may be read by anybody with the sqlite3 shell; the
 * columns of features that do not exist yet are empty.
 */
#include "db/schema_impl.h"

static const char *const tables[] = {
	/* Large values stand last: SQLite reads a row from its start. */
	"CREATE TABLE jobs ("
	" id                      TEXT PRIMARY KEY,"
	" queue                   TEXT NOT NULL,"
	" state                   TEXT NOT NULL DEFAULT 'pending',"
	" priority                INTEGER NOT NULL DEFAULT 2,"
	" attempt                 INTEGER NOT NULL DEFAULT 0,"
	" max_retries             INTEGER NOT NULL DEFAULT 3,"
	" retry_backoff           TEXT NOT NULL DEFAULT 'exponential',"
	" retry_base_delay_ms     INTEGER NOT NULL DEFAULT 5000,"
	" retry_max_delay_ms      INTEGER NOT NULL DEFAULT 600000,"
	" retry_jitter            REAL NOT NULL DEFAULT 0,"
	" unique_key              TEXT,"
	" unique_period_ms        INTEGER,"
	" expire_after_ms         INTEGER,"
	" as_numbers              INTEGER,"
	" batch_id                TEXT,"
	" worker_id               TEXT,"
	" hostname                TEXT,"
	" result_schema           TEXT,"
	" parent_id               TEXT,"
	" chain_id                TEXT,"
	" chain_step              INTEGER,"
	" group_name              TEXT,"
	" schedule_id             TEXT,"
	" scheduled_for           TEXT,"
	" on_dependency_failure   TEXT,"
	" waiting_on              INTEGER,"
	" blocked                 INTEGER NOT NULL DEFAULT 0,"
	" lost_leases             INTEGER,"
	" log_lines               INTEGER,"
	" timeout_ms              INTEGER,"
	" timeout_at              TEXT,"
	" provider_error          INTEGER NOT NULL DEFAULT 0,"
	" routing                 TEXT,"
	" routing_target          TEXT,"
	" routing_index           INTEGER NOT NULL DEFAULT 0,"
	" agent_max_iterations    INTEGER,"
	" agent_max_cost_usd      REAL,"
	" agent_iteration_timeout TEXT,"
	" agent_iteration         INTEGER,"
	" agent_total_cost_usd    REAL NOT NULL DEFAULT 0,"
	" hold_reason             TEXT,"
	" held_by                 TEXT,"
	" held_policy             TEXT,"
	" held                    TEXT,"
	" cancel_requested        INTEGER NOT NULL DEFAULT 0,"
	" seq                     INTEGER NOT NULL DEFAULT 0,"
	" lease_expires_at        TEXT,"
	" scheduled_at            TEXT,"
	" expire_at               TEXT,"
	" created_at              TEXT NOT NULL,"
	" started_at              TEXT,"
	" completed_at            TEXT,"
	" failed_at               TEXT,"
	" cancelled_at            TEXT,"
	" error_count             INTEGER NOT NULL DEFAULT 0,"
	" last_error              TEXT,"
	" cost_nano               INTEGER,"
	" model                   TEXT,"
	" usage                   TEXT,"
	" tags                    TEXT,"
	" depends_on              TEXT,"
	" progress                TEXT,"
	" checkpoint              TEXT,"
	" result                  TEXT,"
	" chain_config            TEXT,"
	" payload                 TEXT NOT NULL)",

	/* Kept by mirror/text.c; words are found by db/db.c. The texts are
	 * those of table jobs; what columnsize=0 leaves out only serves ranks.
	 */
	"CREATE VIRTUAL TABLE jobs_fts USING fts5("
	" id UNINDEXED, queue, tags, payload,"
	" content='jobs', columnsize=0, tokenize='json_words')",

	/* n counts up within a job, as in its JSON. */
	"CREATE TABLE job_errors ("
	" id         INTEGER PRIMARY KEY,"
	" job_id     TEXT NOT NULL,"
	" n          INTEGER NOT NULL,"
	" attempt    INTEGER NOT NULL,"
	" error      TEXT NOT NULL,"
	" backtrace  TEXT,"
	" worker_id  TEXT,"
	" hostname   TEXT,"
	" created_at TEXT NOT NULL,"
	" UNIQUE (job_id, n))",

	"CREATE TABLE queues ("
	" name            TEXT PRIMARY KEY,"
	" paused          INTEGER NOT NULL DEFAULT 0,"
	" max_concurrency INTEGER,"
	" rate_limit      INTEGER,"
	" rate_window_ms  INTEGER,"
	" provider        TEXT,"
	" created_at      TEXT NOT NULL)",

	"CREATE TABLE workers ("
	" id             TEXT PRIMARY KEY,"
	" hostname       TEXT,"
	" queues         TEXT,"
	" last_heartbeat TEXT NOT NULL,"
	" started_at     TEXT NOT NULL)",

	/* Jobs by state, kept in step with table jobs by mirror/mirror.c;
	 * failed: errors ever recorded of the jobs that are stored; blocked: of
	 * the pending ones, those that wait for other jobs. */
	"CREATE TABLE queue_stats ("
	" queue     TEXT PRIMARY KEY,"
	" pending   INTEGER NOT NULL DEFAULT 0,"
	" active    INTEGER NOT NULL DEFAULT 0,"
	" held      INTEGER NOT NULL DEFAULT 0,"
	" completed INTEGER NOT NULL DEFAULT 0,"
	" retrying  INTEGER NOT NULL DEFAULT 0,"
	" dead      INTEGER NOT NULL DEFAULT 0,"
	" cancelled INTEGER NOT NULL DEFAULT 0,"
	" scheduled INTEGER NOT NULL DEFAULT 0,"
	" failed    INTEGER NOT NULL DEFAULT 0,"
	" blocked   INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID",

	"CREATE TABLE meta ("
	" key   TEXT PRIMARY KEY,"
	" value NOT NULL) WITHOUT ROWID",
};

/* Those a query leads through, and no other: what is due, leased or expires is
 * found by corvo-raftd, and an index in the order of times that are scattered
 * over a year touches another page with every row. id at the end makes a page
 * of a list one range. */
static const char *const indexes[] = {
	"CREATE INDEX idx_jobs_queue_state_priority"
	" ON jobs(queue, state, priority, created_at, id)",
	"CREATE INDEX idx_jobs_state ON jobs(state, created_at, id)",
	"CREATE INDEX idx_jobs_unique ON jobs(queue, unique_key)"
	" WHERE unique_key IS NOT NULL",
	"CREATE INDEX idx_jobs_batch ON jobs(batch_id, created_at, id)"
	" WHERE batch_id IS NOT NULL",
	"CREATE INDEX idx_jobs_chain ON jobs(chain_id, created_at, id)"
	" WHERE chain_id IS NOT NULL",
	"CREATE INDEX idx_jobs_parent ON jobs(parent_id, created_at, id)"
	" WHERE parent_id IS NOT NULL",
	"CREATE INDEX idx_jobs_schedule ON jobs(schedule_id, created_at, id)"
	" WHERE schedule_id IS NOT NULL",
	"CREATE INDEX idx_jobs_group ON jobs(group_name, created_at, id)"
	" WHERE group_name IS NOT NULL",
	/* Its rows are in the order of their numbers; it changes with every
	 * attempt, so it is as small as can be. */
	"CREATE INDEX idx_jobs_worker ON jobs(worker_id)"
	" WHERE worker_id IS NOT NULL",
	"CREATE INDEX idx_jobs_created ON jobs(created_at, id)",
	"CREATE INDEX idx_workers_seen ON workers(last_heartbeat)",
};

int schema_exec(struct db *db, const char *const *sql, size_t n)
{
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++)
		r = db_exec(db, sql[i]);
	return r;
}

int schema_make_tables(struct db *db)
{
	int r = schema_exec(db, tables, ARRAY_SIZE(tables));

	if (r == 0)
		r = schema_make_more_tables(db);
	return r < 0 ? r : meta_put_u64(db, META_SCHEMA, SCHEMA_VERSION);
}

int schema_make_indexes(struct db *db)
{
	int r = schema_exec(db, indexes, ARRAY_SIZE(indexes));

	return r < 0 ? r : schema_make_more_indexes(db);
}

/* 1: the statement stands on the row; 0: no such row. */
static int meta_seek(struct db *db, const char *key, struct db_stmt **ret)
{
	struct db_stmt *s;
	int r = db_prepare(db, "SELECT value FROM meta WHERE key = ?1", &s);

	if (r < 0)
		return r;
	db_bind_text(s, 1, str_from(key));
	r = db_step(s);
	if (r == 1)
		*ret = s;
	else
		db_finalize(s);
	return r;
}

int meta_get_u64(struct db *db, const char *key, uint64_t *ret)
{
	struct db_stmt *s;
	int r = meta_seek(db, key, &s);

	*ret = 0;
	if (r != 1)
		return r;
	*ret = (uint64_t)db_i64(s, 0);
	db_finalize(s);
	return 0;
}

int meta_get_text(struct db *db, const char *key, struct buf *ret)
{
	struct db_stmt *s;
	int r = meta_seek(db, key, &s);

	buf_clear(ret);
	if (r != 1)
		return r;
	buf_put_str(ret, db_text(s, 0));
	db_finalize(s);
	return 0;
}

static int meta_prepare_put(struct db *db, const char *key,
			    struct db_stmt **ret)
{
	int r = db_prepare(db,
			   "INSERT INTO meta(key, value) VALUES(?1, ?2)"
			   " ON CONFLICT(key) DO UPDATE SET value = ?2",
			   ret);

	if (r == 0)
		db_bind_text(*ret, 1, str_from(key));
	return r;
}

int meta_put_u64(struct db *db, const char *key, uint64_t v)
{
	struct db_stmt *s;
	int r = meta_prepare_put(db, key, &s);

	if (r < 0)
		return r;
	db_bind_i64(s, 2, (int64_t)v);
	r = db_run(s);
	db_finalize(s);
	return r;
}

int meta_put_text(struct db *db, const char *key, struct str v)
{
	struct db_stmt *s;
	int r = meta_prepare_put(db, key, &s);

	if (r < 0)
		return r;
	db_bind_text(s, 2, v);
	r = db_run(s);
	db_finalize(s);
	return r;
}
