/*
 * enqueue and enqueue_batch.
 */
#include "fsm_fixture.h"

static void test_defaults(void **state)
{
	struct fx *x = *state;
	struct m_enqueue m = fx_new("job_1", "emails");
	struct m_enqueue_reply r;
	const struct m_job *j;

	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, &r), 0);
	assert_str_is(r.job_id, "job_1");
	assert_int_equal(r.status, JOB_PENDING);
	assert_false(r.unique_existing);
	assert_true(MSG_HAS(&r, enqueue_reply, unique_existing));
	assert_int_equal(r.created_at, FX_START_NS);
	assert_int_equal(x->replies[0].seq, 2); /* queue_created, enqueued */

	j = fx_job(x, "job_1");
	assert_str_is(j->id, "job_1");
	assert_str_is(j->queue, "emails");
	assert_int_equal(j->state, JOB_PENDING);
	assert_str_is(j->payload, "{}");
	assert_int_equal(j->priority, PRIORITY_NORMAL);
	assert_int_equal(j->attempt, 0);
	assert_int_equal(j->max_retries, 3);
	assert_int_equal(j->retry_backoff, BACKOFF_EXPONENTIAL);
	assert_int_equal(j->retry_base_delay, 5 * NS_PER_S);
	assert_int_equal(j->retry_max_delay, 600 * NS_PER_S);
	assert_int_equal(j->created_at, FX_START_NS);
	assert_false(MSG_HAS(j, job, scheduled_at));
	assert_false(MSG_HAS(j, job, expire_at));
	assert_false(MSG_HAS(j, job, worker_id));
	assert_false(MSG_HAS(j, job, tags));
	fx_timeline(x, "job_1", "enqueued");
	assert_int_equal(
	    fsm_queue_takeable(x->side[0].f, STR("emails"), x->now_ns), 1);
	assert_int_equal(fsm_counters(x->side[0].f)->enqueued, 1);
}

static void test_every_field(void **state)
{
	struct fx *x = *state;
	struct m_enqueue m = fx_new("job_1", "q");
	const struct m_job *j;

	MSG_SET(&m, enqueue, payload, STR("{ \"a\" : [1, 2] }"));
	MSG_SET(&m, enqueue, priority, PRIORITY_CRITICAL);
	MSG_SET(&m, enqueue, max_retries, 7);
	MSG_SET(&m, enqueue, retry_backoff, BACKOFF_NONE);
	MSG_SET(&m, enqueue, retry_base_delay, 0);
	MSG_SET(&m, enqueue, retry_max_delay, 1);
	MSG_SET(&m, enqueue, retry_jitter, 7.5);
	MSG_SET(&m, enqueue, scheduled_at, FX_START_NS + 10);
	MSG_SET(&m, enqueue, expire_after, 20);
	MSG_SET(&m, enqueue, tags, STR("{\"k\":\"v\"}"));
	MSG_SET(&m, enqueue, checkpoint, STR("[1]"));
	MSG_SET(&m, enqueue, parent_id, STR("job_0"));
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
	j = fx_job(x, "job_1");
	assert_int_equal(j->state, JOB_SCHEDULED);
	assert_str_is(j->payload, "{ \"a\" : [1, 2] }");
	assert_int_equal(j->priority, PRIORITY_CRITICAL);
	assert_int_equal(j->max_retries, 7);
	assert_int_equal(j->retry_backoff, BACKOFF_NONE);
	assert_int_equal(j->retry_base_delay, 0);
	assert_int_equal(j->retry_max_delay, 1);
	assert_true(j->retry_jitter == 1.0);
	assert_int_equal(j->scheduled_at, FX_START_NS + 10);
	assert_int_equal(j->expire_at, FX_START_NS + 20);
	assert_str_is(j->tags, "{\"k\":\"v\"}");
	assert_str_is(j->checkpoint, "[1]");
	assert_str_is(j->parent_id, "job_0");
	assert_int_equal(fsm_queue_takeable(x->side[0].f, STR("q"), x->now_ns),
			 0);
}

/* What makes no sense is made to: such values cannot come over HTTP. */
static void test_strange_values(void **state)
{
	struct fx *x = *state;
	struct m_enqueue m = fx_new("job_1", "q");

	MSG_SET(&m, enqueue, retry_jitter, -1.0);
	MSG_SET(&m, enqueue, expire_after, UINT64_MAX);
	MSG_SET(&m, enqueue, scheduled_at, FX_START_NS);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
	assert_int_equal(fx_job(x, "job_1")->priority, PRIORITY_NORMAL);
	assert_false(MSG_HAS(fx_job(x, "job_1"), job, retry_jitter));
	fx_expect_state(x, "job_1", JOB_PENDING);
	fx_expect(x, "q", "job_1");
}

static void test_refused(void **state)
{
	struct fx *x = *state;
	char long_name[LIMIT_QUEUE_NAME_BYTES + 1];
	char long_id[LIMIT_JOB_ID_BYTES + 1];
	struct m_enqueue m;

	memset(long_name, 'q', sizeof(long_name));
	memset(long_id, 'j', sizeof(long_id));
	m = fx_new("", "q");
	fx_refused(x, OP_ENQUEUE, &m, ERR_VALIDATION_ERROR,
		   "job_id: must have 1 to 64 bytes");
	m = fx_new("job_1", "q");
	m.job_id = str_of(long_id, sizeof(long_id));
	fx_refused(x, OP_ENQUEUE, &m, ERR_VALIDATION_ERROR,
		   "job_id: must have 1 to 64 bytes");
	m = fx_new("job_1", "");
	fx_refused(x, OP_ENQUEUE, &m, ERR_VALIDATION_ERROR,
		   "queue: must have 1 to 255 bytes");
	m.queue = str_of(long_name, sizeof(long_name));
	fx_refused(x, OP_ENQUEUE, &m, ERR_VALIDATION_ERROR,
		   "queue: must have 1 to 255 bytes");
	m.queue = STR("a\0b");
	fx_refused(x, OP_ENQUEUE, &m, ERR_VALIDATION_ERROR,
		   "queue: must have 1 to 255 bytes");
}

static void test_longest_names(void **state)
{
	struct fx *x = *state;
	char name[LIMIT_QUEUE_NAME_BYTES + 1] = { 0 };
	char id[LIMIT_JOB_ID_BYTES + 1] = { 0 };

	memset(name, 'q', LIMIT_QUEUE_NAME_BYTES);
	memset(id, 'j', LIMIT_JOB_ID_BYTES);
	fx_enqueue(x, id, name);
	fx_expect(x, name, id); /* too long for a window: from the store */
	fx_job_op(x, OP_CANCEL, id, "cancelling");
}

static void test_batch(void **state)
{
	struct fx *x = *state;
	struct m_enqueue jobs[3] = { fx_new("job_1", "a"), fx_new("job_2", "b"),
				     fx_new("job_3", "a") };
	struct m_enqueue_batch m = { 0 };
	struct m_enqueue_batch_reply r;

	MSG_SET(&jobs[1], enqueue, scheduled_at, FX_START_NS + 5);
	MSG_SET_LIST(&m, enqueue_batch, jobs, jobs, 3);
	assert_int_equal(fx_do(x, OP_ENQUEUE_BATCH, &m, &r), 0);
	assert_int_equal(r.job_ids_n, 3);
	assert_int_equal(r.jobs_n, 3);
	assert_str_is(r.job_ids[2], "job_3");
	assert_int_equal(r.jobs[0].status, JOB_PENDING);
	assert_int_equal(r.jobs[1].status, JOB_SCHEDULED);
	fx_expect(x, "a", "job_1");
	fx_expect(x, "a", "job_3");
	fx_expect_none(x, "b");
	fx_expect_state(x, "job_2", JOB_SCHEDULED);
}

static void test_batch_is_all_or_nothing(void **state)
{
	struct fx *x = *state;
	struct m_enqueue jobs[2] = { fx_new("job_1", "a"),
				     fx_new("job_2", "") };
	struct m_enqueue_batch m = { 0 };

	MSG_SET_LIST(&m, enqueue_batch, jobs, jobs, 2);
	fx_refused(x, OP_ENQUEUE_BATCH, &m, ERR_VALIDATION_ERROR,
		   "queue: must have 1 to 255 bytes");
	assert_false(fx_job_exists(x, "job_1"));
}

static void test_empty_batch(void **state)
{
	struct fx *x = *state;
	struct m_enqueue_batch m = { 0 };
	struct m_enqueue_batch_reply r;

	assert_int_equal(fx_do(x, OP_ENQUEUE_BATCH, &m, &r), 0);
	assert_int_equal(r.job_ids_n, 0);
	assert_int_equal(fx_resend(x, OP_ENQUEUE_BATCH, &m, &r), 0);
}

/* Its answers were not kept; the job itself says that it was done. */
static void test_resend_of_0_4_0(void **state)
{
	struct fx *x = *state;
	struct m_enqueue m = fx_new("job_1", "q");
	uint64_t seq;

	assert_int_equal(fx_do_old(x, OP_ENQUEUE, FRAME_RESEND, &m), 0);
	seq = fsm_last_seq(x->side[0].f);
	assert_int_equal(fx_do_old(x, OP_ENQUEUE, FRAME_RESEND, &m),
			 ERR_OUTCOME_UNKNOWN);
	assert_int_equal(fsm_last_seq(x->side[0].f), seq);
}

/* A request that may have been carried out already is answered as before. */
static void test_resend(void **state)
{
	struct fx *x = *state;
	struct m_enqueue m = fx_new("job_1", "q");
	struct m_enqueue jobs[2] = { fx_new("job_2", "q"),
				     fx_new("job_3", "q") };
	struct m_enqueue_batch batch = { 0 };
	struct m_enqueue_batch_reply br;
	struct m_enqueue_reply r;
	uint64_t seq;

	MSG_SET_LIST(&batch, enqueue_batch, jobs, jobs, 2);
	assert_int_equal(fx_resend(x, OP_ENQUEUE, &m, &r), 0);
	assert_int_equal(fx_do(x, OP_ENQUEUE_BATCH, &batch, &br), 0);
	seq = fsm_last_seq(x->side[0].f);
	x->now_ns += NS_PER_S;
	assert_int_equal(fx_resend(x, OP_ENQUEUE, &m, &r), 0);
	assert_str_is(r.job_id, "job_1");
	assert_int_equal(r.created_at, FX_START_NS);
	fx_job_op(x, OP_DELETE, "job_3", "deleted");
	seq++;
	assert_int_equal(fx_resend(x, OP_ENQUEUE_BATCH, &batch, &br), 0);
	assert_int_equal(br.job_ids_n, 2);
	assert_str_is(br.jobs[1].job_id, "job_3");
	assert_int_equal(fsm_last_seq(x->side[0].f), seq);
	fx_expect(x, "q", "job_1");
	fx_expect(x, "q", "job_2");
	fx_expect_none(x, "q");
}

/* --- entries as such --- */

static void test_entry_of_many(void **state)
{
	struct fx *x = *state;
	struct m_enqueue good = fx_new("job_1", "q"), bad = fx_new("job_2", "");
	struct str queue = STR("q");
	struct m_fetch fetch = { 0 };
	struct m_fetch_reply r;

	MSG_SET_LIST(&fetch, fetch, queues, &queue, 1);
	fx_begin(x);
	fx_add(x, OP_ENQUEUE, 0, &good);
	fx_add(x, OP_ENQUEUE, 0, &bad);
	fx_add(x, OP_FETCH, 0, &fetch);
	fx_add(x, OP_FETCH, 0, &fetch);
	fx_commit(x);
	assert_int_equal(x->replies[0].err, 0);
	assert_int_equal(x->replies[0].seq, 2);
	assert_int_equal(x->replies[1].err, ERR_VALIDATION_ERROR);
	assert_int_equal(x->replies[1].seq, 2);
	assert_int_equal(
	    msg_decode(&msg_fetch_reply, x->replies[2].body, &x->arena, &r), 0);
	assert_int_equal(r.jobs_n, 1);
	assert_int_equal(r.jobs[0].lease_token, 3);
	assert_int_equal(x->replies[2].seq, 3);
	assert_int_equal(
	    msg_decode(&msg_fetch_reply, x->replies[3].body, &x->arena, &r), 0);
	assert_int_equal(r.jobs_n, 0);
	assert_int_equal(x->replies[3].seq, 3);
}

static void test_an_item_that_says_nothing_is_refused(void **state)
{
	struct fx *x = *state;

	fx_begin(x);
	(void)fx_add_raw(x, OP_PAUSE, 0, STR("\x80"));
	fx_commit(x);
	assert_int_equal(x->replies[0].err, ERR_VALIDATION_ERROR);
	fx_enqueue(x, "job_1", "q");
}

static void ignore_reply(void *ctx, size_t item, int err, uint64_t seq,
			 struct str body)
{
	(void)item;
	(void)err;
	(void)seq;
	(void)body;
	(*(int *)ctx)++;
}

/* As a later version would write it, which has more priorities. */
static void add_newer(struct fx *x)
{
	struct m_enqueue m = fx_new("job_2", "q");

	MSG_SET(&m, enqueue, priority, 77);
	fx_begin(x);
	fx_add(x, OP_ENQUEUE, 0, &m);
	entry_end(&x->w);
}

/* Others may know what it means: to refuse it would be to become another state
 * than theirs. */
static void test_a_value_of_a_later_version_stops(void **state)
{
	struct fx *x = *state;
	int calls = 0;

	fx_enqueue(x, "job_1", "q");
	add_newer(x);
	for (int i = 0; i < FX_SIDES; i++) {
		struct fsm *f = x->side[i].f;

		assert_int_equal(
		    fsm_apply(f, 2, buf_str(&x->entry), ignore_reply, &calls),
		    -ERR_UNSUPPORTED);
		assert_str_is(fsm_stop_text(f),
			      "its operation enqueue cannot be read by this "
			      "version of Corvo; start the version that wrote "
			      "it");
		assert_int_equal(fsm_applied_index(f), 1);
	}
	assert_int_equal(calls, 0);
	fx_restart(x, FX_ROCKS);
	assert_int_equal(fsm_applied_index(x->side[FX_ROCKS].f), 1);
}

/* That release looked at nothing before it proposed, and refused it here. */
static void test_what_0_4_0_could_not_read_it_refused(void **state)
{
	struct fx *x = *state;
	struct m_enqueue m = fx_new("job_1", "q");

	MSG_SET(&m, enqueue, priority, 77);
	assert_int_equal(fx_do_old(x, OP_ENQUEUE, 0, &m), ERR_BAD_MESSAGE);
	fx_enqueue(x, "job_2", "q");
}

static void test_broken_entry_stops(void **state)
{
	struct fx *x = *state;
	struct fsm *f = x->side[0].f;
	int calls = 0;

	assert_true(fsm_apply(f, 1, STR("\xc1"), ignore_reply, &calls) < 0);
	assert_true(fsm_apply(f, 1, STR(""), ignore_reply, &calls) < 0);
	assert_int_equal(calls, 0);
	assert_int_equal(fsm_applied_index(f), 0);
}

static void test_applied_entries_are_skipped(void **state)
{
	struct fx *x = *state;
	int calls = 0;

	fx_enqueue(x, "job_1", "q");
	for (int i = 0; i < FX_SIDES; i++) {
		struct fsm *f = x->side[i].f;

		assert_int_equal(fsm_applied_index(f), 1);
		assert_int_equal(
		    fsm_apply(f, 1, buf_str(&x->entry), ignore_reply, &calls),
		    0);
	}
	assert_int_equal(calls, 0);
	fx_restart(x, FX_ROCKS);
	assert_int_equal(fsm_applied_index(x->side[FX_ROCKS].f), 1);
	fx_check_same(x);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fx_setup, fx_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_defaults),
		TEST(test_every_field),
		TEST(test_strange_values),
		TEST(test_refused),
		TEST(test_longest_names),
		TEST(test_batch),
		TEST(test_batch_is_all_or_nothing),
		TEST(test_empty_batch),
		TEST(test_resend),
		TEST(test_resend_of_0_4_0),
		TEST(test_entry_of_many),
		TEST(test_an_item_that_says_nothing_is_refused),
		TEST(test_a_value_of_a_later_version_stops),
		TEST(test_what_0_4_0_could_not_read_it_refused),
		TEST(test_broken_entry_stops),
		TEST(test_applied_entries_are_skipped),
	};

	return cmocka_run_group_tests_name("fsm_enqueue", tests, NULL, NULL);
}
