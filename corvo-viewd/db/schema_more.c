/*
 * Tables of what ties jobs together, filled from the feed, and of features
 * that do not exist yet, empty until then. Columns are the documented ones,
 * and more where the store knows more.
 *
 * No table refers to another one by a constraint: rows come in the order of
 * the feed, and a job may be gone before what is told of it.
 */
#include "db/schema_impl.h"

static const char *const ties[] = {
	"CREATE TABLE unique_locks ("
	" queue      TEXT NOT NULL,"
	" unique_key TEXT NOT NULL,"
	" job_id     TEXT NOT NULL,"
	" expires_at TEXT NOT NULL,"
	" PRIMARY KEY (queue, unique_key)) WITHOUT ROWID",

	"CREATE TABLE batches ("
	" id               TEXT PRIMARY KEY,"
	" status           TEXT NOT NULL,"
	" total            INTEGER NOT NULL,"
	" pending          INTEGER NOT NULL,"
	" succeeded        INTEGER NOT NULL DEFAULT 0,"
	" failed           INTEGER NOT NULL DEFAULT 0,"
	" sealed           INTEGER NOT NULL DEFAULT 0,"
	" parent_id        TEXT,"
	" callback_queue   TEXT,"
	" callback_job_id  TEXT,"
	" created_at       TEXT NOT NULL,"
	" completed_at     TEXT,"
	" callback_payload TEXT)",

	/* Names are unique in the store; here two may be exchanged by one
	 * answer of the feed, row after row. */
	"CREATE TABLE schedules ("
	" id                 TEXT PRIMARY KEY,"
	" name               TEXT NOT NULL,"
	" queue              TEXT NOT NULL,"
	" cron               TEXT NOT NULL,"
	" timezone           TEXT NOT NULL DEFAULT 'UTC',"
	" unique_key         TEXT,"
	" max_retries        INTEGER NOT NULL DEFAULT 3,"
	" last_run           TEXT,"
	" next_run           TEXT,"
	" created_at         TEXT NOT NULL,"
	" updated_at         TEXT,"
	" dst                TEXT NOT NULL,"
	" catch_up           TEXT NOT NULL,"
	" catch_up_window_ms INTEGER,"
	" overlap            TEXT NOT NULL,"
	" jitter_ms          INTEGER,"
	" start_at           TEXT,"
	" end_at             TEXT,"
	" max_runs           INTEGER,"
	" runs               INTEGER NOT NULL DEFAULT 0,"
	" paused             INTEGER NOT NULL DEFAULT 0,"
	" ended              INTEGER NOT NULL DEFAULT 0,"
	" last_job_id        TEXT,"
	" payload            TEXT NOT NULL)",
};

static const char *const agents[] = {
	/* What a job has used in all, by its row: what single reports said is
	 * in the event log, as long as that is kept. */
	"CREATE VIEW job_usage AS SELECT"
	" id AS job_id, queue, attempt,"
	" usage ->> 'count' AS count,"
	" usage ->> 'input_tokens' AS input_tokens,"
	" usage ->> 'output_tokens' AS output_tokens,"
	" usage ->> 'cache_creation_tokens' AS cache_creation_tokens,"
	" usage ->> 'cache_read_tokens' AS cache_read_tokens,"
	" model, usage ->> 'provider' AS provider,"
	" cost_nano / 1e9 AS cost_usd, cost_nano, created_at"
	" FROM jobs WHERE usage IS NOT NULL",

	"CREATE TABLE budgets ("
	" scope       TEXT NOT NULL,"
	" target      TEXT NOT NULL,"
	" id          TEXT NOT NULL,"
	" daily_usd   REAL,"
	" per_job_usd REAL,"
	" on_exceed   TEXT NOT NULL DEFAULT 'hold',"
	" created_at  TEXT NOT NULL,"
	" PRIMARY KEY (scope, target)) WITHOUT ROWID",

	/* Checkpoints are large and stay where they are: their column is empty
	 * here, as in table jobs. */
	"CREATE TABLE job_iterations ("
	" id                    INTEGER PRIMARY KEY,"
	" job_id                TEXT NOT NULL,"
	" iteration             INTEGER NOT NULL,"
	" status                TEXT NOT NULL,"
	" checkpoint            TEXT,"
	" trace                 TEXT,"
	" hold_reason           TEXT,"
	" result                TEXT,"
	" input_tokens          INTEGER NOT NULL DEFAULT 0,"
	" output_tokens         INTEGER NOT NULL DEFAULT 0,"
	" cache_creation_tokens INTEGER NOT NULL DEFAULT 0,"
	" cache_read_tokens     INTEGER NOT NULL DEFAULT 0,"
	" model                 TEXT,"
	" provider              TEXT,"
	" cost_usd              REAL NOT NULL DEFAULT 0,"
	" created_at            TEXT NOT NULL,"
	" started_at            TEXT,"
	" attempt               INTEGER NOT NULL DEFAULT 0,"
	" worker_id             TEXT,"
	" hostname              TEXT,"
	" UNIQUE (job_id, iteration))",

	/* n counts up within a job. */
	"CREATE TABLE job_scores ("
	" id         INTEGER PRIMARY KEY,"
	" job_id     TEXT NOT NULL,"
	" n          INTEGER NOT NULL,"
	" dimension  TEXT NOT NULL,"
	" value      REAL NOT NULL,"
	" scorer     TEXT,"
	" comment    TEXT,"
	" iteration  INTEGER,"
	" created_at TEXT NOT NULL,"
	" UNIQUE (job_id, n))",

	"CREATE TABLE providers ("
	" name             TEXT PRIMARY KEY,"
	" state            TEXT NOT NULL DEFAULT 'unknown',"
	" rpm_limit        INTEGER,"
	" input_tpm_limit  INTEGER,"
	" output_tpm_limit INTEGER,"
	" created_at       TEXT NOT NULL)",

	"CREATE TABLE approval_policies ("
	" id         TEXT PRIMARY KEY,"
	" name       TEXT NOT NULL,"
	" mode       TEXT NOT NULL DEFAULT 'any',"
	" enabled    INTEGER NOT NULL DEFAULT 1,"
	" queue      TEXT,"
	" tag_key    TEXT,"
	" tag_value  TEXT,"
	" created_at TEXT NOT NULL,"
	" updated_at TEXT,"
	" cost_min      REAL,"
	" iteration_min INTEGER,"
	" payload_jq    TEXT,"
	" priority      INTEGER NOT NULL DEFAULT 0,"
	" deadline_ms   INTEGER,"
	" on_deadline   TEXT,"
	" provider_state TEXT)",

	/* A secret is never here, and last_... change with each call, without
	 * an event: both are empty. */
	"CREATE TABLE webhooks ("
	" id               TEXT PRIMARY KEY,"
	" url              TEXT NOT NULL,"
	" events           TEXT NOT NULL,"
	" secret           TEXT,"
	" enabled          INTEGER NOT NULL DEFAULT 1,"
	" retry_limit      INTEGER NOT NULL DEFAULT 3,"
	" created_at       TEXT NOT NULL,"
	" last_status_code INTEGER,"
	" last_error       TEXT,"
	" last_delivery_at TEXT,"
	" queues           TEXT,"
	" updated_at       TEXT,"
	" disabled_at      TEXT,"
	" disabled_reason  TEXT)",
};

/* The two rows that are there from the start have the time zero. */
static const char *const enterprise[] = {
	"CREATE TABLE api_keys ("
	" key_hash     TEXT PRIMARY KEY,"
	" name         TEXT NOT NULL,"
	" namespace    TEXT NOT NULL DEFAULT 'default',"
	" role         TEXT NOT NULL DEFAULT 'readonly',"
	" queue_scope  TEXT,"
	" enabled      INTEGER NOT NULL DEFAULT 1,"
	" expires_at   TEXT,"
	" created_at   TEXT NOT NULL,"
	" last_used_at TEXT)",

	"CREATE TABLE auth_roles ("
	" name        TEXT PRIMARY KEY,"
	" permissions TEXT NOT NULL,"
	" created_at  TEXT NOT NULL,"
	" updated_at  TEXT)",

	"CREATE TABLE auth_key_roles ("
	" key_hash   TEXT NOT NULL,"
	" role_name  TEXT NOT NULL,"
	" created_at TEXT NOT NULL,"
	" PRIMARY KEY (key_hash, role_name))",

	"CREATE TABLE audit_logs ("
	" id          INTEGER PRIMARY KEY AUTOINCREMENT,"
	" namespace   TEXT NOT NULL DEFAULT 'default',"
	" principal   TEXT,"
	" role        TEXT,"
	" method      TEXT NOT NULL,"
	" path        TEXT NOT NULL,"
	" status_code INTEGER NOT NULL,"
	" metadata    TEXT,"
	" created_at  TEXT NOT NULL)",

	"CREATE TABLE namespaces ("
	" name       TEXT PRIMARY KEY,"
	" created_at TEXT NOT NULL DEFAULT '1970-01-01T00:00:00.000000000Z')",
	"INSERT INTO namespaces(name) VALUES('default')",

	"CREATE TABLE sso_settings ("
	" id                  TEXT PRIMARY KEY DEFAULT 'singleton',"
	" provider            TEXT NOT NULL DEFAULT '',"
	" oidc_issuer_url     TEXT NOT NULL DEFAULT '',"
	" oidc_client_id      TEXT NOT NULL DEFAULT '',"
	" saml_enabled        INTEGER NOT NULL DEFAULT 0,"
	" oidc_group_claim    TEXT NOT NULL DEFAULT 'groups',"
	" group_role_mappings TEXT NOT NULL DEFAULT '{}',"
	" updated_at          TEXT NOT NULL"
	"   DEFAULT '1970-01-01T00:00:00.000000000Z')",
	"INSERT INTO sso_settings(id) VALUES('singleton')",
};

static const char *const indexes[] = {
	"CREATE INDEX idx_unique_locks_job ON unique_locks(job_id)",
	"CREATE INDEX idx_schedules_name ON schedules(name)",
};

int schema_make_more_tables(struct db *db)
{
	int r = schema_exec(db, ties, ARRAY_SIZE(ties));

	if (r == 0)
		r = schema_exec(db, agents, ARRAY_SIZE(agents));
	if (r == 0)
		r = schema_exec(db, enterprise, ARRAY_SIZE(enterprise));
	return r;
}

int schema_make_more_indexes(struct db *db)
{
	return schema_exec(db, indexes, ARRAY_SIZE(indexes));
}
