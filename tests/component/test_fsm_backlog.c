/*
 * max_backlog: how many jobs of a queue may wait, and which count.
 */
#include "fsm_fixture.h"

#define FULL(q, n, max)                                                    \
	"queue \"" q "\" is full: " n " jobs wait and max_backlog is " max \
	"; try again after retry_after_ms"

static void test_a_full_queue_refuses_jobs(void **state)
{
	struct m_enqueue e = fx_new("job_3", "q");
	struct fx *x = *state;

	fx_cap(x, "q", 2);
	fx_enqueue(x, "job_1", "q");
	fx_enqueue(x, "job_2", "q");
	fx_refused(x, OP_ENQUEUE, &e, ERR_QUEUE_FULL, FULL("q", "2", "2"));
	MSG_SET(&e, enqueue, scheduled_at, x->now_ns + NS_PER_S);
	fx_refused(x, OP_ENQUEUE, &e, ERR_QUEUE_FULL, FULL("q", "2", "2"));
	/* what a worker has, does not wait */
	fx_expect(x, "q", "job_1");
	assert_int_equal(fx_do(x, OP_ENQUEUE, &e, NULL), 0);
	/* the resend of one that was taken is no new one */
	assert_int_equal(fx_resend(x, OP_ENQUEUE, &e, NULL), 0);
	e = fx_new("job_4", "q");
	fx_refused(x, OP_ENQUEUE, &e, ERR_QUEUE_FULL, FULL("q", "2", "2"));
	fx_cap(x, "q", 0);
	fx_enqueue(x, "job_4", "q");
}

static void test_a_retry_is_never_refused_for_a_full_queue(void **state)
{
	struct m_fail f = { 0 };
	struct fx *x = *state;

	fx_cap(x, "q", 1);
	fx_enqueue(x, "job_1", "q");
	fx_expect(x, "q", "job_1");
	fx_enqueue(x, "job_2", "q");
	MSG_SET(&f, fail, job_id, STR("job_1"));
	MSG_SET(&f, fail, error, STR("no"));
	assert_int_equal(fx_do(x, OP_FAIL, &f, NULL), 0);
	fx_expect_state(x, "job_1", JOB_RETRYING);
}

static void test_a_batch_over_max_backlog_is_refused_as_a_whole(void **state)
{
	struct m_enqueue jobs[] = { fx_new("job_1", "a"), fx_new("job_2", "b"),
				    fx_new("job_3", "a"),
				    fx_new("job_4", "a") };
	struct m_enqueue_batch b = { 0 };
	struct fx *x = *state;

	fx_cap(x, "a", 2);
	MSG_SET_LIST(&b, enqueue_batch, jobs, jobs, 4);
	fx_refused(x, OP_ENQUEUE_BATCH, &b, ERR_QUEUE_FULL,
		   FULL("a", "0", "2"));
	MSG_SET_LIST(&b, enqueue_batch, jobs, jobs, 3);
	assert_int_equal(fx_do(x, OP_ENQUEUE_BATCH, &b, NULL), 0);
	fx_expect_state(x, "job_3", JOB_PENDING);
}

static void test_a_twin_in_a_batch_is_no_backlog(void **state)
{
	struct m_enqueue jobs[] = { fx_new("job_1", "a"), fx_new("job_2", "a"),
				    fx_new("job_3", "b"),
				    fx_new("job_4", "a") };
	struct m_enqueue_batch b = { 0 };
	struct fx *x = *state;

	fx_cap(x, "a", 1);
	fx_cap(x, "b", 1);
	for (size_t i = 0; i < ARRAY_SIZE(jobs); i++)
		MSG_SET(&jobs[i], enqueue, unique_key, STR("k"));
	MSG_SET_LIST(&b, enqueue_batch, jobs, jobs, 3);
	assert_int_equal(fx_do(x, OP_ENQUEUE_BATCH, &b, NULL), 0);
	fx_expect_state(x, "job_1", JOB_PENDING);
	fx_expect_state(x, "job_3", JOB_PENDING);
	/* a twin of one that is there is none either, another key is */
	MSG_SET_LIST(&b, enqueue_batch, jobs, jobs + 3, 1);
	assert_int_equal(fx_do(x, OP_ENQUEUE_BATCH, &b, NULL), 0);
	MSG_SET(&jobs[3], enqueue, unique_key, STR("other"));
	fx_refused(x, OP_ENQUEUE_BATCH, &b, ERR_QUEUE_FULL,
		   FULL("a", "1", "1"));
}

#define T(name) cmocka_unit_test_setup_teardown(name, fx_setup, fx_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_a_full_queue_refuses_jobs),
		T(test_a_retry_is_never_refused_for_a_full_queue),
		T(test_a_batch_over_max_backlog_is_refused_as_a_whole),
		T(test_a_twin_in_a_batch_is_no_backlog),
	};

	return cmocka_run_group_tests_name("fsm_backlog", tests, NULL, NULL);
}
