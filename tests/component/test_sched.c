/*
 * corvo-sched and the operations of maintenance: at the moment that was named,
 * one of a kind at a time, again after errors, and only for a leader.
 */
#include "component/sched_world.h"

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
	if (op == OP_RECLAIM)
		EXPECT(m->asked_ns >= at && m->asked_ns <= now);
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

const struct script scripts[] = {
	[MOMENTS] = { .start = moments_start, .on_op = moments_on_op },
	[EARLIER] = { .start = earlier_start,
		      .on_op = earlier_on_op,
		      .on_timer = earlier_on_timer },
	[SAME] = { .start = same_start, .on_op = same_on_op },
	[MORE] = { .start = more_start,
		   .on_op = more_on_op,
		   .on_timer = more_on_timer },
	[ERRORS] = { .start = more_start, .on_op = errors_on_op },
	[NOTHING] = { .start = more_start,
		      .on_op = nothing_on_op,
		      .on_timer = nothing_on_timer },
	[FOLLOWER] = { .start = follower_start,
		       .on_op = follower_on_op,
		       .on_timer = follower_on_timer },
	[TRIM] = { .start = trim_start, .on_op = trim_on_op },
	[IDLE] = { .start = idle_start,
		   .on_op = idle_on_op,
		   .on_timer = idle_on_timer },
	[ANSWERS_AT_ONCE] = { .start = idle_start,
			      .on_op = idle_on_op,
			      .on_timer = idle_on_timer,
			      .answers_at_once = true },
};

/* --- tests --- */

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
