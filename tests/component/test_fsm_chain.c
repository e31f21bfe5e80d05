/*
 * Chains: what follows a step, by every way it may end, and what it is given.
 */
#include "fsm_fixture.h"
#include "proto/job.h"

/* A chain q -> q2 -> q3 with both handlers. */
struct chain {
	struct m_chain c;
	struct m_chain_step steps[3], on_failure, on_exit;
	struct m_enqueue op;
};

static struct m_chain_step step(const char *queue, const char *payload)
{
	struct m_chain_step s = { 0 };

	MSG_SET(&s, chain_step, queue, str_from(queue));
	if (payload != NULL)
		MSG_SET(&s, chain_step, payload, str_from(payload));
	return s;
}

static void chain_init(struct chain *c)
{
	*c = (struct chain){ 0 };
	c->steps[0] = step("q", "{\"ignored\":1}");
	c->steps[1] = step("q2", "{\"own\":2}");
	c->steps[2] = step("q3", NULL);
	c->on_failure = step("failed", "{\"note\":\"f\"}");
	c->on_exit = step("exit", NULL);
	MSG_SET_LIST(&c->c, chain, steps, c->steps, 3);
	MSG_SET(&c->c, chain, on_failure, &c->on_failure);
	MSG_SET(&c->c, chain, on_exit, &c->on_exit);
	MSG_SET(&c->op, enqueue, job_id, STR("a"));
	MSG_SET(&c->op, enqueue, queue, STR("q"));
	MSG_SET(&c->op, enqueue, payload, STR("{\"first\":1}"));
	MSG_SET(&c->op, enqueue, max_retries, 1);
	MSG_SET(&c->op, enqueue, chain_id, STR("chn_1"));
	MSG_SET(&c->op, enqueue, chain, &c->c);
}

static void start(struct fx *x, struct chain *c)
{
	assert_int_equal(fx_do(x, OP_ENQUEUE, &c->op, NULL), 0);
}

static void start_plain(struct fx *x)
{
	struct chain c;

	chain_init(&c);
	start(x, &c);
}

/* Takes the only job of the queue; the id is valid until the next entry. */
static struct m_fetched take(struct fx *x, const char *queue)
{
	struct m_fetched j;

	if (!fx_fetch(x, queue, &j))
		fail_msg("no job in %s", queue);
	return j;
}

static void ack_as(struct fx *x, struct str id, const char *result,
		   enum step_status s)
{
	struct m_ack a = { 0 };
	char copy[LIMIT_JOB_ID_BYTES];

	memcpy(copy, id.p, id.n);
	MSG_SET(&a, ack, job_id, str_of(copy, id.n));
	if (result != NULL)
		MSG_SET(&a, ack, result, str_from(result));
	if (s != STEP_CONTINUE)
		MSG_SET(&a, ack, step_status, s);
	assert_int_equal(fx_do(x, OP_ACK, &a, NULL), 0);
}

static void ack(struct fx *x, const char *id, const char *result)
{
	ack_as(x, str_from(id), result, STEP_CONTINUE);
}

static void fail_with(struct fx *x, const char *id, const char *error)
{
	struct m_fail m = { 0 };

	MSG_SET(&m, fail, job_id, str_from(id));
	MSG_SET(&m, fail, error, str_from(error));
	assert_int_equal(fx_do(x, OP_FAIL, &m, NULL), 0);
}

static void expect_nothing(struct fx *x)
{
	fx_expect_none(x, "q");
	fx_expect_none(x, "q2");
	fx_expect_none(x, "q3");
	fx_expect_none(x, "failed");
	fx_expect_none(x, "exit");
}

/* Only on_failure follows, with that error. */
static void expect_failure(struct fx *x, const char *error)
{
	struct m_fetched j = take(x, "failed");
	struct buf b = BUF_INIT(0);

	buf_printf(&b,
		   "{\"failed_job_id\":\"a\",\"failed_step\":0,\"error\":\"%s\""
		   ",\"note\":\"f\"}",
		   error);
	assert_true(str_eq(j.payload, buf_str(&b)));
	buf_done(&b);
	assert_int_equal(j.chain_step, -2);
	assert_str_is(j.chain_id, "chn_1");
	ack_as(x, j.job_id, NULL, STEP_CONTINUE); /* it does not continue */
	expect_nothing(x);
}

/* Only on_exit follows. */
static void expect_exit(struct fx *x, const char *payload)
{
	struct m_fetched j = take(x, "exit");

	assert_int_equal(j.chain_step, -1);
	assert_str_is(j.payload, payload);
	ack_as(x, j.job_id, NULL, STEP_CONTINUE);
	expect_nothing(x);
}

static void test_steps_follow_one_another(void **state)
{
	struct fx *x = *state;
	const struct m_job *shown;
	struct m_fetched j;

	start_plain(x);
	shown = fx_job(x, "a");
	assert_str_is(shown->chain_id, "chn_1");
	assert_int_equal(shown->chain_step, 0);
	assert_int_equal(shown->chain_config->steps_n, 3);
	j = take(x, "q");
	assert_str_is(j.payload, "{\"first\":1}"); /* not the step's */
	assert_str_is(j.chain_id, "chn_1");
	fx_restart(x, FX_ROCKS);
	ack(x, "a", "{\"r\": [1]}");
	fx_timeline(x, "a", "enqueued started completed chain_step");
	j = take(x, "q2");
	assert_int_equal(j.chain_step, 1);
	assert_str_is(j.payload, "{\"previous_job_id\":\"a\","
				 "\"previous_result\":{\"r\": [1]},\"own\":2}");
	ack_as(x, j.job_id, NULL, STEP_CONTINUE);
	j = take(x, "q3");
	assert_int_equal(j.chain_step, 2);
	assert_null(memmem(j.payload.p, j.payload.n, "previous_result", 15));
	ack_as(x, j.job_id, "7", STEP_CONTINUE);
	j = take(x, "exit");
	assert_int_equal(j.chain_step, -1);
	assert_non_null(
	    memmem(j.payload.p, j.payload.n, "\"previous_result\":7}", 20));
	ack_as(x, j.job_id, NULL, STEP_CONTINUE);
	expect_nothing(x);
}

static void test_the_links_of_a_successor(void **state)
{
	struct fx *x = *state;
	const struct m_job *j;
	char id[LIMIT_JOB_ID_BYTES + 1];
	struct m_fetched f;

	start_plain(x);
	(void)take(x, "q");
	ack(x, "a", NULL);
	f = take(x, "q2");
	(void)snprintf(id, sizeof(id), "%.*s", STR_ARG(f.job_id));
	j = fx_job(x, id);
	assert_str_is(j->parent_id, "a");
	assert_str_is(j->chain_id, "chn_1");
	assert_int_equal(j->chain_config->steps_n, 3);
	assert_int_equal(j->max_retries, 1);
}

static void test_members_of_the_step_win(void **state)
{
	struct fx *x = *state;
	struct chain c;

	chain_init(&c);
	c.steps[1] = step("q2", "{\"previous_result\":0, \"x\":[ 1 ],"
				"\"previous_job_id\":null}");
	start(x, &c);
	(void)take(x, "q");
	ack(x, "a", "1");
	assert_str_is(take(x, "q2").payload,
		      "{\"previous_result\":0,\"x\":[ 1 ],"
		      "\"previous_job_id\":null}");
}

static void test_step_payload_that_is_no_object_is_dropped(void **state)
{
	struct fx *x = *state;
	struct chain c;

	chain_init(&c);
	c.steps[1] = step("q2", "[1,2]");
	start(x, &c);
	(void)take(x, "q");
	ack(x, "a", NULL);
	assert_str_is(take(x, "q2").payload, "{\"previous_job_id\":\"a\"}");
}

static void test_step_status_exit_runs_on_exit(void **state)
{
	struct fx *x = *state;

	start_plain(x);
	(void)take(x, "q");
	ack_as(x, STR("a"), "1", STEP_EXIT);
	fx_timeline(x, "a", "enqueued started completed chain_ended");
	expect_exit(x, "{\"previous_job_id\":\"a\",\"previous_result\":1}");
}

static void test_step_status_of_a_job_without_chain_is_ignored(void **state)
{
	struct fx *x = *state;

	fx_enqueue(x, "a", "q");
	fx_expect(x, "q", "a");
	ack_as(x, STR("a"), NULL, STEP_EXIT);
	fx_expect_state(x, "a", JOB_COMPLETED);
	fx_timeline(x, "a", "enqueued started completed");
}

static void test_ack_batch_drives_chains(void **state)
{
	struct m_ack_item items[2] = { 0 };
	struct m_ack_batch m = { 0 };
	struct fx *x = *state;
	struct chain c;

	start_plain(x);
	chain_init(&c);
	MSG_SET(&c.op, enqueue, job_id, STR("b"));
	start(x, &c);
	(void)take(x, "q");
	(void)take(x, "q");
	MSG_SET(&items[0], ack_item, job_id, STR("a"));
	MSG_SET(&items[0], ack_item, result, STR("1"));
	MSG_SET(&items[1], ack_item, job_id, STR("b"));
	MSG_SET(&items[1], ack_item, step_status, STEP_EXIT);
	MSG_SET_LIST(&m, ack_batch, acks, items, 2);
	assert_int_equal(fx_do(x, OP_ACK_BATCH, &m, NULL), 0);
	assert_str_is(take(x, "q2").payload,
		      "{\"previous_job_id\":\"a\",\"previous_result\":1,"
		      "\"own\":2}");
	expect_exit(x, "{\"previous_job_id\":\"b\"}");
}

static void test_death_by_fail_runs_on_failure(void **state)
{
	struct fx *x = *state;

	start_plain(x);
	(void)take(x, "q");
	fail_with(x, "a", "boom");
	fx_timeline(x, "a", "enqueued started failed dead chain_ended");
	expect_failure(x, "boom");
}

static void test_a_failed_attempt_is_no_death(void **state)
{
	struct fx *x = *state;
	struct chain c;

	chain_init(&c);
	MSG_SET(&c.op, enqueue, max_retries, 2);
	MSG_SET(&c.op, enqueue, retry_backoff, BACKOFF_NONE);
	start(x, &c);
	(void)take(x, "q");
	fail_with(x, "a", "one");
	fx_expect_none(x, "failed");
	(void)take(x, "q");
	fail_with(x, "a", "two");
	expect_failure(x, "two");
}

static void test_death_by_lost_lease_runs_on_failure(void **state)
{
	struct fx *x = *state;

	start_plain(x);
	(void)take(x, "q");
	x->now_ns += 60 * NS_PER_S;
	assert_int_equal(fx_maintain(x, OP_RECLAIM, 0, NULL), 1);
	expect_failure(x, "lease expired");
}

static void test_death_by_expiry_runs_on_failure(void **state)
{
	struct fx *x = *state;
	struct chain c;

	chain_init(&c);
	MSG_SET(&c.op, enqueue, expire_after, NS_PER_S);
	start(x, &c);
	x->now_ns += NS_PER_S;
	fx_expect_none(x, "q"); /* found expired by the fetch */
	expect_failure(x, "job expired");
	MSG_SET(&c.op, enqueue, job_id, STR("b"));
	start(x, &c);
	x->now_ns += NS_PER_S;
	assert_int_equal(fx_maintain(x, OP_EXPIRE, 0, NULL), 1);
	assert_int_equal(take(x, "failed").chain_step, -2);
}

static void test_cancelled_step_runs_on_exit_only(void **state)
{
	struct fx *x = *state;

	start_plain(x);
	fx_job_op(x, OP_CANCEL, "a", "cancelled");
	fx_timeline(x, "a", "enqueued cancelled chain_ended");
	expect_exit(x, "{\"previous_job_id\":\"a\"}");
}

static void test_step_cancelled_while_active_runs_on_exit_only(void **state)
{
	struct fx *x = *state;

	start_plain(x);
	(void)take(x, "q");
	fx_job_op(x, OP_CANCEL, "a", "cancelling");
	expect_nothing(x);
	ack(x, "a", "5");
	fx_expect_state(x, "a", JOB_CANCELLED);
	expect_exit(x, "{\"previous_job_id\":\"a\",\"previous_result\":5}");
}

static void test_deleted_step_runs_on_exit_only(void **state)
{
	struct fx *x = *state;

	start_plain(x);
	fx_job_op(x, OP_DELETE, "a", "deleted");
	expect_exit(x, "{\"previous_job_id\":\"a\"}");
}

static void test_deleting_an_ended_step_runs_nothing(void **state)
{
	struct fx *x = *state;

	start_plain(x);
	(void)take(x, "q");
	fail_with(x, "a", "boom");
	fx_job_op(x, OP_DELETE, "a", "deleted");
	expect_failure(x, "boom");
}

static void test_chain_without_handlers_just_ends(void **state)
{
	struct fx *x = *state;
	struct chain c;

	chain_init(&c);
	MSG_UNSET(&c.c, chain, on_failure);
	MSG_UNSET(&c.c, chain, on_exit);
	start(x, &c);
	(void)take(x, "q");
	fail_with(x, "a", "boom");
	expect_nothing(x);
	fx_timeline(x, "a", "enqueued started failed dead chain_ended");
	MSG_SET(&c.op, enqueue, job_id, STR("b"));
	start(x, &c);
	fx_job_op(x, OP_CANCEL, "b", "cancelled");
	expect_nothing(x);
}

static void test_completed_step_retried_by_hand_continues_once(void **state)
{
	struct fx *x = *state;

	start_plain(x);
	(void)take(x, "q");
	ack(x, "a", NULL);
	(void)take(x, "q2");
	fx_job_op(x, OP_RETRY, "a", "retried");
	fx_restart(x, FX_MEM);
	fx_restart(x, FX_ROCKS);
	(void)take(x, "q");
	ack(x, "a", NULL);
	expect_nothing(x);
	/* nor does its death after that run on_failure */
	fx_job_op(x, OP_RETRY, "a", "retried");
	(void)take(x, "q");
	fail_with(x, "a", "boom");
	expect_nothing(x);
}

static void test_dead_step_retried_by_hand_continues_the_chain(void **state)
{
	struct fx *x = *state;

	start_plain(x);
	(void)take(x, "q");
	fail_with(x, "a", "boom");
	expect_failure(x, "boom");
	fx_job_op(x, OP_RETRY, "a", "retried");
	(void)take(x, "q");
	ack(x, "a", NULL);
	assert_int_equal(take(x, "q2").chain_step, 1);
}

static void test_successors_inherit_unless_the_step_overrides(void **state)
{
	struct fx *x = *state;
	struct chain c;
	const struct m_job *j;
	char id[LIMIT_JOB_ID_BYTES + 1];
	struct m_fetched f;

	chain_init(&c);
	MSG_SET(&c.op, enqueue, priority, PRIORITY_CRITICAL);
	MSG_SET(&c.op, enqueue, tags, STR("{\"t\":\"1\"}"));
	MSG_SET(&c.op, enqueue, max_retries, 7);
	MSG_SET(&c.op, enqueue, retry_backoff, BACKOFF_FIXED);
	MSG_SET(&c.op, enqueue, retry_base_delay, 2 * NS_PER_S);
	MSG_SET(&c.op, enqueue, retry_max_delay, 3 * NS_PER_S);
	MSG_SET(&c.op, enqueue, retry_jitter, 0.5);
	MSG_SET(&c.op, enqueue, timeout, 9 * NS_PER_S);
	MSG_SET(&c.op, enqueue, group, STR("g"));
	MSG_SET(&c.steps[2], chain_step, priority, PRIORITY_HIGH);
	MSG_SET(&c.steps[2], chain_step, tags, STR("{}"));
	MSG_SET(&c.steps[2], chain_step, max_retries, 2);
	MSG_SET(&c.steps[2], chain_step, retry_backoff, BACKOFF_LINEAR);
	MSG_SET(&c.steps[2], chain_step, group, STR("h"));
	start(x, &c);
	(void)take(x, "q");
	ack(x, "a", NULL);
	f = take(x, "q2");
	(void)snprintf(id, sizeof(id), "%.*s", STR_ARG(f.job_id));
	j = fx_job(x, id);
	assert_int_equal(j->priority, PRIORITY_CRITICAL);
	assert_str_is(j->tags, "{\"t\":\"1\"}");
	assert_int_equal(j->max_retries, 7);
	assert_int_equal(j->retry_backoff, BACKOFF_FIXED);
	assert_int_equal(j->retry_base_delay, 2 * NS_PER_S);
	assert_int_equal(j->retry_max_delay, 3 * NS_PER_S);
	assert_true(j->retry_jitter == 0.5);
	assert_int_equal(j->timeout, 9 * NS_PER_S);
	assert_str_is(j->group, "g");
	ack(x, id, NULL);
	f = take(x, "q3");
	(void)snprintf(id, sizeof(id), "%.*s", STR_ARG(f.job_id));
	j = fx_job(x, id);
	assert_int_equal(j->priority, PRIORITY_HIGH);
	assert_str_is(j->tags, "{}");
	assert_int_equal(j->max_retries, 2);
	assert_int_equal(j->retry_backoff, BACKOFF_LINEAR);
	assert_int_equal(j->retry_base_delay, 2 * NS_PER_S);
	assert_str_is(j->group, "h");
}

static void test_successors_do_not_join_the_batch(void **state)
{
	struct m_open_batch open = { 0 };
	struct fx *x = *state;
	struct m_batch b;
	struct chain c;

	MSG_SET(&open, open_batch, batch_id, STR("batch_1"));
	assert_int_equal(fx_do(x, OP_OPEN_BATCH, &open, NULL), 0);
	chain_init(&c);
	MSG_SET(&c.op, enqueue, batch_id, STR("batch_1"));
	start(x, &c);
	(void)take(x, "q");
	ack(x, "a", NULL);
	assert_int_equal(take(x, "q2").batch_id.n, 0);
	assert_int_equal(fsm_batch(x->side[0].f, STR("batch_1"), &b), 1);
	assert_int_equal(b.total, 1);
	assert_int_equal(b.succeeded, 1);
}

static void test_chains_that_are_refused(void **state)
{
	struct fx *x = *state;
	struct chain c;
	struct m_chain_step many[LIMIT_CHAIN_STEPS + 1];
	struct buf large = BUF_INIT(0);

	chain_init(&c);
	c.c.steps_n = 1;
	fx_refused(x, OP_ENQUEUE, &c.op, ERR_VALIDATION_ERROR,
		   "chain.steps: must have 2 to 100 steps");
	for (size_t i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = step("q", NULL);
	MSG_SET_LIST(&c.c, chain, steps, many, ARRAY_SIZE(many));
	fx_refused(x, OP_ENQUEUE, &c.op, ERR_VALIDATION_ERROR,
		   "chain.steps: must have 2 to 100 steps");
	chain_init(&c);
	c.steps[0] = step("other", NULL);
	fx_refused(x, OP_ENQUEUE, &c.op, ERR_VALIDATION_ERROR,
		   "chain.steps[0].queue: must be the queue of the job, \"q\"");
	chain_init(&c);
	c.on_exit = step("", NULL);
	fx_refused(x, OP_ENQUEUE, &c.op, ERR_VALIDATION_ERROR,
		   "chain: the queue of a step must have 1 to 255 bytes");
	chain_init(&c);
	c.steps[2].queue = STR("a\0b");
	fx_refused(x, OP_ENQUEUE, &c.op, ERR_VALIDATION_ERROR,
		   "chain: the queue of a step must have 1 to 255 bytes");
	chain_init(&c);
	buf_putc(&large, '"');
	while (large.n < LIMIT_CHAIN_BYTES)
		buf_putc(&large, 'x');
	buf_putc(&large, '"');
	c.steps[1].payload = buf_str(&large);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &c.op, NULL),
			 ERR_PAYLOAD_TOO_LARGE);
	buf_done(&large);
}

static void test_largest_chain_and_result(void **state)
{
	struct buf payload = BUF_INIT(0), result = BUF_INIT(0);
	struct fx *x = *state;
	struct chain c;

	chain_init(&c);
	buf_puts(&payload, "{\"p\":\"");
	while (payload.n < LIMIT_CHAIN_BYTES - 64)
		buf_putc(&payload, 'x');
	buf_puts(&payload, "\"}");
	buf_putc(&result, '"');
	while (result.n < LIMIT_RESULT_BYTES - 1)
		buf_putc(&result, 'y');
	buf_puts(&result, "\"");
	buf_putc(&result, '\0');
	c.steps[1].payload = buf_str(&payload);
	start(x, &c);
	(void)take(x, "q");
	ack(x, "a", result.p);
	assert_true(take(x, "q2").payload.n > payload.n + result.n);
	buf_done(&payload);
	buf_done(&result);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fx_setup, fx_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_steps_follow_one_another),
		TEST(test_the_links_of_a_successor),
		TEST(test_members_of_the_step_win),
		TEST(test_step_payload_that_is_no_object_is_dropped),
		TEST(test_step_status_exit_runs_on_exit),
		TEST(test_step_status_of_a_job_without_chain_is_ignored),
		TEST(test_ack_batch_drives_chains),
		TEST(test_death_by_fail_runs_on_failure),
		TEST(test_a_failed_attempt_is_no_death),
		TEST(test_death_by_lost_lease_runs_on_failure),
		TEST(test_death_by_expiry_runs_on_failure),
		TEST(test_cancelled_step_runs_on_exit_only),
		TEST(test_step_cancelled_while_active_runs_on_exit_only),
		TEST(test_deleted_step_runs_on_exit_only),
		TEST(test_deleting_an_ended_step_runs_nothing),
		TEST(test_chain_without_handlers_just_ends),
		TEST(test_completed_step_retried_by_hand_continues_once),
		TEST(test_dead_step_retried_by_hand_continues_the_chain),
		TEST(test_successors_inherit_unless_the_step_overrides),
		TEST(test_successors_do_not_join_the_batch),
		TEST(test_chains_that_are_refused),
		TEST(test_largest_chain_and_result),
	};

	return cmocka_run_group_tests_name("fsm_chain", tests, NULL, NULL);
}
