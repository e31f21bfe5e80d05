/*
 * How many queues there may be, and what becomes of those nobody needs.
 */
#include "fsm/core/state.h"
#include "fsm/order/queue.h"
#include "schedule_world.h"

#define HOUR (3600 * NS_PER_S)
#define TOO_MANY(name, max)                                               \
	"queue \"" name "\" would be one more than the " max              \
	" that max_queues allows; delete queues that are not needed, or " \
	"try again after retry_after_ms"

static void set_max(struct fx *x, uint64_t max)
{
	struct m_limits m = { 0 };

	MSG_SET(&m, limits, max_queues, max);
	assert_int_equal(fx_do(x, OP_SET_LIMITS, &m, NULL), 0);
	assert_int_equal(fsm_max_queues(x->side[FX_ROCKS].f), max);
}

static bool exists(struct fx *x, const char *name)
{
	struct m_queue a, b;
	bool is = fsm_queue(x->side[FX_MEM].f, str_from(name), &a);

	assert_int_equal(fsm_queue(x->side[FX_ROCKS].f, str_from(name), &b),
			 is);
	return is;
}

static void delete_queue(struct fx *x, const char *name)
{
	struct m_clear_queue m = { 0 };
	struct m_clear_queue_reply r;

	MSG_SET(&m, clear_queue, queue, str_from(name));
	assert_int_equal(fx_do(x, OP_DELETE_QUEUE, &m, &r), 0);
	assert_false(r.more);
}

/* --- the limit --- */

static void test_one_queue_too_many_is_refused(void **state)
{
	struct fx *x = *state;
	struct m_enqueue third = fx_new("job_3", "c");

	set_max(x, 2);
	fx_enqueue(x, "job_1", "a");
	fx_enqueue(x, "job_2", "b");
	fx_refused(x, OP_ENQUEUE, &third, ERR_QUEUE_LIMIT, TOO_MANY("c", "2"));
	fx_enqueue(x, "job_4", "a"); /* into those there are */
	fx_restart(x, FX_ROCKS);     /* the limit is kept */
	fx_refused(x, OP_ENQUEUE, &third, ERR_QUEUE_LIMIT, TOO_MANY("c", "2"));
	delete_queue(x, "b");
	assert_int_equal(fx_do(x, OP_ENQUEUE, &third, NULL), 0);
	set_max(x, 0);
	fx_enqueue(x, "job_5", "d");
}

static void test_a_batch_counts_each_new_name_once(void **state)
{
	struct fx *x = *state;
	struct m_enqueue jobs[4] = { fx_new("job_1", "a"), fx_new("job_2", "a"),
				     fx_new("job_3", "b"),
				     fx_new("job_4", "c") };
	struct m_enqueue_batch m = { 0 };

	set_max(x, 2);
	MSG_SET_LIST(&m, enqueue_batch, jobs, jobs, 4);
	fx_refused(x, OP_ENQUEUE_BATCH, &m, ERR_QUEUE_LIMIT,
		   TOO_MANY("c", "2"));
	MSG_SET_LIST(&m, enqueue_batch, jobs, jobs, 3);
	assert_int_equal(fx_do(x, OP_ENQUEUE_BATCH, &m, NULL), 0);
	assert_true(exists(x, "a") && exists(x, "b") && !exists(x, "c"));
}

/* Everything by which a client can name a queue. */
static void test_every_way_to_name_a_queue_is_asked(void **state)
{
	struct fx *x = *state;
	struct m_move move = { 0 };
	struct m_queue_ref ref = { 0 };
	struct m_set_queue set = { 0 };
	struct m_open_batch batch = { 0 };
	struct m_bulk_act act = { 0 };
	struct m_bulk_create bulk = { 0 };
	struct m_schedule schedule = definition("sch_1", "s");
	struct str id = STR("job_1");

	fx_enqueue(x, "job_1", "a");
	set_max(x, 1);
	MSG_SET(&move, move, job_id, id);
	MSG_SET(&move, move, queue, STR("b"));
	fx_refused(x, OP_MOVE, &move, ERR_QUEUE_LIMIT, TOO_MANY("b", "1"));
	MSG_SET(&ref, queue_ref, queue, STR("b"));
	fx_refused(x, OP_PAUSE, &ref, ERR_QUEUE_LIMIT, TOO_MANY("b", "1"));
	MSG_SET(&set, set_queue, queue, STR("b"));
	MSG_SET(&set, set_queue, max_concurrency, 1);
	fx_refused(x, OP_SET_QUEUE, &set, ERR_QUEUE_LIMIT, TOO_MANY("b", "1"));
	MSG_SET(&batch, open_batch, batch_id, STR("batch_1"));
	MSG_SET(&batch, open_batch, callback_queue, STR("b"));
	fx_refused(x, OP_OPEN_BATCH, &batch, ERR_QUEUE_LIMIT,
		   TOO_MANY("b", "1"));
	MSG_SET(&act, bulk_act, action, BULK_MOVE);
	MSG_SET(&act, bulk_act, move_to_queue, STR("b"));
	MSG_SET_LIST(&act, bulk_act, job_ids, &id, 1);
	fx_refused(x, OP_BULK_ACT, &act, ERR_QUEUE_LIMIT, TOO_MANY("b", "1"));
	MSG_SET(&bulk, bulk_create, bulk_id, STR("bulk_1"));
	MSG_SET(&bulk, bulk_create, action, BULK_MOVE);
	MSG_SET(&bulk, bulk_create, move_to_queue, STR("b"));
	fx_refused(x, OP_BULK_CREATE, &bulk, ERR_QUEUE_LIMIT,
		   TOO_MANY("b", "1"));
	fx_refused(x, OP_SET_SCHEDULE, &schedule, ERR_QUEUE_LIMIT,
		   TOO_MANY("q", "1"));
	assert_false(exists(x, "b"));
	fx_expect_state(x, "job_1", JOB_PENDING);
}

/* Its queue was forgotten since: there may be no room any more. */
static void test_a_schedule_skips_its_time_at_the_limit(void **state)
{
	struct fx *x = *state;
	struct m_schedule m = definition("sch_1", "s");
	struct m_fire f;

	create(x, &m);
	fx_enqueue(x, "job_1", "a");
	set_max(x, 1);
	f = plan(x, "s", "job_2");
	expect_fire(x, &f, "skipped", "queue_limit");
	assert_false(exists(x, "q"));
	set_max(x, 2);
	f = plan(x, "s", "job_2");
	expect_fire(x, &f, "created", NULL);
	fx_expect(x, "q", "job_2");
}

/* Named when there was room; what was accepted is carried out. */
static void test_the_next_step_of_a_chain_is_made_at_the_limit(void **state)
{
	struct fx *x = *state;
	struct m_chain_step steps[2] = { 0 };
	struct m_chain c = { 0 };
	struct m_enqueue m = fx_new("job_1", "a");
	struct m_ack ack = { 0 };

	MSG_SET(&steps[0], chain_step, queue, STR("a"));
	MSG_SET(&steps[1], chain_step, queue, STR("b"));
	MSG_SET_LIST(&c, chain, steps, steps, 2);
	MSG_SET(&m, enqueue, chain_id, m.job_id);
	MSG_SET(&m, enqueue, chain, &c);
	set_max(x, 1);
	fx_refused(x, OP_ENQUEUE, &m, ERR_QUEUE_LIMIT, TOO_MANY("b", "1"));
	set_max(x, 2);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
	set_max(x, 1);
	fx_expect(x, "a", "job_1");
	MSG_SET(&ack, ack, job_id, STR("job_1"));
	assert_int_equal(fx_do(x, OP_ACK, &ack, NULL), 0);
	assert_true(exists(x, "b"));
}

/* --- idle ones --- */

static uint32_t purge(struct fx *x, uint64_t idle_ns, bool *more)
{
	struct m_maintain m = { 0 };
	struct m_maintain_reply r;

	MSG_SET(&m, maintain, idle_ns, idle_ns);
	assert_int_equal(fx_do(x, OP_PURGE, &m, &r), 0);
	*more = r.more;
	return r.count;
}

static void make_empty(struct fx *x, const char *name)
{
	fx_enqueue(x, "job_x", name);
	fx_job_op(x, OP_DELETE, "job_x", "deleted");
	assert_true(exists(x, name));
}

static void test_idle_queues_are_forgotten(void **state)
{
	struct fx *x = *state;
	struct m_set_queue set = { 0 };
	bool more;

	make_empty(x, "empty");
	fx_enqueue(x, "job_1", "used");
	make_empty(x, "paused");
	fx_queue_op(x, OP_PAUSE, "paused");
	MSG_SET(&set, set_queue, queue, STR("set"));
	MSG_SET(&set, set_queue, max_concurrency, 1);
	assert_int_equal(fx_do(x, OP_SET_QUEUE, &set, NULL), 0);
	x->now_ns += HOUR - 1;
	fx_restart(x, FX_ROCKS); /* since when they are idle is kept */
	assert_int_equal(purge(x, HOUR, &more), 0);
	assert_int_equal(fsm_purge_due(x->side[FX_ROCKS].f, 0, 0), 0);
	assert_in_range(fsm_purge_due(x->side[FX_ROCKS].f, 0, HOUR),
			x->now_ns + 1, x->now_ns + HOUR);
	x->now_ns += 1;
	assert_int_equal(purge(x, 0, &more), 0); /* never */
	assert_int_equal(purge(x, HOUR, &more), 1);
	assert_false(more);
	assert_false(exists(x, "empty"));
	assert_true(exists(x, "used") && exists(x, "paused") &&
		    exists(x, "set"));
	fx_enqueue(x, "job_2", "empty"); /* naming it makes it again */
	fx_expect(x, "empty", "job_2");
}

/* What is done to it counts as use. */
static void test_a_queue_that_is_used_again_is_not_idle(void **state)
{
	struct fx *x = *state;
	bool more;

	make_empty(x, "q");
	x->now_ns += HOUR / 2;
	make_empty(x, "q");
	x->now_ns += HOUR / 2;
	assert_int_equal(purge(x, HOUR, &more), 0);
	fx_queue_op(x, OP_PAUSE, "q");
	fx_queue_op(x, OP_RESUME, "q");
	x->now_ns += HOUR / 2;
	assert_int_equal(purge(x, HOUR, &more), 0);
	x->now_ns += HOUR / 2;
	assert_int_equal(purge(x, HOUR, &more), 1);
	assert_false(exists(x, "q"));
}

static void test_a_queue_used_in_the_same_entry_stays(void **state)
{
	struct fx *x = *state;
	struct m_enqueue e = fx_new("job_1", "q");
	struct m_queue_ref ref = { 0 };
	struct m_maintain m = { 0 };

	make_empty(x, "q");
	make_empty(x, "p");
	x->now_ns += HOUR;
	MSG_SET(&ref, queue_ref, queue, STR("p"));
	MSG_SET(&m, maintain, idle_ns, HOUR);
	fx_begin(x);
	fx_add(x, OP_ENQUEUE, 0, &e);
	fx_add(x, OP_PAUSE, 0, &ref);
	fx_add(x, OP_PURGE, 0, &m);
	fx_commit(x);
	assert_true(exists(x, "p"));
	fx_expect(x, "q", "job_1");
}

/* One entry forgets it, and what comes behind in it makes it again. */
static void test_a_queue_forgotten_in_an_entry_comes_again_in_it(void **state)
{
	struct fx *x = *state;
	struct m_enqueue e = fx_new("job_1", "q");
	struct m_maintain m = { 0 };
	struct m_queue q;

	make_empty(x, "q");
	x->now_ns += HOUR;
	MSG_SET(&m, maintain, idle_ns, HOUR);
	fx_begin(x);
	fx_add(x, OP_PURGE, 0, &m);
	fx_add(x, OP_ENQUEUE, 0, &e);
	fx_commit(x);
	assert_true(fsm_queue(x->side[FX_ROCKS].f, STR("q"), &q));
	assert_int_equal(q.created_at, x->now_ns);
	assert_int_equal(q.enqueued, 1);
	fx_expect(x, "q", "job_1");
}

/* The totals of all queues are those of the jobs there are. */
static void test_totals_are_right_when_queues_go_and_come(void **state)
{
	struct fx *x = *state;
	const uint64_t *jobs = x->side[FX_MEM].f->jobs;
	bool more;

	fx_enqueue(x, "job_1", "other");
	for (int i = 0; i < 3; i++) {
		make_empty(x, "q");
		x->now_ns += HOUR;
		assert_int_equal(purge(x, HOUR, &more), 1);
		assert_int_equal(x->side[FX_MEM].f->queues.n, 1);
		fx_enqueue(x, "job_2", "q");
		assert_int_equal(jobs[JOB_PENDING], 2);
		fx_job_op(x, OP_CANCEL, "job_2", "cancelled");
		assert_int_equal(jobs[JOB_CANCELLED], 1);
		fx_job_op(x, OP_DELETE, "job_2", "deleted");
		assert_int_equal(jobs[JOB_CANCELLED], 0);
		assert_int_equal(jobs[JOB_PENDING], 1);
	}
}

static void test_idle_queues_go_in_portions(void **state)
{
	struct fx *x = *state;
	bool more;

	x->unchecked = true;
	for (int i = 0; i < 1200; i++) {
		struct m_queue_ref m = { 0 };
		char name[16];

		(void)snprintf(name, sizeof(name), "q%d", i);
		MSG_SET(&m, queue_ref, queue, str_from(name));
		assert_int_equal(fx_do(x, OP_RESUME, &m, NULL), 0);
	}
	x->now_ns += HOUR;
	assert_int_equal(purge(x, HOUR, &more), 1000);
	assert_true(more);
	x->unchecked = false;
	fx_restart(x, FX_ROCKS);
	assert_int_equal(purge(x, HOUR, &more), 200);
	assert_false(more);
	assert_int_equal(x->side[FX_MEM].f->queues.n, 0);
}

/* --- groups of one that goes --- */

static void make_groups(struct fx *x, int n)
{
	struct m_set_queue fair = { 0 };

	MSG_SET(&fair, set_queue, queue, STR("q"));
	MSG_SET(&fair, set_queue, fairness, FAIRNESS_GROUP);
	assert_int_equal(fx_do(x, OP_SET_QUEUE, &fair, NULL), 0);
	for (int i = 0; i < n; i++) {
		struct m_enqueue m;
		char id[16];

		(void)snprintf(id, sizeof(id), "job_%04d", i);
		m = fx_new(id, "q");
		MSG_SET(&m, enqueue, group, str_from(id));
		assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
	}
	for (int i = 0; i < n; i++) { /* each has had its turn */
		struct m_fetched j;
		struct m_ack a = { 0 };
		char id[16];

		assert_true(fx_fetch(x, "q", &j));
		(void)snprintf(id, sizeof(id), "%.*s", STR_ARG(j.job_id));
		MSG_SET(&a, ack, job_id, str_from(id));
		assert_int_equal(fx_do(x, OP_ACK, &a, NULL), 0);
	}
}

static void test_groups_of_a_deleted_queue_go_in_portions(void **state)
{
	struct fx *x = *state;
	struct m_clear_queue m = { 0 };
	struct m_clear_queue_reply r = { .more = true };
	size_t groups, most = 0;
	int entries = 0;

	x->unchecked = true;
	make_groups(x, 1500);
	MSG_SET(&m, clear_queue, queue, STR("q"));
	groups = queue_find(x->side[FX_MEM].f, STR("q"))->lanes.groups.n;
	assert_int_equal(groups, 1500);
	for (; r.more; entries++) {
		const struct fsm_queue *q;
		size_t left;

		assert_int_equal(fx_do(x, OP_DELETE_QUEUE, &m, &r), 0);
		fx_check_same(x);
		if (entries % 2 == 0)
			fx_restart(x, FX_ROCKS);
		q = queue_find(x->side[FX_MEM].f, STR("q"));
		left = q == NULL ? 0 : q->lanes.groups.n;
		most = MAX(most, groups - left);
		groups = left;
	}
	assert_in_range(most, 1, 1000);
	assert_in_range(entries, 3, 5); /* 1,500 jobs, then the groups */
	x->unchecked = false;
	assert_false(exists(x, "q"));
	fx_enqueue(x, "last", "q");
}

#define TEST(t) cmocka_unit_test_setup_teardown(t, fx_setup, fx_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_one_queue_too_many_is_refused),
		TEST(test_a_batch_counts_each_new_name_once),
		TEST(test_every_way_to_name_a_queue_is_asked),
		TEST(test_a_schedule_skips_its_time_at_the_limit),
		TEST(test_the_next_step_of_a_chain_is_made_at_the_limit),
		TEST(test_idle_queues_are_forgotten),
		TEST(test_a_queue_that_is_used_again_is_not_idle),
		TEST(test_a_queue_used_in_the_same_entry_stays),
		TEST(test_a_queue_forgotten_in_an_entry_comes_again_in_it),
		TEST(test_totals_are_right_when_queues_go_and_come),
		TEST(test_idle_queues_go_in_portions),
		TEST(test_groups_of_a_deleted_queue_go_in_portions),
	};

	return cmocka_run_group_tests_name("fsm_roster", tests, NULL, NULL);
}
