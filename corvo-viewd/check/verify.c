/*
 * See check/verify.h. What the store says is bound, by the functions that write
 * rows, to a statement that only returns it: so both sides are values of
 * SQLite, and equal when the mirror would have written what is there.
 */
#include "check/verify.h"

#include <stdlib.h>

#include "check/scan.h"
#include "check/verify_impl.h"
#include "db/schema.h"
#include "store/record.h"
#include "util/hmap.h"

#define ALIGN_EVENTS 4096 /* of one transaction */

/* --- the same moment --- */

static int align_once(struct verify *t, struct verify_view *v, struct kv *kv)
{
	struct arena a = { .block_size = 64 * 1024 };
	struct m_tail_reply m;
	int r = record_feed(kv, v->position, ALIGN_EVENTS, &a, &m);

	if (r == 0 && (m.lost || m.last_seq == v->position)) {
		buf_puts(&t->why, "the view is too far behind the store");
		r = -ERR_VIEW_UNAVAILABLE;
	}
	if (r == 0)
		r = mirror_apply(v->mirror, &m);
	if (r == -ERR_NOT_FOUND) { /* the feed is going to meet it, too */
		buf_puts(&t->why,
			 "a job that changed is not in the view, which "
			 "is made anew; try again");
		r = -ERR_VIEW_UNAVAILABLE;
	}
	if (r == 0) {
		v->position = m.last_seq;
		if (m.events_n > 0)
			v->position_ns = m.events[m.events_n - 1].at;
	}
	arena_done(&a);
	return r;
}

/* Its first read makes the transaction a snapshot. */
static int open_snapshot(struct verify *t, const char *path)
{
	uint64_t position = 0;
	int r = db_open(path, DB_READ, &t->db, &t->why);

	if (r < 0)
		return r;
	db_set_stop(t->db, &t->stop);
	r = db_exec(t->db, "BEGIN");
	if (r == 0)
		r = meta_get_u64(t->db, META_POSITION, &position);
	if (r == 0 && position != t->seq) {
		buf_puts(&t->why, "the view's file is not the one written to");
		r = -ERR_VIEW_UNAVAILABLE;
	}
	return r;
}

int verify_align(struct verify *t, struct verify_view *v)
{
	struct record_meta meta = { 0 };
	struct scan s;
	int r = scan_open(&s, t->checkpoint, &t->why);

	/* Entries may have been applied while raftd made it. */
	if (r == 0)
		r = record_meta_read(s.kv, &meta);
	t->seq = meta.last_seq;
	while (r == 0 && v->position < t->seq) {
		r = align_once(t, v, s.kv);
		if (r == 0 && atomic_load(&t->stop))
			r = -ERR_SHUTTING_DOWN;
	}
	scan_close(&s);
	return r < 0 ? r : open_snapshot(t, v->path);
}

/* --- jobs and their errors --- */

static const char *job_column_name(unsigned c)
{
	if (c < JOB_COLUMNS)
		return job_columns[c].name;
	return c == JOB_COLUMNS ? "error_count" : "last_error";
}

static int begin_jobs(struct compare *c)
{
	struct buf b = BUF_INIT(0);
	int r;

	for (unsigned i = 0; i < JOB_COLUMNS + 2; i++)
		buf_printf(&b, "%s%s", i > 0 ? "," : "", job_column_name(i));
	r = merge_begin(&c->jobs, c->t->db, "jobs", buf_str(&b), 1,
			JOB_COLUMNS + 2, job_column_name);
	buf_done(&b);
	return r;
}

/*
 * The lease of an active job is prolonged without an event, and moves with a
 * clock that is set: the view has the end it had at the job's last one.
 */
static bool may_differ(const char *column, struct str view, struct str store)
{
	return strcmp(column, "lease_expires_at") == 0 && view.n > 0 &&
	       store.n > 0;
}

static int compare_errors(struct compare *c, struct scan *s, struct str id,
			  struct m_job_error *last)
{
	int r;

	*last = (struct m_job_error){ 0 };
	while ((r = scan_error(s, id, last)) > 0) {
		row_bind(c->rows.store, ROW_ERROR, last, &c->row_text);
		r = merge_push(c, &c->rows);
		if (r < 0)
			return r;
	}
	return r;
}

static int compare_job(struct compare *c, struct scan *s, const struct m_job *j)
{
	struct db_stmt *to = c->jobs.store;
	struct m_job_error last;
	int r = compare_errors(c, s, j->id, &last);

	if (r < 0)
		return r;
	for (size_t i = 0; i < JOB_COLUMNS; i++)
		column_put(db_param(to, (int)i + 1), i, j, &c->text);
	db_bind_i64(to, JOB_COLUMNS + 1, last.id);
	if (last.id > 0)
		db_bind_text(to, JOB_COLUMNS + 2,
			     last.error.p != NULL ? last.error : STR(""));
	else
		db_bind_null(to, JOB_COLUMNS + 2);
	stats_add(c, j, last.id);
	return merge_push(c, &c->jobs);
}

static int compare_jobs(struct compare *c, struct scan *s)
{
	struct m_job job;
	int r = begin_jobs(c);

	if (r == 0)
		r = merge_begin_rows(&c->rows, c->t->db, ROW_ERROR);
	c->jobs.may_differ = may_differ;
	while (r == 0 && (r = scan_job(s, &job)) > 0) {
		r = compare_job(c, s, &job);
		if (r == 0 && atomic_load(&c->t->stop))
			r = -ERR_SHUTTING_DOWN;
	}
	if (r == 0)
		r = merge_end(c, &c->jobs);
	if (r == 0)
		r = merge_end(c, &c->rows);
	return r;
}

/* --- the other tables --- */

static int compare_kind(struct compare *c, struct scan *s, enum row_kind kind)
{
	union scan_row row;
	int r = merge_begin_rows(&c->rows, c->t->db, kind);

	/* The store forgets workers that are long gone without an event. */
	c->rows.may_be_more = kind == ROW_WORKER;
	scan_begin(s, kind);
	while (r == 0 && (r = scan_row(s, kind, &row)) > 0) {
		row_bind(c->rows.store, kind, &row, &c->row_text);
		r = merge_push(c, &c->rows);
	}
	return r < 0 ? r : merge_end(c, &c->rows);
}

static int compare_all(struct compare *c, struct scan *s)
{
	int r = compare_jobs(c, s);

	for (unsigned k = 0; k < ROW_KINDS && r == 0; k++)
		if (k != ROW_ERROR)
			r = compare_kind(c, s, (enum row_kind)k);
	return r < 0 ? r : stats_compare(c);
}

int verify_compare(struct verify *t)
{
	struct compare *c = xcalloc(1, sizeof(*c));
	struct scan s;
	int r;

	c->t = t;
	r = scan_open(&s, t->checkpoint, &t->why);
	if (r == 0)
		r = compare_all(c, &s);
	scan_close(&s);
	merge_done(&c->jobs);
	merge_done(&c->rows);
	stats_done(c);
	column_text_done(&c->text);
	row_text_done(&c->row_text);
	free(c);
	MSG_SET(&t->reply, verify_reply, seq, t->seq);
	if (r < 0 && atomic_load(&t->stop))
		return -ERR_SHUTTING_DOWN;
	if (r < 0 && t->why.n == 0)
		buf_puts(&t->why, db_error(t->db));
	/* somebody else has changed the tables */
	return r == -ERR_INTERNAL_ERROR && db_is_foreign(t->db)
		   ? -ERR_VIEW_UNAVAILABLE
		   : r;
}

/* FTS5 compares its index with the texts of table jobs. */
int verify_text(struct verify *t, struct db *writer)
{
	int r = db_exec(writer, "INSERT INTO jobs_fts(jobs_fts, rank)"
				" VALUES('integrity-check', 1)");

	if (r == -ERR_VIEW_UNAVAILABLE) {
		verify_note(t, "jobs_fts", STR(""), "",
			    STR("an index that does not fit the texts"),
			    STR("the texts of table jobs"));
		r = 0;
	}
	if (r < 0 && atomic_load(&t->stop))
		return -ERR_SHUTTING_DOWN;
	if (r < 0)
		buf_puts(&t->why, db_error(writer));
	return r;
}

void verify_end(struct verify *t)
{
	db_close(t->db);
	free(t->checkpoint);
	arena_done(&t->arena);
	buf_done(&t->why);
	*t = (struct verify){ 0 };
}
