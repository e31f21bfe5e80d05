/*
 * Agents' loops: iterations and what they cost, limits that hold them, approval
 * with other limits, replays, and checkpoints that stand apart.
 */
#include "fsm/core/state.h"
#include "fsm/job/active.h"
#include "fsm_fixture.h"

#define TEST(fn) \
	cmocka_unit_test_setup_teardown(fn, fx_setup_level, fx_teardown)

#define LARGE_BYTES (1u << 20)

/* --- short forms --- */

static void enqueue(struct fx *x, const char *id, struct m_agent a)
{
	struct m_enqueue m = fx_new(id, "q");

	MSG_SET(&m, enqueue, agent, &a);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
}

static struct m_agent iterations(uint32_t most)
{
	struct m_agent a = { 0 };

	if (most > 0)
		MSG_SET(&a, agent, max_iterations, most);
	return a;
}

static struct m_ack turn(const char *id, enum agent_status s)
{
	struct m_ack m = { 0 };

	MSG_SET(&m, ack, job_id, str_from(id));
	MSG_SET(&m, ack, agent_status, s);
	return m;
}

static void ack(struct fx *x, const char *id, enum agent_status s)
{
	struct m_ack m = turn(id, s);

	assert_int_equal(fx_do(x, OP_ACK, &m, NULL), 0);
}

/* With a checkpoint and a cost. */
static void ack_more(struct fx *x, const char *id, enum agent_status s,
		     struct str checkpoint, uint64_t cost)
{
	struct m_ack m = turn(id, s);
	struct m_usage u = { 0 };

	if (checkpoint.n > 0)
		MSG_SET(&m, ack, checkpoint, checkpoint);
	MSG_SET(&u, usage, cost_usd, cost);
	MSG_SET(&u, usage, input_tokens, 10);
	MSG_SET(&m, ack, usage, &u);
	assert_int_equal(fx_do(x, OP_ACK, &m, NULL), 0);
}

static struct m_fetched take(struct fx *x)
{
	struct m_fetched r;

	assert_true(fx_fetch(x, "q", &r));
	return r;
}

static struct m_iteration_list rows(struct fx *x, const char *id,
				    uint32_t after, uint32_t limit)
{
	struct m_iteration_list r;

	assert_int_equal(record_iterations(x->side[FX_MEM].kv, str_from(id),
					   after, limit, &x->arena, &r),
			 0);
	return r;
}

static const struct m_job *job(struct fx *x, const char *id)
{
	struct m_job *j = arena_alloc(&x->arena, sizeof(*j));

	assert_int_equal(record_job(x->side[FX_MEM].kv, str_from(id),
				    RECORD_ALL, &x->arena, j),
			 1);
	return j;
}

static struct str large(char with)
{
	static char text[LARGE_BYTES];

	memset(text, with, LARGE_BYTES);
	return str_of(text, LARGE_BYTES);
}

/* --- the loop --- */

static void test_a_loop_goes_on_until_it_is_done(void **state)
{
	struct fx *x = *state;
	struct m_iteration_list r;
	struct m_fetched f;

	enqueue(x, "a", iterations(9));
	f = take(x);
	assert_int_equal(f.agent->iteration, 1);
	assert_int_equal(f.agent->max_iterations, 9);
	assert_false(MSG_HAS(&f, fetched, checkpoint));
	ack_more(x, "a", AGENT_CONTINUE, STR("{\"at\":1}"), NS_PER_S);
	fx_expect_state(x, "a", JOB_PENDING);
	f = take(x);
	assert_int_equal(f.agent->iteration, 2);
	assert_int_equal(f.agent->total_cost_usd, NS_PER_S);
	assert_int_equal(f.attempt, 1); /* each iteration has its own */
	assert_str_is(f.checkpoint, "{\"at\":1}");
	ack_more(x, "a", AGENT_CONTINUE, STR_NULL, 2 * NS_PER_S);
	f = take(x);
	assert_str_is(f.checkpoint, "{\"at\":1}");
	ack_more(x, "a", AGENT_DONE, STR("{\"at\":3}"), 0);
	fx_expect_state(x, "a", JOB_COMPLETED);
	r = rows(x, "a", 0, 10);
	assert_int_equal(r.iterations_n, 3);
	assert_str_is(r.iterations[0].status, "continue");
	assert_str_is(r.iterations[0].checkpoint, "{\"at\":1}");
	assert_int_equal(r.iterations[0].cost_usd, NS_PER_S);
	assert_str_is(r.iterations[1].checkpoint, "{\"at\":1}");
	assert_int_equal(r.iterations[1].cost_usd, 2 * NS_PER_S);
	assert_int_equal(r.iterations[1].input_tokens, 10);
	assert_str_is(r.iterations[2].status, "done");
	assert_str_is(r.iterations[2].checkpoint, "{\"at\":3}");
	assert_int_equal(r.iterations[2].cost_usd, 0);
	assert_int_equal(job(x, "a")->agent->iteration, 3);
	assert_str_is(job(x, "a")->checkpoint, "{\"at\":3}");
	fx_timeline(x, "a",
		    "enqueued started usage continued started usage continued "
		    "started usage completed");
}

/* What heartbeats and failed attempts used is the iteration's as well. */
static void test_an_iteration_has_all_its_attempts(void **state)
{
	struct fx *x = *state;
	struct m_usage u = { 0 };
	struct m_fail fail = { 0 };
	struct m_beat b = { 0 };
	struct m_heartbeat beats = { 0 };

	enqueue(x, "a", iterations(0));
	(void)take(x);
	MSG_SET(&u, usage, cost_usd, 5);
	MSG_SET(&b, beat, job_id, STR("a"));
	MSG_SET(&b, beat, checkpoint, STR("[\"half\"]"));
	MSG_SET(&b, beat, usage, &u);
	MSG_SET_LIST(&beats, heartbeat, jobs, &b, 1);
	assert_int_equal(fx_do(x, OP_HEARTBEAT, &beats, NULL), 0);
	MSG_SET(&fail, fail, job_id, STR("a"));
	MSG_SET(&fail, fail, error, STR("boom"));
	MSG_SET(&fail, fail, retry_after, 0);
	MSG_SET(&fail, fail, usage, &u);
	assert_int_equal(fx_do(x, OP_FAIL, &fail, NULL), 0);
	assert_str_is(take(x).checkpoint, "[\"half\"]");
	ack_more(x, "a", AGENT_CONTINUE, STR_NULL, 7);
	assert_int_equal(rows(x, "a", 0, 9).iterations[0].cost_usd, 17);
	assert_int_equal(rows(x, "a", 0, 9).iterations[0].attempt, 2);
	assert_str_is(rows(x, "a", 0, 9).iterations[0].checkpoint,
		      "[\"half\"]");
	assert_int_equal(take(x).attempt, 1);
}

static void test_pages(void **state)
{
	struct fx *x = *state;
	struct m_iteration_list r;

	enqueue(x, "a", iterations(0));
	for (int i = 0; i < 5; i++) {
		(void)take(x);
		ack(x, "a", AGENT_CONTINUE);
	}
	r = rows(x, "a", 0, 2);
	assert_int_equal(r.iterations_n, 2);
	assert_int_equal(r.next, 2);
	r = rows(x, "a", r.next, 3);
	assert_int_equal(r.iterations[0].iteration, 3);
	assert_int_equal(r.iterations_n, 3);
	assert_false(MSG_HAS(&r, iteration_list, next));
	assert_int_equal(rows(x, "a", 5, 3).iterations_n, 0);
}

/* The oldest go, and a checkpoint with the last of those that had it. */
static void test_the_newest_iterations_are_kept(void **state)
{
	struct fx *x = *state;
	struct m_iteration_list r;

	enqueue(x, "a", iterations(0));
	for (int i = 0; i < LIMIT_ITERATIONS_KEPT + 5; i++) {
		(void)take(x);
		ack_more(x, "a", AGENT_CONTINUE,
			 i == 2 || i == 6 ? STR("[1]") : STR_NULL, 1);
	}
	r = rows(x, "a", 0, 3);
	assert_int_equal(r.iterations[0].iteration, 6);
	assert_str_is(r.iterations[0].checkpoint, "[1]");
	fx_check_side(&x->side[FX_MEM]);
	fx_job_op(x, OP_DELETE, "a", "deleted");
	assert_int_equal(fx_count_keys(&x->side[FX_MEM], "it|"), 0);
	assert_int_equal(fx_count_keys(&x->side[FX_MEM], "cp|"), 0);
}

/* --- limits --- */

static void held_for(struct fx *x, const char *id, const char *reason)
{
	fx_expect_state(x, id, JOB_HELD);
	assert_str_is(job(x, id)->hold_reason, reason);
}

static void test_max_iterations(void **state)
{
	struct fx *x = *state;
	struct m_approve m = { 0 };

	enqueue(x, "a", iterations(2));
	(void)take(x);
	ack(x, "a", AGENT_CONTINUE);
	(void)take(x);
	ack(x, "a", AGENT_CONTINUE);
	held_for(x, "a", "max_iterations exceeded (2)");
	assert_int_equal(job(x, "a")->agent->iteration, 3);
	assert_str_is(rows(x, "a", 1, 9).iterations[0].status, "hold");
	assert_str_is(rows(x, "a", 1, 9).iterations[0].hold_reason,
		      "max_iterations exceeded (2)");
	/* approval alone lets it go on once */
	fx_job_op(x, OP_APPROVE, "a", "pending");
	(void)take(x);
	ack(x, "a", AGENT_CONTINUE);
	held_for(x, "a", "max_iterations exceeded (2)");
	MSG_SET(&m, approve, job_id, STR("a"));
	MSG_SET(&m, approve, max_iterations, 20);
	assert_int_equal(fx_do(x, OP_APPROVE, &m, NULL), 0);
	(void)take(x);
	ack(x, "a", AGENT_CONTINUE);
	fx_expect_state(x, "a", JOB_PENDING);
	assert_int_equal(take(x).agent->max_iterations, 20);
}

static void test_max_cost_and_units(void **state)
{
	struct fx *x = *state;
	struct m_agent a = { 0 }, b = { 0 };

	MSG_SET(&a, agent, max_cost, NS_PER_S / 2);
	enqueue(x, "a", a);
	(void)take(x);
	ack_more(x, "a", AGENT_CONTINUE, STR_NULL, NS_PER_S / 2);
	fx_expect_state(x, "a", JOB_PENDING); /* no more than it may */
	(void)take(x);
	ack_more(x, "a", AGENT_CONTINUE, STR_NULL, 55555);
	held_for(x, "a", "max_cost_usd exceeded (0.5001 > 0.5000)");
	MSG_SET(&b, agent, limits, STR("{\"tokens\":15}"));
	enqueue(x, "b", b);
	(void)take(x);
	ack_more(x, "b", AGENT_CONTINUE, STR_NULL, 0);
	(void)take(x);
	ack_more(x, "b", AGENT_CONTINUE, STR_NULL, 0);
	held_for(x, "b", "limits.tokens exceeded (20.0000 > 15.0000)");
}

/* The worker's own words win, of a hold and of a limit. */
static void test_a_worker_holds(void **state)
{
	struct fx *x = *state;
	struct m_ack m = turn("a", AGENT_HOLD);
	struct m_hold no = { 0 };

	enqueue(x, "a", iterations(2));
	(void)take(x);
	MSG_SET(&m, ack, hold_reason, STR("ask me"));
	assert_int_equal(fx_do(x, OP_ACK, &m, NULL), 0);
	held_for(x, "a", "ask me");
	fx_job_op(x, OP_APPROVE, "a", "pending");
	assert_int_equal(take(x).agent->iteration, 2);
	MSG_SET(&m, ack, agent_status, AGENT_CONTINUE);
	MSG_SET(&m, ack, hold_reason, STR("enough?"));
	assert_int_equal(fx_do(x, OP_ACK, &m, NULL), 0);
	held_for(x, "a", "enough?");
	MSG_SET(&no, hold, job_id, STR("a"));
	assert_int_equal(fx_do(x, OP_REJECT, &no, NULL), 0);
	fx_expect_state(x, "a", JOB_DEAD);
}

static void test_iteration_timeout(void **state)
{
	struct fx *x = *state;
	struct m_agent a = { 0 };
	struct m_approve m = { 0 };
	struct m_fetched f;

	MSG_SET(&a, agent, iteration_timeout, 5 * NS_PER_S);
	enqueue(x, "a", a);
	f = take(x);
	assert_int_equal(f.timeout_at, x->now_ns + 5 * NS_PER_S);
	x->now_ns += 5 * NS_PER_S;
	assert_int_equal(fx_maintain(x, OP_RECLAIM, 10, NULL), 1);
	fx_expect_state(x, "a", JOB_RETRYING);
	assert_str_is(job(x, "a")->last_error, "timeout");
	assert_int_equal(job(x, "a")->agent->iteration, 1);
	x->now_ns += 3600 * NS_PER_S;
	(void)fx_maintain(x, OP_PROMOTE, 10, NULL);
	(void)take(x);
	ack(x, "a", AGENT_HOLD);
	MSG_SET(&m, approve, job_id, STR("a"));
	MSG_SET(&m, approve, iteration_timeout, 9 * NS_PER_S);
	assert_int_equal(fx_do(x, OP_APPROVE, &m, NULL), 0);
	f = take(x);
	assert_int_equal(f.timeout_at, x->now_ns + 9 * NS_PER_S);
}

static void test_refusals(void **state)
{
	struct fx *x = *state;
	struct m_enqueue e = fx_new("b", "q");
	struct m_ack m = turn("p", AGENT_CONTINUE);
	struct m_approve up = { 0 };
	struct m_agent a = { 0 };
	struct m_hold hold = { 0 };

	fx_enqueue(x, "p", "q");
	fx_expect(x, "q", "p");
	fx_refused(x, OP_ACK, &m, ERR_ACK_ERROR,
		   "agent_status: job \"p\" is not an agent job");
	MSG_SET(&hold, hold, job_id, STR("p"));
	assert_int_equal(fx_do(x, OP_HOLD, &hold, NULL), 0);
	MSG_SET(&up, approve, job_id, STR("p"));
	MSG_SET(&up, approve, max_iterations, 3);
	fx_refused(x, OP_APPROVE, &up, ERR_VALIDATION_ERROR,
		   "max_iterations: job \"p\" is not an agent job");
	fx_expect_state(x, "p", JOB_HELD);
	MSG_SET(&a, agent, max_cost, 1);
	MSG_SET(&a, agent, max_cost_usd, 2);
	MSG_SET(&e, enqueue, agent, &a);
	fx_refused(x, OP_ENQUEUE, &e, ERR_VALIDATION_ERROR,
		   "agent.max_cost: is another one than max_cost_usd");
	a = (struct m_agent){ 0 };
	MSG_SET(&a, agent, limits, STR("{\"pages\":-1}"));
	fx_refused(x, OP_ENQUEUE, &e, ERR_VALIDATION_ERROR,
		   "agent.limits.pages: must be a number from 0 to "
		   "18446744073");
	MSG_SET(&a, agent, limits, STR("{\"usd\":1}"));
	fx_refused(x, OP_ENQUEUE, &e, ERR_VALIDATION_ERROR,
		   "agent.limits.usd: is told by max_cost_usd");
	assert_false(fx_job_exists(x, "b"));
}

/* Clients of another kind say it so of any job. */
static void test_ack_status_of_a_plain_job(void **state)
{
	struct fx *x = *state;
	struct m_ack m = { 0 };

	fx_enqueue(x, "p", "q");
	fx_expect(x, "q", "p");
	MSG_SET(&m, ack, job_id, STR("p"));
	MSG_SET(&m, ack, ack_status, AGENT_CONTINUE);
	fx_refused(x, OP_ACK, &m, ERR_ACK_ERROR,
		   "ack_status: job \"p\" is not an agent job");
	MSG_SET(&m, ack, ack_status, AGENT_HOLD);
	MSG_SET(&m, ack, hold_reason, STR("look"));
	assert_int_equal(fx_do(x, OP_ACK, &m, NULL), 0);
	held_for(x, "p", "look");
	fx_job_op(x, OP_APPROVE, "p", "pending");
	fx_expect(x, "q", "p");
}

/* --- replay --- */

static void replay(struct fx *x, const char *id, uint32_t from,
		   const char *made)
{
	struct m_replay m = { 0 };
	struct m_enqueue_reply r;

	MSG_SET(&m, replay, job_id, str_from(id));
	MSG_SET(&m, replay, from, from);
	MSG_SET(&m, replay, new_job_id, str_from(made));
	assert_int_equal(fx_do(x, OP_REPLAY, &m, &r), 0);
	assert_str_is(r.job_id, made);
}

static void test_replay(void **state)
{
	struct fx *x = *state;
	const struct m_job *j;

	enqueue(x, "a", iterations(3));
	(void)take(x);
	ack_more(x, "a", AGENT_CONTINUE, STR("[1]"), 5);
	(void)take(x);
	ack_more(x, "a", AGENT_CONTINUE, large('2'), 5);
	(void)take(x);
	ack_more(x, "a", AGENT_DONE, STR("[3]"), 5);
	replay(x, "a", 1, "b");
	replay(x, "a", 2, "c");
	j = job(x, "a");
	assert_int_equal(j->agent->replays_n, 2);
	assert_str_is(j->agent->replays[0], "b");
	assert_str_is(j->agent->replays[1], "c");
	fx_timeline(x, "a",
		    "enqueued started usage continued started usage continued "
		    "started usage completed replayed replayed");
	j = job(x, "b");
	assert_str_is(j->agent->replay_of, "a");
	assert_int_equal(j->agent->replay_from, 1);
	assert_int_equal(j->agent->iteration, 1);
	assert_int_equal(j->agent->total_cost_usd, 0);
	assert_int_equal(j->agent->max_iterations, 3);
	assert_str_is(take(x).checkpoint, "[1]");
	assert_int_equal(take(x).checkpoint.n, LARGE_BYTES);
	ack(x, "b", AGENT_CONTINUE);
	assert_int_equal(rows(x, "b", 0, 9).iterations_n, 1);
	assert_int_equal(rows(x, "a", 0, 9).iterations_n, 3);
}

static void test_replays_that_cannot_be(void **state)
{
	struct fx *x = *state;
	struct m_replay m = { 0 };

	fx_enqueue(x, "p", "other");
	MSG_SET(&m, replay, job_id, STR("p"));
	MSG_SET(&m, replay, from, 1);
	MSG_SET(&m, replay, new_job_id, STR("new"));
	fx_refused(x, OP_REPLAY, &m, ERR_REPLAY_ERROR,
		   "job \"p\" is not an agent job");
	enqueue(x, "a", iterations(3));
	MSG_SET(&m, replay, job_id, STR("a"));
	fx_refused(x, OP_REPLAY, &m, ERR_REPLAY_ERROR,
		   "from: job \"a\" has no iteration 1");
	MSG_SET(&m, replay, from, 0);
	fx_refused(x, OP_REPLAY, &m, ERR_VALIDATION_ERROR, "from must be > 0");
	MSG_SET(&m, replay, job_id, STR("none"));
	fx_refused(x, OP_REPLAY, &m, ERR_NOT_FOUND, "job \"none\" not found");
	assert_false(fx_job_exists(x, "new"));
}

/* A job that is run again by hand goes on behind what it has. */
static void test_retried_by_hand(void **state)
{
	struct fx *x = *state;

	enqueue(x, "a", iterations(9));
	(void)take(x);
	ack(x, "a", AGENT_DONE);
	fx_job_op(x, OP_RETRY, "a", "retried");
	assert_int_equal(take(x).agent->iteration, 2);
	ack(x, "a", AGENT_DONE);
	assert_int_equal(rows(x, "a", 0, 9).iterations_n, 2);
}

/* --- checkpoints that stand apart --- */

/* The record of the job stays small, so that its changes do. */
static void test_a_large_checkpoint_is_written_once(void **state)
{
	struct fx *x = *state;
	struct m_heartbeat beats = { 0 };
	struct m_beat b = { 0 };
	const struct fsm_active *a;

	enqueue(x, "a", iterations(9));
	(void)take(x);
	ack_more(x, "a", AGENT_CONTINUE, large('1'), 5);
	assert_int_equal(take(x).checkpoint.n, LARGE_BYTES);
	a = active_find(x->side[FX_MEM].f, STR("a"));
	assert_true(a->live != NULL && a->live_n < 1024);
	fx_enqueue(x, "p", "q");
	fx_expect(x, "q", "p");
	MSG_SET(&b, beat, job_id, STR("p"));
	MSG_SET(&b, beat, checkpoint, large('2'));
	MSG_SET_LIST(&beats, heartbeat, jobs, &b, 1);
	assert_int_equal(fx_do(x, OP_HEARTBEAT, &beats, NULL), 0);
	a = active_find(x->side[FX_MEM].f, STR("p"));
	assert_true(a->live != NULL && a->live_n < 1024);
	assert_int_equal(job(x, "p")->checkpoint.n, LARGE_BYTES);
	fx_restart(x, FX_MEM);
	assert_int_equal(job(x, "p")->checkpoint.n, LARGE_BYTES);
	MSG_SET(&b, beat, checkpoint, STR("[\"small\"]"));
	assert_int_equal(fx_do(x, OP_HEARTBEAT, &beats, NULL), 0);
	assert_str_is(job(x, "p")->checkpoint, "[\"small\"]");
	assert_int_equal(fx_count_keys(&x->side[FX_MEM], "cp|"), 1);
	fx_job_op(x, OP_DELETE, "a", "deleted");
	assert_int_equal(fx_count_keys(&x->side[FX_MEM], "cp|"), 0);
}

static void test_a_large_first_checkpoint(void **state)
{
	struct fx *x = *state;
	struct m_enqueue m = fx_new("p", "q");

	MSG_SET(&m, enqueue, checkpoint, large('1'));
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
	assert_int_equal(job(x, "p")->checkpoint.n, LARGE_BYTES);
	assert_int_equal(take(x).checkpoint.n, LARGE_BYTES);
	fx_job_op(x, OP_DELETE, "p", "deleted");
	assert_int_equal(fx_count_keys(&x->side[FX_MEM], "cp|"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_loop_goes_on_until_it_is_done),
		TEST(test_an_iteration_has_all_its_attempts),
		TEST(test_pages),
		TEST(test_the_newest_iterations_are_kept),
		TEST(test_max_iterations),
		TEST(test_max_cost_and_units),
		TEST(test_a_worker_holds),
		TEST(test_iteration_timeout),
		TEST(test_refusals),
		TEST(test_ack_status_of_a_plain_job),
		TEST(test_replay),
		TEST(test_replays_that_cannot_be),
		TEST(test_retried_by_hand),
		TEST(test_a_large_checkpoint_is_written_once),
		TEST(test_a_large_first_checkpoint),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
