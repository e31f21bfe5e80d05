/*
 * Lease tokens that ended an attempt: the request that did is answered so
 * again, another one is refused.
 */
#include "lease_world.h"

static void test_an_ack_sent_again_is_answered_as_the_first_time(void **state)
{
	struct fx *x = *state;
	struct m_fetched j = take(x, "job_1");
	struct m_ack m = ack_of("job_1", j.lease_token, NULL), other;
	struct m_fail f = fail_of("job_1", j.lease_token, NULL);
	struct m_status_reply r;
	struct str line = STR("line");
	uint64_t seq;

	MSG_SET(&m, ack, result, STR("1"));
	MSG_SET_LIST(&m, ack, logs, &line, 1);
	assert_int_equal(fx_do(x, OP_ACK, &m, NULL), 0);
	seq = fsm_last_seq(x->side[0].f);
	fx_restart(x, FX_ROCKS);
	assert_int_equal(fx_do(x, OP_ACK, &m, &r), 0);
	assert_str_is(r.status, "ok");
	/* what says something else is no resend */
	other = m;
	MSG_SET(&other, ack, result, STR("2"));
	fx_refused(x, OP_ACK, &other, ERR_LEASE_LOST, LOST("job_1"));
	other = m;
	MSG_SET_LIST(&other, ack, logs, &line, 0);
	fx_refused(x, OP_ACK, &other, ERR_LEASE_LOST, LOST("job_1"));
	fx_refused(x, OP_FAIL, &f, ERR_LEASE_LOST, LOST("job_1"));
	other = ack_of("job_1", TOKEN_WRONG, NULL);
	fx_refused(x, OP_ACK, &other, ERR_LEASE_LOST, LOST("job_1"));
	/* nobody can tell who that is */
	other = ack_of("job_1", TOKEN_NONE, NULL);
	fx_refused(x, OP_ACK, &other, ERR_ACK_ERROR,
		   "job \"job_1\" is not active");
	assert_int_equal(fsm_last_seq(x->side[0].f), seq);
	/* in another worker's hands it is still the same request */
	fx_job_op(x, OP_RETRY, "job_1", "retried");
	fx_expect(x, "q", "job_1");
	assert_int_equal(fx_do(x, OP_ACK, &m, NULL), 0);
	fx_expect_state(x, "job_1", JOB_ACTIVE);
}

static void test_a_fail_sent_again_is_answered_as_the_first_time(void **state)
{
	struct fx *x = *state;
	struct m_fetched j = take(x, "job_1");
	struct m_fail f = fail_of("job_1", j.lease_token, NULL), other;
	struct m_ack m = ack_of("job_1", j.lease_token, NULL);
	struct m_fail_reply first, again;

	assert_int_equal(fx_do(x, OP_FAIL, &f, &first), 0);
	x->now_ns += 3600 * NS_PER_S;
	assert_int_equal(fx_maintain(x, OP_PROMOTE, 10, NULL), 1);
	fx_expect(x, "q", "job_1");
	fx_restart(x, FX_ROCKS);
	/* answered from what was done, not from what the job is now */
	assert_int_equal(fx_do(x, OP_FAIL, &f, &again), 0);
	assert_int_equal(again.status, JOB_RETRYING);
	assert_int_equal(again.next_attempt_at, first.next_attempt_at);
	assert_int_equal(again.attempts_remaining, first.attempts_remaining);
	fx_expect_state(x, "job_1", JOB_ACTIVE);
	other = f;
	MSG_SET(&other, fail, requeue, true);
	fx_refused(x, OP_FAIL, &other, ERR_LEASE_LOST, LOST("job_1"));
	fx_refused(x, OP_ACK, &m, ERR_LEASE_LOST, LOST("job_1"));
}

static void test_a_job_given_back_twice_is_given_back_once(void **state)
{
	struct fx *x = *state;
	struct m_fetched j = take(x, "job_1");
	struct m_fail f = fail_of("job_1", j.lease_token, NULL);
	struct m_fail_reply r;

	MSG_SET(&f, fail, requeue, true);
	assert_int_equal(fx_do(x, OP_FAIL, &f, &r), 0);
	fx_expect(x, "q", "job_1");
	assert_int_equal(fx_do(x, OP_FAIL, &f, &r), 0);
	assert_int_equal(r.status, JOB_PENDING);
	fx_expect_state(x, "job_1", JOB_ACTIVE);
	assert_int_equal(fx_job(x, "job_1")->attempt, 1);
}

static void test_acks_of_a_batch_sent_again_count_again(void **state)
{
	struct fx *x = *state;
	struct m_fetched one = take(x, "job_1"), two = take(x, "job_2");
	struct m_ack_item items[2] = { 0 };
	struct m_ack_batch m = { 0 };
	struct m_ack_batch_reply r;

	MSG_SET(&items[0], ack_item, job_id, STR("job_1"));
	MSG_SET(&items[0], ack_item, lease_token, one.lease_token);
	MSG_SET(&items[1], ack_item, job_id, STR("job_2"));
	MSG_SET(&items[1], ack_item, lease_token, two.lease_token);
	MSG_SET_LIST(&m, ack_batch, acks, items, 2);
	assert_int_equal(fx_do(x, OP_ACK_BATCH, &m, &r), 0);
	assert_int_equal(r.acked, 2);
	MSG_SET(&items[1], ack_item, result, STR("2"));
	assert_int_equal(fx_do(x, OP_ACK_BATCH, &m, &r), 0);
	assert_int_equal(r.acked, 1);
	assert_int_equal(r.refused_n, 1);
	assert_str_is(r.refused[0].job_id, "job_2");
	assert_str_is(r.refused[0].code, "LEASE_LOST");
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fx_setup, fx_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_an_ack_sent_again_is_answered_as_the_first_time),
		TEST(test_a_fail_sent_again_is_answered_as_the_first_time),
		TEST(test_a_job_given_back_twice_is_given_back_once),
		TEST(test_acks_of_a_batch_sent_again_count_again),
	};

	return cmocka_run_group_tests_name("fsm_spent", tests, NULL, NULL);
}
