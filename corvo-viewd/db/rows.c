/*
 * See db/rows.h. Constants and bindings; keeps no state.
 */
#include "db/rows.h"

#include "proto/job.h"
#include "util/json.h"

#define COL(m, k, column, member, e, none)                            \
	{                                                             \
		.name = column, .kind = k,                            \
		.offset = offsetof(struct m_##m, member),             \
		.bit = MF_##m##_##member, .names = e, .absent = none, \
	}

static const struct column error_columns[] = {
	COL(job_error, COL_TEXT, "job_id", job_id, NULL, ""),
	COL(job_error, COL_U32, "n", id, NULL, NULL),
	COL(job_error, COL_U32, "attempt", attempt, NULL, NULL),
	COL(job_error, COL_TEXT, "error", error, NULL, ""),
	COL(job_error, COL_TEXT, "backtrace", backtrace, NULL, NULL),
	COL(job_error, COL_TEXT, "worker_id", worker_id, NULL, NULL),
	COL(job_error, COL_TEXT, "hostname", hostname, NULL, NULL),
	COL(job_error, COL_TIME, "created_at", at, NULL, ""),
};

static const struct column queue_columns[] = {
	COL(queue, COL_TEXT, "name", name, NULL, ""),
	COL(queue, COL_BOOL, "paused", paused, NULL, NULL),
	COL(queue, COL_TIME, "created_at", created_at, NULL, ""),
	COL(queue, COL_COUNT, "max_concurrency", max_concurrency, NULL, NULL),
	COL(queue, COL_COUNT64, "rate_limit", rate_limit, NULL, NULL),
	COL(queue, COL_COUNT64, "rate_window_ms", rate_window_ms, NULL, NULL),
};

static const struct column worker_columns[] = {
	COL(worker, COL_TEXT, "id", id, NULL, ""),
	COL(worker, COL_TEXT, "hostname", hostname, NULL, NULL),
	COL(worker, COL_TEXT, "queues", queues, NULL, NULL),
	COL(worker, COL_TIME, "last_heartbeat", last_heartbeat, NULL, ""),
	COL(worker, COL_TIME, "started_at", started_at, NULL, ""),
};

static const struct column lock_columns[] = {
	COL(unique_lock, COL_TEXT, "queue", queue, NULL, ""),
	COL(unique_lock, COL_TEXT, "unique_key", unique_key, NULL, ""),
	COL(unique_lock, COL_TEXT, "job_id", job_id, NULL, ""),
	COL(unique_lock, COL_TIME, "expires_at", expires_at, NULL, ""),
};

static const struct column batch_columns[] = {
	COL(batch, COL_TEXT, "id", id, NULL, ""),
	COL(batch, COL_TEXT, "status", status, NULL, ""),
	COL(batch, COL_U64, "total", total, NULL, NULL),
	COL(batch, COL_U64, "pending", pending, NULL, NULL),
	COL(batch, COL_U64, "succeeded", succeeded, NULL, NULL),
	COL(batch, COL_U64, "failed", failed, NULL, NULL),
	COL(batch, COL_BOOL, "sealed", sealed, NULL, NULL),
	COL(batch, COL_TEXT, "parent_id", parent_id, NULL, NULL),
	COL(batch, COL_TEXT, "callback_queue", callback_queue, NULL, NULL),
	COL(batch, COL_TEXT, "callback_job_id", callback_job_id, NULL, NULL),
	COL(batch, COL_TIME, "created_at", created_at, NULL, ""),
	COL(batch, COL_TIME, "completed_at", completed_at, NULL, NULL),
	COL(batch, COL_TEXT, "callback_payload", callback_payload, NULL, NULL),
};

#define JOB_COL(k, column, member, none)                           \
	{                                                          \
		.name = column, .kind = k,                         \
		.offset = offsetof(struct m_schedule_job, member), \
		.bit = MF_schedule_job_##member, .nested = true,   \
		.absent = none,                                    \
	}

static const struct column schedule_columns[] = {
	COL(schedule, COL_TEXT, "id", id, NULL, ""),
	COL(schedule, COL_TEXT, "name", name, NULL, ""),
	COL(schedule, COL_TEXT, "queue", queue, NULL, ""),
	COL(schedule, COL_TEXT, "cron", cron, NULL, ""),
	COL(schedule, COL_TEXT, "timezone", timezone, NULL, "UTC"),
	JOB_COL(COL_TEXT, "unique_key", unique_key, NULL),
	JOB_COL(COL_U32, "max_retries", max_retries, NULL),
	COL(schedule, COL_TIME, "last_run", last_run, NULL, NULL),
	COL(schedule, COL_TIME, "next_run", next_run, NULL, NULL),
	COL(schedule, COL_TIME, "created_at", created_at, NULL, ""),
	COL(schedule, COL_TIME, "updated_at", updated_at, NULL, NULL),
	COL(schedule, COL_ENUM, "dst", dst, &enum_dst, ""),
	COL(schedule, COL_ENUM, "catch_up", catch_up, &enum_catch_up, ""),
	COL(schedule, COL_MS, "catch_up_window_ms", catch_up_window, NULL,
	    NULL),
	COL(schedule, COL_ENUM, "overlap", overlap, &enum_overlap, ""),
	COL(schedule, COL_MS, "jitter_ms", jitter, NULL, NULL),
	COL(schedule, COL_TIME, "start_at", start_at, NULL, NULL),
	COL(schedule, COL_TIME, "end_at", end_at, NULL, NULL),
	COL(schedule, COL_COUNT64, "max_runs", max_runs, NULL, NULL),
	COL(schedule, COL_U64, "runs", runs, NULL, NULL),
	COL(schedule, COL_BOOL, "paused", paused, NULL, NULL),
	COL(schedule, COL_BOOL, "ended", ended, NULL, NULL),
	COL(schedule, COL_TEXT, "last_job_id", last_job_id, NULL, NULL),
	JOB_COL(COL_TEXT, "payload", payload, "{}"),
};
_Static_assert(ARRAY_SIZE(schedule_columns) <= ROW_COLUMNS_MAX, "see rows.h");

static const struct column budget_columns[] = {
	COL(budget, COL_ENUM, "scope", scope, &enum_budget_scope, ""),
	COL(budget, COL_TEXT, "target", target, NULL, ""),
	COL(budget, COL_TEXT, "id", id, NULL, ""),
	COL(budget, COL_NANO, "daily_usd", daily_usd, NULL, NULL),
	COL(budget, COL_NANO, "per_job_usd", per_job_usd, NULL, NULL),
	COL(budget, COL_ENUM, "on_exceed", on_exceed, &enum_budget_action, ""),
	COL(budget, COL_TIME, "created_at", created_at, NULL, ""),
};

static const struct column score_columns[] = {
	COL(score, COL_TEXT, "job_id", job_id, NULL, ""),
	COL(score, COL_U32, "n", n, NULL, NULL),
	COL(score, COL_TEXT, "dimension", name, NULL, ""),
	COL(score, COL_F64, "value", value, NULL, NULL),
	COL(score, COL_TEXT, "scorer", by, NULL, NULL),
	COL(score, COL_TEXT, "comment", comment, NULL, NULL),
	COL(score, COL_COUNT, "iteration", iteration, NULL, NULL),
	COL(score, COL_TIME, "created_at", created_at, NULL, ""),
};

static const struct column policy_columns[] = {
	COL(policy, COL_TEXT, "id", id, NULL, ""),
	COL(policy, COL_TEXT, "name", name, NULL, ""),
	COL(policy, COL_ENUM, "mode", mode, &enum_policy_mode, ""),
	COL(policy, COL_BOOL, "enabled", enabled, NULL, NULL),
	COL(policy, COL_TEXT, "queue", queue, NULL, NULL),
	COL(policy, COL_TEXT, "tag_key", tag_key, NULL, NULL),
	COL(policy, COL_TEXT, "tag_value", tag_value, NULL, NULL),
	COL(policy, COL_TIME, "created_at", created_at, NULL, ""),
	COL(policy, COL_TIME, "updated_at", updated_at, NULL, NULL),
	COL(policy, COL_NANO, "cost_min", cost_min, NULL, NULL),
	COL(policy, COL_COUNT, "iteration_min", iteration_min, NULL, NULL),
	COL(policy, COL_TEXT, "payload_jq", payload_jq, NULL, NULL),
	COL(policy, COL_U32, "priority", priority, NULL, NULL),
	COL(policy, COL_MS, "deadline_ms", deadline, NULL, NULL),
	COL(policy, COL_ENUM, "on_deadline", on_deadline, &enum_on_deadline,
	    NULL),
	COL(policy, COL_ENUM, "provider_state", provider_state,
	    &enum_provider_state, NULL),
};

static const struct column iteration_columns[] = {
	COL(iteration, COL_TEXT, "job_id", job_id, NULL, ""),
	COL(iteration, COL_U32, "iteration", iteration, NULL, NULL),
	COL(iteration, COL_TEXT, "status", status, NULL, ""),
	COL(iteration, COL_TEXT, "hold_reason", hold_reason, NULL, NULL),
	COL(iteration, COL_U64, "input_tokens", input_tokens, NULL, NULL),
	COL(iteration, COL_U64, "output_tokens", output_tokens, NULL, NULL),
	COL(iteration, COL_U64, "cache_creation_tokens", cache_creation_tokens,
	    NULL, NULL),
	COL(iteration, COL_U64, "cache_read_tokens", cache_read_tokens, NULL,
	    NULL),
	COL(iteration, COL_TEXT, "model", model, NULL, NULL),
	COL(iteration, COL_TEXT, "provider", provider, NULL, NULL),
	COL(iteration, COL_NANO, "cost_usd", cost_usd, NULL, ""),
	COL(iteration, COL_TIME, "created_at", created_at, NULL, ""),
	COL(iteration, COL_TIME, "started_at", started_at, NULL, NULL),
	COL(iteration, COL_U32, "attempt", attempt, NULL, NULL),
	COL(iteration, COL_TEXT, "worker_id", worker_id, NULL, NULL),
	COL(iteration, COL_TEXT, "hostname", hostname, NULL, NULL),
	COL(iteration, COL_TEXT, "result", result, NULL, NULL),
	COL(iteration, COL_TEXT, "trace", trace, NULL, NULL),
};

static const struct column provider_columns[] = {
	COL(provider_doc, COL_TEXT, "name", name, NULL, ""),
	COL(provider_doc, COL_ENUM, "state", state, &enum_provider_state, ""),
	COL(provider_doc, COL_TIME, "created_at", created_at, NULL, ""),
};

#define LIST_IS_PLAIN(member)                                    \
	_Static_assert(offsetof(struct m_webhook, member##_n) == \
			   offsetof(struct m_webhook, member) +  \
			       sizeof(struct str *),             \
		       "put_list reads a list and its length side by side")
LIST_IS_PLAIN(events);
LIST_IS_PLAIN(queues);

/* How its last call ended changes without an event, and has no column. */
static const struct column webhook_columns[] = {
	COL(webhook, COL_TEXT, "id", id, NULL, ""),
	COL(webhook, COL_TEXT, "url", url, NULL, ""),
	COL(webhook, COL_STRS, "events", events, NULL, NULL),
	COL(webhook, COL_BOOL, "enabled", enabled, NULL, NULL),
	COL(webhook, COL_U32, "retry_limit", retry_limit, NULL, NULL),
	COL(webhook, COL_TIME, "created_at", created_at, NULL, ""),
	COL(webhook, COL_STRS, "queues", queues, NULL, NULL),
	COL(webhook, COL_TIME, "updated_at", updated_at, NULL, NULL),
	COL(webhook, COL_TIME, "disabled_at", disabled_at, NULL, NULL),
	COL(webhook, COL_TEXT, "disabled_reason", disabled_reason, NULL, NULL),
};

#define TABLE(kind, table, key_columns, list) \
	[kind] = { .name = table,             \
		   .keys = key_columns,       \
		   .n = ARRAY_SIZE(list),     \
		   .columns = list }

const struct row_table row_tables[ROW_KINDS] = {
	TABLE(ROW_ERROR, "job_errors", 2, error_columns),
	TABLE(ROW_QUEUE, "queues", 1, queue_columns),
	TABLE(ROW_WORKER, "workers", 1, worker_columns),
	TABLE(ROW_LOCK, "unique_locks", 2, lock_columns),
	TABLE(ROW_BATCH, "batches", 1, batch_columns),
	TABLE(ROW_SCHEDULE, "schedules", 1, schedule_columns),
	TABLE(ROW_BUDGET, "budgets", 2, budget_columns),
	TABLE(ROW_SCORE, "job_scores", 2, score_columns),
	TABLE(ROW_POLICY, "approval_policies", 1, policy_columns),
	TABLE(ROW_ITERATION, "job_iterations", 2, iteration_columns),
	TABLE(ROW_PROVIDER, "providers", 1, provider_columns),
	TABLE(ROW_WEBHOOK, "webhooks", 1, webhook_columns),
};

static void fill_schedule_job(const struct m_schedule *m,
			      struct m_schedule_job *ret)
{
	*ret = (struct m_schedule_job){ 0 };
	if (m->job != NULL)
		*ret = *m->job;
	if (!MSG_HAS(ret, schedule_job, max_retries))
		MSG_SET(ret, schedule_job, max_retries,
			JOB_DEFAULT_MAX_RETRIES);
}

void row_text_done(struct row_text *t)
{
	for (size_t i = 0; i < ROW_LISTS_MAX; i++)
		buf_done(&t->lists[i]);
}

/* A list of texts as JSON; NULL: there is none. */
static void put_list(struct db_to to, const struct column *col, const void *m,
		     struct buf *b)
{
	const void *member = (const char *)m + col->offset;
	const struct str *list = *(const struct str *const *)member;
	size_t n = *(const size_t *)((const struct str *const *)member + 1);
	struct json_writer w = JSON_WRITER(b);

	if ((*(const uint64_t *)m >> col->bit & 1) == 0) {
		db_put_null(to);
		return;
	}
	buf_clear(b);
	jw_array(&w);
	for (size_t i = 0; i < n; i++)
		jw_str(&w, list[i]);
	jw_array_end(&w);
	db_put_text(to, buf_str(b));
}

void row_bind(struct db_stmt *s, enum row_kind kind, const void *m,
	      struct row_text *t)
{
	const struct row_table *table = &row_tables[kind];
	size_t lists = 0;

	if (kind == ROW_SCHEDULE)
		fill_schedule_job(m, &t->job);
	for (unsigned c = 0; c < table->n; c++) {
		const struct column *col = &table->columns[c];
		const void *from = col->nested ? &t->job : m;
		struct db_to to = db_param(s, (int)c + 1);

		if (col->kind == COL_STRS)
			put_list(to, col, from, &t->lists[lists++]);
		else
			column_put_member(to, col, from, &t->times, t->text[c]);
	}
}

void row_put_columns(struct buf *b, const struct row_table *t, unsigned n)
{
	for (unsigned c = 0; c < n; c++)
		buf_printf(b, "%s%s", c > 0 ? "," : "", t->columns[c].name);
}

void row_put_upsert(struct buf *b, const struct row_table *t)
{
	buf_printf(b, "INSERT INTO %s(", t->name);
	row_put_columns(b, t, t->n);
	buf_puts(b, ") VALUES(");
	for (unsigned c = 0; c < t->n; c++)
		buf_printf(b, "%s?%u", c > 0 ? "," : "", c + 1);
	buf_puts(b, ") ON CONFLICT(");
	row_put_columns(b, t, t->keys);
	buf_puts(b, ") DO UPDATE SET ");
	for (unsigned c = t->keys; c < t->n; c++)
		buf_printf(b, "%s%s=?%u", c > t->keys ? "," : "",
			   t->columns[c].name, c + 1);
}
