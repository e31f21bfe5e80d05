/*
 * Budgets and time: days of zones whose clock is set at midnight, windows that
 * roll, and the leader, who looks again when time alone may free a job.
 */
#include "fsm/core/state.h"
#include "fsm/order/queue.h"
#include "fsm/ties/purse.h"
#include "fsm/ties/usage.h"
#include "fsm_fixture.h"

#define HOUR     (3600 * NS_PER_S)
#define DAY      (24 * HOUR)
#define USD      NS_PER_S /* billionths */
#define LOOK_MAX 1000

#define TEST(fn) \
	cmocka_unit_test_setup_teardown(fn, fx_setup_level, fx_teardown)

static void ack(struct fx *x, const char *id, uint64_t cost)
{
	struct m_usage u = { 0 };
	struct m_ack m = { 0 };

	MSG_SET(&u, usage, cost_usd, cost);
	MSG_SET(&m, ack, job_id, str_from(id));
	MSG_SET(&m, ack, usage, &u);
	assert_int_equal(fx_do(x, OP_ACK, &m, NULL), 0);
}

static const struct m_budget_state *limit(struct fx *x)
{
	struct m_budget_list *list = arena_zalloc(&x->arena, sizeof(*list));

	fsm_budgets(x->side[FX_MEM].f, x->now_ns, &x->arena, list);
	assert_int_equal(list->budgets_n, 1);
	return &list->budgets[0].state[0];
}

/* --- zones --- */

/* A zone whose clock is set at that moment. */
struct zone {
	const char *name;
	uint64_t at_s;
	int32_t before, after;
};

static const struct zone zones[] = {
	/* forward, at midnight */
	{ "America/Santiago", 1788667200, -4 * 3600, -3 * 3600 },
	{ "America/Havana", 1772946000, -5 * 3600, -4 * 3600 },
	{ "Atlantic/Azores", 1774746000, -3600, 0 },
	/* back, to the hour before midnight and to midnight */
	{ "America/Santiago", 1775358000, -3 * 3600, -4 * 3600 },
	{ "Atlantic/Azores", 1792890000, 0, -3600 },
	/* back over midnight: a day begins twice */
	{ "Nowhere/Half", 1788654600, 0, -3600 },
};

static void set_zone(struct fx *x, const struct zone *z)
{
	struct m_usage_settings u = { 0 };
	struct m_zone_offset o[2] = { 0 };

	MSG_SET(&o[0], zone_offset, from_ns, 0);
	MSG_SET(&o[0], zone_offset, seconds, z->before);
	MSG_SET(&o[1], zone_offset, from_ns, z->at_s * NS_PER_S);
	MSG_SET(&o[1], zone_offset, seconds, z->after);
	MSG_SET(&u, usage_settings, timezone, str_from(z->name));
	MSG_SET_LIST(&u, usage_settings, offsets, o, 2);
	assert_int_equal(fx_do(x, OP_SET_USAGE, &u, NULL), 0);
}

/* A day ends later than now, at the first moment of another one. */
static void test_a_day_ends_when_the_next_begins(void **state)
{
	struct m_budget_limit l = { .per = BUDGET_PER_DAY };
	struct fx *x = *state;
	const struct fsm *f = x->side[FX_MEM].f;

	for (size_t i = 0; i < ARRAY_SIZE(zones); i++) {
		uint64_t at = zones[i].at_s * NS_PER_S;

		set_zone(x, &zones[i]);
		for (uint64_t now = at - DAY; now < at + DAY; now += HOUR / 4) {
			uint32_t day = usage_local_day(f, now);
			uint64_t until = purse_until(f, &l, now);

			assert_true(until > now && until <= now + 26 * HOUR);
			assert_true(usage_local_day(f, until) > day);
			assert_true(usage_local_day(f, until - 1) <= day);
			assert_true(purse_from(f, &l, now) <= now);
		}
	}
}

/* --- the leader's looks --- */

struct look {
	struct fx *x;
	unsigned n;
};

/* What a parked fetch does first. */
static void on_look(void *ctx, struct str queue)
{
	struct look *l = ctx;

	assert_int_equal(
	    fsm_queue_takeable(l->x->side[FX_MEM].f, queue, l->x->now_ns), 0);
	if (++l->n == LOOK_MAX)
		fail_msg("looked %d times, and would for ever", LOOK_MAX);
}

static void test_the_leader_looks_once_before_a_change_at_midnight(void **state)
{
	struct fx *x = *state;
	uint64_t at = zones[0].at_s * NS_PER_S;
	struct look l = { .x = x };
	struct m_budget b = { 0 };

	x->now_ns = at - 10 * HOUR;
	set_zone(x, &zones[0]);
	MSG_SET(&b, budget, scope, BUDGET_QUEUE);
	MSG_SET(&b, budget, target, STR("q"));
	MSG_SET(&b, budget, daily_usd, USD);
	assert_int_equal(fx_do(x, OP_SET_BUDGET, &b, NULL), 0);
	fx_enqueue(x, "one", "q");
	fx_expect(x, "q", "one");
	ack(x, "one", 2 * USD);
	fx_enqueue(x, "two", "q");
	x->now_ns = at - HOUR / 2;
	fx_expect_none(x, "q");
	fsm_take_looks(x->side[FX_MEM].f, x->now_ns, on_look, &l);
	assert_int_equal(limit(x)->until, at);
	assert_int_equal(fsm_look_ns(x->side[FX_MEM].f), at);
	x->now_ns = at;
	fx_expect(x, "q", "two");
}

/* Says that it shall be looked at again, at once. */
static void look_again(void *ctx, struct str queue)
{
	struct look *l = ctx;
	struct fsm *f = l->x->side[FX_MEM].f;
	struct fsm_queue *q = queue_find(f, queue);

	if (++l->n == LOOK_MAX)
		fail_msg("looked %d times, and would for ever", LOOK_MAX);
	heap_update(&f->looks, &q->lanes.look, l->x->now_ns);
}

static void test_a_look_that_asks_for_another_is_one(void **state)
{
	struct fx *x = *state;
	struct fsm *f = x->side[FX_MEM].f;
	struct look l = { .x = x };

	fx_enqueue(x, "one", "q");
	fx_enqueue(x, "two", "other");
	heap_update(&f->looks, &queue_find(f, STR("q"))->lanes.look, x->now_ns);
	heap_update(&f->looks, &queue_find(f, STR("other"))->lanes.look,
		    x->now_ns);
	fsm_take_looks(f, x->now_ns, look_again, &l);
	assert_int_equal(l.n, 2);
	assert_int_equal(fsm_look_ns(f), x->now_ns);
}

/* --- windows --- */

/* Sixty jobs of a usd in an hour: one a minute, also when the first ones have
 * fallen out of it. */
static void test_a_window_goes_on_throttling(void **state)
{
	struct m_budget_limit l = { 0 };
	struct fx *x = *state;
	struct m_budget b = { 0 };
	struct m_fetched j;
	uint64_t last = 0, from = 0;

	MSG_SET(&b, budget, scope, BUDGET_QUEUE);
	MSG_SET(&b, budget, target, STR("q"));
	MSG_SET(&b, budget, on_exceed, BUDGET_THROTTLE);
	MSG_SET(&l, budget_limit, per, BUDGET_PER_WINDOW);
	MSG_SET(&l, budget_limit, window, HOUR);
	MSG_SET(&l, budget_limit, amount, 60 * USD);
	MSG_SET_LIST(&b, budget, limits, &l, 1);
	assert_int_equal(fx_do(x, OP_SET_BUDGET, &b, NULL), 0);
	x->unchecked = true;
	for (int i = 0; i < 200; i++) {
		char id[16];

		(void)snprintf(id, sizeof(id), "job_%d", i);
		fx_enqueue(x, id, "q");
		while (!fx_fetch(x, "q", &j))
			x->now_ns += NS_PER_S;
		if (i > 2)
			assert_true(x->now_ns - last >= 60 * NS_PER_S);
		if (i == 2)
			from = x->now_ns;
		last = x->now_ns;
		ack(x, id, USD);
		assert_true(limit(x)->spent <= 60 * USD);
	}
	/* what falls out of the window a little late is the only loss */
	assert_true(last - from <= 197 * 66 * NS_PER_S);
	fx_restart(x, FX_ROCKS);
	fx_enqueue(x, "last", "q");
	fx_expect_none(x, "q");
	fx_check_same(x);
}

/* --- a budget that is set again --- */

static void set_alert(struct fx *x, uint64_t usd)
{
	struct m_budget b = { 0 };

	MSG_SET(&b, budget, scope, BUDGET_QUEUE);
	MSG_SET(&b, budget, target, STR("q"));
	MSG_SET(&b, budget, on_exceed, BUDGET_ALERT);
	MSG_SET(&b, budget, daily_usd, usd);
	assert_int_equal(fx_do(x, OP_SET_BUDGET, &b, NULL), 0);
}

static void spend(struct fx *x, const char *id, uint64_t usd)
{
	fx_enqueue(x, id, "q");
	fx_expect(x, "q", id);
	ack(x, id, usd);
}

static uint64_t alerts(struct fx *x)
{
	return fsm_counters(x->side[FX_MEM].f)->budgets_exceeded;
}

/* Once in a period, also when it is lowered below what is spent. */
static void test_a_lowered_budget_tells(void **state)
{
	struct fx *x = *state;

	set_alert(x, 10 * USD);
	spend(x, "one", 7 * USD);
	assert_int_equal(alerts(x), 0);
	set_alert(x, 5 * USD);
	assert_int_equal(alerts(x), 1);
	set_alert(x, 4 * USD);
	assert_int_equal(alerts(x), 1);
	set_alert(x, 10 * USD);
	spend(x, "two", 3 * USD);
	assert_int_equal(alerts(x), 2);
	x->now_ns += DAY;
	set_alert(x, 5 * USD);
	assert_int_equal(alerts(x), 2);
	assert_false(limit(x)->exceeded);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_day_ends_when_the_next_begins),
		TEST(test_the_leader_looks_once_before_a_change_at_midnight),
		TEST(test_a_look_that_asks_for_another_is_one),
		TEST(test_a_window_goes_on_throttling),
		TEST(test_a_lowered_budget_tells),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
