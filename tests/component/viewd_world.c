/*
 * See viewd_world.h.
 */
#include "viewd_world.h"

#include <dirent.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rt/file.h"
#include "store/format.h"
#include "store/key.h"
#include "store/kv.h"

/* --- raftd --- */

void reply(struct rpc_req req, const struct msg_desc *d, const void *m)
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

	if (!f->tail_waits ||
	    (f->tail_after == f->head && !f->lost && !f->busy))
		return;
	f->tail_waits = false;
	(void)snprintf(name, sizeof(name), "queue-%llu",
		       (unsigned long long)f->head);
	MSG_SET(&q, queue, name, str_from(name));
	MSG_SET(&q, queue, created_at, clock_wall_ns());
	MSG_SET(&e, event, type, EVENT_QUEUE_CREATED);
	MSG_SET(&e, event, at, clock_wall_ns() - f->age_ns);
	MSG_SET(&e, event, seq, f->head);
	MSG_SET(&m, tail_reply, head_seq, f->head);
	MSG_SET(&m, tail_reply, lost, f->lost);
	MSG_SET(&m, tail_reply, busy, f->busy);
	MSG_SET(&m, tail_reply, last_seq, MAX(f->head, f->tail_after));
	if (!f->lost && f->head > f->tail_after) {
		MSG_SET_LIST(&m, tail_reply, events, &e, 1);
		MSG_SET_LIST(&m, tail_reply, queues, &q, 1);
		MSG_SET_LIST(&m, tail_reply, jobs, f->jobs, f->jobs_n);
	}
	reply(f->tail, &msg_tail_reply, &m);
}

void publish(struct fake *f, uint64_t head)
{
	f->head = head;
	answer_tail(f);
}

static void publish_one(void *ctx)
{
	publish(ctx, 1);
}

void later(struct fake *f, uint64_t ms, loop_fn *fn)
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

void answer_checkpoint(struct fake *f, struct rpc_req req, const char *queue,
		       uint64_t seq)
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
	EXPECT(format_prepare(kv, NULL, &why) == 0);
	MSG_SET(&doc, queue_doc, created_at, clock_wall_ns());
	msg_encode(&msg_queue_doc, &doc, &value);
	key_queue(&k, SPACE_DEFAULT, str_from(queue));
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

static bool is_unnamed(const struct frame_request *item)
{
	struct arena a = ARENA_INIT;
	struct m_checkpoint_ref m;
	bool unnamed;

	EXPECT(msg_decode(&msg_checkpoint_ref, item->body, &a, &m) == 0);
	unnamed = m.path.n == 0;
	arena_done(&a);
	return unnamed;
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
		f->tail_late = m.late;
		f->viewd = (pid_t)m.pid;
		if (f->head == 0) /* both have nothing: now it begins */
			later(f, 50, publish_one);
		answer_tail(f);
	} else if (item->op == QUERY_NODE_STATUS) {
		answer_status(f, req);
	} else if (item->op == QUERY_CHECKPOINT_DONE && is_unnamed(item)) {
		f->released = true;
		reply(req, &msg_nothing, &nothing);
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

struct question {
	struct list node;
	struct rpc_call *call;
	struct fake *f;
	unsigned id;
};

static void on_answer(void *ctx, const struct rpc_reply *r)
{
	struct question *q = ctx;
	struct fake *f = q->f;

	f->answered = q->id;
	list_remove(&q->node);
	free(q);
	f->script->on_answer(f, r);
}

void ask(struct fake *f, unsigned id, const void *m)
{
	struct question *q = xcalloc(1, sizeof(*q));
	struct buf b = BUF_INIT(0);

	*q = (struct question){ .f = f, .id = id };
	list_push_back(&f->questions, &q->node);
	msg_encode(query_info(id)->request, m, &b);
	f->asked_ns = clock_mono_ns();
	q->call = rpc_call(f->httpd, id, STR_NULL, buf_str(&b), 0,
			   ERR_VIEW_UNAVAILABLE, 0, on_answer, q);
	buf_done(&b);
}

unsigned cancel_all(struct fake *f)
{
	unsigned n = 0;

	LIST_FOREACH_SAFE (it, &f->questions) {
		struct question *q = list_entry(it, struct question, node);

		rpc_cancel(f->httpd, q->call);
		list_remove(it);
		free(q);
		n++;
	}
	return n;
}

void ask_queues(struct fake *f, uint64_t min_seq, uint64_t wait_ns)
{
	struct m_view_query m = { 0 };

	MSG_SET(&m, view_query, min_seq, min_seq);
	MSG_SET(&m, view_query, wait_ns, wait_ns);
	ask(f, QUERY_LIST_QUEUES, &m);
}

uint64_t expect_queue(const struct rpc_reply *r, const char *last)
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

void done(struct fake *f)
{
	line_send(f->fd, "ok");
}

/* --- threads of viewd --- */

static bool task_is(const char *task, const char *name)
{
	char path[128], comm[32] = "";
	FILE *in;

	(void)snprintf(path, sizeof(path), "%s/comm", task);
	in = fopen(path, "re");
	EXPECT(in != NULL && fscanf(in, "%31s", comm) == 1);
	(void)fclose(in);
	return strcmp(comm, name) == 0;
}

static unsigned long task_waits(const char *task)
{
	char path[128], line[128];
	unsigned long n = 0;
	FILE *in;

	(void)snprintf(path, sizeof(path), "%s/status", task);
	in = fopen(path, "re");
	EXPECT(in != NULL);
	while (fgets(line, sizeof(line), in) != NULL)
		if (sscanf(line, "voluntary_ctxt_switches: %lu", &n) == 1)
			break;
	(void)fclose(in);
	return n;
}

unsigned long thread_waits(const struct fake *f, const char *name)
{
	char path[64], task[96];
	struct dirent *e;
	unsigned long n = 0;
	DIR *d;

	(void)snprintf(path, sizeof(path), "/proc/%d/task", (int)f->viewd);
	d = opendir(path);
	EXPECT(d != NULL);
	while ((e = readdir(d)) != NULL) {
		if (e->d_name[0] == '.')
			continue;
		(void)snprintf(task, sizeof(task), "%s/%.16s", path, e->d_name);
		if (task_is(task, name))
			n = task_waits(task);
	}
	(void)closedir(d);
	return n;
}

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

static const struct script *playing; /* of the actor that is started */

static void neighbours(int fd, const char *dir, unsigned number)
{
	static const struct rpc_server_ops ops = {
		.on_request = on_request,
		.on_cancel = on_cancel,
		.on_peer_down = on_peer_down,
	};
	struct fake f = { .fd = fd, .dir = dir, .script = playing };
	struct buf why = BUF_INIT(0);
	struct loop_fd *test;
	char path[128];

	(void)number;
	list_init(&f.questions);
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

int setup(void **state)
{
	const char *build = getenv("CORVO_BUILD_DIR");
	struct fixture *f = xcalloc(1, sizeof(*f));
	char program[512], data[96], run[96];
	/* a wait for the view is no longer than that; see WAIT_LONG_NS */
	char timeout[] = "--op-timeout=4m";
	char *argv[] = { program, data, run, timeout, NULL };

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

int teardown(void **state)
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

void play(struct fixture *f, const struct script *script)
{
	struct actor a;

	playing = script;
	a = actor_start(neighbours, f->dir, 0);
	actor_expect(&a, "ok");
	line_send(a.fd, "end");
	actor_join(&a);
}
