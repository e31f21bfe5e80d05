/* Settings of queues: merged, checked, kept. */
#include "fsm_fixture.h"
#include "fsm_impl.h"

/* What the queue has in memory on one side. */
static const struct m_set_queue *set_of(struct fx *x, enum fx_side_id side,
					const char *queue)
{
	const struct fsm_queue *q =
	    queue_find(x->side[side].f, str_from(queue));

	assert_non_null(q);
	assert_non_null(q->set);
	return q->set;
}

static struct m_set_queue change_of(const char *queue)
{
	struct m_set_queue m = { 0 };

	MSG_SET(&m, set_queue, queue, str_from(queue));
	return m;
}

static void set_ok(struct fx *x, const struct m_set_queue *m)
{
	struct m_queue r;

	assert_int_equal(fx_do(x, OP_SET_QUEUE, m, &r), 0);
	assert_true(str_eq(r.name, m->queue));
}

static void test_settings_are_merged_member_by_member(void **state)
{
	struct m_set_queue m = change_of("q");
	struct fx *x = *state;
	struct m_queue r;

	MSG_SET(&m, set_queue, max_concurrency, 5);
	MSG_SET(&m, set_queue, rate, 100);
	MSG_SET(&m, set_queue, period, 60 * NS_PER_S);
	set_ok(x, &m);
	m = change_of("q");
	MSG_SET(&m, set_queue, max_retries, 7);
	MSG_SET(&m, set_queue, group_tag, STR("customer"));
	assert_int_equal(fx_do(x, OP_SET_QUEUE, &m, &r), 0);
	assert_int_equal(r.max_concurrency, 5);
	assert_int_equal(r.rate_limit, 100);
	assert_int_equal(r.rate_window_ms, 60000);
	assert_int_equal(r.settings->max_retries, 7);
	assert_str_is(r.settings->group_tag, "customer");
	assert_int_equal(r.settings->queue.n, 0);
	assert_false(r.paused);
}

static void test_null_and_zero_remove_a_setting(void **state)
{
	struct str names[] = { STR("lease_duration"), STR("fairness"),
			       STR("no_such_member") };
	struct m_set_queue m = change_of("q");
	struct fx *x = *state;
	struct m_queue r;

	MSG_SET(&m, set_queue, max_concurrency, 5);
	MSG_SET(&m, set_queue, max_backlog, 10);
	MSG_SET(&m, set_queue, rate, 100);
	MSG_SET(&m, set_queue, period, NS_PER_S);
	MSG_SET(&m, set_queue, lease_duration, 5 * NS_PER_S);
	MSG_SET(&m, set_queue, fairness, FAIRNESS_GROUP);
	MSG_SET(&m, set_queue, retry_jitter, 0.5);
	set_ok(x, &m);
	m = change_of("q");
	MSG_SET(&m, set_queue, max_concurrency, 0);
	MSG_SET(&m, set_queue, max_backlog, 0);
	MSG_SET(&m, set_queue, rate, 0); /* its period goes with it */
	MSG_SET_LIST(&m, set_queue, remove, names, 3);
	assert_int_equal(fx_do(x, OP_SET_QUEUE, &m, &r), 0);
	assert_int_equal(r.settings->has, MSG_BIT(set_queue, retry_jitter));
	assert_false(MSG_HAS(&r, queue, max_concurrency));
	assert_false(MSG_HAS(&r, queue, rate_limit));
}

static void test_groups_are_merged_by_name(void **state)
{
	struct str rate = STR("rate");
	struct m_group_limit g[2] = { 0 };
	struct m_set_queue m = change_of("q");
	const struct m_set_queue *s;
	struct fx *x = *state;
	struct str gone = STR("b");

	MSG_SET(&g[0], group_limit, name, STR("b"));
	MSG_SET(&g[0], group_limit, weight, 3);
	MSG_SET(&g[1], group_limit, name, STR("a"));
	MSG_SET(&g[1], group_limit, max_concurrency, 2);
	MSG_SET(&g[1], group_limit, rate, 9);
	MSG_SET(&g[1], group_limit, period, NS_PER_S);
	MSG_SET_LIST(&m, set_queue, groups, g, 2);
	set_ok(x, &m);
	s = set_of(x, FX_MEM, "q");
	assert_int_equal(s->groups_n, 2);
	assert_str_is(s->groups[0].name, "a"); /* in order */
	assert_str_is(s->groups[1].name, "b");

	g[0] = (struct m_group_limit){ 0 };
	MSG_SET(&g[0], group_limit, name, STR("a"));
	MSG_SET(&g[0], group_limit, weight, 8);
	MSG_SET_LIST(&g[0], group_limit, remove, &rate, 1);
	m = change_of("q");
	MSG_SET_LIST(&m, set_queue, groups, g, 1);
	MSG_SET_LIST(&m, set_queue, remove_groups, &gone, 1);
	set_ok(x, &m);
	s = set_of(x, FX_ROCKS, "q");
	assert_int_equal(s->groups_n, 1);
	assert_int_equal(s->groups[0].weight, 8);
	assert_int_equal(s->groups[0].max_concurrency, 2);
	assert_false(MSG_HAS(&s->groups[0], group_limit, rate));
	assert_false(MSG_HAS(&s->groups[0], group_limit, period));
}

static void test_a_group_that_says_nothing_is_not_kept(void **state)
{
	struct m_group_limit g = { 0 };
	struct m_set_queue m = change_of("q");
	struct fx *x = *state;
	struct str all = STR("groups");

	MSG_SET(&g, group_limit, name, STR("a"));
	MSG_SET(&g, group_limit, max_concurrency, 2);
	MSG_SET_LIST(&m, set_queue, groups, &g, 1);
	set_ok(x, &m);
	MSG_SET(&g, group_limit, max_concurrency, 0);
	set_ok(x, &m);
	assert_int_equal(set_of(x, FX_MEM, "q")->has, 0);
	MSG_SET(&g, group_limit, max_concurrency, 2);
	set_ok(x, &m);
	m = change_of("q");
	MSG_SET_LIST(&m, set_queue, remove, &all, 1);
	set_ok(x, &m);
	assert_int_equal(set_of(x, FX_MEM, "q")->has, 0);
}

static void test_settings_that_make_no_sense_are_refused(void **state)
{
	struct m_group_limit g[2] = { 0 };
	struct m_set_queue m = change_of("q");
	struct fx *x = *state;

	MSG_SET(&m, set_queue, rate, 5);
	fx_refused(x, OP_SET_QUEUE, &m, ERR_VALIDATION_ERROR,
		   "rate: needs period beside it");
	MSG_SET(&m, set_queue, period, NS_PER_MS - 1);
	fx_refused(x, OP_SET_QUEUE, &m, ERR_VALIDATION_ERROR,
		   "period: must be from 1ms to 24h");
	MSG_SET(&m, set_queue, period, 86400 * NS_PER_S + 1);
	fx_refused(x, OP_SET_QUEUE, &m, ERR_VALIDATION_ERROR,
		   "period: must be from 1ms to 24h");
	m = change_of("q");
	MSG_SET(&m, set_queue, group_period, NS_PER_S);
	fx_refused(x, OP_SET_QUEUE, &m, ERR_VALIDATION_ERROR,
		   "group_period: needs group_rate beside it");
	m = change_of("q");
	MSG_SET(&m, set_queue, lease_duration, (LIMIT_LEASE_S + 1) * NS_PER_S);
	fx_refused(x, OP_SET_QUEUE, &m, ERR_VALIDATION_ERROR,
		   "lease_duration: must be from 0.001 to 86400 seconds");
	m = change_of("q");
	MSG_SET(&g[0], group_limit, name, STR("vip"));
	MSG_SET(&g[0], group_limit, rate, 4);
	MSG_SET_LIST(&m, set_queue, groups, g, 1);
	fx_refused(x, OP_SET_QUEUE, &m, ERR_VALIDATION_ERROR,
		   "groups.vip.rate: needs period beside it");
	MSG_SET(&g[1], group_limit, name, STR("vip"));
	MSG_SET_LIST(&m, set_queue, groups, g, 2);
	fx_refused(x, OP_SET_QUEUE, &m, ERR_VALIDATION_ERROR,
		   "groups: \"vip\" is given twice");
	assert_null(queue_find(x->side[FX_MEM].f, STR("q")));
}

static void test_settings_survive_a_restart_and_a_pause(void **state)
{
	struct m_group_limit g = { 0 };
	struct m_set_queue m = change_of("q");
	struct fx *x = *state;

	MSG_SET(&m, set_queue, max_concurrency, 5);
	MSG_SET(&g, group_limit, name, STR("vip"));
	MSG_SET(&g, group_limit, weight, 4);
	MSG_SET_LIST(&m, set_queue, groups, &g, 1);
	set_ok(x, &m);
	fx_queue_op(x, OP_PAUSE, "q");
	for (int side = 0; side < FX_SIDES; side++) {
		const struct m_set_queue *s;

		fx_restart(x, side);
		s = set_of(x, side, "q");
		assert_int_equal(s->max_concurrency, 5);
		assert_str_is(s->groups[0].name, "vip");
		assert_int_equal(s->groups[0].weight, 4);
	}
}

static void test_a_change_that_changes_nothing_leaves_no_event(void **state)
{
	struct m_set_queue m = change_of("q");
	struct fx *x = *state;
	uint64_t seq;

	MSG_SET(&m, set_queue, max_concurrency, 5);
	set_ok(x, &m);
	seq = fsm_last_seq(x->side[FX_MEM].f);
	assert_int_equal(fx_resend(x, OP_SET_QUEUE, &m, NULL), 0);
	assert_int_equal(fsm_last_seq(x->side[FX_MEM].f), seq);
	MSG_SET(&m, set_queue, max_concurrency, 6);
	set_ok(x, &m);
	assert_int_equal(fsm_last_seq(x->side[FX_MEM].f), seq + 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, fx_setup, fx_teardown)
	const struct CMUnitTest tests[] = {
		T(test_settings_are_merged_member_by_member),
		T(test_null_and_zero_remove_a_setting),
		T(test_groups_are_merged_by_name),
		T(test_a_group_that_says_nothing_is_not_kept),
		T(test_settings_that_make_no_sense_are_refused),
		T(test_settings_survive_a_restart_and_a_pause),
		T(test_a_change_that_changes_nothing_leaves_no_event),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
