/* Retention: ended jobs, batches and keys go when their time is over. */
#include "fsm/core/state.h"
#include "fsm/job/job.h"
#include "fsm_fixture.h"

#define HOUR_NS (3600 * NS_PER_S)

static uint32_t purge(struct fx *x, uint64_t retention_ns, uint32_t limit,
		      bool *more)
{
	struct m_maintain m = { 0 };
	struct m_maintain_reply r;

	if (limit > 0)
		MSG_SET(&m, maintain, limit, limit);
	if (retention_ns > 0)
		MSG_SET(&m, maintain, retention_ns, retention_ns);
	assert_int_equal(fx_do(x, OP_PURGE, &m, &r), 0);
	if (more != NULL)
		*more = r.more;
	return r.count;
}

static void end_job(struct fx *x, const char *id, const char *queue)
{
	fx_enqueue(x, id, queue);
	fx_job_op(x, OP_CANCEL, id, "cancelled");
}

static void keep(struct fx *x, const char *queue, uint64_t retention_ns)
{
	struct m_set_queue m = { 0 };

	MSG_SET(&m, set_queue, queue, str_from(queue));
	MSG_SET(&m, set_queue, retention, retention_ns);
	assert_int_equal(fx_do(x, OP_SET_QUEUE, &m, NULL), 0);
}

static uint64_t due(struct fx *x, enum fx_side_id side, uint64_t retention_ns)
{
	return fsm_purge_due(x->side[side].f, retention_ns, 0);
}

static void test_ended_jobs_go_after_the_retention(void **state)
{
	struct fx *x = *state;
	bool more;

	end_job(x, "job_1", "q");
	fx_enqueue(x, "job_waits", "q");
	x->now_ns += HOUR_NS - 1;
	end_job(x, "job_2", "q");
	assert_int_equal(purge(x, HOUR_NS, 0, &more), 0);
	x->now_ns += 1;
	assert_int_equal(purge(x, HOUR_NS, 0, &more), 1);
	assert_false(more);
	assert_false(fx_job_exists(x, "job_1"));
	assert_true(fx_job_exists(x, "job_2"));
	x->now_ns += 100 * HOUR_NS;
	assert_int_equal(purge(x, HOUR_NS, 0, &more), 1);
	assert_true(fx_job_exists(x, "job_waits")); /* it has not ended */
	fx_expect(x, "q", "job_waits");
}

static void test_a_queue_may_keep_jobs_longer_shorter_and_for_ever(void **state)
{
	struct fx *x = *state;

	keep(x, "short", 60 * NS_PER_S);
	keep(x, "long", 10 * HOUR_NS);
	keep(x, "ever", 0);
	end_job(x, "job_s", "short");
	end_job(x, "job_l", "long");
	end_job(x, "job_e", "ever");
	end_job(x, "job_d", "default");
	x->now_ns += 61 * NS_PER_S;
	assert_int_equal(purge(x, HOUR_NS, 0, NULL), 1);
	assert_false(fx_job_exists(x, "job_s"));
	x->now_ns += 2 * HOUR_NS;
	assert_int_equal(purge(x, HOUR_NS, 0, NULL), 1);
	assert_false(fx_job_exists(x, "job_d"));
	x->now_ns += 10 * HOUR_NS;
	assert_int_equal(purge(x, HOUR_NS, 0, NULL), 1);
	assert_false(fx_job_exists(x, "job_l"));
	x->now_ns += 10000 * HOUR_NS;
	assert_int_equal(purge(x, HOUR_NS, 0, NULL), 0);
	assert_int_equal(due(x, FX_MEM, HOUR_NS), 0);
	keep(x, "ever", HOUR_NS);
	assert_int_equal(purge(x, HOUR_NS, 0, NULL), 1);
	assert_false(fx_job_exists(x, "job_e"));
}

static void test_without_a_general_retention_jobs_stay(void **state)
{
	struct fx *x = *state;

	end_job(x, "job_1", "q");
	x->now_ns += 100000 * HOUR_NS;
	assert_int_equal(due(x, FX_MEM, 0), 0);
	assert_int_equal(purge(x, 0, 0, NULL), 0);
	assert_true(fx_job_exists(x, "job_1"));
}

static void test_purge_goes_in_portions(void **state)
{
	struct fx *x = *state;
	char id[16];
	bool more;

	for (int i = 0; i < 7; i++) {
		(void)snprintf(id, sizeof(id), "job_%d", i);
		end_job(x, id, i % 2 ? "a" : "b");
		x->now_ns += NS_PER_S;
	}
	x->now_ns += HOUR_NS;
	assert_int_equal(purge(x, HOUR_NS, 3, &more), 3);
	assert_true(more);
	assert_false(fx_job_exists(x, "job_0"));
	assert_true(fx_job_exists(x, "job_6"));
	fx_restart(x, FX_MEM); /* the bounds of the other side are older */
	assert_int_equal(purge(x, HOUR_NS, 3, &more), 3);
	assert_true(more);
	assert_int_equal(purge(x, HOUR_NS, 3, &more), 1);
	assert_false(more);
}

static void test_purge_is_due_when_the_first_retention_is_over(void **state)
{
	struct fx *x = *state;
	uint64_t ended = x->now_ns;

	assert_int_equal(due(x, FX_MEM, HOUR_NS), 0);
	end_job(x, "job_1", "q");
	/* a little late, so that one entry serves many jobs */
	assert_true(due(x, FX_MEM, HOUR_NS) >= ended + HOUR_NS);
	assert_true(due(x, FX_MEM, HOUR_NS) <= ended + HOUR_NS + 10 * NS_PER_S);
	keep(x, "q", NS_PER_S);
	assert_true(due(x, FX_MEM, HOUR_NS) <= ended + 2 * NS_PER_S);
	for (int side = 0; side < FX_SIDES; side++) {
		uint64_t before = due(x, side, HOUR_NS);

		fx_restart(x, side);
		assert_int_equal(due(x, side, HOUR_NS), before);
	}
	x->now_ns += 2 * NS_PER_S;
	assert_int_equal(purge(x, HOUR_NS, 0, NULL), 1);
	assert_int_equal(due(x, FX_MEM, HOUR_NS), 0);
}

static void test_a_retried_job_is_no_longer_to_be_purged(void **state)
{
	struct fx *x = *state;

	end_job(x, "job_1", "q");
	fx_job_op(x, OP_RETRY, "job_1", "retried");
	x->now_ns += 2 * HOUR_NS;
	assert_int_equal(purge(x, HOUR_NS, 0, NULL), 0);
	assert_int_equal(due(x, FX_MEM, HOUR_NS), 0);
	fx_job_op(x, OP_CANCEL, "job_1", "cancelled");
	x->now_ns += HOUR_NS;
	assert_int_equal(purge(x, HOUR_NS, 0, NULL), 1);
	assert_false(fx_job_exists(x, "job_1"));
}

static void test_errors_go_with_their_job(void **state)
{
	struct m_fail f = { 0 };
	struct fx *x = *state;

	fx_enqueue(x, "job_1", "q");
	fx_expect(x, "q", "job_1");
	MSG_SET(&f, fail, job_id, STR("job_1"));
	MSG_SET(&f, fail, error, STR("no"));
	MSG_SET(&f, fail, retry, false);
	assert_int_equal(fx_do(x, OP_FAIL, &f, NULL), 0);
	x->now_ns += HOUR_NS;
	assert_int_equal(purge(x, HOUR_NS, 0, NULL), 1); /* je| is checked */
	assert_false(fx_job_exists(x, "job_1"));
}

static bool has_key(struct fx *x, enum fx_side_id side, const struct key *k)
{
	struct buf b = BUF_INIT(0);
	int r = kv_get(x->side[side].kv, key_str(k), &b);

	assert_true(r >= 0);
	buf_done(&b);
	return r > 0;
}

static bool batch_is_there(struct fx *x, const char *id)
{
	struct key k;

	key_batch(&k, str_from(id));
	return has_key(x, FX_MEM, &k);
}

static void restart(struct fx *x)
{
	for (int side = 0; side < FX_SIDES; side++)
		fx_restart(x, side);
}

static void test_ended_batches_go_after_the_general_retention(void **state)
{
	struct m_batch_options o = { 0 };
	struct m_enqueue_batch b = { 0 };
	struct m_enqueue e = { 0 };
	struct fx *x = *state;

	keep(x, "q", 0); /* its jobs stay, and say nothing of the batch */
	MSG_SET(&e, enqueue, job_id, STR("job_1"));
	MSG_SET(&e, enqueue, queue, STR("q"));
	MSG_SET_LIST(&b, enqueue_batch, jobs, &e, 1);
	MSG_SET(&b, enqueue_batch, batch, &o);
	MSG_SET(&b, enqueue_batch, batch_id, STR("batch_1"));
	assert_int_equal(fx_do(x, OP_ENQUEUE_BATCH, &b, NULL), 0);
	x->now_ns += 2 * HOUR_NS;
	assert_int_equal(purge(x, HOUR_NS, 0, NULL), 0); /* not ended */
	fx_job_op(x, OP_CANCEL, "job_1", "cancelled");
	assert_true(due(x, FX_MEM, HOUR_NS) >= x->now_ns + HOUR_NS);
	assert_int_equal(due(x, FX_MEM, 0), 0);
	x->now_ns += HOUR_NS;
	restart(x);
	assert_int_equal(purge(x, HOUR_NS, 0, NULL), 1);
	assert_false(batch_is_there(x, "batch_1"));
	assert_true(fx_job_exists(x, "job_1"));
	assert_int_equal(due(x, FX_ROCKS, HOUR_NS), 0);
}

/* --- open batches --- */

static void open_batch(struct fx *x, const char *id, const char *parent)
{
	struct m_open_batch m = { 0 };

	MSG_SET(&m, open_batch, batch_id, str_from(id));
	MSG_SET(&m, open_batch, callback_queue, STR("done"));
	MSG_SET(&m, open_batch, callback_payload, STR("{\"a\":1}"));
	if (parent != NULL)
		MSG_SET(&m, open_batch, parent_id, str_from(parent));
	assert_int_equal(fx_do(x, OP_OPEN_BATCH, &m, NULL), 0);
}

static int seal(struct fx *x, const char *id)
{
	struct m_batch_ref m = { 0 };

	MSG_SET(&m, batch_ref, batch_id, str_from(id));
	return fx_do(x, OP_SEAL_BATCH, &m, NULL);
}

static void add_to(struct fx *x, const char *batch, const char *job)
{
	struct m_enqueue e = fx_new(job, "q");

	MSG_SET(&e, enqueue, batch_id, str_from(batch));
	assert_int_equal(fx_do(x, OP_ENQUEUE, &e, NULL), 0);
}

static void test_an_open_batch_nobody_seals_goes_after_the_retention(void **s)
{
	struct fx *x = *s;
	struct key k;

	open_batch(x, "batch_1", NULL);
	assert_true(due(x, FX_MEM, HOUR_NS) >= x->now_ns + HOUR_NS);
	assert_int_equal(due(x, FX_MEM, 0), 0);
	x->now_ns += HOUR_NS - 1;
	assert_int_equal(purge(x, HOUR_NS, 0, NULL), 0);
	x->now_ns++;
	assert_int_equal(purge(x, 0, 0, NULL), 0); /* kept for ever */
	restart(x);
	assert_int_equal(purge(x, HOUR_NS, 0, NULL), 1);
	assert_false(batch_is_there(x, "batch_1"));
	key_batch_payload(&k, STR("batch_1"));
	assert_false(has_key(x, FX_MEM, &k));
	assert_int_equal(seal(x, "batch_1"), ERR_NOT_FOUND);
	fx_expect_none(x, "done");
	assert_int_equal(due(x, FX_ROCKS, HOUR_NS), 0);
}

static void test_a_change_keeps_an_open_batch_for_another_retention(void **s)
{
	struct fx *x = *s;

	keep(x, "q", 0);
	open_batch(x, "batch_1", NULL);
	x->now_ns += HOUR_NS / 2;
	add_to(x, "batch_1", "job_1");
	fx_job_op(x, OP_CANCEL, "job_1", "cancelled");
	x->now_ns += HOUR_NS / 2;
	assert_int_equal(purge(x, HOUR_NS, 0, NULL), 0);
	restart(x);
	assert_true(due(x, FX_ROCKS, HOUR_NS) >= x->now_ns + HOUR_NS / 2);
	x->now_ns += HOUR_NS / 2;
	assert_int_equal(purge(x, HOUR_NS, 0, NULL), 1);
	assert_false(batch_is_there(x, "batch_1"));
	assert_true(fx_job_exists(x, "job_1"));
}

static void test_an_open_batch_stays_while_a_job_of_it_lives(void **state)
{
	struct fx *x = *state;
	bool more;

	keep(x, "q", 0);
	open_batch(x, "batch_1", NULL);
	add_to(x, "batch_1", "job_1");
	for (int i = 0; i < 3; i++) {
		x->now_ns += 2 * HOUR_NS;
		assert_int_equal(purge(x, HOUR_NS, 0, &more), 0);
		assert_false(more);
		assert_true(due(x, FX_MEM, HOUR_NS) > x->now_ns);
	}
	fx_job_op(x, OP_CANCEL, "job_1", "cancelled");
	x->now_ns += HOUR_NS - 1;
	assert_int_equal(purge(x, HOUR_NS, 0, NULL), 0);
	x->now_ns++;
	assert_int_equal(purge(x, HOUR_NS, 0, NULL), 1);
	assert_true(fx_job_exists(x, "job_1"));
}

static void test_a_parent_counts_a_batch_nobody_sealed_as_failed(void **state)
{
	struct fx *x = *state;
	struct m_fetched job;

	open_batch(x, "top", NULL);
	open_batch(x, "low", "top");
	assert_int_equal(seal(x, "top"), 0);
	x->now_ns += HOUR_NS;
	assert_int_equal(purge(x, HOUR_NS, 0, NULL), 1);
	assert_false(batch_is_there(x, "low"));
	assert_true(batch_is_there(x, "top")); /* it has ended just now */
	assert_true(fx_fetch(x, "done", &job));
	assert_str_is(job.payload, "{\"a\":1,\"batch\":{\"id\":\"top\","
				   "\"total\":1,\"succeeded\":0,"
				   "\"failed\":1}}");
}

static void test_open_batches_go_in_portions(void **state)
{
	struct fx *x = *state;
	bool more;

	for (int i = 0; i < 5; i++) {
		char id[32];

		(void)snprintf(id, sizeof(id), "batch_%d", i);
		open_batch(x, id, NULL);
	}
	x->now_ns += HOUR_NS;
	assert_int_equal(purge(x, HOUR_NS, 2, &more), 2);
	assert_true(more);
	restart(x);
	assert_int_equal(purge(x, HOUR_NS, 2, &more), 2);
	assert_true(more);
	assert_int_equal(purge(x, HOUR_NS, 2, &more), 1);
	assert_false(more);
}

/* A full portion still knows that there is no more, restarted or not. */
static void test_a_sealed_batch_is_no_more_to_be_purged(void **state)
{
	struct fx *x = *state;
	bool more;

	open_batch(x, "batch_1", NULL);
	add_to(x, "batch_1", "job_1");
	assert_int_equal(seal(x, "batch_1"), 0);
	fx_enqueue(x, "job_2", "q");
	fx_job_op(x, OP_CANCEL, "job_2", "cancelled");
	x->now_ns += HOUR_NS;
	fx_restart(x, FX_ROCKS);
	assert_int_equal(purge(x, HOUR_NS, 1, &more), 1);
	assert_false(more);
}

static void test_idempotency_keys_go_after_their_end(void **state)
{
	struct m_enqueue e = { 0 };
	struct fx *x = *state;
	struct key k;
	bool more;

	for (int i = 0; i < 3; i++) {
		char id[16], name[16];

		(void)snprintf(id, sizeof(id), "job_%d", i);
		(void)snprintf(name, sizeof(name), "key_%d", i);
		MSG_SET(&e, enqueue, job_id, str_from(id));
		MSG_SET(&e, enqueue, queue, STR("q"));
		MSG_SET(&e, enqueue, idempotency_key, str_from(name));
		MSG_SET(&e, enqueue, idempotency_hash, 7);
		assert_int_equal(fx_do(x, OP_ENQUEUE, &e, NULL), 0);
	}
	key_idempotency(&k, SPACE_DEFAULT, STR("key_0"));
	x->now_ns += 23 * HOUR_NS;
	assert_int_equal(purge(x, 0, 0, NULL), 0);
	assert_true(has_key(x, FX_MEM, &k));
	assert_true(due(x, FX_MEM, 0) > x->now_ns);
	x->now_ns += 2 * HOUR_NS;
	assert_int_equal(purge(x, 0, 2, &more), 2);
	assert_true(more);
	assert_int_equal(purge(x, 0, 2, &more), 1);
	assert_false(more);
	assert_false(has_key(x, FX_MEM, &k));
	assert_int_equal(due(x, FX_MEM, 0), 0);
	assert_true(fx_job_exists(x, "job_0"));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, fx_setup, fx_teardown)
	const struct CMUnitTest tests[] = {
		T(test_ended_jobs_go_after_the_retention),
		T(test_a_queue_may_keep_jobs_longer_shorter_and_for_ever),
		T(test_without_a_general_retention_jobs_stay),
		T(test_purge_goes_in_portions),
		T(test_purge_is_due_when_the_first_retention_is_over),
		T(test_a_retried_job_is_no_longer_to_be_purged),
		T(test_errors_go_with_their_job),
		T(test_ended_batches_go_after_the_general_retention),
		T(test_an_open_batch_nobody_seals_goes_after_the_retention),
		T(test_a_change_keeps_an_open_batch_for_another_retention),
		T(test_an_open_batch_stays_while_a_job_of_it_lives),
		T(test_a_parent_counts_a_batch_nobody_sealed_as_failed),
		T(test_open_batches_go_in_portions),
		T(test_a_sealed_batch_is_no_more_to_be_purged),
		T(test_idempotency_keys_go_after_their_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
