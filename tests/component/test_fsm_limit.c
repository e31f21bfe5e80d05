/*
 * Limits of queues: active jobs, and jobs handed out per time. The rule of the
 * rate is checked by what it promises: every window of the period, over random
 * times, restarts and changes of settings.
 */
#include "fsm/core/state.h"
#include "fsm/order/lane.h"
#include "fsm/order/limiter.h"
#include "fsm/order/queue.h"
#include "fsm/order/window.h"
#include "fsm_fixture.h"
#include "util/rng.h"

#define Q STR("q")

/* --- the ring by itself --- */

/* Never more than the rate in a window that ends with any of the moments. */
static void check_windows(const uint64_t *at, size_t n, uint64_t jobs,
			  uint64_t period)
{
	for (size_t i = 0; i < n; i++) {
		size_t in = 0;

		for (size_t j = i + 1; j-- > 0 && at[i] - at[j] < period;)
			in++;
		if (in > jobs)
			fail_msg("%zu in a window of %llu ns, %llu allowed", in,
				 (unsigned long long)period,
				 (unsigned long long)jobs);
	}
}

static void store_and_read(struct limiter *l)
{
	struct arena a = { .block_size = 4096 };
	struct m_limiter m;
	struct limiter back;

	limiter_write(l, &a, &m);
	assert_int_equal(limiter_read(&m, &back), 0);
	assert_int_equal(back.total, l->total);
	assert_int_equal(back.newest, l->newest);
	*l = back;
	arena_done(&a);
}

static void run_ring(struct rng *rng, const struct rate *r)
{
	uint64_t now = FX_START_NS, at[512];
	struct limiter l = { 0 };
	size_t n = 0;

	while (n < ARRAY_SIZE(at)) {
		if (limiter_left(&l, r, now) > 0) {
			limiter_add(&l, r, now);
			at[n++] = now;
		} else {
			uint64_t next = limiter_next(&l, r, now);

			assert_true(next > now);
			assert_int_equal(limiter_left(&l, r, next - 1), 0);
			assert_true(limiter_left(&l, r, next) > 0);
			/* at most a slot later than it could be */
			assert_true(next <= at[n - r->jobs] + r->period_ns +
						r->period_ns / LIMITER_PARTS +
						1);
			if (rng_u64(rng) % 2 == 0)
				now = next;
		}
		if (rng_u64(rng) % 8 == 0)
			store_and_read(&l);
		if (rng_u64(rng) % 4 == 0)
			now += rng_u64(rng) % (r->period_ns / 4 + 1);
		if (rng_u64(rng) % 64 == 0)
			now += rng_u64(rng) % (r->period_ns * 3);
	}
	check_windows(at, n, r->jobs, r->period_ns);
	assert_true(limiter_left(&l, r, limiter_end(&l, r)) == r->jobs);
}

static void test_never_more_than_the_rate_in_any_window(void **state)
{
	struct rng rng;

	(void)state;
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct rate r;

		rng_seed(&rng, seed);
		r.jobs = 1 + rng_u64(&rng) % 40;
		r.period_ns = 1 + rng_u64(&rng) % (100 * NS_PER_S);
		if (seed % 4 == 0)
			r.period_ns = 1 + rng_u64(&rng) % 200;
		run_ring(&rng, &r);
	}
}

static void test_a_burst_up_to_the_rate_is_allowed(void **state)
{
	struct rate r = { 1000, 60 * NS_PER_S };
	struct limiter l = { 0 };

	(void)state;
	for (int i = 0; i < 1000; i++) {
		assert_true(limiter_left(&l, &r, FX_START_NS) > 0);
		limiter_add(&l, &r, FX_START_NS);
	}
	assert_int_equal(limiter_left(&l, &r, FX_START_NS), 0);
}

/* Another period: what was counted is not forgotten while it matters. */
static void test_a_change_of_period_keeps_what_counts(void **state)
{
	struct rng rng;

	(void)state;
	rng_seed(&rng, 7);
	for (int round = 0; round < 200; round++) {
		struct rate a = { 5, 1 + rng_u64(&rng) % (9 * NS_PER_S) };
		struct rate b = { 5, 1 + rng_u64(&rng) % a.period_ns };
		uint64_t now = FX_START_NS, at[32];
		struct limiter l = { 0 };
		size_t n = 0;

		for (int i = 0; i < 100 && n < ARRAY_SIZE(at); i++) {
			const struct rate *r = i < 20 ? &a : &b;

			if (limiter_left(&l, r, now) > 0) {
				limiter_add(&l, r, now);
				at[n++] = now;
			}
			now += rng_u64(&rng) % (b.period_ns / 2 + 1);
		}
		check_windows(at, n, 5, b.period_ns);
	}
}

static void test_a_stored_ring_that_makes_no_sense_is_refused(void **state)
{
	struct m_limiter m = { .slot = 100, .slot_ns = 1 };
	struct limiter l;
	char counts[(LIMITER_SLOTS + 1) * 4] = { 0 };

	(void)state;
	assert_int_equal(limiter_read(&m, &l), 0);
	m.slot_ns = 0;
	assert_int_equal(limiter_read(&m, &l), -ERR_INTERNAL_ERROR);
	m.slot_ns = 1;
	m.counts = str_of(counts, 3);
	assert_int_equal(limiter_read(&m, &l), -ERR_INTERNAL_ERROR);
	m.counts = str_of(counts, sizeof(counts));
	assert_int_equal(limiter_read(&m, &l), -ERR_INTERNAL_ERROR);
	m.counts = str_of(counts, 8);
	m.slot = 0;
	assert_int_equal(limiter_read(&m, &l), -ERR_INTERNAL_ERROR);
}

/* --- in the state machine --- */

static void set(struct fx *x, struct m_set_queue *m)
{
	MSG_SET(m, set_queue, queue, Q);
	assert_int_equal(fx_do(x, OP_SET_QUEUE, m, NULL), 0);
}

static void set_rate(struct fx *x, uint64_t jobs, uint64_t period)
{
	struct m_set_queue m = { 0 };

	MSG_SET(&m, set_queue, rate, jobs);
	MSG_SET(&m, set_queue, period, period);
	set(x, &m);
}

static void enqueue_n(struct fx *x, const char *group, int first, int n)
{
	fx_begin(x);
	for (int i = first; i < first + n; i++) {
		struct m_enqueue m = { 0 };
		char id[32];

		(void)snprintf(id, sizeof(id), "%s%d", group ? group : "j", i);
		MSG_SET(&m, enqueue, job_id, str_from(id));
		MSG_SET(&m, enqueue, queue, Q);
		if (group != NULL)
			MSG_SET(&m, enqueue, group, str_from(group));
		fx_add(x, OP_ENQUEUE, 0, &m);
	}
	fx_commit(x);
}

static size_t fetch_n(struct fx *x, uint32_t count)
{
	struct str queue = Q;
	struct m_fetch m = { 0 };
	struct m_fetch_reply r;

	MSG_SET_LIST(&m, fetch, queues, &queue, 1);
	MSG_SET(&m, fetch, count, count);
	assert_int_equal(fx_do(x, OP_FETCH, &m, &r), 0);
	return r.jobs_n;
}

static uint64_t takeable(struct fx *x, uint64_t now)
{
	uint64_t n = fsm_queue_takeable(x->side[FX_MEM].f, Q, now);

	assert_true((n > 0) ==
		    (fsm_queue_takeable(x->side[FX_ROCKS].f, Q, now) > 0));
	return n;
}

static void restart_one(struct fx *x, uint64_t which)
{
	fx_restart(x, (enum fx_side_id)(which % FX_SIDES));
}

static void ack(struct fx *x, const char *id)
{
	struct m_ack m = { 0 };

	MSG_SET(&m, ack, job_id, str_from(id));
	assert_int_equal(fx_do(x, OP_ACK, &m, NULL), 0);
}

static void test_max_concurrency_of_a_queue(void **state)
{
	struct fx *x = *state;
	struct m_set_queue m = { 0 };

	MSG_SET(&m, set_queue, max_concurrency, 3);
	set(x, &m);
	enqueue_n(x, NULL, 1, 10);
	assert_int_equal(takeable(x, x->now_ns), 3);
	assert_int_equal(fetch_n(x, 10), 3);
	restart_one(x, 0);
	assert_int_equal(takeable(x, x->now_ns), 0);
	assert_false(fsm_queue_is_open(x->side[0].f, Q, x->now_ns));
	assert_int_equal(fetch_n(x, 10), 0);
	ack(x, "j2");
	assert_int_equal(takeable(x, x->now_ns), 1);
	assert_int_equal(fetch_n(x, 10), 1);
	/* a lower limit takes nothing away from workers */
	MSG_SET(&m, set_queue, max_concurrency, 1);
	set(x, &m);
	ack(x, "j1");
	ack(x, "j3");
	assert_int_equal(fetch_n(x, 10), 0);
	ack(x, "j4");
	assert_int_equal(fetch_n(x, 10), 1);
	MSG_SET(&m, set_queue, max_concurrency, 0);
	set(x, &m);
	assert_int_equal(fetch_n(x, 10), 5);
}

static void test_rate_of_a_queue_over_restarts(void **state)
{
	struct fx *x = *state;
	uint64_t look;

	set_rate(x, 4, 10 * NS_PER_S);
	enqueue_n(x, NULL, 1, 10);
	assert_int_equal(fetch_n(x, 3), 3);
	restart_one(x, 1);
	x->now_ns += 5 * NS_PER_S;
	assert_int_equal(takeable(x, x->now_ns), 1);
	assert_int_equal(fetch_n(x, 10), 1);
	restart_one(x, 0);
	assert_int_equal(fetch_n(x, 10), 0);
	assert_int_equal(takeable(x, x->now_ns), 0);
	/* both sides know when to look again, and nothing before it is there */
	look = fsm_look_ns(x->side[FX_MEM].f);
	assert_int_equal(look, fsm_look_ns(x->side[FX_ROCKS].f));
	assert_true(look > x->now_ns &&
		    look <= FX_START_NS + 10 * NS_PER_S + 160 * NS_PER_MS);
	assert_int_equal(takeable(x, look - 1), 0);
	assert_int_equal(takeable(x, look), 3);
	x->now_ns = look;
	assert_int_equal(fetch_n(x, 10), 3);
}

static void test_a_rate_that_goes_is_forgotten(void **state)
{
	struct fx *x = *state;
	struct m_set_queue m = { 0 };
	struct str rate = STR("rate");

	set_rate(x, 1, NS_PER_S);
	enqueue_n(x, NULL, 1, 10);
	assert_int_equal(fetch_n(x, 10), 1);
	set_rate(x, 3, NS_PER_S);
	assert_int_equal(fetch_n(x, 10), 2);
	MSG_SET_LIST(&m, set_queue, remove, &rate, 1);
	set(x, &m);
	assert_true(queue_find(x->side[0].f, Q)->lanes.plain);
	assert_int_equal(fsm_look_ns(x->side[0].f), 0);
	assert_int_equal(fetch_n(x, 10), 7);
}

static void test_rate_of_each_group(void **state)
{
	struct fx *x = *state;
	struct m_set_queue m = { 0 };
	uint64_t look;

	MSG_SET(&m, set_queue, group_rate, 2);
	MSG_SET(&m, set_queue, group_period, NS_PER_S);
	set(x, &m);
	enqueue_n(x, "a", 1, 5);
	enqueue_n(x, "b", 1, 3);
	enqueue_n(x, NULL, 1, 3);
	assert_int_equal(takeable(x, x->now_ns), 7);
	assert_int_equal(fetch_n(x, 100), 7);
	restart_one(x, 0);
	assert_int_equal(takeable(x, x->now_ns), 0);
	look = fsm_look_ns(x->side[0].f);
	assert_int_equal(look, fsm_look_ns(x->side[1].f));
	assert_true(look > x->now_ns);
	assert_true(takeable(x, look) > 0);
	x->now_ns = look - 1;
	assert_int_equal(fetch_n(x, 100), 0);
	x->now_ns = look;
	assert_int_equal(fetch_n(x, 100), 3);
}

/* Memory of a group with a rate is given back once it counts no more. */
static void test_lanes_with_rates_go_in_time(void **state)
{
	struct fx *x = *state;
	struct m_set_queue m = { 0 };
	const struct fsm_queue *q;

	MSG_SET(&m, set_queue, group_rate, 2);
	MSG_SET(&m, set_queue, group_period, NS_PER_S);
	set(x, &m);
	enqueue_n(x, "a", 1, 2);
	assert_int_equal(fetch_n(x, 2), 2);
	ack(x, "a1");
	ack(x, "a2");
	restart_one(x, 0);
	q = queue_find(x->side[0].f, Q);
	assert_int_equal(q->lanes.groups.n, 1);
	enqueue_n(x, "a", 3, 1);
	assert_int_equal(fetch_n(x, 1), 0);
	fx_job_op(x, OP_DELETE, "a3", "deleted");
	x->now_ns += 2 * NS_PER_S;
	fx_enqueue(x, "o1", "other");
	assert_int_equal(q->lanes.groups.n, 0);
}

static void test_lease_of_the_queue(void **state)
{
	struct fx *x = *state;
	struct m_set_queue m = { 0 };
	struct str queue = Q;
	struct m_fetch f = { 0 };
	struct m_fetch_reply r;

	MSG_SET(&m, set_queue, lease_duration, 7 * NS_PER_S);
	set(x, &m);
	enqueue_n(x, NULL, 1, 2);
	MSG_SET_LIST(&f, fetch, queues, &queue, 1);
	assert_int_equal(fx_do(x, OP_FETCH, &f, &r), 0);
	assert_int_equal(r.jobs[0].lease_duration, 7 * NS_PER_S);
	MSG_SET(&f, fetch, lease_duration, 9 * NS_PER_S);
	assert_int_equal(fx_do(x, OP_FETCH, &f, &r), 0);
	assert_int_equal(r.jobs[0].lease_duration, 9 * NS_PER_S);
}

/* --- everything at once, at random times --- */

#define GROUPS 4

struct trace {
	uint64_t at[4096];
	size_t n;
};

static void note(struct trace *t, uint64_t now)
{
	if (t->n < ARRAY_SIZE(t->at))
		t->at[t->n++] = now;
}

static void random_step(struct fx *x, struct rng *rng, struct trace *all,
			struct trace *by_group, int *made)
{
	struct str queue = Q;
	struct m_fetch m = { 0 };
	struct m_fetch_reply r;
	char group[8];
	uint64_t could;

	if (rng_u64(rng) % 3 == 0) {
		(void)snprintf(group, sizeof(group), "%c_",
			       (char)('a' + rng_u64(rng) % GROUPS));
		enqueue_n(x, group, *made, 4);
		*made += 4;
	}
	if (rng_u64(rng) % 40 == 0)
		restart_one(x, rng_u64(rng));
	x->now_ns += rng_u64(rng) % (300 * NS_PER_MS);
	could = takeable(x, x->now_ns);
	MSG_SET_LIST(&m, fetch, queues, &queue, 1);
	MSG_SET(&m, fetch, count, 1 + (uint32_t)(rng_u64(rng) % 5));
	assert_int_equal(fx_do(x, OP_FETCH, &m, &r), 0);
	/* whoever is told there is something gets something */
	assert_true((could > 0) == (r.jobs_n > 0));
	for (size_t i = 0; i < r.jobs_n; i++) {
		note(all, x->now_ns);
		note(&by_group[r.jobs[i].group.p[0] - 'a'], x->now_ns);
	}
	if (r.jobs_n > 0 && rng_u64(rng) % 4 != 0) {
		char id[32];

		(void)snprintf(id, sizeof(id), "%.*s",
			       STR_ARG(r.jobs[0].job_id));
		ack(x, id);
	}
}

static void test_random_times_with_limits_of_queue_and_groups(void **state)
{
	struct fx *x = *state;
	static struct trace all, by_group[GROUPS];
	struct m_set_queue m = { 0 };
	struct rng rng;
	int made = 0;

	rng_seed(&rng, 11);
	MSG_SET(&m, set_queue, rate, 10);
	MSG_SET(&m, set_queue, period, 2 * NS_PER_S);
	MSG_SET(&m, set_queue, group_rate, 3);
	MSG_SET(&m, set_queue, group_period, NS_PER_S);
	MSG_SET(&m, set_queue, fairness, FAIRNESS_GROUP);
	set(x, &m);
	for (int i = 0; i < 200; i++)
		random_step(x, &rng, &all, by_group, &made);
	assert_true(all.n > 80);
	check_windows(all.at, all.n, 10, 2 * NS_PER_S);
	for (int i = 0; i < GROUPS; i++)
		check_windows(by_group[i].at, by_group[i].n, 3, NS_PER_S);
}

#define T(name) cmocka_unit_test_setup_teardown(name, fx_setup, fx_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_never_more_than_the_rate_in_any_window),
		cmocka_unit_test(test_a_burst_up_to_the_rate_is_allowed),
		cmocka_unit_test(test_a_change_of_period_keeps_what_counts),
		cmocka_unit_test(
		    test_a_stored_ring_that_makes_no_sense_is_refused),
		T(test_max_concurrency_of_a_queue),
		T(test_rate_of_a_queue_over_restarts),
		T(test_a_rate_that_goes_is_forgotten),
		T(test_rate_of_each_group),
		T(test_lanes_with_rates_go_in_time),
		T(test_lease_of_the_queue),
		T(test_random_times_with_limits_of_queue_and_groups),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
