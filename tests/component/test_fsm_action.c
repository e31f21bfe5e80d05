/*
 * move, priority, requeue, hold, approve, reject, from every state.
 */
#include "fsm_fixture.h"
#include "proto/job.h"

static const enum job_state states[] = {
	JOB_PENDING, JOB_ACTIVE,    JOB_COMPLETED, JOB_RETRYING,
	JOB_DEAD,    JOB_CANCELLED, JOB_SCHEDULED, JOB_HELD,
};

static struct m_move move_to(const char *id, const char *queue)
{
	struct m_move m = { 0 };

	MSG_SET(&m, move, job_id, str_from(id));
	MSG_SET(&m, move, queue, str_from(queue));
	return m;
}

static void do_move(struct fx *x, const char *id, const char *queue)
{
	struct m_move m = move_to(id, queue);
	struct m_status_reply r;

	assert_int_equal(fx_do(x, OP_MOVE, &m, &r), 0);
	assert_str_is(r.status, "moved");
	assert_str_is(fx_job(x, id)->queue, queue);
}

static struct m_set_priority priority_of(const char *id, enum priority p)
{
	struct m_set_priority m = { 0 };

	MSG_SET(&m, set_priority, job_id, str_from(id));
	MSG_SET(&m, set_priority, priority, p);
	return m;
}

static void do_priority(struct fx *x, const char *id, enum priority p)
{
	struct m_set_priority m = priority_of(id, p);
	struct m_status_reply r;

	assert_int_equal(fx_do(x, OP_PRIORITY, &m, &r), 0);
	assert_str_is(r.status, "changed");
	assert_int_equal(fx_job(x, id)->priority, p);
}

static struct m_hold hold_of(const char *id, const char *reason)
{
	struct m_hold m = { 0 };

	MSG_SET(&m, hold, job_id, str_from(id));
	if (reason != NULL)
		MSG_SET(&m, hold, reason, str_from(reason));
	return m;
}

static struct m_job_ref ref(const char *id)
{
	struct m_job_ref m = { 0 };

	MSG_SET(&m, job_ref, job_id, str_from(id));
	return m;
}

/* "cannot be DONE from state S", with the op's own code. */
static void refused_from(struct fx *x, enum op_id op, const void *m, int err,
			 const char *done, enum job_state s)
{
	char text[96];

	(void)snprintf(text, sizeof(text),
		       "job \"job_1\" cannot be %s from state \"%s\"", done,
		       enum_text(&enum_job_state, s));
	fx_refused(x, op, m, err, text);
}

/* --- move --- */

static void test_move_keeps_the_state(void **state)
{
	struct fx *x = *state;

	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		struct m_job before; /* its numbers only */
		const struct m_job *after;

		fx_make(x, "job_1", states[i]);
		before = *fx_job(x, "job_1");
		do_move(x, "job_1", "r");
		after = fx_job(x, "job_1");
		assert_int_equal(after->state, states[i]);
		assert_int_equal(after->attempt, before.attempt);
		assert_int_equal(after->scheduled_at, before.scheduled_at);
		assert_int_equal(after->lease_expires_at,
				 before.lease_expires_at);
		assert_int_equal(after->expire_at, before.expire_at);
		fx_restart(x, FX_ROCKS);
		fx_expect_none(x, "q");
		do_move(x, "job_1", "q"); /* and back */
		fx_restart(x, FX_ROCKS);
		fx_job_op(x, OP_DELETE, "job_1", "deleted");
		fx_expect_none(x, "q");
		fx_expect_none(x, "r");
	}
}

static void test_moved_jobs_go_to_the_end(void **state)
{
	struct fx *x = *state;

	fx_enqueue(x, "old", "q");
	fx_enqueue(x, "late", "q");
	fx_enqueue(x, "there", "r");
	do_move(x, "old", "r");
	fx_expect(x, "q", "late");
	fx_expect_none(x, "q");
	fx_expect(x, "r", "there");
	fx_expect(x, "r", "old");
	fx_expect_none(x, "r");
}

static void test_a_moved_active_job_is_acked_under_its_lease(void **state)
{
	struct fx *x = *state;
	struct m_fetched j;
	struct m_ack a = { 0 };
	uint64_t end;

	fx_enqueue(x, "job_1", "q");
	assert_true(fx_fetch(x, "q", &j));
	end = fx_job(x, "job_1")->lease_expires_at;
	x->now_ns += 10 * NS_PER_S;
	MSG_SET(&a, ack, job_id, STR("job_1"));
	MSG_SET(&a, ack, lease_token, j.lease_token);
	MSG_SET(&a, ack, worker_id, STR("w1"));
	do_move(x, "job_1", "r");
	assert_int_equal(fx_job(x, "job_1")->lease_expires_at, end);
	fx_restart(x, FX_ROCKS);
	assert_int_equal(fx_do(x, OP_ACK, &a, NULL), 0);
	fx_expect_state(x, "job_1", JOB_COMPLETED);
	fx_timeline(x, "job_1", "enqueued started moved completed");
}

static void test_a_moved_active_job_loses_its_lease_in_the_new_queue(void **st)
{
	struct fx *x = *st;

	fx_make(x, "job_1", JOB_ACTIVE);
	do_move(x, "job_1", "r");
	x->now_ns += 60 * NS_PER_S;
	assert_int_equal(fx_maintain(x, OP_RECLAIM, 0, NULL), 1);
	x->now_ns += 3600 * NS_PER_S;
	(void)fx_maintain(x, OP_PROMOTE, 0, NULL);
	fx_expect_none(x, "q");
}

static void test_a_moved_waiting_job_comes_due_in_the_new_queue(void **state)
{
	struct fx *x = *state;

	fx_make(x, "job_1", JOB_SCHEDULED);
	do_move(x, "job_1", "r");
	fx_restart(x, FX_MEM);
	x->now_ns += NS_PER_S;
	assert_int_equal(fx_maintain(x, OP_PROMOTE, 0, NULL), 1);
	fx_expect(x, "r", "job_1");
	fx_timeline(x, "job_1", "enqueued moved promoted started");
}

static void test_move_to_the_same_queue_changes_nothing(void **state)
{
	struct fx *x = *state;
	uint64_t seq;

	fx_enqueue(x, "job_1", "q");
	fx_enqueue(x, "job_2", "q");
	seq = fsm_last_seq(x->side[0].f);
	do_move(x, "job_1", "q");
	assert_int_equal(fsm_last_seq(x->side[0].f), seq);
	fx_expect(x, "q", "job_1");
}

static void test_move_says_from_where(void **state)
{
	struct fx *x = *state;
	const struct m_job *j;

	fx_enqueue(x, "job_1", "q");
	do_move(x, "job_1", "r");
	j = fx_job(x, "job_1");
	assert_str_is(j->timeline[1].data, "{\"from\":\"q\",\"to\":\"r\"}");
	assert_str_is(j->timeline[1].queue, "r");
}

/* --- priority --- */

static void test_priority_of_waiting_jobs_only(void **state)
{
	struct fx *x = *state;
	struct m_set_priority m = priority_of("job_1", PRIORITY_HIGH);

	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		enum job_state s = states[i];

		fx_make(x, "job_1", s);
		if (s == JOB_ACTIVE || job_state_is_terminal(s)) {
			refused_from(x, OP_PRIORITY, &m, ERR_PRIORITY_ERROR,
				     "given another priority", s);
		} else {
			do_priority(x, "job_1", PRIORITY_HIGH);
			fx_expect_state(x, "job_1", s);
			fx_restart(x, FX_ROCKS);
		}
		fx_job_op(x, OP_DELETE, "job_1", "deleted");
	}
}

static void test_a_new_priority_keeps_the_place(void **state)
{
	struct fx *x = *state;
	struct m_fetched j;

	fx_enqueue(x, "a", "q");
	fx_enqueue(x, "b", "q");
	fx_enqueue(x, "c", "q");
	do_priority(x, "c", PRIORITY_HIGH);
	do_priority(x, "b", PRIORITY_HIGH);
	do_priority(x, "a", PRIORITY_CRITICAL);
	do_priority(x, "a", PRIORITY_NORMAL);
	fx_restart(x, FX_ROCKS);
	assert_true(fx_fetch(x, "q", &j));
	assert_str_is(j.job_id, "b");
	assert_int_equal(j.priority, PRIORITY_HIGH);
	fx_expect(x, "q", "c");
	fx_expect(x, "q", "a");
	fx_expect_none(x, "q");
	/* and given back, or lost, it has it still */
	x->now_ns += 60 * NS_PER_S;
	(void)fx_maintain(x, OP_RECLAIM, 0, NULL);
	x->now_ns += 3600 * NS_PER_S;
	(void)fx_maintain(x, OP_PROMOTE, 0, NULL);
	fx_expect(x, "q", "b");
	fx_expect(x, "q", "c");
	fx_expect(x, "q", "a");
}

/* --- requeue --- */

static void test_requeue_keeps_the_attempts(void **state)
{
	struct fx *x = *state;
	struct m_job_ref m = ref("job_1");
	struct m_fetched f;

	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		enum job_state s = states[i];

		fx_make(x, "job_1", s);
		if (s != JOB_DEAD) {
			refused_from(x, OP_REQUEUE, &m, ERR_REQUEUE_ERROR,
				     "requeued", s);
		} else {
			fx_enqueue(x, "other", "q");
			fx_job_op(x, OP_REQUEUE, "job_1", "requeued");
			assert_int_equal(fx_job(x, "job_1")->attempt, 1);
			fx_expect(x, "q", "other"); /* it stands at the end */
			assert_true(fx_fetch(x, "q", &f));
			assert_int_equal(f.attempt, 2);
		}
		fx_job_op(x, OP_DELETE, "job_1", "deleted");
	}
}

static void test_requeue_without_attempts_left_gives_one_more(void **state)
{
	struct fx *x = *state;
	struct m_enqueue e = { 0 };
	struct m_fail f = { 0 };
	struct m_fail_reply r;

	MSG_SET(&e, enqueue, job_id, STR("job_1"));
	MSG_SET(&e, enqueue, queue, STR("q"));
	MSG_SET(&e, enqueue, max_retries, 1);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &e, NULL), 0);
	MSG_SET(&f, fail, job_id, STR("job_1"));
	fx_expect(x, "q", "job_1");
	assert_int_equal(fx_do(x, OP_FAIL, &f, &r), 0);
	assert_int_equal(r.status, JOB_DEAD);
	fx_job_op(x, OP_REQUEUE, "job_1", "requeued");
	fx_expect(x, "q", "job_1");
	assert_int_equal(fx_do(x, OP_FAIL, &f, &r), 0);
	assert_int_equal(r.status, JOB_DEAD);
	assert_int_equal(fx_job(x, "job_1")->attempt, 2);
}

/* --- hold --- */

static void test_hold(void **state)
{
	struct fx *x = *state;
	struct m_hold m = hold_of("job_1", "look at it");

	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		enum job_state s = states[i];
		const struct m_job *j;

		fx_make(x, "job_1", s);
		if (s == JOB_HELD || job_state_is_terminal(s)) {
			refused_from(x, OP_HOLD, &m, ERR_HOLD_ERROR, "held", s);
		} else {
			assert_int_equal(fx_do(x, OP_HOLD, &m, NULL), 0);
			j = fx_job(x, "job_1");
			assert_int_equal(j->state, JOB_HELD);
			assert_str_is(j->hold_reason, "look at it");
			assert_false(MSG_HAS(j, job, scheduled_at));
			fx_restart(x, FX_ROCKS);
			fx_expect_none(x, "q");
		}
		fx_job_op(x, OP_DELETE, "job_1", "deleted");
	}
}

static void test_a_held_active_job_takes_the_lease_from_its_worker(void **state)
{
	struct fx *x = *state;
	struct m_hold m = hold_of("job_1", NULL);
	struct m_ack a = { 0 };
	struct m_beat b = { 0 };
	struct m_heartbeat h = { 0 };
	struct m_heartbeat_reply r;
	struct m_fetched j;

	fx_enqueue(x, "job_1", "q");
	assert_true(fx_fetch(x, "q", &j));
	MSG_SET(&a, ack, job_id, STR("job_1"));
	MSG_SET(&a, ack, lease_token, j.lease_token);
	MSG_SET(&b, beat, job_id, STR("job_1"));
	MSG_SET_LIST(&h, heartbeat, jobs, &b, 1);
	assert_int_equal(fx_do(x, OP_HOLD, &m, NULL), 0);
	fx_refused(x, OP_ACK, &a, ERR_LEASE_LOST,
		   "the lease on job \"job_1\" is no longer yours");
	assert_int_equal(fx_do(x, OP_HEARTBEAT, &h, &r), 0);
	assert_str_is(r.jobs[0].status, "cancel");
	fx_job_op(x, OP_APPROVE, "job_1", "pending");
	assert_int_equal(fx_job(x, "job_1")->attempt, 1);
	assert_true(fx_fetch(x, "q", &j));
	assert_int_equal(j.attempt, 2);
}

static void test_a_job_being_cancelled_is_not_held(void **state)
{
	struct fx *x = *state;
	struct m_hold m = hold_of("job_1", NULL);

	fx_make(x, "job_1", JOB_ACTIVE);
	fx_job_op(x, OP_CANCEL, "job_1", "cancelling");
	fx_refused(x, OP_HOLD, &m, ERR_HOLD_ERROR,
		   "job \"job_1\" cannot be held: it is being cancelled");
}

static void test_held_jobs_expire(void **state)
{
	struct fx *x = *state;

	fx_make(x, "job_1", JOB_HELD);
	x->now_ns += 3600 * NS_PER_S;
	assert_int_equal(fx_maintain(x, OP_EXPIRE, 0, NULL), 1);
	fx_expect_state(x, "job_1", JOB_DEAD);
}

/* --- approve --- */

static void test_an_approved_job_stands_where_it_stood(void **state)
{
	struct fx *x = *state;
	struct m_hold m = hold_of("b", "why");

	fx_enqueue(x, "a", "q");
	fx_enqueue(x, "b", "q");
	fx_enqueue(x, "c", "q");
	assert_int_equal(fx_do(x, OP_HOLD, &m, NULL), 0);
	fx_expect(x, "q", "a");
	fx_job_op(x, OP_APPROVE, "b", "pending");
	assert_false(MSG_HAS(fx_job(x, "b"), job, hold_reason));
	fx_expect(x, "q", "b");
	fx_expect(x, "q", "c");
	fx_expect_none(x, "q");
	fx_timeline(x, "b", "enqueued held approved started");
}

/* "child" waits for "parent". */
static void make_blocked(struct fx *x)
{
	struct str parent = STR("parent");
	struct m_enqueue m = { 0 };

	fx_enqueue(x, "parent", "q");
	MSG_SET(&m, enqueue, job_id, STR("child"));
	MSG_SET(&m, enqueue, queue, STR("q"));
	MSG_SET_LIST(&m, enqueue, depends_on, &parent, 1);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
}

static void test_an_approved_job_goes_on_waiting_for_others(void **state)
{
	struct fx *x = *state;
	struct m_hold m = hold_of("child", NULL);
	struct m_ack a = { 0 };

	make_blocked(x);
	do_priority(x, "child", PRIORITY_HIGH);
	do_move(x, "child", "r");
	assert_int_equal(fx_do(x, OP_HOLD, &m, NULL), 0);
	fx_job_op(x, OP_APPROVE, "child", "pending");
	fx_expect_none(x, "r");
	assert_int_equal(fx_job(x, "child")->waiting_on, 1);
	/* held while the other ends, it is free when it is approved */
	assert_int_equal(fx_do(x, OP_HOLD, &m, NULL), 0);
	fx_expect(x, "q", "parent");
	MSG_SET(&a, ack, job_id, STR("parent"));
	assert_int_equal(fx_do(x, OP_ACK, &a, NULL), 0);
	fx_expect_state(x, "child", JOB_HELD);
	fx_restart(x, FX_ROCKS);
	fx_job_op(x, OP_APPROVE, "child", "pending");
	fx_expect(x, "r", "child");
}

/* A rejected job tells those that wait for it, and need not be told. */
static void test_a_rejected_job_ends_for_others(void **state)
{
	struct fx *x = *state;
	struct m_hold m = hold_of("parent", NULL);

	make_blocked(x);
	assert_int_equal(fx_do(x, OP_HOLD, &m, NULL), 0);
	assert_int_equal(fx_do(x, OP_REJECT, &m, NULL), 0);
	fx_expect_state(x, "child", JOB_DEAD);
	fx_job_op(x, OP_DELETE, "parent", "deleted");
	fx_job_op(x, OP_DELETE, "child", "deleted");
	make_blocked(x);
	m = hold_of("child", NULL);
	assert_int_equal(fx_do(x, OP_HOLD, &m, NULL), 0);
	assert_int_equal(fx_do(x, OP_REJECT, &m, NULL), 0);
	fx_expect(x, "q", "parent");
}

static void test_only_held_jobs_are_approved_or_rejected(void **state)
{
	struct fx *x = *state;
	struct m_job_ref a = ref("job_1");
	struct m_hold r = hold_of("job_1", NULL);

	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		if (states[i] == JOB_HELD)
			continue;
		fx_make(x, "job_1", states[i]);
		refused_from(x, OP_APPROVE, &a, ERR_APPROVE_ERROR, "approved",
			     states[i]);
		refused_from(x, OP_REJECT, &r, ERR_REJECT_ERROR, "rejected",
			     states[i]);
		fx_job_op(x, OP_DELETE, "job_1", "deleted");
	}
}

/* --- reject --- */

static void test_reject(void **state)
{
	struct fx *x = *state;
	struct m_hold m = hold_of("job_1", "too late");
	struct m_status_reply r;
	const struct m_job *j;

	fx_make(x, "job_1", JOB_HELD);
	assert_int_equal(fx_do(x, OP_REJECT, &m, &r), 0);
	assert_str_is(r.status, "dead");
	j = fx_job(x, "job_1");
	assert_int_equal(j->state, JOB_DEAD);
	assert_str_is(j->last_error, "rejected: too late");
	assert_int_equal(j->failed_at, x->now_ns);
	fx_timeline(x, "job_1", "enqueued held rejected dead");
	fx_job_op(x, OP_DELETE, "job_1", "deleted");
	fx_make(x, "job_1", JOB_HELD);
	m = hold_of("job_1", NULL);
	assert_int_equal(fx_do(x, OP_REJECT, &m, NULL), 0);
	assert_str_is(fx_job(x, "job_1")->last_error, "rejected");
}

/* --- all --- */

static void test_unknown_jobs(void **state)
{
	struct fx *x = *state;
	struct m_move move = move_to("nope", "q");
	struct m_set_priority priority = priority_of("nope", PRIORITY_HIGH);
	struct m_hold hold = hold_of("nope", NULL);
	struct m_job_ref r = ref("nope");
	static const char text[] = "job \"nope\" not found";

	fx_refused(x, OP_MOVE, &move, ERR_NOT_FOUND, text);
	fx_refused(x, OP_PRIORITY, &priority, ERR_NOT_FOUND, text);
	fx_refused(x, OP_REQUEUE, &r, ERR_NOT_FOUND, text);
	fx_refused(x, OP_HOLD, &hold, ERR_NOT_FOUND, text);
	fx_refused(x, OP_APPROVE, &r, ERR_NOT_FOUND, text);
	fx_refused(x, OP_REJECT, &hold, ERR_NOT_FOUND, text);
}

static void resent(struct fx *x, enum op_id op, const void *m,
		   const char *status)
{
	struct m_status_reply r;
	uint64_t seq;

	assert_int_equal(fx_do(x, op, m, &r), 0);
	assert_str_is(r.status, status);
	seq = fsm_last_seq(x->side[0].f);
	assert_int_equal(fx_resend(x, op, m, &r), 0);
	assert_str_is(r.status, status);
	assert_int_equal(fsm_last_seq(x->side[0].f), seq);
}

static void test_resends(void **state)
{
	struct fx *x = *state;
	struct m_move move = move_to("job_1", "r");
	struct m_set_priority priority = priority_of("job_1", PRIORITY_HIGH);
	struct m_hold hold = hold_of("job_1", NULL);
	struct m_job_ref r = ref("job_1");

	fx_make(x, "job_1", JOB_PENDING);
	resent(x, OP_MOVE, &move, "moved");
	resent(x, OP_PRIORITY, &priority, "changed");
	resent(x, OP_HOLD, &hold, "held");
	resent(x, OP_APPROVE, &r, "pending");
	resent(x, OP_HOLD, &hold, "held");
	resent(x, OP_REJECT, &hold, "dead");
	resent(x, OP_REQUEUE, &r, "requeued");
}

/* Held and approved again and again, it is still handed out once. */
static void test_actions_leave_one_place(void **state)
{
	struct fx *x = *state;
	struct m_hold m = hold_of("a", NULL);

	fx_enqueue(x, "a", "q");
	fx_enqueue(x, "b", "q");
	for (int i = 0; i < 3; i++) {
		assert_int_equal(fx_do(x, OP_HOLD, &m, NULL), 0);
		fx_job_op(x, OP_APPROVE, "a", "pending");
		do_priority(x, "a", PRIORITY_HIGH);
		do_priority(x, "a", PRIORITY_NORMAL);
	}
	fx_expect(x, "q", "a");
	fx_expect(x, "q", "b");
	fx_expect_none(x, "q");
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fx_setup, fx_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_move_keeps_the_state),
		TEST(test_moved_jobs_go_to_the_end),
		TEST(test_a_moved_active_job_is_acked_under_its_lease),
		TEST(test_a_moved_active_job_loses_its_lease_in_the_new_queue),
		TEST(test_a_moved_waiting_job_comes_due_in_the_new_queue),
		TEST(test_move_to_the_same_queue_changes_nothing),
		TEST(test_move_says_from_where),
		TEST(test_priority_of_waiting_jobs_only),
		TEST(test_a_new_priority_keeps_the_place),
		TEST(test_requeue_keeps_the_attempts),
		TEST(test_requeue_without_attempts_left_gives_one_more),
		TEST(test_hold),
		TEST(test_a_held_active_job_takes_the_lease_from_its_worker),
		TEST(test_a_job_being_cancelled_is_not_held),
		TEST(test_held_jobs_expire),
		TEST(test_an_approved_job_stands_where_it_stood),
		TEST(test_an_approved_job_goes_on_waiting_for_others),
		TEST(test_a_rejected_job_ends_for_others),
		TEST(test_only_held_jobs_are_approved_or_rejected),
		TEST(test_reject),
		TEST(test_unknown_jobs),
		TEST(test_resends),
		TEST(test_actions_leave_one_place),
	};

	return cmocka_run_group_tests_name("fsm_action", tests, NULL, NULL);
}
