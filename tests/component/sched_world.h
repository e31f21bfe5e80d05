/*
 * The real corvo-sched against a fake raftd: an actor process that answers
 * DUE as raftd does and hands every other request to a script, which judges
 * it and reports "ok" when it has seen what it wants.
 *
 * Included once per program, which defines `scripts`.
 */
#ifndef CORVO_SCHED_WORLD_H
#define CORVO_SCHED_WORLD_H

#include <stdio.h>
#include <stdlib.h>

#include "component/actor.h"
#include "rt/file.h"
#include "rt/rpc.h"
#include "util/clock.h"

#define WAITING_MAX 64

struct fake;

struct script {
	void (*start)(struct fake *f);
	/* an operation of maintenance */
	void (*on_op)(struct fake *f, struct rpc_req req, unsigned op,
		      const struct m_maintain *m);
	/* in the place of on_op: every request but DUE; may be NULL */
	void (*on_item)(struct fake *f, struct rpc_req req,
			const struct frame_request *item);
	void (*on_timer)(struct fake *f); /* of timer_in_ms; may be NULL */
	bool answers_at_once;             /* DUE never waits */
	bool pushes;                      /* on_item gets PUSH_WATCH too */
};

struct fake {
	int fd;
	struct loop *l;
	struct ipc *ipc;
	struct rpc_server *server;
	struct loop_timer *timer;
	const struct script *script;
	struct m_due_reply due;
	struct rpc_req waiting[WAITING_MAX];
	uint64_t known[WAITING_MAX];
	size_t waiting_n;
	unsigned asks;     /* DUE questions so far */
	struct m_due told; /* the last of them */
	unsigned ops;      /* operations so far */
	uint64_t last_ns, gap_ns;
	uint64_t best_late_ns;
	struct rpc_req held; /* an operation whose answer waits */
	bool holding;
};

extern const struct script scripts[];

/* --- a raftd --- */

static inline void reply(struct rpc_req req, const struct msg_desc *d,
			 const void *m)
{
	struct buf b = BUF_INIT(0);

	msg_encode(d, m, &b);
	rpc_reply(req, 0, 0, buf_str(&b));
	buf_done(&b);
}

static inline void reply_op(struct rpc_req req, uint32_t count, bool more)
{
	struct m_maintain_reply m = { 0 };

	MSG_SET(&m, maintain_reply, count, count);
	MSG_SET(&m, maintain_reply, more, more);
	reply(req, &msg_maintain_reply, &m);
}

static inline uint64_t first_due(const struct fake *f)
{
	uint64_t all[] = { f->due.promote_ns, f->due.reclaim_ns,
			   f->due.expire_ns,  f->due.release_ns,
			   f->due.fire_ns,    f->due.bulk_ns };
	uint64_t first = 0;

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (all[i] != 0 && (first == 0 || all[i] < first))
			first = all[i];
	return f->due.leader ? first : 0;
}

/* Answers every question whose answer is no longer what it knows. */
static inline void due_changed(struct fake *f)
{
	struct m_due_reply m = f->due;
	size_t kept = 0;

	if (!m.leader)
		m = (struct m_due_reply){ 0 };
	m.has = MSG_BIT(due_reply, promote_ns) |
		MSG_BIT(due_reply, reclaim_ns) | MSG_BIT(due_reply, expire_ns) |
		MSG_BIT(due_reply, release_ns) | MSG_BIT(due_reply, fire_ns) |
		MSG_BIT(due_reply, bulk_ns) | MSG_BIT(due_reply, trim_seq) |
		MSG_BIT(due_reply, leader);
	for (size_t i = 0; i < f->waiting_n; i++) {
		if (f->known[i] == first_due(f) && m.trim_seq == 0 &&
		    !f->script->answers_at_once) {
			f->waiting[kept] = f->waiting[i];
			f->known[kept++] = f->known[i];
		} else {
			reply(f->waiting[i], &msg_due_reply, &m);
		}
	}
	f->waiting_n = kept;
}

static inline void due_add(struct fake *f, struct rpc_req req,
			   const struct m_due *m)
{
	EXPECT(f->waiting_n < WAITING_MAX);
	f->waiting[f->waiting_n] = req;
	f->known[f->waiting_n++] = m->known_ns;
	f->asks++;
	f->told = *m;
	due_changed(f);
}

static inline void on_request(void *ctx, struct rpc_req req,
			      const struct frame_request *item)
{
	struct fake *f = ctx;
	struct arena a = ARENA_INIT;
	struct m_maintain m;
	struct m_due due;

	if (item->op == QUERY_DUE) {
		EXPECT(msg_decode(&msg_due, item->body, &a, &due) == 0);
		due_add(f, req, &due);
	} else if (item->op == QUERY_PUSH_WATCH && !f->script->pushes) {
		/* there are no push queues: the question waits */
	} else if (f->script->on_item != NULL) {
		f->script->on_item(f, req, item);
	} else {
		uint64_t now = clock_mono_ns();

		EXPECT(msg_decode(&msg_maintain, item->body, &a, &m) == 0);
		f->gap_ns = now - f->last_ns;
		f->last_ns = now;
		f->ops++;
		f->script->on_op(f, req, item->op, &m);
	}
	arena_done(&a);
}

static inline void on_cancel(void *ctx, struct rpc_req req)
{
	struct fake *f = ctx;

	for (size_t i = 0; i < f->waiting_n; i++) {
		if (f->waiting[i].id != req.id)
			continue;
		f->waiting_n--;
		f->waiting[i] = f->waiting[f->waiting_n];
		f->known[i] = f->known[f->waiting_n];
		return;
	}
}

static inline void on_peer_down(void *ctx, struct rpc_peer *peer)
{
	struct fake *f = ctx;

	(void)peer;
	f->waiting_n = 0;
}

static inline void on_turn_end(void *ctx)
{
	struct fake *f = ctx;

	rpc_server_flush(f->server);
}

static inline void on_timer(void *ctx)
{
	struct fake *f = ctx;

	f->script->on_timer(f);
}

static inline void timer_in_ms(struct fake *f, uint64_t ms)
{
	loop_timer_arm(f->timer, ms * NS_PER_MS);
}

static inline uint64_t in_ms(uint64_t ms)
{
	return clock_wall_ns() + ms * NS_PER_MS;
}

static inline void done(struct fake *f)
{
	line_send(f->fd, "ok");
}

/* --- the actor --- */

/* Ends when the test says anything. */
static inline void on_test(void *ctx, int fd, int events)
{
	struct fake *f = ctx;

	(void)fd;
	(void)events;
	loop_stop(f->l);
}

static inline void fake_raftd(int fd, const char *path, unsigned number)
{
	static const struct rpc_server_ops ops = {
		.on_request = on_request,
		.on_cancel = on_cancel,
		.on_peer_down = on_peer_down,
	};
	struct fake f = { .fd = fd, .script = &scripts[number] };
	struct buf why = BUF_INIT(0);
	struct loop_fd *test;

	f.l = loop_new();
	f.ipc = ipc_new(f.l);
	f.timer = loop_timer_add(f.l, on_timer, &f);
	f.server = rpc_server_new(f.ipc, PROC_RAFTD, &ops, &f);
	EXPECT(rpc_server_listen(f.server, path, &why) == 0);
	loop_on_turn_end(f.l, on_turn_end, &f);
	test = loop_fd_add(f.l, fd, LOOP_READ, on_test, &f);
	f.script->start(&f);
	loop_run(f.l);
	loop_fd_remove(test);
	rpc_server_free(f.server);
	ipc_free(f.ipc);
	loop_free(f.l);
	buf_done(&why);
}

/* --- corvo-sched --- */

struct fixture {
	char dir[64];
	char socket[96];
	pid_t sched;
};

static inline int setup(void **state)
{
	const char *build = getenv("CORVO_BUILD_DIR");
	struct fixture *f = xcalloc(1, sizeof(*f));
	char program[512], data[96], run[96];
	char *argv[] = { program, data, run, NULL };

	if (build == NULL)
		fail_msg("CORVO_BUILD_DIR does not say where corvo-sched is");
	(void)snprintf(f->dir, sizeof(f->dir), "/tmp/corvo-sched-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	(void)snprintf(f->socket, sizeof(f->socket), "%s/raftd-sched.sock",
		       f->dir);
	(void)snprintf(program, sizeof(program), "%s/corvo-sched/corvo-sched",
		       build);
	(void)snprintf(data, sizeof(data), "--data-dir=%s", f->dir);
	(void)snprintf(run, sizeof(run), "--run-dir=%s", f->dir);
	f->sched = fork();
	assert_return_code(f->sched, errno);
	if (f->sched == 0) {
		(void)execv(program, argv);
		_exit(127);
	}
	*state = f;
	return 0;
}

static inline int teardown(void **state)
{
	struct fixture *f = *state;
	int status;

	assert_int_equal(kill(f->sched, SIGTERM), 0);
	assert_int_equal(waitpid(f->sched, &status, 0), f->sched);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(dir_remove(f->dir), 0);
	free(f);
	return 0;
}

static inline void play(struct fixture *f, unsigned id)
{
	struct actor a = actor_start(fake_raftd, f->socket, id);

	actor_expect(&a, "ok");
	line_send(a.fd, "end");
	actor_join(&a);
}

#define PLAY(test, id)                 \
	static void test(void **state) \
	{                              \
		play(*state, id);      \
	}

#endif
