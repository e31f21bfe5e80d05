/*
 * Unique keys: duplicates, the life of a lock, payloads that are replaced.
 */
#include "fsm_fixture.h"

#define HOUR_NS (3600 * NS_PER_S)

static struct m_enqueue keyed(const char *id, const char *queue,
			      const char *key)
{
	struct m_enqueue m = { 0 };

	MSG_SET(&m, enqueue, job_id, str_from(id));
	MSG_SET(&m, enqueue, queue, str_from(queue));
	MSG_SET(&m, enqueue, unique_key, str_from(key));
	MSG_SET(&m, enqueue, max_retries, 1);
	return m;
}

static struct m_enqueue_reply enqueue(struct fx *x, const struct m_enqueue *m)
{
	struct m_enqueue_reply r;

	assert_int_equal(fx_do(x, OP_ENQUEUE, m, &r), 0);
	return r;
}

static void expect_new(struct fx *x, const char *id, const char *queue,
		       const char *key)
{
	struct m_enqueue m = keyed(id, queue, key);
	struct m_enqueue_reply r = enqueue(x, &m);

	assert_false(r.unique_existing);
	assert_str_is(r.job_id, id);
	assert_true(fx_job_exists(x, id));
}

static void expect_duplicate(struct fx *x, const char *id, const char *queue,
			     const char *key, const char *holder)
{
	struct m_enqueue m = keyed(id, queue, key);
	struct m_enqueue_reply r = enqueue(x, &m);

	assert_true(r.unique_existing);
	assert_str_is(r.job_id, holder);
	assert_false(r.replaced);
	assert_false(fx_job_exists(x, id));
}

static void test_second_job_is_a_duplicate(void **state)
{
	struct fx *x = *state;

	expect_new(x, "job_1", "q", "k");
	expect_duplicate(x, "job_2", "q", "k", "job_1");
	expect_new(x, "job_3", "q", "other key");
	expect_new(x, "job_4", "other queue", "k");
	fx_restart(x, FX_ROCKS);
	expect_duplicate(x, "job_5", "q", "k", "job_1");
	fx_timeline(x, "job_1", "enqueued"); /* it noticed nothing */
	assert_str_is(fx_job(x, "job_1")->unique_key, "k");
}

static void to_active(struct fx *x)
{
	fx_expect(x, "q", "job_1");
}

static void to_completed(struct fx *x)
{
	struct m_ack m = { 0 };

	to_active(x);
	MSG_SET(&m, ack, job_id, STR("job_1"));
	assert_int_equal(fx_do(x, OP_ACK, &m, NULL), 0);
}

static void to_dead(struct fx *x)
{
	struct m_fail m = { 0 };

	to_active(x);
	MSG_SET(&m, fail, job_id, STR("job_1"));
	assert_int_equal(fx_do(x, OP_FAIL, &m, NULL), 0);
}

static void to_dead_by_lease(struct fx *x)
{
	to_active(x);
	x->now_ns += 60 * NS_PER_S;
	assert_int_equal(fx_maintain(x, OP_RECLAIM, 0, NULL), 1);
}

static void to_cancelled(struct fx *x)
{
	fx_job_op(x, OP_CANCEL, "job_1", "cancelled");
}

static void to_cancelled_while_active(struct fx *x)
{
	struct m_ack m = { 0 };

	to_active(x);
	fx_job_op(x, OP_CANCEL, "job_1", "cancelling");
	expect_duplicate(x, "job_9", "q", "k", "job_1");
	MSG_SET(&m, ack, job_id, STR("job_1"));
	assert_int_equal(fx_do(x, OP_ACK, &m, NULL), 0);
}

static void to_deleted(struct fx *x)
{
	fx_job_op(x, OP_DELETE, "job_1", "deleted");
}

static void to_deleted_while_active(struct fx *x)
{
	to_active(x);
	to_deleted(x);
}

/* Released at every terminal state and on delete. */
static void test_lock_is_released_at_every_end(void **state)
{
	struct fx *x = *state;
	static void (*const ends[])(struct fx *) = {
		to_completed,
		to_dead,
		to_dead_by_lease,
		to_cancelled,
		to_deleted,
		to_cancelled_while_active,
		to_deleted_while_active,
	};

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		expect_new(x, "job_1", "q", "k");
		expect_duplicate(x, "job_2", "q", "k", "job_1");
		ends[i](x);
		expect_new(x, "job_2", "q", "k");
		fx_job_op(x, OP_DELETE, "job_2", "deleted");
		if (fx_job_exists(x, "job_1"))
			fx_job_op(x, OP_DELETE, "job_1", "deleted");
	}
}

static void test_lock_is_released_when_the_job_expires(void **state)
{
	struct fx *x = *state;
	struct m_enqueue m = keyed("job_1", "q", "k");

	MSG_SET(&m, enqueue, expire_after, 10);
	(void)enqueue(x, &m);
	x->now_ns += 10;
	assert_int_equal(fx_maintain(x, OP_EXPIRE, 0, NULL), 1);
	fx_expect_state(x, "job_1", JOB_DEAD);
	expect_new(x, "job_2", "q", "k");
}

/* A scheduled, an active and a retrying job hold it. */
static void test_lock_is_held_until_the_job_ends(void **state)
{
	struct fx *x = *state;
	struct m_enqueue m = keyed("job_1", "q", "k");
	struct m_fail f = { 0 };

	MSG_SET(&m, enqueue, scheduled_at, x->now_ns + 5);
	MSG_SET(&m, enqueue, max_retries, 2);
	assert_int_equal(enqueue(x, &m).status, JOB_SCHEDULED);
	expect_duplicate(x, "job_2", "q", "k", "job_1");
	x->now_ns += 5;
	assert_int_equal(fx_maintain(x, OP_PROMOTE, 0, NULL), 1);
	expect_duplicate(x, "job_2", "q", "k", "job_1");
	fx_expect(x, "q", "job_1");
	expect_duplicate(x, "job_2", "q", "k", "job_1");
	MSG_SET(&f, fail, job_id, STR("job_1"));
	assert_int_equal(fx_do(x, OP_FAIL, &f, NULL), 0);
	fx_expect_state(x, "job_1", JOB_RETRYING);
	expect_duplicate(x, "job_2", "q", "k", "job_1");
}

static void test_period_ends(void **state)
{
	struct fx *x = *state;
	struct m_enqueue m = keyed("job_1", "q", "k");

	MSG_SET(&m, enqueue, unique_period, 100);
	(void)enqueue(x, &m);
	x->now_ns += 99;
	expect_duplicate(x, "job_2", "q", "k", "job_1");
	x->now_ns += 1;
	expect_new(x, "job_2", "q", "k");
	/* the first one's end frees nothing any more */
	fx_job_op(x, OP_DELETE, "job_1", "deleted");
	expect_duplicate(x, "job_3", "q", "k", "job_2");
	/* an hour, when the job names no period */
	x->now_ns += HOUR_NS - 1;
	expect_duplicate(x, "job_3", "q", "k", "job_2");
	x->now_ns += 1;
	expect_new(x, "job_3", "q", "k");
}

static void test_period_without_end(void **state)
{
	struct fx *x = *state;
	struct m_enqueue m = keyed("job_1", "q", "k");

	MSG_SET(&m, enqueue, unique_period, UINT64_MAX);
	(void)enqueue(x, &m);
	expect_duplicate(x, "job_2", "q", "k", "job_1");
}

static void refused_by_holder(struct fx *x, const char *id, const char *text)
{
	struct m_job_ref m = { 0 };

	MSG_SET(&m, job_ref, job_id, str_from(id));
	fx_refused(x, OP_RETRY, &m, ERR_UNIQUE_CONFLICT, text);
}

/* 409 UNIQUE_CONFLICT naming the holder. */
static void test_retry_of_a_key_another_job_holds(void **state)
{
	struct fx *x = *state;

	expect_new(x, "job_1", "q", "k");
	to_dead(x);
	expect_new(x, "job_2", "q", "k");
	refused_by_holder(x, "job_1",
			  "job \"job_2\" holds the unique key \"k\"; try again "
			  "when it has ended");
	fx_job_op(x, OP_CANCEL, "job_2", "cancelled");
	fx_job_op(x, OP_RETRY, "job_1", "retried");
	expect_duplicate(x, "job_3", "q", "k", "job_1");
	refused_by_holder(x, "job_2",
			  "job \"job_1\" holds the unique key \"k\"; try again "
			  "when it has ended");
}

/* ... otherwise it takes the lock again for unique_period. */
static void test_retry_takes_the_lock_for_a_whole_period(void **state)
{
	struct fx *x = *state;
	struct m_enqueue m = keyed("job_1", "q", "k");

	MSG_SET(&m, enqueue, unique_period, 100);
	MSG_SET(&m, enqueue, scheduled_at, x->now_ns + HOUR_NS);
	(void)enqueue(x, &m);
	x->now_ns += 90; /* still its own: scheduled jobs can be run now */
	fx_job_op(x, OP_RETRY, "job_1", "retried");
	x->now_ns += 90;
	expect_duplicate(x, "job_2", "q", "k", "job_1");
	to_dead(x);
	x->now_ns += 1000;
	fx_job_op(x, OP_RETRY, "job_1", "retried");
	x->now_ns += 99;
	expect_duplicate(x, "job_2", "q", "k", "job_1");
	x->now_ns += 1;
	expect_new(x, "job_2", "q", "k");
}

/* --- batches --- */

static struct m_enqueue_batch_reply
enqueue_all(struct fx *x, struct m_enqueue *jobs, size_t n, bool resend)
{
	struct m_enqueue_batch m = { 0 };
	struct m_enqueue_batch_reply r;

	MSG_SET_LIST(&m, enqueue_batch, jobs, jobs, n);
	assert_int_equal(
	    (resend ? fx_resend : fx_do)(x, OP_ENQUEUE_BATCH, &m, &r), 0);
	assert_int_equal(r.job_ids_n, n);
	assert_int_equal(r.jobs_n, n);
	return r;
}

static void test_batch_items_honour_unique_keys(void **state)
{
	struct fx *x = *state;
	struct m_enqueue jobs[] = {
		keyed("b_0", "q", "k"),   keyed("b_1", "q", "new"),
		keyed("b_2", "q", "new"), keyed("b_3", "r", "new"),
		{ .job_id = STR_NULL },
	};
	struct m_enqueue_batch_reply r;

	MSG_SET(&jobs[4], enqueue, job_id, STR("b_4"));
	MSG_SET(&jobs[4], enqueue, queue, STR("q"));
	expect_new(x, "job_1", "q", "k");
	for (int i = 0; i < 2; i++) { /* a resend gets the same answer */
		r = enqueue_all(x, jobs, ARRAY_SIZE(jobs), i > 0);
		assert_str_is(r.job_ids[0], "job_1");
		assert_str_is(r.job_ids[1], "b_1");
		assert_str_is(r.job_ids[2], "b_1");
		assert_str_is(r.job_ids[3], "b_3");
		assert_str_is(r.job_ids[4], "b_4");
		assert_true(r.jobs[0].unique_existing);
		assert_false(r.jobs[1].unique_existing);
		assert_true(r.jobs[2].unique_existing);
		assert_false(r.jobs[3].unique_existing);
		assert_int_equal(r.jobs[0].status, JOB_PENDING);
		assert_false(fx_job_exists(x, "b_0"));
		assert_false(fx_job_exists(x, "b_2"));
	}
}

/* --- resends --- */

static void test_resend_meets_its_own_job(void **state)
{
	struct fx *x = *state;
	struct m_enqueue m = keyed("job_1", "q", "k");
	struct m_enqueue_reply r;

	(void)enqueue(x, &m);
	assert_int_equal(fx_resend(x, OP_ENQUEUE, &m, &r), 0);
	assert_false(r.unique_existing);
	assert_str_is(r.job_id, "job_1");
	MSG_SET(&m, enqueue, job_id, STR("job_2"));
	assert_int_equal(fx_resend(x, OP_ENQUEUE, &m, &r), 0);
	assert_true(r.unique_existing);
	assert_str_is(r.job_id, "job_1");
}

/* --- replace --- */

static struct m_enqueue_reply replace(struct fx *x, const char *payload,
				      uint64_t scheduled_at)
{
	struct m_enqueue m = keyed("job_2", "q", "k");

	MSG_SET(&m, enqueue, unique_action, UNIQUE_REPLACE);
	if (payload != NULL)
		MSG_SET(&m, enqueue, payload, str_from(payload));
	if (scheduled_at != 0)
		MSG_SET(&m, enqueue, scheduled_at, scheduled_at);
	return enqueue(x, &m);
}

static void first(struct fx *x, uint64_t scheduled_at)
{
	struct m_enqueue m = keyed("job_1", "q", "k");

	MSG_SET(&m, enqueue, payload, STR("{\"v\":1}"));
	MSG_SET(&m, enqueue, max_retries, 3);
	if (scheduled_at != 0)
		MSG_SET(&m, enqueue, scheduled_at, scheduled_at);
	(void)enqueue(x, &m);
}

static void expect_fetched(struct fx *x, const char *payload)
{
	struct m_fetched j;

	assert_true(fx_fetch(x, "q", &j));
	assert_str_is(j.job_id, "job_1");
	assert_str_is(j.payload, payload);
}

/* Who approves says what was seen; it may be another payload by then. */
static void test_an_approval_is_of_what_was_seen(void **state)
{
	struct fx *x = *state;
	struct m_approve m = { 0 };
	uint64_t seen;

	first(x, 0);
	fx_job_op(x, OP_HOLD, "job_1", "held");
	seen = fx_job(x, "job_1")->held->number;
	(void)replace(x, "{\"v\":2}", 0);
	MSG_SET(&m, approve, job_id, STR("job_1"));
	MSG_SET(&m, approve, number, seen);
	assert_int_equal(fx_do(x, OP_APPROVE, &m, NULL), ERR_CONFLICT);
	fx_expect_state(x, "job_1", JOB_HELD);
	MSG_SET(&m, approve, number, fx_job(x, "job_1")->held->number);
	assert_int_equal(fx_do(x, OP_APPROVE, &m, NULL), 0);
	expect_fetched(x, "{\"v\":2}");
}

static void test_replace_a_pending_job(void **state)
{
	struct fx *x = *state;
	struct m_enqueue_reply r;

	fx_enqueue(x, "job_0", "q");
	first(x, 0);
	fx_enqueue(x, "job_3", "q");
	r = replace(x, "{\"v\":2}", 0);
	assert_true(r.replaced && r.unique_existing);
	assert_str_is(r.job_id, "job_1");
	assert_int_equal(r.status, JOB_PENDING);
	assert_false(fx_job_exists(x, "job_2"));
	fx_restart(x, FX_ROCKS); /* one side's window is filled anew */
	(void)replace(x, "{\"v\":3}", 0);
	fx_timeline(x, "job_1", "enqueued replaced replaced");
	assert_str_is(fx_job(x, "job_1")->payload, "{\"v\":3}");
	fx_expect(x, "q", "job_0"); /* it keeps its place */
	expect_fetched(x, "{\"v\":3}");
	fx_timeline(x, "job_1", "enqueued replaced replaced started");
	fx_expect(x, "q", "job_3");
}

/* Replaced and taken in one entry, from a store that has the job. */
static void test_replace_and_fetch_in_one_entry(void **state)
{
	struct fx *x = *state;
	struct m_enqueue m = keyed("job_2", "q", "k");
	struct m_fetch f = { 0 };
	struct str name = STR("q");

	first(x, 0);
	MSG_SET(&m, enqueue, unique_action, UNIQUE_REPLACE);
	MSG_SET_LIST(&f, fetch, queues, &name, 1);
	fx_begin(x);
	fx_add(x, OP_ENQUEUE, 0, &m);
	fx_add(x, OP_FETCH, 0, &f);
	fx_commit(x);
	fx_expect_state(x, "job_1", JOB_ACTIVE);
	assert_str_is(fx_job(x, "job_1")->payload, "{}");
}

static void test_replace_without_payload(void **state)
{
	struct fx *x = *state;

	first(x, 0);
	assert_true(replace(x, NULL, 0).replaced);
	expect_fetched(x, "{}");
}

static void test_replace_postpones_a_scheduled_job(void **state)
{
	struct fx *x = *state;
	uint64_t later = x->now_ns + 50;

	first(x, x->now_ns + 10);
	assert_true(replace(x, "2", later).replaced);
	assert_int_equal(fx_job(x, "job_1")->scheduled_at, later);
	x->now_ns += 10;
	assert_int_equal(fx_maintain(x, OP_PROMOTE, 0, NULL), 0);
	assert_true(replace(x, "3", 0).replaced); /* the time stays */
	fx_restart(x, FX_ROCKS);
	assert_int_equal(fx_job(x, "job_1")->scheduled_at, later);
	x->now_ns = later;
	assert_int_equal(fx_maintain(x, OP_PROMOTE, 0, NULL), 1);
	expect_fetched(x, "3");
}

static void test_replace_can_make_a_scheduled_job_due(void **state)
{
	struct fx *x = *state;
	struct m_enqueue_reply r;

	first(x, x->now_ns + 10);
	r = replace(x, "2", x->now_ns - 1);
	assert_true(r.replaced);
	assert_int_equal(r.status, JOB_PENDING);
	fx_timeline(x, "job_1", "enqueued replaced promoted");
	expect_fetched(x, "2");
}

static void test_replace_a_retrying_job(void **state)
{
	struct fx *x = *state;
	struct m_fail f = { 0 };
	uint64_t due;

	first(x, 0);
	fx_expect(x, "q", "job_1");
	MSG_SET(&f, fail, job_id, STR("job_1"));
	assert_int_equal(fx_do(x, OP_FAIL, &f, NULL), 0);
	due = fx_job(x, "job_1")->scheduled_at;
	assert_true(replace(x, "2", x->now_ns + 1).replaced);
	assert_int_equal(fx_job(x, "job_1")->scheduled_at, due);
	x->now_ns = due;
	assert_int_equal(fx_maintain(x, OP_PROMOTE, 0, NULL), 1);
	assert_true(replace(x, "3", 0).replaced);
	expect_fetched(x, "3");
}

static void test_replace_leaves_an_active_job_alone(void **state)
{
	struct fx *x = *state;
	struct m_enqueue_reply r;

	first(x, 0);
	fx_expect(x, "q", "job_1");
	r = replace(x, "2", 0);
	assert_false(r.replaced);
	assert_true(r.unique_existing);
	assert_int_equal(r.status, JOB_ACTIVE);
	assert_str_is(fx_job(x, "job_1")->payload, "{\"v\":1}");
	fx_timeline(x, "job_1", "enqueued started");
}

static void test_replace_within_a_batch(void **state)
{
	struct fx *x = *state;
	struct m_enqueue jobs[] = { keyed("job_1", "q", "k"),
				    keyed("b_1", "q", "k") };
	struct m_enqueue_batch_reply r;

	MSG_SET(&jobs[1], enqueue, unique_action, UNIQUE_REPLACE);
	MSG_SET(&jobs[1], enqueue, payload, STR("[1]"));
	r = enqueue_all(x, jobs, 2, false);
	assert_true(r.jobs[1].replaced);
	assert_str_is(r.jobs[1].job_id, "job_1");
	expect_fetched(x, "[1]");
}

static void test_key_too_long(void **state)
{
	struct fx *x = *state;
	char key[LIMIT_UNIQUE_KEY_BYTES + 2];
	struct m_enqueue m;

	memset(key, 'k', sizeof(key) - 1);
	key[sizeof(key) - 1] = '\0';
	m = keyed("job_1", "q", key);
	fx_refused(x, OP_ENQUEUE, &m, ERR_VALIDATION_ERROR,
		   "unique_key: must have at most 255 bytes");
	key[sizeof(key) - 2] = '\0';
	expect_new(x, "job_1", "q", key);
	expect_duplicate(x, "job_2", "q", key, "job_1");
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fx_setup, fx_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_second_job_is_a_duplicate),
		TEST(test_lock_is_released_at_every_end),
		TEST(test_lock_is_released_when_the_job_expires),
		TEST(test_lock_is_held_until_the_job_ends),
		TEST(test_period_ends),
		TEST(test_period_without_end),
		TEST(test_retry_of_a_key_another_job_holds),
		TEST(test_retry_takes_the_lock_for_a_whole_period),
		TEST(test_batch_items_honour_unique_keys),
		TEST(test_resend_meets_its_own_job),
		cmocka_unit_test_setup_teardown(
		    test_an_approval_is_of_what_was_seen, fx_setup_level,
		    fx_teardown),
		TEST(test_replace_a_pending_job),
		TEST(test_replace_and_fetch_in_one_entry),
		TEST(test_replace_without_payload),
		TEST(test_replace_postpones_a_scheduled_job),
		TEST(test_replace_can_make_a_scheduled_job_due),
		TEST(test_replace_a_retrying_job),
		TEST(test_replace_leaves_an_active_job_alone),
		TEST(test_replace_within_a_batch),
		TEST(test_key_too_long),
	};

	return cmocka_run_group_tests_name("fsm_unique", tests, NULL, NULL);
}
