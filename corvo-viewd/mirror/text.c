/*
 * The full text of the rows, kept by statement instead of by trigger: FTS5
 * writes what it has gathered at the start of every statement, so one
 * statement for all rows of a transaction is several times faster than one
 * each. What jobs_fts is told to forget must be what it was told to add: the
 * texts are taken from the row before it goes or changes.
 */
#include <stdlib.h>

#include "db/timetext.h"
#include "mirror/mirror_impl.h"

/* One portion: what comes meanwhile waits for it. */
#define TEXT_STEP_ROWS  500
#define TEXT_STEP_BYTES (512u << 10)

void mirror_rowids_add(struct mirror *m, struct mirror_rowids *l, int64_t rowid)
{
	if (l->n == l->cap) {
		size_t cap = MAX(l->cap * 2, (size_t)64);
		int64_t *v = arena_alloc(&m->arena, cap * sizeof(*v));

		if (l->n > 0)
			memcpy(v, l->v, l->n * sizeof(*v));
		l->v = v;
		l->cap = cap;
	}
	l->v[l->n++] = rowid;
}

static int compare_rowids(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

/* FTS5 gathers rows only while they come in ascending order. */
void mirror_rowids_bind(struct mirror *m, struct db_stmt *s, int i,
			struct mirror_rowids *l)
{
	if (l->n > 1)
		qsort(l->v, l->n, sizeof(*l->v), compare_rowids);
	buf_clear(&m->rowids);
	for (size_t k = 0; k < l->n; k++)
		buf_printf(&m->rowids, "%c%lld", k == 0 ? '[' : ',',
			   (long long)l->v[k]);
	buf_putc(&m->rowids, ']');
	db_bind_text(s, i, buf_str(&m->rowids));
}

/*
 * A new row's number is above all others; it may have been that of a row
 * which went, whose text went with it.
 */
void mirror_text_new(struct mirror *m, int64_t rowid)
{
	if (m->text_next == 0 || rowid < m->text_next)
		m->text_next = rowid;
}

int mirror_text_changed(struct mirror *m, int64_t rowid, const struct m_job *j)
{
	struct db_stmt *s = m->stmts[STMT_TEXT_CHANGED];
	int r, changed;

	db_bind_i64(s, 1, rowid);
	column_put(db_param(s, 2), COLUMN_QUEUE, j, &m->text);
	column_put(db_param(s, 3), COLUMN_TAGS, j, &m->text);
	column_put(db_param(s, 4), COLUMN_PAYLOAD, j, &m->text);
	r = db_step(s);
	if (r != 1)
		return r;
	changed = db_i64(s, 0) != 0;
	db_reset(s);
	return changed;
}

/* The rows of the list that jobs_fts has; the others it will get. */
static int run_for_old(struct mirror *m, enum mirror_stmt which,
		       const struct mirror_rowids *l)
{
	struct mirror_rowids old = { 0 };

	for (size_t i = 0; i < l->n; i++)
		if (m->text_next == 0 || l->v[i] < m->text_next)
			mirror_rowids_add(m, &old, l->v[i]);
	if (old.n == 0)
		return 0;
	mirror_rowids_bind(m, m->stmts[which], 1, &old);
	return db_run(m->stmts[which]);
}

int mirror_text_remove(struct mirror *m, struct mirror_rowids *l)
{
	return run_for_old(m, STMT_TEXT_REMOVE, l);
}

int mirror_text_add(struct mirror *m, struct mirror_rowids *l)
{
	return run_for_old(m, STMT_TEXT_ADD, l);
}

/* Rows from text_next on, up to but not including that one. */
static int add_new(struct mirror *m, int64_t upto)
{
	struct db_stmt *s = m->stmts[STMT_TEXT_ADD_NEW];

	db_bind_i64(s, 1, m->text_next);
	db_bind_i64(s, 2, upto);
	return db_run(s);
}

int mirror_text_commit(struct mirror *m)
{
	int r;

	if (m->text_next == 0)
		return 0;
	r = add_new(m, INT64_MAX);
	m->text_next = 0;
	return r;
}

/* --- a portion at a time --- */

bool mirror_text_is_whole(const struct mirror *m)
{
	return m->text_saved == 0;
}

uint64_t mirror_text_missing_ns(const struct mirror *m)
{
	return m->text_saved == 0 ? 0 : m->text_next_ns;
}

/*
 * Where a portion ends: *ret is the row after it, and when that came; 0: there
 * is none. 0 or -ERR_*.
 */
static int end_of_portion(struct mirror *m, int64_t *ret, uint64_t *ret_ns)
{
	struct db_stmt *s = m->stmts[STMT_TEXT_SIZES];
	size_t bytes = 0, rows = 0;
	int r;

	*ret = 0;
	*ret_ns = 0;
	db_bind_i64(s, 1, m->text_next);
	while ((r = db_step(s)) == 1) {
		if (rows == TEXT_STEP_ROWS || bytes >= TEXT_STEP_BYTES) {
			*ret = db_i64(s, 0);
			*ret_ns = timetext_parse(db_text(s, 2));
			break;
		}
		rows++;
		bytes += (size_t)db_i64(s, 1);
	}
	db_reset(s);
	return MIN(r, 0);
}

static int add_portion(struct mirror *m)
{
	int64_t next;
	uint64_t next_ns;
	int r = end_of_portion(m, &next, &next_ns);

	if (r == 0)
		r = add_new(m, next != 0 ? next : INT64_MAX);
	if (r < 0)
		return r;
	m->text_next = next;
	m->text_next_ns = next_ns;
	return 0;
}

int mirror_text_step(struct mirror *m)
{
	int r = mirror_begin(m);

	if (r == 0 && m->text_next != 0)
		r = add_portion(m);
	return mirror_end(m, r);
}
