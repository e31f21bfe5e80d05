/*
 * Lists and searches, answered by viewd. Each question names the event the
 * view must hold: the newest this node has acknowledged, or a later one the
 * client asks for, so that a client always finds its own writes. Where several
 * httpd processes share the port none knows what the others acknowledged, and
 * raftd is asked first.
 */
#include "handlers.h"
#include "proto/job_json.h"
#include "req.h"

/* Time for the answer itself, after the wait for the view. */
#define VIEW_ANSWER_NS (5 * NS_PER_S)
#define SEARCH_DEFAULT 50

/* False when an error has been answered. */
static bool read_min_seq(struct req *r, uint64_t *ret)
{
	const char *text = req_header(r, "X-Corvo-Min-Index");
	uint64_t asked = 0;

	if (text != NULL && !str_parse_u64(str_from(text), &asked)) {
		req_fail(r, ERR_VALIDATION_ERROR,
			 "X-Corvo-Min-Index must be a value of X-Corvo-Index");
		return false;
	}
	*ret = MAX(asked, r->h->seq);
	return true;
}

/* A question on its way to the view; in the request's arena. */
struct question {
	const struct msg_desc *desc;
	void *m;
	uint64_t *min_seq; /* member of m */
	req_reply_fn *then;
};

static void ask_view(struct req *r, const struct question *q)
{
	req_call(r, &(struct req_call){
			.client = r->h->viewd,
			.id = r->match.route->target,
			.desc = q->desc,
			.m = q->m,
			.timeout_ns = r->h->set->view_wait + VIEW_ANSWER_NS,
			.timeout_err = ERR_VIEW_UNAVAILABLE,
			.flags = RPC_ONCE,
			.then = q->then,
		    });
}

/* Without an answer the view is asked for what this process knows of. */
static void on_head(struct req *r, const struct rpc_reply *reply)
{
	const struct question *q = r->state;

	*q->min_seq = MAX(*q->min_seq, reply->seq);
	r->seq = 0; /* a read has no index of its own */
	ask_view(r, q);
}

static void ask(struct req *r, const struct question *question)
{
	static const struct m_nothing nothing;
	struct question *q = arena_alloc(&r->arena, sizeof(*q));

	if (!rpc_client_is_up(r->h->viewd)) {
		req_fail_text(r, ERR_VIEW_UNAVAILABLE, STR_NULL);
		return;
	}
	*q = *question;
	if (r->h->set->httpd_processes == 1) {
		ask_view(r, q);
		return;
	}
	r->state = q;
	req_call(r, &(struct req_call){
			.client = r->h->raftd,
			.id = QUERY_NODE_STATUS,
			.desc = &msg_nothing,
			.m = &nothing,
			.timeout_ns = r->h->set->view_wait,
			.timeout_err = ERR_LEADER_UNAVAILABLE,
			.flags = RPC_ONCE,
			.then = on_head,
		    });
}

static void set_lag(struct req *r, uint64_t lag_ns)
{
	if (lag_ns == 0)
		return;
	r->has_lag = true;
	r->lag_ms = (lag_ns + NS_PER_MS - 1) / NS_PER_MS;
}

static void list(struct req *r, req_reply_fn *then)
{
	struct m_view_query *q = arena_zalloc(&r->arena, sizeof(*q));
	uint64_t min_seq;

	if (!read_min_seq(r, &min_seq))
		return;
	MSG_SET(q, view_query, min_seq, min_seq);
	MSG_SET(q, view_query, wait_ns, r->h->set->view_wait);
	ask(r, &(struct question){ &msg_view_query, q, &q->min_seq, then });
}

/* --- GET /queues, /workers --- */

static void answer_list(struct req *r, const struct msg_desc *d,
			const void *items, size_t n, uint64_t lag_ns)
{
	struct json_style style = req_style(r);
	struct json_writer w;

	set_lag(r, lag_ns);
	w = req_json(r);
	jw_array(&w);
	for (size_t i = 0; i < n; i++)
		msg_to_json(d, (const char *)items + i * d->size, &style, &w);
	jw_array_end(&w);
	req_answer(r, 200);
}

static void on_queues(struct req *r, const struct rpc_reply *reply)
{
	struct m_queue_list *m = req_reply(r, &msg_queue_list, reply);

	if (m != NULL)
		answer_list(r, &msg_queue, m->queues, m->queues_n, m->lag_ns);
}

void h_queues(struct req *r)
{
	list(r, on_queues);
}

static void on_workers(struct req *r, const struct rpc_reply *reply)
{
	struct m_worker_list *m = req_reply(r, &msg_worker_list, reply);

	if (m != NULL)
		answer_list(r, &msg_worker, m->workers, m->workers_n,
			    m->lag_ns);
}

void h_workers(struct req *r)
{
	list(r, on_workers);
}

/* --- POST /jobs/search --- */

static void on_found(struct req *r, const struct rpc_reply *reply)
{
	struct m_search_reply *m = req_reply(r, &msg_search_reply, reply);
	struct json_style style = req_style(r);
	struct json_writer w;

	if (m == NULL)
		return;
	set_lag(r, m->lag_ns);
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
	if (m->cursor.n > 0) {
		jw_key(&w, "cursor");
		jw_str(&w, m->cursor);
	}
	jw_key(&w, "has_more");
	jw_bool(&w, m->has_more);
	jw_key(&w, "duration_ms");
	jw_u64(&w, m->duration_ms);
	if (r->has_lag) {
		jw_key(&w, "view_lag_ms");
		jw_u64(&w, r->lag_ms);
	}
	jw_object_end(&w);
	req_answer(r, 200);
}

/* False when an error has been answered. */
static bool check_states(struct req *r, const struct m_search *s)
{
	_cleanup_(buf_done) struct buf names = BUF_INIT(1024);
	uint32_t state;
	size_t i = 0;

	while (i < s->state_n &&
	       enum_parse(&enum_job_state, s->state[i], &state))
		i++;
	if (i == s->state_n)
		return true;
	for (size_t k = 0; k < enum_job_state.n; k++)
		buf_printf(&names, "%s%s", k > 0 ? ", " : "",
			   enum_job_state.values[k].text);
	req_fail(r, ERR_VALIDATION_ERROR, "state[%zu]: must be one of %.*s", i,
		 STR_ARG(buf_str(&names)));
	return false;
}

void h_search(struct req *r)
{
	struct m_search *s = arena_zalloc(&r->arena, sizeof(*s));
	uint64_t min_seq;

	if (!req_read(r, &msg_search, s) || !check_states(r, s) ||
	    !read_min_seq(r, &min_seq))
		return;
	if (s->limit < 1 || s->limit > LIMIT_SEARCH_ROWS)
		MSG_SET(s, search, limit, SEARCH_DEFAULT);
	MSG_SET(s, search, min_seq, min_seq);
	MSG_SET(s, search, wait_ns, r->h->set->view_wait);
	ask(r, &(struct question){ &msg_search, s, &s->min_seq, on_found });
}
