/*
 * A raftd and a viewd with canned answers, to test corvo-httpd alone.
 *
 *	fake_backend RUN_DIR [quiet]
 *
 * What a request asks for decides its answer: queue and job names below. Each
 * request, resend and cancel is one line of JSON on stdout, so a test can see
 * what arrived. Fetches of other queues than "jobs" and "large" park until
 *their time is up, an enqueue to their queue wakes them, or they are cancelled.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fake_log.h"
#include "proto/msg_json.h"
#include "rt/log.h"
#include "rt/rpc.h"
#include "util/clock.h"
#include "util/list.h"

struct parked {
	struct list node;
	struct rpc_req req;
	struct loop_timer *timer;
	char queue[LIMIT_QUEUE_NAME_BYTES + 1];
};

#define LARGE_BYTES  (7u << 20) /* of a payload */
#define MIDDLE_BYTES (256u << 10)

static struct loop *loop;
static struct rpc_server *raftd, *viewd;
static struct list parked = { &parked, &parked };
static struct arena arena;
static struct buf scratch, line;
static uint64_t seq = 100;
static bool quiet;

/* --- what arrived --- */

/* All members, also those clients never see. */
static void write_message(const struct msg_desc *desc, const void *m,
			  struct json_writer *w)
{
	struct json_style style = { 0 };
	struct msg_desc d = *desc;
	struct field_desc *f = arena_alloc(&arena, d.n * sizeof(*f));

	memcpy(f, d.fields, d.n * sizeof(*f));
	for (size_t i = 0; i < d.n; i++)
		f[i].flags &= (uint16_t)~F_INTERNAL;
	d.fields = f;
	msg_to_json(&d, m, &style, w);
}

static void tell(const char *event, const struct frame_request *item,
		 const struct call_info *info, const void *m)
{
	struct json_writer w = JSON_WRITER(&line);

	if (quiet)
		return;
	buf_clear(&line);
	jw_object(&w);
	jw_key(&w, "event");
	jw_cstr(&w, event);
	if (item != NULL) {
		jw_key(&w, "name");
		jw_cstr(&w, info->name);
		jw_key(&w, "key");
		jw_str(&w, item->key);
		jw_key(&w, "resend");
		jw_bool(&w, (item->flags & FRAME_RESEND) != 0);
		jw_key(&w, "body");
		write_message(info->request, m, &w);
	}
	jw_object_end(&w);
	buf_putc(&line, '\n');
	if (write(STDOUT_FILENO, line.p, line.n) < 0)
		exit(EXIT_FAILURE); /* the test is gone */
}

/* --- answers --- */

static void answer(struct rpc_req req, const struct msg_desc *d, const void *m)
{
	buf_clear(&scratch);
	msg_encode(d, m, &scratch);
	rpc_reply(req, 0, ++seq, buf_str(&scratch));
}

static void refuse(struct rpc_req req, int err, const char *text)
{
	rpc_reply(req, err, 0, str_from(text));
}

/* True when the name asks for a failure, which has been seen to. */
static bool fail_by_name(struct rpc_req req, struct str name)
{
	if (str_is(name, "overload"))
		refuse(req, ERR_OVERLOADED, "");
	else if (str_is(name, "full"))
		refuse(req, ERR_STORAGE_FULL, "");
	else if (str_is(name, "crowded"))
		refuse(req, ERR_QUEUE_FULL, "the queue is full");
	else if (str_is(name, "noleader"))
		refuse(req, ERR_LEADER_UNAVAILABLE, "no leader here");
	else if (str_is(name, "undone"))
		refuse(req, ERR_INTERNAL_ERROR, ERR_UNDONE_TEXT);
	else if (str_is(name, "unknown"))
		refuse(req, ERR_INTERNAL_ERROR, "nobody knows");
	else if (str_is(name, "garbage"))
		rpc_reply(req, 0, ++seq, STR("\xc1\xc1"));
	else
		return str_is(name, "silent"); /* is never answered */
	return true;
}

/* For queues "large" and "middle". */
static struct str payload_of(struct str queue)
{
	static char text[LARGE_BYTES];
	size_t n = str_is(queue, "large") ? LARGE_BYTES : MIDDLE_BYTES;

	if (n != LARGE_BYTES && !str_is(queue, "middle"))
		return STR("{\"n\":1}");
	memset(text, 'x', n);
	text[0] = text[n - 1] = '"';
	return str_of(text, n);
}

static void give_jobs(struct rpc_req req, struct str queue, uint32_t count)
{
	struct m_fetch_reply reply = { 0 };
	struct m_fetched *jobs = arena_zalloc(&arena, count * sizeof(*jobs));

	for (uint32_t i = 0; i < count; i++) {
		struct m_fetched *f = &jobs[i];

		MSG_SET(f, fetched, job_id, STR("job_fetched"));
		MSG_SET(f, fetched, queue, queue);
		MSG_SET(f, fetched, payload, payload_of(queue));
		MSG_SET(f, fetched, priority, PRIORITY_HIGH);
		MSG_SET(f, fetched, attempt, 1);
		MSG_SET(f, fetched, max_retries, 3);
		MSG_SET(f, fetched, lease_duration, 60 * NS_PER_S);
		MSG_SET(f, fetched, lease_token, 7);
	}
	MSG_SET_LIST(&reply, fetch_reply, jobs, jobs, count);
	answer(req, &msg_fetch_reply, &reply);
}

/* --- parked fetches --- */

static void unpark(struct parked *p)
{
	list_remove(&p->node);
	loop_timer_remove(p->timer);
	free(p);
}

static void on_wait_over(void *ctx)
{
	struct parked *p = ctx;

	give_jobs(p->req, STR_NULL, 0);
	unpark(p);
}

static void park(struct rpc_req req, const struct m_fetch *m)
{
	struct parked *p = xcalloc(1, sizeof(*p));

	p->req = req;
	(void)snprintf(p->queue, sizeof(p->queue), "%.*s",
		       STR_ARG(m->queues[0]));
	p->timer = loop_timer_add(loop, on_wait_over, p);
	loop_timer_arm(p->timer, m->timeout);
	list_push_back(&parked, &p->node);
}

static void wake(struct str queue)
{
	LIST_FOREACH (it, &parked) {
		struct parked *p = list_entry(it, struct parked, node);

		if (!str_is(queue, p->queue))
			continue;
		give_jobs(p->req, queue, 1);
		unpark(p);
		return;
	}
}

static void on_cancel(_unused_ void *ctx, struct rpc_req req)
{
	tell("cancel", NULL, NULL, NULL);
	LIST_FOREACH_SAFE (it, &parked) {
		struct parked *p = list_entry(it, struct parked, node);

		if (p->req.id == req.id) { /* or what it was given, crossed */
			give_jobs(p->req, STR("q"), p->queue[0] == 'X');
			unpark(p);
		}
	}
}

static void on_peer_down(_unused_ void *ctx, _unused_ struct rpc_peer *peer)
{
	LIST_FOREACH_SAFE (it, &parked)
		unpark(list_entry(it, struct parked, node));
}

/* --- raftd --- */

static void on_enqueue(struct rpc_req req, const struct m_enqueue *m)
{
	struct m_enqueue_reply reply = { 0 };

	if (fail_by_name(req, m->queue))
		return;
	MSG_SET(&reply, enqueue_reply, job_id, m->job_id);
	MSG_SET(&reply, enqueue_reply, status,
		m->scheduled_at != 0 ? JOB_SCHEDULED : JOB_PENDING);
	MSG_SET(&reply, enqueue_reply, created_at, clock_wall_ns());
	answer(req, &msg_enqueue_reply, &reply);
	wake(m->queue);
}

static void on_enqueue_batch(struct rpc_req req,
			     const struct m_enqueue_batch *m)
{
	struct m_enqueue_batch_reply reply = { 0 };
	struct m_enqueue_reply *jobs;
	struct str *ids;

	for (size_t i = 0; i < m->jobs_n; i++)
		if (fail_by_name(req, m->jobs[i].queue))
			return;
	jobs = arena_zalloc(&arena, m->jobs_n * sizeof(*jobs));
	ids = arena_zalloc(&arena, m->jobs_n * sizeof(*ids));
	for (size_t i = 0; i < m->jobs_n; i++) {
		ids[i] = m->jobs[i].job_id;
		MSG_SET(&jobs[i], enqueue_reply, job_id, ids[i]);
		MSG_SET(&jobs[i], enqueue_reply, status, JOB_PENDING);
	}
	MSG_SET_LIST(&reply, enqueue_batch_reply, job_ids, ids, m->jobs_n);
	MSG_SET_LIST(&reply, enqueue_batch_reply, jobs, jobs, m->jobs_n);
	answer(req, &msg_enqueue_batch_reply, &reply);
}

static void on_fetch(struct rpc_req req, const struct m_fetch *m)
{
	if (fail_by_name(req, m->queues[0]))
		return;
	if (str_is(m->queues[0], "jobs") || str_is(m->queues[0], "large"))
		give_jobs(req, m->queues[0], m->count);
	else if (m->timeout == 0)
		give_jobs(req, m->queues[0], 0);
	else if (!str_is(m->queues[0], "silent")) /* nobody leads */
		park(req, m);
}

static void on_heartbeat(struct rpc_req req, const struct m_heartbeat *m)
{
	struct m_heartbeat_reply reply = { 0 };
	struct m_beat_reply *jobs;

	jobs = arena_zalloc(&arena, m->jobs_n * sizeof(*jobs));
	for (size_t i = 0; i < m->jobs_n; i++) {
		struct m_beat_reply *b = &jobs[i];
		struct str id = m->jobs[i].job_id;
		bool bad = str_is(id, "job_unknown") || str_is(id, "job_lost");

		MSG_SET(b, beat_reply, job_id, id);
		MSG_SET(b, beat_reply, status, bad ? STR("cancel") : STR("ok"));
		if (str_is(id, "job_lost"))
			MSG_SET(b, beat_reply, code, STR("LEASE_LOST"));
		if (str_is(id, "job_unknown"))
			MSG_SET(b, beat_reply, unknown, true);
		else if (!bad)
			MSG_SET(b, beat_reply, lease_expires_at,
				clock_wall_ns());
	}
	MSG_SET_LIST(&reply, heartbeat_reply, jobs, jobs, m->jobs_n);
	answer(req, &msg_heartbeat_reply, &reply);
}

static void answer_status(struct rpc_req req, const char *word)
{
	struct m_status_reply reply = { 0 };

	MSG_SET(&reply, status_reply, status, str_from(word));
	answer(req, &msg_status_reply, &reply);
}

static void on_ack(struct rpc_req req, const struct m_ack *m)
{
	if (str_is(m->job_id, "job_lost"))
		refuse(req, ERR_LEASE_LOST, "");
	else if (str_is(m->job_id, "job_missing"))
		refuse(req, ERR_ACK_ERROR, "job job_missing not found");
	else
		answer_status(req, "ok");
}

static void on_ack_batch(struct rpc_req req, const struct m_ack_batch *m)
{
	static unsigned once; /* "job_once" was acked */
	struct m_ack_batch_reply reply = { 0 };
	struct m_refusal *r = arena_zalloc(&arena, m->acks_n * sizeof(*r));
	size_t n = 0;

	for (size_t i = 0; i < m->acks_n; i++) {
		struct str id = m->acks[i].job_id;
		bool lost = str_is(id, "job_lost") ||
			    (str_is(id, "job_once") && once++ > 0);

		if (fail_by_name(req, id))
			return;
		if (!lost && !str_is(id, "job_missing"))
			continue;
		MSG_SET(&r[n], refusal, job_id, id);
		MSG_SET(&r[n], refusal, code,
			lost ? STR("LEASE_LOST") : STR("NOT_FOUND"));
		n++;
	}
	MSG_SET(&reply, ack_batch_reply, acked, (uint32_t)(m->acks_n - n));
	MSG_SET_LIST(&reply, ack_batch_reply, refused, r, n);
	answer(req, &msg_ack_batch_reply, &reply);
}

static void on_get_job(struct rpc_req req, const struct m_job_ref *m)
{
	struct m_job job = { 0 };

	if (fail_by_name(req, m->job_id))
		return;
	if (str_is(m->job_id, "job_missing")) {
		refuse(req, ERR_NOT_FOUND, "job job_missing not found");
		return;
	}
	MSG_SET(&job, job, id, m->job_id);
	MSG_SET(&job, job, queue, STR("q"));
	MSG_SET(&job, job, state, JOB_PENDING);
	MSG_SET(&job, job, payload, STR("{}"));
	MSG_SET(&job, job, priority, PRIORITY_HIGH);
	answer(req, &msg_job, &job);
}

static void on_node_status(struct rpc_req req)
{
	struct m_node_status s = { 0 };
	struct m_cluster_node n = { 0 };

	MSG_SET(&n, cluster_node, id, STR("node-1"));
	MSG_SET(&n, cluster_node, address, STR("127.0.0.1:9400"));
	MSG_SET(&n, cluster_node, voter, true);
	MSG_SET(&n, cluster_node, role, STR("leader"));
	MSG_SET(&n, cluster_node, alive, true);
	MSG_SET(&n, cluster_node, self, true);
	MSG_SET_LIST(&s, node_status, nodes, &n, 1);
	MSG_SET(&s, node_status, node_id, STR("node-1"));
	MSG_SET(&s, node_status, state, STR("Leader"));
	MSG_SET(&s, node_status, leader, true);
	MSG_SET(&s, node_status, leader_id, STR("node-1"));
	MSG_SET(&s, node_status, applied_index, 42);
	MSG_SET(&s, node_status, commit_index, 43);
	MSG_SET(&s, node_status, ready, true);
	MSG_SET(&s, node_status, disk_ok, true);
	answer(req, &msg_node_status, &s);
}

static void answer_metric(struct rpc_req req, unsigned metric,
			  const char *label)
{
	struct m_metric_value v = { 0 };
	struct m_metrics set = { 0 };

	MSG_SET(&v, metric_value, metric, metric);
	MSG_SET(&v, metric_value, value, 5);
	MSG_SET(&v, metric_value, label, str_from(label));
	MSG_SET_LIST(&set, metrics, values, &v, 1);
	answer(req, &msg_metrics, &set);
}

/* A queue that is cleared in so many portions, each after a while. */
#define CLEAR_PORTIONS 10
#define PORTION_NS     (2 * NS_PER_MS)

struct portion {
	struct rpc_req req;
	struct loop_timer *timer;
	size_t done; /* portions before this one */
};

static void on_portion(void *ctx)
{
	struct m_clear_queue_reply reply = { 0 };
	struct portion *p = ctx;

	MSG_SET(&reply, clear_queue_reply, count, 1);
	MSG_SET(&reply, clear_queue_reply, more, p->done + 1 < CLEAR_PORTIONS);
	MSG_SET(&reply, clear_queue_reply, cursor, STR("key"));
	MSG_SET(&reply, clear_queue_reply, regroups, p->done + 1);
	answer(p->req, &msg_clear_queue_reply, &reply);
	loop_timer_remove(p->timer);
	free(p);
}

static void on_clear(struct rpc_req req, const struct m_clear_queue *m)
{
	struct portion *p = xcalloc(1, sizeof(*p));

	p->req = req;
	p->done = m->cursor.n > 0 ? m->regroups : 0; /* it needs both */
	p->timer = loop_timer_add(loop, on_portion, p);
	loop_timer_arm(p->timer, PORTION_NS);
}

/* --- viewd --- */

static void on_search(struct rpc_req req, const struct m_search *m)
{
	struct m_search_reply reply = { 0 };
	struct m_job job = { 0 };

	if (fail_by_name(req, m->queue))
		return;
	MSG_SET(&job, job, id, STR("job_found"));
	MSG_SET(&job, job, queue, m->queue);
	MSG_SET(&job, job, state, JOB_DEAD);
	MSG_SET(&job, job, payload, payload_of(m->queue));
	MSG_SET_LIST(&reply, search_reply, jobs, &job,
		     str_is(m->queue, "none") ? 0 : 1);
	MSG_SET(&reply, search_reply, total, 1);
	if (str_is(m->queue, "lagging"))
		MSG_SET(&reply, search_reply, lag_ns, 1500 * NS_PER_US);
	answer(req, &msg_search_reply, &reply);
}

static void on_list_queues(struct rpc_req req)
{
	struct m_queue_list reply = { 0 };
	struct m_queue q = { 0 };

	MSG_SET(&q, queue, name, STR("q"));
	MSG_SET_LIST(&reply, queue_list, queues, &q, 1);
	answer(req, &msg_queue_list, &reply);
}

/* --- requests --- */

static void on_job_op(struct rpc_req req, unsigned op)
{
	if (op == OP_CANCEL)
		answer_status(req, "cancelled");
	else if (op == OP_RETRY)
		answer_status(req, "retried");
	else if (op == OP_DELETE)
		answer_status(req, "deleted");
	else if (op == OP_PAUSE)
		answer_status(req, "paused");
	else if (op == OP_RESUME)
		answer_status(req, "resumed");
	else
		refuse(req, ERR_INTERNAL_ERROR, "the fake does not know this");
}

static void on_question(struct rpc_req req, unsigned id, const void *m)
{
	if (id == QUERY_GET_JOB) {
		on_get_job(req, m);
	} else if (id == QUERY_NODE_STATUS) {
		on_node_status(req);
	} else if (id == QUERY_EVENTS) {
		fake_log_events(req, m);
	} else if (id == QUERY_RAFTD_METRICS) {
		answer_metric(req, METRIC_RAFT_QUEUE_TIME, "le=\"0.001\"");
	} else if (id == QUERY_VIEWD_METRICS) {
		answer_metric(req, METRIC_QUEUE_JOBS,
			      "queue=\"a\\\"b\",state=\"dead\"");
	} else if (id == QUERY_LIST_QUEUES) {
		on_list_queues(req);
	} else if (id == QUERY_LIST_WORKERS) {
		answer(req, &msg_worker_list, &(struct m_worker_list){ 0 });
	} else if (id == QUERY_GET_BULK) {
		fake_log_bulk(req);
	} else if (id == QUERY_SEARCH_JOBS) {
		on_search(req, m);
	}
}

static void on_request(_unused_ void *ctx, struct rpc_req req,
		       const struct frame_request *item)
{
	const struct call_info *info = op_info(item->op);
	void *m;

	if (info == NULL)
		info = query_info(item->op);
	CHECK(info != NULL);
	m = arena_alloc(&arena, info->request->size);
	CHECK(msg_decode(info->request, item->body, &arena, m) == 0);
	tell("request", item, info, m);
	if (item->op == OP_ENQUEUE) {
		on_enqueue(req, m);
	} else if (item->op == OP_ENQUEUE_BATCH) {
		on_enqueue_batch(req, m);
	} else if (item->op == OP_FETCH) {
		on_fetch(req, m);
	} else if (item->op == OP_HEARTBEAT) {
		on_heartbeat(req, m);
	} else if (item->op == OP_ACK) {
		on_ack(req, m);
	} else if (item->op == OP_ACK_BATCH) {
		on_ack_batch(req, m);
	} else if (item->op == OP_CLEAR_QUEUE || item->op == OP_DELETE_QUEUE) {
		on_clear(req, m);
	} else if (op_info(item->op) != NULL) {
		on_job_op(req, item->op);
	} else {
		on_question(req, item->op, m);
	}
	arena_reset(&arena);
}

static const struct rpc_server_ops server_ops = {
	.on_request = on_request,
	.on_cancel = on_cancel,
	.on_peer_down = on_peer_down,
};

static void on_turn_end(_unused_ void *ctx)
{
	rpc_server_flush(raftd);
	rpc_server_flush(viewd);
}

static struct rpc_server *serve(struct ipc *i, enum proc_id self,
				const char *dir)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct rpc_server *s = rpc_server_new(i, self, &server_ops, NULL);
	char path[1024];

	(void)snprintf(path, sizeof(path), "%s/%s-httpd-0.sock", dir,
		       proc_info(self)->name);
	if (rpc_server_listen(s, path, &why) < 0) {
		fprintf(stderr, "%.*s\n", STR_ARG(buf_str(&why)));
		exit(EXIT_FAILURE);
	}
	return s;
}

int main(int argc, char **argv)
{
	struct ipc *i;

	if (argc < 2) {
		fprintf(stderr, "usage: fake_backend RUN_DIR [quiet]\n");
		return EXIT_FAILURE;
	}
	quiet = argc > 2;
	log_init("fake", "test");
	loop = loop_new();
	i = ipc_new(loop);
	raftd = serve(i, PROC_RAFTD, argv[1]);
	viewd = serve(i, PROC_VIEWD, argv[1]);
	loop_on_turn_end(loop, on_turn_end, NULL);
	tell("listening", NULL, NULL, NULL);
	loop_run(loop);
	return 0;
}
