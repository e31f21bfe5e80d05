/*
 * The conditions of a search as SQL. Their texts come from clients: each is
 * bound as a parameter, or read into a struct jq; none becomes part of a
 * statement. What is derived from them is in the arena of the query.
 */
#include "query/search.h"

/* --- reading --- */

static struct str time_text(struct arena *a, uint64_t ns)
{
	struct timetext t = { 0 };
	char *p = arena_alloc(a, TIMETEXT_LEN);

	timetext_put(&t, ns, p);
	return str_of(p, TIMETEXT_LEN);
}

static int read_tags(struct search *s)
{
	struct arena *a = &s->q->arena;
	struct str name;

	if (s->m->tags.n == 0 ||
	    jq_from_texts(json_root(s->m->tags), a, &s->tags, &name))
		return 0;
	return query_refuse(s->q, "tags: %.*s must be a text",
			    (int)MIN(name.n, (size_t)64), name.p);
}

static int read_jq(struct search *s)
{
	struct jq_error err;

	if (s->m->payload_jq.n == 0)
		return 0;
	s->jq = jq_parse(s->m->payload_jq, &s->q->arena, &err);
	if (s->jq != NULL)
		return 0;
	return query_refuse(s->q, "payload_jq: %s at byte %zu", err.text,
			    err.pos + 1);
}

/* No word in it: nothing has it. */
static int read_text(struct search *s)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	int r;

	s->by_text = s->m->text.n > 0;
	r = query_match(s->q, "text", s->m->text, &b);
	if (r == 1)
		s->match = arena_copy(&s->q->arena, buf_str(&b));
	return r < 0 ? r : 0;
}

/* Ids are UTF-8: their bytes are never the largest there is. */
static void read_prefix(struct search *s)
{
	struct str prefix = s->m->job_id_prefix;
	char *end;

	if (prefix.n == 0)
		return;
	end = arena_cstr(&s->q->arena, prefix);
	end[prefix.n - 1]++;
	s->id_end = str_of(end, prefix.n);
}

int search_read_filter(struct search *s)
{
	struct arena *a = &s->q->arena;
	int r = read_tags(s);

	if (r == 0)
		r = read_jq(s);
	if (r == 0)
		r = read_text(s);
	if (r < 0)
		return r;
	if (MSG_HAS(s->m, search, created_after))
		s->after = time_text(a, s->m->created_after);
	if (MSG_HAS(s->m, search, created_before))
		s->before = time_text(a, s->m->created_before);
	read_prefix(s);
	return 0;
}

void search_done(struct search *s)
{
	jq_done(s->tags);
	jq_done(s->jq);
}

/* --- writing --- */

struct condition {
	const char *column;
	const char *op;
	uint16_t offset; /* of the member in struct m_search */
	uint8_t bit;     /* in its has */
};

#define CONDITION(column, op, member)                          \
	{                                                      \
		column, op, offsetof(struct m_search, member), \
		    MF_search_##member                         \
	}

static const struct condition texts[] = {
	CONDITION("queue", "=", queue),
	CONDITION("unique_key", "=", unique_key),
	CONDITION("batch_id", "=", batch_id),
	CONDITION("worker_id", "=", worker_id),
	CONDITION("parent_id", "=", parent_id),
	CONDITION("chain_id", "=", chain_id),
	CONDITION("group_name", "=", group),
	CONDITION("schedule_id", "=", schedule_id),
	CONDITION("model", "=", model),
	CONDITION("held_by", "=", held_by),
	CONDITION("held_policy", "=", policy),
};

static const struct condition times[] = {
	CONDITION("scheduled_at", ">", scheduled_after),
	CONDITION("scheduled_at", "<", scheduled_before),
	CONDITION("started_at", ">", started_after),
	CONDITION("started_at", "<", started_before),
	CONDITION("completed_at", ">", completed_after),
	CONDITION("completed_at", "<", completed_before),
	CONDITION("expire_at", ">", expire_after),
	CONDITION("expire_at", "<", expire_before),
};

static const struct condition numbers[] = {
	CONDITION("attempt", ">=", attempt_min),
	CONDITION("attempt", "<=", attempt_max),
	CONDITION("agent_iteration", ">=", iteration_min),
	CONDITION("agent_iteration", "<=", iteration_max),
};

static const void *member(const struct m_search *m, const struct condition *c)
{
	return (const char *)m + c->offset;
}

static bool is_set(const struct m_search *m, const struct condition *c)
{
	return (m->has >> c->bit & 1) != 0;
}

static void put(struct sql *sql, const struct condition *c, int param)
{
	buf_printf(&sql->text, " AND j.%s%s?%d", c->column, c->op, param);
}

/* Whether the plan leads only to jobs with the right value of the column. */
static bool is_planned(const struct search *s, const char *column)
{
	if (s->plan.kind == PLAN_COLUMN)
		return strcmp(column, s->plan.column) == 0;
	if (s->plan.kind == PLAN_UNIQUE)
		return strcmp(column, "unique_key") == 0 ||
		       strcmp(column, "queue") == 0;
	if (s->plan.kind == PLAN_WORKER)
		return strcmp(column, "worker_id") == 0;
	return s->plan.kind == PLAN_RANGES && strcmp(column, "queue") == 0;
}

static void put_columns(struct search *s, struct sql *sql)
{
	const struct m_search *m = s->m;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct str v = *(const struct str *)member(m, &texts[i]);

		if (v.n > 0 && !is_planned(s, texts[i].column))
			put(sql, &texts[i], sql_text(sql, v));
	}
	for (size_t i = 0; i < ARRAY_SIZE(times); i++)
		if (is_set(m, &times[i]))
			put(sql, &times[i],
			    sql_text(sql, time_text(&s->q->arena,
						    *(const uint64_t *)member(
							m, &times[i]))));
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		if (is_set(m, &numbers[i]))
			put(sql, &numbers[i],
			    sql_number(sql, *(const uint32_t *)member(
						m, &numbers[i])));
	if (MSG_HAS(m, search, cost_min))
		buf_printf(
		    &sql->text, " AND ifnull(j.cost_nano,0)>=?%d",
		    sql_number(sql, (int64_t)MIN(m->cost_min, INT64_MAX)));
	if (MSG_HAS(m, search, cost_max))
		buf_printf(
		    &sql->text, " AND ifnull(j.cost_nano,0)<=?%d",
		    sql_number(sql, (int64_t)MIN(m->cost_max, INT64_MAX)));
	if (MSG_HAS(m, search, has_errors))
		buf_printf(&sql->text, " AND j.error_count%s0",
			   m->has_errors ? ">" : "=");
}

/* States and priorities are our own words and numbers. */
static void put_state_and_priority(const struct search *s, struct sql *sql)
{
	bool ranges = s->plan.kind == PLAN_RANGES;

	if (MSG_HAS(s->m, search, priority) && !(ranges && s->m->queue.n > 0))
		buf_printf(&sql->text, " AND j.priority=%u", s->m->priority);
	if (ranges || !s->some_states)
		return;
	buf_puts(&sql->text, " AND j.state IN (''");
	for (unsigned i = 1; i < JOB_STATES_SHOWN; i++)
		if (s->states[i])
			buf_printf(&sql->text, ",'%s'",
				   enum_text(&enum_job_state, i));
	buf_putc(&sql->text, ')');
}

/* Those that read much of the job, or more than it. */
static void put_costly(struct search *s, struct sql *sql)
{
	const struct m_search *m = s->m;
	struct arena *a = &s->q->arena;
	struct buf *b = &sql->text;

	if (s->tags != NULL)
		buf_printf(b, " AND matches(j.tags,?%d)", sql_jq(sql, s->tags));
	if (m->payload_contains.n > 0)
		buf_printf(b, " AND instr(lower(j.payload),?%d)",
			   sql_text(sql, query_lower(a, m->payload_contains)));
	if (m->hold_reason.n > 0)
		buf_printf(b, " AND instr(lower(j.hold_reason),?%d)",
			   sql_text(sql, query_lower(a, m->hold_reason)));
	if (s->jq != NULL)
		buf_printf(b, " AND matches(j.payload,?%d)",
			   sql_jq(sql, s->jq));
	if (m->error_contains.n > 0)
		buf_printf(b,
			   " AND j.error_count>0 AND EXISTS (SELECT 1 FROM"
			   " job_errors e WHERE e.job_id=j.id AND"
			   " instr(lower(e.error),?%d))",
			   sql_text(sql, query_lower(a, m->error_contains)));
	if (s->by_text && s->plan.kind != PLAN_TEXT)
		buf_printf(
		    b,
		    " AND (EXISTS (SELECT 1 FROM jobs_fts WHERE jobs_fts"
		    " MATCH ?%d AND jobs_fts.rowid=j.rowid) OR j.id=?%d)",
		    sql_text(sql, s->match), sql_text(sql, m->text));
}

/* Plans in the order of row numbers do not look at times. */
static void put_created(const struct search *s, struct sql *sql)
{
	if (s->after.n > 0)
		buf_printf(&sql->text, " AND j.created_at>?%d",
			   sql_text(sql, s->after));
	if (s->before.n > 0)
		buf_printf(&sql->text, " AND j.created_at<?%d",
			   sql_text(sql, s->before));
}

/* CASE, because SQLite evaluates all parts of an AND that is a value. */
void search_put_filter(struct search *s, struct sql *sql)
{
	size_t start, rest;

	buf_puts(&sql->text, "CASE WHEN 1");
	start = sql->text.n;
	if (s->id_end.n > 0 && s->plan.kind != PLAN_ID)
		buf_printf(&sql->text, " AND k.i>=?%d AND k.i<?%d",
			   sql_text(sql, s->m->job_id_prefix),
			   sql_text(sql, s->id_end));
	rest = sql->text.n;
	put_columns(s, sql);
	put_state_and_priority(s, sql);
	if (s->plan.by_rowid)
		put_created(s, sql);
	put_costly(s, sql);
	s->has_filter = sql->text.n > start;
	s->needs_row = sql->text.n > rest;
	buf_puts(&sql->text, " THEN 1 ELSE 0 END");
}
