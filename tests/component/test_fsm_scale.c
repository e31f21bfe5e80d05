/*
 * How long jobs wait and run, and what an autoscaler is told. The numbers are
 * in memory; since when a job waits is stored and survives a restart.
 */
#include "fsm_fixture.h"

#define S NS_PER_S

static struct m_scale scale(struct fx *x, enum fx_side_id side,
			    const char *queue)
{
	unsigned fills = FSM_SCALE_FILLS;
	struct m_scale ret;

	assert_int_equal(fsm_scale(x->side[side].f, str_from(queue), x->now_ns,
				   &fills, &ret),
			 1);
	return ret;
}

static void expect_oldest(struct fx *x, const char *queue, uint64_t at)
{
	for (int i = 0; i < FX_SIDES; i++) {
		struct m_scale m = scale(x, i, queue);

		assert_int_equal(m.oldest_waiting_at, at);
		assert_int_equal(
		    (uint64_t)(m.oldest_waiting_seconds * 1000 + 0.5),
		    at == 0 ? 0 : (x->now_ns - at) / NS_PER_MS);
	}
}

static void add(struct fx *x, const char *id, const char *group,
		enum priority prio, uint64_t scheduled_at)
{
	struct m_enqueue m = { 0 };

	MSG_SET(&m, enqueue, job_id, str_from(id));
	MSG_SET(&m, enqueue, queue, STR("q"));
	MSG_SET(&m, enqueue, priority, prio);
	if (group != NULL)
		MSG_SET(&m, enqueue, group, str_from(group));
	if (scheduled_at > 0)
		MSG_SET(&m, enqueue, scheduled_at, scheduled_at);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
}

/* What was fetched is gone with the next entry. */
struct held {
	char id[32];
	uint64_t token;
};

static struct held fetch(struct fx *x)
{
	struct m_fetched j;
	struct held h;

	assert_true(fx_fetch(x, "q", &j));
	(void)snprintf(h.id, sizeof(h.id), "%.*s", STR_ARG(j.job_id));
	h.token = j.lease_token;
	return h;
}

static void ack(struct fx *x, const struct held *h)
{
	struct m_ack m = { 0 };
	struct m_status_reply r;

	MSG_SET(&m, ack, job_id, str_from(h->id));
	MSG_SET(&m, ack, lease_token, h->token);
	assert_int_equal(fx_do(x, OP_ACK, &m, &r), 0);
}

static void give_up(struct fx *x, const struct held *h, bool requeue)
{
	struct m_fail m = { 0 };
	struct m_fail_reply r;

	MSG_SET(&m, fail, job_id, str_from(h->id));
	MSG_SET(&m, fail, error, STR("no"));
	if (requeue)
		MSG_SET(&m, fail, requeue, true);
	else
		MSG_SET(&m, fail, retry_after, 5 * S);
	assert_int_equal(fx_do(x, OP_FAIL, &m, &r), 0);
}

static const struct fsm_counters *counters(struct fx *x)
{
	return fsm_counters(x->side[FX_MEM].f);
}

static void expect_sum(const struct hist *h, uint64_t n, double sum_s)
{
	assert_int_equal(h->total, n);
	assert_true(h->sum_s > sum_s - 1e-6 && h->sum_s < sum_s + 1e-6);
}

static void
test_start_latency_of_a_plain_job_begins_at_its_creation(void **state)
{
	struct fx *x = *state;
	struct held j;

	fx_enqueue(x, "job_1", "q");
	x->now_ns += 3 * S;
	j = fetch(x);
	expect_sum(&counters(x)->start_latency, 1, 3);
	x->now_ns += 2 * S;
	ack(x, &j);
	expect_sum(&counters(x)->run_time, 1, 2);
}

static void
test_start_latency_of_a_promoted_job_begins_at_its_time(void **state)
{
	struct fx *x = *state;

	add(x, "job_1", NULL, PRIORITY_NORMAL, x->now_ns + 3600 * S);
	expect_oldest(x, "q", 0);
	x->now_ns += 3600 * S;
	assert_int_equal(fx_maintain(x, OP_PROMOTE, 0, NULL), 1);
	fx_restart(x, FX_ROCKS);
	x->now_ns += 4 * S;
	expect_oldest(x, "q", x->now_ns - 4 * S);
	(void)fetch(x);
	for (int i = 0; i < FX_SIDES; i++)
		expect_sum(&fsm_counters(x->side[i].f)->start_latency, 1, 4);
}

static void test_start_latency_after_a_retry_begins_anew(void **state)
{
	struct fx *x = *state;
	struct held j;

	fx_enqueue(x, "job_1", "q");
	j = fetch(x);
	x->now_ns += 1 * S;
	give_up(x, &j, false);
	expect_sum(&counters(x)->run_time, 1, 1);
	x->now_ns += 5 * S;
	assert_int_equal(fx_maintain(x, OP_PROMOTE, 0, NULL), 1);
	x->now_ns += 2 * S;
	j = fetch(x);
	expect_sum(&counters(x)->start_latency, 2, 2);
	/* given back: no attempt ended, and it waits from now on */
	x->now_ns += 1 * S;
	give_up(x, &j, true);
	expect_sum(&counters(x)->run_time, 1, 1);
	x->now_ns += 1 * S;
	j = fetch(x);
	expect_sum(&counters(x)->start_latency, 3, 3);
}

static void test_oldest_waiting_over_priorities_and_groups(void **state)
{
	struct fx *x = *state;
	uint64_t t = x->now_ns;

	fx_restart(x, FX_ROCKS);
	add(x, "job_1", NULL, PRIORITY_NORMAL, 0);
	x->now_ns = t + 1 * S;
	add(x, "job_2", NULL, PRIORITY_CRITICAL, 0);
	x->now_ns = t + 2 * S;
	add(x, "job_3", "g", PRIORITY_HIGH, 0);
	x->now_ns = t + 10 * S;
	expect_oldest(x, "q", t);
	fx_restart(x, FX_ROCKS); /* windows know nothing then */
	expect_oldest(x, "q", t);
	fx_job_op(x, OP_CANCEL, "job_1", "cancelled");
	expect_oldest(x, "q", t + 1 * S);
	fx_restart(x, FX_ROCKS);
	expect_oldest(x, "q", t + 1 * S);
	fx_expect(x, "q", "job_2");
	expect_oldest(x, "q", t + 2 * S);
	fx_expect(x, "q", "job_3");
	expect_oldest(x, "q", 0);
}

/* One that came back stands in front and has not waited long. */
static void test_oldest_waiting_behind_a_job_that_came_back(void **state)
{
	struct fx *x = *state;
	uint64_t t = x->now_ns;
	struct held j;

	fx_enqueue(x, "job_1", "q");
	j = fetch(x);
	x->now_ns = t + 1 * S;
	fx_enqueue(x, "job_2", "q");
	x->now_ns = t + 50 * S;
	give_up(x, &j, true);
	x->now_ns = t + 60 * S;
	expect_oldest(x, "q", t + 1 * S);
	fx_job_op(x, OP_CANCEL, "job_2", "cancelled");
	expect_oldest(x, "q", t + 50 * S);
}

static void
test_rates_count_what_became_pending_and_was_handed_out(void **state)
{
	struct fx *x = *state;
	struct held j;
	struct m_scale m;

	x->now_ns = FX_START_NS / (10 * S) * (10 * S);
	fx_enqueue(x, "job_1", "q");
	add(x, "job_2", NULL, PRIORITY_NORMAL, x->now_ns + 1 * S);
	j = fetch(x);
	x->now_ns += 1 * S;
	give_up(x, &j, true);                /* pending again */
	fx_maintain(x, OP_PROMOTE, 0, NULL); /* job_2 */
	x->now_ns += 9 * S;
	m = scale(x, FX_MEM, "q");
	assert_int_equal(m.waiting, 2);
	assert_int_equal(m.active, 0);
	assert_true(m.rate_in > 0.299 && m.rate_in < 0.301); /* 3 in 10 s */
	assert_true(m.rate_out > 0.099 && m.rate_out < 0.101);
	assert_int_equal(m.suggested_workers, 1);
}

static void test_suggestion_heeds_pause_and_limit(void **state)
{
	struct fx *x = *state;
	struct m_set_queue set = { 0 };
	struct held j;

	for (int i = 0; i < 20; i++) {
		char id[16];

		(void)snprintf(id, sizeof(id), "job_%d", i);
		fx_enqueue(x, id, "q");
	}
	j = fetch(x);
	x->now_ns += 30 * S;
	ack(x, &j); /* run time 30 s, 19 wait: 9.5 and 0.67 a second * 30 */
	assert_int_equal(scale(x, FX_MEM, "q").suggested_workers, 30);
	MSG_SET(&set, set_queue, queue, STR("q"));
	MSG_SET(&set, set_queue, max_concurrency, 4);
	assert_int_equal(fx_do(x, OP_SET_QUEUE, &set, NULL), 0);
	assert_int_equal(scale(x, FX_MEM, "q").suggested_workers, 4);
	fx_queue_op(x, OP_PAUSE, "q");
	assert_int_equal(scale(x, FX_MEM, "q").suggested_workers, 0);
	assert_true(scale(x, FX_MEM, "q").paused);
}

/* What would have to be read is left out rather than told wrongly. */
static void test_reads_after_a_start_are_bounded(void **state)
{
	struct fx *x = *state;
	struct fsm *f;
	unsigned fills = 2; /* of three priorities */
	struct m_scale m;

	fx_enqueue(x, "job_1", "q");
	fx_restart(x, FX_ROCKS);
	f = x->side[FX_ROCKS].f;
	assert_int_equal(fsm_scale(f, STR("q"), x->now_ns, &fills, &m), 1);
	assert_int_equal(fills, 0);
	assert_int_equal(m.waiting, 1);
	assert_false(MSG_HAS(&m, scale, oldest_waiting_at));
	fills = 2;
	assert_int_equal(fsm_scale(f, STR("q"), x->now_ns, &fills, &m), 1);
	assert_int_equal(fills, 1);
	assert_int_equal(m.oldest_waiting_at, FX_START_NS);
	fills = 0; /* now it is known */
	assert_int_equal(fsm_scale(f, STR("q"), x->now_ns, &fills, &m), 1);
	assert_int_equal(m.oldest_waiting_at, FX_START_NS);
}

static void test_unknown_queue(void **state)
{
	struct fx *x = *state;
	unsigned fills = 0;
	struct m_scale m;

	assert_int_equal(
	    fsm_scale(x->side[0].f, STR("nobody"), x->now_ns, &fills, &m), 0);
}

static void test_busiest_queues_by_name(void **state)
{
	struct fx *x = *state;
	struct arena a = ARENA_INIT;
	struct str *names;
	char id[16], queue[16];
	int n = 0;

	assert_int_equal(fsm_busiest(x->side[0].f, 10, &a, &names), 0);
	for (int q = 0; q < 9; q++) { /* q8 has 9 jobs, q0 has 1 */
		for (int i = 0; i <= q; i++) {
			(void)snprintf(id, sizeof(id), "job_%d", n++);
			(void)snprintf(queue, sizeof(queue), "q%d", q);
			fx_enqueue(x, id, queue);
		}
	}
	assert_int_equal(fsm_busiest(x->side[0].f, 3, &a, &names), 3);
	assert_str_is(names[0], "q6");
	assert_str_is(names[1], "q7");
	assert_str_is(names[2], "q8");
	assert_int_equal(fsm_busiest(x->side[0].f, 100, &a, &names), 9);
	assert_str_is(names[0], "q0");
	assert_int_equal(fsm_busiest(x->side[0].f, 0, &a, &names), 0);
	arena_done(&a);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fx_setup, fx_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_start_latency_of_a_plain_job_begins_at_its_creation),
		TEST(test_start_latency_of_a_promoted_job_begins_at_its_time),
		TEST(test_start_latency_after_a_retry_begins_anew),
		TEST(test_oldest_waiting_over_priorities_and_groups),
		TEST(test_oldest_waiting_behind_a_job_that_came_back),
		TEST(test_rates_count_what_became_pending_and_was_handed_out),
		TEST(test_suggestion_heeds_pause_and_limit),
		TEST(test_reads_after_a_start_are_bounded),
		TEST(test_unknown_queue),
		TEST(test_busiest_queues_by_name),
	};

	return cmocka_run_group_tests_name("fsm_scale", tests, NULL, NULL);
}
