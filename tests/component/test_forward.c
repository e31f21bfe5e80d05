/*
 * What a node passes on to its leader, and what becomes of it when the node
 * leads itself.
 */
#include "propose/forward.h"
#include "rpc_world.h"

/* The leader gives a job to a worker that is gone. */
static void give_job(struct world *w)
{
	struct m_fetched job = { 0 };
	struct m_fetch_reply r = { 0 };
	struct buf b = BUF_INIT(0);

	MSG_SET(&job, fetched, job_id, STR("job_1"));
	MSG_SET(&job, fetched, lease_token, 99);
	MSG_SET_LIST(&r, fetch_reply, jobs, &job, 1);
	msg_encode(&msg_fetch_reply, &r, &b);
	rpc_reply(w->seen[0].req, 0, 7, buf_str(&b));
	buf_done(&b);
}

struct taken {
	unsigned n;
	uint32_t op;
	struct buf body;
};

static void take(void *ctx, struct rpc_req req,
		 const struct frame_request *item)
{
	struct taken *t = ctx;

	EXPECT(req.peer == NULL && req.epoch == 0);
	t->n++;
	t->op = item->op;
	buf_put_str(&t->body, item->body);
}

static struct forward *forward; /* of the world */

static bool has_given_back(struct world *w)
{
	/* the next leader does not answer it any more */
	if (w->seen_n == 2)
		return true;
	forward_flush(forward);
	return false;
}

static void begin(struct world *w, const char *path)
{
	struct frame_request fetch = { .op = OP_FETCH,
				       .origin = 7,
				       .number = 1 };

	w_start(w, path);
	w_serve_node(w);
	forward = forward_new(w->loop, w_open_dial, w);
	/* of a worker that has left */
	forward_submit(forward, (struct rpc_req){ .id = 1 }, &fetch);
}

static bool has_fetch(struct world *w)
{
	forward_flush(forward);
	return w->seen_n == 1;
}

static void give_back_actor(int fd, const char *path, unsigned number)
{
	struct taken t = { 0 };
	struct arena a = ARENA_INIT;
	struct m_fail fail;
	struct world w;

	(void)fd;
	(void)number;
	begin(&w, path);
	w_wait(&w, has_fetch);
	give_job(&w);
	w_wait(&w, has_given_back);
	EXPECT(w.seen[1].op == OP_FAIL);
	/* and now this node leads; news of it are of no use to itself */
	forward_tell(forward, QUERY_NODE_REPORT, STR("news"));
	forward_take_back(forward, take, &t);
	EXPECT(t.n == 1 && t.op == OP_FAIL && forward_pending(forward) == 0);
	EXPECT(msg_decode(&msg_fail, buf_str(&t.body), &a, &fail) == 0);
	EXPECT(str_is(fail.job_id, "job_1") && fail.requeue);
	EXPECT(fail.lease_token == 99);
	buf_done(&t.body);
	arena_done(&a);
	forward_free(forward);
	w_end(&w);
}

RPC_TEST(give_back)

/* --- what is to be answered after that event --- */

static bool has_heard(struct world *w)
{
	(void)w;
	forward_flush(forward);
	return forward_seq(forward) == 7;
}

static bool has_both(struct world *w)
{
	forward_flush(forward);
	return w->seen_n == 2;
}

/* Somebody asks how far the leader is, to read from this node then. */
static void fence_actor(int fd, const char *path, unsigned number)
{
	struct frame_request fence = { .op = QUERY_FENCE };
	struct world w;

	(void)fd;
	(void)number;
	begin(&w, path);
	forward_submit(forward, (struct rpc_req){ .id = 2 }, &fence);
	w_wait(&w, has_both);
	EXPECT(w.seen[1].op == QUERY_FENCE && forward_seq(forward) == 0);
	rpc_reply(w.seen[1].req, 0, 7, STR_NULL);
	w_wait(&w, has_heard);
	forward_free(forward);
	w_end(&w);
}

RPC_TEST(fence)

/* --- what was sent, and comes back --- */

static void take_again(void *ctx, struct rpc_req req,
		       const struct frame_request *item)
{
	unsigned *n = ctx;

	EXPECT(rpc_req_is_live(req) && item->op == OP_ENQUEUE);
	EXPECT((item->flags & FRAME_RESEND) != 0);
	++*n;
}

/* The old leader may have carried it out, and this node has yet to answer. */
static void again_actor(int fd, const char *path, unsigned number)
{
	struct frame_request enqueue = { .op = OP_ENQUEUE, .origin = 7 };
	struct world w;
	unsigned n = 0;

	(void)fd;
	(void)number;
	begin(&w, path);
	w_wait(&w, has_fetch);
	forward_submit(forward, w.seen[0].req, &enqueue); /* who is there */
	w_wait(&w, has_both);
	forward_take_back(forward, take_again, &n);
	EXPECT(n == 1 && forward_pending(forward) == 0);
	forward_free(forward);
	w_end(&w);
}

RPC_TEST(again)

/* --- who asked has to end, and nobody leads --- */

static const struct rpc_req *ask(struct world *w)
{
	w->seen_n = w->replies = 0;
	(void)w_call(w, "x", 3600 * NS_PER_S, RPC_CHANGES);
	w_wait(w, has_seen);
	return &w->seen[0].req;
}

static void unled_actor(int fd, const char *path, unsigned number)
{
	struct frame_request item = { .op = OP_ENQUEUE, .origin = 7 };
	const struct rpc_req *req;
	struct world w, nowhere;
	char none[128];

	(void)fd;
	(void)number;
	(void)snprintf(none, sizeof(none), "%s.none", path);
	w_start(&w, path);
	w_serve(&w);
	w_dial(&w);
	nowhere = (struct world){ .ipc = w.ipc, .path = none };
	forward = forward_new(w.loop, w_open_dial, &nowhere);

	/* it was sent to nobody */
	req = ask(&w);
	forward_submit(forward, *req, &item);
	forward_cancel(forward, *req);
	w_wait(&w, has_reply);
	EXPECT(w.last_err == ERR_LEADER_UNAVAILABLE);
	EXPECT(forward_is_over(forward, clock_mono_ns()));

	/* who led may have done it */
	item.flags = FRAME_RESEND;
	req = ask(&w);
	forward_submit(forward, *req, &item);
	forward_cancel(forward, *req);
	w_wait(&w, has_reply);
	EXPECT(w.last_err == ERR_OUTCOME_UNKNOWN);
	EXPECT(forward_is_over(forward, clock_mono_ns()));

	/* a question that changes who is a member, too; not one that is just
	 * asked */
	item.op = QUERY_CLUSTER_REMOVE;
	req = ask(&w);
	forward_submit(forward, *req, &item);
	forward_cancel(forward, *req);
	w_wait(&w, has_reply);
	EXPECT(w.last_err == ERR_OUTCOME_UNKNOWN);
	item.op = QUERY_WHY;
	req = ask(&w);
	forward_submit(forward, *req, &item);
	forward_cancel(forward, *req);
	w_wait(&w, has_reply);
	EXPECT(w.last_err == ERR_LEADER_UNAVAILABLE);

	/* what a fetch was given is asked for yet, but not for long */
	item.op = OP_FETCH;
	req = ask(&w);
	forward_submit(forward, *req, &item);
	forward_cancel(forward, *req);
	w_wait(&w, has_reply);
	EXPECT(w.last_err == ERR_OUTCOME_UNKNOWN);
	EXPECT(!forward_is_over(forward, clock_mono_ns()));
	EXPECT(forward_is_over(forward, clock_mono_ns() - 60 * NS_PER_S));
	forward_free(forward);
	w_end(&w);
}

RPC_TEST(unled)

/* --- questions that change something --- */

/* Asked by this process itself, which leads then. */
static void own_actor(int fd, const char *path, unsigned number)
{
	struct world w;

	(void)fd;
	(void)number;
	begin(&w, path);
	forward_ask(forward, QUERY_CLUSTER_REMOVE, STR("n2"), 0, w_reply, &w);
	w_wait(&w, has_both);
	forward_take_back(forward, take_again, NULL);
	EXPECT(w.replies == 1 && w.last_err == ERR_OUTCOME_UNKNOWN);
	/* it is not sent any more */
	forward_ask(forward, QUERY_CLUSTER_REMOVE, STR("n2"), 0, w_reply, &w);
	forward_take_back(forward, take_again, NULL);
	EXPECT(w.replies == 2 && w.last_err == ERR_LEADER_UNAVAILABLE);
	forward_free(forward);
	w_end(&w);
}

RPC_TEST(own)

/* What whoever is asked again, when the link was lost, answers. */
static int refused_again(struct world *w, unsigned query, int err)
{
	w->seen_n = w->replies = 0;
	(void)rpc_call(w->client, query, STR_NULL, STR("n2"),
		       clock_mono_ns() + 3600 * NS_PER_S,
		       ERR_LEADER_UNAVAILABLE, 0, w_reply, w);
	w_wait(w, has_seen);
	w->seen_n = 0;
	rpc_server_free(w->server);
	w_serve(w);
	w_wait(w, has_seen);
	EXPECT(w->seen[0].op == query && w->seen[0].flags == FRAME_RESEND);
	rpc_reply(w->seen[0].req, err, 0, str_from(err_text(err)));
	w_wait(w, has_reply);
	return w->last_err;
}

static void refused_actor(int fd, const char *path, unsigned number)
{
	struct world w;

	(void)fd;
	(void)number;
	w_start(&w, path);
	w_serve(&w);
	w_dial(&w);
	w_wait(&w, client_up);
	EXPECT(refused_again(&w, QUERY_CLUSTER_REMOVE, ERR_SHUTTING_DOWN) ==
	       ERR_OUTCOME_UNKNOWN);
	EXPECT(refused_again(&w, QUERY_CLUSTER_LEAVE, ERR_OVERLOADED) ==
	       ERR_OUTCOME_UNKNOWN);
	EXPECT(refused_again(&w, QUERY_CLUSTER_REMOVE, ERR_VALIDATION_ERROR) ==
	       ERR_VALIDATION_ERROR);
	EXPECT(refused_again(&w, QUERY_WHY, ERR_SHUTTING_DOWN) ==
	       ERR_SHUTTING_DOWN);
	/* an op is told how it ended the first time */
	EXPECT(refused_again(&w, OP_ENQUEUE, ERR_OVERLOADED) == ERR_OVERLOADED);
	w_end(&w);
}

RPC_TEST(refused)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_give_back),
		cmocka_unit_test(test_fence),
		cmocka_unit_test(test_again),
		cmocka_unit_test(test_unled),
		cmocka_unit_test(test_own),
		cmocka_unit_test(test_refused),
	};
	int r = cmocka_run_group_tests(tests, NULL, NULL);

	actor_path_remove();
	return r;
}
