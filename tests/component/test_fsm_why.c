/*
 * Why a job is waiting: the reasons of every state, in their order.
 */
#include "fsm/core/state.h"
#include "fsm/job/worker.h"
#include "fsm_fixture.h"

static bool nobody_asks(void *ctx _unused_, struct str queue _unused_)
{
	return false;
}

static bool somebody_asks(void *ctx _unused_, struct str queue _unused_)
{
	return true;
}

/* The same from both sides, also after a restart. */
static struct m_why_reply why(struct fx *x, const char *id,
			      fsm_fetched_fn *is_fetched)
{
	struct fsm_why ask = { .job_id = str_from(id),
			       .now_ns = x->now_ns,
			       .is_fetched = is_fetched };
	struct m_why_reply r[FX_SIDES];

	fx_restart(x, FX_ROCKS);
	for (int i = 0; i < FX_SIDES; i++)
		assert_int_equal(fsm_why(x->side[i].f, &ask, &x->arena, &r[i]),
				 1);
	assert_int_equal(r[0].reasons_n, r[1].reasons_n);
	for (size_t i = 0; i < r[0].reasons_n; i++)
		assert_true(str_eq(r[0].reasons[i].text, r[1].reasons[i].text));
	assert_true(r[0].reasons_n > 0);
	assert_str_is(r[0].job_id, id);
	return r[0];
}

/* The decisive reason and its text. */
static struct m_reason first(struct fx *x, const char *id, const char *code,
			     const char *text)
{
	struct m_why_reply r = why(x, id, nobody_asks);

	assert_str_is(r.reasons[0].code, code);
	assert_str_is(r.reasons[0].text, text);
	return r.reasons[0];
}

static void test_scheduled(void **state)
{
	struct fx *x = *state;
	struct m_reason r;

	fx_make(x, "job_1", JOB_SCHEDULED);
	r = first(x, "job_1", "scheduled",
		  "scheduled for a run at 2023-11-14T22:13:21Z (in 1s)");
	assert_int_equal(r.until, x->now_ns + NS_PER_S);
	assert_str_is(why(x, "job_1", nobody_asks).summary,
		      "scheduled: scheduled for a run at "
		      "2023-11-14T22:13:21Z (in 1s)");
}

static void test_retrying(void **state)
{
	struct fx *x = *state;
	struct m_reason r;

	fx_make(x, "job_1", JOB_RETRYING);
	r = first(x, "job_1", "retrying",
		  "attempt 1 of 3 failed (boom); the next one begins at "
		  "2023-11-14T22:13:25Z (in 5s)");
	assert_int_equal(r.count, 1);
	assert_int_equal(r.limit, 3);
	assert_int_equal(r.until, x->now_ns + 5 * NS_PER_S);
}

static void test_held(void **state)
{
	struct fx *x = *state;
	struct m_hold m = { 0 };

	fx_make(x, "job_1", JOB_HELD);
	first(x, "job_1", "held", "held until it is approved or rejected");
	fx_job_op(x, OP_APPROVE, "job_1", "pending");
	MSG_SET(&m, hold, job_id, STR("job_1"));
	MSG_SET(&m, hold, reason, STR("too dear"));
	assert_int_equal(fx_do(x, OP_HOLD, &m, NULL), 0);
	first(x, "job_1", "held",
	      "held (too dear) until it is approved or rejected");
}

static void test_active(void **state)
{
	struct fx *x = *state;
	struct m_reason r;

	fx_make(x, "job_1", JOB_ACTIVE);
	r = first(x, "job_1", "active",
		  "worker w1 has it on host1 since 2023-11-14T22:13:20Z; its "
		  "lease ends at 2023-11-14T22:14:20Z (in 1m)");
	assert_int_equal(r.until, x->now_ns + 60 * NS_PER_S);
}

static void test_ended(void **state)
{
	struct fx *x = *state;

	fx_make(x, "done", JOB_COMPLETED);
	first(x, "done", "ended", "it completed at 2023-11-14T22:13:20Z");
	fx_make(x, "dead", JOB_DEAD);
	first(x, "dead", "ended", "it died at 2023-11-14T22:13:20Z: boom");
	fx_make(x, "gone", JOB_CANCELLED);
	first(x, "gone", "ended", "it was cancelled at 2023-11-14T22:13:20Z");
}

static void test_dependencies(void **state)
{
	struct fx *x = *state;
	struct str parents[3] = { STR("done"), STR("a"), STR("b") };
	struct m_enqueue m = { 0 };
	struct m_reason r;

	fx_make(x, "done", JOB_COMPLETED);
	fx_enqueue(x, "a", "q");
	fx_enqueue(x, "b", "q");
	MSG_SET(&m, enqueue, job_id, STR("job_1"));
	MSG_SET(&m, enqueue, queue, STR("q"));
	MSG_SET_LIST(&m, enqueue, depends_on, parents, 3);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
	r = first(x, "job_1", "dependency",
		  "waits for 2 of 3 jobs it depends on: a, b");
	assert_int_equal(r.count, 2);
	assert_int_equal(r.limit, 3);
	assert_int_equal(r.job_ids_n, 2);
	assert_str_is(r.job_ids[1], "b");
	fx_job_op(x, OP_CANCEL, "a", "cancelled"); /* it dies of that */
	assert_str_is(why(x, "job_1", nobody_asks).reasons[0].code, "ended");
}

static void test_no_worker(void **state)
{
	struct fx *x = *state;
	struct m_why_reply r;

	fx_enqueue(x, "job_1", "q");
	first(x, "job_1", "no_worker",
	      "no worker is asking for jobs of queue \"q\", and none with a "
	      "worker_id has taken one in the last 5m");
	r = why(x, "job_1", somebody_asks);
	assert_int_equal(r.reasons_n, 1);
	assert_str_is(r.reasons[0].code, "ahead");
	assert_str_is(r.reasons[0].text,
		      "nothing is ahead of it in queue \"q\"; it waits for a "
		      "worker to ask");
	/* one that took another job of the queue counts, for a while */
	fx_expect(x, "q", "job_1");
	fx_enqueue(x, "job_2", "q");
	assert_str_is(why(x, "job_2", nobody_asks).reasons[0].code, "ahead");
	x->now_ns += 300 * NS_PER_S;
	assert_str_is(why(x, "job_2", nobody_asks).reasons[0].code,
		      "no_worker");
	fx_enqueue(x, "job_3", "other");
	assert_str_is(why(x, "job_3", nobody_asks).reasons[0].code,
		      "no_worker");
}

/* A long list of queues is not kept as it came, and each of them is known. */
static void test_a_worker_of_very_many_queues(void **state)
{
	struct fx *x = *state;
	static char names[LIMIT_FETCH_QUEUES][LIMIT_QUEUE_NAME_BYTES];
	struct str queues[LIMIT_FETCH_QUEUES];
	const struct fsm_worker *w;
	struct m_fetch m = { 0 };
	struct m_ack ack = { 0 };
	char last[LIMIT_QUEUE_NAME_BYTES + 1];

	for (size_t i = 0; i < LIMIT_FETCH_QUEUES; i++) {
		memset(names[i], 'q', sizeof(names[i]));
		names[i][0] = (char)('a' + i / 16);
		names[i][1] = (char)('a' + i % 16);
		queues[i] = str_of(names[i], sizeof(names[i]));
	}
	memcpy(last, names[LIMIT_FETCH_QUEUES - 1], sizeof(last) - 1);
	last[sizeof(last) - 1] = '\0';
	fx_enqueue(x, "job_1", last);
	MSG_SET_LIST(&m, fetch, queues, queues, LIMIT_FETCH_QUEUES);
	MSG_SET(&m, fetch, worker_id, STR("w1"));
	assert_int_equal(fx_do(x, OP_FETCH, &m, NULL), 0);
	fx_expect_state(x, "job_1", JOB_ACTIVE);
	fx_enqueue(x, "job_2", last);
	fx_enqueue(x, "job_3", "other");
	for (int i = 0; i < 2; i++) {
		w = hmap_get(&x->side[0].f->workers, STR("w1"));
		assert_in_range(w->queues.n, 1, 2 * LIMIT_WORKER_QUEUES);
		assert_str_is(why(x, "job_2", nobody_asks).reasons[0].code,
			      "ahead");
		assert_str_is(why(x, "job_3", nobody_asks).reasons[0].code,
			      "no_worker");
		fx_restart(x, (enum fx_side_id)0);
	}
	/* a sign of life writes the record anew, with all of them */
	x->now_ns += 60 * NS_PER_S;
	MSG_SET(&ack, ack, job_id, STR("job_1"));
	MSG_SET(&ack, ack, worker_id, STR("w1"));
	assert_int_equal(fx_do(x, OP_ACK, &ack, NULL), 0);
	fx_restart(x, (enum fx_side_id)0);
	fx_check_same(x);
	assert_str_is(why(x, "job_2", nobody_asks).reasons[0].code, "ahead");
}

static void test_jobs_ahead(void **state)
{
	struct fx *x = *state;
	struct m_set_priority p = { 0 };
	struct m_why_reply r;

	fx_enqueue(x, "a", "q");
	fx_enqueue(x, "b", "q");
	fx_enqueue(x, "c", "q");
	fx_enqueue(x, "x", "other");
	MSG_SET(&p, set_priority, job_id, STR("c"));
	MSG_SET(&p, set_priority, priority, PRIORITY_HIGH);
	assert_int_equal(fx_do(x, OP_PRIORITY, &p, NULL), 0);
	r = why(x, "b", somebody_asks);
	assert_int_equal(r.reasons_n, 1);
	assert_str_is(r.reasons[0].text,
		      "2 jobs are ahead of it in queue \"q\"");
	assert_int_equal(r.reasons[0].count, 2);
	assert_false(r.reasons[0].at_least);
	assert_str_is(why(x, "a", somebody_asks).reasons[0].text,
		      "1 job is ahead of it in queue \"q\"");
	assert_int_equal(why(x, "c", somebody_asks).reasons[0].count, 0);
}

static void test_very_many_jobs_ahead(void **state)
{
	struct fx *x = *state;
	char id[32];
	struct m_enqueue m = { 0 };
	struct m_reason r;

	x->unchecked = true;
	fx_begin(x);
	for (int i = 0; i < 10001; i++) {
		(void)snprintf(id, sizeof(id), "job_%05d", i);
		MSG_SET(&m, enqueue, job_id, str_from(id));
		MSG_SET(&m, enqueue, queue, STR("q"));
		fx_add(x, OP_ENQUEUE, 0, &m);
	}
	fx_commit(x);
	r = why(x, "job_09999", somebody_asks).reasons[0];
	assert_int_equal(r.count, 9999);
	assert_false(r.at_least);
	r = why(x, "job_10000", somebody_asks).reasons[0];
	assert_int_equal(r.count, 10000);
	assert_true(r.at_least);
	assert_str_is(r.text,
		      "at least 10000 jobs are ahead of it in queue \"q\"");
}

static void test_a_paused_queue_decides(void **state)
{
	struct fx *x = *state;
	struct m_why_reply r;

	fx_enqueue(x, "a", "q");
	fx_enqueue(x, "b", "q");
	fx_queue_op(x, OP_PAUSE, "q");
	r = why(x, "b", nobody_asks);
	assert_int_equal(r.reasons_n, 3);
	assert_str_is(r.reasons[0].code, "paused");
	assert_str_is(r.reasons[0].text, "queue \"q\" is paused");
	assert_str_is(r.reasons[1].code, "no_worker");
	assert_str_is(r.reasons[2].code, "ahead");
	/* of a job that is not due yet its time decides */
	fx_make(x, "later", JOB_SCHEDULED);
	r = why(x, "later", nobody_asks);
	assert_str_is(r.reasons[0].code, "scheduled");
	assert_str_is(r.reasons[1].code, "paused");
}

static void set_queue(struct fx *x, const struct m_set_queue *m)
{
	assert_int_equal(fx_do(x, OP_SET_QUEUE, m, NULL), 0);
}

static void test_concurrency(void **state)
{
	struct fx *x = *state;
	struct m_set_queue m = { 0 };
	struct m_reason r;

	MSG_SET(&m, set_queue, queue, STR("q"));
	MSG_SET(&m, set_queue, max_concurrency, 2);
	set_queue(x, &m);
	fx_make(x, "a", JOB_ACTIVE);
	fx_make(x, "b", JOB_ACTIVE);
	fx_enqueue(x, "c", "q");
	r = first(x, "c", "concurrency",
		  "queue \"q\" has 2 of 2 slots taken, held by w1");
	assert_int_equal(r.count, 2);
	assert_int_equal(r.limit, 2);
	assert_int_equal(r.job_ids_n, 2);
	fx_job_op(x, OP_DELETE, "a", "deleted");
	assert_str_is(why(x, "c", nobody_asks).reasons[0].code, "ahead");
}

static void test_rate(void **state)
{
	struct fx *x = *state;
	struct m_set_queue m = { 0 };
	struct m_why_reply w;

	MSG_SET(&m, set_queue, queue, STR("q"));
	MSG_SET(&m, set_queue, rate, 1);
	MSG_SET(&m, set_queue, period, 60 * NS_PER_S);
	set_queue(x, &m);
	fx_make(x, "a", JOB_ACTIVE);
	fx_enqueue(x, "b", "q");
	w = why(x, "b", somebody_asks);
	assert_int_equal(w.reasons_n, 1);
	assert_str_is(w.reasons[0].code, "rate");
	assert_int_equal(w.reasons[0].limit, 1);
	/* at that moment it is handed out, and not before */
	x->now_ns = w.reasons[0].until - 1;
	fx_expect_none(x, "q");
	x->now_ns++;
	fx_expect(x, "q", "b");
}

static void enqueue_group(struct fx *x, const char *id, const char *group)
{
	struct m_enqueue m = { 0 };

	MSG_SET(&m, enqueue, job_id, str_from(id));
	MSG_SET(&m, enqueue, queue, STR("q"));
	MSG_SET(&m, enqueue, group, str_from(group));
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
}

static void test_group_limits(void **state)
{
	struct fx *x = *state;
	struct m_set_queue m = { 0 };
	struct m_group_limit own = { 0 };
	struct m_why_reply w;

	MSG_SET(&m, set_queue, queue, STR("q"));
	MSG_SET(&m, set_queue, group_max_concurrency, 1);
	MSG_SET(&m, set_queue, group_rate, 1);
	MSG_SET(&m, set_queue, group_period, 60 * NS_PER_S);
	MSG_SET(&own, group_limit, name, STR("still"));
	MSG_SET(&own, group_limit, paused, true);
	MSG_SET_LIST(&m, set_queue, groups, &own, 1);
	set_queue(x, &m);
	enqueue_group(x, "a", "acme");
	fx_expect(x, "q", "a");
	enqueue_group(x, "b", "acme");
	enqueue_group(x, "c", "still");
	w = why(x, "b", somebody_asks);
	assert_int_equal(w.reasons_n, 2);
	assert_str_is(w.reasons[0].code, "group_concurrency");
	assert_str_is(w.reasons[0].text,
		      "group \"acme\" of queue \"q\" has 1 of 1 slots taken, "
		      "held by w1");
	assert_str_is(w.reasons[0].job_ids[0], "a");
	assert_str_is(w.reasons[1].code, "group_rate");
	w = why(x, "c", somebody_asks);
	assert_str_is(w.reasons[0].code, "group_paused");
	assert_str_is(w.reasons[0].text,
		      "group \"still\" of queue \"q\" is paused");
}

/* Groups stand in one order, unless they take turns. */
static void test_jobs_of_groups_ahead(void **state)
{
	struct fx *x = *state;
	struct m_set_queue m = { 0 };
	struct m_reason r;

	fx_enqueue(x, "a", "q");
	enqueue_group(x, "b", "one");
	enqueue_group(x, "c", "two");
	enqueue_group(x, "d", "one");
	assert_int_equal(why(x, "d", somebody_asks).reasons[0].count, 3);
	assert_int_equal(why(x, "a", somebody_asks).reasons[0].count, 0);
	MSG_SET(&m, set_queue, queue, STR("q"));
	MSG_SET(&m, set_queue, fairness, FAIRNESS_GROUP);
	set_queue(x, &m);
	r = why(x, "d", somebody_asks).reasons[0];
	assert_int_equal(r.count, 1);
	assert_str_is(r.text,
		      "1 job is ahead of it in its group of queue \"q\"");
}

static void test_unknown(void **state)
{
	struct fx *x = *state;
	struct fsm_why ask = { .job_id = STR("nope"),
			       .is_fetched = nobody_asks };
	struct m_why_reply r;

	assert_int_equal(fsm_why(x->side[0].f, &ask, &x->arena, &r), 0);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fx_setup, fx_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_scheduled),
		TEST(test_retrying),
		TEST(test_held),
		TEST(test_active),
		TEST(test_ended),
		TEST(test_dependencies),
		TEST(test_no_worker),
		TEST(test_a_worker_of_very_many_queues),
		TEST(test_jobs_ahead),
		TEST(test_very_many_jobs_ahead),
		TEST(test_a_paused_queue_decides),
		TEST(test_concurrency),
		TEST(test_rate),
		TEST(test_group_limits),
		TEST(test_jobs_of_groups_ahead),
		TEST(test_unknown),
	};

	return cmocka_run_group_tests_name("fsm_why", tests, NULL, NULL);
}
