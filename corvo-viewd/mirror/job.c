/*
 * Rows of table jobs. A document with the unchanging part is inserted, or
 * replaces the row when there is one; a partial one updates the columns that
 * change. In both cases the old state and the new one move the counters.
 */
#include "mirror/mirror_impl.h"

/*
 * What nearly every job has. The rows of those that have nothing else are
 * written without the other columns, which are most of them: they are NULL or
 * 0 by themselves.
 */
static const uint64_t plain_members =
    MSG_BIT(job, id) | MSG_BIT(job, queue) | MSG_BIT(job, state) |
    MSG_BIT(job, priority) | MSG_BIT(job, attempt) | MSG_BIT(job, max_retries) |
    MSG_BIT(job, retry_backoff) | MSG_BIT(job, retry_base_delay) |
    MSG_BIT(job, retry_max_delay) | MSG_BIT(job, seq) |
    MSG_BIT(job, created_at) | MSG_BIT(job, payload) | MSG_BIT(job, worker_id) |
    MSG_BIT(job, hostname) | MSG_BIT(job, started_at) |
    MSG_BIT(job, completed_at) | MSG_BIT(job, result);

/* Of these, what changes when a job is handed out or ends; and its lease. */
static const uint64_t moved_members =
    MSG_BIT(job, state) | MSG_BIT(job, attempt) | MSG_BIT(job, seq) |
    MSG_BIT(job, worker_id) | MSG_BIT(job, hostname) |
    MSG_BIT(job, started_at) | MSG_BIT(job, completed_at) |
    MSG_BIT(job, result) | MSG_BIT(job, lease_expires_at);

static const uint64_t worker_members =
    MSG_BIT(job, worker_id) | MSG_BIT(job, hostname);

static bool is_plain(const struct m_job *j)
{
	return (j->has & ~plain_members) == 0;
}

void mirror_job_names(struct buf *b, bool plain)
{
	const char *before = "";

	for (size_t c = 0; c < JOB_COLUMNS; c++) {
		if (plain && (plain_members >> job_columns[c].bit & 1) == 0)
			continue;
		buf_printf(b, "%s%s", before, job_columns[c].name);
		before = ",";
	}
}

/* WHERE: or SQLite would take ON for a part of a join. */
static void put_insert(struct buf *b, bool plain)
{
	buf_puts(b, "INSERT INTO jobs(");
	mirror_job_names(b, plain);
	buf_puts(b, ") SELECT ");
	mirror_job_names(b, plain);
	buf_puts(b, " FROM " MIRROR_SOURCE
		    " WHERE true ON CONFLICT(id) DO NOTHING");
}

static void put_update(struct buf *b)
{
	buf_puts(b, "UPDATE jobs SET ");
	for (size_t c = 1; c < JOB_COLUMNS; c++)
		buf_printf(b, "%s%s=?%zu", c > 1 ? "," : "",
			   job_columns[c].name, c + 1);
	buf_puts(b, " WHERE id=?1");
}

enum live_as {
	LIVE_NAMES,
	LIVE_VALUES, /* the new ones, where the row is there already */
	LIVE_SET,
};

/*
 * A partial document leaves a LIVE_KEPT column out when it has not changed
 * since the insert.
 */
static void put_live(struct buf *b, enum live_as as)
{
	const char *before = "";

	for (size_t c = 0; c < JOB_COLUMNS; c++) {
		const struct column *col = &job_columns[c];

		if (col->live == LIVE_NEVER)
			continue;
		buf_puts(b, before);
		before = ",";
		if (as != LIVE_VALUES)
			buf_puts(b, col->name);
		if (as == LIVE_SET)
			buf_putc(b, '=');
		if (as != LIVE_NAMES && col->live == LIVE_KEPT)
			buf_printf(b, "coalesce(excluded.%s,jobs.%s)",
				   col->name, col->name);
		else if (as != LIVE_NAMES)
			buf_printf(b, "excluded.%s", col->name);
	}
}

/*
 * Rows that are there already: what cannot be NULL is named and never used. A
 * view that is behind is told of the same document again and again, as it is
 * sent with each of its events: then nothing is written.
 */
static void put_patch(struct buf *b)
{
	buf_puts(b, "INSERT INTO jobs(id,queue,created_at,payload,");
	put_live(b, LIVE_NAMES);
	buf_puts(b, ") SELECT id,'','','',");
	put_live(b, LIVE_NAMES);
	buf_puts(b, " FROM " MIRROR_SOURCE
		    " WHERE true ON CONFLICT(id) DO UPDATE SET ");
	put_live(b, LIVE_SET);
	buf_puts(b, " WHERE (");
	put_live(b, LIVE_NAMES);
	buf_puts(b, ") IS NOT (");
	put_live(b, LIVE_VALUES);
	buf_puts(b, ")");
}

/* The column is written when a job moves on; a row of a job that has more than
 * those, or had, is patched. */
static bool is_moved(const struct column *c, bool with_worker)
{
	if (!with_worker && (worker_members >> c->bit & 1) != 0)
		return false;
	return c->live == LIVE_ABSENT && (moved_members >> c->bit & 1) != 0;
}

/* A row that says so already is not written. */
static void put_move(struct buf *b, bool with_worker)
{
	const char *before = "";
	int i = 2;

	buf_puts(b, "UPDATE jobs SET ");
	for (size_t c = 0; c < JOB_COLUMNS; c++) {
		if (!is_moved(&job_columns[c], with_worker))
			continue;
		buf_printf(b, "%s%s=?%d", before, job_columns[c].name, i++);
		before = ",";
	}
	buf_puts(b, " WHERE rowid=?1 AND (false");
	i = 2;
	for (size_t c = 0; c < JOB_COLUMNS; c++)
		if (is_moved(&job_columns[c], with_worker))
			buf_printf(b, " OR %s IS NOT ?%d", job_columns[c].name,
				   i++);
	buf_puts(b, ")");
}

/* A column that is not moved says nothing: it is NULL, or a number and 0. */
static void put_find(struct buf *b)
{
	buf_puts(b, "SELECT " MIRROR_ROW ", true");
	for (size_t c = 0; c < JOB_COLUMNS; c++) {
		const struct column *col = &job_columns[c];

		if (col->live == LIVE_ABSENT && !is_moved(col, true))
			buf_printf(b, " AND ifnull(j.%s,0) IS 0", col->name);
	}
	buf_puts(b, ", j.worker_id IS d.worker_id AND j.hostname IS d.hostname"
		    " FROM " MIRROR_SOURCE " d CROSS JOIN jobs j ON j.id=d.id");
}

void mirror_job_sql(enum mirror_stmt s, struct buf *ret)
{
	buf_clear(ret);
	if (s == STMT_JOBS_INSERT || s == STMT_JOBS_INSERT_PLAIN)
		put_insert(ret, s == STMT_JOBS_INSERT_PLAIN);
	else if (s == STMT_JOB_UPDATE)
		put_update(ret);
	else if (s == STMT_JOB_MOVE || s == STMT_JOB_MOVE_ON)
		put_move(ret, s == STMT_JOB_MOVE);
	else if (s == STMT_JOBS_FIND)
		put_find(ret);
	else
		put_patch(ret);
	buf_putc(ret, '\0');
}

/* The columns of MIRROR_ROW. */
static void read_row(struct mirror *m, struct db_stmt *s,
		     struct mirror_row *ret)
{
	ret->rowid = db_i64(s, 0);
	ret->delta = mirror_delta(m, db_text(s, 1));
	ret->state = 0;
	(void)enum_parse(&enum_job_state, db_text(s, 2), &ret->state);
	ret->error_count = db_i64(s, 3);
	ret->blocked = db_i64(s, 4) != 0;
	ret->unique = db_i64(s, 5) != 0;
}

int mirror_find(struct mirror *m, struct str id, struct mirror_row *ret)
{
	struct db_stmt *s = m->stmts[STMT_JOB_FIND];
	int r;

	db_bind_text(s, 1, id);
	r = db_step(s);
	if (r != 1)
		return r;
	read_row(m, s, ret);
	db_reset(s);
	return 1;
}

/* The rows of all documents of the source, which have some. */
static int find_all(struct mirror *m, struct mirror_row **ret)
{
	struct db_stmt *s = m->stmts[STMT_JOBS_FIND];
	size_t n = 0;
	int r;

	*ret = arena_alloc(&m->arena, m->source.rows * sizeof(**ret));
	while ((r = db_step(s)) == 1) {
		struct mirror_row *row = &(*ret)[n++];

		read_row(m, s, row);
		row->plain = db_i64(s, 6) != 0;
		row->same_worker = db_i64(s, 7) != 0;
	}
	if (r < 0)
		return r;
	return n < m->source.rows ? -ERR_NOT_FOUND : 0;
}

static uint32_t known_state(const struct m_job *j)
{
	return j->state < JOB_STATES_SHOWN ? j->state : 0;
}

/* It is no longer what its row says ... */
static void count_leave(struct mirror_row *row)
{
	row->delta->jobs[row->state]--;
	row->delta->blocked -= row->blocked;
}

/* ... but this. */
static void count_enter(struct mirror_delta *to, const struct m_job *j)
{
	to->jobs[known_state(j)]++;
	to->blocked += j->blocked;
}

/* Of a job that has a unique key. */
static int unlock_ended(struct mirror *m, const struct m_job *j)
{
	return job_state_is_terminal(j->state) ? mirror_unlock(m, j->id) : 0;
}

/* --- jobs that are gone --- */

static int leave(struct mirror *m, const struct m_job *j,
		 struct mirror_rowids *gone)
{
	struct mirror_row row;
	int r = mirror_find(m, j->id, &row);

	if (r != 1)
		return r;
	mirror_rowids_add(m, gone, row.rowid);
	count_leave(&row);
	row.delta->failed -= row.error_count;
	if (row.unique)
		r = mirror_unlock(m, j->id);
	if (r < 0 || row.error_count == 0)
		return MIN(r, 0);
	db_bind_text(m->stmts[STMT_ERRORS_DELETE], 1, j->id);
	return db_run(m->stmts[STMT_ERRORS_DELETE]);
}

static int delete_jobs(struct mirror *m, const struct m_job *j, size_t n)
{
	struct db_stmt *s = m->stmts[STMT_JOBS_DELETE];
	struct mirror_rowids gone = { 0 };
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++)
		if (j[i].deleted)
			r = leave(m, &j[i], &gone);
	if (r < 0 || gone.n == 0)
		return r;
	r = mirror_text_remove(m, &gone);
	if (r < 0)
		return r;
	mirror_rowids_bind(m, m->stmts[STMT_SCORES_DELETE], 1, &gone);
	r = db_run(m->stmts[STMT_SCORES_DELETE]);
	if (r < 0)
		return r;
	mirror_rowids_bind(m, m->stmts[STMT_ITERATIONS_DELETE], 1, &gone);
	r = db_run(m->stmts[STMT_ITERATIONS_DELETE]);
	if (r < 0)
		return r;
	mirror_rowids_bind(m, s, 1, &gone);
	return db_run(s);
}

/* --- partial documents --- */

static bool is_move(const struct m_job *j, const struct mirror_row *row)
{
	return row->plain &&
	       (j->has & ~(moved_members | MSG_BIT(job, id))) == 0;
}

/* Much less work than a patch: the columns are few, and the row is known. */
static int move_job(struct mirror *m, const struct m_job *j,
		    const struct mirror_row *row)
{
	bool with_worker = !row->same_worker;
	struct db_stmt *s =
	    m->stmts[with_worker ? STMT_JOB_MOVE : STMT_JOB_MOVE_ON];
	int i = 2;

	db_bind_i64(s, 1, row->rowid);
	for (size_t c = 0; c < JOB_COLUMNS; c++)
		if (is_moved(&job_columns[c], with_worker))
			column_put(db_param(s, i++), c, j, &m->text);
	return db_run(s);
}

static int patch_jobs(struct mirror *m)
{
	size_t n = m->source.rows, rest = 0;
	struct mirror_row *rows;
	int r;

	if (n == 0)
		return 0;
	r = find_all(m, &rows);
	for (size_t i = 0; i < n && r == 0; i++) {
		const struct m_job *j = m->docs[i];

		count_leave(&rows[i]);
		count_enter(rows[i].delta, j);
		if (rows[i].unique)
			r = unlock_ended(m, j);
		if (!is_move(j, &rows[i]))
			m->docs[rest++] = j;
		else if (r == 0)
			r = move_job(m, j, &rows[i]);
	}
	m->source.rows = rest;
	return r < 0 || rest == 0 ? r : db_run(m->stmts[STMT_JOBS_PATCH]);
}

/* --- whole documents --- */

/* A document of a job there is a row of already. */
struct replaced {
	const struct m_job *j;
	struct mirror_row row;
	struct replaced *next;
};

static int replace_job(struct mirror *m, const struct replaced *p)
{
	struct mirror_delta *to = mirror_delta(m, p->j->queue);
	struct mirror_row row = p->row;
	struct db_stmt *s = m->stmts[STMT_JOB_UPDATE];
	int r;

	for (size_t c = 0; c < JOB_COLUMNS; c++)
		column_put(db_param(s, (int)c + 1), c, p->j, &m->text);
	r = db_run(s);
	if (r < 0)
		return r;
	count_leave(&row); /* the new one was counted with the others */
	row.delta->failed -= row.error_count;
	to->failed += row.error_count;
	return row.unique ? unlock_ended(m, p->j) : 0;
}

/* All at once, because each change of the full text costs a statement. */
static int replace_jobs(struct mirror *m, const struct replaced *first)
{
	struct mirror_rowids texts = { 0 };
	int r = 0;

	for (const struct replaced *p = first; p != NULL && r >= 0;
	     p = p->next) {
		r = mirror_text_changed(m, p->row.rowid, p->j);
		if (r == 1)
			mirror_rowids_add(m, &texts, p->row.rowid);
	}
	if (r >= 0)
		r = mirror_text_remove(m, &texts);
	for (const struct replaced *p = first; p != NULL && r == 0; p = p->next)
		r = replace_job(m, p);
	return r < 0 ? r : mirror_text_add(m, &texts);
}

/* Those among the documents whose rows were there before row `first`. */
static int find_met(struct mirror *m, int64_t first, struct replaced **met)
{
	struct mirror_row *rows;
	int r = find_all(m, &rows);

	CHECK(r != -ERR_NOT_FOUND); /* the insert has just met or made them */
	for (size_t i = 0; i < m->source.rows && r == 0; i++) {
		struct replaced *p;

		if (rows[i].rowid >= first)
			continue;
		p = arena_alloc(&m->arena, sizeof(*p));
		*p = (struct replaced){ m->docs[i], rows[i], *met };
		*met = p;
	}
	return r;
}

/*
 * Rows of all documents that have none; `met` gets the others. Numbers of new
 * rows go up by one: those of a statement stand together at the end.
 */
static int insert_jobs(struct mirror *m, enum mirror_stmt which,
		       struct replaced **met)
{
	int64_t first, n;
	int r;

	if (m->source.rows == 0)
		return 0;
	r = db_run(m->stmts[which]);
	if (r < 0)
		return r;
	n = db_changes(m->db);
	first = n > 0 ? db_last_rowid(m->db) - n + 1 : INT64_MAX;
	if (n > 0)
		mirror_text_new(m, first);
	if ((size_t)n < m->source.rows)
		r = find_met(m, first, met);
	for (size_t i = 0; i < m->source.rows; i++)
		count_enter(mirror_delta(m, m->docs[i]->queue), m->docs[i]);
	return r;
}

void mirror_source_put(void *ctx, size_t row, size_t column, struct db_to to)
{
	struct mirror *m = ctx;

	column_put(to, column, m->docs[row], &m->text);
}

static enum mirror_stmt stmt_of(const struct m_job *j)
{
	if (job_is_partial(j))
		return STMT_JOBS_PATCH;
	return is_plain(j) ? STMT_JOBS_INSERT_PLAIN : STMT_JOBS_INSERT;
}

/* The source has the documents of one kind. */
static void choose(struct mirror *m, const struct m_job *j, size_t n,
		   enum mirror_stmt which)
{
	m->source.rows = 0;
	for (size_t i = 0; i < n; i++)
		if (!j[i].deleted && stmt_of(&j[i]) == which)
			m->docs[m->source.rows++] = &j[i];
}

int mirror_jobs(struct mirror *m, const struct m_job *j, size_t n)
{
	struct replaced *met = NULL;
	int r = delete_jobs(m, j, n);

	m->docs = arena_alloc(&m->arena, (n + 1) * sizeof(*m->docs));
	choose(m, j, n, STMT_JOBS_PATCH);
	if (r == 0)
		r = patch_jobs(m);
	choose(m, j, n, STMT_JOBS_INSERT_PLAIN);
	if (r == 0)
		r = insert_jobs(m, STMT_JOBS_INSERT_PLAIN, &met);
	choose(m, j, n, STMT_JOBS_INSERT);
	if (r == 0)
		r = insert_jobs(m, STMT_JOBS_INSERT, &met);
	return r < 0 ? r : replace_jobs(m, met);
}

int mirror_job(struct mirror *m, const struct m_job *j)
{
	return mirror_jobs(m, j, 1);
}
