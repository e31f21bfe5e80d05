/*
 * Where features meet: jobs that are of a batch, a chain, have a unique key,
 * an expiry and dependencies at once, and what happens to all of that when
 * one of them ends, is moved, held, cleared or deleted. The fixture checks
 * every index and count after each entry.
 */
#include "deps_world.h"
#include "store/key.h"

/* A job with everything: chain q -> q2, with both handlers. */
struct rich {
	struct want want;
	struct m_chain chain;
	struct m_chain_step steps[2], on_failure, on_exit;
	struct m_enqueue op;
};

static struct m_chain_step step(const char *queue)
{
	struct m_chain_step s = { 0 };

	MSG_SET(&s, chain_step, queue, str_from(queue));
	return s;
}

static void rich_init(struct rich *r, const char *id, const char *deps)
{
	*r = (struct rich){ .want = { .id = id, .deps = deps } };
	fill(&r->want, &r->op);
	r->steps[0] = step("q");
	r->steps[1] = step("q2");
	r->on_failure = step("failed");
	r->on_exit = step("exit");
	MSG_SET_LIST(&r->chain, chain, steps, r->steps, 2);
	MSG_SET(&r->chain, chain, on_failure, &r->on_failure);
	MSG_SET(&r->chain, chain, on_exit, &r->on_exit);
	MSG_SET(&r->op, enqueue, chain_id, STR("chn_1"));
	MSG_SET(&r->op, enqueue, chain, &r->chain);
	MSG_SET(&r->op, enqueue, unique_key, STR("k"));
	MSG_SET(&r->op, enqueue, unique_period, 3600 * NS_PER_S);
	MSG_SET(&r->op, enqueue, expire_after, 3600 * NS_PER_S);
}

static void enqueue(struct fx *x, const struct m_enqueue *op)
{
	if (fx_do(x, OP_ENQUEUE, op, NULL) != 0)
		fail_msg("%.*s", STR_ARG(x->replies[0].body));
}

/* Jobs as a sealed batch "batch_1" with its callback in "done". */
static void enqueue_batch(struct fx *x, struct m_enqueue *jobs, size_t n)
{
	struct m_batch_options o = { 0 };
	struct m_enqueue_batch m = { 0 };

	MSG_SET(&o, batch_options, callback_queue, STR("done"));
	MSG_SET_LIST(&m, enqueue_batch, jobs, jobs, n);
	MSG_SET(&m, enqueue_batch, batch, &o);
	MSG_SET(&m, enqueue_batch, batch_id, STR("batch_1"));
	if (fx_do(x, OP_ENQUEUE_BATCH, &m, NULL) != 0)
		fail_msg("%.*s", STR_ARG(x->replies[0].body));
}

static void expect_batch(struct fx *x, uint64_t total, uint64_t succeeded,
			 uint64_t failed)
{
	struct m_batch b;

	assert_int_equal(fsm_batch(x->side[FX_MEM].f, STR("batch_1"), &b), 1);
	assert_int_equal(b.total, total);
	assert_int_equal(b.succeeded, succeeded);
	assert_int_equal(b.failed, failed);
	assert_int_equal(MSG_HAS(&b, batch, completed_at),
			 total == succeeded + failed);
}

/* Takes the only job of the queue; its payload contains the text. */
static void expect_one(struct fx *x, const char *queue, const char *text)
{
	struct m_fetched j;

	if (!fx_fetch(x, queue, &j))
		fail_msg("no job in %s", queue);
	if (memmem(j.payload.p, j.payload.n, text, strlen(text)) == NULL)
		fail_msg("%.*s", STR_ARG(j.payload));
	fx_expect_none(x, queue);
}

static void queue_goes(struct fx *x, enum op_id op, const char *queue)
{
	struct m_clear_queue m = { 0 };
	struct m_clear_queue_reply r;
	char cursor[KEY_MAX];

	MSG_SET(&m, clear_queue, queue, str_from(queue));
	do {
		assert_int_equal(fx_do(x, op, &m, &r), 0);
		MSG_SET(&m, clear_queue, upto_seq, r.upto_seq);
		if (r.cursor.n > 0) {
			memcpy(cursor, r.cursor.p, r.cursor.n);
			MSG_SET(&m, clear_queue, cursor,
				str_of(cursor, r.cursor.n));
		}
	} while (r.more);
}

static void hold(struct fx *x, const char *id)
{
	struct m_hold m = { 0 };

	MSG_SET(&m, hold, job_id, str_from(id));
	assert_int_equal(fx_do(x, OP_HOLD, &m, NULL), 0);
	fx_expect_state(x, id, JOB_HELD);
}

static void release_all(struct fx *x)
{
	bool more = true;

	while (more)
		fx_maintain(x, OP_RELEASE, 0, &more);
}

/* --- the end of a job that has everything --- */

static void test_failed_dependency_ends_batch_chain_and_lock(void **state)
{
	struct fx *x = *state;
	struct m_enqueue jobs[2];
	struct rich r;

	add(x, "a", NULL);
	rich_init(&r, "b", "a");
	jobs[0] = r.op;
	fill(&(struct want){ .id = "c" }, &jobs[1]);
	enqueue_batch(x, jobs, 2);
	add(x, "d", "b");
	restart_both(x);
	fx_job_op(x, OP_CANCEL, "a", "cancelled");
	expect_error(x, "b", "dependency a failed: cancelled");
	expect_error(x, "d", "dependency b failed: dead");
	expect_batch(x, 2, 0, 1);
	expect_one(x, "failed", "dependency a failed: cancelled");
	fx_expect_none(x, "exit");
	rich_init(&r, "again", NULL);
	enqueue(x, &r.op); /* the key is free */
	assert_true(fx_job_exists(x, "again"));
	run(x, "c");
	expect_batch(x, 2, 1, 1);
	expect_one(x, "done", "\"failed\":1");
}

static void test_job_doomed_at_its_creation_counts_in_its_batch(void **state)
{
	struct fx *x = *state;
	struct m_enqueue jobs[2];
	struct rich r;

	add(x, "a", NULL);
	kill(x, "a");
	rich_init(&r, "b", "a");
	jobs[0] = r.op;
	fill(&(struct want){ .id = "c", .deps = "a" }, &jobs[1]);
	enqueue_batch(x, jobs, 2);
	expect_batch(x, 2, 0, 2);
	expect_one(x, "failed", "dependency a failed: dead");
	expect_one(x, "done", "\"failed\":2");
}

static void test_expired_blocked_job_of_a_batch(void **state)
{
	struct fx *x = *state;
	struct rich r;

	add(x, "a", NULL);
	rich_init(&r, "b", "a");
	enqueue_batch(x, &r.op, 1);
	x->now_ns += 3601 * NS_PER_S;
	assert_int_equal(fx_maintain(x, OP_EXPIRE, 0, NULL), 1);
	expect_error(x, "b", "job expired");
	expect_batch(x, 1, 0, 1);
	expect_one(x, "failed", "job expired");
	run(x, "a");
	fx_expect_none(x, "q");
}

static void test_retry_of_a_job_that_was_counted(void **state)
{
	struct fx *x = *state;
	struct rich r;

	add(x, "a", NULL);
	rich_init(&r, "b", "a");
	enqueue_batch(x, &r.op, 1);
	kill(x, "a");
	expect_batch(x, 1, 0, 1);
	expect_one(x, "done", "\"failed\":1");
	fx_job_op(x, OP_RETRY, "b", "retried");
	add(x, "e", "b");
	run(x, "b");
	expect_batch(x, 1, 0, 1); /* once */
	fx_expect_none(x, "done");
	run(x, "e");
	expect_one(x, "q2", "\"previous_job_id\":\"b\"");
}

static void test_purged_batch_of_a_job_that_lives_again(void **state)
{
	struct fx *x = *state;
	struct m_maintain m = { 0 };
	struct rich r;

	rich_init(&r, "b", NULL);
	enqueue_batch(x, &r.op, 1);
	kill(x, "b");
	fx_job_op(x, OP_RETRY, "b", "retried");
	x->now_ns += 1800 * NS_PER_S;
	MSG_SET(&m, maintain, retention_ns, NS_PER_S);
	assert_int_equal(fx_do(x, OP_PURGE, &m, NULL), 0);
	add(x, "c", "b");
	run(x, "b");
	run(x, "c");
}

/* --- chains --- */

static void test_cancelled_scheduled_step_ends_its_chain(void **state)
{
	struct fx *x = *state;
	struct rich r;

	rich_init(&r, "a", NULL);
	MSG_SET(&r.op, enqueue, scheduled_at, x->now_ns + 60 * NS_PER_S);
	enqueue(x, &r.op);
	add(x, "b", "a");
	fx_job_op(x, OP_CANCEL, "a", "cancelled");
	expect_error(x, "b", "dependency a failed: cancelled");
	expect_one(x, "exit", "\"previous_job_id\":\"a\"");
	fx_expect_none(x, "failed");
	fx_expect_none(x, "q2");
}

static void test_queue_deleted_while_a_chain_step_is_active(void **state)
{
	struct fx *x = *state;
	struct m_ack ack = { 0 };
	struct rich r;

	rich_init(&r, "a", NULL);
	enqueue_batch(x, &r.op, 1);
	fill(&(struct want){ .id = "b", .deps = "a" }, &r.op);
	MSG_SET(&r.op, enqueue, queue, STR("elsewhere"));
	enqueue(x, &r.op);
	fx_expect(x, "q", "a");
	queue_goes(x, OP_DELETE_QUEUE, "q");
	assert_false(fx_job_exists(x, "a"));
	expect_error(x, "b", "dependency a failed: deleted");
	expect_batch(x, 1, 0, 1);
	expect_one(x, "exit", "\"previous_job_id\":\"a\"");
	MSG_SET(&ack, ack, job_id, STR("a"));
	assert_int_not_equal(fx_do(x, OP_ACK, &ack, NULL), 0);
	add(x, "new", NULL); /* the queue may come back */
	run(x, "new");
}

/* What a deleted queue's jobs leave behind may come to that very queue. */
static void test_deleted_queue_gets_its_own_handlers_and_callback(void **state)
{
	struct fx *x = *state;
	struct m_batch_options o = { 0 };
	struct m_enqueue_batch m = { 0 };
	struct rich r;

	rich_init(&r, "a", NULL);
	MSG_SET(&r.on_exit, chain_step, queue, STR("q"));
	MSG_SET(&o, batch_options, callback_queue, STR("q"));
	MSG_SET_LIST(&m, enqueue_batch, jobs, &r.op, 1);
	MSG_SET(&m, enqueue_batch, batch, &o);
	MSG_SET(&m, enqueue_batch, batch_id, STR("batch_1"));
	assert_int_equal(fx_do(x, OP_ENQUEUE_BATCH, &m, NULL), 0);
	queue_goes(x, OP_DELETE_QUEUE, "q");
	expect_batch(x, 1, 0, 1);
	fx_expect_none(x, "q");
}

static void test_step_waits_for_a_dependency_then_goes_on(void **state)
{
	struct fx *x = *state;
	struct rich r;

	add(x, "a", NULL);
	rich_init(&r, "b", "a");
	enqueue(x, &r.op);
	add(x, "after", "b");
	restart_both(x);
	run(x, "a");
	run(x, "b");
	run(x, "after"); /* of the step, not of the chain */
	expect_one(x, "q2", "\"previous_job_id\":\"b\"");
}

/* --- what people do to blocked jobs --- */

static void test_cleared_blocked_jobs_tell_theirs(void **state)
{
	struct fx *x = *state;
	struct rich r;
	struct m_enqueue m;

	fx_enqueue(x, "a", "elsewhere");
	rich_init(&r, "b", "a");
	enqueue_batch(x, &r.op, 1);
	fill(&(struct want){ .id = "c", .deps = "b", .ignore = true }, &m);
	MSG_SET(&m, enqueue, queue, STR("q3"));
	enqueue(x, &m);
	queue_goes(x, OP_CLEAR_QUEUE, "q");
	assert_false(fx_job_exists(x, "b"));
	expect_batch(x, 1, 0, 1);
	fx_expect(x, "q3", "c");
	fx_expect(x, "elsewhere", "a");
	ack(x, "a");
}

static void test_held_dependent_counts_down(void **state)
{
	struct fx *x = *state;

	add(x, "a", NULL);
	add(x, "b", NULL);
	add(x, "c", "a b");
	hold(x, "c");
	run(x, "a");
	assert_int_equal(fx_job(x, "c")->waiting_on, 1);
	fx_expect_state(x, "c", JOB_HELD);
	fx_job_op(x, OP_APPROVE, "c", "pending");
	expect_waiting(x, "c", 1);
	hold(x, "c");
	restart_both(x);
	run(x, "b");
	fx_expect_state(x, "c", JOB_HELD);
	fx_timeline(x, "c", "enqueued held approved held released");
	fx_expect_none(x, "q");
	fx_job_op(x, OP_APPROVE, "c", "pending");
	run(x, "c");
}

static void test_held_dependent_dies_with_its_dependency(void **state)
{
	struct fx *x = *state;
	struct m_hold reject = { 0 };

	add(x, "a", NULL);
	add(x, "b", "a");
	add(x, "c", "a");
	hold(x, "b");
	hold(x, "c");
	MSG_SET(&reject, hold, job_id, STR("c"));
	assert_int_equal(fx_do(x, OP_REJECT, &reject, NULL), 0);
	kill(x, "a");
	expect_error(x, "b", "dependency a failed: dead");
	expect_error(x, "c", "rejected");
}

static void test_held_parent_is_no_end(void **state)
{
	struct fx *x = *state;

	add(x, "a", NULL);
	hold(x, "a");
	add(x, "b", "a");
	fx_job_op(x, OP_APPROVE, "a", "pending");
	run(x, "a");
	run(x, "b");
}

static void test_moved_dependent_is_released_in_its_new_queue(void **state)
{
	struct fx *x = *state;
	struct m_set_priority p = { 0 };
	struct m_move move = { 0 };

	add(x, "a", NULL);
	add(x, "b", "a");
	fx_enqueue(x, "other", "q9");
	MSG_SET(&move, move, job_id, STR("b"));
	MSG_SET(&move, move, queue, STR("q9"));
	assert_int_equal(fx_do(x, OP_MOVE, &move, NULL), 0);
	expect_waiting(x, "b", 1);
	MSG_SET(&p, set_priority, job_id, STR("b"));
	MSG_SET(&p, set_priority, priority, PRIORITY_HIGH);
	assert_int_equal(fx_do(x, OP_PRIORITY, &p, NULL), 0);
	restart_both(x);
	run(x, "a");
	fx_expect(x, "q9", "b"); /* by its priority */
	fx_expect(x, "q9", "other");
	MSG_SET(&move, move, job_id, STR("b"));
	ack(x, "b");
}

/* Its place in d| is that of its creation, whatever its place in the queue. */
static void test_moved_dependent_that_ends_is_forgotten(void **state)
{
	struct fx *x = *state;
	struct m_move move = { 0 };

	add(x, "a", NULL);
	add(x, "b", "a");
	MSG_SET(&move, move, job_id, STR("b"));
	MSG_SET(&move, move, queue, STR("q9"));
	assert_int_equal(fx_do(x, OP_MOVE, &move, NULL), 0);
	fx_job_op(x, OP_CANCEL, "b", "cancelled");
	run(x, "a");
	fx_timeline(x, "b", "enqueued moved cancelled");
}

static void test_moved_parent_keeps_its_dependents(void **state)
{
	struct fx *x = *state;
	struct m_move move = { 0 };

	add(x, "a", NULL);
	add(x, "b", "a");
	MSG_SET(&move, move, job_id, STR("a"));
	MSG_SET(&move, move, queue, STR("q9"));
	assert_int_equal(fx_do(x, OP_MOVE, &move, NULL), 0);
	fx_expect(x, "q9", "a");
	ack(x, "a");
	run(x, "b");
}

/* --- ways an active parent ends, and does not --- */

static void test_parent_given_back_or_reclaimed_has_not_ended(void **state)
{
	struct fx *x = *state;
	struct m_fail back = { 0 };

	add(x, "a", NULL);
	fx_expect(x, "q", "a");
	add(x, "b", "a");
	MSG_SET(&back, fail, job_id, STR("a"));
	MSG_SET(&back, fail, requeue, true);
	assert_int_equal(fx_do(x, OP_FAIL, &back, NULL), 0);
	expect_waiting(x, "b", 1);
	fx_expect(x, "q", "a");
	x->now_ns += 120 * NS_PER_S;
	assert_int_equal(fx_maintain(x, OP_RECLAIM, 0, NULL), 1);
	expect_waiting(x, "b", 1);
	run(x, "a");
	run(x, "b");
}

static void test_ack_after_cancel_fails_dependents(void **state)
{
	struct fx *x = *state;

	add(x, "a", NULL);
	add(x, "b", "a");
	fx_expect(x, "q", "a");
	fx_job_op(x, OP_CANCEL, "a", "cancelling");
	expect_waiting(x, "b", 1);
	ack(x, "a");
	expect_error(x, "b", "dependency a failed: cancelled");
}

static void test_ack_batch_releases_dependents_of_all(void **state)
{
	struct fx *x = *state;
	struct m_ack_item items[2] = { 0 };
	struct m_ack_batch m = { 0 };

	add(x, "a", NULL);
	add(x, "b", NULL);
	add(x, "c", "a b");
	fx_expect(x, "q", "a");
	fx_expect(x, "q", "b");
	MSG_SET(&items[0], ack_item, job_id, STR("a"));
	MSG_SET(&items[1], ack_item, job_id, STR("b"));
	MSG_SET_LIST(&m, ack_batch, acks, items, 2);
	assert_int_equal(fx_do(x, OP_ACK_BATCH, &m, NULL), 0);
	run(x, "c");
}

/* --- many --- */

/* Parents, children and grandchildren in one queue, in several portions. */
static void test_deleting_a_queue_full_of_dependents(void **state)
{
	struct fx *x = *state;
	char id[32], dep[32];

	x->unchecked = true;
	add(x, "p", NULL);
	for (int i = 0; i < 1200; i++) {
		struct m_enqueue m;
		struct want w = { .id = id, .deps = i % 3 == 2 ? dep : "p" };

		(void)snprintf(id, sizeof(id), "c%05d", i);
		w.ignore = i % 2;
		fill(&w, &m);
		if (i % 5 == 0)
			MSG_SET(&m, enqueue, queue, STR("far"));
		enqueue(x, &m);
		memcpy(dep, id, sizeof(dep));
	}
	x->unchecked = false;
	queue_goes(x, OP_DELETE_QUEUE, "q");
	release_all(x);
	assert_false(fx_job_exists(x, "p"));
	expect_error(x, "c00000", "dependency p failed: deleted");
	expect_waiting(x, "c00015", 0);
	fx_expect_state(x, "c00015", JOB_PENDING);
}

static void
test_parent_deleted_while_its_dependents_are_being_told(void **state)
{
	struct fx *x = *state;
	char id[32];

	x->unchecked = true;
	add(x, "p", NULL);
	for (int i = 0; i < 1100; i++) {
		(void)snprintf(id, sizeof(id), "c%05d", i);
		add(x, id, "p");
	}
	run(x, "p");
	x->unchecked = false;
	fx_job_op(x, OP_DELETE, "p", "deleted");
	restart_both(x);
	fx_job_op(x, OP_CANCEL, "c01050", "cancelled");
	hold(x, "c01060");
	release_all(x);
	fx_expect_state(x, "c01099", JOB_PENDING);
	expect_waiting(x, "c01099", 0);
	fx_expect_state(x, "c01060", JOB_HELD);
	assert_int_equal(fx_job(x, "c01060")->waiting_on, 0);
}

#define TEST(t) cmocka_unit_test_setup_teardown(t, fx_setup, fx_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_failed_dependency_ends_batch_chain_and_lock),
		TEST(test_job_doomed_at_its_creation_counts_in_its_batch),
		TEST(test_expired_blocked_job_of_a_batch),
		TEST(test_retry_of_a_job_that_was_counted),
		TEST(test_purged_batch_of_a_job_that_lives_again),
		TEST(test_cancelled_scheduled_step_ends_its_chain),
		TEST(test_queue_deleted_while_a_chain_step_is_active),
		TEST(test_deleted_queue_gets_its_own_handlers_and_callback),
		TEST(test_step_waits_for_a_dependency_then_goes_on),
		TEST(test_cleared_blocked_jobs_tell_theirs),
		TEST(test_held_dependent_counts_down),
		TEST(test_held_dependent_dies_with_its_dependency),
		TEST(test_held_parent_is_no_end),
		TEST(test_moved_dependent_is_released_in_its_new_queue),
		TEST(test_moved_dependent_that_ends_is_forgotten),
		TEST(test_moved_parent_keeps_its_dependents),
		TEST(test_parent_given_back_or_reclaimed_has_not_ended),
		TEST(test_ack_after_cancel_fails_dependents),
		TEST(test_ack_batch_releases_dependents_of_all),
		TEST(test_deleting_a_queue_full_of_dependents),
		TEST(test_parent_deleted_while_its_dependents_are_being_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
