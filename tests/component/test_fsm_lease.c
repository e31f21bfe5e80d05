/*
 * Leases: who may ack, fail and heartbeat; heartbeats; renewals; reclaim.
 */
#include "lease_world.h"

/* Who may end an attempt; the same rows for ack and fail. */
static void test_ownership(void **state)
{
	struct fx *x = *state;
	static const struct {
		bool active;
		bool right_token, wrong_token;
		const char *worker;
		int err; /* 0, LEASE_LOST, or -1: the op's own 400 */
	} rows[] = {
		{ true, false, false, NULL, 0 },
		{ true, true, false, NULL, 0 },
		{ true, false, false, "w1", 0 },
		{ true, true, false, "w1", 0 },
		{ true, false, true, NULL, ERR_LEASE_LOST },
		{ true, false, true, "w1", ERR_LEASE_LOST },
		{ true, true, false, "w2", ERR_LEASE_LOST },
		{ true, false, false, "w2", ERR_LEASE_LOST },
		{ false, false, false, NULL, -1 },
		{ false, true, false, NULL, ERR_LEASE_LOST },
		{ false, false, true, NULL, ERR_LEASE_LOST },
		{ false, false, false, "w1", ERR_LEASE_LOST },
	};

	for (size_t i = 0; i < 2 * ARRAY_SIZE(rows); i++) {
		size_t row = i / 2;
		bool is_ack = i % 2 == 0;
		struct m_fetched j;
		struct m_ack a;
		struct m_fail f;
		uint64_t token = TOKEN_NONE;
		char id[16];
		int err, want = rows[row].err;

		(void)snprintf(id, sizeof(id), "job_%zu", i);
		j = take(x, id);
		if (rows[row].right_token)
			token = j.lease_token;
		if (rows[row].wrong_token)
			token = TOKEN_WRONG;
		if (!rows[row].active) {
			a = ack_of(id, TOKEN_NONE, NULL);
			assert_int_equal(fx_do(x, OP_ACK, &a, NULL), 0);
		}
		a = ack_of(id, token, rows[row].worker);
		f = fail_of(id, token, rows[row].worker);
		err = is_ack ? fx_do(x, OP_ACK, &a, NULL)
			     : fx_do(x, OP_FAIL, &f, NULL);
		if (want == -1)
			want = is_ack ? ERR_ACK_ERROR : ERR_FAIL_ERROR;
		if (err != want)
			fail_msg("row %zu %s: %d, expected %d", row,
				 is_ack ? "ack" : "fail", err, want);
	}
}

static void test_ack(void **state)
{
	struct fx *x = *state;
	struct m_fetched j = take(x, "job_1");
	struct m_ack m = ack_of("job_1", j.lease_token, NULL);
	struct m_status_reply r;
	const struct m_job *job;

	x->now_ns += NS_PER_S;
	MSG_SET(&m, ack, result, STR("{\"ok\":true}"));
	MSG_SET(&m, ack, checkpoint, STR("3"));
	assert_int_equal(fx_do(x, OP_ACK, &m, &r), 0);
	assert_str_is(r.status, "ok");
	job = fx_job(x, "job_1");
	assert_int_equal(job->state, JOB_COMPLETED);
	assert_str_is(job->result, "{\"ok\":true}");
	assert_str_is(job->checkpoint, "3");
	assert_int_equal(job->completed_at, FX_START_NS + NS_PER_S);
	assert_str_is(job->worker_id, "w1");
	assert_str_is(job->hostname, "host1");
	assert_false(MSG_HAS(job, job, lease_expires_at));
	fx_timeline(x, "job_1", "enqueued started completed");
	assert_str_is(job->timeline[2].worker_id, "w1");
	assert_int_equal(fsm_counters(x->side[0].f)->completed, 1);
}

static void test_ack_refused(void **state)
{
	struct fx *x = *state;
	char long_id[LIMIT_JOB_ID_BYTES + 2] = { 0 };
	struct m_ack m = ack_of("job_9", TOKEN_NONE, NULL);
	struct m_fail f = fail_of("job_9", TOKEN_WRONG, NULL);

	fx_refused(x, OP_ACK, &m, ERR_NOT_FOUND, "job \"job_9\" not found");
	fx_refused(x, OP_FAIL, &f, ERR_NOT_FOUND, "job \"job_9\" not found");
	memset(long_id, 'j', LIMIT_JOB_ID_BYTES + 1);
	m = ack_of(long_id, TOKEN_NONE, NULL);
	assert_int_equal(fx_do(x, OP_ACK, &m, NULL), ERR_NOT_FOUND);
	m = ack_of("", TOKEN_NONE, NULL);
	fx_refused(x, OP_ACK, &m, ERR_NOT_FOUND, "job \"\" not found");
	fx_enqueue(x, "job_1", "q");
	m = ack_of("job_1", TOKEN_NONE, NULL);
	fx_refused(x, OP_ACK, &m, ERR_ACK_ERROR, "job \"job_1\" is not active");
	m = ack_of("job_1", 5, NULL);
	fx_refused(x, OP_ACK, &m, ERR_LEASE_LOST, LOST("job_1"));
	f = fail_of("job_1", TOKEN_NONE, NULL);
	fx_refused(x, OP_FAIL, &f, ERR_FAIL_ERROR,
		   "job \"job_1\" is not active");
}

/* A job handed out without a name is held by whoever has the token. */
static void test_nameless_holder(void **state)
{
	struct fx *x = *state;
	struct str queue = STR("q");
	struct m_fetch f = { 0 };
	struct m_ack m = ack_of("job_1", TOKEN_WRONG, "w1");

	fx_enqueue(x, "job_1", "q");
	MSG_SET_LIST(&f, fetch, queues, &queue, 1);
	assert_int_equal(fx_do(x, OP_FETCH, &f, NULL), 0);
	fx_refused(x, OP_ACK, &m, ERR_LEASE_LOST, LOST("job_1"));
	m = ack_of("job_1", TOKEN_NONE, "w1");
	assert_int_equal(fx_do(x, OP_ACK, &m, NULL), 0);
}

static void test_ack_batch(void **state)
{
	struct fx *x = *state;
	struct m_ack_item items[6] = { 0 };
	struct m_ack_batch m = { 0 };
	struct m_ack_batch_reply r;
	struct m_fetched a = take(x, "job_1");

	take(x, "job_2");
	take(x, "job_3");
	fx_enqueue(x, "job_4", "q");
	MSG_SET(&items[0], ack_item, job_id, STR("job_1"));
	MSG_SET(&items[0], ack_item, lease_token, a.lease_token);
	MSG_SET(&items[0], ack_item, result, STR("1"));
	MSG_SET(&items[1], ack_item, job_id, STR("job_2"));
	MSG_SET(&items[1], ack_item, worker_id, STR("w9"));
	MSG_SET(&items[2], ack_item, job_id, STR("job_3"));
	MSG_SET(&items[3], ack_item, job_id, STR("job_4"));
	MSG_SET(&items[4], ack_item, job_id, STR("job_5"));
	MSG_SET(&items[5], ack_item, job_id, STR("job_3"));
	MSG_SET_LIST(&m, ack_batch, acks, items, 6);
	assert_int_equal(fx_do(x, OP_ACK_BATCH, &m, &r), 0);
	assert_int_equal(r.acked, 2);
	assert_int_equal(r.refused_n, 4);
	assert_str_is(r.refused[0].job_id, "job_2");
	assert_str_is(r.refused[0].code, "LEASE_LOST");
	assert_str_is(r.refused[1].job_id, "job_4");
	assert_str_is(r.refused[1].code, "ACK_ERROR");
	assert_str_is(r.refused[2].job_id, "job_5");
	assert_str_is(r.refused[2].code, "NOT_FOUND");
	assert_str_is(r.refused[3].job_id, "job_3");
	assert_str_is(fx_job(x, "job_1")->result, "1");
	fx_expect_state(x, "job_2", JOB_ACTIVE);
	fx_expect_state(x, "job_3", JOB_COMPLETED);
	m.acks_n = 0;
	assert_int_equal(fx_do(x, OP_ACK_BATCH, &m, &r), 0);
	assert_int_equal(r.acked, 0);
}

/* --- heartbeats --- */

static void test_heartbeat(void **state)
{
	struct fx *x = *state;
	struct m_fetched a = take(x, "job_1");
	struct m_beat beats[5] = { 0 };
	struct m_heartbeat m = { 0 };
	struct m_heartbeat_reply r;
	const struct m_job *j;

	take(x, "job_2");
	take(x, "job_3");
	fx_job_op(x, OP_CANCEL, "job_3", "cancelling");
	fx_enqueue(x, "job_4", "q");
	x->now_ns += 10 * NS_PER_S;
	MSG_SET(&beats[0], beat, job_id, STR("job_1"));
	MSG_SET(&beats[0], beat, lease_token, a.lease_token);
	MSG_SET(&beats[0], beat, progress, STR("{\"pct\":5}"));
	MSG_SET(&beats[0], beat, checkpoint, STR("[5]"));
	MSG_SET(&beats[1], beat, job_id, STR("job_2"));
	MSG_SET(&beats[1], beat, worker_id, STR("w2"));
	MSG_SET(&beats[1], beat, progress, STR("1"));
	MSG_SET(&beats[2], beat, job_id, STR("job_3"));
	MSG_SET(&beats[3], beat, job_id, STR("job_4"));
	MSG_SET(&beats[4], beat, job_id, STR("job_5"));
	MSG_SET(&m, heartbeat, worker_id, STR("w1"));
	MSG_SET_LIST(&m, heartbeat, jobs, beats, 5);
	assert_int_equal(fx_do(x, OP_HEARTBEAT, &m, &r), 0);
	assert_int_equal(r.jobs_n, 5);
	assert_str_is(r.jobs[0].status, "ok");
	assert_int_equal(r.jobs[0].lease_expires_at, x->now_ns + 60 * NS_PER_S);
	assert_str_is(r.jobs[1].status, "cancel");
	assert_str_is(r.jobs[1].code, "LEASE_LOST");
	assert_false(MSG_HAS(&r.jobs[1], beat_reply, lease_expires_at));
	assert_str_is(r.jobs[2].status, "cancel");
	assert_false(MSG_HAS(&r.jobs[2], beat_reply, code));
	assert_str_is(r.jobs[3].status, "cancel");
	assert_false(r.jobs[3].unknown);
	assert_str_is(r.jobs[4].status, "cancel");
	assert_true(r.jobs[4].unknown);

	j = fx_job(x, "job_1");
	assert_str_is(j->progress, "{\"pct\":5}");
	assert_str_is(j->checkpoint, "[5]");
	assert_int_equal(j->lease_expires_at, x->now_ns + 60 * NS_PER_S);
	fx_timeline(x, "job_1", "enqueued started progress");
	assert_str_is(j->timeline[2].data, "{\"pct\":5}");
	assert_false(MSG_HAS(fx_job(x, "job_2"), job, progress));
	fx_timeline(x, "job_3", "enqueued started cancelling");
}

/* A checkpoint goes to the next attempt; a large record is not cached. */
static void test_large_checkpoint(void **state)
{
	struct fx *x = *state;
	char *big = xmalloc(LIMIT_CHECKPOINT_BYTES);
	struct m_beat beat = { 0 };
	struct m_heartbeat m = { 0 };
	struct m_fail f = fail_of("job_1", TOKEN_NONE, NULL);
	struct m_fetched j;

	memset(big, '7', LIMIT_CHECKPOINT_BYTES);
	take(x, "job_1");
	MSG_SET(&beat, beat, job_id, STR("job_1"));
	MSG_SET(&beat, beat, checkpoint, str_of(big, LIMIT_CHECKPOINT_BYTES));
	MSG_SET_LIST(&m, heartbeat, jobs, &beat, 1);
	assert_int_equal(fx_do(x, OP_HEARTBEAT, &m, NULL), 0);
	MSG_SET(&beat, beat, progress, STR("1"));
	MSG_UNSET(&beat, beat, checkpoint);
	assert_int_equal(fx_do(x, OP_HEARTBEAT, &m, NULL), 0);
	MSG_SET(&f, fail, requeue, true);
	assert_int_equal(fx_do(x, OP_FAIL, &f, NULL), 0);
	assert_true(fx_fetch(x, "q", &j));
	assert_int_equal(j.checkpoint.n, LIMIT_CHECKPOINT_BYTES);
	assert_int_equal(j.attempt, 1);
	free(big);
}

static enum fsm_lease_state lease_state(struct fsm *f, const struct m_beat *b,
					struct str worker,
					struct fsm_lease *ret)
{
	enum fsm_lease_state s;

	assert_int_equal(fsm_lease_check(f, b, worker, &s, ret), 0);
	return s;
}

static void test_lease_check(void **state)
{
	struct fx *x = *state;
	struct m_fetched j = take(x, "job_1");
	struct m_beat b = { 0 };
	struct fsm_lease l;
	struct fsm *f = x->side[FX_ROCKS].f;

	MSG_SET(&b, beat, job_id, STR("job_1"));
	assert_int_equal(lease_state(f, &b, STR("w1"), &l), FSM_LEASE_OK);
	assert_int_equal(l.token, j.lease_token);
	assert_int_equal(l.granted_ns, 60 * NS_PER_S);
	assert_int_equal(l.expires_ns, FX_START_NS + 60 * NS_PER_S);
	assert_int_equal(lease_state(f, &b, STR("w2"), &l), FSM_LEASE_LOST);
	MSG_SET(&b, beat, worker_id, STR("w1"));
	assert_int_equal(lease_state(f, &b, STR("w2"), &l), FSM_LEASE_OK);
	MSG_SET(&b, beat, lease_token, TOKEN_WRONG);
	assert_int_equal(lease_state(f, &b, STR("w1"), &l), FSM_LEASE_LOST);
	MSG_SET(&b, beat, lease_token, j.lease_token);
	fx_job_op(x, OP_CANCEL, "job_1", "cancelling");
	assert_int_equal(lease_state(f, &b, STR_NULL, &l), FSM_LEASE_CANCEL);
	fx_enqueue(x, "job_2", "q");
	MSG_SET(&b, beat, job_id, STR("job_2"));
	assert_int_equal(lease_state(f, &b, STR_NULL, &l), FSM_LEASE_ENDED);
	assert_int_equal(l.token, 0);
	MSG_SET(&b, beat, job_id, STR("job_3"));
	assert_int_equal(lease_state(f, &b, STR_NULL, &l), FSM_LEASE_UNKNOWN);
}

static void test_renew(void **state)
{
	struct fx *x = *state;
	struct m_fetched a = take(x, "job_1"), b = take(x, "job_2");
	struct m_renewal list[4] = { 0 };
	struct m_renew m = { 0 };
	struct m_maintain_reply r;
	struct m_due_reply due = { 0 };

	x->now_ns += 30 * NS_PER_S;
	MSG_SET(&list[0], renewal, job_id, STR("job_1"));
	MSG_SET(&list[0], renewal, lease_token, a.lease_token);
	MSG_SET(&list[0], renewal, lease_expires_at,
		FX_START_NS + 95 * NS_PER_S); /* no longer than granted */
	list[1] = list[0];                    /* not backward */
	MSG_SET(&list[1], renewal, lease_expires_at,
		FX_START_NS + 80 * NS_PER_S);
	list[2] = list[0];
	MSG_SET(&list[2], renewal, job_id, STR("job_2"));
	MSG_SET(&list[2], renewal, lease_token, TOKEN_WRONG);
	list[3] = list[0];
	MSG_SET(&list[3], renewal, job_id, STR("gone"));
	MSG_SET_LIST(&m, renew, leases, list, 4);
	assert_int_equal(fx_do(x, OP_RENEW, &m, &r), 0);
	assert_int_equal(r.count, 1);
	assert_int_equal(fx_job(x, "job_1")->lease_expires_at,
			 FX_START_NS + 90 * NS_PER_S);
	fsm_due(x->side[0].f, &due);
	assert_int_equal(due.reclaim_ns, FX_START_NS + 60 * NS_PER_S);
	x->now_ns += 30 * NS_PER_S;
	assert_int_equal(fx_maintain(x, OP_RECLAIM, 10, NULL), 1);
	fx_expect_state(x, "job_2", JOB_PENDING);
	fx_expect_state(x, "job_1", JOB_ACTIVE);
	(void)b;
}

/* --- reclaim --- */

static void test_reclaim(void **state)
{
	struct fx *x = *state;
	struct m_fetched first = take(x, "job_1"), again;
	struct m_ack m = ack_of("job_1", first.lease_token, NULL);
	const struct m_job *j;
	bool more;

	fx_enqueue(x, "job_2", "q");
	x->now_ns += 60 * NS_PER_S - 1;
	assert_int_equal(fx_maintain(x, OP_RECLAIM, 10, &more), 0);
	assert_false(more);
	x->now_ns += 1;
	fx_restart(x, FX_ROCKS);
	assert_int_equal(fx_maintain(x, OP_RECLAIM, 10, NULL), 1);
	j = fx_job(x, "job_1");
	assert_int_equal(j->state, JOB_PENDING);
	assert_int_equal(j->attempt, 1);
	assert_int_equal(j->errors_n, 1);
	assert_str_is(j->errors[0].error, "lease expired");
	assert_str_is(j->errors[0].worker_id, "w1");
	assert_str_is(j->errors[0].hostname, "host1");
	assert_int_equal(j->errors[0].attempt, 1);
	/* it stands in front of job_2, where its creation puts it */
	assert_true(fx_fetch(x, "q", &again));
	assert_str_is(again.job_id, "job_1");
	assert_int_equal(again.attempt, 2);
	assert_true(again.lease_token > first.lease_token);
	/* the first holder is too late */
	fx_refused(x, OP_ACK, &m, ERR_LEASE_LOST, LOST("job_1"));
	/* the last attempt */
	x->now_ns += 60 * NS_PER_S;
	assert_int_equal(fx_maintain(x, OP_RECLAIM, 10, NULL), 1);
	fx_expect(x, "q", "job_1");
	x->now_ns += 60 * NS_PER_S;
	assert_int_equal(fx_maintain(x, OP_RECLAIM, 10, NULL), 1);
	fx_expect_state(x, "job_1", JOB_DEAD);
	fx_timeline(x, "job_1",
		    "enqueued started reclaimed started reclaimed started "
		    "reclaimed dead");
	assert_int_equal(fsm_counters(x->side[0].f)->reclaimed, 3);
}

/*
 * It waited for its turn. The worker spoke in time, but after the reclaim was
 * asked for, and comes behind it.
 */
static void test_reclaim_leaves_what_ended_while_it_waited(void **state)
{
	struct fx *x = *state;
	struct m_maintain m = { 0 };
	struct m_maintain_reply r;
	struct m_fetched late;
	struct m_ack ack;

	(void)take(x, "job_1");
	x->now_ns += 2 * NS_PER_S;
	late = take(x, "job_2");
	x->now_ns += 59 * NS_PER_S;
	MSG_SET(&m, maintain, asked_ns, x->now_ns);
	x->now_ns += 10 * NS_PER_S;
	assert_int_equal(fx_do(x, OP_RECLAIM, &m, &r), 0);
	assert_int_equal(r.count, 1);
	assert_false(r.more);
	fx_expect_state(x, "job_1", JOB_PENDING);
	ack = ack_of("job_2", late.lease_token, NULL);
	assert_int_equal(fx_do(x, OP_ACK, &ack, NULL), 0);
	/* a clock that was set back takes nothing before its time */
	fx_expect(x, "q", "job_1");
	MSG_SET(&m, maintain, asked_ns, x->now_ns + 3600 * NS_PER_S);
	assert_int_equal(fx_do(x, OP_RECLAIM, &m, &r), 0);
	assert_int_equal(r.count, 0);
	fx_expect_state(x, "job_1", JOB_ACTIVE);
}

static void test_reclaim_in_portions(void **state)
{
	struct fx *x = *state;
	char id[16];
	bool more;

	for (int i = 0; i < 5; i++) {
		(void)snprintf(id, sizeof(id), "job_%d", i);
		take(x, id);
		x->now_ns += NS_PER_S;
	}
	x->now_ns += 60 * NS_PER_S;
	assert_int_equal(fx_maintain(x, OP_RECLAIM, 2, &more), 2);
	assert_true(more);
	fx_expect_state(x, "job_1", JOB_PENDING);
	fx_expect_state(x, "job_2", JOB_ACTIVE);
	assert_int_equal(fx_maintain(x, OP_RECLAIM, 0, &more), 3);
	assert_false(more);
}

static void test_cancel_of_active(void **state)
{
	struct fx *x = *state;
	struct m_fetched j = take(x, "job_1");
	struct m_ack m = ack_of("job_1", j.lease_token, NULL);
	struct m_fail f;
	struct m_fail_reply fr;

	fx_job_op(x, OP_CANCEL, "job_1", "cancelling");
	assert_true(fx_job(x, "job_1")->cancel_requested);
	fx_expect_state(x, "job_1", JOB_ACTIVE);
	fx_job_op(x, OP_CANCEL, "job_1", "cancelling"); /* once is enough */
	fx_restart(x, FX_ROCKS);
	MSG_SET(&m, ack, result, STR("1"));
	assert_int_equal(fx_do(x, OP_ACK, &m, NULL), 0);
	fx_expect_state(x, "job_1", JOB_CANCELLED);
	assert_false(MSG_HAS(fx_job(x, "job_1"), job, cancel_requested));
	assert_int_equal(fx_job(x, "job_1")->cancelled_at, x->now_ns);
	fx_timeline(x, "job_1", "enqueued started cancelling cancelled");
	assert_int_equal(fx_resend(x, OP_ACK, &m, NULL), 0);

	take(x, "job_2");
	fx_job_op(x, OP_CANCEL, "job_2", "cancelling");
	f = fail_of("job_2", TOKEN_NONE, NULL);
	assert_int_equal(fx_do(x, OP_FAIL, &f, &fr), 0);
	assert_int_equal(fr.status, JOB_CANCELLED);
	fx_timeline(x, "job_2", "enqueued started cancelling failed cancelled");

	take(x, "job_3");
	fx_job_op(x, OP_CANCEL, "job_3", "cancelling");
	x->now_ns += 60 * NS_PER_S;
	assert_int_equal(fx_maintain(x, OP_RECLAIM, 10, NULL), 1);
	fx_expect_state(x, "job_3", JOB_CANCELLED);

	take(x, "job_4");
	fx_job_op(x, OP_CANCEL, "job_4", "cancelling");
	f = fail_of("job_4", TOKEN_NONE, NULL);
	MSG_SET(&f, fail, requeue, true);
	assert_int_equal(fx_do(x, OP_FAIL, &f, &fr), 0);
	assert_int_equal(fr.status, JOB_CANCELLED);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fx_setup, fx_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_ownership),
		TEST(test_ack),
		TEST(test_ack_refused),
		TEST(test_nameless_holder),
		TEST(test_ack_batch),
		TEST(test_heartbeat),
		TEST(test_large_checkpoint),
		TEST(test_lease_check),
		TEST(test_renew),
		TEST(test_reclaim),
		TEST(test_reclaim_leaves_what_ended_while_it_waited),
		TEST(test_reclaim_in_portions),
		TEST(test_cancel_of_active),
	};

	return cmocka_run_group_tests_name("fsm_lease", tests, NULL, NULL);
}
