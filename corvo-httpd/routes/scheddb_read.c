/*
 * Scheduled-DB: one job, where it is, and its history. An id is first looked
 * for among jobs, then among schedules; runs of a recurrente are found by the
 * view, which knows the jobs of a schedule.
 */
#include "proto/scheddb.h"
#include "req/ask_view.h"
#include "routes/handlers.h"
#include "routes/scheddb.h"

#define RUNS_PAGE 500 /* of a recurrente in one answer */

/* What is asked for, and what of it is known. */
struct look {
	struct str id;
	void (*on_job)(struct req *r, const struct m_job *j);
	void (*on_schedule)(struct req *r, const struct m_schedule *s);
	const struct m_schedule *schedule;
	struct str next;
	uint32_t limit; /* runs asked for, and found */
	size_t asked;
};

/* --- finding it --- */

static void on_schedule(struct req *r, const struct rpc_reply *reply)
{
	const struct look *l = r->state;
	const struct m_schedule *s = sdb_reply(r, &msg_schedule, reply);

	if (s == NULL)
		return;
	r->x.seq = 0; /* a read has no index of its own */
	if (!sdb_is_recurring(s) || !str_eq(s->id, l->id))
		sdb_not_found(r);
	else
		l->on_schedule(r, s);
}

static void ask_schedule(struct req *r)
{
	const struct look *l = r->state;
	struct m_schedule_ref ref = { 0 };

	MSG_SET(&ref, schedule_ref, id, l->id);
	req_call_raftd(r, QUERY_GET_SCHEDULE, STR_NULL, &msg_schedule_ref, &ref,
		       on_schedule);
}

static void on_job(struct req *r, const struct rpc_reply *reply)
{
	const struct look *l = r->state;
	const struct m_job *j;

	if (reply->err == ERR_NOT_FOUND) {
		ask_schedule(r);
		return;
	}
	j = sdb_reply(r, &msg_job, reply);
	if (j == NULL)
		return;
	r->x.seq = 0;
	if (sdb_is_once(j))
		l->on_job(r, j);
	else
		sdb_not_found(r);
}

static void look_for(struct req *r, const struct look *what)
{
	struct look *l = arena_zalloc(&r->arena, sizeof(*l));
	struct m_sdb_ref m = { 0 };
	struct m_job_ref ref = { 0 };

	if (!req_read_path(r, &msg_sdb_ref, &m))
		return;
	*l = *what;
	l->id = m.id;
	r->state = l;
	MSG_SET(&ref, job_ref, job_id, m.id);
	req_call_raftd(r, QUERY_GET_JOB, STR_NULL, &msg_job_ref, &ref, on_job);
}

/* --- GET /jobs/{id} --- */

static void show_job(struct req *r, const struct m_job *j)
{
	struct m_sdb_job m;

	sdb_show_job(j->id, j->scheduled_db, j->created_at, j->payload, &m);
	req_answer_message(r, &msg_sdb_job, &m, 200);
}

static void show_recurring(struct req *r, const struct m_schedule *s)
{
	struct m_sdb_job m;

	sdb_show_job(s->id, s->job->scheduled_db, s->created_at,
		     s->job->payload, &m);
	req_answer_message(r, &msg_sdb_job, &m, 200);
}

void h_sdb_get(struct req *r)
{
	look_for(r, &(struct look){ .on_job = show_job,
				    .on_schedule = show_recurring });
}

/* --- GET /jobs/{id}/status --- */

static void state_of_job(struct req *r, const struct m_job *j)
{
	struct m_sdb_state m;

	sdb_show_state(j, &r->arena, &m);
	req_answer_message(r, &msg_sdb_state, &m, 200);
}

/* The last run may be forgotten by now. */
static void on_last_run(struct req *r, const struct rpc_reply *reply)
{
	const struct look *l = r->state;
	const struct m_job *last = NULL;
	struct m_sdb_state m;

	if (reply->err != ERR_NOT_FOUND) {
		last = sdb_reply(r, &msg_job, reply);
		if (last == NULL)
			return;
	}
	r->x.seq = 0;
	sdb_show_schedule(l->schedule, last, &r->arena, &m);
	req_answer_message(r, &msg_sdb_state, &m, 200);
}

static void state_of_recurring(struct req *r, const struct m_schedule *s)
{
	struct look *l = r->state;
	struct m_job_ref ref = { 0 };
	struct m_sdb_state m;

	if (s->last_job_id.n == 0) {
		sdb_show_schedule(s, NULL, &r->arena, &m);
		req_answer_message(r, &msg_sdb_state, &m, 200);
		return;
	}
	l->schedule = s;
	MSG_SET(&ref, job_ref, job_id, s->last_job_id);
	req_call_raftd(r, QUERY_GET_JOB, STR_NULL, &msg_job_ref, &ref,
		       on_last_run);
}

void h_sdb_status(struct req *r)
{
	look_for(r, &(struct look){ .on_job = state_of_job,
				    .on_schedule = state_of_recurring });
}

/* --- GET /jobs/{id}/executions --- */

static void show_attempts(struct req *r, struct m_sdb_attempt *list, size_t n)
{
	const struct look *l = r->state;
	struct m_sdb_executions m = { 0 };

	MSG_SET(&m, sdb_executions, job_id, l->id);
	MSG_SET_LIST(&m, sdb_executions, attempts, list, n);
	if (l->next.n > 0)
		MSG_SET(&m, sdb_executions, next, l->next);
	req_answer_message(r, &msg_sdb_executions, &m, 200);
}

static void attempts_of_job(struct req *r, const struct m_job *j)
{
	struct m_sdb_attempt *list = NULL;
	size_t n = 0, cap = 0;

	sdb_add_attempts(j, &r->arena, &list, &n, &cap);
	show_attempts(r, list, n);
}

static void ask_runs(struct req *r);

/* They are read as they are stored, with their payloads: when so many do not
 * fit into one reply, fewer are asked for. */
static void on_runs(struct req *r, const struct rpc_reply *reply)
{
	struct look *l = r->state;
	struct arena a = ARENA_INIT;
	struct m_sdb_attempt *list = NULL;
	size_t n = 0, cap = 0;
	struct m_job_list m;
	bool ok = sdb_reply_briefly(r, &msg_job_list, reply, &a, &m);

	if (ok && m.omitted_n > 0) {
		REQUIRE(m.omitted_n < l->asked);
		l->limit = (uint32_t)(l->asked - m.omitted_n);
		ask_runs(r);
	} else if (ok) {
		r->x.seq = 0;
		for (size_t i = m.jobs_n; i > 0; i--) /* newest first */
			sdb_add_attempts(&m.jobs[i - 1], &a, &list, &n, &cap);
		show_attempts(r, list, n);
	}
	arena_done(&a);
}

static void on_found_runs(struct req *r, const struct rpc_reply *reply)
{
	struct look *l = r->state;
	const struct m_search_reply *m = sdb_reply(r, &msg_search_reply, reply);

	if (m == NULL)
		return;
	ask_view_lag(r, m->lag_ns);
	l->next = m->has_more ? m->cursor : STR_NULL;
	l->asked = m->ids_n;
	if (m->ids_n == 0)
		show_attempts(r, NULL, 0);
	else
		sdb_ask_jobs(r, m->ids, m->ids_n, on_runs);
}

/* Those of one that had the id before are not its own. */
static void ask_runs(struct req *r)
{
	const struct look *l = r->state;
	struct m_search *q = arena_zalloc(&r->arena, sizeof(*q));
	struct str cursor = STR_NULL;

	if (!req_text_argument(r, "cursor", &cursor))
		return;
	MSG_SET(q, search, schedule_id, l->schedule->id);
	MSG_SET(q, search, created_after, l->schedule->created_at - 1);
	MSG_SET(q, search, limit, l->limit);
	MSG_SET(q, search, ids_only, true);
	if (cursor.n > 0)
		MSG_SET(q, search, cursor, cursor);
	ask_view_query(r, QUERY_SEARCH_JOBS, &msg_search, q, on_found_runs);
}

static void attempts_of_recurring(struct req *r, const struct m_schedule *s)
{
	struct look *l = r->state;

	l->schedule = s;
	l->limit = RUNS_PAGE;
	ask_runs(r);
}

void h_sdb_executions(struct req *r)
{
	look_for(r, &(struct look){ .on_job = attempts_of_job,
				    .on_schedule = attempts_of_recurring });
}
