/*
 * Rows of table jobs. A document with the unchanging part is inserted, or
 * replaces the row when there is one; a partial one updates the columns that
 * change. In both cases the old state and the new one move the counters.
 */
#include "mirror/mirror_impl.h"

static void put_insert(struct buf *b)
{
	buf_puts(b, "INSERT INTO jobs(");
	for (size_t c = 0; c < JOB_COLUMNS; c++)
		buf_printf(b, "%s%s", c > 0 ? "," : "", job_columns[c].name);
	buf_puts(b, ") VALUES(");
	for (size_t c = 0; c < JOB_COLUMNS; c++)
		buf_printf(b, "%s?%zu", c > 0 ? "," : "", c + 1);
	buf_puts(b, ") ON CONFLICT(id) DO NOTHING");
}

static void put_update(struct buf *b)
{
	buf_puts(b, "UPDATE jobs SET ");
	for (size_t c = 1; c < JOB_COLUMNS; c++)
		buf_printf(b, "%s%s=?%zu", c > 1 ? "," : "",
			   job_columns[c].name, c + 1);
	buf_puts(b, " WHERE id=?1");
}

/*
 * The live columns, as names or as their new values. A partial document
 * leaves a LIVE_KEPT column out when it has not changed since the insert.
 */
static void put_live(struct buf *b, bool names, bool values)
{
	size_t i = 1;

	for (size_t c = 0; c < JOB_COLUMNS; c++) {
		const struct column *col = &job_columns[c];

		if (col->live == LIVE_NEVER)
			continue;
		if (i++ > 1)
			buf_putc(b, ',');
		if (names)
			buf_puts(b, col->name);
		if (names && values)
			buf_putc(b, '=');
		if (values && col->live == LIVE_KEPT)
			buf_printf(b, "coalesce(?%zu,%s)", i, col->name);
		else if (values)
			buf_printf(b, "?%zu", i);
	}
}

/*
 * A view that is behind is told of the same document again and again, as it
 * is sent with each of its events: then nothing is written.
 */
static void put_patch(struct buf *b)
{
	buf_puts(b, "UPDATE jobs SET ");
	put_live(b, true, true);
	buf_puts(b, " WHERE rowid=?1 AND (");
	put_live(b, true, false);
	buf_puts(b, ") IS NOT (");
	put_live(b, false, true);
	buf_puts(b, ")");
}

void mirror_job_sql(enum mirror_stmt s, struct buf *ret)
{
	buf_clear(ret);
	if (s == STMT_JOB_INSERT)
		put_insert(ret);
	else if (s == STMT_JOB_UPDATE)
		put_update(ret);
	else
		put_patch(ret);
	buf_putc(ret, '\0');
}

int mirror_find(struct mirror *m, struct str id, struct mirror_row *ret)
{
	struct db_stmt *s = m->stmts[STMT_JOB_FIND];
	int r;

	db_bind_text(s, 1, id);
	r = db_step(s);
	if (r != 1)
		return r;
	ret->rowid = db_i64(s, 0);
	ret->delta = mirror_delta(m, db_text(s, 1));
	ret->state = 0;
	(void)enum_parse(&enum_job_state, db_text(s, 2), &ret->state);
	ret->error_count = db_i64(s, 3);
	ret->blocked = db_i64(s, 4) != 0;
	ret->unique = db_i64(s, 5) != 0;
	db_reset(s);
	return 1;
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
	mirror_rowids_bind(m, s, 1, &gone);
	return db_run(s);
}

/* --- partial documents --- */

static int patch_job(struct mirror *m, const struct m_job *j)
{
	struct db_stmt *s = m->stmts[STMT_JOB_PATCH];
	struct mirror_row row;
	int i = 1;
	int r = mirror_find(m, j->id, &row);

	if (r != 1)
		return r < 0 ? r : -ERR_NOT_FOUND;
	db_bind_i64(s, i++, row.rowid);
	for (size_t c = 0; c < JOB_COLUMNS; c++)
		if (job_columns[c].live != LIVE_NEVER)
			column_bind(s, i++, c, j, &m->text);
	r = db_run(s);
	if (r < 0)
		return r;
	count_leave(&row);
	count_enter(row.delta, j);
	return row.unique ? unlock_ended(m, j) : 0;
}

static int run_full(struct mirror *m, enum mirror_stmt which,
		    const struct m_job *j)
{
	struct db_stmt *s = m->stmts[which];

	for (size_t c = 0; c < JOB_COLUMNS; c++)
		column_bind(s, (int)c + 1, c, j, &m->text);
	return db_run(s);
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
	int r = run_full(m, STMT_JOB_UPDATE, p->j);

	if (r < 0)
		return r;
	count_leave(&row);
	row.delta->failed -= row.error_count;
	count_enter(to, p->j);
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

static int insert_job(struct mirror *m, const struct m_job *j,
		      struct replaced **met)
{
	struct replaced *p;
	int r = run_full(m, STMT_JOB_INSERT, j);

	if (r < 0)
		return r;
	if (db_changes(m->db) > 0) {
		mirror_text_new(m, db_last_rowid(m->db));
		count_enter(mirror_delta(m, j->queue), j);
		return 0;
	}
	p = arena_alloc(&m->arena, sizeof(*p));
	*p = (struct replaced){ .j = j, .next = *met };
	*met = p;
	r = mirror_find(m, j->id, &p->row);
	CHECK(r != 0); /* the insert has just met it */
	return MIN(r, 0);
}

int mirror_jobs(struct mirror *m, const struct m_job *j, size_t n)
{
	struct replaced *met = NULL;
	int r = delete_jobs(m, j, n);

	for (size_t i = 0; i < n && r == 0; i++) {
		if (j[i].partial && !j[i].deleted)
			r = patch_job(m, &j[i]);
		else if (!j[i].deleted)
			r = insert_job(m, &j[i], &met);
	}
	return r < 0 ? r : replace_jobs(m, met);
}

int mirror_job(struct mirror *m, const struct m_job *j)
{
	return mirror_jobs(m, j, 1);
}
