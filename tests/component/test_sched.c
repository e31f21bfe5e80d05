/*
 * The real corvo-sched against a fake raftd: an actor process that answers
 * DUE as raftd does and judges every operation that arrives. A script says
 * what is due; it reports "ok" when it has seen what it wants.
 */
#include <spawn.h>
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
	void (*on_op)(struct fake *f, struct rpc_req req, unsigned op,
		      const struct m_maintain *m);
	void (*on_timer)(struct fake *f); /* of timer_in_ms; may be NULL */
	bool answers_at_once;             /* DUE never waits */
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

/* --- a raftd --- */

static void reply(struct rpc_req req, const struct msg_desc *d, const void *m)
{
	struct buf b = BUF_INIT(0);

	msg_encode(d, m, &b);
	rpc_reply(req, 0, 0, buf_str(&b));
	buf_done(&b);
}

static void reply_op(struct rpc_req req, uint32_t count, bool more)
{
	struct m_maintain_reply m = { 0 };

	MSG_SET(&m, maintain_reply, count, count);
	MSG_SET(&m, maintain_reply, more, more);
	reply(req, &msg_maintain_reply, &m);
}

static uint64_t first_due(const struct fake *f)
{
	uint64_t all[] = { f->due.promote_ns, f->due.reclaim_ns,
			   f->due.expire_ns, f->due.release_ns };
	uint64_t first = 0;

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (all[i] != 0 && (first == 0 || all[i] < first))
			first = all[i];
	return f->due.leader ? first : 0;
}

/* Answers every question whose answer is no longer what it knows. */
static void due_changed(struct fake *f)
{
	struct m_due_reply m = f->due;
	size_t kept = 0;

	if (!m.leader)
		m = (struct m_due_reply){ 0 };
	m.has = MSG_BIT(due_reply, promote_ns) |
		MSG_BIT(due_reply, reclaim_ns) | MSG_BIT(due_reply, expire_ns) |
		MSG_BIT(due_reply, release_ns) | MSG_BIT(due_reply, trim_seq) |
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

static void on_request(void *ctx, struct rpc_req req,
		       const struct frame_request *item)
{
	struct fake *f = ctx;
	struct arena a = ARENA_INIT;
	struct m_maintain m;
	struct m_due due;

	if (item->op == QUERY_DUE) {
		EXPECT(msg_decode(&msg_due, item->body, &a, &due) == 0);
		EXPECT(f->waiting_n < WAITING_MAX);
		f->waiting[f->waiting_n] = req;
		f->known[f->waiting_n++] = due.known_ns;
		f->asks++;
		f->told = due;
		due_changed(f);
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

static void on_cancel(void *ctx, struct rpc_req req)
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

static void on_peer_down(void *ctx, struct rpc_peer *peer)
{
	struct fake *f = ctx;

	(void)peer;
	f->waiting_n = 0;
}

static void on_turn_end(void *ctx)
{
	struct fake *f = ctx;

	rpc_server_flush(f->server);
}

static void on_timer(void *ctx)
{
	struct fake *f = ctx;

	f->script->on_timer(f);
}

static void timer_in_ms(struct fake *f, uint64_t ms)
{
	loop_timer_arm(f->timer, ms * NS_PER_MS);
}

static uint64_t in_ms(uint64_t ms)
{
	return clock_wall_ns() + ms * NS_PER_MS;
}

static void done(struct fake *f)
{
	line_send(f->fd, "ok");
}

/* --- scripts: moments --- */

/* Fifteen moments of each kind in turn, each checked against the clock. */
static void moments_next(struct fake *f)
{
	uint64_t at = in_ms(13) + f->ops * 1234567;

	f->due = (struct m_due_reply){ .leader = true };
	if (f->ops % 4 == 0)
		f->due.promote_ns = at;
	else if (f->ops % 4 == 1)
		f->due.reclaim_ns = at;
	else if (f->ops % 4 == 2)
		f->due.expire_ns = at;
	else
		f->due.release_ns = at;
}

static void moments_start(struct fake *f)
{
	f->best_late_ns = UINT64_MAX;
	moments_next(f);
}

static void moments_on_op(struct fake *f, struct rpc_req req, unsigned op,
			  const struct m_maintain *m)
{
	static const unsigned ops[] = { OP_PROMOTE, OP_RECLAIM, OP_EXPIRE,
					OP_RELEASE };
	uint64_t at = first_due(f), now = clock_wall_ns();

	EXPECT(op == ops[(f->ops - 1) % 4]);
	EXPECT(m->limit == LIMIT_MAINTAIN_JOBS);
	EXPECT(now >= at); /* never early */
	f->best_late_ns = MIN(f->best_late_ns, now - at);
	if (f->ops == 60) {
		printf("best lateness %llu us\n",
		       (unsigned long long)f->best_late_ns / 1000);
		EXPECT(f->best_late_ns < 5 * NS_PER_MS);
		done(f);
		return;
	}
	moments_next(f);
	/* The answer and the news may come in either order. */
	if (f->ops % 2 == 0)
		due_changed(f);
	reply_op(req, 1, false);
	due_changed(f);
}

/* An earlier moment turns up while a later one is waited for. */
static void earlier_on_timer(struct fake *f)
{
	f->due.promote_ns = in_ms(20);
	due_changed(f);
}

static void earlier_start(struct fake *f)
{
	f->due = (struct m_due_reply){ .leader = true };
	f->due.promote_ns = in_ms(3600 * 1000);
	timer_in_ms(f, 50);
}

static void earlier_on_op(struct fake *f, struct rpc_req req, unsigned op,
			  const struct m_maintain *m)
{
	(void)req;
	(void)m;
	EXPECT(op == OP_PROMOTE);
	EXPECT(clock_wall_ns() >= f->due.promote_ns);
	done(f);
}

/* A second job due at the same nanosecond must not be forgotten. */
static void same_start(struct fake *f)
{
	f->due = (struct m_due_reply){ .leader = true };
	f->due.promote_ns = f->due.reclaim_ns = in_ms(10);
}

static void same_on_op(struct fake *f, struct rpc_req req, unsigned op,
		       const struct m_maintain *m)
{
	(void)m;
	reply_op(req, 1, false);
	if (op == OP_PROMOTE && f->ops > 2)
		f->due.promote_ns = 0;
	if (op == OP_RECLAIM && f->ops > 2)
		f->due.reclaim_ns = 0;
	if (first_due(f) == 0)
		done(f);
	due_changed(f);
}

/* --- scripts: more, errors, nothing --- */

/* "more" brings the next one at once, and never two at a time. */
static void more_start(struct fake *f)
{
	f->due = (struct m_due_reply){ .leader = true };
	f->due.promote_ns = in_ms(1);
}

static void more_on_timer(struct fake *f)
{
	bool last = f->ops == 5;

	f->holding = false;
	if (last)
		f->due.promote_ns = 0;
	reply_op(f->held, LIMIT_MAINTAIN_JOBS, !last);
	due_changed(f);
	if (last)
		done(f);
}

static void more_on_op(struct fake *f, struct rpc_req req, unsigned op,
		       const struct m_maintain *m)
{
	(void)m;
	EXPECT(op == OP_PROMOTE);
	EXPECT(!f->holding);
	f->held = req;
	f->holding = true;
	timer_in_ms(f, 20);
}

/* Refused: again after 50 ms, then 100, 200. */
static void errors_on_op(struct fake *f, struct rpc_req req, unsigned op,
			 const struct m_maintain *m)
{
	static const unsigned gaps_ms[] = { 0, 0, 50, 100, 200 };

	(void)op;
	(void)m;
	EXPECT(f->ops < ARRAY_SIZE(gaps_ms));
	EXPECT(f->gap_ns >=
	       (gaps_ms[f->ops] - gaps_ms[f->ops] / 50) * NS_PER_MS);
	EXPECT(f->told.pid != 0);
	EXPECT(f->told.promote_errors == f->ops - 1); /* for metrics */
	EXPECT(f->told.reclaim_errors == 0 && f->told.purge_errors == 0);
	if (f->ops < 4) {
		rpc_reply(req,
			  f->ops % 2 ? ERR_OVERLOADED : ERR_LEADER_UNAVAILABLE,
			  0, STR("no"));
		return;
	}
	f->due.promote_ns = 0;
	reply_op(req, 1, false);
	due_changed(f);
	done(f);
}

/* Nothing is found due although the time has come: no hot loop. */
static void nothing_on_op(struct fake *f, struct rpc_req req, unsigned op,
			  const struct m_maintain *m)
{
	(void)op;
	(void)m;
	if (f->ops == 1)
		timer_in_ms(f, 300);
	reply_op(req, 0, false);
}

static void nothing_on_timer(struct fake *f)
{
	EXPECT(f->ops >= 2);
	EXPECT(f->ops <= 10); /* 1, 2, 4, ... 256 ms */
	EXPECT(f->asks <= 2 * f->ops + 2);
	done(f);
}

/* --- scripts: leader, trim, idle --- */

static void follower_start(struct fake *f)
{
	f->due.promote_ns = in_ms(1);
	timer_in_ms(f, 200);
}

static void follower_on_timer(struct fake *f)
{
	EXPECT(f->ops == 0);
	if (f->asks == 0) { /* not connected yet */
		timer_in_ms(f, 200);
		return;
	}
	EXPECT(f->asks == 1);
	f->due.leader = true;
	due_changed(f);
}

static void follower_on_op(struct fake *f, struct rpc_req req, unsigned op,
			   const struct m_maintain *m)
{
	(void)m;
	EXPECT(f->due.leader && op == OP_PROMOTE);
	f->due.promote_ns = 0;
	reply_op(req, 1, false);
	due_changed(f);
	done(f);
}

static void trim_start(struct fake *f)
{
	f->due = (struct m_due_reply){ .leader = true, .trim_seq = 42 };
}

static void trim_on_op(struct fake *f, struct rpc_req req, unsigned op,
		       const struct m_maintain *m)
{
	EXPECT(op == OP_TRIM_EVENTS && m->upto_seq == 42);
	EXPECT(f->asks == 1);
	f->due.trim_seq = 0;
	reply_op(req, 42, false);
	done(f);
}

static void idle_start(struct fake *f)
{
	f->due.leader = true;
	timer_in_ms(f, 500);
}

static void idle_on_op(struct fake *f, struct rpc_req req, unsigned op,
		       const struct m_maintain *m)
{
	(void)f;
	(void)req;
	(void)m;
	EXPECT(op == 0); /* nothing is due */
}

static void idle_on_timer(struct fake *f)
{
	if (f->asks == 0) { /* not connected yet */
		timer_in_ms(f, 500);
		return;
	}
	EXPECT(f->script->answers_at_once ? f->asks <= 12 : f->asks == 1);
	done(f);
}

/* --- actors --- */

enum script_id {
	MOMENTS,
	EARLIER,
	SAME,
	MORE,
	ERRORS,
	NOTHING,
	FOLLOWER,
	TRIM,
	IDLE,
	ANSWERS_AT_ONCE,
};

static const struct script scripts[] = {
	[MOMENTS] = { moments_start, moments_on_op, NULL, false },
	[EARLIER] = { earlier_start, earlier_on_op, earlier_on_timer, false },
	[SAME] = { same_start, same_on_op, NULL, false },
	[MORE] = { more_start, more_on_op, more_on_timer, false },
	[ERRORS] = { more_start, errors_on_op, NULL, false },
	[NOTHING] = { more_start, nothing_on_op, nothing_on_timer, false },
	[FOLLOWER] = { follower_start, follower_on_op, follower_on_timer,
		       false },
	[TRIM] = { trim_start, trim_on_op, NULL, false },
	[IDLE] = { idle_start, idle_on_op, idle_on_timer, false },
	[ANSWERS_AT_ONCE] = { idle_start, idle_on_op, idle_on_timer, true },
};

/* Ends when the test says anything. */
static void on_test(void *ctx, int fd, int events)
{
	struct fake *f = ctx;

	(void)fd;
	(void)events;
	loop_stop(f->l);
}

static void fake_raftd(int fd, const char *path, unsigned number)
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

static int setup(void **state)
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
	assert_int_equal(
	    posix_spawn(&f->sched, program, NULL, NULL, argv, environ), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
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

static void play(struct fixture *f, enum script_id id)
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

PLAY(test_moments, MOMENTS)
PLAY(test_earlier_moment, EARLIER)
PLAY(test_same_moment, SAME)
PLAY(test_more, MORE)
PLAY(test_errors, ERRORS)
PLAY(test_nothing_found, NOTHING)
PLAY(test_follower_waits, FOLLOWER)
PLAY(test_trim, TRIM)

static void test_idle(void **state)
{
	play(*state, IDLE);
	play(*state, ANSWERS_AT_ONCE);
}

/* raftd goes away with work half done and comes back. */
static void test_raftd_restarts(void **state)
{
	struct fixture *f = *state;
	struct actor a = actor_start(fake_raftd, f->socket, MORE);

	actor_expect(&a, "ok");
	actor_kill(&a);
	play(f, FOLLOWER);
	play(f, TRIM);
	play(f, EARLIER);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
		TEST(test_moments),        TEST(test_earlier_moment),
		TEST(test_same_moment),    TEST(test_more),
		TEST(test_errors),         TEST(test_nothing_found),
		TEST(test_follower_waits), TEST(test_trim),
		TEST(test_idle),           TEST(test_raftd_restarts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
