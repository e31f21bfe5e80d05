/*
 * promote, expire, trim_events, and the due moments told to sched.
 */
#include "fsm_fixture.h"

static void schedule(struct fx *x, const char *id, const char *queue,
		     uint64_t after_ns)
{
	struct m_enqueue m = { 0 };

	MSG_SET(&m, enqueue, job_id, str_from(id));
	MSG_SET(&m, enqueue, queue, str_from(queue));
	MSG_SET(&m, enqueue, scheduled_at, x->now_ns + after_ns);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
}

static void expiring(struct fx *x, const char *id, uint64_t after_ns)
{
	struct m_enqueue m = { 0 };

	MSG_SET(&m, enqueue, job_id, str_from(id));
	MSG_SET(&m, enqueue, queue, STR("q"));
	MSG_SET(&m, enqueue, expire_after, after_ns);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
}

static void expect_due(struct fx *x, uint64_t promote, uint64_t reclaim,
		       uint64_t expire)
{
	for (int i = 0; i < FX_SIDES; i++) {
		struct m_due_reply r = { 0 };

		fsm_due(x->side[i].f, &r);
		assert_int_equal(r.promote_ns, promote);
		assert_int_equal(r.reclaim_ns, reclaim);
		assert_int_equal(r.expire_ns, expire);
	}
}

static void test_promote(void **state)
{
	struct fx *x = *state;
	bool more;

	expect_due(x, 0, 0, 0);
	schedule(x, "job_late", "a", 20);
	schedule(x, "job_soon", "a", 10);
	schedule(x, "job_b", "b", 15);
	fx_enqueue(x, "job_now", "a");
	expect_due(x, FX_START_NS + 10, 0, 0);
	assert_int_equal(fx_maintain(x, OP_PROMOTE, 0, &more), 0);
	assert_false(more);
	x->now_ns = FX_START_NS + 10;
	fx_restart(x, FX_ROCKS);
	assert_int_equal(fx_maintain(x, OP_PROMOTE, 0, &more), 1);
	expect_due(x, FX_START_NS + 15, 0, 0);
	fx_expect_state(x, "job_soon", JOB_PENDING);
	assert_false(MSG_HAS(fx_job(x, "job_soon"), job, scheduled_at));
	fx_timeline(x, "job_soon", "enqueued promoted");
	/* it was created before job_now */
	fx_expect(x, "a", "job_soon");
	x->now_ns = FX_START_NS + 100;
	assert_int_equal(fx_maintain(x, OP_PROMOTE, 0, &more), 2);
	assert_false(more);
	expect_due(x, 0, FX_START_NS + 10 + 60 * NS_PER_S, 0);
	fx_expect(x, "a", "job_late");
	fx_expect(x, "a", "job_now");
	fx_expect(x, "b", "job_b");
	assert_int_equal(fsm_counters(x->side[0].f)->promoted, 3);
}

/* In portions, over queues and kinds, by time. */
static void test_promote_in_portions(void **state)
{
	struct fx *x = *state;
	static const char *const queues[] = { "a", "b", "c" };
	struct m_fail f = { 0 };
	uint32_t total = 0;
	bool more = true;

	fx_enqueue(x, "failed", "a");
	fx_expect(x, "a", "failed");
	MSG_SET(&f, fail, job_id, STR("failed"));
	MSG_SET(&f, fail, retry_after, 11);
	assert_int_equal(fx_do(x, OP_FAIL, &f, NULL), 0);
	for (int i = 0; i < 30; i++) {
		char id[16];

		(void)snprintf(id, sizeof(id), "job_%02d", i);
		schedule(x, id, queues[i % 3], (uint64_t)(i / 2 + 1));
	}
	x->now_ns += 10;
	assert_int_equal(fx_maintain(x, OP_PROMOTE, 7, &more), 7);
	assert_true(more);
	fx_restart(x, FX_ROCKS);
	for (int i = 0; more && i < 10; i++) {
		uint32_t n = fx_maintain(x, OP_PROMOTE, 4, &more);

		assert_true(n <= 4);
		total += n;
	}
	assert_int_equal(total, 13);
	expect_due(x, FX_START_NS + 11, 0, 0);
	x->now_ns += 10;
	assert_int_equal(fx_maintain(x, OP_PROMOTE, 100, &more), 11);
	fx_expect_state(x, "failed", JOB_PENDING);
	expect_due(x, 0, 0, 0);
}

/* A moment that no longer means anything is set right, by the way. */
static void test_stale_moments(void **state)
{
	struct fx *x = *state;
	bool more;

	schedule(x, "job_1", "a", 10);
	schedule(x, "job_2", "a", 50);
	schedule(x, "job_3", "b", 20);
	expiring(x, "job_4", 10);
	expiring(x, "job_5", 50);
	fx_job_op(x, OP_DELETE, "job_1", "deleted");
	fx_job_op(x, OP_CANCEL, "job_3", "cancelled");
	fx_job_op(x, OP_CANCEL, "job_4", "cancelled");
	x->now_ns += 20;
	assert_int_equal(fx_maintain(x, OP_PROMOTE, 0, &more), 0);
	assert_false(more);
	assert_int_equal(fx_maintain(x, OP_EXPIRE, 0, &more), 0);
	assert_false(more);
	expect_due(x, FX_START_NS + 50, 0, FX_START_NS + 50);
}

/* A promotion decides by the store, not by what a replica remembers. */
static void test_stale_moments_do_not_decide(void **state)
{
	struct fx *x = *state;
	bool more;

	schedule(x, "job_1", "a", 1);
	schedule(x, "job_2", "a", 9);
	schedule(x, "job_3", "b", 5);
	fx_job_op(x, OP_DELETE, "job_1", "deleted");
	fx_restart(x, FX_ROCKS); /* knows that a begins at 9 */
	x->now_ns += 10;
	assert_int_equal(fx_maintain(x, OP_PROMOTE, 1, &more), 1);
	assert_true(more);
	fx_expect_state(x, "job_3", JOB_PENDING);
	fx_expect_state(x, "job_2", JOB_SCHEDULED);
}

static void test_expire(void **state)
{
	struct fx *x = *state;
	struct m_fail f = { 0 };
	struct m_ack a = { 0 };
	struct m_due_reply due = { 0 };
	const struct m_job *j;
	bool more;

	expiring(x, "job_active", 10);
	expiring(x, "job_retrying", 11);
	expiring(x, "job_pending", 12);
	expiring(x, "job_done", 13);
	expiring(x, "job_later", 1000);
	expect_due(x, 0, 0, FX_START_NS + 10);
	fx_expect(x, "q", "job_active");
	fx_expect(x, "q", "job_retrying");
	MSG_SET(&f, fail, job_id, STR("job_retrying"));
	assert_int_equal(fx_do(x, OP_FAIL, &f, NULL), 0);
	fx_job_op(x, OP_CANCEL, "job_done", "cancelled");
	x->now_ns += 50;
	fx_restart(x, FX_ROCKS);
	assert_int_equal(fx_maintain(x, OP_EXPIRE, 2, &more), 2);
	assert_true(more);
	assert_int_equal(fx_maintain(x, OP_EXPIRE, 2, &more), 1);
	assert_false(more);
	fsm_due(x->side[0].f, &due);
	assert_int_equal(due.expire_ns, FX_START_NS + 1000);
	assert_int_equal(due.reclaim_ns, 0);
	j = fx_job(x, "job_active");
	assert_int_equal(j->state, JOB_DEAD);
	assert_str_is(j->last_error, "job expired");
	assert_str_is(j->errors[0].worker_id, "w1");
	fx_timeline(x, "job_active", "enqueued started expired dead");
	fx_expect_state(x, "job_retrying", JOB_DEAD);
	fx_expect_state(x, "job_pending", JOB_DEAD);
	fx_expect_state(x, "job_done", JOB_CANCELLED);
	/* a late ack */
	MSG_SET(&a, ack, job_id, STR("job_active"));
	MSG_SET(&a, ack, worker_id, STR("w1"));
	assert_int_equal(fx_do(x, OP_ACK, &a, NULL), ERR_LEASE_LOST);
	fx_expect(x, "q", "job_later");
}

static void test_trim(void **state)
{
	struct fx *x = *state;
	struct m_maintain m = { 0 };
	struct m_maintain_reply r;
	struct m_enqueue e = { 0 };
	struct m_tail_reply tail;
	struct kv *kv = x->side[0].kv;

	fx_enqueue(x, "job_1", "q"); /* 1, 2 */
	fx_enqueue(x, "job_2", "q"); /* 3 */
	fx_expect(x, "q", "job_1");  /* 4, 5: worker_seen */
	MSG_SET(&m, maintain, upto_seq, 0);
	assert_int_equal(fx_do(x, OP_TRIM_EVENTS, &m, &r), 0);
	assert_int_equal(r.count, 0);
	MSG_SET(&m, maintain, upto_seq, 3);
	assert_int_equal(fx_do(x, OP_TRIM_EVENTS, &m, &r), 0);
	assert_int_equal(r.count, 3);
	assert_int_equal(fsm_first_seq(x->side[0].f), 4);
	fx_timeline(x, "job_1", "started");
	fx_timeline(x, "job_2", "");
	assert_int_equal(record_feed(kv, 2, 10, &x->arena, &tail), 0);
	assert_true(tail.lost);
	assert_int_equal(record_feed(kv, 3, 10, &x->arena, &tail), 0);
	assert_false(tail.lost);
	assert_int_equal(tail.events_n, 2);
	/* twice in one entry, further than there is, with new events in it */
	MSG_SET(&e, enqueue, job_id, STR("job_3"));
	MSG_SET(&e, enqueue, queue, STR("q"));
	fx_begin(x);
	fx_add(x, OP_ENQUEUE, 0, &e);
	MSG_SET(&m, maintain, upto_seq, 4);
	fx_add(x, OP_TRIM_EVENTS, 0, &m);
	MSG_SET(&m, maintain, upto_seq, UINT64_MAX);
	fx_add(x, OP_TRIM_EVENTS, 0, &m);
	fx_commit(x);
	assert_int_equal(fsm_first_seq(x->side[0].f), 6);
	assert_int_equal(fsm_last_seq(x->side[0].f), 6);
	fx_timeline(x, "job_3", "enqueued");
	fx_restart(x, FX_ROCKS);
	assert_int_equal(fsm_first_seq(x->side[1].f), 6);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fx_setup, fx_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_promote),
		TEST(test_promote_in_portions),
		TEST(test_stale_moments),
		TEST(test_stale_moments_do_not_decide),
		TEST(test_expire),
		TEST(test_trim),
	};

	return cmocka_run_group_tests_name("fsm_timer", tests, NULL, NULL);
}
