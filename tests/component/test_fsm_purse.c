/*
 * Budgets: what they count, what is refused, held and slowed down, and what
 * jobs that run hold of them. test_fsm_purse_chance.c has many workers
 * together.
 */
#include "fsm/core/state.h"
#include "fsm/ties/purse.h"
#include "fsm_fixture.h"

#define HOUR (3600 * NS_PER_S)
#define DAY  (24 * HOUR)
#define USD  NS_PER_S /* billionths */

#define TEST(fn) \
	cmocka_unit_test_setup_teardown(fn, fx_setup_level, fx_teardown)

/* --- short forms --- */

static struct m_budget budget(enum budget_scope scope, const char *target,
			      enum budget_action action)
{
	struct m_budget m = { 0 };

	MSG_SET(&m, budget, scope, scope);
	if (target[0] != '\0')
		MSG_SET(&m, budget, target, str_from(target));
	MSG_SET(&m, budget, on_exceed, action);
	return m;
}

static void set(struct fx *x, const struct m_budget *m)
{
	assert_int_equal(fx_do(x, OP_SET_BUDGET, m, NULL), 0);
}

static void set_daily(struct fx *x, enum budget_scope scope, const char *target,
		      enum budget_action action, uint64_t usd)
{
	struct m_budget m = budget(scope, target, action);

	MSG_SET(&m, budget, daily_usd, usd);
	set(x, &m);
}

static void set_window(struct fx *x, const char *queue, uint64_t usd,
		       uint64_t window)
{
	struct m_budget m = budget(BUDGET_QUEUE, queue, BUDGET_HOLD);
	struct m_budget_limit l = { 0 };

	MSG_SET(&l, budget_limit, per, BUDGET_PER_WINDOW);
	MSG_SET(&l, budget_limit, window, window);
	MSG_SET(&l, budget_limit, amount, usd);
	MSG_SET_LIST(&m, budget, limits, &l, 1);
	set(x, &m);
}

static void enqueue(struct fx *x, const char *id, const char *tags,
		    const char *group, uint64_t expected)
{
	struct m_enqueue m = fx_new(id, "q");

	if (tags != NULL)
		MSG_SET(&m, enqueue, tags, str_from(tags));
	if (group != NULL)
		MSG_SET(&m, enqueue, group, str_from(group));
	if (expected > 0)
		MSG_SET(&m, enqueue, expected_cost, expected);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
}

static int ack(struct fx *x, struct str id, uint64_t cost)
{
	struct m_usage u = { 0 };
	struct m_ack m = { 0 };

	MSG_SET(&u, usage, cost_usd, cost);
	MSG_SET(&m, ack, job_id, id);
	MSG_SET(&m, ack, usage, &u);
	return fx_do(x, OP_ACK, &m, NULL);
}

static int fetch(struct fx *x, const char *queue, const char *other)
{
	struct str queues[2] = { str_from(queue), str_from(other) };
	struct m_fetch_reply r;
	struct m_fetch m = { 0 };
	int err;

	MSG_SET_LIST(&m, fetch, queues, queues, other[0] != '\0' ? 2 : 1);
	MSG_SET(&m, fetch, worker_id, STR("w1"));
	err = fx_do(x, OP_FETCH, &m, &r);
	return err != 0 ? -err : (int)r.jobs_n;
}

/* One job of q that cost so much. */
static void spend(struct fx *x, const char *id, uint64_t cost)
{
	enqueue(x, id, NULL, NULL, 0);
	fx_expect(x, "q", id);
	assert_int_equal(ack(x, str_from(id), cost), 0);
}

static const struct m_budget *shown(struct fx *x, size_t i)
{
	struct m_budget_list *list = arena_zalloc(&x->arena, sizeof(*list));

	fsm_budgets(x->side[FX_MEM].f, x->now_ns, &x->arena, list);
	assert_true(i < list->budgets_n);
	return &list->budgets[i];
}

static size_t events_of(struct fx *x, enum event_type type)
{
	struct m_events_reply r;
	size_t n = 0;

	assert_int_equal(
	    record_events(x->side[FX_MEM].kv, 0, 1000, &x->arena, &r), 0);
	for (size_t i = 0; i < r.events_n; i++)
		n += r.events[i].type == type;
	return n;
}

/* --- periods --- */

static void test_a_spent_day_holds_the_queue_until_the_next(void **state)
{
	struct fx *x = *state;
	struct fsm *f = x->side[FX_MEM].f;

	x->now_ns = FX_START_NS - FX_START_NS % DAY + 12 * HOUR;
	set_daily(x, BUDGET_QUEUE, "q", BUDGET_HOLD, 10 * USD);
	spend(x, "job_1", 4 * USD);
	assert_int_equal(shown(x, 0)->state[0].forecast, 8 * USD);
	spend(x, "job_2", 7 * USD);
	assert_int_equal(shown(x, 0)->state[0].spent, 11 * USD);
	assert_true(shown(x, 0)->state[0].exceeded);
	assert_int_equal(events_of(x, EVENT_BUDGET_EXCEEDED), 1);
	enqueue(x, "job_3", NULL, NULL, 0);
	fx_expect_none(x, "q");
	fx_expect_state(x, "job_3", JOB_PENDING);
	assert_int_equal(fsm_queue_takeable(f, STR("q"), x->now_ns), 0);
	assert_false(fsm_queue_is_open(f, STR("q"), x->now_ns));
	/* time alone opens it: somebody looks then */
	assert_int_equal(fsm_look_ns(f), FX_START_NS - FX_START_NS % DAY + DAY);
	fx_restart(x, FX_ROCKS);
	x->now_ns = FX_START_NS - FX_START_NS % DAY + DAY;
	assert_int_equal(
	    fsm_queue_takeable(x->side[FX_MEM].f, STR("q"), x->now_ns), 1);
	fx_expect(x, "q", "job_3");
	assert_int_equal(shown(x, 0)->state[0].spent, 0);
}

static void test_a_month_is_a_month_of_the_calendar(void **state)
{
	struct fx *x = *state;
	struct m_budget m = budget(BUDGET_GLOBAL, "", BUDGET_HOLD);
	struct m_budget_limit l = { 0 };

	MSG_SET(&l, budget_limit, per, BUDGET_PER_MONTH);
	MSG_SET(&l, budget_limit, unit, STR("tokens"));
	MSG_SET(&l, budget_limit, amount, 100 * USD);
	MSG_SET_LIST(&m, budget, limits, &l, 1);
	set(x, &m);
	/* 2023-12-01 */
	assert_int_equal(shown(x, 0)->state[0].until, 1701388800 * NS_PER_S);
	assert_str_is(shown(x, 0)->target, "*");
}

static void test_a_window_rolls(void **state)
{
	struct fx *x = *state;

	x->now_ns -= x->now_ns % HOUR;
	set_window(x, "q", 10 * USD, HOUR);
	spend(x, "job_1", 6 * USD);
	x->now_ns += HOUR / 2;
	spend(x, "job_2", 6 * USD);
	enqueue(x, "job_3", NULL, NULL, 0);
	fx_expect_none(x, "q");
	fx_restart(x, FX_ROCKS);
	x->now_ns += HOUR / 2 - 1; /* the slot of the first is in it still */
	fx_expect_none(x, "q");
	x->now_ns += HOUR / 59 + 2;
	assert_int_equal(shown(x, 0)->state[0].spent, 6 * USD);
	fx_expect(x, "q", "job_3");
	x->now_ns += 3 * HOUR;
	assert_int_equal(shown(x, 0)->state[0].spent, 0);
	assert_int_equal(ack(x, STR("job_3"), USD), 0);
	assert_int_equal(shown(x, 0)->state[0].spent, USD);
}

static void test_a_budget_that_is_raised_opens_the_queue(void **state)
{
	struct fx *x = *state;

	set_daily(x, BUDGET_QUEUE, "q", BUDGET_HOLD, USD);
	spend(x, "job_1", USD);
	enqueue(x, "job_2", NULL, NULL, 0);
	fx_expect_none(x, "q");
	set_daily(x, BUDGET_QUEUE, "q", BUDGET_HOLD, 2 * USD);
	assert_int_equal(shown(x, 0)->state[0].spent, USD);
	assert_int_equal(
	    fsm_queue_takeable(x->side[FX_MEM].f, STR("q"), x->now_ns), 1);
	fx_expect(x, "q", "job_2");
}

/* --- actions --- */

static void test_alert_only_tells(void **state)
{
	struct fx *x = *state;

	set_daily(x, BUDGET_GLOBAL, "", BUDGET_ALERT_03, USD);
	spend(x, "job_1", 2 * USD);
	spend(x, "job_2", 2 * USD);
	assert_int_equal(events_of(x, EVENT_BUDGET_EXCEEDED), 1);
	assert_int_equal(shown(x, 0)->on_exceed, BUDGET_ALERT);
}

static void test_a_refusal_comes_only_when_no_other_queue_has_work(void **state)
{
	struct fx *x = *state;

	set_daily(x, BUDGET_QUEUE, "q", BUDGET_REJECT, USD);
	spend(x, "job_1", USD);
	assert_int_equal(fetch(x, "q", ""), 0); /* there is nothing to refuse */
	enqueue(x, "job_2", NULL, NULL, 0);
	assert_int_equal(fetch(x, "q", ""), -ERR_BUDGET_EXCEEDED);
	assert_str_is(x->replies[0].body,
		      "budget exceeded: budget of queue \"q\": 1 of 1 usd per "
		      "day are spent");
	assert_int_equal(fetch(x, "q", "other"), -ERR_BUDGET_EXCEEDED);
	fx_enqueue(x, "job_3", "other");
	assert_int_equal(fetch(x, "q", "other"), 1);
	fx_expect_state(x, "job_2", JOB_PENDING);
}

/* test_fsm_purse_aside.c has what becomes of them. */
static void test_jobs_of_a_spent_tag_or_group_are_set_aside(void **state)
{
	struct fx *x = *state;

	set_daily(x, BUDGET_TAG, "team=red", BUDGET_HOLD, USD);
	set_daily(x, BUDGET_GROUP, "g1", BUDGET_HOLD, USD);
	enqueue(x, "job_1", "{\"team\":\"red\"}", NULL, 0);
	fx_expect(x, "q", "job_1");
	assert_int_equal(ack(x, STR("job_1"), USD), 0);
	enqueue(x, "job_2", "{\"team\":\"red\"}", NULL, 0);
	enqueue(x, "job_3", "{\"team\":\"blue\"}", NULL, 0);
	fx_expect(x, "q", "job_3");
	fx_expect_state(x, "job_2", JOB_SCHEDULED);
	enqueue(x, "job_4", NULL, "g1", 0);
	fx_expect(x, "q", "job_4");
	assert_int_equal(ack(x, STR("job_4"), 2 * USD), 0);
	enqueue(x, "job_5", NULL, "g1", 0);
	enqueue(x, "job_6", NULL, "g2", 0);
	fx_expect(x, "q", "job_6");
	fx_expect_state(x, "job_5", JOB_SCHEDULED);
}

/* A day's ten usd from noon on, two usd a job: one every 2.4 hours. */
static void test_throttle_spreads_what_is_left(void **state)
{
	struct fx *x = *state;
	uint64_t noon = FX_START_NS - FX_START_NS % DAY + 12 * HOUR;

	x->now_ns = noon;
	set_daily(x, BUDGET_QUEUE, "q", BUDGET_THROTTLE, 12 * USD);
	spend(x, "job_1", 2 * USD); /* nobody knew what it would cost */
	spend(x, "job_2", 2 * USD);
	enqueue(x, "job_3", NULL, NULL, 0);
	fx_expect_none(x, "q");
	assert_int_equal(shown(x, 0)->state[0].next_at, noon + 12 * HOUR / 5);
	x->now_ns = noon + 12 * HOUR / 5 - 1;
	fx_expect_none(x, "q");
	x->now_ns++;
	fx_expect(x, "q", "job_3");
}

/* --- one job --- */

static int beat(struct fx *x, const char *id, uint64_t cost,
		struct m_beat_reply *ret)
{
	struct m_usage u = { 0 };
	struct m_heartbeat m = { 0 };
	struct m_heartbeat_reply r;
	struct m_beat b = { 0 };
	int err;

	MSG_SET(&u, usage, cost_usd, cost);
	MSG_SET(&b, beat, job_id, str_from(id));
	MSG_SET(&b, beat, usage, &u);
	MSG_SET_LIST(&m, heartbeat, jobs, &b, 1);
	err = fx_do(x, OP_HEARTBEAT, &m, &r);
	*ret = r.jobs[0];
	return err;
}

static void set_per_job(struct fx *x, enum budget_action action, uint64_t usd)
{
	struct m_budget m = budget(BUDGET_QUEUE, "q", action);

	MSG_SET(&m, budget, per_job_usd, usd);
	set(x, &m);
}

static void test_a_job_that_costs_too_much_is_held(void **state)
{
	struct fx *x = *state;
	struct m_beat_reply r;

	set_per_job(x, BUDGET_HOLD, 5 * USD);
	enqueue(x, "job_1", NULL, NULL, 0);
	fx_expect(x, "q", "job_1");
	assert_int_equal(beat(x, "job_1", 5 * USD, &r), 0);
	assert_str_is(r.status, "ok");
	assert_false(r.budget_exceeded);
	assert_int_equal(beat(x, "job_1", 1, &r), 0);
	assert_str_is(r.status, "cancel");
	assert_true(r.budget_exceeded);
	fx_expect_state(x, "job_1", JOB_HELD);
	fx_timeline(x, "job_1",
		    "enqueued started usage usage budget_exceeded held");
	assert_int_equal(fx_job(x, "job_1")->usage->cost_usd, 5 * USD + 1);
}

/* Who cancelled it was told that it ends. */
static void test_a_cancelled_job_that_costs_too_much_ends(void **state)
{
	struct fx *x = *state;
	struct m_beat_reply r;

	set_per_job(x, BUDGET_HOLD, USD);
	enqueue(x, "job_1", NULL, NULL, 0);
	fx_expect(x, "q", "job_1");
	fx_job_op(x, OP_CANCEL, "job_1", "cancelling");
	assert_int_equal(beat(x, "job_1", 2 * USD, &r), 0);
	assert_str_is(r.status, "cancel");
	fx_expect_state(x, "job_1", JOB_CANCELLED);
	assert_false(fx_job(x, "job_1")->cancel_requested);
}

static void test_a_job_that_costs_too_much_is_cancelled_or_refused(void **state)
{
	struct fx *x = *state;
	struct m_beat_reply r;

	set_per_job(x, BUDGET_REJECT, 5 * USD);
	enqueue(x, "job_1", NULL, NULL, 0);
	fx_expect(x, "q", "job_1");
	assert_int_equal(ack(x, STR("job_1"), 6 * USD), ERR_BUDGET_EXCEEDED);
	fx_expect_state(x, "job_1", JOB_ACTIVE);
	assert_false(MSG_HAS(fx_job(x, "job_1"), job, usage));
	assert_int_equal(ack(x, STR("job_1"), 5 * USD), 0);
	enqueue(x, "job_2", NULL, NULL, 0);
	fx_expect(x, "q", "job_2");
	assert_int_equal(beat(x, "job_2", 6 * USD, &r), 0);
	assert_true(r.budget_exceeded);
	fx_expect_state(x, "job_2", JOB_CANCELLED);
}

/* --- reservations --- */

static void test_what_jobs_expect_is_held_while_they_run(void **state)
{
	struct fx *x = *state;

	set_daily(x, BUDGET_QUEUE, "q", BUDGET_HOLD, 10 * USD);
	for (int i = 1; i <= 3; i++) {
		char id[16];

		(void)snprintf(id, sizeof(id), "job_%d", i);
		enqueue(x, id, NULL, NULL, 4 * USD);
	}
	fx_expect(x, "q", "job_1");
	fx_expect(x, "q", "job_2");
	fx_expect_none(x, "q");
	assert_int_equal(shown(x, 0)->state[0].reserved, 8 * USD);
	fx_restart(x, FX_MEM);
	fx_restart(x, FX_ROCKS);
	fx_expect_none(x, "q");
	assert_int_equal(ack(x, STR("job_1"), USD), 0);
	fx_expect(x, "q", "job_3");
	assert_int_equal(shown(x, 0)->state[0].reserved, 8 * USD);
	assert_int_equal(shown(x, 0)->state[0].spent, USD);
}

/* What a job has reported is not held for it any more. */
static void test_what_is_reported_is_counted_once(void **state)
{
	struct fx *x = *state;
	struct m_beat_reply r;

	set_daily(x, BUDGET_QUEUE, "q", BUDGET_HOLD, 10 * USD);
	enqueue(x, "job_1", NULL, NULL, 6 * USD);
	enqueue(x, "job_2", NULL, NULL, 4 * USD);
	fx_expect(x, "q", "job_1");
	assert_int_equal(beat(x, "job_1", 5 * USD, &r), 0);
	assert_int_equal(shown(x, 0)->state[0].spent, 5 * USD);
	assert_int_equal(shown(x, 0)->state[0].reserved, USD);
	fx_restart(x, FX_ROCKS);
	fx_expect(x, "q", "job_2");
	assert_int_equal(beat(x, "job_1", 2 * USD, &r), 0);
	assert_int_equal(shown(x, 0)->state[0].reserved, 4 * USD);
	assert_int_equal(ack(x, STR("job_1"), USD), 0);
	assert_int_equal(ack(x, STR("job_2"), 4 * USD), 0);
	assert_int_equal(shown(x, 0)->state[0].spent, 12 * USD);
	assert_int_equal(shown(x, 0)->state[0].reserved, 0);
}

/* The next attempt may cost as much again. */
static void test_each_attempt_reserves_anew(void **state)
{
	struct fx *x = *state;
	struct m_fail m = { 0 };
	struct m_beat_reply r;

	set_daily(x, BUDGET_QUEUE, "q", BUDGET_HOLD, 100 * USD);
	enqueue(x, "job_1", NULL, NULL, 6 * USD);
	fx_expect(x, "q", "job_1");
	assert_int_equal(beat(x, "job_1", 5 * USD, &r), 0);
	MSG_SET(&m, fail, job_id, STR("job_1"));
	MSG_SET(&m, fail, requeue, true);
	assert_int_equal(fx_do(x, OP_FAIL, &m, NULL), 0);
	assert_int_equal(shown(x, 0)->state[0].reserved, 0);
	fx_expect(x, "q", "job_1");
	assert_int_equal(shown(x, 0)->state[0].reserved, 6 * USD);
}

/* Jobs that ran before the budget was there hold nothing of it. */
static void test_what_ran_before_holds_nothing(void **state)
{
	struct fx *x = *state;

	enqueue(x, "job_1", NULL, NULL, 4 * USD);
	fx_expect(x, "q", "job_1");
	set_daily(x, BUDGET_QUEUE, "q", BUDGET_HOLD, 10 * USD);
	enqueue(x, "job_2", NULL, NULL, 4 * USD);
	fx_expect(x, "q", "job_2");
	assert_int_equal(shown(x, 0)->state[0].reserved, 4 * USD);
	assert_int_equal(ack(x, STR("job_1"), USD), 0);
	assert_int_equal(shown(x, 0)->state[0].reserved, 4 * USD);
	fx_job_op(x, OP_DELETE, "job_2", "deleted");
	assert_int_equal(shown(x, 0)->state[0].reserved, 0);
}

/* Together they expect more than a number of 64 bits holds. */
static void test_what_jobs_expect_never_runs_over(void **state)
{
	enum { JOBS = 40 };
	struct fx *x = *state;
	struct m_budget m = budget(BUDGET_QUEUE, "q", BUDGET_ALERT);
	struct m_budget_limit l = { 0 };
	char id[16];

	MSG_SET(&l, budget_limit, unit, STR("tokens"));
	MSG_SET(&l, budget_limit, amount, 5 * USD);
	MSG_SET_LIST(&m, budget, limits, &l, 1);
	set(x, &m);
	for (int i = 0; i < JOBS; i++) {
		struct m_enqueue e;

		(void)snprintf(id, sizeof(id), "job_%02d", i);
		e = fx_new(id, "q");
		MSG_SET(&e, enqueue, expected, STR("{\"tokens\":1000000000}"));
		assert_int_equal(fx_do(x, OP_ENQUEUE, &e, NULL), 0);
		fx_expect(x, "q", id);
	}
	assert_int_equal(shown(x, 0)->state[0].reserved, UINT64_MAX);
	fx_restart(x, FX_MEM);
	fx_restart(x, FX_ROCKS);
	for (int i = 0; i < JOBS; i++) {
		(void)snprintf(id, sizeof(id), "job_%02d", i);
		assert_int_equal(ack(x, str_from(id), 1), 0);
		if (i == JOBS - 2)
			assert_int_equal(shown(x, 0)->state[0].reserved,
					 1000000000 * USD);
	}
	assert_int_equal(shown(x, 0)->state[0].reserved, 0);
}

static void test_a_job_that_never_fits_is_held(void **state)
{
	struct fx *x = *state;

	set_daily(x, BUDGET_QUEUE, "q", BUDGET_HOLD, 10 * USD);
	enqueue(x, "job_1", NULL, NULL, 11 * USD);
	enqueue(x, "job_2", NULL, NULL, 10 * USD);
	fx_expect(x, "q", "job_2");
	fx_expect_state(x, "job_1", JOB_HELD);
}

/* --- what cannot be --- */

static void test_budgets_that_cannot_be_are_refused(void **state)
{
	struct fx *x = *state;
	struct m_budget m = budget(BUDGET_QUEUE, "q", BUDGET_HOLD);
	struct m_budget_limit l[2] = { 0 };

	fx_refused(x, OP_SET_BUDGET, &m, ERR_VALIDATION_ERROR,
		   "limits: must be 1 to 8, with daily_usd and per_job_usd");
	MSG_SET(&m, budget, per_job_usd, USD);
	MSG_SET(&m, budget, on_exceed, BUDGET_THROTTLE);
	fx_refused(x, OP_SET_BUDGET, &m, ERR_VALIDATION_ERROR,
		   "on_exceed: throttle needs a limit per day, month or "
		   "window");
	m = budget(BUDGET_TAG, "team", BUDGET_HOLD);
	fx_refused(x, OP_SET_BUDGET, &m, ERR_VALIDATION_ERROR,
		   "target: must be a tag and its value, as name:value");
	m = budget(BUDGET_GLOBAL, "q", BUDGET_HOLD);
	fx_refused(x, OP_SET_BUDGET, &m, ERR_VALIDATION_ERROR,
		   "target: of global must be *, or absent");
	m = budget(BUDGET_QUEUE, "q", BUDGET_HOLD);
	MSG_SET(&l[0], budget_limit, unit, STR("walks"));
	MSG_SET(&l[0], budget_limit, amount, USD);
	MSG_SET_LIST(&m, budget, limits, l, 1);
	fx_refused(x, OP_SET_BUDGET, &m, ERR_VALIDATION_ERROR,
		   "limits: no job has reported the unit \"walks\"; it can be "
		   "usd, tokens or one that was reported");
	MSG_SET(&l[0], budget_limit, unit, STR("tokens"));
	MSG_SET(&l[0], budget_limit, per, BUDGET_PER_WINDOW);
	fx_refused(x, OP_SET_BUDGET, &m, ERR_VALIDATION_ERROR,
		   "limits: window goes with per window, and must be there "
		   "then");
	MSG_SET(&l[0], budget_limit, per, BUDGET_PER_DAY);
	l[1] = l[0];
	MSG_SET_LIST(&m, budget, limits, l, 2);
	fx_refused(x, OP_SET_BUDGET, &m, ERR_VALIDATION_ERROR,
		   "limits: there are two of \"tokens\" per day");
}

static void test_why_names_the_budget(void **state)
{
	struct fx *x = *state;
	struct m_queue q;

	set_daily(x, BUDGET_QUEUE, "q", BUDGET_HOLD, USD);
	spend(x, "job_1", USD);
	enqueue(x, "job_2", NULL, NULL, 0);
	assert_true(fsm_queue(x->side[FX_MEM].f, STR("q"), &q));
	assert_true(str_eq(q.budget, shown(x, 0)->id));
}

static void test_a_deleted_budget_leaves_nothing(void **state)
{
	struct fx *x = *state;
	struct m_budget_ref ref = { 0 };

	set_daily(x, BUDGET_TAG, "team:red", BUDGET_HOLD, USD);
	MSG_SET(&ref, budget_ref, scope, STR("tag"));
	MSG_SET(&ref, budget_ref, target, STR("team:red"));
	assert_int_equal(fx_do(x, OP_DELETE_BUDGET, &ref, NULL), 0);
	fx_refused(x, OP_DELETE_BUDGET, &ref, ERR_NOT_FOUND,
		   "there is no budget of tag \"team:red\"");
	assert_int_equal(x->side[FX_MEM].f->purses.by_name.n, 0);
	assert_int_equal(x->side[FX_MEM].f->purses.tags_n, 0);
	assert_int_equal(events_of(x, EVENT_BUDGET_DELETED), 1);
	fx_restart(x, FX_ROCKS);
	fx_check_side(&x->side[FX_ROCKS]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_spent_day_holds_the_queue_until_the_next),
		TEST(test_a_month_is_a_month_of_the_calendar),
		TEST(test_a_window_rolls),
		TEST(test_a_budget_that_is_raised_opens_the_queue),
		TEST(test_alert_only_tells),
		TEST(test_a_refusal_comes_only_when_no_other_queue_has_work),
		TEST(test_jobs_of_a_spent_tag_or_group_are_set_aside),
		TEST(test_throttle_spreads_what_is_left),
		TEST(test_a_job_that_costs_too_much_is_held),
		TEST(test_a_cancelled_job_that_costs_too_much_ends),
		TEST(test_a_job_that_costs_too_much_is_cancelled_or_refused),
		TEST(test_what_jobs_expect_is_held_while_they_run),
		TEST(test_what_is_reported_is_counted_once),
		TEST(test_each_attempt_reserves_anew),
		TEST(test_what_ran_before_holds_nothing),
		TEST(test_what_jobs_expect_never_runs_over),
		TEST(test_a_job_that_never_fits_is_held),
		TEST(test_budgets_that_cannot_be_are_refused),
		TEST(test_why_names_the_budget),
		TEST(test_a_deleted_budget_leaves_nothing),
	};

	return cmocka_run_group_tests_name("fsm_purse", tests, NULL, NULL);
}
