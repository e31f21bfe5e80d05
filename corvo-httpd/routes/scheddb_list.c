/*
 * Scheduled-DB: jobs of one status. Unicos are found by the view, a page at a
 * time, and read from raftd; then come recurrentes, which are schedules. One
 * answer has a bounded number of jobs and of bytes; a cursor says where to go
 * on: "j" and that of the view, or "s" and the schedule before.
 *
 * Jobs are read as they are stored, with payloads of any size, and only what is
 * shown of them is kept. A page whose jobs do not fit into one reply is asked
 * for again with fewer.
 */
#include "proto/scheddb.h"
#include "req/ask_view.h"
#include "routes/handlers.h"
#include "routes/scheddb.h"

#define PAGE    500  /* jobs asked for at a time, at most */
#define ALL_MAX 5000 /* jobs in one answer, and a page at most */

struct listing {
	enum sdb_status status;
	struct m_search search;
	struct str states[5];
	struct m_sdb_state *jobs;
	size_t n, cap;
	size_t bytes; /* kept so far */
	bool at_schedules;
	struct str cursor; /* of the page to come; empty: the first */
	/* The page that is being read, and where the next one begins. */
	uint32_t limit;
	size_t asked; /* jobs of it */
	bool last;    /* there is no next one of its kind */
	struct str next;
	bool moved; /* a page is done: who goes on from here gets further */
	const struct m_schedule *page; /* its recurrentes */
	size_t page_n;
};

static void go_on(struct req *r);

/* A copy of the message that lasts as long as the request. */
static void keep(struct req *r, struct listing *l, const struct msg_desc *d,
		 const void *m, void *ret)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	msg_encode(d, m, &b);
	REQUIRE(msg_decode(d, arena_copy(&r->arena, buf_str(&b)), &r->arena,
			   ret) == 0);
	l->bytes += b.n + d->size;
}

static void add(struct req *r, struct listing *l, const struct m_sdb_state *m)
{
	if (m->status != l->status)
		return;
	l->jobs =
	    arena_grow(&r->arena, l->jobs, sizeof(*l->jobs), l->n, &l->cap);
	keep(r, l, &msg_sdb_state, m, &l->jobs[l->n++]);
}

static void page_done(struct listing *l)
{
	l->limit = MIN(l->limit * 2, (uint32_t)PAGE);
	l->cursor = l->next;
	l->moved = true;
}

/* All jobs of the page are there. Else it is asked for again, with as many as
 * there were. */
static bool is_whole(struct listing *l, const struct m_job_list *m)
{
	if (m->omitted_n > 0) {
		REQUIRE(m->omitted_n < l->asked);
		l->limit = (uint32_t)(l->asked - m->omitted_n);
		return false;
	}
	page_done(l);
	return true;
}

/* --- unicos --- */

static const enum job_state states_of[SDB_STATUSES][5] = {
	[SDB_PENDING] = { JOB_PENDING, JOB_SCHEDULED, JOB_HELD, JOB_STATE_MAX },
	[SDB_IN_PROGRESS] = { JOB_ACTIVE, JOB_STATE_MAX },
	[SDB_COMPLETED] = { JOB_COMPLETED, JOB_STATE_MAX },
	[SDB_CANCELLED] = { JOB_CANCELLED, JOB_STATE_MAX },
	/* also those that wait for another attempt */
	[SDB_FAILED] = { JOB_DEAD, JOB_RETRYING, JOB_PENDING, JOB_HELD,
			 JOB_STATE_MAX },
	[SDB_TIMEOUT] = { JOB_DEAD, JOB_RETRYING, JOB_PENDING, JOB_HELD,
			  JOB_STATE_MAX },
};

static void show_jobs(struct req *r, struct listing *l,
		      const struct m_job_list *m, struct arena *a)
{
	struct m_sdb_state s;

	for (size_t i = 0; i < m->jobs_n; i++) {
		if (!sdb_is_once(&m->jobs[i]))
			continue;
		sdb_show_state(&m->jobs[i], a, &s);
		add(r, l, &s);
	}
}

static void on_jobs(struct req *r, const struct rpc_reply *reply)
{
	struct listing *l = r->state;
	struct arena a = ARENA_INIT;
	struct m_job_list m;

	if (sdb_reply_briefly(r, &msg_job_list, reply, &a, &m)) {
		if (is_whole(l, &m)) {
			l->at_schedules = l->last;
			show_jobs(r, l, &m, &a);
		}
		go_on(r);
	}
	arena_done(&a);
}

static void on_found(struct req *r, const struct rpc_reply *reply)
{
	struct listing *l = r->state;
	const struct m_search_reply *m = sdb_reply(r, &msg_search_reply, reply);

	if (m == NULL)
		return;
	ask_view_lag(r, m->lag_ns);
	l->bytes += reply->body.n;
	l->last = !m->has_more;
	l->next = m->has_more ? m->cursor : STR_NULL;
	l->asked = m->ids_n;
	if (m->ids_n > 0) {
		sdb_ask_jobs(r, m->ids, m->ids_n, on_jobs);
		return;
	}
	page_done(l);
	l->at_schedules = l->last;
	go_on(r);
}

static void ask_page(struct req *r, struct listing *l)
{
	struct m_search *q = &l->search;
	size_t n = 0;

	*q = (struct m_search){ 0 };
	for (; states_of[l->status][n] != JOB_STATE_MAX; n++)
		l->states[n] = str_from(
		    enum_text(&enum_job_state, states_of[l->status][n]));
	MSG_SET(q, search, queue, STR(SDB_QUEUE));
	MSG_SET_LIST(q, search, state, l->states, n);
	MSG_SET(q, search, limit, l->limit);
	MSG_SET(q, search, order, STR("asc"));
	MSG_SET(q, search, ids_only, true);
	if (l->cursor.n > 0)
		MSG_SET(q, search, cursor, l->cursor);
	ask_view_query(r, QUERY_SEARCH_JOBS, &msg_search, q, on_found);
}

/* --- recurrentes --- */

static const struct m_job *find_job(const struct m_job_list *m, struct str id)
{
	for (size_t i = 0; i < m->jobs_n; i++)
		if (str_eq(m->jobs[i].id, id))
			return &m->jobs[i];
	return NULL;
}

static void on_last_runs(struct req *r, const struct rpc_reply *reply)
{
	struct listing *l = r->state;
	struct arena a = ARENA_INIT;
	struct m_sdb_state s;
	struct m_job_list m;
	bool ok = sdb_reply_briefly(r, &msg_job_list, reply, &a, &m);

	if (ok && is_whole(l, &m)) {
		for (size_t i = 0; i < l->page_n; i++) {
			const struct m_schedule *x = &l->page[i];

			sdb_show_schedule(x, find_job(&m, x->last_job_id), &a,
					  &s);
			add(r, l, &s);
		}
	} else {
		l->page = NULL; /* it is read again */
	}
	if (ok)
		go_on(r);
	arena_done(&a);
}

/* What is shown of it, which is not its payload. */
static void keep_schedule(struct req *r, struct listing *l,
			  const struct m_schedule *s, struct m_schedule *ret)
{
	struct m_schedule_job job = *s->job;
	struct m_schedule copy = *s;

	MSG_UNSET(&job, schedule_job, payload);
	copy.job = &job;
	keep(r, l, &msg_schedule, &copy, ret);
}

static void on_schedules(struct req *r, const struct rpc_reply *reply)
{
	struct listing *l = r->state;
	struct arena a = ARENA_INIT;
	struct m_schedule_list m;
	struct m_schedule *mine;
	struct str *ids;

	if (!sdb_reply_briefly(r, &msg_schedule_list, reply, &a, &m)) {
		arena_done(&a);
		return;
	}
	mine = arena_alloc(&r->arena, (m.schedules_n + 1) * sizeof(*mine));
	ids = arena_alloc(&r->arena, (m.schedules_n + 1) * sizeof(*ids));
	l->page = mine;
	l->page_n = 0;
	for (size_t i = 0; i < m.schedules_n; i++) {
		if (!sdb_is_recurring(&m.schedules[i]))
			continue;
		keep_schedule(r, l, &m.schedules[i], &mine[l->page_n]);
		ids[l->page_n] = mine[l->page_n].last_job_id;
		l->page_n++;
	}
	l->bytes += m.schedules_n * sizeof(*ids);
	l->next = arena_copy(&r->arena, m.next);
	l->asked = l->page_n;
	arena_done(&a);
	sdb_ask_jobs(r, ids, l->page_n, on_last_runs);
}

static void ask_schedules(struct req *r, const struct listing *l)
{
	struct m_list_schedules m = { 0 };

	MSG_SET(&m, list_schedules, limit, l->limit);
	if (l->cursor.n > 0)
		MSG_SET(&m, list_schedules, after, l->cursor);
	req_call_raftd(r, QUERY_LIST_SCHEDULES, STR_NULL, &msg_list_schedules,
		       &m, on_schedules);
}

/* --- all of it --- */

static void answer(struct req *r, const struct listing *l, bool more)
{
	struct m_sdb_list m = { 0 };

	r->x.seq = 0; /* a read has no index of its own */
	MSG_SET_LIST(&m, sdb_list, jobs, l->jobs, l->n);
	MSG_SET(&m, sdb_list, total, l->n);
	if (more)
		MSG_SET(&m, sdb_list, next,
			arena_printf(&r->arena, "%c%.*s",
				     l->at_schedules ? 's' : 'j',
				     STR_ARG(l->cursor)));
	req_answer_message(r, &msg_sdb_list, &m, 200);
}

/* After a page: l->page tells that one of schedules was read. */
static void go_on(struct req *r)
{
	struct listing *l = r->state;

	if (!req_may_go_on(r, "listed", 0))
		return;
	if (l->page != NULL && l->cursor.n == 0)
		answer(r, l, false);
	else if (l->moved && (l->n >= ALL_MAX || l->bytes >= LIMIT_LIST_BYTES))
		answer(r, l, true);
	else if (l->at_schedules)
		ask_schedules(r, l);
	else
		ask_page(r, l);
}

static bool read_status(struct req *r, struct listing *l)
{
	struct str text = STR_NULL;
	uint32_t number;

	if (!req_text_argument(r, "status", &text))
		return false;
	if (text.n == 0) {
		req_fail(r, ERR_VALIDATION_ERROR,
			 "status query parameter is required");
		return false;
	}
	if (!enum_parse(&enum_sdb_status, text, &number)) {
		req_fail(r, ERR_VALIDATION_ERROR, "invalid status parameter");
		return false;
	}
	l->status = (enum sdb_status)number;
	return true;
}

static bool read_cursor(struct req *r, struct listing *l)
{
	struct str text = STR_NULL;

	if (!req_text_argument(r, "cursor", &text))
		return false;
	if (text.n == 0)
		return true;
	l->at_schedules = text.p[0] == 's';
	l->cursor = str_skip(text, 1);
	if ((l->at_schedules || text.p[0] == 'j') &&
	    l->cursor.n <= LIMIT_SCHED_NAME_BYTES * 4)
		return true;
	req_fail(r, ERR_VALIDATION_ERROR,
		 "cursor: must be the next of a page before");
	return false;
}

void h_sdb_list(struct req *r)
{
	struct listing *l = arena_zalloc(&r->arena, sizeof(*l));

	r->state = l;
	l->limit = PAGE;
	if (read_status(r, l) && read_cursor(r, l))
		go_on(r);
}
