/*
 * What clients and the view read: jobs put together, the feed, timelines.
 */
#include <stdio.h>

#include "fsm_fixture.h"
#include "proto/job.h"

/* Those that are there stand with those that are gone. */
static void restore_jobs(struct fx *x, struct m_tail_reply *r)
{
	size_t n = r->jobs_n + r->records_n;
	struct m_job *jobs = arena_alloc(&x->arena, (n + 1) * sizeof(*jobs));

	for (size_t i = 0; i < r->jobs_n; i++) {
		assert_true(r->jobs[i].deleted);
		jobs[i] = r->jobs[i];
	}
	for (size_t i = r->jobs_n; i < n; i++)
		assert_int_equal(record_restore(&r->records[i - r->jobs_n],
						&x->arena, &jobs[i]),
				 0);
	r->jobs = jobs;
	r->jobs_n = n;
}

static struct m_tail_reply feed(struct fx *x, uint64_t after, uint32_t limit)
{
	struct m_tail_reply a, b;

	assert_int_equal(
	    record_feed(x->side[FX_MEM].kv, after, limit, &x->arena, &a), 0);
	assert_int_equal(
	    record_feed(x->side[FX_ROCKS].kv, after, limit, &x->arena, &b), 0);
	assert_int_equal(a.events_n, b.events_n);
	assert_int_equal(a.jobs_n, b.jobs_n);
	assert_int_equal(a.records_n, b.records_n);
	restore_jobs(x, &a);
	return a;
}

static struct m_events_reply page(struct fx *x, uint64_t after, uint32_t limit)
{
	struct m_events_reply a, b;

	assert_int_equal(
	    record_events(x->side[FX_MEM].kv, after, limit, &x->arena, &a), 0);
	assert_int_equal(
	    record_events(x->side[FX_ROCKS].kv, after, limit, &x->arena, &b),
	    0);
	assert_int_equal(a.events_n, b.events_n);
	assert_int_equal(a.next, b.next);
	return a;
}

static void fail_job(struct fx *x, const char *id, const char *error)
{
	struct m_fail m = { 0 };

	MSG_SET(&m, fail, job_id, str_from(id));
	MSG_SET(&m, fail, error, str_from(error));
	assert_int_equal(fx_do(x, OP_FAIL, &m, NULL), 0);
}

static void test_absent(void **state)
{
	struct fx *x = *state;
	char id[LIMIT_JOB_ID_BYTES + 1];
	struct m_job j;

	memset(id, 'j', sizeof(id));
	assert_int_equal(
	    record_job(x->side[0].kv, STR("nope"), 0, &x->arena, &j), 0);
	assert_int_equal(record_job(x->side[0].kv, STR(""), 0, &x->arena, &j),
			 0);
	assert_int_equal(
	    record_job(x->side[0].kv, str_of(id, sizeof(id)), 0, &x->arena, &j),
	    0);
}

static void test_feed(void **state)
{
	struct fx *x = *state;
	struct m_tail_reply r = feed(x, 0, 100);

	assert_int_equal(r.events_n, 0);
	assert_int_equal(r.last_seq, 0);
	assert_int_equal(r.head_seq, 0);
	assert_false(r.lost);

	fx_enqueue(x, "job_1", "q"); /* queue_created, enqueued */
	fx_expect(x, "q", "job_1");  /* started, worker_seen */
	fail_job(x, "job_1", "one"); /* failed, retrying */
	r = feed(x, 0, 100);
	assert_int_equal(r.last_seq, 6);
	assert_int_equal(r.head_seq, 6);
	assert_int_equal(r.events_n, 2);
	assert_int_equal(r.events[0].type, EVENT_QUEUE_CREATED);
	assert_int_equal(r.events[0].seq, 1);
	assert_int_equal(r.events[1].type, EVENT_RETRYING);
	assert_int_equal(r.events[1].seq, 6);
	assert_str_is(r.events[1].job_id, "job_1");
	assert_int_equal(r.jobs_n, 1);
	assert_false(job_is_partial(&r.jobs[0]));
	assert_str_is(r.jobs[0].payload, "{}");
	assert_int_equal(r.jobs[0].state, JOB_RETRYING);
	assert_int_equal(r.jobs[0].seq, 1);
	assert_int_equal(r.queues_n, 1);
	assert_str_is(r.queues[0].name, "q");
	assert_false(r.queues[0].paused);
	assert_int_equal(r.queues[0].created_at, FX_START_NS);
	assert_int_equal(r.workers_n, 1);
	assert_int_equal(r.errors_n, 1);
	assert_str_is(r.errors[0].error, "one");
	assert_str_is(r.errors[0].job_id, "job_1");

	/* without its creation a job comes without its unchanging part */
	r = feed(x, 2, 100);
	assert_int_equal(r.events[0].seq, 3);
	assert_int_equal(r.jobs_n, 1);
	assert_true(job_is_partial(&r.jobs[0]));
	assert_false(MSG_HAS(&r.jobs[0], job, payload));
	assert_int_equal(r.jobs[0].attempt, 1);
	/* in portions */
	r = feed(x, 0, 2);
	assert_int_equal(r.events_n, 2);
	assert_int_equal(r.last_seq, 2);
	assert_int_equal(r.head_seq, 6);
	r = feed(x, 6, 2);
	assert_int_equal(r.events_n, 0);
	assert_int_equal(r.last_seq, 6);
}

static void test_feed_of_active_and_deleted(void **state)
{
	struct fx *x = *state;
	struct m_tail_reply r;

	fx_enqueue(x, "job_1", "q");
	fx_enqueue(x, "job_2", "q");
	fx_expect(x, "q", "job_1");
	r = feed(x, 3, 100);
	assert_int_equal(r.jobs_n, 1);
	assert_true(job_is_partial(&r.jobs[0]));
	assert_int_equal(r.jobs[0].lease_expires_at,
			 FX_START_NS + 60 * NS_PER_S);
	fx_job_op(x, OP_DELETE, "job_1", "deleted");
	fx_job_op(x, OP_DELETE, "job_2", "deleted");
	fx_queue_op(x, OP_PAUSE, "q");
	r = feed(x, 0, 100);
	assert_int_equal(r.jobs_n, 2);
	assert_true(r.jobs[0].deleted && r.jobs[1].deleted);
	assert_str_is(r.jobs[1].id, "job_2");
	assert_int_equal(r.queues_n, 1);
	assert_true(r.queues[0].paused);
	r = feed(x, 3, 100);
	assert_int_equal(r.jobs_n, 2);
	assert_true(r.jobs[0].deleted);
}

/* What is left is told of as if it had never been there. */
static void test_feed_of_jobs_that_came_and_went_among_others(void **state)
{
	struct fx *x = *state;
	struct m_tail_reply r;

	fx_enqueue(x, "job_1", "q");
	fx_enqueue(x, "job_2", "q");
	fx_enqueue(x, "job_3", "q");
	fx_job_op(x, OP_DELETE, "job_1", "deleted");
	fx_expect(x, "q", "job_2");
	fx_enqueue(x, "job_4", "q");
	fx_job_op(x, OP_DELETE, "job_4", "deleted");
	r = feed(x, 0, 100);
	assert_int_equal(r.jobs_n, 4);
	assert_true(r.jobs[0].deleted && r.jobs[1].deleted);
	assert_str_is(r.jobs[0].id, "job_1");
	assert_str_is(r.jobs[1].id, "job_4");
	assert_int_equal(r.records_n, 2);
	for (size_t i = 2; i < 4; i++) {
		const struct m_job *j = &r.jobs[i];

		assert_false(job_is_partial(j));
		assert_str_is(j->queue, "q");
		if (str_is(j->id, "job_2")) {
			assert_int_equal(j->state, JOB_ACTIVE);
			assert_int_equal(j->lease_expires_at,
					 FX_START_NS + 60 * NS_PER_S);
		} else {
			assert_str_is(j->id, "job_3");
			assert_int_equal(j->state, JOB_PENDING);
		}
	}
}

static void test_a_record_that_says_nothing_is_no_job(void **state)
{
	struct fx *x = *state;
	struct m_job_record rec = { 0 };
	struct m_job j;

	MSG_SET(&rec, job_record, id, STR("job_1"));
	assert_int_equal(record_restore(&rec, &x->arena, &j), -ERR_BAD_MESSAGE);
	MSG_SET(&rec, job_record, live, STR("\xc1"));
	assert_int_equal(record_restore(&rec, &x->arena, &j), -ERR_BAD_MESSAGE);
	rec = (struct m_job_record){ 0 };
	MSG_SET(&rec, job_record, doc, STR("\x81"));
	assert_int_equal(record_restore(&rec, &x->arena, &j), -ERR_BAD_MESSAGE);
}

/* An expiry that was dropped belongs to the unchanging part. */
static void test_feed_of_dropped_expiry(void **state)
{
	struct fx *x = *state;
	struct m_enqueue m = { 0 };
	struct m_tail_reply r;

	MSG_SET(&m, enqueue, job_id, STR("job_1"));
	MSG_SET(&m, enqueue, queue, STR("q"));
	MSG_SET(&m, enqueue, expire_after, 5);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
	x->now_ns += 5;
	assert_int_equal(fx_maintain(x, OP_EXPIRE, 0, NULL), 1);
	r = feed(x, 2, 100);
	assert_true(job_is_partial(&r.jobs[0]));
	assert_int_equal(r.errors_n, 1);
	assert_str_is(r.errors[0].error, "job expired");
	fx_job_op(x, OP_RETRY, "job_1", "retried");
	r = feed(x, 4, 100);
	assert_int_equal(r.jobs_n, 1);
	assert_false(job_is_partial(&r.jobs[0]));
	assert_false(MSG_HAS(&r.jobs[0], job, expire_at));
}

/* Many large payloads: an answer ends before it is too big. */
static void test_feed_bytes(void **state)
{
	struct fx *x = *state;
	char *payload = xmalloc(256 << 10);
	struct m_enqueue m = { 0 };
	uint64_t after = 0;
	size_t jobs = 0;

	memset(payload, '1', 256 << 10);
	MSG_SET(&m, enqueue, queue, STR("q"));
	MSG_SET(&m, enqueue, payload, str_of(payload, 256 << 10));
	x->unchecked = true;
	for (int i = 0; i < 70; i++) {
		char id[16];

		(void)snprintf(id, sizeof(id), "job_%02d", i);
		MSG_SET(&m, enqueue, job_id, str_from(id));
		assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
	}
	for (int i = 0; i < 3; i++) {
		struct m_tail_reply r = feed(x, after, LIMIT_TAIL_EVENTS);

		assert_true(r.jobs_n <= 33);
		jobs += r.jobs_n;
		after = r.last_seq;
	}
	assert_int_equal(jobs, 70);
	assert_int_equal(after, 71);
	free(payload);
}

static void test_timeline_is_bounded(void **state)
{
	struct fx *x = *state;
	struct m_beat b = { 0 };
	struct m_heartbeat m = { 0 };
	const struct m_job *j;

	fx_enqueue(x, "job_1", "q");
	fx_expect(x, "q", "job_1");
	MSG_SET(&b, beat, job_id, STR("job_1"));
	MSG_SET(&b, beat, progress, STR("1"));
	MSG_SET_LIST(&m, heartbeat, jobs, &b, 1);
	x->unchecked = true;
	for (int i = 0; i < LIMIT_TIMELINE; i++)
		assert_int_equal(fx_do(x, OP_HEARTBEAT, &m, NULL), 0);
	j = fx_job(x, "job_1");
	assert_int_equal(j->timeline_n, LIMIT_TIMELINE);
	assert_int_equal(j->timeline[0].type, EVENT_PROGRESS);
	for (size_t i = 1; i < j->timeline_n; i++)
		assert_true(j->timeline[i].seq > j->timeline[i - 1].seq);
}

static void test_pages_of_events(void **state)
{
	struct fx *x = *state;
	struct m_events_reply r = page(x, 0, 10);

	assert_int_equal(r.events_n, 0);
	assert_int_equal(r.next, 0);
	assert_false(r.lost);
	fx_enqueue(x, "job_1", "q"); /* queue_created, enqueued */
	fx_expect(x, "q", "job_1");  /* started, worker_seen */
	fail_job(x, "job_1", "one"); /* failed, retrying */
	for (uint64_t after = 0; after < 6; after += 2) {
		r = page(x, after, 2);
		assert_int_equal(r.events_n, 2);
		assert_int_equal(r.events[0].seq, after + 1);
		assert_int_equal(r.events[1].seq, after + 2);
		assert_int_equal(r.next, after + 2);
		assert_int_equal(r.head_seq, 6);
		assert_false(r.lost);
	}
	r = page(x, 6, 2);
	assert_int_equal(r.events_n, 0);
	assert_int_equal(r.next, 6);
	assert_false(r.lost);
	/* the middle of a record, and at least one of them */
	r = page(x, 4, 0);
	assert_int_equal(r.events_n, 1);
	assert_int_equal(r.events[0].type, EVENT_FAILED);
}

static void test_pages_of_a_log_that_was_trimmed(void **state)
{
	struct m_maintain m = { 0 };
	struct fx *x = *state;
	struct m_events_reply r;

	for (int i = 0; i < 10; i++) { /* the first one: queue_created, too */
		char id[16];

		(void)snprintf(id, sizeof(id), "job_%d", i);
		fx_enqueue(x, id, "q");
	}
	MSG_SET(&m, maintain, upto_seq, 5);
	assert_int_equal(fx_do(x, OP_TRIM_EVENTS, &m, NULL), 0);
	r = page(x, 2, 3);
	assert_true(r.lost);
	assert_int_equal(r.events_n, 3);
	assert_int_equal(r.events[0].seq, 6);
	assert_int_equal(r.next, 8);
	assert_false(page(x, 5, 3).lost);
	/* a place that has not been */
	r = page(x, 12, 3);
	assert_true(r.lost);
	assert_int_equal(r.events_n, 0);
	assert_int_equal(r.next, 11);
	assert_true(page(x, UINT64_MAX, 3).lost);
}

static void test_pages_of_large_events(void **state)
{
	struct fx *x = *state;
	struct m_heartbeat m = { 0 };
	struct m_beat b = { 0 };
	struct m_events_reply r;
	char text[10000];

	memset(text, 'x', sizeof(text));
	text[0] = text[sizeof(text) - 1] = '"';
	fx_enqueue(x, "job_1", "q");
	fx_expect(x, "q", "job_1"); /* four events so far */
	MSG_SET(&b, beat, job_id, STR("job_1"));
	MSG_SET(&b, beat, progress, str_of(text, sizeof(text)));
	MSG_SET_LIST(&m, heartbeat, jobs, &b, 1);
	for (int i = 0; i < 200; i++)
		assert_int_equal(fx_do(x, OP_HEARTBEAT, &m, NULL), 0);
	r = page(x, 4, 1000);
	assert_in_range(r.events_n, 50, RECORD_EVENTS_BYTES / 10000 + 1);
	assert_int_equal(r.next, 4 + r.events_n);
}

/* --- what ties jobs together, for the view --- */

static uint64_t head(struct fx *x)
{
	return fsm_last_seq(x->side[FX_MEM].f);
}

static void open_batch(struct fx *x, const char *id, const char *parent)
{
	struct m_open_batch m = { 0 };

	MSG_SET(&m, open_batch, batch_id, str_from(id));
	MSG_SET(&m, open_batch, callback_payload, STR("[1]"));
	if (parent != NULL)
		MSG_SET(&m, open_batch, parent_id, str_from(parent));
	assert_int_equal(fx_do(x, OP_OPEN_BATCH, &m, NULL), 0);
}

static void add_job(struct fx *x, const char *id, const char *batch,
		    const char *key)
{
	struct m_enqueue m = { 0 };

	MSG_SET(&m, enqueue, job_id, str_from(id));
	MSG_SET(&m, enqueue, queue, STR("q"));
	if (batch != NULL)
		MSG_SET(&m, enqueue, batch_id, str_from(batch));
	if (key != NULL)
		MSG_SET(&m, enqueue, unique_key, str_from(key));
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
}

static void test_feed_tells_of_the_batch_a_job_counts_in(void **state)
{
	struct fx *x = *state;
	struct m_tail_reply r;
	uint64_t at;

	open_batch(x, "batch_0", NULL);
	open_batch(x, "batch_1", "batch_0");
	at = head(x);
	add_job(x, "job_1", "batch_1", NULL);
	add_job(x, "job_2", "batch_1", NULL);
	r = feed(x, at, 100);
	assert_int_equal(r.batches_n, 2); /* each once, and what it is in */
	assert_str_is(r.batches[0].id, "batch_1");
	assert_int_equal(r.batches[0].total, 2);
	assert_str_is(r.batches[0].callback_payload, "[1]");
	assert_str_is(r.batches[1].id, "batch_0");
	at = head(x);
	fx_job_op(x, OP_CANCEL, "job_1", "cancelled");
	r = feed(x, at, 100);
	assert_true(job_is_partial(&r.jobs[0]));
	assert_int_equal(r.batches[0].failed, 1);
	at = head(x);
	fx_job_op(x, OP_DELETE, "job_2", "deleted");
	r = feed(x, at, 100);
	assert_true(r.jobs[0].deleted);
	assert_int_equal(r.batches[0].failed, 2);
}

static void test_feed_tells_of_batches_that_are_gone(void **state)
{
	struct m_maintain purge = { 0 };
	struct m_batch_ref seal = { 0 };
	struct fx *x = *state;
	struct m_tail_reply r;
	uint64_t at;

	open_batch(x, "batch_1", NULL);
	MSG_SET(&seal, batch_ref, batch_id, STR("batch_1"));
	assert_int_equal(fx_do(x, OP_SEAL_BATCH, &seal, NULL), 0);
	at = head(x);
	x->now_ns += 10 * NS_PER_S;
	MSG_SET(&purge, maintain, retention_ns, NS_PER_S);
	assert_int_equal(fx_do(x, OP_PURGE, &purge, NULL), 0);
	r = feed(x, at, 100);
	assert_int_equal(r.events_n, 1);
	assert_int_equal(r.events[0].type, EVENT_BATCH_PURGED);
	assert_int_equal(r.batches_n, 0);
	assert_int_equal(r.gone_batches_n, 1);
	assert_str_is(r.gone_batches[0], "batch_1");
}

static void test_feed_tells_of_locks_when_they_are_taken(void **state)
{
	struct fx *x = *state;
	struct m_tail_reply r;
	uint64_t at = head(x);

	add_job(x, "job_1", NULL, "key");
	add_job(x, "job_2", NULL, NULL);
	r = feed(x, at, 100);
	assert_int_equal(r.locks_n, 1);
	assert_str_is(r.locks[0].queue, "q");
	assert_str_is(r.locks[0].unique_key, "key");
	assert_str_is(r.locks[0].job_id, "job_1");
	assert_true(r.locks[0].expires_at > x->now_ns);
	fx_job_op(x, OP_CANCEL, "job_1", "cancelled");
	r = feed(x, at, 100); /* nobody holds it now */
	assert_int_equal(r.locks_n, 1);
	assert_int_equal(r.locks[0].job_id.n, 0);
	at = head(x);
	x->now_ns += NS_PER_S;
	fx_job_op(x, OP_RETRY, "job_1", "retried");
	r = feed(x, at, 100);
	assert_int_equal(r.locks_n, 1);
	assert_str_is(r.locks[0].job_id, "job_1");
}

/* Else the view would keep the lock of the job it was taken over from. */
static void test_feed_tells_of_locks_of_jobs_that_came_and_went(void **state)
{
	struct fx *x = *state;
	struct m_tail_reply r;
	uint64_t at;

	add_job(x, "job_1", NULL, "key");
	x->now_ns += 2 * 3600 * NS_PER_S; /* beyond the period of its lock */
	at = head(x);
	add_job(x, "job_2", NULL, "key");
	fx_job_op(x, OP_DELETE, "job_2", "deleted");
	r = feed(x, at, 100);
	assert_int_equal(r.locks_n, 1);
	assert_str_is(r.locks[0].queue, "q");
	assert_str_is(r.locks[0].unique_key, "key");
	assert_int_equal(r.locks[0].job_id.n, 0);
}

static void test_feed_tells_of_schedules(void **state)
{
	struct m_schedule_ref ref = { 0 };
	struct m_schedule m = { 0 };
	struct fx *x = *state;
	struct m_tail_reply r;
	uint64_t at = head(x);

	MSG_SET(&m, schedule, id, STR("sched_1"));
	MSG_SET(&m, schedule, name, STR("nightly"));
	MSG_SET(&m, schedule, queue, STR("q"));
	MSG_SET(&m, schedule, cron, STR("@daily"));
	MSG_SET(&m, schedule, create, true);
	MSG_SET(&m, schedule, next_run, x->now_ns + NS_PER_S);
	assert_int_equal(fx_do(x, OP_SET_SCHEDULE, &m, NULL), 0);
	r = feed(x, at, 100);
	assert_int_equal(r.schedules_n, 1);
	assert_str_is(r.schedules[0].name, "nightly");
	MSG_SET(&ref, schedule_ref, id, STR("nightly"));
	assert_int_equal(fx_do(x, OP_DELETE_SCHEDULE, &ref, NULL), 0);
	r = feed(x, at, 100);
	assert_int_equal(r.schedules_n, 0);
	assert_int_equal(r.gone_schedules_n, 1);
	assert_str_is(r.gone_schedules[0], "sched_1");
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fx_setup, fx_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_absent),
		TEST(test_feed),
		TEST(test_feed_of_active_and_deleted),
		TEST(test_feed_of_jobs_that_came_and_went_among_others),
		TEST(test_a_record_that_says_nothing_is_no_job),
		TEST(test_feed_of_dropped_expiry),
		TEST(test_feed_bytes),
		TEST(test_timeline_is_bounded),
		TEST(test_pages_of_events),
		TEST(test_pages_of_a_log_that_was_trimmed),
		TEST(test_pages_of_large_events),
		TEST(test_feed_tells_of_the_batch_a_job_counts_in),
		TEST(test_feed_tells_of_batches_that_are_gone),
		TEST(test_feed_tells_of_locks_when_they_are_taken),
		TEST(test_feed_tells_of_locks_of_jobs_that_came_and_went),
		TEST(test_feed_tells_of_schedules),
	};

	return cmocka_run_group_tests_name("fsm_record", tests, NULL, NULL);
}
