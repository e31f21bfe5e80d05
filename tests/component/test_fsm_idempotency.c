/*
 * Answers kept under an Idempotency-Key and given again.
 */
#include "fsm/core/state.h"
#include "fsm_fixture.h"

#define DAY_NS (86400 * NS_PER_S)

static struct m_enqueue request(const char *id, const char *key, uint64_t hash)
{
	struct m_enqueue m = { 0 };

	MSG_SET(&m, enqueue, job_id, str_from(id));
	MSG_SET(&m, enqueue, queue, STR("q"));
	MSG_SET(&m, enqueue, idempotency_key, str_from(key));
	MSG_SET(&m, enqueue, idempotency_hash, hash);
	return m;
}

static struct m_enqueue_reply send(struct fx *x, const char *id,
				   const char *key, uint64_t hash)
{
	struct m_enqueue m = request(id, key, hash);
	struct m_enqueue_reply r;

	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, &r), 0);
	return r;
}

static void expect_new(struct fx *x, const char *id, const char *key,
		       uint64_t hash)
{
	struct m_enqueue_reply r = send(x, id, key, hash);

	assert_str_is(r.job_id, id);
	assert_false(r.replayed);
	assert_true(fx_job_exists(x, id));
}

static void expect_replay(struct fx *x, const char *id, const char *key,
			  uint64_t hash, const char *first)
{
	uint64_t seq = fsm_last_seq(x->side[FX_MEM].f);
	struct m_enqueue_reply r = send(x, id, key, hash);

	assert_str_is(r.job_id, first);
	assert_true(r.replayed);
	assert_false(fx_job_exists(x, id));
	assert_int_equal(x->replies[0].seq, seq); /* nothing happened */
}

static void test_second_request_gets_the_first_answer(void **state)
{
	struct fx *x = *state;
	struct m_enqueue_reply r, again;

	r = send(x, "job_1", "key", 7);
	assert_false(r.replayed);
	x->now_ns += 5;
	again = send(x, "job_2", "key", 7);
	assert_int_equal(again.status, JOB_PENDING);
	assert_int_equal(again.created_at, FX_START_NS);
	fx_job_op(x, OP_DELETE, "job_1", "deleted"); /* whatever became of it */
	fx_restart(x, FX_ROCKS);
	expect_replay(x, "job_3", "key", 7, "job_1");
	expect_new(x, "job_4", "another key", 7);
	expect_new(x, "job_5", "", 7);
	expect_new(x, "job_6", "", 7); /* without a key each is new */
}

static void test_twice_in_one_entry(void **state)
{
	struct fx *x = *state;
	struct m_enqueue a = request("job_1", "key", 7);
	struct m_enqueue b = request("job_2", "key", 7);
	struct m_enqueue_reply r;

	fx_begin(x);
	fx_add(x, OP_ENQUEUE, 0, &a);
	fx_add(x, OP_ENQUEUE, 0, &b);
	fx_commit(x);
	assert_int_equal(
	    msg_decode(&msg_enqueue_reply, x->replies[1].body, &x->arena, &r),
	    0);
	assert_str_is(r.job_id, "job_1");
	assert_true(r.replayed);
	assert_false(fx_job_exists(x, "job_2"));
}

static void test_another_request_with_the_key_is_refused(void **state)
{
	struct fx *x = *state;
	struct m_enqueue m = request("job_2", "key", 8);

	expect_new(x, "job_1", "key", 7);
	fx_refused(x, OP_ENQUEUE, &m, ERR_IDEMPOTENCY_MISMATCH,
		   "the Idempotency-Key \"key\" was used with another request; "
		   "use a new key");
	expect_replay(x, "job_3", "key", 7, "job_1");
}

static void test_key_is_free_after_a_day(void **state)
{
	struct fx *x = *state;

	expect_new(x, "job_1", "key", 7);
	x->now_ns += DAY_NS - 1;
	expect_replay(x, "job_2", "key", 7, "job_1");
	x->now_ns += 1;
	fx_restart(x, FX_ROCKS);
	expect_new(x, "job_3", "key", 8); /* the checks see one ix| key */
	x->now_ns += DAY_NS - 1;
	expect_replay(x, "job_4", "key", 8, "job_3");
}

static void test_refused_requests_bind_nothing(void **state)
{
	struct fx *x = *state;
	struct m_enqueue m = request("job_1", "key", 7);

	MSG_SET(&m, enqueue, queue, STR(""));
	fx_refused(x, OP_ENQUEUE, &m, ERR_VALIDATION_ERROR,
		   "queue: must have 1 to 255 bytes");
	expect_new(x, "job_2", "key", 8);
}

/* A duplicate by unique key is a success and is answered the same again. */
static void test_duplicates_bind_too(void **state)
{
	struct fx *x = *state;
	struct m_enqueue m = request("job_1", "", 0);
	struct m_enqueue_reply r;

	MSG_SET(&m, enqueue, unique_key, STR("k"));
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
	m = request("job_2", "key", 7);
	MSG_SET(&m, enqueue, unique_key, STR("k"));
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, &r), 0);
	assert_true(r.unique_existing && !r.replayed);
	fx_job_op(x, OP_CANCEL, "job_1", "cancelled");
	MSG_SET(&m, enqueue, job_id, STR("job_3"));
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, &r), 0);
	assert_true(r.unique_existing && r.replayed);
	assert_str_is(r.job_id, "job_1");
}

/* raftd was restarted before it could answer: not a second request. */
static void test_resend_is_no_replay(void **state)
{
	struct fx *x = *state;
	struct m_enqueue m = request("job_1", "key", 7);
	struct m_enqueue_reply r;

	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
	assert_int_equal(fx_resend(x, OP_ENQUEUE, &m, &r), 0);
	assert_str_is(r.job_id, "job_1");
	assert_false(r.replayed);
	/* the first try never got into the log */
	m = request("job_2", "other", 7);
	assert_int_equal(fx_resend(x, OP_ENQUEUE, &m, &r), 0);
	assert_str_is(r.job_id, "job_2");
	expect_replay(x, "job_3", "other", 7, "job_2");
}

/* --- batches --- */

static struct m_enqueue_batch_reply send_two(struct fx *x, const char *a,
					     const char *b, bool resend)
{
	struct m_enqueue jobs[] = { request(a, "", 0), request(b, "", 0) };
	struct m_enqueue_batch m = { 0 };
	struct m_enqueue_batch_reply r;

	MSG_SET_LIST(&m, enqueue_batch, jobs, jobs, 2);
	MSG_SET(&m, enqueue_batch, idempotency_key, STR("key"));
	MSG_SET(&m, enqueue_batch, idempotency_hash, 9);
	assert_int_equal(
	    (resend ? fx_resend : fx_do)(x, OP_ENQUEUE_BATCH, &m, &r), 0);
	assert_int_equal(r.job_ids_n, 2);
	return r;
}

static void test_batches(void **state)
{
	struct fx *x = *state;
	struct m_enqueue single = request("job_1", "key", 8);
	struct m_enqueue_batch_reply r = send_two(x, "a_1", "a_2", false);

	assert_false(r.replayed);
	r = send_two(x, "a_1", "a_2", true);
	assert_false(r.replayed);
	r = send_two(x, "b_1", "b_2", false);
	assert_true(r.replayed);
	assert_str_is(r.job_ids[0], "a_1");
	assert_str_is(r.job_ids[1], "a_2");
	assert_int_equal(r.jobs_n, 2);
	assert_false(fx_job_exists(x, "b_1"));
	/* one namespace for both routes */
	assert_int_equal(fx_do(x, OP_ENQUEUE, &single, NULL),
			 ERR_IDEMPOTENCY_MISMATCH);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fx_setup, fx_teardown)

/* The log may have one that was not checked before. */
static void test_a_key_that_no_store_takes(void **state)
{
	struct fx *x = *state;
	static char key[KEY_MAX + 1];
	struct m_enqueue m;

	memset(key, 'k', sizeof(key) - 1);
	m = request("job_1", key, 7);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), ERR_VALIDATION_ERROR);
	assert_false(fx_job_exists(x, "job_1"));
	key[KEY_MAX - 15] = '\0'; /* as long as it may just be */
	expect_new(x, "job_2", key, 7);
	expect_replay(x, "job_3", key, 7, "job_2");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_second_request_gets_the_first_answer),
		TEST(test_twice_in_one_entry),
		TEST(test_another_request_with_the_key_is_refused),
		TEST(test_key_is_free_after_a_day),
		TEST(test_refused_requests_bind_nothing),
		TEST(test_duplicates_bind_too),
		TEST(test_resend_is_no_replay),
		TEST(test_batches),
		TEST(test_a_key_that_no_store_takes),
	};

	return cmocka_run_group_tests_name("fsm_idempotency", tests, NULL,
					   NULL);
}
