/*
 * The settings all nodes share: what may be set, what stays, what it is told
 * as, and that what apply does follows them.
 */
#include "fsm/core/state.h"
#include "fsm_fixture.h"

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fx_setup, fx_teardown)
#define HOUR     (3600 * NS_PER_S)

static struct m_cluster_settings change(struct fx *x,
					const struct m_cluster_settings *m)
{
	struct m_cluster_settings r;

	assert_int_equal(fx_do(x, OP_SET_SETTINGS, m, &r), 0);
	return r;
}

/* What a leader takes over from its flags. */
static void seed(struct fx *x)
{
	struct m_cluster_settings m = { 0 };
	struct m_settings_seed s = { 0 };

	MSG_SET(&m, cluster_settings, lease_duration, 60 * NS_PER_S);
	MSG_SET(&m, cluster_settings, retention, 168 * HOUR);
	MSG_SET(&m, cluster_settings, event_retention, 5000);
	MSG_SET(&m, cluster_settings, queue_idle, HOUR);
	MSG_SET(&m, cluster_settings, max_queues, 100);
	MSG_SET(&s, settings_seed, retention, 168 * HOUR);
	MSG_SET(&s, settings_seed, max_queues, 100);
	MSG_SET(&m, cluster_settings, seeds, &s);
	(void)change(x, &m);
}

static void expect_event(struct fx *x, const char *data)
{
	uint64_t last = fsm_last_seq(x->side[FX_MEM].f);
	struct m_events_reply r;

	assert_int_equal(
	    record_events(x->side[FX_MEM].kv, last - 1, 10, &x->arena, &r), 0);
	assert_int_equal(r.events_n, 1);
	assert_int_equal(r.events[0].type, EVENT_SETTINGS_CHANGED);
	assert_str_is(r.events[0].data, data);
}

static void test_what_is_absent_stays(void **state)
{
	struct fx *x = *state;
	struct m_cluster_settings m = { 0 }, r;

	seed(x);
	/* values where there were none are no change */
	assert_int_equal(fsm_last_seq(x->side[FX_MEM].f), 0);
	MSG_SET(&m, cluster_settings, retention, HOUR);
	MSG_SET(&m, cluster_settings, event_retention, 5000);
	r = change(x, &m);
	assert_int_equal(r.retention, HOUR);
	assert_int_equal(r.lease_duration, 60 * NS_PER_S);
	assert_int_equal(r.max_queues, 100);
	assert_null(r.seeds);
	expect_event(x, "{\"retention\":{\"from\":\"168h\",\"to\":\"1h\"}}");
	(void)change(x, &m); /* the same again */
	assert_int_equal(fsm_last_seq(x->side[FX_MEM].f), 1);
	for (int i = 0; i < FX_SIDES; i++) {
		const struct m_cluster_settings *now;

		fx_restart(x, i);
		now = fsm_settings(x->side[i].f);
		assert_int_equal(now->retention, HOUR);
		assert_int_equal(now->queue_idle, HOUR);
		assert_int_equal(now->event_retention, 5000);
		/* what the flags said is known still */
		assert_int_equal(fsm_seeds(x->side[i].f)->retention,
				 168 * HOUR);
		assert_int_equal(fsm_seeds(x->side[i].f)->max_queues, 100);
		assert_false(MSG_HAS(fsm_seeds(x->side[i].f), settings_seed,
				     queue_idle));
	}
}

static void test_what_does_not_work_is_refused(void **state)
{
	struct fx *x = *state;
	struct m_cluster_settings m = { 0 };

	seed(x);
	fx_refused(x, OP_SET_SETTINGS, &m, ERR_VALIDATION_ERROR,
		   "name what to change: lease_duration, retention, "
		   "event_retention, queue_idle or max_queues");
	MSG_SET(&m, cluster_settings, max_queues, 1);
	MSG_SET(&m, cluster_settings, lease_duration, NS_PER_MS - 1);
	fx_refused(x, OP_SET_SETTINGS, &m, ERR_VALIDATION_ERROR,
		   "lease_duration: must be from 0.001 to 86400 seconds");
	MSG_SET(&m, cluster_settings, lease_duration,
		LIMIT_LEASE_S * NS_PER_S + 1);
	fx_refused(x, OP_SET_SETTINGS, &m, ERR_VALIDATION_ERROR,
		   "lease_duration: must be from 0.001 to 86400 seconds");
	MSG_SET(&m, cluster_settings, lease_duration, NS_PER_MS);
	MSG_SET(&m, cluster_settings, event_retention, 0);
	fx_refused(x, OP_SET_SETTINGS, &m, ERR_VALIDATION_ERROR,
		   "event_retention: must be from 1 to 1000000000000");
	MSG_SET(&m, cluster_settings, event_retention,
		LIMIT_EVENT_RETENTION + 1);
	fx_refused(x, OP_SET_SETTINGS, &m, ERR_VALIDATION_ERROR,
		   "event_retention: must be from 1 to 1000000000000");
}

static void
test_fetches_that_name_no_lease_get_that_of_the_cluster(void **state)
{
	struct str queue = STR("q");
	struct fx *x = *state;
	struct m_cluster_settings m = { 0 };
	struct m_fetch f = { 0 };
	struct m_fetch_reply r;

	fx_enqueue(x, "job_1", "q");
	fx_enqueue(x, "job_2", "q");
	fx_enqueue(x, "job_3", "q");
	MSG_SET_LIST(&f, fetch, queues, &queue, 1);
	assert_int_equal(fx_do(x, OP_FETCH, &f, &r), 0);
	assert_int_equal(r.jobs[0].lease_duration, 60 * NS_PER_S);
	MSG_SET(&m, cluster_settings, lease_duration, 7 * NS_PER_S);
	(void)change(x, &m);
	assert_int_equal(fx_do(x, OP_FETCH, &f, &r), 0);
	assert_int_equal(r.jobs[0].lease_duration, 7 * NS_PER_S);
	/* an older version wrote its own into each fetch */
	MSG_SET(&f, fetch, default_lease, 9 * NS_PER_S);
	assert_int_equal(fx_do(x, OP_FETCH, &f, &r), 0);
	assert_int_equal(r.jobs[0].lease_duration, 9 * NS_PER_S);
}

static uint32_t purge(struct fx *x, uint64_t retention_ns, uint64_t idle_ns)
{
	struct m_maintain m = { 0 };
	struct m_maintain_reply r;

	MSG_SET(&m, maintain, limit, 10);
	if (retention_ns > 0)
		MSG_SET(&m, maintain, retention_ns, retention_ns);
	if (idle_ns > 0)
		MSG_SET(&m, maintain, idle_ns, idle_ns);
	assert_int_equal(fx_do(x, OP_PURGE, &m, &r), 0);
	return r.count;
}

static void test_a_purge_goes_by_the_settings(void **state)
{
	struct fx *x = *state;
	struct m_cluster_settings m = { 0 };

	fx_make(x, "job_1", JOB_COMPLETED);
	fx_make(x, "job_2", JOB_COMPLETED);
	x->now_ns += HOUR;
	assert_int_equal(purge(x, 0, 0), 0);
	MSG_SET(&m, cluster_settings, retention, 2 * HOUR);
	MSG_SET(&m, cluster_settings, queue_idle, 3 * HOUR);
	(void)change(x, &m);
	/* what an op of an older version names does not count any more */
	assert_int_equal(purge(x, 1, 1), 0);
	x->now_ns += HOUR;
	assert_int_equal(purge(x, 0, 0), 2);
	assert_int_equal(purge(x, 0, 1), 0); /* the queue stays */
	x->now_ns += 3 * HOUR;
	assert_int_equal(purge(x, 0, 0), 1);
}

static void
test_an_older_way_to_limit_queues_is_one_of_the_settings(void **state)
{
	struct fx *x = *state;
	struct m_limits old = { 0 };
	struct m_cluster_settings m = { 0 };

	MSG_SET(&old, limits, max_queues, 1);
	assert_int_equal(fx_do(x, OP_SET_LIMITS, &old, NULL), 0);
	fx_enqueue(x, "job_1", "a");
	fx_restart(x, FX_ROCKS);
	assert_int_equal(fsm_max_queues(x->side[FX_ROCKS].f), 1);
	MSG_SET(&m, cluster_settings, max_queues, 2);
	(void)change(x, &m);
	fx_enqueue(x, "job_2", "b");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_what_is_absent_stays),
		TEST(test_what_does_not_work_is_refused),
		TEST(test_fetches_that_name_no_lease_get_that_of_the_cluster),
		TEST(test_a_purge_goes_by_the_settings),
		TEST(test_an_older_way_to_limit_queues_is_one_of_the_settings),
	};

	return cmocka_run_group_tests_name("fsm_settings", tests, NULL, NULL);
}
