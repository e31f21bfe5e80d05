/*
 * Members of message `job` to columns and back. Runs on the writer's and the
 * readers' threads; keeps no state. Values of a column may be anything when
 * the file was written by somebody else: what cannot be read reads as absent.
 */
#include "db/columns.h"

#include "proto/msg_json.h"
#include "util/nano.h"

/* kind, live, column, member, names, absent */
#define COL(k, l, column, member, e, none)                          \
	{                                                           \
		.name = column, .kind = k, .live = l,               \
		.offset = offsetof(struct m_job, member),           \
		.bit = MF_job_##member, .names = e, .absent = none, \
	}

/* Large values stand last: what is before them is read without them. */
const struct column job_columns[JOB_COLUMNS] = {
	COL(COL_TEXT, LIVE_NEVER, "id", id, NULL, ""),
	[COLUMN_QUEUE] = COL(COL_TEXT, LIVE_NEVER, "queue", queue, NULL, ""),
	COL(COL_ENUM, LIVE_ABSENT, "state", state, &enum_job_state, ""),
	COL(COL_U32, LIVE_NEVER, "priority", priority, NULL, NULL),
	COL(COL_U32, LIVE_ABSENT, "attempt", attempt, NULL, NULL),
	COL(COL_U32, LIVE_NEVER, "max_retries", max_retries, NULL, NULL),
	COL(COL_ENUM, LIVE_NEVER, "retry_backoff", retry_backoff, &enum_backoff,
	    ""),
	COL(COL_MS, LIVE_NEVER, "retry_base_delay_ms", retry_base_delay, NULL,
	    ""),
	COL(COL_MS, LIVE_NEVER, "retry_max_delay_ms", retry_max_delay, NULL,
	    ""),
	COL(COL_F64, LIVE_NEVER, "retry_jitter", retry_jitter, NULL, NULL),
	COL(COL_TEXT, LIVE_NEVER, "unique_key", unique_key, NULL, NULL),
	COL(COL_MS, LIVE_NEVER, "unique_period_ms", unique_period, NULL, NULL),
	COL(COL_MS, LIVE_NEVER, "expire_after_ms", expire_after, NULL, NULL),
	COL(COL_COUNT, LIVE_NEVER, "as_numbers", as_numbers, NULL, NULL),
	COL(COL_TEXT, LIVE_NEVER, "batch_id", batch_id, NULL, NULL),
	COL(COL_TEXT, LIVE_ABSENT, "worker_id", worker_id, NULL, NULL),
	COL(COL_TEXT, LIVE_ABSENT, "hostname", hostname, NULL, NULL),
	COL(COL_TEXT, LIVE_NEVER, "parent_id", parent_id, NULL, NULL),
	COL(COL_TEXT, LIVE_NEVER, "chain_id", chain_id, NULL, NULL),
	COL(COL_I64, LIVE_NEVER, "chain_step", chain_step, NULL, NULL),
	COL(COL_TEXT, LIVE_NEVER, "group_name", group, NULL, NULL),
	COL(COL_TEXT, LIVE_NEVER, "schedule_id", schedule_id, NULL, NULL),
	COL(COL_TIME, LIVE_NEVER, "scheduled_for", scheduled_for, NULL, NULL),
	COL(COL_ENUM, LIVE_NEVER, "on_dependency_failure",
	    on_dependency_failure, &enum_on_dependency_failure, NULL),
	COL(COL_COUNT, LIVE_ABSENT, "waiting_on", waiting_on, NULL, NULL),
	COL(COL_BOOL, LIVE_ABSENT, "blocked", blocked, NULL, NULL),
	COL(COL_COUNT, LIVE_ABSENT, "lost_leases", lost_leases, NULL, NULL),
	COL(COL_COUNT, LIVE_ABSENT, "log_lines", log_lines, NULL, NULL),
	COL(COL_MS, LIVE_NEVER, "timeout_ms", timeout, NULL, NULL),
	COL(COL_TIME, LIVE_ABSENT, "timeout_at", timeout_at, NULL, NULL),
	COL(COL_TEXT, LIVE_ABSENT, "hold_reason", hold_reason, NULL, NULL),
	COL(COL_HELD_KIND, LIVE_ABSENT, "held_by", held, NULL, NULL),
	COL(COL_HELD_POLICY, LIVE_ABSENT, "held_policy", held, NULL, NULL),
	COL(COL_HELD, LIVE_ABSENT, "held", held, NULL, NULL),
	COL(COL_BOOL, LIVE_ABSENT, "cancel_requested", cancel_requested, NULL,
	    NULL),
	COL(COL_U64, LIVE_ABSENT, "seq", seq, NULL, NULL),
	COL(COL_TIME, LIVE_ABSENT, "lease_expires_at", lease_expires_at, NULL,
	    NULL),
	COL(COL_TIME, LIVE_ABSENT, "scheduled_at", scheduled_at, NULL, NULL),
	COL(COL_TIME, LIVE_NEVER, "expire_at", expire_at, NULL, NULL),
	COL(COL_TIME, LIVE_NEVER, "created_at", created_at, NULL, ""),
	COL(COL_TIME, LIVE_ABSENT, "started_at", started_at, NULL, NULL),
	COL(COL_TIME, LIVE_ABSENT, "completed_at", completed_at, NULL, NULL),
	COL(COL_TIME, LIVE_ABSENT, "failed_at", failed_at, NULL, NULL),
	COL(COL_TIME, LIVE_ABSENT, "cancelled_at", cancelled_at, NULL, NULL),
	COL(COL_USAGE_COST, LIVE_ABSENT, "cost_nano", usage, NULL, NULL),
	COL(COL_USAGE_MODEL, LIVE_ABSENT, "model", usage, NULL, NULL),
	COL(COL_USAGE, LIVE_ABSENT, "usage", usage, NULL, NULL),
	COL(COL_COUNT, LIVE_KEPT, "agent_iteration", iteration, NULL, NULL),
	[COLUMN_TAGS] = COL(COL_TEXT, LIVE_NEVER, "tags", tags, NULL, NULL),
	COL(COL_STRS, LIVE_NEVER, "depends_on", depends_on, NULL, NULL),
	COL(COL_TEXT, LIVE_ABSENT, "progress", progress, NULL, NULL),
	COL(COL_TEXT, LIVE_KEPT, "checkpoint", checkpoint, NULL, NULL),
	COL(COL_TEXT, LIVE_ABSENT, "result", result, NULL, NULL),
	COL(COL_CHAIN, LIVE_NEVER, "chain_config", chain_config, NULL, NULL),
	[COLUMN_PAYLOAD] =
	    COL(COL_TEXT, LIVE_NEVER, "payload", payload, NULL, "{}"),
};

/* Every message begins with the bits of the members it has. */
_Static_assert(offsetof(struct m_job, has) == 0 &&
		   offsetof(struct m_batch, has) == 0,
	       "column_put_member reads them there");

static void put_enum(struct db_to to, const struct column *c, uint32_t number)
{
	const char *text = enum_text(c->names, number);

	/* A number of a newer version is kept, as nothing we know. */
	db_put_text(to, text != NULL ? str_from(text) : STR("unknown"));
}

/* Whole milliseconds as a number anybody can read, others exactly. */
static void put_ms(struct db_to to, uint64_t ns)
{
	if (ns % NS_PER_MS == 0)
		db_put_i64(to, (int64_t)(ns / NS_PER_MS));
	else
		db_put_f64(to, (double)ns / (double)NS_PER_MS);
}

static void put_time(struct db_to to, uint64_t ns, char *text,
		     struct timetext *times)
{
	timetext_put(times, ns, text);
	db_put_text(to, str_of(text, TIMETEXT_LEN));
}

static void put_strs(struct db_to to, const struct m_job *j, struct buf *b)
{
	struct json_writer w = JSON_WRITER(b);

	buf_clear(b);
	jw_array(&w);
	for (size_t k = 0; k < j->depends_on_n; k++)
		jw_str(&w, j->depends_on[k]);
	jw_array_end(&w);
	db_put_text(to, buf_str(b));
}

static void put_chain(struct db_to to, const struct m_job *j, struct buf *b)
{
	static const struct json_style style;
	struct json_writer w = JSON_WRITER(b);

	buf_clear(b);
	msg_to_json(&msg_chain, j->chain_config, &style, &w);
	db_put_text(to, buf_str(b));
}

static void put_usage(struct db_to to, enum column_kind kind,
		      const struct m_usage_sum *u, struct buf *b)
{
	static const struct json_style style;
	struct json_writer w = JSON_WRITER(b);

	if (kind == COL_USAGE_COST) {
		db_put_i64(to, (int64_t)MIN(u->cost_usd, INT64_MAX));
	} else if (kind == COL_USAGE) {
		buf_clear(b);
		msg_to_json(&msg_usage_sum, u, &style, &w);
		db_put_text(to, buf_str(b));
	} else if (u->model.n > 0) {
		db_put_text(to, u->model);
	} else {
		db_put_null(to);
	}
}

static void put_held(struct db_to to, enum column_kind kind,
		     const struct m_hold_state *h, struct buf *b)
{
	static const struct json_style style;
	struct json_writer w = JSON_WRITER(b);

	if (kind == COL_HELD_KIND) {
		db_put_text(to, str_from(enum_text(&enum_hold_kind, h->kind)));
	} else if (kind == COL_HELD) {
		buf_clear(b);
		msg_to_json(&msg_hold_state, h, &style, &w);
		db_put_text(to, buf_str(b));
	} else if (h->policy.n > 0) {
		db_put_text(to, h->policy);
	} else {
		db_put_null(to);
	}
}

void column_text_done(struct column_text *t)
{
	buf_done(&t->usage);
	buf_done(&t->held);
	buf_done(&t->strs);
	buf_done(&t->chain);
}

/* Plain numbers are 0 when absent. */
#define NEVER_NULL \
	(1u << COL_U32 | 1u << COL_U64 | 1u << COL_BOOL | 1u << COL_F64)

static bool is_null(const struct column *c, bool has, const void *m)
{
	if (!has)
		return c->absent == NULL && (NEVER_NULL >> c->kind & 1) == 0;
	if (c->kind == COL_COUNT)
		return *(const uint32_t *)m == 0;
	return c->kind == COL_COUNT64 && *(const uint64_t *)m == 0;
}

void column_put_member(struct db_to to, const struct column *col,
		       const void *msg, struct timetext *times, char *time_text)
{
	bool has = (*(const uint64_t *)msg >> col->bit & 1) != 0;
	const void *m = (const char *)msg + col->offset;

	if (is_null(col, has, m)) {
		db_put_null(to);
		return;
	}
	switch (col->kind) {
	case COL_TEXT:
		db_put_text(to, has ? *(const struct str *)m
				    : str_from(col->absent));
		break;
	case COL_ENUM:
		put_enum(to, col, *(const uint32_t *)m);
		break;
	case COL_U32:
	case COL_COUNT:
		db_put_i64(to, *(const uint32_t *)m);
		break;
	case COL_U64:
	case COL_COUNT64:
		db_put_i64(to, (int64_t) * (const uint64_t *)m);
		break;
	case COL_I64:
		db_put_i64(to, *(const int64_t *)m);
		break;
	case COL_BOOL:
		db_put_i64(to, *(const bool *)m);
		break;
	case COL_F64:
		db_put_f64(to, *(const double *)m);
		break;
	case COL_NANO:
		db_put_f64(to, (double)*(const uint64_t *)m /
				   (double)NANO_PER_UNIT);
		break;
	case COL_MS:
		put_ms(to, *(const uint64_t *)m);
		break;
	case COL_TIME:
		put_time(to, *(const uint64_t *)m, time_text, times);
		break;
	case COL_STRS:
	case COL_CHAIN:
	case COL_USAGE:
	case COL_USAGE_COST:
	case COL_USAGE_MODEL:
	case COL_HELD:
	case COL_HELD_KIND:
	case COL_HELD_POLICY:
		CHECK(!"a column of jobs only");
	}
}

void column_put(struct db_to to, size_t c, const struct m_job *j,
		struct column_text *text)
{
	const struct column *col = &job_columns[c];
	bool has = (j->has >> col->bit & 1) != 0;

	if (col->kind == COL_STRS && has)
		put_strs(to, j, &text->strs);
	else if (col->kind == COL_CHAIN && has)
		put_chain(to, j, &text->chain);
	else if (col->kind >= COL_HELD && has)
		put_held(to, col->kind, j->held, &text->held);
	else if (col->kind >= COL_USAGE && has)
		put_usage(to, col->kind, j->usage, &text->usage);
	else
		column_put_member(to, col, j, &text->times, text->text[c]);
}

/* False: somebody else wrote it. *ret: the message, or what is left of it. */
static bool read_message(struct str text, const struct msg_desc *d,
			 struct arena *a, void *ret)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct msg_reader rd = { .a = a, .why = &why };
	void *m = arena_zalloc(a, d->size);
	struct json_error e;

	text = arena_copy(a, text);
	*(void **)ret = m;
	return json_validate(text, LIMIT_JSON_DEPTH, &e) &&
	       msg_from_json(&rd, d, json_root(text), m) == 0;
}

static uint64_t read_ms(struct db_stmt *s, int i)
{
	return (uint64_t)(db_f64(s, i) * (double)NS_PER_MS + 0.5);
}

void column_read(struct db_stmt *s, int i, size_t c, struct arena *a,
		 struct m_job *j)
{
	const struct column *col = &job_columns[c];
	void *m = (char *)j + col->offset;
	bool has = !db_is_null(s, i);

	if (!has)
		return;
	switch (col->kind) {
	case COL_TEXT:
		*(struct str *)m = arena_copy(a, db_text(s, i));
		break;
	case COL_ENUM:
		has = enum_parse(col->names, db_text(s, i), m);
		break;
	case COL_U32:
	case COL_COUNT:
		*(uint32_t *)m = (uint32_t)db_i64(s, i);
		break;
	case COL_U64:
	case COL_COUNT64:
		*(uint64_t *)m = (uint64_t)db_i64(s, i);
		break;
	case COL_I64:
		*(int64_t *)m = db_i64(s, i);
		break;
	case COL_BOOL:
		has = *(bool *)m = db_i64(s, i) != 0;
		break;
	case COL_F64:
		has = (*(double *)m = db_f64(s, i)) != 0;
		break;
	case COL_MS:
		*(uint64_t *)m = read_ms(s, i);
		break;
	case COL_TIME:
		*(uint64_t *)m = timetext_parse(db_text(s, i));
		break;
	case COL_USAGE:
		has = read_message(db_text(s, i), &msg_usage_sum, a, m);
		break;
	case COL_HELD:
		has = read_message(db_text(s, i), &msg_hold_state, a, m);
		break;
	case COL_STRS:
	case COL_CHAIN:
	case COL_NANO: /* of no job */
	case COL_USAGE_COST:
	case COL_USAGE_MODEL:
	case COL_HELD_KIND:
	case COL_HELD_POLICY:
		has = false;
		break;
	}
	if (has)
		j->has |= 1ULL << col->bit;
}
