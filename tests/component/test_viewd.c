/*
 * The real corvo-viewd between a fake raftd and a fake httpd, both in one
 * actor process: waiting for an event, giving up on it, having no view, and
 * every reason to rebuild. A script reports "ok" when it has seen all.
 */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>

#include "component/actor.h"
#include "rt/file.h"
#include "rt/rpc.h"
#include "store/key.h"
#include "store/kv.h"
#include "util/clock.h"

#define WAIT_LONG_NS  (20 * NS_PER_S)
#define WAIT_SHORT_NS (50 * NS_PER_MS)

struct fake;

struct script {
	void (*start)(struct fake *f);
	void (*on_answer)(struct fake *f, const struct rpc_reply *r);
	/* What raftd is asked; all but tail, which waits for `head`. */
	void (*on_ask)(struct fake *f, struct rpc_req req, unsigned id);
};

struct fake {
	int fd;
	const char *dir;
	struct loop *l;
	struct ipc *ipc;
	struct rpc_server *raftd;
	struct rpc_client *httpd;
	struct loop_timer *timer;
	loop_fn *later; /* what the timer does */
	const struct script *script;
	struct rpc_req tail;
	uint64_t tail_after;
	bool tail_waits;
	uint64_t head; /* newest event; queue-<n> is made by event n */
	bool lost, not_ready;
	uint64_t asked_ns; /* when the last question was put */
	unsigned step;
	unsigned checkpoints;
	bool asked;
};

/* --- raftd --- */

static void reply(struct rpc_req req, const struct msg_desc *d, const void *m)
{
	struct buf b = BUF_INIT(0);

	msg_encode(d, m, &b);
	rpc_reply(req, 0, 0, buf_str(&b));
	buf_done(&b);
}

/* The events after the ones viewd has, if there are any. */
static void answer_tail(struct fake *f)
{
	struct m_tail_reply m = { 0 };
	struct m_event e = { 0 };
	struct m_queue q = { 0 };
	char name[32];

	if (!f->tail_waits || (f->tail_after == f->head && !f->lost))
		return;
	f->tail_waits = false;
	(void)snprintf(name, sizeof(name), "queue-%llu",
		       (unsigned long long)f->head);
	MSG_SET(&q, queue, name, str_from(name));
	MSG_SET(&q, queue, created_at, clock_wall_ns());
	MSG_SET(&e, event, type, EVENT_QUEUE_CREATED);
	MSG_SET(&e, event, at, clock_wall_ns());
	MSG_SET(&e, event, seq, f->head);
	MSG_SET(&m, tail_reply, head_seq, f->head);
	MSG_SET(&m, tail_reply, lost, f->lost);
	MSG_SET(&m, tail_reply, last_seq, MAX(f->head, f->tail_after));
	if (!f->lost && f->head > f->tail_after) {
		MSG_SET_LIST(&m, tail_reply, events, &e, 1);
		MSG_SET_LIST(&m, tail_reply, queues, &q, 1);
	}
	reply(f->tail, &msg_tail_reply, &m);
}

static void publish(struct fake *f, uint64_t head)
{
	f->head = head;
	answer_tail(f);
}

static void publish_one(void *ctx)
{
	publish(ctx, 1);
}

static void later(struct fake *f, uint64_t ms, loop_fn *fn)
{
	f->later = fn;
	loop_timer_arm(f->timer, ms * NS_PER_MS);
}

static void answer_status(struct fake *f, struct rpc_req req)
{
	struct m_node_status m = { 0 };

	MSG_SET(&m, node_status, last_seq, f->head);
	MSG_SET(&m, node_status, ready, !f->not_ready);
	reply(req, &msg_node_status, &m);
}

/* A store with one queue, as raftd would have written it. */
static void answer_checkpoint(struct fake *f, struct rpc_req req,
			      const char *queue, uint64_t seq)
{
	struct kv_options o = { .write_buffer_bytes = 1u << 20,
				.cache_bytes = 1u << 20 };
	struct buf why = BUF_INIT(0), value = BUF_INIT(0);
	struct m_checkpoint_ref ref = { 0 };
	struct m_queue_doc doc = { 0 };
	struct kv_batch *batch;
	struct kv *kv;
	struct key k;
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/checkpoint-%u", f->dir,
		       ++f->checkpoints);
	EXPECT(kv_rocks_open(path, &o, &kv, &why) == 0);
	MSG_SET(&doc, queue_doc, created_at, clock_wall_ns());
	msg_encode(&msg_queue_doc, &doc, &value);
	key_queue(&k, str_from(queue));
	batch = kv_batch_new(kv);
	kv_batch_put(batch, key_str(&k), buf_str(&value));
	EXPECT(kv_write(kv, batch) == 0);
	kv_batch_free(batch);
	EXPECT(kv_flush(kv, &why) == 0);
	kv_close(kv);
	MSG_SET(&ref, checkpoint_ref, path, str_from(path));
	MSG_SET(&ref, checkpoint_ref, seq, seq);
	reply(req, &msg_checkpoint_ref, &ref);
	buf_done(&value);
	buf_done(&why);
}

static void on_request(void *ctx, struct rpc_req req,
		       const struct frame_request *item)
{
	struct fake *f = ctx;
	struct arena a = ARENA_INIT;
	struct m_nothing nothing = { 0 };
	struct m_tail m;

	if (item->op == QUERY_TAIL) {
		EXPECT(msg_decode(&msg_tail, item->body, &a, &m) == 0);
		f->tail = req;
		f->tail_after = m.after_seq;
		f->tail_waits = true;
		if (f->head == 0) /* both have nothing: now it begins */
			later(f, 50, publish_one);
		answer_tail(f);
	} else if (item->op == QUERY_NODE_STATUS) {
		answer_status(f, req);
	} else if (f->script->on_ask != NULL) {
		f->script->on_ask(f, req, item->op);
		if (item->op == QUERY_CHECKPOINT_DONE)
			reply(req, &msg_nothing, &nothing);
	} else {
		EXPECT(!"a checkpoint was asked for");
	}
	arena_done(&a);
}

static void on_cancel(void *ctx, struct rpc_req req)
{
	struct fake *f = ctx;

	if (f->tail_waits && f->tail.id == req.id)
		f->tail_waits = false;
}

static void on_peer_down(void *ctx, struct rpc_peer *peer)
{
	struct fake *f = ctx;

	(void)peer;
	f->tail_waits = false;
}

/* --- httpd --- */

static void on_answer(void *ctx, const struct rpc_reply *r)
{
	struct fake *f = ctx;

	f->script->on_answer(f, r);
}

static void ask_queues(struct fake *f, uint64_t min_seq, uint64_t wait_ns)
{
	struct m_view_query m = { 0 };
	struct buf b = BUF_INIT(0);

	MSG_SET(&m, view_query, min_seq, min_seq);
	MSG_SET(&m, view_query, wait_ns, wait_ns);
	msg_encode(&msg_view_query, &m, &b);
	f->asked_ns = clock_mono_ns();
	(void)rpc_call(f->httpd, QUERY_LIST_QUEUES, STR_NULL, buf_str(&b), 0,
		       ERR_VIEW_UNAVAILABLE, 0, on_answer, f);
	buf_done(&b);
}

static void ask_metrics(struct fake *f)
{
	(void)rpc_call(f->httpd, QUERY_VIEWD_METRICS, STR_NULL, STR("\x80"), 0,
		       ERR_VIEW_UNAVAILABLE, 0, on_answer, f);
}

/* The answer is a list that ends with this queue; returns its lag. */
static uint64_t expect_queue(const struct rpc_reply *r, const char *last)
{
	struct arena a = ARENA_INIT;
	struct m_queue_list m;

	EXPECT(r->err == 0);
	EXPECT(msg_decode(&msg_queue_list, r->body, &a, &m) == 0);
	EXPECT((m.queues_n == 0) == (last == NULL));
	if (last != NULL)
		EXPECT(str_is(m.queues[m.queues_n - 1].name, last));
	arena_done(&a);
	return m.lag_ns;
}

static void done(struct fake *f)
{
	line_send(f->fd, "ok");
}

/* --- scripts --- */

/* A list waits for the event it names, and no longer than told. */
static void wait_start(struct fake *f)
{
	ask_queues(f, 1, WAIT_LONG_NS);
}

static void wait_on_answer(struct fake *f, const struct rpc_reply *r)
{
	uint64_t waited = clock_mono_ns() - f->asked_ns;
	uint64_t lag = expect_queue(r, "queue-1");

	if (f->step++ == 0) {
		EXPECT(f->head == 1 && lag == 0);
		EXPECT(r->seq == 1);
		ask_queues(f, 99, WAIT_SHORT_NS);
		return;
	}
	EXPECT(lag >= 1);
	EXPECT(waited >= WAIT_SHORT_NS - NS_PER_MS);
	done(f);
}

/* An empty view beside a store that is not: no list until it is rebuilt. */
static void empty_start(struct fake *f)
{
	f->head = 7;
	ask_queues(f, 0, 0);
}

static void empty_on_answer(struct fake *f, const struct rpc_reply *r)
{
	struct arena a = ARENA_INIT;
	struct m_metrics m;

	switch (f->step++) {
	case 0:
		EXPECT(r->err == ERR_VIEW_UNAVAILABLE);
		ask_metrics(f);
		break;
	case 1:
		EXPECT(r->err == 0);
		EXPECT(msg_decode(&msg_metrics, r->body, &a, &m) == 0);
		EXPECT(m.values_n >= 3);
		ask_queues(f, 7, WAIT_LONG_NS);
		break;
	default:
		EXPECT(expect_queue(r, "rebuilt") == 0);
		done(f);
	}
	arena_done(&a);
}

/* The first checkpoint fails, the second cannot be read, the third is good. */
static void empty_on_ask(struct fake *f, struct rpc_req req, unsigned id)
{
	struct m_checkpoint_ref ref = { 0 };

	if (id != QUERY_CHECKPOINT)
		return;
	switch (f->checkpoints) {
	case 0:
		f->checkpoints++;
		rpc_reply(req, ERR_STORAGE_FULL, 0, STR("no"));
		break;
	case 1:
		f->checkpoints++;
		MSG_SET(&ref, checkpoint_ref, path, STR("/nowhere"));
		MSG_SET(&ref, checkpoint_ref, seq, 7);
		reply(req, &msg_checkpoint_ref, &ref);
		break;
	default:
		answer_checkpoint(f, req, "rebuilt", 7);
	}
}

/* Events are gone: the old view is shown, with its age, until the new one. */
static void lost_start(struct fake *f)
{
	ask_queues(f, 1, WAIT_LONG_NS);
}

static void lose_events(void *ctx)
{
	struct fake *f = ctx;

	f->lost = true;
	publish(f, 9);
}

static void lost_on_answer(struct fake *f, const struct rpc_reply *r)
{
	switch (f->step++) {
	case 0:
		EXPECT(expect_queue(r, "queue-1") == 0);
		later(f, 0, lose_events);
		break;
	case 1:
		EXPECT(expect_queue(r, "queue-1") >= 1);
		break;
	default:
		EXPECT(expect_queue(r, "from checkpoint") == 0);
		done(f);
	}
}

static void lost_on_ask(struct fake *f, struct rpc_req req, unsigned id)
{
	if (id == QUERY_CHECKPOINT && f->step < 2) {
		if (!f->asked) /* before there is a new view */
			ask_queues(f, 9, 0);
		f->asked = true;
		rpc_reply(req, ERR_OVERLOADED, 0, STR("not now"));
	} else if (id == QUERY_CHECKPOINT) {
		f->lost = false;
		answer_checkpoint(f, req, "from checkpoint", 9);
	} else if (id == QUERY_CHECKPOINT_DONE) {
		ask_queues(f, 9, WAIT_LONG_NS);
	}
}

/*
 * viewd is ahead of a raftd that still reads its log (it waits), and of one
 * that has other data (it rebuilds). The view of the script before is there.
 */
static void get_ready(void *ctx)
{
	struct fake *f = ctx;

	EXPECT(f->checkpoints == 0);
	f->not_ready = false;
}

static void ahead_start(struct fake *f)
{
	f->head = 3;
	f->not_ready = true;
	later(f, 300, get_ready);
	ask_queues(f, 0, WAIT_LONG_NS);
}

static void ahead_on_answer(struct fake *f, const struct rpc_reply *r)
{
	if (f->step++ == 0) {
		(void)expect_queue(r, "from checkpoint");
		return;
	}
	EXPECT(expect_queue(r, "other data") == 0);
	done(f);
}

static void ahead_on_ask(struct fake *f, struct rpc_req req, unsigned id)
{
	EXPECT(f->step == 1 && !f->not_ready);
	if (id == QUERY_CHECKPOINT)
		answer_checkpoint(f, req, "other data", 3);
	else
		ask_queues(f, 3, WAIT_LONG_NS);
}

enum script_id { WAIT, EMPTY, LOST, AHEAD };

static const struct script scripts[] = {
	[WAIT] = { wait_start, wait_on_answer, NULL },
	[EMPTY] = { empty_start, empty_on_answer, empty_on_ask },
	[LOST] = { lost_start, lost_on_answer, lost_on_ask },
	[AHEAD] = { ahead_start, ahead_on_answer, ahead_on_ask },
};

/* --- actors --- */

static void on_turn_end(void *ctx)
{
	struct fake *f = ctx;

	rpc_server_flush(f->raftd);
	rpc_client_flush(f->httpd);
}

static void on_timer(void *ctx)
{
	struct fake *f = ctx;

	f->later(f);
}

static void on_test(void *ctx, int fd, int events)
{
	struct fake *f = ctx;

	(void)fd;
	(void)events;
	loop_stop(f->l);
}

static void neighbours(int fd, const char *dir, unsigned number)
{
	static const struct rpc_server_ops ops = {
		.on_request = on_request,
		.on_cancel = on_cancel,
		.on_peer_down = on_peer_down,
	};
	struct fake f = { .fd = fd, .dir = dir, .script = &scripts[number] };
	struct buf why = BUF_INIT(0);
	struct loop_fd *test;
	char path[128];

	f.l = loop_new();
	f.ipc = ipc_new(f.l);
	f.timer = loop_timer_add(f.l, on_timer, &f);
	f.raftd = rpc_server_new(f.ipc, PROC_RAFTD, &ops, &f);
	(void)snprintf(path, sizeof(path), "%s/raftd-viewd.sock", dir);
	EXPECT(rpc_server_listen(f.raftd, path, &why) == 0);
	(void)snprintf(path, sizeof(path), "%s/viewd-httpd-0.sock", dir);
	f.httpd = rpc_client_new(f.ipc, path, PROC_HTTPD, &why);
	EXPECT(f.httpd != NULL);
	loop_on_turn_end(f.l, on_turn_end, &f);
	test = loop_fd_add(f.l, fd, LOOP_READ, on_test, &f);
	f.script->start(&f);
	loop_run(f.l);
	loop_fd_remove(test);
	rpc_client_free(f.httpd);
	rpc_server_free(f.raftd);
	ipc_free(f.ipc);
	loop_free(f.l);
	buf_done(&why);
}

struct fixture {
	char dir[64];
	pid_t viewd;
};

static int setup(void **state)
{
	const char *build = getenv("CORVO_BUILD_DIR");
	struct fixture *f = xcalloc(1, sizeof(*f));
	char program[512], data[96], run[96];
	char *argv[] = { program, data, run, NULL };

	if (build == NULL)
		fail_msg("CORVO_BUILD_DIR does not say where corvo-viewd is");
	(void)snprintf(f->dir, sizeof(f->dir), "/tmp/corvo-viewd-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	(void)snprintf(program, sizeof(program), "%s/corvo-viewd/corvo-viewd",
		       build);
	(void)snprintf(data, sizeof(data), "--data-dir=%s", f->dir);
	(void)snprintf(run, sizeof(run), "--run-dir=%s", f->dir);
	assert_int_equal(
	    posix_spawn(&f->viewd, program, NULL, NULL, argv, environ), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	int status;

	assert_int_equal(kill(f->viewd, SIGTERM), 0);
	assert_int_equal(waitpid(f->viewd, &status, 0), f->viewd);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(dir_remove(f->dir), 0);
	free(f);
	return 0;
}

static void play(struct fixture *f, enum script_id id)
{
	struct actor a = actor_start(neighbours, f->dir, id);

	actor_expect(&a, "ok");
	line_send(a.fd, "end");
	actor_join(&a);
}

static void test_wait(void **state)
{
	play(*state, WAIT);
}

static void test_empty_view(void **state)
{
	play(*state, EMPTY);
}

static void test_lost_and_ahead(void **state)
{
	play(*state, LOST);
	play(*state, AHEAD);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
		TEST(test_wait),
		TEST(test_empty_view),
		TEST(test_lost_and_ahead),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
