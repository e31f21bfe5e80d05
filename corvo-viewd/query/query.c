/*
 * Dispatch, and the plain list of queues.
 */
#include "query/query.h"

#include <stdio.h>
#include <stdlib.h>

#include "db/timetext.h"
#include "jq/jq.h"
#include "proto/limits.h"
#include "query/match.h"
#include "query/query_impl.h"

static const struct handler {
	unsigned id;
	bool quick;
	int (*fn)(struct query *q, const struct query_ask *ask,
		  struct buf *out);
} handlers[] = {
	{ QUERY_LIST_QUEUES, true, query_queues },
	{ QUERY_SEARCH_JOBS, false, query_search },
	{ QUERY_VIEWD_METRICS, true, query_metrics },
	{ QUERY_FULLTEXT, false, query_fulltext },
	{ QUERY_TRY_POLICY, false, query_try_policy },
};

static const struct handler *handler_of(unsigned id)
{
	for (size_t i = 0; i < ARRAY_SIZE(handlers); i++)
		if (handlers[i].id == id)
			return &handlers[i];
	return NULL;
}

bool query_is_quick(unsigned id)
{
	const struct handler *h = handler_of(id);

	return h != NULL && h->quick;
}

bool query_uses_text(unsigned id, const void *request)
{
	const struct m_search *search = request;

	return id == QUERY_FULLTEXT ||
	       (id == QUERY_SEARCH_JOBS && search->text.n > 0);
}

static bool match_jq(void *jq, struct str text)
{
	return jq_matches(jq, text);
}

int query_open(const char *path, struct query **ret, struct buf *why)
{
	struct query *q = xcalloc(1, sizeof(*q));
	int r = db_open(path, DB_READ, &q->db, why);

	if (r == 0)
		r = db_schema_version(q->db, &q->schema);
	if (r < 0) {
		db_close(q->db);
		free(q);
		return r;
	}
	db_set_match(q->db, match_jq);
	db_set_stop(q->db, &q->stop);
	*ret = q;
	return 0;
}

void query_close(struct query *q)
{
	if (q == NULL)
		return;
	db_close(q->db);
	arena_done(&q->arena);
	free(q);
}

void query_begin(struct query *q)
{
	atomic_store(&q->stop, false);
}

/* The flag is for statements that have not begun: SQLite forgets those. */
void query_interrupt(struct query *q)
{
	atomic_store(&q->stop, true);
	db_interrupt(q->db);
}

const char *query_why(const struct query *q)
{
	return q->why;
}

static int run_handler(struct query *q, const struct query_ask *ask,
		       struct buf *out)
{
	const struct handler *h = handler_of(ask->id);

	return h == NULL ? -ERR_BAD_MESSAGE : h->fn(q, ask, out);
}

/*
 * Whether somebody else has changed the tables since. The writer may not have
 * met it yet: it has nothing to write perhaps.
 */
static bool is_altered(struct query *q)
{
	int64_t now;

	return db_schema_version(q->db, &now) < 0 || now != q->schema;
}

/* When it has to be done, whatever its own time: 0: no matter when. */
static uint64_t given_ns(const struct query_ask *ask)
{
	return ask->slice_ns != 0 ? ask->slice_ns : ask->deadline_ns;
}

void query_end_at(struct query *q, const struct query_ask *ask, uint64_t end_ns)
{
	uint64_t given = given_ns(ask);

	q->end_ns = end_ns;
	if (end_ns == 0 || (given != 0 && given < end_ns))
		end_ns = given;
	db_set_deadline(q->db, end_ns);
}

bool query_is_at_end(struct query *q, const struct query_ask *ask, int r)
{
	uint64_t given = given_ns(ask);

	return r == -ERR_REQUEST_TIMEOUT && q->end_ns != 0 &&
	       (given == 0 || q->end_ns <= given) && !atomic_load(&q->stop);
}

/* One read transaction: all parts of an answer tell of the same moment. */
int query_run(struct query *q, const struct query_ask *ask, struct buf *out)
{
	int r;

	query_end_at(q, ask, 0);
	r = db_exec(q->db, "BEGIN");
	if (r == 0)
		r = run_handler(q, ask, out);
	if (r < 0 && r != -ERR_VALIDATION_ERROR)
		(void)snprintf(q->why, sizeof(q->why), "%s", db_error(q->db));
	/* After an error SQLite may have ended the transaction by itself. */
	db_set_deadline(q->db, 0);
	if (r == -ERR_INTERNAL_ERROR && is_altered(q))
		r = -ERR_VIEW_UNAVAILABLE;
	(void)db_exec(q->db, "ROLLBACK");
	arena_reset(&q->arena);
	return r;
}

int query_refuse(struct query *q, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(q->why, sizeof(q->why), fmt, ap);
	va_end(ap);
	return -ERR_VALIDATION_ERROR;
}

struct str query_lower(struct arena *a, struct str s)
{
	char *p = arena_alloc(a, s.n);

	for (size_t i = 0; i < s.n; i++)
		p[i] = s.p[i] >= 'A' && s.p[i] <= 'Z' ? (char)(s.p[i] | 0x20)
						      : s.p[i];
	return str_of(p, s.n);
}

/* --- queues --- */

/*
 * The oldest pending job of each priority is the first of a range of the
 * index; asking for all three at once would scan the whole state.
 */
#define OLDEST(priority)                                                    \
	"(SELECT created_at FROM jobs WHERE queue=name AND state='pending'" \
	" AND priority=" #priority " ORDER BY created_at LIMIT 1)"

#define QUEUES_SELECT                                                   \
	"SELECT name, paused, created_at, max_concurrency, rate_limit," \
	" rate_window_ms, failed, blocked, " QUERY_STATE_COLUMNS        \
	", " OLDEST(0) ", " OLDEST(1) ", " OLDEST(                      \
	    2) " FROM queues LEFT JOIN queue_stats ON queue=name"

static const char queues_sql[] =
    QUEUES_SELECT " WHERE name>?1 ORDER BY name LIMIT ?2";
static const char one_queue_sql[] = QUEUES_SELECT " WHERE name=?1";

enum {
	Q_NAME,
	Q_PAUSED,
	Q_CREATED,
	Q_CONCURRENCY,
	Q_RATE,
	Q_WINDOW,
	Q_FAILED,
	Q_BLOCKED,
	Q_STATES,
	Q_OLDEST = 16
};
_Static_assert(Q_STATES + QUERY_STATES == Q_OLDEST, "columns of QUEUES_SELECT");

static uint64_t time_column(struct db_stmt *s, int i)
{
	return db_is_null(s, i) ? 0 : timetext_parse(db_text(s, i));
}

static uint64_t oldest_pending(struct db_stmt *s)
{
	uint64_t oldest = 0;

	for (int i = Q_OLDEST; i < Q_OLDEST + 3; i++) {
		uint64_t ns = time_column(s, i);

		if (ns != 0 && (oldest == 0 || ns < oldest))
			oldest = ns;
	}
	return oldest;
}

static uint64_t state_count(struct db_stmt *s, enum job_state state)
{
	return (uint64_t)db_i64(s, Q_STATES + (int)state - 1);
}

static void read_limits(struct db_stmt *s, struct m_queue *ret)
{
	if (!db_is_null(s, Q_CONCURRENCY))
		MSG_SET(ret, queue, max_concurrency,
			(uint32_t)db_i64(s, Q_CONCURRENCY));
	if (!db_is_null(s, Q_RATE))
		MSG_SET(ret, queue, rate_limit, (uint64_t)db_i64(s, Q_RATE));
	if (!db_is_null(s, Q_WINDOW))
		MSG_SET(ret, queue, rate_window_ms,
			(uint64_t)db_i64(s, Q_WINDOW));
}

static void read_queue(struct db_stmt *s, struct arena *a, struct m_queue *ret)
{
	uint64_t oldest, enqueued = 0;

	*ret = (struct m_queue){ 0 };
	for (int i = 0; i < QUERY_STATES; i++)
		enqueued += (uint64_t)db_i64(s, Q_STATES + i);
	MSG_SET(ret, queue, name, arena_copy(a, db_text(s, Q_NAME)));
	MSG_SET(ret, queue, paused, db_i64(s, Q_PAUSED) != 0);
	MSG_SET(ret, queue, created_at, time_column(s, Q_CREATED));
	MSG_SET(ret, queue, pending, state_count(s, JOB_PENDING));
	MSG_SET(ret, queue, active, state_count(s, JOB_ACTIVE));
	MSG_SET(ret, queue, held, state_count(s, JOB_HELD));
	MSG_SET(ret, queue, completed, state_count(s, JOB_COMPLETED));
	MSG_SET(ret, queue, dead, state_count(s, JOB_DEAD));
	MSG_SET(ret, queue, scheduled, state_count(s, JOB_SCHEDULED));
	MSG_SET(ret, queue, retrying, state_count(s, JOB_RETRYING));
	MSG_SET(ret, queue, cancelled, state_count(s, JOB_CANCELLED));
	MSG_SET(ret, queue, enqueued, enqueued);
	MSG_SET(ret, queue, failed, (uint64_t)db_i64(s, Q_FAILED));
	MSG_SET(ret, queue, blocked, (uint64_t)db_i64(s, Q_BLOCKED));
	read_limits(s, ret);
	oldest = oldest_pending(s);
	if (oldest != 0)
		MSG_SET(ret, queue, oldest_pending_at, oldest);
}

/* Most of the page, and one more tells that there are others. */
static int read_page(struct query *q, struct db_stmt *s, size_t max,
		     struct m_queue_list *ret)
{
	size_t cap = 0;
	int r;

	while ((r = db_step(s)) == 1) {
		if (ret->queues_n == max) {
			MSG_SET(ret, queue_list, more, true);
			return 0;
		}
		ret->queues =
		    arena_grow(&q->arena, ret->queues, sizeof(*ret->queues),
			       ret->queues_n, &cap);
		read_queue(s, &q->arena, &ret->queues[ret->queues_n++]);
	}
	return r;
}

int query_queues(struct query *q, const struct query_ask *ask, struct buf *out)
{
	const struct m_view_query *m = ask->request;
	bool one = m->queue.n > 0;
	size_t max = LIMIT_QUEUE_PAGE;
	struct m_queue_list list = { 0 };
	struct db_stmt *s;
	int r = db_prepare(q->db, one ? one_queue_sql : queues_sql, &s);

	if (r < 0)
		return r;
	if (m->limit > 0)
		max = MIN((size_t)m->limit, max);
	db_bind_text(s, 1,
		     one              ? m->queue
		     : m->after.n > 0 ? m->after
				      : STR(""));
	if (!one)
		db_bind_i64(s, 2, (int64_t)max + 1);
	r = read_page(q, s, max, &list);
	db_finalize(s);
	if (r < 0)
		return r;
	MSG_SET_LIST(&list, queue_list, queues, list.queues, list.queues_n);
	MSG_SET(&list, queue_list, lag_ns, ask->lag_ns);
	msg_encode(&msg_queue_list, &list, out);
	return 0;
}

static size_t count_words(void *ctx, struct str text)
{
	struct query *q = ctx;

	return db_count_words(q->db, text);
}

int query_match(struct query *q, const char *member, struct str words,
		struct buf *out)
{
	enum match m = match_build(words, count_words, q, out);

	if (m == MATCH_MANY_PREFIXES)
		return query_refuse(q, "%s: at most %d words may end with *",
				    member, LIMIT_SEARCH_PREFIXES);
	if (m == MATCH_LONG_PHRASES)
		return query_refuse(q,
				    "%s: at most %d words may stand next "
				    "to others, in quotes or parted by what is "
				    "no letter or digit",
				    member, LIMIT_SEARCH_PHRASES);
	return m == MATCH_BUILT;
}
