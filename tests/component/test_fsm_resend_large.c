/*
 * Requests that come again and are too large to be kept, or whose answers are:
 * nothing of them is done twice, and workers get the jobs that are theirs.
 */
#include "fsm_fixture.h"

#define JOBS  4
#define LARGE 3900000
#define USD   NS_PER_S /* billionths */

#define TEST(fn) \
	cmocka_unit_test_setup_teardown(fn, fx_setup_level, fx_teardown)

static struct str large(void)
{
	static char text[LARGE];

	memset(text, '1', sizeof(text));
	return str_of(text, sizeof(text));
}

static const char *name(int i)
{
	static const char *const names[JOBS] = { "j0", "j1", "j2", "j3" };

	return names[i];
}

static void start_jobs(struct fx *x)
{
	x->unchecked = true; /* the checks read everything each time */
	for (int i = 0; i < JOBS; i++) {
		fx_enqueue(x, name(i), "q");
		fx_expect(x, "q", name(i));
	}
}

/* The leader goes after each part, and the next one knows what is stored. */
static int send_until_done(struct fx *x, enum op_id op, const void *m,
			   void *reply)
{
	int r = fx_do(x, op, m, NULL), parts = 1;

	for (; r == FSM_AGAIN && parts < 2 * JOBS; parts++) {
		fx_restart(x, FX_ROCKS);
		r = fx_resend(x, op, m, reply);
	}
	assert_in_range(parts, 2, JOBS + 1);
	return r;
}

static void expect_costs(struct fx *x)
{
	for (int i = 0; i < JOBS; i++)
		assert_int_equal(fx_job(x, name(i))->usage->cost_usd, USD);
	fx_check_same(x);
}

static void test_a_heartbeat_counts_once(void **state)
{
	struct m_heartbeat_reply r = { 0 };
	struct m_usage u[JOBS] = { 0 };
	struct m_beat b[JOBS] = { 0 };
	struct m_heartbeat m = { 0 };
	struct fx *x = *state;

	start_jobs(x);
	for (int i = 0; i < JOBS; i++) {
		MSG_SET(&u[i], usage, cost_usd, USD);
		MSG_SET(&b[i], beat, job_id, str_from(name(i)));
		MSG_SET(&b[i], beat, checkpoint, large());
		MSG_SET(&b[i], beat, usage, &u[i]);
	}
	MSG_SET_LIST(&m, heartbeat, jobs, b, JOBS);
	assert_int_equal(send_until_done(x, OP_HEARTBEAT, &m, &r), 0);
	assert_int_equal(r.jobs_n, JOBS);
	for (int i = 0; i < JOBS; i++)
		assert_str_is(r.jobs[i].job_id, name(i));
	expect_costs(x);
}

static void test_an_ack_batch_counts_once(void **state)
{
	struct m_ack_batch_reply r = { 0 };
	struct m_ack_item a[JOBS] = { 0 };
	struct m_usage u[JOBS] = { 0 };
	struct m_ack_batch m = { 0 };
	struct fx *x = *state;

	start_jobs(x);
	for (int i = 0; i < JOBS; i++) {
		MSG_SET(&u[i], usage, cost_usd, USD);
		MSG_SET(&a[i], ack_item, job_id, str_from(name(i)));
		MSG_SET(&a[i], ack_item, checkpoint, large());
		MSG_SET(&a[i], ack_item, usage, &u[i]);
	}
	MSG_SET_LIST(&m, ack_batch, acks, a, JOBS);
	assert_int_equal(send_until_done(x, OP_ACK_BATCH, &m, &r), 0);
	assert_int_equal(r.acked, JOBS);
	assert_int_equal(r.refused_n, 0);
	expect_costs(x);
}

/* As one of a stream comes: with a number, by which its answer is kept. */
static int fetch(struct fx *x, uint64_t number, struct m_fetch_reply *ret)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(0);
	struct str queue = STR("q");
	struct m_fetch m = { 0 };

	MSG_SET_LIST(&m, fetch, queues, &queue, 1);
	MSG_SET(&m, fetch, worker_id, STR("w1"));
	MSG_SET(&m, fetch, count, 2);
	MSG_SET(&m, fetch, fetch_id, 77);
	msg_encode(&msg_fetch, &m, &body);
	fx_begin(x);
	fx_add_again(x, OP_FETCH, number, buf_str(&body));
	fx_commit(x);
	if (x->replies[0].err == 0)
		assert_int_equal(msg_decode(&msg_fetch_reply,
					    x->replies[0].body, &x->arena, ret),
				 0);
	return x->replies[0].err;
}

static void test_a_fetch_is_given_its_jobs_again(void **state)
{
	struct m_fetch_reply r = { 0 };
	struct fx *x = *state;
	uint64_t number;

	x->unchecked = true;
	for (int i = 0; i < 2; i++) {
		struct m_enqueue e = fx_new(name(i), "q");

		MSG_SET(&e, enqueue, checkpoint, large());
		assert_int_equal(fx_do(x, OP_ENQUEUE, &e, NULL), 0);
	}
	number = ++x->calls;
	assert_int_equal(fetch(x, number, &r), 0);
	assert_int_equal(r.jobs_n, 2);
	fx_restart(x, FX_ROCKS);
	assert_int_equal(fetch(x, number, &r), 0);
	assert_int_equal(r.jobs_n, 2);
	for (int i = 0; i < 2; i++) {
		assert_str_is(r.jobs[i].job_id, name(i));
		assert_int_equal(r.jobs[i].attempt, 1);
		assert_int_equal(r.jobs[i].checkpoint.n, LARGE);
	}
	fx_check_same(x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_heartbeat_counts_once),
		TEST(test_an_ack_batch_counts_once),
		TEST(test_a_fetch_is_given_its_jobs_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
