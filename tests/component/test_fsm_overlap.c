/*
 * A schedule whose last job has not ended: what becomes of that one and of the
 * next, and of both when there is no room for the next.
 */
#include "schedule_world.h"

static void test_overlap_skip(void **state)
{
	struct fx *x = *state;
	struct m_schedule m = definition("sch_1", "a");
	struct m_fire f;

	MSG_SET(&m, schedule, overlap, OVERLAP_SKIP);
	create(x, &m);
	fire(x, "a", "job_1");
	f = plan(x, "a", "job_2");
	expect_fire(x, &f, "skipped", "overlap"); /* it waits */
	last_events(x, 1, "schedule_skipped");
	fx_expect(x, "q", "job_1");
	f = plan(x, "a", "job_2");
	expect_fire(x, &f, "skipped", "overlap"); /* it runs */
	assert_int_equal(get(x, "a").runs, 1);
	fx_job_op(x, OP_DELETE, "job_1", "deleted");
	fire(x, "a", "job_2");
	fx_job_op(x, OP_CANCEL, "job_2", "cancelled");
	fire(x, "a", "job_3");
}

static void test_overlap_cancel_previous(void **state)
{
	struct fx *x = *state;
	struct m_schedule m = definition("sch_1", "a");

	MSG_SET(&m, schedule, overlap, OVERLAP_CANCEL_PREVIOUS);
	create(x, &m);
	fire(x, "a", "job_1");
	fire(x, "a", "job_2");
	fx_expect_state(x, "job_1", JOB_CANCELLED);
	fx_expect(x, "q", "job_2");
	fire(x, "a", "job_3");
	fx_expect_state(x, "job_2", JOB_ACTIVE);
	assert_true(fx_job(x, "job_2")->cancel_requested);
	fx_expect_state(x, "job_3", JOB_PENDING);
}

static void test_overlap_allow(void **state)
{
	struct fx *x = *state;
	struct m_schedule m = definition("sch_1", "a");

	create(x, &m);
	fire(x, "a", "job_1");
	fire(x, "a", "job_2");
	fx_expect_state(x, "job_1", JOB_PENDING);
	fx_expect_state(x, "job_2", JOB_PENDING);
}

static void test_unique_key_of_the_job_applies(void **state)
{
	struct fx *x = *state;
	struct m_schedule m = definition("sch_1", "a");
	struct m_schedule_job job = { 0 };
	struct m_fire f;

	MSG_SET(&job, schedule_job, unique_key, STR("k"));
	MSG_SET(&m, schedule, job, &job);
	create(x, &m);
	fire(x, "a", "job_1");
	f = plan(x, "a", "job_2");
	expect_fire(x, &f, "skipped", "unique_key");
	assert_int_equal(get(x, "a").runs, 1);
	fx_job_op(x, OP_CANCEL, "job_1", "cancelled");
	fire(x, "a", "job_2");
}

/* --- cancel_previous: nothing is half done --- */

static void cancels_previous(struct fx *x, const struct m_schedule_job *job)
{
	struct m_schedule m = definition("sch_1", "a");

	MSG_SET(&m, schedule, overlap, OVERLAP_CANCEL_PREVIOUS);
	if (job != NULL)
		MSG_SET(&m, schedule, job, (struct m_schedule_job *)job);
	create(x, &m);
}

static void skips(struct fx *x, const char *job, const char *reason)
{
	struct m_fire f = plan(x, "a", job);

	expect_fire(x, &f, "skipped", reason);
}

static void test_the_previous_stays_when_the_queue_is_full(void **state)
{
	struct fx *x = *state;

	cancels_previous(x, NULL);
	fire(x, "a", "job_1");
	fx_enqueue(x, "job_x", "q");
	fx_cap(x, "q", 1); /* two wait */
	skips(x, "job_2", "queue_full");
	fx_expect_state(x, "job_1", JOB_PENDING);
	fx_cap(x, "q", 2); /* its place is room enough */
	fire(x, "a", "job_2");
	fx_expect_state(x, "job_1", JOB_CANCELLED);
}

static void test_an_active_previous_stays_when_the_queue_is_full(void **state)
{
	struct fx *x = *state;

	cancels_previous(x, NULL);
	fire(x, "a", "job_1");
	fx_expect(x, "q", "job_1");
	fx_enqueue(x, "job_x", "q");
	fx_cap(x, "q", 1);
	skips(x, "job_2", "queue_full");
	assert_false(fx_job(x, "job_1")->cancel_requested);
}

static void test_the_place_of_the_previous_in_another_queue_is_no_room(void **s)
{
	struct m_move move = { 0 };
	struct fx *x = *s;

	cancels_previous(x, NULL);
	fire(x, "a", "job_1");
	fx_enqueue(x, "job_x", "q");
	MSG_SET(&move, move, job_id, STR("job_1"));
	MSG_SET(&move, move, queue, STR("other"));
	assert_int_equal(fx_do(x, OP_MOVE, &move, NULL), 0);
	fx_cap(x, "q", 1);
	skips(x, "job_2", "queue_full");
	fx_expect_state(x, "job_1", JOB_PENDING);
}

static void test_the_previous_stays_when_another_holds_the_key(void **state)
{
	struct m_schedule_job job = { 0 };
	struct m_enqueue e = { 0 };
	struct fx *x = *state;

	MSG_SET(&job, schedule_job, unique_key, STR("k"));
	MSG_SET(&job, schedule_job, unique_period, NS_PER_S);
	cancels_previous(x, &job);
	fire(x, "a", "job_1");
	x->now_ns += 2 * NS_PER_S; /* its period is over */
	MSG_SET(&e, enqueue, job_id, STR("job_x"));
	MSG_SET(&e, enqueue, queue, STR("q"));
	MSG_SET(&e, enqueue, unique_key, STR("k"));
	MSG_SET(&e, enqueue, unique_period, 3600 * NS_PER_S);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &e, NULL), 0);
	skips(x, "job_2", "unique_key");
	fx_expect_state(x, "job_1", JOB_PENDING);
}

static void test_a_waiting_previous_gives_its_key_to_the_next(void **state)
{
	struct m_schedule_job job = { 0 };
	struct fx *x = *state;

	MSG_SET(&job, schedule_job, unique_key, STR("k"));
	cancels_previous(x, &job);
	fx_cap(x, "q", 1);
	fire(x, "a", "job_1");
	fire(x, "a", "job_2");
	fx_expect_state(x, "job_1", JOB_CANCELLED);
	fx_expect(x, "q", "job_2");
}

/* Only its end frees the key, so it is asked to end; the next time works. */
static void test_an_active_previous_that_holds_the_key_is_cancelled(void **s)
{
	struct m_schedule_job job = { 0 };
	struct m_ack ack = { 0 };
	struct fx *x = *s;

	MSG_SET(&job, schedule_job, unique_key, STR("k"));
	cancels_previous(x, &job);
	fire(x, "a", "job_1");
	fx_expect(x, "q", "job_1");
	skips(x, "job_2", "unique_key");
	assert_true(fx_job(x, "job_1")->cancel_requested);
	MSG_SET(&ack, ack, job_id, STR("job_1"));
	assert_int_equal(fx_do(x, OP_ACK, &ack, NULL), 0);
	fire(x, "a", "job_2");
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fx_setup, fx_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_overlap_skip),
		TEST(test_overlap_cancel_previous),
		TEST(test_overlap_allow),
		TEST(test_unique_key_of_the_job_applies),
		TEST(test_the_previous_stays_when_the_queue_is_full),
		TEST(test_an_active_previous_stays_when_the_queue_is_full),
		TEST(
		    test_the_place_of_the_previous_in_another_queue_is_no_room),
		TEST(test_the_previous_stays_when_another_holds_the_key),
		TEST(test_a_waiting_previous_gives_its_key_to_the_next),
		TEST(test_an_active_previous_that_holds_the_key_is_cancelled),
	};

	return cmocka_run_group_tests_name("fsm_overlap", tests, NULL, NULL);
}
