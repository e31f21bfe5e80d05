/*
 * See view_rows.h.
 */
#include "view_rows.h"

#include "lib/testlib.h"

/* All rows of a query as text, one line each. */
void dump(struct db *db, const char *sql, int columns, struct buf *ret)
{
	struct db_stmt *s;

	assert_int_equal(db_prepare(db, sql, &s), 0);
	while (db_step(s) == 1) {
		for (int i = 0; i < columns; i++)
			buf_printf(ret, "%s%.*s", i > 0 ? "|" : "",
				   STR_ARG(db_text(s, i)));
		buf_putc(ret, '\n');
	}
	db_finalize(s);
}

void assert_rows(struct db *db, const char *sql, int columns,
		 const char *expected)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	dump(db, sql, columns, &b);
	buf_putc(&b, '\0');
	assert_string_equal(b.p, expected);
}

int64_t number(struct db *db, const char *sql)
{
	struct db_stmt *s;
	int64_t n;

	assert_int_equal(db_prepare(db, sql, &s), 0);
	assert_int_equal(db_step(s), 1);
	n = db_i64(s, 0);
	db_finalize(s);
	return n;
}

static void assert_counters(struct db *db)
{
	_cleanup_(buf_done) struct buf kept = BUF_INIT(0);
	_cleanup_(buf_done) struct buf counted = BUF_INIT(0);

	dump(db,
	     "SELECT queue, pending, active, held, completed, retrying, dead,"
	     " cancelled, scheduled, failed, blocked FROM queue_stats"
	     " WHERE pending+active+held+completed+retrying+dead+cancelled"
	     "+scheduled > 0 ORDER BY queue",
	     11, &kept);
	dump(db,
	     "SELECT queue, sum(state='pending'), sum(state='active'),"
	     " sum(state='held'), sum(state='completed'),"
	     " sum(state='retrying'), sum(state='dead'),"
	     " sum(state='cancelled'), sum(state='scheduled'),"
	     " sum(error_count), sum(blocked) FROM jobs GROUP BY queue"
	     " ORDER BY queue",
	     11, &counted);
	buf_putc(&kept, '\0');
	buf_putc(&counted, '\0');
	assert_string_equal(kept.p, counted.p);
}

/* FTS5 compares its index with the rows; 1 asks for the latter. */
static void assert_full_text(struct db *db)
{
	if (db_exec(db, "INSERT INTO jobs_fts(jobs_fts, rank)"
			" VALUES('integrity-check', 1)") < 0)
		fail_msg("jobs_fts is not what jobs is: %s", db_error(db));
}

void assert_consistent(struct db *db)
{
	assert_counters(db);
	assert_full_text(db);
}

void make_job(struct m_job *j, const char *id, enum job_state state)
{
	*j = (struct m_job){ 0 };
	MSG_SET(j, job, id, str_from(id));
	MSG_SET(j, job, queue, STR("q"));
	MSG_SET(j, job, state, state);
	MSG_SET(j, job, payload, STR("1"));
	MSG_SET(j, job, checkpoint, STR("\"kept\""));
	MSG_SET(j, job, created_at, NS_PER_S);
	MSG_SET(j, job, worker_id, STR("w"));
}
