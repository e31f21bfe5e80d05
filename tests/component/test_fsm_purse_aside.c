/*
 * Budgets of tags and groups: jobs they have no room for are set aside, and
 * nobody else; they come back by themselves, and when the budget changes.
 */
#include "fsm/core/state.h"
#include "fsm_fixture.h"

#define HOUR (3600 * NS_PER_S)
#define DAY  (24 * HOUR)
#define USD  NS_PER_S /* billionths */
#define RED  "{\"team\":\"red\"}"
#define BLUE "{\"team\":\"blue\"}"
#define MANY (3 * LIMIT_ENTRY_JOBS_2) /* more than one entry takes back */

#define TEST(fn) \
	cmocka_unit_test_setup_teardown(fn, fx_setup_level, fx_teardown)

static void set_red(struct fx *x, enum budget_action action, uint64_t usd)
{
	struct m_budget m = { 0 };

	MSG_SET(&m, budget, scope, BUDGET_TAG);
	MSG_SET(&m, budget, target, STR("team:red"));
	MSG_SET(&m, budget, on_exceed, action);
	MSG_SET(&m, budget, daily_usd, usd);
	assert_int_equal(fx_do(x, OP_SET_BUDGET, &m, NULL), 0);
}

static void enqueue(struct fx *x, const char *id, const char *tags,
		    uint64_t expected)
{
	struct m_enqueue m = fx_new(id, "q");

	MSG_SET(&m, enqueue, tags, str_from(tags));
	if (expected > 0)
		MSG_SET(&m, enqueue, expected_cost, expected);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
}

static void ack(struct fx *x, const char *id, uint64_t cost)
{
	struct m_usage u = { 0 };
	struct m_ack m = { 0 };

	MSG_SET(&u, usage, cost_usd, cost);
	MSG_SET(&m, ack, job_id, str_from(id));
	MSG_SET(&m, ack, usage, &u);
	assert_int_equal(fx_do(x, OP_ACK, &m, NULL), 0);
}

/* The budget is spent, by a job of its own. */
static void spend_red(struct fx *x, uint64_t usd)
{
	set_red(x, BUDGET_HOLD, usd);
	enqueue(x, "spends", RED, 0);
	fx_expect(x, "q", "spends");
	ack(x, "spends", usd);
}

static bool never(void *ctx _unused_, struct str queue _unused_)
{
	return false;
}

static void expect_why(struct fx *x, const char *id, const char *code,
		       uint64_t until)
{
	struct fsm_why ask = { .job_id = str_from(id),
			       .now_ns = x->now_ns,
			       .is_fetched = never };
	struct m_why_reply r = { 0 };

	assert_int_equal(fsm_why(x->side[FX_MEM].f, &ask, &x->arena, &r), 1);
	assert_str_is(r.reasons[0].code, code);
	assert_int_equal(r.reasons[0].until, until);
}

static void test_jobs_of_a_spent_tag_come_back_with_the_day(void **state)
{
	struct fx *x = *state;
	uint64_t midnight = FX_START_NS - FX_START_NS % DAY + DAY;

	spend_red(x, USD);
	enqueue(x, "red", RED, 0);
	enqueue(x, "blue", BLUE, 0);
	fx_expect(x, "q", "blue");
	fx_expect_none(x, "q");
	fx_expect_state(x, "red", JOB_SCHEDULED);
	assert_int_equal(fx_job(x, "red")->scheduled_at, midnight);
	expect_why(x, "red", "budget", midnight);
	fx_restart(x, FX_ROCKS);
	x->now_ns = midnight - 1;
	assert_int_equal(fx_maintain(x, OP_PROMOTE, 0, NULL), 0);
	x->now_ns = midnight;
	assert_int_equal(fx_maintain(x, OP_PROMOTE, 0, NULL), 1);
	fx_expect(x, "q", "red");
	fx_timeline(x, "red", "enqueued set_aside promoted started");
}

/* They keep their place. */
static void test_jobs_that_come_back_stand_where_they_stood(void **state)
{
	struct fx *x = *state;

	spend_red(x, USD);
	enqueue(x, "red", RED, 0);
	fx_expect_none(x, "q");
	enqueue(x, "blue", BLUE, 0);
	x->now_ns += DAY;
	assert_int_equal(fx_maintain(x, OP_PROMOTE, 0, NULL), 1);
	fx_expect(x, "q", "red");
	fx_expect(x, "q", "blue");
}

static void test_what_is_reserved_stops_nobody_else(void **state)
{
	struct fx *x = *state;

	set_red(x, BUDGET_HOLD, 10 * USD);
	enqueue(x, "runs", RED, 9 * USD);
	fx_expect(x, "q", "runs");
	enqueue(x, "red", RED, 5 * USD);
	enqueue(x, "blue", BLUE, 0);
	fx_expect(x, "q", "blue");
	fx_expect_state(x, "red", JOB_SCHEDULED);
	assert_int_equal(fx_job(x, "red")->scheduled_at, x->now_ns + NS_PER_S);
	ack(x, "runs", USD);
	x->now_ns += NS_PER_S;
	assert_int_equal(fx_maintain(x, OP_PROMOTE, 0, NULL), 1);
	fx_expect(x, "q", "red");
}

static void test_a_throttle_stops_nobody_else(void **state)
{
	struct fx *x = *state;

	x->now_ns = FX_START_NS - FX_START_NS % DAY + HOUR;
	set_red(x, BUDGET_THROTTLE, 10 * USD);
	enqueue(x, "first", RED, USD);
	fx_expect(x, "q", "first");
	ack(x, "first", USD);
	enqueue(x, "red", RED, USD);
	enqueue(x, "blue", BLUE, 0);
	fx_expect(x, "q", "blue");
	fx_expect_state(x, "red", JOB_SCHEDULED);
	x->now_ns = fx_job(x, "red")->scheduled_at;
	assert_in_range(x->now_ns, FX_START_NS - FX_START_NS % DAY + 2 * HOUR,
			FX_START_NS - FX_START_NS % DAY + 5 * HOUR);
	assert_int_equal(fx_maintain(x, OP_PROMOTE, 0, NULL), 1);
	fx_expect(x, "q", "red");
}

/* Many that wait for one that runs do not come back all at once. */
static void test_those_that_look_again_come_in_turn(void **state)
{
	uint64_t last = 0;
	struct fx *x = *state;

	set_red(x, BUDGET_HOLD, 10 * USD);
	enqueue(x, "runs", RED, 9 * USD);
	fx_expect(x, "q", "runs");
	enqueue(x, "a", RED, 5 * USD);
	enqueue(x, "b", RED, 5 * USD);
	enqueue(x, "c", RED, 5 * USD);
	fx_expect_none(x, "q");
	for (const char *id = "abc"; *id != '\0'; id++) {
		const char name[2] = { *id, '\0' };
		uint64_t at = fx_job(x, name)->scheduled_at;

		assert_true(at > last && at <= x->now_ns + 2 * NS_PER_S);
		last = at;
	}
}

static void delete_red(struct fx *x)
{
	struct m_budget_ref m = { 0 };

	MSG_SET(&m, budget_ref, scope, STR("tag"));
	MSG_SET(&m, budget_ref, target, STR("team:red"));
	assert_int_equal(fx_do(x, OP_DELETE_BUDGET, &m, NULL), 0);
}

static void test_a_changed_budget_takes_them_back(void **state)
{
	struct fx *x = *state;

	spend_red(x, USD);
	enqueue(x, "one", RED, 0);
	fx_expect_none(x, "q");
	set_red(x, BUDGET_HOLD, 5 * USD);
	fx_expect(x, "q", "one");
	ack(x, "one", 5 * USD);
	enqueue(x, "two", RED, 0);
	fx_expect_none(x, "q");
	fx_restart(x, FX_ROCKS);
	delete_red(x);
	fx_expect(x, "q", "two");
}

/* One fetch looks at so many and goes on in the next entry. */
static void set_all_aside(struct fx *x)
{
	struct str queue = STR("q");
	struct m_fetch_reply r;
	struct m_fetch m = { 0 };
	int err;

	MSG_SET_LIST(&m, fetch, queues, &queue, 1);
	do
		err = fx_do(x, OP_FETCH, &m, &r);
	while (err == FSM_AGAIN);
	assert_int_equal(err, 0);
	assert_int_equal(r.jobs_n, 0);
}

static void set_many_aside(struct fx *x, uint64_t usd)
{
	spend_red(x, usd);
	x->unchecked = true;
	for (int i = 0; i < MANY; i++) {
		char id[16];

		(void)snprintf(id, sizeof(id), "job_%04d", i);
		enqueue(x, id, RED, 0);
	}
	set_all_aside(x);
	assert_int_equal(x->side[FX_MEM].f->jobs[JOB_SCHEDULED], MANY);
}

/* Others may wait for a bulk of jobs to come back: entries stay short. */
static void test_many_are_taken_back_in_portions(void **state)
{
	struct m_budget_ref m = { 0 };
	struct fx *x = *state;
	int r, entries = 0;

	set_many_aside(x, USD);
	MSG_SET(&m, budget_ref, scope, STR("tag"));
	MSG_SET(&m, budget_ref, target, STR("team:red"));
	r = fx_do(x, OP_DELETE_BUDGET, &m, NULL);
	for (; r == FSM_AGAIN && entries < 5; entries++) {
		fx_restart(x, FX_ROCKS);
		r = fx_resend(x, OP_DELETE_BUDGET, &m, NULL);
	}
	assert_int_equal(r, 0);
	assert_in_range(entries, 1, 4);
	assert_int_equal(x->side[FX_MEM].f->jobs[JOB_SCHEDULED], 0);
	fx_check_same(x);
	fx_check_side(&x->side[FX_ROCKS]);
}

/* The budget is still spent: who waits for jobs has those set aside again that
 * came back, before the next portion. Each comes back once. */
static void test_taking_back_ends_beside_fetches(void **state)
{
	struct m_budget m = { 0 };
	struct fx *x = *state;
	int r, entries = 0;

	set_many_aside(x, 2 * USD);
	MSG_SET(&m, budget, scope, BUDGET_TAG);
	MSG_SET(&m, budget, target, STR("team:red"));
	MSG_SET(&m, budget, on_exceed, BUDGET_HOLD);
	MSG_SET(&m, budget, daily_usd, USD);
	r = fx_do(x, OP_SET_BUDGET, &m, NULL);
	for (; r == FSM_AGAIN && entries < 40; entries++) {
		set_all_aside(x);
		r = fx_resend(x, OP_SET_BUDGET, &m, NULL);
	}
	assert_int_equal(r, 0);
}

/* What happens to one meanwhile leaves nothing behind. */
static void test_jobs_that_are_set_aside_may_go(void **state)
{
	struct m_move to = { 0 };
	struct fx *x = *state;

	spend_red(x, USD);
	enqueue(x, "cancelled", RED, 0);
	enqueue(x, "deleted", RED, 0);
	enqueue(x, "moved", RED, 0);
	enqueue(x, "held", RED, 0);
	fx_expect_none(x, "q");
	fx_job_op(x, OP_CANCEL, "cancelled", "cancelled");
	fx_job_op(x, OP_DELETE, "deleted", "deleted");
	MSG_SET(&to, move, job_id, STR("moved"));
	MSG_SET(&to, move, queue, STR("other"));
	assert_int_equal(fx_do(x, OP_MOVE, &to, NULL), 0);
	fx_job_op(x, OP_HOLD, "held", "held");
	delete_red(x);
	fx_expect(x, "other", "moved");
	fx_expect_none(x, "q");
	assert_int_equal(fx_count_keys(&x->side[FX_MEM], "ba|"), 0);
}

/* A tag's value may hold any character: none is the end of it. */
static void test_a_value_with_a_nul_is_another_value(void **state)
{
	struct fx *x = *state;
	struct m_budget m = { 0 };

	set_red(x, BUDGET_HOLD, USD);
	enqueue(x, "job_1", "{\"team\":\"red\\u0000x\"}", 0);
	fx_expect(x, "q", "job_1");
	ack(x, "job_1", 2 * USD);
	enqueue(x, "job_2", RED, 0);
	fx_expect(x, "q", "job_2");
	MSG_SET(&m, budget, scope, BUDGET_TAG);
	MSG_SET(&m, budget, target, STR("team:red\0x"));
	MSG_SET(&m, budget, on_exceed, BUDGET_HOLD);
	MSG_SET(&m, budget, daily_usd, USD);
	fx_refused(x, OP_SET_BUDGET, &m, ERR_VALIDATION_ERROR,
		   "target: must be a tag and its value, as name:value, "
		   "without the character U+0000");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_jobs_of_a_spent_tag_come_back_with_the_day),
		TEST(test_jobs_that_come_back_stand_where_they_stood),
		TEST(test_what_is_reserved_stops_nobody_else),
		TEST(test_a_throttle_stops_nobody_else),
		TEST(test_those_that_look_again_come_in_turn),
		TEST(test_a_changed_budget_takes_them_back),
		TEST(test_many_are_taken_back_in_portions),
		TEST(test_taking_back_ends_beside_fetches),
		TEST(test_jobs_that_are_set_aside_may_go),
		TEST(test_a_value_with_a_nul_is_another_value),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
