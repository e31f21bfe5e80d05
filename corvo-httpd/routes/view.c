/*
 * Lists and searches, answered by viewd; workers by raftd.
 */
#include "proto/job_json.h"
#include "proto/view_ask.h"
#include "req/ask_view.h"
#include "routes/handlers.h"
#include "util/turn.h"

#define SEARCH_DEFAULT 50

/* --- GET /queues, /workers --- */

static void answer_list(struct req *r, const struct msg_desc *d,
			const void *items, size_t n, uint64_t lag_ns)
{
	struct json_style style = req_style(r);
	struct json_writer w;

	ask_view_lag(r, lag_ns);
	w = req_json(r);
	turn_open();
	jw_array(&w);
	for (size_t i = 0; i < n; i++)
		msg_to_json(d, (const char *)items + i * d->size, &style, &w);
	jw_array_end(&w);
	turn_close();
	req_answer(r, 200);
}

static void on_queues(struct req *r, const struct rpc_reply *reply)
{
	_cleanup_(buf_done) struct buf next = BUF_INIT(0);
	struct m_queue_list *m = req_reply(r, &msg_queue_list, reply);

	if (m == NULL)
		return;
	if (m->more && m->queues_n > 0) { /* as it goes into ?after= */
		buf_put_percent(&next, m->queues[m->queues_n - 1].name);
		r->x.next = arena_cstr(&r->arena, buf_str(&next));
	}
	answer_list(r, &msg_queue, m->queues, m->queues_n, m->lag_ns);
}

void h_queues(struct req *r)
{
	struct m_view_query *q = arena_zalloc(&r->arena, sizeof(*q));
	struct str after = STR_NULL;
	uint64_t limit = LIMIT_QUEUE_PAGE;

	if (!req_number_argument(r, "limit", 1, UINT64_MAX, &limit) ||
	    !req_text_argument(r, "after", &after))
		return;
	if (after.n > LIMIT_QUEUE_NAME_BYTES) {
		req_fail(r, ERR_VALIDATION_ERROR,
			 "after: must be the name of a queue, with at most %d "
			 "bytes",
			 LIMIT_QUEUE_NAME_BYTES);
		return;
	}
	MSG_SET(q, view_query, after, after);
	MSG_SET(q, view_query, limit,
		(uint32_t)MIN(limit, (uint64_t)LIMIT_QUEUE_PAGE));
	ask_view(r, &msg_view_query, q, on_queues);
}

static void on_workers(struct req *r, const struct rpc_reply *reply)
{
	struct m_worker_list *m = req_reply(r, &msg_worker_list, reply);

	if (m != NULL)
		answer_list(r, &msg_worker, m->workers, m->workers_n, 0);
}

/* Of raftd: it knows who asks without having been given anything. */
void h_workers(struct req *r)
{
	struct m_view_query *q = arena_zalloc(&r->arena, sizeof(*q));

	req_call_raftd(r, QUERY_LIST_WORKERS, STR_NULL, &msg_view_query, q,
		       on_workers);
}

/* --- POST /jobs/search --- */

static void on_found(struct req *r, const struct rpc_reply *reply)
{
	struct m_search_reply *m = req_reply(r, &msg_search_reply, reply);
	struct json_style style = req_style(r);
	struct json_writer w;

	if (m == NULL)
		return;
	ask_view_lag(r, m->lag_ns);
	w = req_json(r);
	jw_object(&w);
	jw_key(&w, "jobs");
	jw_array(&w);
	for (size_t i = 0; i < m->jobs_n; i++) {
		MSG_UNSET(&m->jobs[i], job, errors);
		MSG_UNSET(&m->jobs[i], job, timeline);
		job_to_json(&m->jobs[i], &style, &w);
	}
	jw_array_end(&w);
	jw_key(&w, "total");
	jw_u64(&w, m->total);
	if (m->total_is_lower_bound) {
		jw_key(&w, "total_is_lower_bound");
		jw_bool(&w, true);
	}
	if (m->cursor.n > 0) {
		jw_key(&w, "cursor");
		jw_str(&w, m->cursor);
	}
	jw_key(&w, "has_more");
	jw_bool(&w, m->has_more);
	if (m->partial) {
		jw_key(&w, "partial");
		jw_bool(&w, true);
	}
	jw_key(&w, "duration_ms");
	jw_u64(&w, m->duration_ms);
	if (r->x.has_lag) {
		jw_key(&w, "view_lag_ms");
		jw_u64(&w, r->x.lag_ms);
	}
	jw_object_end(&w);
	req_answer(r, 200);
}

/* For clients of v0.3.0 one out of range means the default. */
static void search(struct req *r, struct m_search *s)
{
	bool fits = s->limit >= 1 && s->limit <= LIMIT_SEARCH_ROWS;

	if (MSG_HAS(s, search, limit) && !fits && !req_is_compat(r)) {
		req_fail(r, ERR_VALIDATION_ERROR,
			 "limit: must be a whole number from 1 to %d",
			 LIMIT_SEARCH_ROWS);
		return;
	}
	if (!fits)
		MSG_SET(s, search, limit, SEARCH_DEFAULT);
	if (s->time_budget > SEARCH_BUDGET_MAX_NS && !req_is_compat(r)) {
		req_fail(r, ERR_VALIDATION_ERROR,
			 "time_budget: must be at most %ds",
			 (int)(SEARCH_BUDGET_MAX_NS / NS_PER_S));
		return;
	}
	ask_view(r, &msg_search, s, on_found);
}

void h_search(struct req *r)
{
	struct m_search *s = arena_zalloc(&r->arena, sizeof(*s));

	if (req_read(r, &msg_search, s) && ask_view_all_ok(r, s, ""))
		search(r, s);
}

/* --- GET /dead, /held --- */

/* A member of the search from the query string; empty is absent. */
static bool read_text(struct req *r, const char *name, struct m_search *s,
		      struct str *member, uint64_t bit)
{
	if (!req_text_argument(r, name, member))
		return false;
	if (member->n > 0)
		s->has |= bit;
	return true;
}

/* False when an error has been answered. */
static bool read_list(struct req *r, enum job_state of, struct m_search *s)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);
	struct str *state = arena_alloc(&r->arena, sizeof(*state));
	uint64_t limit = SEARCH_DEFAULT;

	if (!read_text(r, "queue", s, &s->queue, MSG_BIT(search, queue)) ||
	    !read_text(r, "cursor", s, &s->cursor, MSG_BIT(search, cursor)) ||
	    !read_text(r, "order", s, &s->order, MSG_BIT(search, order)) ||
	    !req_number_argument(r, "limit", 0, UINT32_MAX, &limit))
		return false;
	*state = str_from(enum_text(&enum_job_state, of));
	MSG_SET_LIST(s, search, state, state, 1);
	MSG_SET(s, search, limit, (uint32_t)limit);
	if (msg_check(&msg_search, s, &why) == 0)
		return true;
	req_fail_text(r, ERR_VALIDATION_ERROR, buf_str(&why));
	return false;
}

static void list(struct req *r, enum job_state of)
{
	struct m_search *s = arena_zalloc(&r->arena, sizeof(*s));

	if (read_list(r, of, s))
		search(r, s);
}

void h_dead(struct req *r)
{
	list(r, JOB_DEAD);
}

void h_held(struct req *r)
{
	list(r, JOB_HELD);
}
