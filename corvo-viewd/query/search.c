/*
 * POST /jobs/search: reads the question, scans, answers. Requests come from
 * httpd and hold what clients wrote. The reply is in the arena of the query.
 */
#include "query/search.h"

#include "db/columns.h"
#include "proto/view_ask.h"
#include "util/clock.h"
#include "util/hash.h"

#define SEARCH_DEFAULT_ROWS 50
/* A page ends early at so many bytes; the next one goes on there. */
#define SEARCH_BYTES (8u << 20)
/* The clock is looked at once in so many jobs. */
#define SEARCH_LOOKS 64
/* A job, or the words of a text, can take longer than there is time: they are
 * left when the budget was over for so long. */
#define SEARCH_OVERTIME_NS NS_PER_S

/* Columns of the scan. */
enum { K_CREATED, K_ID, K_ROWID, K_MATCHES, K_KEY };

struct scan {
	struct search *s;
	struct m_search_reply *reply;
	struct db_stmt *keys, *row;
	struct best best; /* of sorts other than creation */
	struct cursor next;
	struct spot last; /* the job looked at last */
	uint64_t looked, found;
	size_t bytes; /* of the page */
	bool counting;
	bool more;    /* matches behind the page */
	bool ended;   /* everything was looked at */
	bool stopped; /* the time was over */
};

/* --- the question --- */

/* A name that is no state matches nothing, as an unknown queue does. */
static void read_states(struct search *s)
{
	const struct m_search *m = s->m;
	unsigned n = 0;

	for (size_t i = 0; i < m->state_n; i++) {
		uint32_t state;

		if (enum_parse(&enum_job_state, m->state[i], &state))
			s->states[state] = true;
	}
	for (size_t i = 1; i < JOB_STATES_SHOWN; i++) {
		s->states[i] = s->states[i] || m->state_n == 0;
		n += s->states[i];
	}
	s->some_states = n < QUERY_STATES;
}

/* An unknown one means created_at. */
static enum search_sort read_sort(struct str name)
{
	static const char *const names[SORTS] = {
		[SORT_CREATED] = "created_at",
		[SORT_PRIORITY] = "priority",
		[SORT_STARTED] = "started_at",
		[SORT_COMPLETED] = "completed_at",
		[SORT_ATTEMPT] = "attempt",
		[SORT_COST] = "cost",
		[SORT_ITERATION] = "iteration",
		[SORT_MODEL] = "model",
	};

	for (unsigned i = 0; i < SORTS; i++)
		if (str_is(name, names[i]))
			return (enum search_sort)i;
	return SORT_CREATED;
}

/*
 * A cursor brings its order along; one that cannot be read, or contradicts
 * the order asked for, means the start.
 */
static void read_start(struct search *s)
{
	const struct m_search *m = s->m;
	struct cursor c;

	s->descending = !str_is(m->order, "asc");
	s->sort = read_sort(m->sort);
	if (MSG_HAS(m, search, cursor) && cursor_parse(m->cursor, &c) &&
	    (m->order.n == 0 || c.descending == s->descending) &&
	    (m->sort.n == 0 || c.sort == s->sort)) {
		s->at = c;
		s->descending = c.descending;
		s->sort = c.sort;
	}
	s->at.sort = s->sort;
	s->at.descending = s->descending;
}

/* Of what decides which jobs match: whether a cursor's count is of these. */
static uint32_t hash_filter(const struct m_search *m)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct m_search copy = *m;

	MSG_UNSET(&copy, search, cursor);
	MSG_UNSET(&copy, search, limit);
	MSG_UNSET(&copy, search, sort);
	MSG_UNSET(&copy, search, order);
	MSG_UNSET(&copy, search, min_seq);
	MSG_UNSET(&copy, search, wait_ns);
	MSG_UNSET(&copy, search, time_budget);
	msg_encode(&msg_search, &copy, &b);
	return (uint32_t)hash_stable(b.p, b.n);
}

static void read_budget(struct search *s, uint64_t now)
{
	uint64_t budget = view_ask_budget_ns(s->m);

	s->end_ns = now + budget;
	s->count_ns = budget / 4;
	/* A sort's later pages look at all that its first one looked at. */
	if (!s->at.has_after)
		query_end_at(s->q, s->ask, s->end_ns + SEARCH_OVERTIME_NS);
}

static int read_ask(struct search *s, uint64_t now)
{
	const struct m_search *m = s->m;
	uint32_t max = m->ids_only ? LIMIT_BULK_PAGE : LIMIT_SEARCH_ROWS;

	s->limit =
	    m->limit >= 1 && m->limit <= max ? m->limit : SEARCH_DEFAULT_ROWS;
	read_states(s);
	read_start(s);
	s->hash = hash_filter(m);
	/* A cursor of another question has counted other jobs. */
	if (spot_is_set(&s->at.from) && s->at.filter != s->hash)
		s->at.seen = CURSOR_NOT_SEEN;
	read_budget(s, now);
	return search_read_filter(s);
}

/* --- statements --- */

static const char *const sort_columns[SORTS] = {
	[SORT_CREATED] = "0",
	[SORT_PRIORITY] = "j.priority",
	[SORT_STARTED] = "j.started_at",
	[SORT_COMPLETED] = "j.completed_at",
	[SORT_ATTEMPT] = "j.attempt",
	[SORT_COST] = "ifnull(j.cost_nano,0)",
	[SORT_ITERATION] = "j.agent_iteration",
	[SORT_MODEL] = "j.model",
};

/* Jobs in the order of creation, each with whether it matches. */
static int prepare_keys(struct search *s, struct db_stmt **ret)
{
	struct sql sql = { .text = BUF_INIT(0) };
	bool row;

	buf_puts(&sql.text, "SELECT k.c, k.i, k.r, ");
	search_put_filter(s, &sql);
	row = s->needs_row || s->sort != SORT_CREATED;
	buf_printf(&sql.text, ", %s FROM (", sort_columns[s->sort]);
	search_put_keys(s, &sql);
	buf_puts(&sql.text, ") k");
	if (row)
		buf_puts(&sql.text, " CROSS JOIN jobs j ON j.rowid=k.r");
	return sql_prepare(s->q, &sql, ret);
}

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

/* --- the page --- */

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

static size_t rows(const struct m_search_reply *r)
{
	return r->jobs_n + r->ids_n;
}

static bool is_full(const struct scan *sc)
{
	return rows(sc->reply) == sc->s->limit || sc->bytes >= SEARCH_BYTES;
}

/* Puts the job on the page. 1 or -ERR_*. */
static int give(struct scan *sc, struct str id, int64_t rowid)
{
	struct m_search_reply *reply = sc->reply;
	struct query *q = sc->s->q;
	struct m_job *job;
	int r;

	if (sc->s->m->ids_only) {
		reply->ids[reply->ids_n++] = arena_copy(&q->arena, id);
		return 1;
	}
	job = &reply->jobs[reply->jobs_n];
	r = read_job(q, sc->row, rowid, job);
	if (r != 1)
		return r < 0 ? r : -ERR_INTERNAL_ERROR;
	sc->bytes += job_bytes(job);
	reply->jobs_n++;
	return 1;
}

/* --- what is met --- */

/* A match in the order of creation. */
static int meet_in_order(struct scan *sc)
{
	struct search *s = sc->s;

	if (is_full(sc)) {
		sc->more = true;
		return 1;
	}
	sc->next.from = sc->last;
	if (rows(sc->reply) + 1 == s->limit)
		s->end_ns = MIN(s->end_ns, clock_mono_ns() + s->count_ns);
	return give(sc, spot_id(&sc->last), db_i64(sc->keys, K_ROWID));
}

static void set_key(const struct scan *sc, struct hit *h)
{
	enum search_sort sort = sc->s->sort;

	if (sort == SORT_STARTED || sort == SORT_COMPLETED)
		h->key = timetext_parse(db_text(sc->keys, K_KEY));
	else if (sort == SORT_MODEL)
		hit_set_text(h, db_text(sc->keys, K_KEY));
	else
		h->key = (uint64_t)db_i64(sc->keys, K_KEY);
}

/* A match of another sort: kept when it is behind the page before. */
static int meet_for_best(struct scan *sc)
{
	const struct cursor *at = &sc->s->at;
	struct hit h = { .none = db_is_null(sc->keys, K_KEY),
			 .spot = sc->last,
			 .rowid = db_i64(sc->keys, K_ROWID) };

	if (!h.none)
		set_key(sc, &h);
	if (!at->has_after || hit_cmp(&h, &at->after, at->descending) > 0)
		best_add(&sc->best, &h);
	return 1;
}

/* Whether the stretch that the cursor names is behind us. */
static bool is_past(const struct scan *sc)
{
	const struct spot *to = &sc->s->at.to;
	int order;

	if (!spot_is_set(to))
		return false;
	if (sc->s->plan.by_rowid)
		order = (db_i64(sc->keys, K_ROWID) > sc->s->plan.to) -
			(db_i64(sc->keys, K_ROWID) < sc->s->plan.to);
	else
		order = spot_cmp(&sc->last, to);
	return sc->s->descending ? order < 0 : order > 0;
}

static bool is_enough(const struct scan *sc)
{
	if (sc->s->sort != SORT_CREATED || !sc->more)
		return false;
	return !sc->counting ||
	       sc->found > LIMIT_TOTAL - MIN(sc->s->at.seen, LIMIT_TOTAL);
}

static bool is_time_over(const struct scan *sc)
{
	const struct search *s = sc->s;

	return sc->looked % SEARCH_LOOKS == 0 && !s->at.has_after &&
	       clock_mono_ns() >= s->end_ns;
}

static int walk(struct scan *sc)
{
	int r;

	while ((r = db_step(sc->keys)) == 1) {
		spot_set(&sc->last, db_text(sc->keys, K_CREATED),
			 db_text(sc->keys, K_ID));
		if (is_past(sc)) {
			sc->last = sc->s->at.to;
			sc->stopped = true;
			break;
		}
		sc->looked++;
		if (db_i64(sc->keys, K_MATCHES) != 0) {
			sc->found++;
			r = sc->s->sort == SORT_CREATED ? meet_in_order(sc)
							: meet_for_best(sc);
			if (r < 0)
				return r;
		}
		if (is_enough(sc))
			break;
		if (is_time_over(sc)) {
			sc->stopped = true;
			break;
		}
	}
	sc->ended = r == 0;
	db_reset(sc->keys);
	if (query_is_at_end(sc->s->q, sc->s->ask, r)) {
		sc->stopped = true;
		r = 0;
	}
	query_end_at(sc->s->q, sc->s->ask, 0);
	return MIN(r, 0);
}

/* --- where to go on --- */

static void add_seen(struct scan *sc, uint64_t n)
{
	if (sc->next.seen < CURSOR_NOT_SEEN - n)
		sc->next.seen += (uint32_t)n;
	else
		sc->next.seen = CURSOR_NOT_SEEN;
}

/* The time was over before anything was looked at: the next page is the same,
 * for who gives it more. */
static void end_unlooked(struct scan *sc)
{
	sc->next = sc->s->at;
	sc->next.filter = sc->s->hash;
	sc->more = true;
	sc->ended = false;
	MSG_SET(sc->reply, search_reply, partial, true);
}

static void end_in_order(struct scan *sc)
{
	struct m_search_reply *reply = sc->reply;

	if (sc->stopped && !is_full(sc)) {
		MSG_SET(reply, search_reply, partial, true);
		sc->next.from = sc->last;
	}
	sc->more = sc->more || sc->stopped;
	add_seen(sc, rows(reply));
}

/*
 * When the time was over, the page is of the stretch looked at so far; the
 * cursor stays there until it is used up, then the next one begins.
 */
static int end_of_best(struct scan *sc)
{
	struct best *b = &sc->best;
	struct cursor *next = &sc->next;
	size_t i;
	int r;

	best_sort(b);
	for (i = 0; i < b->n && !is_full(sc); i++) {
		struct hit *h = &b->hits[i];

		r = give(sc, spot_id(&h->spot), h->rowid);
		if (r < 0)
			return r;
		next->has_after = true;
		next->after = *h;
	}
	if (sc->stopped) {
		MSG_SET(sc->reply, search_reply, partial, true);
		next->to = sc->last;
	}
	sc->more = i < b->n || sc->stopped;
	if (i == b->n && sc->stopped) {
		next->from = sc->last;
		next->to = (struct spot){ 0 };
		next->has_after = false;
		add_seen(sc, sc->found);
	}
	return 0;
}

/* --- the total --- */

/* From the maintained counters: of a queue, of states, of everything. */
static int count_stored(struct search *s, uint64_t *ret)
{
	struct sql sql = { .text = BUF_INIT(0) };
	struct db_stmt *stmt;
	int r;

	buf_puts(&sql.text, "SELECT coalesce(sum(0");
	for (unsigned i = 1; i < JOB_STATES_SHOWN; i++)
		if (s->states[i])
			buf_printf(&sql.text, "+%s",
				   enum_text(&enum_job_state, i));
	buf_puts(&sql.text, "), 0) FROM queue_stats");
	if (s->m->queue.n > 0)
		buf_printf(&sql.text, " WHERE queue=?%d",
			   sql_text(&sql, s->m->queue));
	r = sql_prepare(s->q, &sql, &stmt);
	if (r < 0)
		return r;
	r = db_step(stmt);
	if (r == 1)
		*ret = (uint64_t)db_i64(stmt, 0);
	db_finalize(stmt);
	return MIN(r, 0);
}

static bool has_counters(const struct search *s)
{
	return s->plan.kind == PLAN_RANGES && !s->has_filter &&
	       s->after.n == 0 && s->before.n == 0 &&
	       !MSG_HAS(s->m, search, priority);
}

static void set_counted(const struct scan *sc)
{
	const struct cursor *at = &sc->s->at;
	bool known = at->seen != CURSOR_NOT_SEEN;
	uint64_t before = known ? at->seen : 0;
	uint64_t total = before + sc->found;

	if (!sc->ended && total > LIMIT_TOTAL)
		total = MAX((uint64_t)LIMIT_TOTAL, before + rows(sc->reply));
	MSG_SET(sc->reply, search_reply, total, total);
	if (!sc->ended || !known)
		MSG_SET(sc->reply, search_reply, total_is_lower_bound, true);
}

static int set_total(const struct scan *sc)
{
	uint64_t total = 0;
	int r;

	if (!has_counters(sc->s)) {
		set_counted(sc);
		return 0;
	}
	r = count_stored(sc->s, &total);
	MSG_SET(sc->reply, search_reply, total, total);
	return r;
}

/* --- all of it --- */

static int run_scan(struct scan *sc)
{
	struct search *s = sc->s;
	int r = prepare_keys(s, &sc->keys);

	if (r == 0)
		r = prepare_row(s->q, &sc->row);
	if (r < 0)
		return r;
	sc->counting = !has_counters(s) && !s->m->ids_only;
	sc->next = s->at;
	sc->next.filter = s->hash;
	r = walk(sc);
	if (r < 0)
		return r;
	if (sc->stopped && !spot_is_set(&sc->last))
		end_unlooked(sc);
	else if (s->sort != SORT_CREATED)
		return end_of_best(sc);
	else
		end_in_order(sc);
	return 0;
}

static int scan(struct search *s, struct m_search_reply *reply)
{
	struct scan sc = { .s = s, .reply = reply, .ended = true };
	struct arena *a = &s->q->arena;
	int r = 0;

	if (s->m->ids_only)
		reply->ids = arena_alloc(a, s->limit * sizeof(*reply->ids));
	else
		reply->jobs = arena_alloc(a, s->limit * sizeof(*reply->jobs));
	if (s->sort != SORT_CREATED)
		best_init(&sc.best, s->limit + 1, s->descending);
	if (s->is_unplanned)
		end_unlooked(&sc);
	else if (s->plan.kind != PLAN_NOTHING)
		r = run_scan(&sc);
	db_finalize(sc.keys);
	db_finalize(sc.row);
	best_done(&sc.best);
	if (r < 0)
		return r;
	MSG_SET(reply, search_reply, has_more, sc.more);
	if (sc.more)
		MSG_SET(reply, search_reply, cursor,
			cursor_format(&sc.next, a));
	MSG_SET_LIST(reply, search_reply, jobs, reply->jobs, reply->jobs_n);
	if (s->m->ids_only)
		MSG_SET_LIST(reply, search_reply, ids, reply->ids,
			     reply->ids_n);
	return set_total(&sc);
}

int query_search(struct query *q, const struct query_ask *ask, struct buf *out)
{
	uint64_t start_ns = clock_mono_ns();
	struct search s = { .q = q, .ask = ask, .m = ask->request };
	struct m_search_reply reply = { 0 };
	int r = read_ask(&s, start_ns);

	if (r == 0)
		r = search_make_plan(&s);
	s.is_unplanned = query_is_at_end(q, ask, r);
	if (s.is_unplanned)
		r = 0;
	if (r == 0)
		r = scan(&s, &reply);
	search_done(&s);
	if (r < 0)
		return r;
	MSG_SET(&reply, search_reply, duration_ms,
		(clock_mono_ns() - start_ns) / NS_PER_MS);
	MSG_SET(&reply, search_reply, lag_ns, ask->lag_ns);
	msg_encode(&msg_search_reply, &reply, out);
	return 0;
}
