/* Settings of queues: merged, checked, kept. */
#include "fsm/core/state.h"
#include "fsm/order/limiter.h"
#include "fsm/order/queue.h"
#include "fsm_fixture.h"

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

/* --- defaults of jobs --- */

static void test_jobs_take_the_retry_rules_of_their_queue(void **state)
{
	struct m_set_queue m = change_of("q");
	struct m_enqueue e = { 0 };
	struct m_enqueue_reply r;
	struct fx *x = *state;
	const struct m_job *j;

	MSG_SET(&m, set_queue, max_retries, 7);
	MSG_SET(&m, set_queue, retry_backoff, BACKOFF_LINEAR);
	MSG_SET(&m, set_queue, retry_base_delay, 2 * NS_PER_S);
	MSG_SET(&m, set_queue, retry_max_delay, 3 * NS_PER_S);
	MSG_SET(&m, set_queue, retry_jitter, 0.25);
	set_ok(x, &m);
	MSG_SET(&e, enqueue, job_id, STR("job_a"));
	MSG_SET(&e, enqueue, queue, STR("q"));
	assert_int_equal(fx_do(x, OP_ENQUEUE, &e, &r), 0);
	assert_int_equal(r.max_retries, 7); /* told to who answers */
	j = fx_job(x, "job_a");
	assert_int_equal(j->max_retries, 7);
	assert_int_equal(j->retry_backoff, BACKOFF_LINEAR);
	assert_int_equal(j->retry_base_delay, 2 * NS_PER_S);
	assert_int_equal(j->retry_max_delay, 3 * NS_PER_S);
	assert_true(j->retry_jitter > 0.2 && j->retry_jitter < 0.3);
	/* what the job says itself wins */
	MSG_SET(&e, enqueue, job_id, STR("job_b"));
	MSG_SET(&e, enqueue, max_retries, 1);
	MSG_SET(&e, enqueue, retry_jitter, 0);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &e, &r), 0);
	j = fx_job(x, "job_b");
	assert_int_equal(j->max_retries, 1);
	assert_int_equal(j->retry_backoff, BACKOFF_LINEAR);
	assert_true(j->retry_jitter == 0);
	/* other queues know nothing of it */
	fx_enqueue(x, "job_c", "other");
	assert_int_equal(fx_job(x, "job_c")->max_retries, 3);
}

/* --- clear and delete --- */

/* All portions that are left after the one answered; returns the count. */
static uint32_t sweep_from(struct fx *x, enum op_id op, const char *queue,
			   const struct m_clear_queue_reply *before)
{
	struct m_clear_queue_reply r = *before;
	struct buf cursor = BUF_INIT(0);
	uint32_t count = 0;

	while (r.more) {
		struct m_clear_queue m = { 0 };

		MSG_SET(&m, clear_queue, queue, str_from(queue));
		MSG_SET(&m, clear_queue, upto_seq, r.upto_seq);
		buf_clear(&cursor);
		buf_put_str(&cursor, r.cursor);
		MSG_SET(&m, clear_queue, cursor, buf_str(&cursor));
		assert_int_equal(fx_do(x, op, &m, &r), 0);
		count += r.count;
	}
	buf_done(&cursor);
	return count;
}

/* All portions; returns the count. */
static uint32_t sweep(struct fx *x, enum op_id op, const char *queue)
{
	struct m_clear_queue m = { 0 };
	struct m_clear_queue_reply r;
	uint32_t count;

	MSG_SET(&m, clear_queue, queue, str_from(queue));
	assert_int_equal(fx_do(x, op, &m, &r), 0);
	count = r.count;
	return count + sweep_from(x, op, queue, &r);
}

/* One job in each state but blocked, which needs another job. */
static void fill(struct fx *x, const char *queue)
{
	struct m_enqueue e;
	struct m_fail fail = { 0 };

	fx_enqueue(x, "job_active", queue);
	fx_expect(x, queue, "job_active");
	fx_enqueue(x, "job_retrying", queue);
	fx_expect(x, queue, "job_retrying");
	MSG_SET(&fail, fail, job_id, STR("job_retrying"));
	MSG_SET(&fail, fail, error, STR("no"));
	assert_int_equal(fx_do(x, OP_FAIL, &fail, NULL), 0);
	fx_enqueue(x, "job_cancelled", queue);
	fx_job_op(x, OP_CANCEL, "job_cancelled", "cancelled");
	e = fx_new("job_scheduled", queue);
	MSG_SET(&e, enqueue, scheduled_at, x->now_ns + 3600 * NS_PER_S);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &e, NULL), 0);
	e = fx_new("job_critical", queue);
	MSG_SET(&e, enqueue, priority, PRIORITY_CRITICAL);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &e, NULL), 0);
	fx_enqueue(x, "job_pending", queue);
}

static void test_clear_removes_what_waits_and_nothing_else(void **state)
{
	struct fx *x = *state;

	fill(x, "q");
	fx_enqueue(x, "job_other", "q2");
	assert_int_equal(sweep(x, OP_CLEAR_QUEUE, "q"), 4);
	assert_false(fx_job_exists(x, "job_pending"));
	assert_false(fx_job_exists(x, "job_critical"));
	assert_false(fx_job_exists(x, "job_scheduled"));
	assert_false(fx_job_exists(x, "job_retrying"));
	fx_expect_state(x, "job_active", JOB_ACTIVE);
	fx_expect_state(x, "job_cancelled", JOB_CANCELLED);
	fx_expect_state(x, "job_other", JOB_PENDING);
	fx_expect_none(x, "q");
	fx_enqueue(x, "job_new", "q");
	fx_expect(x, "q", "job_new");
}

static void test_clear_of_an_unknown_queue_removes_nothing(void **state)
{
	struct fx *x = *state;

	assert_int_equal(sweep(x, OP_CLEAR_QUEUE, "nowhere"), 0);
	assert_null(queue_find(x->side[FX_MEM].f, STR("nowhere")));
}

static void many(struct fx *x, uint32_t from, uint32_t n, bool scheduled)
{
	x->unchecked = true;
	fx_begin(x);
	for (uint32_t i = from; i < from + n; i++) {
		char id[32];
		struct m_enqueue e;

		(void)snprintf(id, sizeof(id), "job_%05u", i);
		e = fx_new(id, "q");
		if (scheduled)
			MSG_SET(&e, enqueue, scheduled_at,
				x->now_ns + (1 + i) * NS_PER_S);
		fx_add(x, OP_ENQUEUE, 0, &e);
	}
	fx_commit(x);
	x->unchecked = false;
}

/*
 * An entry that 0.4.0 wrote: its cursor is a key without a namespace. The jobs
 * before it stay, as they did then.
 */
static void test_clear_goes_on_where_0_4_0_was(void **state)
{
	struct m_clear_queue m = { 0 };
	struct fx *x = *state;
	char cursor[4 + 8 + 9] = "s|q";

	many(x, 0, 3, true);
	put_be64(cursor + 4, x->now_ns + NS_PER_S);
	memcpy(cursor + 12, "job_00000", 9);
	MSG_SET(&m, clear_queue, queue, STR("q"));
	MSG_SET(&m, clear_queue, cursor, str_of(cursor, sizeof(cursor)));
	assert_int_equal(fx_do_old(x, OP_CLEAR_QUEUE, 0, &m), 0);
	assert_true(fx_job_exists(x, "job_00000"));
	assert_false(fx_job_exists(x, "job_00001"));
	assert_false(fx_job_exists(x, "job_00002"));
	/* of ours it would be none of this queue */
	fx_refused(x, OP_CLEAR_QUEUE, &m, ERR_BAD_MESSAGE,
		   "the cursor is none of this queue");
}

static void test_clear_goes_in_portions_and_leaves_what_came_later(void **state)
{
	struct m_clear_queue m = { 0 };
	struct m_clear_queue_reply r;
	struct buf cursor = BUF_INIT(0);
	struct fx *x = *state;
	uint32_t count = 0, portions = 0;

	many(x, 0, 1500, true);
	many(x, 1500, 700, false);
	MSG_SET(&m, clear_queue, queue, STR("q"));
	do {
		assert_int_equal(fx_do(x, OP_CLEAR_QUEUE, &m, &r), 0);
		assert_true(r.count <= LIMIT_MAINTAIN_JOBS);
		count += r.count;
		MSG_SET(&m, clear_queue, upto_seq, r.upto_seq);
		buf_clear(&cursor);
		buf_put_str(&cursor, r.cursor);
		MSG_SET(&m, clear_queue, cursor, buf_str(&cursor));
		if (portions++ == 0) { /* before and behind the cursor */
			many(x, 9000, 10, true);
			many(x, 0, 10, true);
			many(x, 9010, 10, false);
			fx_restart(x, FX_MEM);
		}
	} while (r.more);
	buf_done(&cursor);
	assert_int_equal(count, 2200);
	assert_int_equal(portions, 3);
	assert_true(fx_job_exists(x, "job_09000"));
	assert_true(fx_job_exists(x, "job_00003"));
	assert_true(fx_job_exists(x, "job_09019"));
}

static void test_delete_removes_everything_of_the_queue(void **state)
{
	struct m_clear_queue m = { 0 };
	struct m_set_queue s = change_of("q");
	struct m_ack ack = { 0 };
	struct fx *x = *state;

	MSG_SET(&s, set_queue, max_concurrency, 50);
	MSG_SET(&s, set_queue, max_backlog, 50);
	set_ok(x, &s);
	fill(x, "q");
	fx_enqueue(x, "job_other", "q2");
	assert_int_equal(sweep(x, OP_DELETE_QUEUE, "q"), 6);
	assert_null(queue_find(x->side[FX_MEM].f, STR("q")));
	assert_false(fx_job_exists(x, "job_active"));
	assert_false(fx_job_exists(x, "job_cancelled"));
	fx_expect_state(x, "job_other", JOB_PENDING);
	MSG_SET(&ack, ack, job_id, STR("job_active"));
	assert_int_equal(fx_do(x, OP_ACK, &ack, NULL), ERR_NOT_FOUND);
	MSG_SET(&m, clear_queue, queue, STR("q"));
	fx_refused(x, OP_DELETE_QUEUE, &m, ERR_NOT_FOUND,
		   "queue \"q\" not found");
	/* a new one of that name starts from nothing */
	fx_restart(x, FX_ROCKS);
	fx_enqueue(x, "job_again", "q");
	assert_int_equal(set_of(x, FX_ROCKS, "q")->has, 0);
	fx_expect(x, "q", "job_again");
}

static void test_delete_removes_groups_and_limiters(void **state)
{
	struct m_group_limit g = { 0 };
	struct m_set_queue s = change_of("q");
	struct fx *x = *state;
	struct m_fetched j;

	MSG_SET(&s, set_queue, rate, 100);
	MSG_SET(&s, set_queue, period, NS_PER_S);
	MSG_SET(&s, set_queue, fairness, FAIRNESS_GROUP);
	MSG_SET(&g, group_limit, name, STR("a"));
	MSG_SET(&g, group_limit, rate, 50);
	MSG_SET(&g, group_limit, period, NS_PER_S);
	MSG_SET_LIST(&s, set_queue, groups, &g, 1);
	set_ok(x, &s);
	for (int i = 0; i < 6; i++) {
		char id[16];
		struct m_enqueue e;

		(void)snprintf(id, sizeof(id), "job_%d", i);
		e = fx_new(id, "q");
		if (i < 4)
			MSG_SET(&e, enqueue, group,
				i % 2 ? STR("a") : STR("b"));
		assert_int_equal(fx_do(x, OP_ENQUEUE, &e, NULL), 0);
	}
	for (int i = 0; i < 3; i++)
		assert_true(fx_fetch(x, "q", &j));
	assert_int_equal(sweep(x, OP_CLEAR_QUEUE, "q"), 3);
	fx_enqueue(x, "job_more", "q");
	assert_int_equal(sweep(x, OP_DELETE_QUEUE, "q"), 4);
	for (int side = 0; side < FX_SIDES; side++)
		fx_restart(x, side);
	fx_enqueue(x, "job_new", "q");
	fx_expect(x, "q", "job_new");
}

static void test_delete_goes_in_portions(void **state)
{
	struct m_clear_queue m = { 0 };
	struct m_clear_queue_reply r;
	struct buf cursor = BUF_INIT(0);
	struct fx *x = *state;

	many(x, 0, 1200, false);
	MSG_SET(&m, clear_queue, queue, STR("q"));
	assert_int_equal(fx_do(x, OP_DELETE_QUEUE, &m, &r), 0);
	assert_int_equal(r.count, LIMIT_MAINTAIN_JOBS);
	assert_true(r.more);
	buf_put_str(&cursor, r.cursor); /* the next entry forgets it */
	r.cursor = buf_str(&cursor);
	many(x, 5000, 5, true); /* behind the cursor; those go too */
	assert_int_equal(sweep_from(x, OP_DELETE_QUEUE, "q", &r), 205);
	buf_done(&cursor);
	assert_null(queue_find(x->side[FX_ROCKS].f, STR("q")));
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
		T(test_jobs_take_the_retry_rules_of_their_queue),
		T(test_clear_removes_what_waits_and_nothing_else),
		T(test_clear_of_an_unknown_queue_removes_nothing),
		T(test_clear_goes_on_where_0_4_0_was),
		T(test_clear_goes_in_portions_and_leaves_what_came_later),
		T(test_delete_removes_everything_of_the_queue),
		T(test_delete_removes_groups_and_limiters),
		T(test_delete_goes_in_portions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
