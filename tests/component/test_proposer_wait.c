/*
 * Fetches that wait: until their time is over, and until a queue with a rate
 * may hand out its next job. See proposer_world.h.
 */
#include "fsm_level.h"
#include "proposer_world.h"

#define SHORT_NS  (30 * NS_PER_MS)
#define PERIOD_NS (50 * NS_PER_MS)
#define GIVEN_UP  (20 * NS_PER_S)

struct waiting {
	struct fixture *f;
	size_t replies; /* so many end it */
};

/* The log is written at once. */
static void on_turn_end(void *ctx)
{
	struct waiting *w = ctx;

	pump_and_commit_all(w->f);
	if (w->f->replies_n >= w->replies)
		loop_stop(w->f->loop);
}

static void give_up(void *ctx)
{
	struct fixture *f = ctx;

	loop_stop(f->loop);
}

static void wait_for_replies(struct fixture *f, size_t n)
{
	struct waiting w = { f, n };
	struct loop_timer *t = loop_timer_add(f->loop, give_up, f);

	loop_timer_arm(t, GIVEN_UP);
	loop_on_turn_end(f->loop, on_turn_end, &w);
	pump_and_commit_all(f);
	loop_run(f->loop);
	loop_timer_remove(t);
	assert_int_equal(f->replies_n, n);
}

/* Each of them: the moment of the next one is another. */
static void waits_end_in_time_and_not_early(void **state)
{
	struct fixture *f = *state;
	uint64_t begin = clock_mono_ns();
	struct rpc_req first = fetch(f, PEER_A, "q", SHORT_NS);
	struct rpc_req second = fetch(f, PEER_A, "q", 2 * SHORT_NS);

	wait_for_replies(f, 2);
	assert_int_equal(jobs_given(f, first), 0);
	assert_int_equal(jobs_given(f, second), 0);
	assert_true(clock_mono_ns() - begin >= 2 * SHORT_NS);
}

/* Its client waits for less than op_timeout; it may also come again. */
static void one_may_say_how_long_before_its_deadline_it_ends(void **state)
{
	struct fixture *f = *state;
	uint64_t begin = clock_mono_ns();
	struct str q = STR("q");
	struct rpc_req first, again;
	struct m_fetch m;

	test_set_level(f->fsm, 2);
	f->s.op_timeout = GIVEN_UP;
	f->deadline_ns = begin + GIVEN_UP;
	fill_fetch(&m, &q, SHORT_NS, 1);
	MSG_SET(&m, fetch, margin, GIVEN_UP - 2 * SHORT_NS);
	first = submit(f, PEER_A, OP_FETCH, &m, "q");
	MSG_SET(&m, fetch, timeout, GIVEN_UP);
	MSG_SET(&m, fetch, fetch_id, 2);
	again = submit_flags(f, PEER_A, OP_FETCH, &m, "q", FRAME_RESEND);
	wait_for_replies(f, 2);
	assert_int_equal(jobs_given(f, first), 0);
	assert_int_equal(jobs_given(f, again), 0);
	assert_true(clock_mono_ns() - begin >= 2 * SHORT_NS);
}

static void set_rate(struct fixture *f)
{
	struct m_set_queue m = { 0 };

	MSG_SET(&m, set_queue, queue, STR("q"));
	MSG_SET(&m, set_queue, rate, 1);
	MSG_SET(&m, set_queue, period, PERIOD_NS);
	submit(f, PEER_A, OP_SET_QUEUE, &m, "q");
}

/* As often as there is one: the second wait for it is as good as the first. */
static void a_rate_wakes_each_that_waits(void **state)
{
	struct fixture *f = *state;
	struct rpc_req w[3];
	size_t before;

	set_rate(f);
	enqueue(f, "job_1", "q");
	enqueue(f, "job_2", "q");
	enqueue(f, "job_3", "q");
	pump_and_commit_all(f);
	before = f->replies_n;
	for (size_t i = 0; i < ARRAY_SIZE(w); i++)
		w[i] = fetch(f, PEER_A, "q", GIVEN_UP);
	wait_for_replies(f, before + ARRAY_SIZE(w));
	for (size_t i = 0; i < ARRAY_SIZE(w); i++)
		assert_int_equal(jobs_given(f, w[i]), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(waits_end_in_time_and_not_early),
		CASE(one_may_say_how_long_before_its_deadline_it_ends),
		CASE(a_rate_wakes_each_that_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
