/*
 * cancel, retry, delete, pause, resume, from every state.
 */
#include "fsm_fixture.h"
#include "proto/job.h"

static struct m_job_ref ref(const char *id)
{
	struct m_job_ref m = { 0 };

	MSG_SET(&m, job_ref, job_id, str_from(id));
	return m;
}

static const enum job_state states[] = {
	JOB_PENDING, JOB_ACTIVE,    JOB_COMPLETED, JOB_RETRYING,
	JOB_DEAD,    JOB_CANCELLED, JOB_SCHEDULED,
};

static void refused_from(struct fx *x, enum op_id op, enum job_state s)
{
	struct m_job_ref m = ref("job_1");
	char text[96];

	(void)snprintf(text, sizeof(text),
		       "job \"job_1\" cannot be %s from state \"%s\"",
		       op == OP_CANCEL ? "cancelled" : "retried",
		       enum_text(&enum_job_state, s));
	fx_refused(x, op, &m,
		   op == OP_CANCEL ? ERR_CANCEL_ERROR : ERR_RETRY_ERROR, text);
}

static void test_cancel(void **state)
{
	struct fx *x = *state;

	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		enum job_state s = states[i];

		fx_make(x, "job_1", s);
		if (job_state_is_terminal(s)) {
			refused_from(x, OP_CANCEL, s);
		} else if (s == JOB_ACTIVE) {
			fx_job_op(x, OP_CANCEL, "job_1", "cancelling");
			fx_expect_state(x, "job_1", JOB_ACTIVE);
		} else {
			fx_job_op(x, OP_CANCEL, "job_1", "cancelled");
			fx_expect_state(x, "job_1", JOB_CANCELLED);
			assert_int_equal(fx_job(x, "job_1")->cancelled_at,
					 x->now_ns);
			assert_false(
			    MSG_HAS(fx_job(x, "job_1"), job, scheduled_at));
			fx_expect_none(x, "q");
		}
		fx_job_op(x, OP_DELETE, "job_1", "deleted");
	}
}

static void test_retry(void **state)
{
	struct fx *x = *state;

	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		enum job_state s = states[i];
		const struct m_job *j;

		fx_make(x, "job_1", s);
		if (s == JOB_PENDING || s == JOB_ACTIVE || s == JOB_RETRYING) {
			refused_from(x, OP_RETRY, s);
			fx_job_op(x, OP_DELETE, "job_1", "deleted");
			continue;
		}
		fx_enqueue(x, "other", "q");
		fx_job_op(x, OP_RETRY, "job_1", "retried");
		j = fx_job(x, "job_1");
		assert_int_equal(j->state, JOB_PENDING);
		assert_int_equal(j->attempt, 0);
		assert_false(MSG_HAS(j, job, failed_at));
		assert_false(MSG_HAS(j, job, completed_at));
		assert_false(MSG_HAS(j, job, cancelled_at));
		assert_false(MSG_HAS(j, job, scheduled_at));
		assert_false(MSG_HAS(j, job, started_at));
		assert_false(MSG_HAS(j, job, result));
		assert_true(MSG_HAS(j, job, expire_at));
		assert_int_equal(j->errors_n, s == JOB_DEAD); /* kept */
		/* at the end of its queue */
		fx_expect(x, "q", "other");
		fx_expect(x, "q", "job_1");
		fx_job_op(x, OP_DELETE, "other", "deleted");
		fx_job_op(x, OP_DELETE, "job_1", "deleted");
	}
}

/* Retried after its expiry it would die at once, so the expiry goes. */
static void test_retry_after_expiry(void **state)
{
	struct fx *x = *state;
	bool more;

	fx_make(x, "job_1", JOB_PENDING);
	x->now_ns += 3600 * NS_PER_S;
	assert_int_equal(fx_maintain(x, OP_EXPIRE, 0, NULL), 1);
	fx_expect_state(x, "job_1", JOB_DEAD);
	fx_job_op(x, OP_RETRY, "job_1", "retried");
	assert_false(MSG_HAS(fx_job(x, "job_1"), job, expire_at));
	assert_int_equal(fx_maintain(x, OP_EXPIRE, 0, &more), 0);
	fx_restart(x, FX_ROCKS);
	fx_expect(x, "q", "job_1");
	fx_restart(x, FX_ROCKS);
	x->now_ns += 60 * NS_PER_S;
	assert_int_equal(fx_maintain(x, OP_RECLAIM, 0, &more), 1);
	fx_expect(x, "q", "job_1");
	fx_timeline(x, "job_1",
		    "enqueued expired dead retried started reclaimed started");
	fx_job_op(x, OP_DELETE, "job_1", "deleted");
	/* the same for one that waits for its time */
	fx_make(x, "job_1", JOB_SCHEDULED);
	x->now_ns += 3600 * NS_PER_S;
	fx_job_op(x, OP_RETRY, "job_1", "retried");
	fx_expect(x, "q", "job_1");
}

/* A job as created that left and came back is found with its new record. */
static void test_cancelled_and_retried(void **state)
{
	struct fx *x = *state;
	struct m_fetched j;

	fx_make(x, "job_1", JOB_PENDING);
	fx_enqueue(x, "job_2", "q");
	fx_job_op(x, OP_CANCEL, "job_1", "cancelled");
	fx_job_op(x, OP_RETRY, "job_1", "retried");
	fx_expect(x, "q", "job_2");
	assert_true(fx_fetch(x, "q", &j));
	assert_str_is(j.job_id, "job_1");
	assert_int_equal(j.attempt, 1);
	fx_expect_none(x, "q");
}

static size_t count_keys(struct fx *x, const char *part)
{
	struct kv_iter *it = kv_iter_new(x->side[0].kv, STR_NULL, STR_NULL);
	size_t n = 0;

	for (; kv_iter_valid(it); kv_iter_next(it)) {
		struct str k = kv_iter_key(it), v = kv_iter_value(it);

		/* events, and answers that may be asked for again, stay */
		if (str_starts(k, STR("ev|")) || str_starts(k, STR("an|")))
			continue;
		n += memmem(k.p, k.n, part, strlen(part)) != NULL;
		n += memmem(v.p, v.n, part, strlen(part)) != NULL;
	}
	kv_iter_free(it);
	return n;
}

static void test_delete(void **state)
{
	struct fx *x = *state;
	struct m_job_ref m = ref("job_1");

	fx_refused(x, OP_DELETE, &m, ERR_NOT_FOUND, "job \"job_1\" not found");
	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		fx_make(x, "job_1", states[i]);
		assert_true(count_keys(x, "job_1") > 0);
		fx_restart(x, FX_ROCKS);
		fx_job_op(x, OP_DELETE, "job_1", "deleted");
		assert_false(fx_job_exists(x, "job_1"));
		assert_int_equal(count_keys(x, "job_1"), 0);
		fx_expect_none(x, "q");
	}
}

static void test_unknown_jobs(void **state)
{
	struct fx *x = *state;
	struct m_job_ref m = ref("nope");

	fx_refused(x, OP_CANCEL, &m, ERR_NOT_FOUND, "job \"nope\" not found");
	fx_refused(x, OP_RETRY, &m, ERR_NOT_FOUND, "job \"nope\" not found");
	fx_refused(x, OP_DELETE, &m, ERR_NOT_FOUND, "job \"nope\" not found");
}

static void test_resends(void **state)
{
	struct fx *x = *state;
	struct m_job_ref m = ref("job_1");
	struct m_status_reply r;
	uint64_t seq;

	fx_make(x, "job_1", JOB_PENDING);
	fx_job_op(x, OP_CANCEL, "job_1", "cancelled");
	seq = fsm_last_seq(x->side[0].f);
	assert_int_equal(fx_resend(x, OP_CANCEL, &m, &r), 0);
	assert_str_is(r.status, "cancelled");
	assert_int_equal(fsm_last_seq(x->side[0].f), seq);
	fx_job_op(x, OP_RETRY, "job_1", "retried");
	assert_int_equal(fx_resend(x, OP_RETRY, &m, &r), 0);
	assert_str_is(r.status, "retried");
	fx_job_op(x, OP_DELETE, "job_1", "deleted");
	assert_int_equal(fx_resend(x, OP_DELETE, &m, &r), 0);
	assert_str_is(r.status, "deleted");
	assert_int_equal(fsm_last_seq(x->side[0].f), seq + 2);
}

static void test_pause(void **state)
{
	struct fx *x = *state;
	struct m_queue_ref m = { 0 };
	uint64_t seq;

	fx_queue_op(x, OP_PAUSE, "new"); /* created, paused */
	seq = fsm_last_seq(x->side[0].f);
	assert_int_equal(seq, 2);
	fx_queue_op(x, OP_PAUSE, "new"); /* no event again */
	assert_int_equal(fsm_last_seq(x->side[0].f), seq);
	fx_queue_op(x, OP_RESUME, "new");
	fx_queue_op(x, OP_RESUME, "new");
	assert_int_equal(fsm_last_seq(x->side[0].f), seq + 1);
	MSG_SET(&m, queue_ref, queue, STR(""));
	fx_refused(x, OP_PAUSE, &m, ERR_VALIDATION_ERROR,
		   "queue: must have 1 to 255 bytes");
	/* what is active goes on in a paused queue */
	fx_make(x, "job_1", JOB_ACTIVE);
	fx_queue_op(x, OP_PAUSE, "q");
	fx_job_op(x, OP_CANCEL, "job_1", "cancelling");
	fx_enqueue(x, "job_2", "q");
	fx_expect_none(x, "q");
}

/* --- who waits for a queue --- */

struct changed {
	unsigned n;
	char last[16];
};

static void note_changed(void *ctx, struct str queue)
{
	struct changed *c = ctx;

	c->n++;
	(void)snprintf(c->last, sizeof(c->last), "%.*s", STR_ARG(queue));
}

static unsigned changes(struct fx *x, struct changed *c)
{
	c->n = 0;
	fsm_take_changed(x->side[0].f, note_changed, c);
	return c->n;
}

/* He hears of the queue when it may have changed, and of no other. */
static void test_watched_queues(void **state)
{
	struct fx *x = *state;
	struct changed c;

	fx_make(x, "job_1", JOB_ACTIVE);
	fsm_watch_queue(x->side[0].f, STR("q"));
	assert_int_equal(changes(x, &c), 0);
	fx_enqueue(x, "job_2", "other");
	fx_queue_op(x, OP_PAUSE, "other");
	assert_int_equal(changes(x, &c), 0);
	fx_queue_op(x, OP_PAUSE, "q");
	fx_enqueue(x, "job_3", "q");
	assert_int_equal(changes(x, &c), 1);
	assert_string_equal(c.last, "q");
	assert_int_equal(changes(x, &c), 0);
	fx_job_op(x, OP_CANCEL, "job_3", "cancelled");
	assert_int_equal(changes(x, &c), 1);
	fsm_unwatch_queue(x->side[0].f, STR("q"));
	fx_queue_op(x, OP_RESUME, "q");
	assert_int_equal(changes(x, &c), 0);
	fsm_watch_queue(x->side[0].f, STR("q")); /* when it ends */
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fx_setup, fx_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_cancel),
		TEST(test_retry),
		TEST(test_retry_after_expiry),
		TEST(test_cancelled_and_retried),
		TEST(test_delete),
		TEST(test_unknown_jobs),
		TEST(test_resends),
		TEST(test_pause),
		TEST(test_watched_queues),
	};

	return cmocka_run_group_tests_name("fsm_admin", tests, NULL, NULL);
}
