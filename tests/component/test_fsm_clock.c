/*
 * clock_set: what moves with a clock that is set, and what does not.
 */
#include "fsm/core/state.h"
#include "schedule_world.h"

#define HOUR_NS (3600 * NS_PER_S)

static void set_clock(struct fx *x, uint64_t to_ns)
{
	struct m_maintain_reply r;
	struct m_clock_set m = { 0 };

	MSG_SET(&m, clock_set, from_ns, x->now_ns);
	MSG_SET(&m, clock_set, to_ns, to_ns);
	x->now_ns = to_ns;
	assert_int_equal(fx_do(x, OP_CLOCK_SET, &m, &r), 0);
	while (r.more) {
		struct m_clock_set more = { 0 };

		assert_true(fsm_clock_is_moving(x->side[0].f));
		fx_restart(x, FX_ROCKS);
		assert_int_equal(fx_do(x, OP_CLOCK_SET, &more, &r), 0);
	}
	assert_false(fsm_clock_is_moving(x->side[0].f));
}

/* Taken for a minute, may run for ten seconds, waits two for a retry. */
static void take(struct fx *x, const char *id)
{
	struct m_enqueue m = fx_new(id, "q");
	struct m_fetched j;

	MSG_SET(&m, enqueue, timeout, 600 * NS_PER_S);
	MSG_SET(&m, enqueue, retry_backoff, BACKOFF_FIXED);
	MSG_SET(&m, enqueue, retry_base_delay, 2 * NS_PER_S);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
	assert_true(fx_fetch(x, "q", &j));
	assert_str_is(j.job_id, id);
}

static void fail_job(struct fx *x, const char *id)
{
	struct m_fail m = { 0 };

	MSG_SET(&m, fail, job_id, str_from(id));
	MSG_SET(&m, fail, error, STR("boom"));
	assert_int_equal(fx_do(x, OP_FAIL, &m, NULL), 0);
}

static void test_back_ends_are_a_period_away(void **state)
{
	struct fx *x = *state;
	uint64_t now = FX_START_NS - HOUR_NS;

	take(x, "job_1");
	take(x, "job_2");
	fail_job(x, "job_2");
	x->now_ns += NS_PER_S;
	set_clock(x, now);
	assert_int_equal(fx_job(x, "job_1")->lease_expires_at,
			 now + 60 * NS_PER_S);
	assert_int_equal(fx_job(x, "job_1")->timeout_at, now + 600 * NS_PER_S);
	assert_int_equal(fx_job(x, "job_2")->scheduled_at, now + 2 * NS_PER_S);
	x->now_ns += 2 * NS_PER_S;
	assert_int_equal(fx_maintain(x, OP_PROMOTE, 0, NULL), 1);
	x->now_ns += 58 * NS_PER_S;
	assert_int_equal(fx_maintain(x, OP_RECLAIM, 0, NULL), 1);
	fx_timeline(x, "job_1", "enqueued started clock_set reclaimed");
}

/* Of what was left of them nothing is lost or won. */
static void test_forward_ends_move_along(void **state)
{
	struct fx *x = *state;

	take(x, "job_1");
	x->now_ns += 20 * NS_PER_S;
	set_clock(x, x->now_ns + HOUR_NS);
	assert_int_equal(fx_job(x, "job_1")->lease_expires_at,
			 x->now_ns + 40 * NS_PER_S);
	assert_int_equal(fx_job(x, "job_1")->timeout_at,
			 x->now_ns + 580 * NS_PER_S);
	x->now_ns += 40 * NS_PER_S - 1;
	assert_int_equal(fx_maintain(x, OP_RECLAIM, 0, NULL), 0);
	x->now_ns += 1;
	assert_int_equal(fx_maintain(x, OP_RECLAIM, 0, NULL), 1);
}

/* Many jobs: nothing is taken back before the last of them has moved. */
static void test_reclaim_waits_until_all_have_moved(void **state)
{
	struct fx *x = *state;
	struct m_clock_set m = { 0 }, more = { 0 };
	struct m_maintain_reply r;
	struct m_due_reply due = { 0 };
	char id[16];

	for (int i = 0; i < 600; i++) {
		(void)snprintf(id, sizeof(id), "job_%03d", i);
		x->unchecked = i % 100 != 0;
		take(x, id);
	}
	MSG_SET(&m, clock_set, from_ns, x->now_ns);
	x->now_ns += HOUR_NS;
	MSG_SET(&m, clock_set, to_ns, x->now_ns);
	assert_int_equal(fx_do(x, OP_CLOCK_SET, &m, &r), 0);
	assert_true(r.more);
	assert_int_equal(fx_maintain(x, OP_RECLAIM, 0, NULL), 0);
	fsm_due(x->side[0].f, &due);
	assert_int_equal(due.reclaim_ns, 0);
	fx_refused(x, OP_CLOCK_SET, &m, ERR_CONFLICT,
		   "the clock was set before, and not everything has moved "
		   "with it yet");
	fx_restart(x, FX_ROCKS);
	while (r.more)
		assert_int_equal(fx_do(x, OP_CLOCK_SET, &more, &r), 0);
	assert_int_equal(fx_maintain(x, OP_RECLAIM, 0, NULL), 0);
	x->unchecked = false;
	x->now_ns += 60 * NS_PER_S;
	assert_int_equal(fx_maintain(x, OP_RECLAIM, 0, NULL), 600);
}

/* The walk has been where they go: they do not keep the time to come. */
static void test_a_job_that_is_moved_meanwhile(void **state)
{
	struct fx *x = *state;
	struct m_clock_set m = { 0 }, more = { 0 };
	struct m_move move = { 0 };
	struct m_maintain_reply r;
	struct m_fetched j;
	char id[16];

	for (int i = 0; i < 300; i++) {
		(void)snprintf(id, sizeof(id), "job_%03d", i);
		x->unchecked = i % 100 != 0;
		take(x, id);
	}
	fx_enqueue(x, "job_0", "z");
	assert_true(fx_fetch(x, "z", &j));
	x->unchecked = false;
	MSG_SET(&m, clock_set, from_ns, x->now_ns);
	x->now_ns -= HOUR_NS;
	MSG_SET(&m, clock_set, to_ns, x->now_ns);
	assert_int_equal(fx_do(x, OP_CLOCK_SET, &m, &r), 0);
	assert_true(r.more);
	MSG_SET(&move, move, job_id, STR("job_0"));
	MSG_SET(&move, move, queue, STR("a"));
	assert_int_equal(fx_do(x, OP_MOVE, &move, NULL), 0);
	while (r.more)
		assert_int_equal(fx_do(x, OP_CLOCK_SET, &more, &r), 0);
	assert_int_equal(fx_job(x, "job_0")->lease_expires_at,
			 x->now_ns + 60 * NS_PER_S);
	x->now_ns += 60 * NS_PER_S;
	assert_int_equal(fx_maintain(x, OP_RECLAIM, 0, NULL), 301);
}

/* Times that were chosen stay; keys and locks last longer, never shorter. */
static void test_chosen_times_stay(void **state)
{
	struct fx *x = *state;
	struct m_enqueue m = fx_new("job_1", "q");

	MSG_SET(&m, enqueue, scheduled_at, FX_START_NS + HOUR_NS);
	MSG_SET(&m, enqueue, expire_after, 2 * HOUR_NS);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
	set_clock(x, FX_START_NS - HOUR_NS);
	assert_int_equal(fx_job(x, "job_1")->scheduled_at,
			 FX_START_NS + HOUR_NS);
	set_clock(x, FX_START_NS + HOUR_NS);
	assert_int_equal(fx_maintain(x, OP_PROMOTE, 0, NULL), 1);
	assert_int_equal(fx_maintain(x, OP_EXPIRE, 0, NULL), 0);
	set_clock(x, FX_START_NS + 2 * HOUR_NS);
	assert_int_equal(fx_maintain(x, OP_EXPIRE, 0, NULL), 1);
}

static void test_back_schedule_is_planned_again(void **state)
{
	struct fx *x = *state;
	struct m_due_reply due = { 0 };
	struct m_schedule s = definition("s1", "one");
	struct m_fire stale, m;

	create(x, &s);
	stale = plan(x, "s1", "job_1");
	set_clock(x, FX_START_NS - HOUR_NS);
	fsm_due(x->side[0].f, &due);
	assert_int_equal(due.fire_ns, 1); /* at once */
	expect_fire(x, &stale, "void", "");
	m = plan(x, "s1", "job_1");
	MSG_SET(&m, fire, again, true);
	MSG_SET(&m, fire, next_ns, x->now_ns + NS_PER_S);
	expect_fire(x, &m, "planned", "");
	expect_fire(x, &m, "void", "");
	assert_int_equal(get(x, "s1").next_run, x->now_ns + NS_PER_S);
	assert_int_equal(get(x, "s1").runs, 0);
	fire(x, "s1", "job_1");
}

/* A rate does not wait for the clock to catch up. */
static void test_back_rate_goes_on(void **state)
{
	struct fx *x = *state;
	struct m_set_queue m = { 0 };
	struct m_fetched j;

	MSG_SET(&m, set_queue, queue, STR("q"));
	MSG_SET(&m, set_queue, rate, 1);
	MSG_SET(&m, set_queue, period, 10 * NS_PER_S);
	assert_int_equal(fx_do(x, OP_SET_QUEUE, &m, NULL), 0);
	for (int i = 0; i < 3; i++) {
		char id[16];

		(void)snprintf(id, sizeof(id), "job_%d", i);
		fx_enqueue(x, id, "q");
	}
	assert_true(fx_fetch(x, "q", &j));
	assert_false(fx_fetch(x, "q", &j));
	set_clock(x, FX_START_NS - HOUR_NS);
	assert_true(fx_fetch(x, "q", &j));
	assert_false(fx_fetch(x, "q", &j));
	x->now_ns += 11 * NS_PER_S;
	assert_true(fx_fetch(x, "q", &j));
}

/* What it may take is the limit of an iteration, if the job has no other. */
static void test_an_iteration_goes_on(void **state)
{
	struct m_enqueue m = fx_new("job_1", "q");
	struct m_agent a = { 0 };
	struct fx *x = *state;

	MSG_SET(&a, agent, iteration_timeout, 600 * NS_PER_S);
	MSG_SET(&m, enqueue, agent, &a);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
	fx_expect(x, "q", "job_1");
	x->now_ns += 5 * NS_PER_S;
	set_clock(x, x->now_ns + HOUR_NS);
	assert_int_equal(fx_job(x, "job_1")->timeout_at,
			 x->now_ns + 595 * NS_PER_S);
	assert_int_equal(fx_maintain(x, OP_RECLAIM, 0, NULL), 0);
	set_clock(x, x->now_ns - 2 * HOUR_NS);
	assert_int_equal(fx_job(x, "job_1")->timeout_at,
			 x->now_ns + 600 * NS_PER_S);
	assert_int_equal(fx_maintain(x, OP_RECLAIM, 0, NULL), 0);
	fx_expect_state(x, "job_1", JOB_ACTIVE);
}

static void test_now_is_stored(void **state)
{
	struct fx *x = *state;

	fx_enqueue(x, "job_1", "q");
	fx_restart(x, FX_ROCKS);
	assert_int_equal(fsm_now_ns(x->side[FX_ROCKS].f), x->now_ns);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fx_setup, fx_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_back_ends_are_a_period_away),
		TEST(test_forward_ends_move_along),
		TEST(test_reclaim_waits_until_all_have_moved),
		TEST(test_a_job_that_is_moved_meanwhile),
		TEST(test_chosen_times_stay),
		TEST(test_back_schedule_is_planned_again),
		TEST(test_back_rate_goes_on),
		TEST(test_now_is_stored),
		cmocka_unit_test_setup_teardown(test_an_iteration_goes_on,
						fx_setup_level, fx_teardown),
	};

	return cmocka_run_group_tests_name("fsm_clock", tests, NULL, NULL);
}
