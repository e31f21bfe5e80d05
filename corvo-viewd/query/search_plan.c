/*
 * Which index leads to the jobs of a search. Whatever it is, the jobs come in
 * the order of their creation: as ranges of an index that ends in it, which
 * SQLite merges, or, where the index knows nothing of it, as a set so small
 * (QUERY_SORTED_MAX) that it may be sorted. Of a larger one there is a job
 * every now and then among all, so those are looked at; where all of it has to
 * be looked at anyway, for another order, it comes by row numbers, which are in
 * the order in which rows came into the file. So a page costs what is looked
 * at, and any of them can be gone on from any job.
 */
#include "query/search.h"

/* Later and earlier than any time text of the column. */
#define AFTER_ALL  "~"
#define BEFORE_ALL ""
/* Greater than any id: not UTF-8. */
#define AFTER_IDS "\xff"

/* --- statements --- */

static int add_param(struct sql *s)
{
	CHECK(s->n < SQL_PARAMS);
	return ++s->n;
}

int sql_text(struct sql *s, struct str v)
{
	int i = add_param(s);

	s->params[i - 1].kind = SQL_TEXT;
	s->params[i - 1].text = v;
	return i;
}

int sql_number(struct sql *s, int64_t v)
{
	int i = add_param(s);

	s->params[i - 1].kind = SQL_NUMBER;
	s->params[i - 1].number = v;
	return i;
}

int sql_jq(struct sql *s, struct jq *v)
{
	int i = add_param(s);

	s->params[i - 1].kind = SQL_JQ;
	s->params[i - 1].jq = v;
	return i;
}

static void bind_all(const struct sql *s, struct db_stmt *stmt)
{
	for (int i = 0; i < s->n; i++) {
		switch (s->params[i].kind) {
		case SQL_TEXT:
			db_bind_text(stmt, i + 1, s->params[i].text);
			break;
		case SQL_NUMBER:
			db_bind_i64(stmt, i + 1, s->params[i].number);
			break;
		case SQL_JQ:
			db_bind_match(stmt, i + 1, s->params[i].jq);
			break;
		}
	}
}

int sql_prepare(struct query *q, struct sql *s, struct db_stmt **ret)
{
	int r;

	buf_putc(&s->text, '\0');
	r = db_prepare(q->db, s->text.p, ret);
	if (r == 0)
		bind_all(s, *ret);
	buf_done(&s->text);
	return r;
}

/* --- choosing --- */

/* Columns with an index of (column, created_at, id). */
static const struct {
	const char *column, *index;
	uint16_t offset; /* of the member in struct m_search */
} indexed[] = {
	{ "chain_id", "idx_jobs_chain", offsetof(struct m_search, chain_id) },
	{ "parent_id", "idx_jobs_parent",
	  offsetof(struct m_search, parent_id) },
	{ "batch_id", "idx_jobs_batch", offsetof(struct m_search, batch_id) },
	{ "schedule_id", "idx_jobs_schedule",
	  offsetof(struct m_search, schedule_id) },
	{ "group_name", "idx_jobs_group", offsetof(struct m_search, group) },
};

static void put_unique(const struct search *s, struct sql *sql)
{
	if (s->m->queue.n > 0)
		buf_printf(&sql->text,
			   "jobs INDEXED BY idx_jobs_unique"
			   " WHERE queue=?%d AND unique_key=?%d",
			   sql_text(sql, s->m->queue),
			   sql_text(sql, s->m->unique_key));
	else
		buf_printf(&sql->text,
			   "queues CROSS JOIN jobs INDEXED BY idx_jobs_unique"
			   " ON queue=name WHERE unique_key=?%d",
			   sql_text(sql, s->m->unique_key));
}

/* FROM and WHERE of one of the sets. */
static void put_set(const struct search *s, enum plan_kind kind,
		    struct sql *sql)
{
	if (kind == PLAN_UNIQUE)
		put_unique(s, sql);
	else if (kind == PLAN_ID)
		buf_printf(&sql->text,
			   "jobs INDEXED BY sqlite_autoindex_jobs_1"
			   " WHERE jobs.id>=?%d AND jobs.id<?%d",
			   sql_text(sql, s->m->job_id_prefix),
			   sql_text(sql, s->id_end));
	else if (kind == PLAN_WORKER)
		buf_printf(&sql->text,
			   "jobs INDEXED BY idx_jobs_worker"
			   " WHERE worker_id=?%d",
			   sql_text(sql, s->m->worker_id));
	else if (kind == PLAN_ERRORS)
		buf_puts(&sql->text,
			 "(SELECT DISTINCT job_id AS e FROM job_errors)"
			 " CROSS JOIN jobs ON jobs.id=e WHERE 1");
	else
		buf_printf(&sql->text,
			   "(SELECT rowid AS t FROM jobs_fts WHERE jobs_fts"
			   " MATCH ?%d UNION SELECT rowid FROM jobs"
			   " WHERE id=?%d) CROSS JOIN jobs ON jobs.rowid=t"
			   " WHERE 1",
			   sql_text(sql, s->match), sql_text(sql, s->m->text));
}

/* Of a set that can come by row numbers less is sorted. */
static int64_t sorted_max(const struct search *s)
{
	return s->sort == SORT_CREATED ? QUERY_SORTED_MAX : LIMIT_TOTAL;
}

/* 1: the set is small enough to be sorted. */
static int is_small(struct search *s, enum plan_kind kind)
{
	struct sql sql = { .text = BUF_INIT(0) };
	struct db_stmt *stmt;
	int64_t n = 0;
	int r;

	buf_puts(&sql.text, "SELECT count(*) FROM (SELECT 1 FROM ");
	if (kind == PLAN_TEXT)
		buf_printf(&sql.text, "jobs_fts WHERE jobs_fts MATCH ?%d",
			   sql_text(&sql, s->match));
	else if (kind == PLAN_ERRORS)
		buf_puts(&sql.text, "job_errors");
	else
		put_set(s, kind, &sql);
	buf_printf(&sql.text, " LIMIT %lld)", (long long)sorted_max(s) + 1);
	r = sql_prepare(s->q, &sql, &stmt);
	if (r < 0)
		return r;
	r = db_step(stmt);
	if (r == 1)
		n = db_i64(stmt, 0);
	db_finalize(stmt);
	return r < 0 ? r : n <= sorted_max(s);
}

/* 1: it is the plan; 0: it is of no use. */
static int try_set(struct search *s, enum plan_kind kind, bool asked)
{
	int r = asked ? is_small(s, kind) : 0;

	if (r == 1)
		s->plan.kind = kind;
	return r;
}

static bool try_column(struct search *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(indexed); i++) {
		struct str v = *(const struct str *)((const char *)s->m +
						     indexed[i].offset);

		if (v.n == 0)
			continue;
		s->plan = (struct plan){ .kind = PLAN_COLUMN,
					 .column = indexed[i].column,
					 .index = indexed[i].index,
					 .value = v };
		return true;
	}
	return false;
}

static bool can_match(const struct search *s)
{
	if (s->by_text && s->match.n == 0)
		return false;
	for (size_t i = 1; i < JOB_STATES_SHOWN; i++)
		if (s->states[i])
			return true;
	return false;
}

/* Almost all jobs of these states have errors: their ranges serve better. */
static bool wants_errors(const struct search *s)
{
	if (!s->m->has_errors && s->m->error_contains.n == 0)
		return false;
	for (size_t i = 1; i < JOB_STATES_SHOWN; i++)
		if (s->states[i] && i != JOB_DEAD && i != JOB_RETRYING)
			return true;
	return false;
}

/*
 * The row number that stands for a spot: the job's own, or of the last one
 * created before it, on the side where that one is still to come.
 */
static int find_rowid(struct search *s, const struct spot *spot, int64_t *ret)
{
	struct sql sql = { .text = BUF_INIT(0) };
	struct db_stmt *stmt;
	bool same;
	int id, r;

	id = sql_text(&sql, spot_id(spot));
	buf_printf(&sql.text,
		   "SELECT rowid, id=?%d FROM jobs INDEXED BY idx_jobs_created"
		   " WHERE (created_at, id)<=(?%d,?%d)"
		   " ORDER BY created_at DESC, id DESC LIMIT 1",
		   id, sql_text(&sql, spot_created(spot)), id);
	r = sql_prepare(s->q, &sql, &stmt);
	if (r < 0)
		return r;
	r = db_step(stmt);
	*ret = 0;
	if (r == 1) {
		same = db_i64(stmt, 1) != 0;
		*ret = db_i64(stmt, 0) + (!same && s->descending ? 1 : 0);
	}
	db_finalize(stmt);
	return MIN(r, 0);
}

static int plan_by_rowid(struct search *s, enum plan_kind kind)
{
	struct plan *p = &s->plan;
	int r = 0;

	*p = (struct plan){ .kind = kind, .by_rowid = true };
	p->from = s->descending ? INT64_MAX : 0;
	p->to = s->descending ? 0 : INT64_MAX;
	if (spot_is_set(&s->at.from))
		r = find_rowid(s, &s->at.from, &p->from);
	if (r == 0 && spot_is_set(&s->at.to))
		r = find_rowid(s, &s->at.to, &p->to);
	return r;
}

/* --- ranges --- */

static void add_range(struct plan *p, const char *state, int priority)
{
	CHECK(p->ranges_n < PLAN_RANGES_MAX);
	p->ranges[p->ranges_n++] = (struct range){ state, priority };
}

static void list_ranges(struct search *s)
{
	bool by_queue = s->m->queue.n > 0;

	if (!by_queue && !s->some_states) {
		add_range(&s->plan, NULL, -1);
		return;
	}
	for (unsigned i = 1; i < JOB_STATES_SHOWN; i++) {
		const char *state = enum_text(&enum_job_state, i);

		if (s->states[i] && !by_queue)
			add_range(&s->plan, state, -1);
		for (unsigned prio = PRIORITY_CRITICAL;
		     s->states[i] && by_queue && prio <= PRIORITY_NORMAL;
		     prio++)
			if (!MSG_HAS(s->m, search, priority) ||
			    s->m->priority == prio)
				add_range(&s->plan, state, (int)prio);
	}
}

/* 1: there is a job in it. */
static int has_job(const struct search *s, struct db_stmt *stmt,
		   const struct range *range)
{
	int r;

	db_bind_text(stmt, 1, str_from(range->state));
	if (range->priority >= 0) {
		db_bind_text(stmt, 2, s->m->queue);
		db_bind_i64(stmt, 3, range->priority);
	}
	r = db_step(stmt);
	db_reset(stmt);
	return r;
}

/*
 * Merging ranges costs more than a look into each: most queues have jobs in
 * few states, of one priority. One is kept, whatever is in it.
 */
static int drop_empty_ranges(struct search *s)
{
	static const char by_queue[] =
	    "SELECT 1 FROM jobs INDEXED BY idx_jobs_queue_state_priority"
	    " WHERE state=?1 AND queue=?2 AND priority=?3 LIMIT 1";
	static const char by_state[] =
	    "SELECT 1 FROM jobs INDEXED BY idx_jobs_state"
	    " WHERE state=?1 LIMIT 1";
	struct plan *p = &s->plan;
	struct db_stmt *stmt;
	size_t n = 0;
	int r;

	if (p->ranges_n <= 1)
		return 0;
	r = db_prepare(s->q->db, s->m->queue.n > 0 ? by_queue : by_state,
		       &stmt);
	if (r < 0)
		return r;
	for (size_t i = 0; i < p->ranges_n && r >= 0; i++) {
		r = has_job(s, stmt, &p->ranges[i]);
		if (r == 1)
			p->ranges[n++] = p->ranges[i];
	}
	db_finalize(stmt);
	p->ranges_n = MAX(n, (size_t)1);
	return MIN(r, 0);
}

/* The one that leads to the fewest jobs, as far as can be told. */
int search_make_plan(struct search *s)
{
	const struct m_search *m = s->m;
	int r;

	s->plan = (struct plan){ .kind = PLAN_NOTHING };
	if (!can_match(s))
		return 0;
	r = try_set(s, PLAN_UNIQUE, m->unique_key.n > 0);
	if (r == 0)
		r = try_set(s, PLAN_ID, m->job_id_prefix.n > 0);
	if (r == 0)
		r = try_set(s, PLAN_TEXT, s->by_text);
	if (r == 0)
		r = try_column(s);
	if (r == 0)
		r = try_set(s, PLAN_WORKER, m->worker_id.n > 0);
	if (r == 0)
		r = try_set(s, PLAN_ERRORS, wants_errors(s));
	if (r != 0)
		return MIN(r, 0);
	if (s->by_text && s->sort != SORT_CREATED)
		return plan_by_rowid(s, PLAN_TEXT);
	if (m->worker_id.n > 0 && s->sort != SORT_CREATED)
		return plan_by_rowid(s, PLAN_WORKER);
	s->plan.kind = PLAN_RANGES;
	list_ranges(s);
	return drop_empty_ranges(s);
}

/* --- the keys --- */

/* The parameters every range has. */
struct bounds {
	int created, id; /* from here on, without it */
	int stop;        /* up to this time, without it */
	int value;       /* of the queue or the column */
};

/* The later of where the cursor stands and where the times begin. */
static struct bounds put_bounds(const struct search *s, struct sql *sql)
{
	const struct spot *from = &s->at.from;
	struct str edge = s->descending ? s->before : s->after;
	struct str stop = s->descending ? s->after : s->before;
	struct str created = STR(BEFORE_ALL), id = STR("");
	struct bounds b = { 0 };

	if (s->descending)
		created = STR(AFTER_ALL);
	if (edge.n > 0) {
		created = edge;
		id = s->descending ? STR("") : STR(AFTER_IDS);
	}
	if (spot_is_set(from)) {
		int order = str_cmp(spot_created(from), created);

		if (edge.n == 0 || (s->descending ? order < 0 : order > 0)) {
			created = spot_created(from);
			id = spot_id(from);
		}
	}
	if (stop.n == 0)
		stop = s->descending ? STR(BEFORE_ALL) : STR(AFTER_ALL);
	b.created = sql_text(sql, created);
	b.id = sql_text(sql, id);
	b.stop = sql_text(sql, stop);
	return b;
}

static void put_bounded(const struct search *s, const struct bounds *b,
			struct buf *out)
{
	buf_printf(out,
		   "(jobs.created_at, jobs.id)%s(?%d,?%d)"
		   " AND jobs.created_at%s?%d",
		   s->descending ? "<" : ">", b->created, b->id,
		   s->descending ? ">" : "<", b->stop);
}

#define SELECT_KEYS \
	"SELECT jobs.created_at AS c, jobs.id AS i, jobs.rowid AS r FROM "

static void put_range(const struct search *s, const struct bounds *b,
		      const struct range *r, struct buf *out)
{
	buf_puts(out, SELECT_KEYS "jobs WHERE ");
	if (r->priority >= 0)
		buf_printf(out, "queue=?%d AND priority=%d AND ", b->value,
			   r->priority);
	if (r->state != NULL)
		buf_printf(out, "state='%s' AND ", r->state);
	put_bounded(s, b, out);
}

static void put_ranges(const struct search *s, struct bounds *b,
		       struct sql *sql)
{
	if (s->m->queue.n > 0)
		b->value = sql_text(sql, s->m->queue);
	for (size_t i = 0; i < s->plan.ranges_n; i++) {
		buf_puts(&sql->text, i == 0 ? "" : " UNION ALL ");
		put_range(s, b, &s->plan.ranges[i], &sql->text);
	}
}

static void put_by_rowid(const struct search *s, struct sql *sql)
{
	const char *table = "jobs";

	if (s->plan.kind == PLAN_TEXT) {
		table = "jobs_fts";
		buf_printf(&sql->text,
			   SELECT_KEYS "jobs_fts CROSS JOIN jobs ON"
				       " jobs.rowid=jobs_fts.rowid"
				       " WHERE jobs_fts MATCH ?%d",
			   sql_text(sql, s->match));
	} else {
		buf_puts(&sql->text, SELECT_KEYS);
		put_set(s, s->plan.kind, sql);
	}
	buf_printf(&sql->text, " AND %s.rowid%s?%d ORDER BY %s.rowid %s", table,
		   s->descending ? "<" : ">", sql_number(sql, s->plan.from),
		   table, s->descending ? "DESC" : "ASC");
}

static void put_by_creation(struct search *s, struct sql *sql)
{
	const char *order = s->descending ? "DESC" : "ASC";
	struct bounds b = put_bounds(s, sql);

	if (s->plan.kind == PLAN_RANGES) {
		put_ranges(s, &b, sql);
	} else {
		buf_puts(&sql->text, SELECT_KEYS);
		if (s->plan.kind == PLAN_COLUMN)
			buf_printf(&sql->text,
				   "jobs INDEXED BY %s WHERE %s=?%d",
				   s->plan.index, s->plan.column,
				   sql_text(sql, s->plan.value));
		else
			put_set(s, s->plan.kind, sql);
		buf_puts(&sql->text, " AND ");
		put_bounded(s, &b, &sql->text);
	}
	buf_printf(&sql->text, " ORDER BY 1 %s, 2 %s", order, order);
}

/* The LIMIT keeps SQLite from dropping the order of a subquery. */
void search_put_keys(struct search *s, struct sql *sql)
{
	if (s->plan.by_rowid)
		put_by_rowid(s, sql);
	else
		put_by_creation(s, sql);
	buf_puts(&sql->text, " LIMIT -1");
}
