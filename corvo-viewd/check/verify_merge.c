/*
 * Two sorted lists of rows side by side, and the counters of queues against
 * counted jobs. See check/verify_impl.h.
 */
#include <stdio.h>

#include "check/verify_impl.h"
#include "db/schema.h"
#include "proto/job.h"

#define SHOWN_DIFFERENCES 100
#define SHOWN_BYTES       200 /* of a value or key */
#define DIGITS            24  /* room for any number */

/* --- differences --- */

static bool is_shown(const struct verify *t)
{
	return t->reply.first_n < SHOWN_DIFFERENCES;
}

/* Of differences that are only counted nothing is kept. */
static struct str shown(struct verify *t, struct str s)
{
	if (!is_shown(t))
		return STR("");
	if (s.n > SHOWN_BYTES) {
		s.n = SHOWN_BYTES;
		while (s.n > 0 && (s.p[s.n] & 0xc0) == 0x80)
			s.n--; /* not within a character */
	}
	return str_is_utf8(s) ? arena_copy(&t->arena, s) : STR("(not UTF-8)");
}

void verify_note(struct verify *t, const char *table, struct str key,
		 const char *column, struct str view, struct str store)
{
	struct m_verify_reply *r = &t->reply;
	struct m_verify_difference *d;

	MSG_SET(r, verify_reply, differences, r->differences + 1);
	if (r->first == NULL)
		MSG_SET_LIST(
		    r, verify_reply, first,
		    arena_alloc(&t->arena, SHOWN_DIFFERENCES * sizeof(*d)), 0);
	if (!is_shown(t))
		return;
	d = &r->first[r->first_n++];
	*d = (struct m_verify_difference){ 0 };
	MSG_SET(d, verify_difference, table, str_from(table));
	MSG_SET(d, verify_difference, key, shown(t, key));
	MSG_SET(d, verify_difference, column, str_from(column));
	if (view.p != NULL)
		MSG_SET(d, verify_difference, view, shown(t, view));
	if (store.p != NULL)
		MSG_SET(d, verify_difference, store, shown(t, store));
}

/* The columns of the key, with a space between them. */
static struct str key_text(struct verify *t, const struct merge *m,
			   struct db_stmt *s)
{
	struct buf b = BUF_INIT(0);
	struct str ret;

	for (unsigned c = 0; c < m->keys && is_shown(t); c++) {
		if (c > 0)
			buf_putc(&b, ' ');
		buf_put_str(&b, db_text(s, (int)c));
	}
	ret = shown(t, b.n > 0 ? buf_str(&b) : STR(""));
	buf_done(&b);
	return ret;
}

static void note_row(struct verify *t, const struct merge *m, struct db_stmt *s,
		     bool in_view)
{
	verify_note(t, m->table, key_text(t, m, s), "",
		    in_view ? STR("present") : STR("missing"),
		    in_view ? STR("missing") : STR("present"));
}

/* --- merging --- */

static const char *column_name(const struct merge *m, unsigned c)
{
	return m->rows != NULL ? m->rows->columns[c].name : m->column(c);
}

static int prepare_store(struct merge *m, struct db *db)
{
	struct buf b = BUF_INIT(0);
	int r;

	buf_puts(&b, "SELECT ");
	for (unsigned c = 1; c <= m->n; c++)
		buf_printf(&b, "%s?%u", c > 1 ? "," : "", c);
	buf_putc(&b, '\0');
	r = db_prepare(db, b.p, &m->store);
	buf_done(&b);
	return r;
}

static void put_order(struct buf *b, const struct merge *m)
{
	for (unsigned c = 1; c <= m->keys; c++)
		buf_printf(b, "%s%u", c > 1 ? "," : " ORDER BY ", c);
}

int merge_begin(struct merge *m, struct db *db, const char *table,
		struct str columns, unsigned keys, unsigned n,
		const char *(*column)(unsigned c))
{
	struct buf b = BUF_INIT(0);
	int r;

	merge_done(m);
	*m = (struct merge){
		.table = table, .keys = keys, .n = n, .column = column
	};
	buf_printf(&b, "SELECT %.*s FROM %s", STR_ARG(columns), table);
	put_order(&b, m);
	buf_putc(&b, '\0');
	r = db_prepare(db, b.p, &m->view);
	buf_done(&b);
	return r < 0 ? r : prepare_store(m, db);
}

int merge_begin_rows(struct merge *m, struct db *db, enum row_kind kind)
{
	const struct row_table *t = &row_tables[kind];
	struct buf b = BUF_INIT(0);
	int r;

	row_put_columns(&b, t, t->n);
	r = merge_begin(m, db, t->name, buf_str(&b), t->keys, t->n, NULL);
	m->rows = t;
	buf_done(&b);
	return r;
}

void merge_done(struct merge *m)
{
	db_finalize(m->view);
	db_finalize(m->store);
	*m = (struct merge){ 0 };
}

/* 1: view stands on a row; 0: it has no more. */
static int view_row(struct compare *c, struct merge *m)
{
	int r;

	if (m->has_row || m->at_end)
		return m->has_row;
	r = db_step(m->view);
	m->has_row = r == 1;
	m->at_end = r == 0;
	if (r == 1)
		MSG_SET(&c->t->reply, verify_reply, rows, c->t->reply.rows + 1);
	return r;
}

static int compare_keys(const struct merge *m)
{
	int r = 0;

	for (unsigned c = 0; c < m->keys && r == 0; c++)
		r = db_compare(m->view, m->store, (int)c);
	return r;
}

static void compare_columns(struct verify *t, const struct merge *m)
{
	for (unsigned c = m->keys; c < m->n; c++) {
		const char *name = column_name(m, c);
		struct str view, store;

		if (db_compare(m->view, m->store, (int)c) == 0)
			continue;
		view = db_text(m->view, (int)c);
		store = db_text(m->store, (int)c);
		if (m->may_differ == NULL || !m->may_differ(name, view, store))
			verify_note(t, m->table, key_text(t, m, m->view), name,
				    view, store);
	}
}

int merge_push(struct compare *c, struct merge *m)
{
	int order = 1;
	int r = db_step(m->store);

	if (r < 0)
		return r;
	CHECK(r == 1);
	while ((r = view_row(c, m)) > 0) {
		order = compare_keys(m);
		if (order >= 0)
			break;
		if (!m->may_be_more)
			note_row(c->t, m, m->view, true);
		m->has_row = false;
	}
	if (r > 0 && order == 0) {
		compare_columns(c->t, m);
		m->has_row = false;
	} else if (r >= 0) {
		note_row(c->t, m, m->store, false);
	}
	db_reset(m->store);
	return MIN(r, 0);
}

int merge_end(struct compare *c, struct merge *m)
{
	int r;

	while ((r = view_row(c, m)) > 0) {
		if (!m->may_be_more)
			note_row(c->t, m, m->view, true);
		m->has_row = false;
	}
	return r;
}

/* --- counters --- */

enum { STAT_FAILED = JOB_STATES_SHOWN, STAT_BLOCKED, STATS };

struct stats {
	int64_t n[STATS]; /* [state], and the two above; [0]: unknown */
	bool seen;
};

static const char *const stat_columns[STATS] = {
	[JOB_PENDING] = "pending",     [JOB_ACTIVE] = "active",
	[JOB_HELD] = "held",           [JOB_COMPLETED] = "completed",
	[JOB_RETRYING] = "retrying",   [JOB_DEAD] = "dead",
	[JOB_CANCELLED] = "cancelled", [JOB_SCHEDULED] = "scheduled",
	[STAT_FAILED] = "failed",      [STAT_BLOCKED] = "blocked",
};

static const char stats_sql[] =
    "SELECT queue, pending, active, held, completed, retrying, dead,"
    " cancelled, scheduled, failed, blocked FROM queue_stats ORDER BY queue";

static struct stats *stats_of(struct compare *c, struct str queue)
{
	struct stats *s = hmap_get(&c->stats, queue);

	if (s == NULL) {
		s = arena_zalloc(&c->stats_arena, sizeof(*s));
		hmap_put(&c->stats, queue, s);
	}
	return s;
}

void stats_add(struct compare *c, const struct m_job *j, uint32_t errors)
{
	struct stats *s = stats_of(c, j->queue);

	s->n[j->state < JOB_STATES_SHOWN ? j->state : 0]++;
	s->n[STAT_FAILED] += errors;
	s->n[STAT_BLOCKED] += j->blocked;
}

static void compare_stat(struct verify *t, struct str queue, unsigned i,
			 int64_t view, int64_t store)
{
	char a[DIGITS], b[DIGITS];

	(void)snprintf(a, sizeof(a), "%lld", (long long)view);
	(void)snprintf(b, sizeof(b), "%lld", (long long)store);
	verify_note(t, "queue_stats", queue, stat_columns[i], str_from(a),
		    str_from(b));
}

/* A queue without jobs has a row of zeros, or none. */
static void note_unseen(struct compare *c)
{
	struct str queue;
	size_t pos = 0;
	void *v;

	while (hmap_next(&c->stats, &pos, &queue, &v))
		if (!((struct stats *)v)->seen)
			verify_note(c->t, "queue_stats", queue, "",
				    STR("missing"), STR("present"));
}

int stats_compare(struct compare *c)
{
	struct db_stmt *s;
	int r = db_prepare(c->t->db, stats_sql, &s);

	if (r < 0)
		return r;
	while ((r = db_step(s)) == 1) {
		struct stats none = { 0 }; /* of a queue without jobs */
		struct str queue = db_text(s, 0);
		struct stats *want = hmap_get(&c->stats, queue);

		if (want == NULL)
			want = &none;
		want->seen = true;
		MSG_SET(&c->t->reply, verify_reply, rows, c->t->reply.rows + 1);
		for (unsigned i = 1; i < STATS; i++)
			if (db_i64(s, (int)i) != want->n[i])
				compare_stat(c->t, queue, i, db_i64(s, (int)i),
					     want->n[i]);
	}
	db_finalize(s);
	if (r == 0)
		note_unseen(c);
	return r;
}

void stats_done(struct compare *c)
{
	hmap_done(&c->stats);
	arena_done(&c->stats_arena);
}
