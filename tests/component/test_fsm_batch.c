/*
 * Batches: each rule of what is counted, when one ends, and what its callback
 * gets. The fixture compares counts with the jobs after every entry.
 */
#include "fsm_fixture.h"
#include "proto/job.h"

static struct m_open_batch new_batch(const char *id)
{
	struct m_open_batch m = { 0 };

	MSG_SET(&m, open_batch, batch_id, str_from(id));
	return m;
}

static void open_batch(struct fx *x, const char *id, const char *parent)
{
	struct m_open_batch m = new_batch(id);
	struct m_batch_ref r;

	MSG_SET(&m, open_batch, callback_queue, STR("done"));
	if (parent != NULL)
		MSG_SET(&m, open_batch, parent_id, str_from(parent));
	assert_int_equal(fx_do(x, OP_OPEN_BATCH, &m, &r), 0);
	assert_str_is(r.batch_id, id);
}

static struct m_enqueue job_of(const char *id, const char *batch)
{
	struct m_enqueue m = { 0 };

	MSG_SET(&m, enqueue, job_id, str_from(id));
	MSG_SET(&m, enqueue, queue, STR("q"));
	if (batch != NULL)
		MSG_SET(&m, enqueue, batch_id, str_from(batch));
	return m;
}

static void add_job(struct fx *x, const char *id, const char *batch)
{
	struct m_enqueue m = job_of(id, batch);
	struct m_enqueue_reply r;

	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, &r), 0);
	assert_str_is(r.batch_id, batch);
	assert_str_is(fx_job(x, id)->batch_id, batch);
}

static struct m_batch seal(struct fx *x, const char *id)
{
	struct m_batch_ref m = { 0 };
	struct m_batch r;

	MSG_SET(&m, batch_ref, batch_id, str_from(id));
	assert_int_equal(fx_do(x, OP_SEAL_BATCH, &m, &r), 0);
	return r;
}

static struct m_batch batch(struct fx *x, const char *id)
{
	struct m_batch b;

	assert_int_equal(fsm_batch(x->side[FX_MEM].f, str_from(id), &b), 1);
	return b;
}

static void expect(struct fx *x, const char *id, const char *status,
		   uint64_t total, uint64_t succeeded, uint64_t failed)
{
	struct m_batch b = batch(x, id);

	assert_str_is(b.id, id);
	assert_str_is(b.batch_id, id);
	assert_str_is(b.status, status);
	assert_int_equal(b.total, total);
	assert_int_equal(b.succeeded, succeeded);
	assert_int_equal(b.failed, failed);
	assert_int_equal(b.pending, total - succeeded - failed);
	assert_int_equal(MSG_HAS(&b, batch, completed_at),
			 strcmp(status, "completed") == 0);
}

static void ack(struct fx *x, const char *id)
{
	struct m_ack a = { 0 };

	MSG_SET(&a, ack, job_id, str_from(id));
	assert_int_equal(fx_do(x, OP_ACK, &a, NULL), 0);
}

static void die(struct fx *x, const char *id)
{
	struct m_fail m = { 0 };

	MSG_SET(&m, fail, job_id, str_from(id));
	MSG_SET(&m, fail, error, STR("boom"));
	MSG_SET(&m, fail, retry, false);
	assert_int_equal(fx_do(x, OP_FAIL, &m, NULL), 0);
}

/* The callback of a batch: the only job of its queue. */
static struct m_fetched callback(struct fx *x, const char *queue)
{
	struct m_fetched j;

	assert_true(fx_fetch(x, queue, &j));
	fx_check_same(x);
	return j;
}

/* An enqueue/batch of jobs "a", "b", ... */
static struct m_enqueue_batch together(struct m_enqueue *jobs, size_t n,
				       struct m_batch_options *o)
{
	static const char names[][2] = { "a", "b", "c", "d" };
	struct m_enqueue_batch m = { 0 };

	assert_true(n <= ARRAY_SIZE(names));
	for (size_t i = 0; i < n; i++)
		jobs[i] = job_of(names[i], NULL);
	MSG_SET_LIST(&m, enqueue_batch, jobs, jobs, n);
	MSG_SET(&m, enqueue_batch, batch, o);
	MSG_SET(&m, enqueue_batch, batch_id, STR("batch_1"));
	return m;
}

static void enqueue_together(struct fx *x, size_t n, struct m_batch_options *o)
{
	struct m_enqueue jobs[4];
	struct m_enqueue_batch m = together(jobs, n, o);
	struct m_enqueue_batch_reply r;

	assert_int_equal(fx_do(x, OP_ENQUEUE_BATCH, &m, &r), 0);
	assert_str_is(r.batch_id, "batch_1");
	for (size_t i = 0; i < n; i++)
		assert_str_is(r.jobs[i].batch_id, "batch_1");
}

static void test_batch_ends_when_all_jobs_have_ended(void **state)
{
	struct m_batch_options o = { 0 };
	struct fx *x = *state;
	struct m_fetched j;
	struct m_batch b;

	MSG_SET(&o, batch_options, callback_queue, STR("done"));
	MSG_SET(&o, batch_options, callback_payload,
		STR("{\"a\": 1, \"batch\":2,\"b\\u0063\":[ ]}"));
	enqueue_together(x, 2, &o);
	expect(x, "batch_1", "running", 2, 0, 0);
	b = batch(x, "batch_1");
	assert_true(b.sealed);
	assert_str_is(b.callback_queue, "done");
	assert_str_is(b.callback_payload,
		      "{\"a\": 1, \"batch\":2,\"b\\u0063\":[ ]}");
	fx_expect(x, "q", "a");
	fx_expect(x, "q", "b");
	ack(x, "a");
	fx_expect_none(x, "done");
	fx_restart(x, FX_ROCKS);
	die(x, "b");
	expect(x, "batch_1", "completed", 2, 1, 1);
	b = batch(x, "batch_1");
	assert_int_equal(b.completed_at, x->now_ns);
	assert_true(b.callback_payload.n > 0);
	j = callback(x, "done");
	b = batch(x, "batch_1");
	assert_true(str_eq(j.job_id, b.callback_job_id));
	assert_str_is(j.payload, "{\"a\":1,\"bc\":[ ],\"batch\":{\"id\":"
				 "\"batch_1\",\"total\":2,\"succeeded\":1,"
				 "\"failed\":1}}");
	assert_int_equal(j.priority, PRIORITY_NORMAL);
	assert_int_equal(j.max_retries, JOB_DEFAULT_MAX_RETRIES);
	assert_false(MSG_HAS(&j, fetched, batch_id));
}

static void expect_callback(struct fx *x, const char *given,
			    const char *expected)
{
	struct m_open_batch m = new_batch(given);
	char id[LIMIT_JOB_ID_BYTES + 1]; /* the next entry takes j.job_id */
	struct m_fetched j;

	MSG_SET(&m, open_batch, callback_queue, STR("done"));
	if (given[0] != '-')
		MSG_SET(&m, open_batch, callback_payload, str_from(given));
	assert_int_equal(fx_do(x, OP_OPEN_BATCH, &m, NULL), 0);
	(void)seal(x, given);
	j = callback(x, "done");
	assert_true(str_starts(j.payload, str_from(expected)));
	(void)snprintf(id, sizeof(id), "%.*s", STR_ARG(j.job_id));
	ack(x, id);
}

static void test_callback_payload_that_is_no_object(void **state)
{
	struct fx *x = *state;

	expect_callback(x, "[1]", "{\"payload\":[1],\"batch\":{\"id\":");
	expect_callback(x, "7", "{\"payload\":7,\"batch\":{\"id\":");
	expect_callback(x, "null", "{\"payload\":null,\"batch\":{\"id\":");
	expect_callback(x, "-", "{\"batch\":{\"id\":");
	expect_callback(x, "{}", "{\"batch\":{\"id\":");
}

static void test_batch_without_callback_queue(void **state)
{
	struct m_batch_options o = { 0 };
	struct fx *x = *state;

	enqueue_together(x, 1, &o);
	fx_expect(x, "q", "a");
	ack(x, "a");
	expect(x, "batch_1", "completed", 1, 1, 0);
	assert_int_equal(batch(x, "batch_1").callback_job_id.n, 0);
}

/* Ways to end that are no success, each once. */
static void test_every_other_end_counts_as_failed(void **state)
{
	struct fx *x = *state;
	struct m_enqueue m;

	open_batch(x, "batch_1", NULL);
	m = job_of("expires", "batch_1");
	MSG_SET(&m, enqueue, expire_after, NS_PER_S);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
	x->now_ns += NS_PER_S;
	assert_int_equal(fx_maintain(x, OP_EXPIRE, 0, NULL), 1);
	expect(x, "batch_1", "open", 1, 0, 1);
	add_job(x, "cancelled", "batch_1");
	fx_job_op(x, OP_CANCEL, "cancelled", "cancelled");
	expect(x, "batch_1", "open", 2, 0, 2);
	add_job(x, "deleted", "batch_1");
	fx_job_op(x, OP_DELETE, "deleted", "deleted");
	expect(x, "batch_1", "open", 3, 0, 3);
	add_job(x, "taken", "batch_1");
	fx_expect(x, "q", "taken");
	fx_job_op(x, OP_DELETE, "taken", "deleted");
	expect(x, "batch_1", "open", 4, 0, 4);
	m = job_of("lost", "batch_1");
	MSG_SET(&m, enqueue, max_retries, 1);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
	fx_expect(x, "q", "lost");
	x->now_ns += 60 * NS_PER_S;
	assert_int_equal(fx_maintain(x, OP_RECLAIM, 0, NULL), 1);
	expect(x, "batch_1", "open", 5, 0, 5);
	fx_restart(x, FX_ROCKS);
	assert_str_is(seal(x, "batch_1").status, "completed");
	expect(x, "batch_1", "completed", 5, 0, 5);
}

static void test_an_ended_job_is_counted_once(void **state)
{
	struct fx *x = *state;

	open_batch(x, "batch_1", NULL);
	add_job(x, "a", "batch_1");
	add_job(x, "b", "batch_1");
	fx_expect(x, "q", "a");
	die(x, "a");
	expect(x, "batch_1", "open", 2, 0, 1);
	fx_job_op(x, OP_RETRY, "a", "retried");
	fx_restart(x, FX_MEM);
	fx_restart(x, FX_ROCKS);
	fx_expect(x, "q", "b");
	fx_expect(x, "q", "a");
	ack(x, "a");
	expect(x, "batch_1", "open", 2, 0, 1);
	fx_job_op(x, OP_DELETE, "a", "deleted");
	expect(x, "batch_1", "open", 2, 0, 1);
	(void)seal(x, "batch_1");
	expect(x, "batch_1", "running", 2, 0, 1);
	ack(x, "b");
	expect(x, "batch_1", "completed", 2, 1, 1);
	/* and one retried after the end changes nothing */
	fx_job_op(x, OP_RETRY, "b", "retried");
	fx_expect(x, "q", "b");
	die(x, "b");
	expect(x, "batch_1", "completed", 2, 1, 1);
}

static void test_ack_batch_counts_each_job(void **state)
{
	struct m_batch_options o = { 0 };
	struct m_ack_item items[3] = { 0 };
	struct m_ack_batch m = { 0 };
	struct fx *x = *state;

	enqueue_together(x, 3, &o);
	for (size_t i = 0; i < 3; i++) {
		struct m_fetched j;

		assert_true(fx_fetch(x, "q", &j));
		MSG_SET(&items[i], ack_item, job_id,
			i == 0   ? STR("a")
			: i == 1 ? STR("b")
				 : STR("c"));
	}
	MSG_SET_LIST(&m, ack_batch, acks, items, 3);
	assert_int_equal(fx_do(x, OP_ACK_BATCH, &m, NULL), 0);
	expect(x, "batch_1", "completed", 3, 3, 0);
}

static void test_empty_batch_ends_when_sealed(void **state)
{
	struct fx *x = *state;
	struct m_batch b;

	open_batch(x, "batch_1", NULL);
	expect(x, "batch_1", "open", 0, 0, 0);
	b = seal(x, "batch_1");
	assert_str_is(b.status, "completed");
	assert_true(b.callback_job_id.n > 0);
	(void)callback(x, "done");
}

static void test_sealing_again_answers_the_batch_as_it_is(void **state)
{
	struct m_batch_ref m = { 0 };
	struct fx *x = *state;
	struct m_batch b;
	uint64_t seq;

	open_batch(x, "batch_1", NULL);
	add_job(x, "a", "batch_1");
	assert_str_is(seal(x, "batch_1").status, "running");
	seq = fsm_last_seq(x->side[0].f);
	assert_str_is(seal(x, "batch_1").status, "running");
	MSG_SET(&m, batch_ref, batch_id, STR("batch_1"));
	assert_int_equal(fx_resend(x, OP_SEAL_BATCH, &m, &b), 0);
	assert_str_is(b.status, "running");
	assert_int_equal(b.total, 1);
	assert_int_equal(fsm_last_seq(x->side[0].f), seq);
}

static void test_adding_to_a_sealed_or_unknown_batch_is_refused(void **state)
{
	struct m_enqueue jobs[2], m;
	struct m_enqueue_batch both = { 0 };
	struct m_batch_ref ref = { 0 };
	struct fx *x = *state;

	m = job_of("a", "nope");
	fx_refused(x, OP_ENQUEUE, &m, ERR_NOT_FOUND,
		   "batch \"nope\" not found");
	MSG_SET(&ref, batch_ref, batch_id, STR("nope"));
	fx_refused(x, OP_SEAL_BATCH, &ref, ERR_NOT_FOUND,
		   "batch \"nope\" not found");
	open_batch(x, "batch_1", NULL);
	add_job(x, "first", "batch_1");
	(void)seal(x, "batch_1");
	m = job_of("a", "batch_1");
	fx_refused(x, OP_ENQUEUE, &m, ERR_BATCH_ERROR,
		   "batch \"batch_1\" is sealed: nothing can be added to it");
	fx_job_op(x, OP_DELETE, "first", "deleted");
	expect(x, "batch_1", "completed", 1, 0, 1);
	fx_refused(x, OP_ENQUEUE, &m, ERR_BATCH_ERROR,
		   "batch \"batch_1\" is sealed: nothing can be added to it");
	/* all jobs of a request or none */
	jobs[0] = job_of("a", NULL);
	jobs[1] = job_of("b", "batch_1");
	MSG_SET_LIST(&both, enqueue_batch, jobs, jobs, 2);
	fx_refused(x, OP_ENQUEUE_BATCH, &both, ERR_BATCH_ERROR,
		   "batch \"batch_1\" is sealed: nothing can be added to it");
}

static void test_batch_and_batch_id_together_are_refused(void **state)
{
	struct m_batch_options o = { 0 };
	struct m_enqueue jobs[2];
	struct m_enqueue_batch m = together(jobs, 2, &o);
	struct fx *x = *state;

	open_batch(x, "batch_2", NULL);
	jobs[1] = job_of("b", "batch_2");
	fx_refused(x, OP_ENQUEUE_BATCH, &m, ERR_VALIDATION_ERROR,
		   "jobs[1].batch_id: the jobs become a batch of their own by "
		   "the member batch; give either");
}

static void test_items_join_several_open_batches(void **state)
{
	struct m_enqueue jobs[4];
	struct m_enqueue_batch m = { 0 };
	struct fx *x = *state;

	open_batch(x, "b1", NULL);
	open_batch(x, "b2", NULL);
	jobs[0] = job_of("a", "b1");
	jobs[1] = job_of("b", NULL);
	jobs[2] = job_of("c", "b2");
	jobs[3] = job_of("d", "b1");
	MSG_SET_LIST(&m, enqueue_batch, jobs, jobs, 4);
	assert_int_equal(fx_do(x, OP_ENQUEUE_BATCH, &m, NULL), 0);
	expect(x, "b1", "open", 2, 0, 0);
	expect(x, "b2", "open", 1, 0, 0);
}

static void test_resends(void **state)
{
	struct m_batch_options o = { 0 };
	struct m_open_batch open = new_batch("batch_2");
	struct m_enqueue jobs[4], m = job_of("x", "batch_2");
	struct m_enqueue_batch both = together(jobs, 2, &o);
	struct m_enqueue_batch_reply br;
	struct m_enqueue_reply r;
	struct m_batch_ref ref;
	struct fx *x = *state;
	uint64_t seq;

	assert_int_equal(fx_do(x, OP_OPEN_BATCH, &open, &ref), 0);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, &r), 0);
	assert_int_equal(fx_do(x, OP_ENQUEUE_BATCH, &both, &br), 0);
	(void)seal(x, "batch_2");
	fx_job_op(x, OP_DELETE, "a", "deleted");
	fx_job_op(x, OP_DELETE, "b", "deleted");
	seq = fsm_last_seq(x->side[0].f);
	assert_int_equal(fx_resend(x, OP_OPEN_BATCH, &open, &ref), 0);
	assert_str_is(ref.batch_id, "batch_2");
	assert_int_equal(fx_resend(x, OP_ENQUEUE, &m, &r), 0);
	assert_str_is(r.job_id, "x");
	assert_str_is(r.batch_id, "batch_2");
	assert_int_equal(fx_resend(x, OP_ENQUEUE_BATCH, &both, &br), 0);
	assert_str_is(br.batch_id, "batch_1");
	assert_str_is(br.job_ids[1], "b");
	assert_int_equal(fsm_last_seq(x->side[0].f), seq);
	expect(x, "batch_1", "completed", 2, 0, 2);
	expect(x, "batch_2", "running", 1, 0, 0);
	/* the same id again without being a resend */
	fx_refused(x, OP_OPEN_BATCH, &open, ERR_CONFLICT,
		   "batch \"batch_2\" exists already");
}

static void test_nested_batch_counts_in_its_parent(void **state)
{
	struct m_batch_options o = { 0 };
	struct fx *x = *state;

	open_batch(x, "top", NULL);
	open_batch(x, "good", "top");
	MSG_SET(&o, batch_options, parent_id, STR("top"));
	enqueue_together(x, 2, &o);
	assert_str_is(batch(x, "batch_1").parent_id, "top");
	expect(x, "top", "open", 2, 0, 0);
	assert_str_is(seal(x, "top").status, "running");
	(void)seal(x, "good");
	expect(x, "top", "running", 2, 1, 0);
	fx_restart(x, FX_ROCKS);
	fx_expect(x, "q", "a");
	fx_expect(x, "q", "b");
	ack(x, "a");
	die(x, "b"); /* one that failed makes the whole nested batch failed */
	expect(x, "batch_1", "completed", 2, 1, 1);
	expect(x, "top", "completed", 2, 1, 1);
	(void)callback(x, "done"); /* of good */
	(void)callback(x, "done"); /* of top */
	fx_expect_none(x, "done");
}

static void test_ends_go_up_through_all_levels(void **state)
{
	char id[16], parent[16] = "";
	struct m_open_batch m;
	struct fx *x = *state;

	for (int i = 1; i <= LIMIT_BATCH_DEPTH; i++) {
		(void)snprintf(id, sizeof(id), "b%d", i);
		open_batch(x, id, i > 1 ? parent : NULL);
		memcpy(parent, id, sizeof(parent));
	}
	m = new_batch("deeper");
	MSG_SET(&m, open_batch, parent_id, str_from(parent));
	fx_refused(x, OP_OPEN_BATCH, &m, ERR_BATCH_ERROR,
		   "parent_id: batches may be nested 8 deep at most");
	add_job(x, "a", parent);
	for (int i = 1; i <= LIMIT_BATCH_DEPTH; i++) {
		(void)snprintf(id, sizeof(id), "b%d", i);
		assert_str_is(seal(x, id).status, "running");
	}
	fx_expect(x, "q", "a");
	ack(x, "a");
	for (int i = 1; i <= LIMIT_BATCH_DEPTH; i++) {
		(void)snprintf(id, sizeof(id), "b%d", i);
		expect(x, id, "completed", 1, 1, 0);
	}
}

static void test_parent_must_be_an_open_batch(void **state)
{
	struct m_batch_options o = { 0 };
	struct m_enqueue jobs[1];
	struct m_enqueue_batch both = together(jobs, 1, &o);
	struct m_open_batch m = new_batch("batch_2");
	struct fx *x = *state;

	MSG_SET(&m, open_batch, parent_id, STR("nope"));
	fx_refused(x, OP_OPEN_BATCH, &m, ERR_NOT_FOUND,
		   "batch \"nope\" not found");
	open_batch(x, "top", NULL);
	add_job(x, "x", "top");
	(void)seal(x, "top");
	MSG_SET(&m, open_batch, parent_id, STR("top"));
	fx_refused(x, OP_OPEN_BATCH, &m, ERR_BATCH_ERROR,
		   "batch \"top\" is sealed: nothing can be added to it");
	MSG_SET(&o, batch_options, parent_id, STR("top"));
	fx_refused(x, OP_ENQUEUE_BATCH, &both, ERR_BATCH_ERROR,
		   "batch \"top\" is sealed: nothing can be added to it");
}

static void test_names_that_cannot_be(void **state)
{
	struct m_open_batch m = new_batch("");
	struct fx *x = *state;
	struct m_batch b;

	fx_refused(x, OP_OPEN_BATCH, &m, ERR_VALIDATION_ERROR,
		   "batch_id: must have 1 to 64 bytes");
	m = new_batch("batch_1");
	MSG_SET(&m, open_batch, callback_queue, STR("a\0b"));
	fx_refused(x, OP_OPEN_BATCH, &m, ERR_VALIDATION_ERROR,
		   "callback_queue: must have 1 to 255 bytes");
	assert_int_equal(fsm_batch(x->side[0].f, STR(""), &b), 0);
	assert_int_equal(fsm_batch(x->side[0].f, STR("batch_1"), &b), 0);
}

/* Batch events tell of no job and no queue. */
static void test_feed_has_batch_events(void **state)
{
	static const enum event_type types[] = { EVENT_BATCH_OPENED,
						 EVENT_BATCH_SEALED,
						 EVENT_BATCH_ENDED };
	struct fx *x = *state;
	struct m_open_batch m = new_batch("batch_1");
	struct m_events_reply t;
	struct m_tail_reply r;

	assert_int_equal(fx_do(x, OP_OPEN_BATCH, &m, NULL), 0);
	(void)seal(x, "batch_1");
	assert_int_equal(record_events(x->side[0].kv, 0, 100, &x->arena, &t),
			 0);
	assert_int_equal(record_feed(x->side[0].kv, 0, 100, &x->arena, &r), 0);
	assert_int_equal(t.events_n, ARRAY_SIZE(types));
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		assert_int_equal(t.events[i].type, types[i]);
		assert_int_equal(t.events[i].job_id.n, 0);
		assert_int_equal(t.events[i].queue.n, 0);
	}
	assert_str_is(t.events[2].data,
		      "{\"batch_id\":\"batch_1\",\"total\":0,\"succeeded\":0,"
		      "\"failed\":0}");
	assert_int_equal(r.jobs_n + r.records_n + r.queues_n + r.workers_n, 0);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fx_setup, fx_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_batch_ends_when_all_jobs_have_ended),
		TEST(test_callback_payload_that_is_no_object),
		TEST(test_batch_without_callback_queue),
		TEST(test_every_other_end_counts_as_failed),
		TEST(test_an_ended_job_is_counted_once),
		TEST(test_ack_batch_counts_each_job),
		TEST(test_empty_batch_ends_when_sealed),
		TEST(test_sealing_again_answers_the_batch_as_it_is),
		TEST(test_adding_to_a_sealed_or_unknown_batch_is_refused),
		TEST(test_batch_and_batch_id_together_are_refused),
		TEST(test_items_join_several_open_batches),
		TEST(test_resends),
		TEST(test_nested_batch_counts_in_its_parent),
		TEST(test_ends_go_up_through_all_levels),
		TEST(test_parent_must_be_an_open_batch),
		TEST(test_names_that_cannot_be),
		TEST(test_feed_has_batch_events),
	};

	return cmocka_run_group_tests_name("fsm_batch", tests, NULL, NULL);
}
