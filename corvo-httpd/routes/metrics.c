/*
 * Numbers: GET /api/v1/metrics, debug/runtime, metrics/throughput and scale.
 *
 * For the first two raftd is asked for its numbers, then viewd, then come our
 * own and those of other httpd processes. A process that does not answer is
 * counted for it; the rest is still answered. raftd is given a second to come
 * back. What viewd would have said is then said in its place.
 */
#include <string.h>
#include <unistd.h>

#include "front/conn.h"
#include "req/metrics.h"
#include "req/req.h"
#include "req/tell.h"
#include "req/work.h"
#include "routes/handlers.h"

#define METRICS_NS (1 * NS_PER_S) /* for each of the two */

struct collection {
	struct m_metrics raftd;
	struct m_metrics viewd;
	struct m_metrics own;
	struct m_metrics others; /* httpd processes */
	void (*answer)(struct req *r);
};

/*
 * The reply's bytes are gone after the callback and labels point into them,
 * so it is decoded from a copy.
 */
static bool take(struct req *r, const struct rpc_reply *reply,
		 enum proc_id from, struct m_metrics *ret)
{
	struct str body;

	if (reply->err == 0) {
		body = arena_copy(&r->arena, reply->body);
		if (msg_decode(&msg_metrics, body, &r->arena, ret) == 0)
			return true;
		*ret = (struct m_metrics){ 0 };
	}
	metrics_note_silent(r->h->metrics, from);
	return false;
}

static void answer_now(struct req *r)
{
	const struct collection *c = r->state;

	c->answer(r);
}

/* Many who ask at once are answered in one turn of raftd: each has a turn of
 * its own here. */
static void answer_in_turn(struct req *r)
{
	if (r->work != NULL)
		answer_now(r);
	else
		req_work(r, SIZE_MAX, answer_now);
}

static void on_others(struct req *r, const struct rpc_reply *reply)
{
	struct collection *c = r->state;

	(void)take(r, reply, PROC_RAFTD, &c->others);
	r->x.seq = 0;
	answer_in_turn(r);
}

/* raftd keeps what it is told now: no number goes down that was answered. */
static void ask_others(struct req *r)
{
	struct collection *c = r->state;
	struct m_tell_metrics *m = arena_zalloc(&r->arena, sizeof(*m));

	MSG_SET(m, tell_metrics, number, r->h->d->number);
	MSG_SET_LIST(m, tell_metrics, values, c->own.values, c->own.values_n);
	req_call(r, &(struct req_call){ .client = r->h->raftd,
					.id = QUERY_TELL_METRICS,
					.desc = &msg_tell_metrics,
					.m = m,
					.timeout_ns = METRICS_NS,
					.timeout_err = ERR_LEADER_UNAVAILABLE,
					.flags = RPC_ONCE,
					.then = on_others });
}

static void collect_own(struct req *r)
{
	struct collection *c = r->state;
	struct metric_list l = { .a = &r->arena };

	tell_collect(r->h, &l);
	metric_list_message(&l, &c->own);
	r->x.seq = 0; /* a read has no index of its own */
	if (tell_has_others(r->h) && rpc_client_is_up(r->h->raftd))
		ask_others(r);
	else
		answer_in_turn(r);
}

static void ask(struct req *r, struct rpc_client *client, unsigned id,
		unsigned flags, req_reply_fn *then)
{
	static const struct m_nothing nothing;

	req_call(r, &(struct req_call){ .client = client,
					.id = id,
					.desc = &msg_nothing,
					.m = &nothing,
					.timeout_ns = METRICS_NS,
					.timeout_err = ERR_LEADER_UNAVAILABLE,
					.flags = flags,
					.then = then });
}

static void go_on_without_viewd(struct req *r)
{
	struct collection *c = r->state;
	struct metric_list l = { .a = &r->arena };

	metrics_of_silent_view(r->h->metrics, &c->raftd, &l);
	metric_list_message(&l, &c->viewd);
	collect_own(r);
}

static void on_viewd(struct req *r, const struct rpc_reply *reply)
{
	struct collection *c = r->state;

	if (!take(r, reply, PROC_VIEWD, &c->viewd)) {
		go_on_without_viewd(r);
		return;
	}
	metrics_note_view(r->h->metrics, &c->viewd);
	collect_own(r);
}

static void on_raftd(struct req *r, const struct rpc_reply *reply)
{
	struct collection *c = r->state;

	(void)take(r, reply, PROC_RAFTD, &c->raftd);
	if (rpc_client_is_up(r->h->viewd)) {
		ask(r, r->h->viewd, QUERY_VIEWD_METRICS, RPC_ONCE, on_viewd);
		return;
	}
	metrics_note_silent(r->h->metrics, PROC_VIEWD);
	go_on_without_viewd(r);
}

static void collect(struct req *r, void (*answer)(struct req *r))
{
	struct collection *c = arena_zalloc(&r->arena, sizeof(*c));

	c->answer = answer;
	r->state = c;
	ask(r, r->h->raftd, QUERY_RAFTD_METRICS, 0, on_raftd);
}

/* --- GET /metrics --- */

/* Names that Scheduled-DB gave them itself, after its prefix or without it. */
static const char *const own_names[][2] = {
	{ "corvo_scheddb_memory_bytes", "queue_memory_usage_bytes" },
	{ "corvo_scheddb_memory_limit_bytes", "queue_memory_limit_bytes" },
	{ "corvo_scheddb_memory_utilization_percent",
	  "queue_memory_utilization_percent" },
	{ "corvo_scheddb_jobs", "queue_job_count" },
	{ "corvo_scheddb_job_limit", "queue_job_limit" },
	{ "corvo_scheddb_rejections_total", "job_rejections_total" },
	{ "corvo_scheddb_jobs_by_status", "jobs_by_status" },
	{ "corvo_scheddb_executions_total", "jobs_executed_total" },
	{ "corvo_cluster_nodes", "cluster_nodes" },
	{ "corvo_raft_elections_total", "raft_leader_elections_total" },
	{ "corvo_http_requests_total", "http_requests_total" },
	{ "corvo_http_request_errors_total", "http_errors_total" },
	{ "corvo_forwarded_total", "http_proxy_requests_total" },
	{ "corvo_push_calls_total", "webhook_requests_total" },
	{ "corvo_scheddb_created_total", "jobs_total" },
	{ "corvo_scheddb_deleted_total", "jobs_deleted_total" },
	{ "corvo_scheddb_jobs_by_type", "jobs_by_type" },
	{ "corvo_scheddb_failures_total", "execution_failures_total" },
	{ "corvo_scheddb_execution_seconds", "job_execution_duration_seconds" },
	{ "corvo_http_request_duration_seconds",
	  "http_request_duration_seconds" },
	{ "corvo_process_uptime_seconds", "system_uptime_seconds" },
};

/* What may follow the name of a histogram, or nothing. */
static bool is_suffix(struct str s)
{
	return s.n == 0 || str_is(s, "_bucket") || str_is(s, "_sum") ||
	       str_is(s, "_count");
}

/* Its name stands at the beginning of the line, or after "# HELP ". */
static const char *own_name(struct str head, size_t *ret_n)
{
	struct str name = head;

	name.n = 0;
	while (name.n < head.n && head.p[name.n] != ' ' &&
	       head.p[name.n] != '{')
		name.n++;
	for (size_t i = 0; i < ARRAY_SIZE(own_names); i++) {
		struct str ours = str_from(own_names[i][0]);

		if (!str_starts(name, ours) ||
		    !is_suffix(str_skip(name, ours.n)))
			continue;
		*ret_n = ours.n;
		return own_names[i][1];
	}
	return NULL;
}

static void rename_line(struct str line, const char *prefix, struct buf *out)
{
	bool is_note = str_starts(line, STR("# ")) && line.n > 7;
	struct str head = is_note ? str_skip(line, 7) : line;
	size_t n;
	const char *name = own_name(head, &n);

	if (name == NULL)
		return;
	buf_put_str(out, str_of(line.p, (size_t)(head.p - line.p)));
	buf_puts(out, prefix);
	buf_puts(out, name);
	buf_put_str(out, str_skip(head, n));
	buf_putc(out, '\n');
}

static void add_own_names(struct req *r)
{
	static const char *const prefixes[] = { "scheduled_db_", "" };
	_cleanup_(buf_done) struct buf more = BUF_INIT(0);

	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
		struct str rest = buf_str(&r->x.out), line;

		while (rest.n > 0) {
			(void)str_split(rest, '\n', &line, &rest);
			rename_line(line, prefixes[i], &more);
		}
	}
	buf_put_str(&r->x.out, buf_str(&more));
}

static void answer_metrics(struct req *r)
{
	struct collection *c = r->state;
	const struct m_metrics *sets[] = { &c->raftd, &c->viewd, &c->own,
					   &c->others };

	(void)req_json(r);
	metrics_write(sets, ARRAY_SIZE(sets), &r->arena, &r->x.out);
	if (r->x.conn->part == LISTEN_METRICS)
		add_own_names(r);
	r->x.content_type = "text/plain; version=0.0.4; charset=utf-8";
	req_answer(r, 200);
}

void h_metrics(struct req *r)
{
	collect(r, answer_metrics);
}

/* --- GET /debug/runtime --- */

/* Of all processes that told theirs; mode: part of the label. */
static double sum_of(const struct collection *c, enum metric_id id,
		     const char *mode)
{
	const struct m_metrics *sets[] = { &c->raftd, &c->viewd, &c->own,
					   &c->others };
	double sum = 0;

	for (size_t s = 0; s < ARRAY_SIZE(sets); s++) {
		for (size_t i = 0; i < sets[s]->values_n; i++) {
			const struct m_metric_value *v = &sets[s]->values[i];

			if (v->metric == id && !isnan(v->value) &&
			    memmem(v->label.p, v->label.n, mode,
				   strlen(mode)) != NULL)
				sum += v->value;
		}
	}
	return sum;
}

static void answer_runtime(struct req *r)
{
	struct collection *c = r->state;
	struct json_writer w = req_json(r);
	const struct {
		const char *name;
		double value;
	} members[] = {
		{ "goroutines", sum_of(c, METRIC_PROCESS_THREADS, "") },
		{ "gomaxprocs", (double)sysconf(_SC_NPROCESSORS_ONLN) },
		{ "heap_inuse_bytes", sum_of(c, METRIC_PROCESS_HEAP, "") },
		{ "stack_inuse_bytes", sum_of(c, METRIC_PROCESS_STACK, "") },
		{ "gc_pause_p99_ns", 0 }, /* nothing is collected */
		{ "cpu_user_ns",
		  sum_of(c, METRIC_PROCESS_CPU, "user") * (double)NS_PER_S },
		{ "cpu_sys_ns",
		  sum_of(c, METRIC_PROCESS_CPU, "system") * (double)NS_PER_S },
	};

	jw_object(&w);
	for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
		jw_key(&w, members[i].name);
		jw_u64(&w, (uint64_t)members[i].value);
	}
	jw_object_end(&w);
	req_answer(r, 200);
}

void h_runtime(struct req *r)
{
	collect(r, answer_runtime);
}

/* --- GET /metrics/throughput --- */

static void on_throughput(struct req *r, const struct rpc_reply *reply)
{
	struct m_throughput *m = req_reply(r, &msg_throughput, reply);
	struct json_style style = req_style(r);
	struct json_writer w;

	if (m == NULL)
		return;
	r->x.seq = 0;
	w = req_json(r);
	jw_array(&w);
	for (size_t i = 0; i < m->minutes_n; i++)
		msg_to_json(&msg_throughput_minute, &m->minutes[i], &style, &w);
	jw_array_end(&w);
	req_answer(r, 200);
}

void h_throughput(struct req *r)
{
	struct m_nothing *m = arena_zalloc(&r->arena, sizeof(*m));

	req_call_raftd(r, QUERY_THROUGHPUT, STR_NULL, &msg_nothing, m,
		       on_throughput);
}

/* --- GET /scale --- */

void h_scale(struct req *r)
{
	struct m_scale_ask *m = arena_zalloc(&r->arena, sizeof(*m));
	struct str queue = STR_NULL;

	if (!req_text_argument(r, "queue", &queue))
		return;
	if (queue.n > LIMIT_QUEUE_NAME_BYTES) {
		req_fail(r, ERR_VALIDATION_ERROR,
			 "queue: must have at most %d bytes",
			 LIMIT_QUEUE_NAME_BYTES);
		return;
	}
	if (queue.n > 0)
		MSG_SET(m, scale_ask, queue, queue);
	req_call_raftd(r, QUERY_SCALE, m->queue, &msg_scale_ask, m,
		       req_answer_query);
}
