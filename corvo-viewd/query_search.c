/*
 * A page of jobs by creation. A filter is a set of ranges of one index, each
 * in the order of the list; SQLite merges them, so a page costs its rows and
 * a few seeks, however many jobs there are. The total comes from the
 * maintained counters.
 */
#include "columns.h"
#include "proto/job.h"
#include "query_impl.h"
#include "util/clock.h"

#define SEARCH_DEFAULT_ROWS 50
/* A page ends early at so many bytes; the next one goes on there. */
#define SEARCH_BYTES (8u << 20)

/* Later and earlier than any time text of the column. */
#define AFTER_ALL  "~"
#define BEFORE_ALL ""

struct page {
	const struct m_search *ask;
	bool states[JOB_STATES_SHOWN]; /* asked for; all when none is named */
	bool some_states;              /* fewer than all */
	uint32_t limit;
	bool descending;
	struct cursor from;
};

/* --- what is asked for --- */

/* A name that is no state matches nothing, as an unknown queue does. */
static void read_states(const struct m_search *m, struct page *p)
{
	unsigned n = 0;

	for (size_t i = 0; i < m->state_n; i++) {
		uint32_t state;

		if (enum_parse(&enum_job_state, m->state[i], &state))
			p->states[state] = true;
	}
	for (size_t i = 1; i < JOB_STATES_SHOWN; i++) {
		p->states[i] = p->states[i] || m->state_n == 0;
		n += p->states[i];
	}
	p->some_states = n < QUERY_STATES;
}

/*
 * A cursor brings its order along; one that cannot be read, or contradicts
 * the order asked for, means the start.
 */
static void read_start(const struct m_search *m, struct arena *a,
		       struct page *p)
{
	bool ordered = m->order.n > 0;

	p->descending = !str_is(m->order, "asc");
	if (MSG_HAS(m, search, cursor) &&
	    cursor_parse(m->cursor, a, &p->from) &&
	    (!ordered || p->from.descending == p->descending)) {
		p->descending = p->from.descending;
		return;
	}
	p->from.created_at = p->descending ? STR(AFTER_ALL) : STR(BEFORE_ALL);
	p->from.id = STR("");
}

static void read_ask(const struct m_search *m, struct arena *a, struct page *p)
{
	*p = (struct page){ .ask = m };
	p->limit =
	    m->limit >= 1 && m->limit <= (m->ids_only ? LIMIT_BULK_PAGE
						      : LIMIT_SEARCH_ROWS)
		? m->limit
		: SEARCH_DEFAULT_ROWS;
	read_states(m, p);
	read_start(m, a, p);
}

/* --- which rows --- */

static void put_range(struct buf *b, const struct page *p, const char *state,
		      int priority)
{
	buf_puts(b, b->n > 0 ? " UNION ALL " : "");
	buf_puts(b, "SELECT created_at, id, rowid FROM jobs WHERE ");
	if (priority >= 0)
		buf_printf(b, "queue=?1 AND priority=%d AND ", priority);
	if (state != NULL)
		buf_printf(b, "state='%s' AND ", state);
	buf_printf(b, "(created_at, id) %s (?2, ?3)",
		   p->descending ? "<" : ">");
}

static void put_ranges(struct buf *b, const struct page *p)
{
	bool by_queue = p->ask->queue.n > 0;

	if (!by_queue && !p->some_states) {
		put_range(b, p, NULL, -1);
		return;
	}
	for (unsigned i = 1; i < JOB_STATES_SHOWN; i++) {
		const char *state = enum_text(&enum_job_state, i);

		if (!p->states[i])
			continue;
		if (!by_queue)
			put_range(b, p, state, -1);
		for (int prio = PRIORITY_CRITICAL;
		     by_queue && prio <= PRIORITY_NORMAL; prio++)
			put_range(b, p, state, prio);
	}
}

/* 0 with *ret NULL when no row can match. */
static int prepare_keys(struct query *q, const struct page *p,
			struct db_stmt **ret)
{
	struct buf b = BUF_INIT(0);
	const char *order = p->descending ? "DESC" : "ASC";
	int r = 0;

	*ret = NULL;
	put_ranges(&b, p);
	if (b.n > 0) {
		buf_printf(&b, " ORDER BY 1 %s, 2 %s LIMIT ?4", order, order);
		buf_putc(&b, '\0');
		r = db_prepare(q->db, b.p, ret);
	}
	buf_done(&b);
	if (*ret == NULL)
		return r;
	if (p->ask->queue.n > 0)
		db_bind_text(*ret, 1, p->ask->queue);
	db_bind_text(*ret, 2, p->from.created_at);
	db_bind_text(*ret, 3, p->from.id);
	db_bind_i64(*ret, 4, (int64_t)p->limit + 1); /* one: is there more? */
	return 0;
}

/* --- the rows --- */

static int prepare_row(struct query *q, struct db_stmt **ret)
{
	struct buf b = BUF_INIT(0);
	int r;

	buf_puts(&b, "SELECT last_error");
	for (size_t c = 0; c < JOB_COLUMNS; c++)
		buf_printf(&b, ", %s", job_columns[c].name);
	buf_puts(&b, " FROM jobs WHERE rowid=?1");
	buf_putc(&b, '\0');
	r = db_prepare(q->db, b.p, ret);
	buf_done(&b);
	return r;
}

static size_t job_bytes(const struct m_job *j)
{
	return sizeof(*j) + j->payload.n + j->tags.n + j->progress.n +
	       j->checkpoint.n + j->result.n + j->last_error.n;
}

/* 1: read; 0: no such row (cannot be, in one transaction); -ERR_*. */
static int read_job(struct query *q, struct db_stmt *row, int64_t rowid,
		    struct m_job *ret)
{
	int r;

	*ret = (struct m_job){ 0 };
	db_bind_i64(row, 1, rowid);
	r = db_step(row);
	if (r != 1)
		return r;
	for (size_t c = 0; c < JOB_COLUMNS; c++)
		column_read(row, (int)c + 1, c, &q->arena, ret);
	if (!db_is_null(row, 0))
		MSG_SET(ret, job, last_error,
			arena_copy(&q->arena, db_text(row, 0)));
	db_reset(row);
	return 1;
}

/* Adds what the key stands for: the job, or only its id. */
static int read_one(struct query *q, const struct page *p, struct db_stmt *keys,
		    struct db_stmt *row, struct m_search_reply *ret,
		    size_t *bytes)
{
	struct m_job *job;
	int r;

	if (p->ask->ids_only) {
		ret->ids[ret->ids_n++] =
		    arena_copy(&q->arena, db_text(keys, 1));
		return 1;
	}
	job = &ret->jobs[ret->jobs_n];
	r = read_job(q, row, db_i64(keys, 2), job);
	if (r != 1)
		return r;
	*bytes += job_bytes(job);
	ret->jobs_n++;
	return 1;
}

static int read_page(struct query *q, const struct page *p,
		     struct db_stmt *keys, struct db_stmt *row,
		     struct m_search_reply *ret)
{
	struct cursor last = { .descending = p->descending };
	size_t bytes = 0;
	int r;

	if (p->ask->ids_only)
		ret->ids = arena_alloc(&q->arena, p->limit * sizeof(*ret->ids));
	else
		ret->jobs =
		    arena_alloc(&q->arena, p->limit * sizeof(*ret->jobs));
	while ((r = db_step(keys)) == 1) {
		if (ret->jobs_n + ret->ids_n == p->limit ||
		    bytes >= SEARCH_BYTES) {
			db_reset(keys);
			MSG_SET(ret, search_reply, has_more, true);
			MSG_SET(ret, search_reply, cursor,
				cursor_format(&last, &q->arena));
			return 0;
		}
		r = read_one(q, p, keys, row, ret, &bytes);
		if (r != 1)
			break;
		last.created_at = arena_copy(&q->arena, db_text(keys, 0));
		last.id = arena_copy(&q->arena, db_text(keys, 1));
	}
	return r;
}

/* --- the total --- */

static int count_matches(struct query *q, const struct page *p, uint64_t *ret)
{
	bool by_queue = p->ask->queue.n > 0;
	struct buf b = BUF_INIT(0);
	struct db_stmt *s;
	int r;

	buf_puts(&b, "SELECT coalesce(sum(0");
	for (unsigned i = 1; i < JOB_STATES_SHOWN; i++)
		if (p->states[i])
			buf_printf(&b, "+%s", enum_text(&enum_job_state, i));
	buf_printf(&b, "), 0) FROM queue_stats%s",
		   by_queue ? " WHERE queue=?1" : "");
	buf_putc(&b, '\0');
	r = db_prepare(q->db, b.p, &s);
	buf_done(&b);
	if (r < 0)
		return r;
	if (by_queue)
		db_bind_text(s, 1, p->ask->queue);
	r = db_step(s);
	if (r == 1)
		*ret = (uint64_t)db_i64(s, 0);
	db_finalize(s);
	return MIN(r, 0);
}

static int search(struct query *q, const struct page *p,
		  struct m_search_reply *ret)
{
	struct db_stmt *keys, *row = NULL;
	int r = prepare_keys(q, p, &keys);

	if (r == 0 && keys != NULL)
		r = prepare_row(q, &row);
	if (r == 0 && row != NULL)
		r = read_page(q, p, keys, row, ret);
	db_finalize(row);
	db_finalize(keys);
	if (r < 0)
		return r;
	MSG_SET_LIST(ret, search_reply, jobs, ret->jobs, ret->jobs_n);
	if (p->ask->ids_only)
		MSG_SET_LIST(ret, search_reply, ids, ret->ids, ret->ids_n);
	ret->has |= MSG_BIT(search_reply, has_more);
	return count_matches(q, p, &ret->total);
}

int query_search(struct query *q, const struct query_ask *ask, struct buf *out)
{
	uint64_t start_ns = clock_mono_ns();
	struct m_search_reply reply = { 0 };
	struct page p;
	int r;

	read_ask(ask->request, &q->arena, &p);
	r = search(q, &p, &reply);
	if (r < 0)
		return r;
	reply.has |= MSG_BIT(search_reply, total);
	MSG_SET(&reply, search_reply, duration_ms,
		(clock_mono_ns() - start_ns) / NS_PER_MS);
	MSG_SET(&reply, search_reply, lag_ns, ask->lag_ns);
	msg_encode(&msg_search_reply, &reply, out);
	return 0;
}
