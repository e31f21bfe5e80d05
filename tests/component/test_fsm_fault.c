/*
 * An op that fails a check of the state machine: it is undone and answered 500,
 * alike on every replica, and all else goes on. What is wrong is planted here,
 * in the store or in memory: less is held of a budget than the jobs expect.
 */
#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/order/queue.h"
#include "fsm/ties/purse.h"
#include "fsm_fixture.h"

#define USD  NS_PER_S
#define JOBS 12
#define WHY                                                               \
	"the operation failed a check of the server and was undone; its " \
	"log says which"
#define BEHIND (1u << 20)

static int setup(void **state)
{
	int r = fx_setup_level(state);

	((struct fx *)*state)->breaks = true;
	return r;
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, fx_teardown)

static const char *name_of(int i)
{
	static char name[16];

	(void)snprintf(name, sizeof(name), "job_%02d", i);
	return name;
}

/* Jobs that run, each of which holds something of the budget. */
static void run_jobs(struct fx *x)
{
	struct m_budget m = { 0 };

	MSG_SET(&m, budget, scope, BUDGET_QUEUE);
	MSG_SET(&m, budget, target, STR("q"));
	MSG_SET(&m, budget, on_exceed, BUDGET_ALERT);
	MSG_SET(&m, budget, daily_usd, USD);
	assert_int_equal(fx_do(x, OP_SET_BUDGET, &m, NULL), 0);
	for (int i = 0; i < JOBS; i++) {
		struct m_enqueue e = fx_new(name_of(i), "q");

		MSG_SET(&e, enqueue, expected_cost, 4 * USD);
		assert_int_equal(fx_do(x, OP_ENQUEUE, &e, NULL), 0);
		fx_expect(x, "q", name_of(i));
	}
}

static struct fsm_purse *purse(struct fx *x, int side)
{
	return purse_find(x->side[side].f, BUDGET_QUEUE, STR("q"));
}

/* Nothing is held any more, says the store. */
static void break_store(struct fx *x)
{
	x->unchecked = true;
	for (int i = 0; i < FX_SIDES; i++) {
		struct fsm *f = x->side[i].f;

		purse(x, i)->counts[0].reserved = 0;
		purse_save(f, purse(x, i));
		assert_int_equal(fsm_flush(f), 0);
	}
	fx_restart(x, FX_MEM);
	fx_restart(x, FX_ROCKS);
}

static void add_ack(struct fx *x, const char *id)
{
	struct m_ack m = { 0 };

	MSG_SET(&m, ack, job_id, str_from(id));
	fx_add(x, OP_ACK, 0, &m);
}

static void add_enqueue(struct fx *x, const char *id)
{
	struct m_enqueue m = fx_new(id, "other");

	fx_add(x, OP_ENQUEUE, 0, &m);
}

static void expect_undone(struct fx *x, size_t i)
{
	assert_int_equal(x->replies[i].err, ERR_INTERNAL_ERROR);
	assert_str_is(x->replies[i].body, WHY);
}

struct seen {
	size_t n;
	struct fsm_fault last;
};

static void on_fault(void *ctx, const struct fsm_fault *fault)
{
	struct seen *s = ctx;

	s->n++;
	s->last = *fault;
}

static struct seen faults(struct fx *x, int side)
{
	struct seen s = { 0 };

	fsm_each_fault(x->side[side].f, on_fault, &s);
	return s;
}

/* --- tests --- */

static void test_only_the_op_that_fails_is_undone(void **state)
{
	struct fx *x = *state;

	run_jobs(x);
	break_store(x);
	fx_begin(x);
	add_enqueue(x, "before");
	add_ack(x, name_of(0));
	add_enqueue(x, "after");
	fx_commit(x);
	assert_int_equal(x->replies[0].err, 0);
	expect_undone(x, 1);
	assert_int_equal(x->replies[2].err, 0);
	fx_check_same(x);
	fx_expect_state(x, "before", JOB_PENDING);
	fx_expect_state(x, name_of(0), JOB_ACTIVE);
	fx_timeline(x, name_of(0), "enqueued started");
	fx_expect_state(x, "after", JOB_PENDING);
	fx_expect(x, "other", "before");
	fx_expect(x, "other", "after");
	fx_check_same(x);
}

static void test_it_is_told_with_its_place(void **state)
{
	struct fx *x = *state;
	struct seen s;

	run_jobs(x);
	break_store(x);
	fx_begin(x);
	add_enqueue(x, "before");
	add_ack(x, name_of(0));
	fx_commit(x);
	for (int i = 0; i < FX_SIDES; i++) {
		s = faults(x, i);
		assert_int_equal(s.n, 2); /* as it was, and with all loaded */
		assert_int_equal(s.last.raft_index, x->raft_index);
		assert_int_equal(s.last.op, OP_ACK);
		assert_int_equal(s.last.item, 1);
		assert_true(s.last.is_undone);
		assert_non_null(strstr(s.last.file, "purse_job.c"));
		assert_non_null(strstr(s.last.what, "reserved"));
		assert_int_equal(fsm_counters(x->side[i].f)->undone, 1);
		assert_int_equal(fsm_counters(x->side[i].f)->reloads, 2);
	}
	fx_enqueue(x, "next", "other");
	assert_int_equal(faults(x, FX_MEM).n, 0);
}

/* Only this node has it wrong, and only until it is loaded anew: it does what
 * the others do. */
static void test_what_is_wrong_in_memory_alone_mends_itself(void **state)
{
	struct fx *x = *state;

	run_jobs(x);
	purse(x, FX_ROCKS)->counts[0].reserved = 0;
	fx_begin(x);
	add_ack(x, name_of(0));
	fx_commit(x);
	assert_int_equal(x->replies[0].err, 0);
	assert_int_equal(faults(x, FX_MEM).n, 0);
	assert_int_equal(faults(x, FX_ROCKS).n, 1);
	assert_false(faults(x, FX_ROCKS).last.is_undone);
	assert_int_equal(fsm_counters(x->side[FX_ROCKS].f)->undone, 0);
	assert_int_equal(fsm_counters(x->side[FX_ROCKS].f)->reloads, 1);
	fx_expect_state(x, name_of(0), JOB_COMPLETED);
}

static void test_the_answer_is_kept(void **state)
{
	struct fx *x = *state;
	struct m_ack m = { 0 };

	run_jobs(x);
	break_store(x);
	MSG_SET(&m, ack, job_id, str_from(name_of(0)));
	assert_int_equal(fx_do(x, OP_ACK, &m, NULL), ERR_INTERNAL_ERROR);
	assert_int_equal(fx_resend(x, OP_ACK, &m, NULL), ERR_INTERNAL_ERROR);
	expect_undone(x, 0);
	assert_int_equal(faults(x, FX_MEM).n, 0); /* it was not tried again */
	fx_check_same(x);
}

/* What gathered before is not in the store yet, and not lost. */
static void test_entries_that_are_not_written_yet_stay(void **state)
{
	struct fx *x = *state;

	run_jobs(x);
	break_store(x);
	fsm_write_behind(x->side[FX_ROCKS].f, BEHIND);
	fx_enqueue(x, "gathered", "other");
	fx_begin(x);
	add_ack(x, name_of(0));
	add_enqueue(x, "after");
	fx_commit(x);
	expect_undone(x, 0);
	fx_expect(x, "other", "gathered");
	fx_expect(x, "other", "after");
	assert_int_equal(fsm_flush(x->side[FX_ROCKS].f), 0);
	fx_check_same(x);
}

/* The others are put back, and have their turn in the next entry. */
static void test_an_entry_of_many_that_fail_ends(void **state)
{
	struct fx *x = *state;
	size_t undone = 0, again = 0;

	run_jobs(x);
	break_store(x);
	fx_begin(x);
	add_enqueue(x, "before");
	for (int i = 0; i < JOBS; i++)
		add_ack(x, name_of(i));
	add_enqueue(x, "after");
	fx_commit(x);
	assert_int_equal(x->replies[0].err, 0);
	for (size_t i = 1; i < x->n; i++) {
		undone += x->replies[i].err == ERR_INTERNAL_ERROR;
		again += x->replies[i].err == FSM_AGAIN;
	}
	assert_int_equal(undone, 8);
	assert_int_equal(undone + again, x->n - 1);
	assert_false(fx_job_exists(x, "after"));
	fx_enqueue(x, "after", "other");
	fx_check_same(x);
}

/* Who waits for jobs is told of queues anew: nothing said before is known. */
static void note_queue(void *ctx, struct str queue)
{
	*(bool *)ctx |= str_is(queue, "full");
}

static void test_queues_are_woken(void **state)
{
	struct fx *x = *state;
	struct fsm *f = x->side[FX_MEM].f;
	bool woken = false;

	run_jobs(x);
	fx_enqueue(x, "waiting", "full");
	break_store(x);
	f = x->side[FX_MEM].f;
	fsm_take_woken(f, note_queue, &woken);
	woken = false;
	fx_begin(x);
	add_ack(x, name_of(0));
	fx_commit(x);
	expect_undone(x, 0);
	fsm_take_woken(f, note_queue, &woken);
	assert_true(woken);
}

static void note_progress(void *ctx)
{
	++*(unsigned *)ctx;
}

/* Memory is made anew from the store, which may be large: who watches over the
 * process hears meanwhile that it is not stuck. */
static void test_signs_of_life_while_memory_is_made_anew(void **state)
{
	struct fx *x = *state;
	struct fsm *f = x->side[FX_MEM].f;
	unsigned told = 0, first;
	char queue[16];

	x->unchecked = true;
	for (int i = 0; i < 1200; i++) { /* two keys of each are loaded */
		(void)snprintf(queue, sizeof(queue), "q%d", i);
		fx_enqueue(x, queue, queue);
	}
	fsm_on_progress(f, note_progress, &told);
	assert_int_equal(fsm_rewind(f), 0);
	assert_true(told >= 2);
	first = told;
	assert_int_equal(fsm_rewind(f), 0);
	assert_true(told > first);
}

/* --- at the end of the entry --- */

/* Two jobs that are to come, each in a queue of its own with that number. */
static void schedule_two(struct fx *x, int i)
{
	char queue[16], id[32];

	(void)snprintf(queue, sizeof(queue), "later_%02d", i);
	for (unsigned k = 1; k <= 2; k++) {
		struct m_enqueue m;

		(void)snprintf(id, sizeof(id), "%s_%u", queue, k);
		m = fx_new(id, queue);
		MSG_SET(&m, enqueue, scheduled_at, x->now_ns + k * NS_PER_S);
		assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
	}
}

/* In the store the second one is in no order of times any more. */
static void lose_second(struct fx *x, int i)
{
	char queue[16], id[32];
	struct key k;

	(void)snprintf(queue, sizeof(queue), "later_%02d", i);
	(void)snprintf(id, sizeof(id), "%s_2", queue);
	key_scheduled(&k, SPACE_DEFAULT, str_from(queue),
		      fx_job(x, id)->scheduled_at, str_from(id));
	x->unchecked = true;
	for (int side = 0; side < FX_SIDES; side++) {
		fsm_delete(x->side[side].f, &k);
		assert_int_equal(fsm_flush(x->side[side].f), 0);
	}
}

static void add_cancel(struct fx *x, int i)
{
	struct m_job_ref m = { 0 };
	char id[32];

	(void)snprintf(id, sizeof(id), "later_%02d_1", i);
	MSG_SET(&m, job_ref, job_id, str_from(id));
	fx_add(x, OP_CANCEL, 0, &m);
}

/* When the first of a queue has left, the next one is looked for at the end of
 * the entry. */
static void test_what_fails_at_the_end_is_the_fault_of_its_op(void **state)
{
	struct fx *x = *state;

	schedule_two(x, 0);
	schedule_two(x, 1);
	lose_second(x, 1);
	fx_begin(x);
	add_enqueue(x, "before");
	add_cancel(x, 0);
	add_cancel(x, 1);
	add_enqueue(x, "after");
	fx_commit(x);
	assert_int_equal(x->replies[0].err, 0);
	assert_int_equal(x->replies[1].err, 0);
	expect_undone(x, 2);
	assert_int_equal(x->replies[3].err, 0);
	for (int i = 0; i < FX_SIDES; i++) {
		struct seen s = faults(x, i);

		assert_int_equal(s.n, 2);
		assert_int_equal(s.last.op, OP_CANCEL);
		assert_int_equal(s.last.item, 2);
		assert_true(s.last.is_undone);
	}
	fx_check_same(x);
	fx_expect_state(x, "later_00_1", JOB_CANCELLED);
	fx_expect_state(x, "later_01_1", JOB_SCHEDULED);
	fx_expect(x, "other", "before");
	fx_expect(x, "other", "after");
	fx_check_same(x);
}

static void test_what_fails_at_the_end_may_be_wrong_in_memory(void **state)
{
	struct fx *x = *state;

	schedule_two(x, 0);
	fx_job_op(x, OP_CANCEL, "later_00_2", "cancelled");
	queue_find(x->side[FX_ROCKS].f, STR("later_00"))
	    ->counts[JOB_SCHEDULED]++;
	fx_begin(x);
	add_cancel(x, 0);
	fx_commit(x);
	assert_int_equal(x->replies[0].err, 0);
	assert_int_equal(faults(x, FX_MEM).n, 0);
	assert_int_equal(faults(x, FX_ROCKS).n, 1);
	assert_false(faults(x, FX_ROCKS).last.is_undone);
	fx_expect_state(x, "later_00_1", JOB_CANCELLED);
}

/* Eight of those that fail at once may be undone, and one more at the end. */
static void test_an_entry_of_many_that_fail_at_the_end_ends(void **state)
{
	struct fx *x = *state;
	size_t undone = 0, again = 0;

	run_jobs(x);
	for (int i = 0; i < JOBS; i++) {
		schedule_two(x, i);
		lose_second(x, i);
	}
	break_store(x);
	fx_begin(x);
	for (int i = 0; i < JOBS; i++)
		add_cancel(x, i);
	for (int i = 0; i < JOBS; i++)
		add_ack(x, name_of(i));
	fx_commit(x);
	for (size_t i = 0; i < x->n; i++) {
		undone += x->replies[i].err == ERR_INTERNAL_ERROR;
		again += x->replies[i].err == FSM_AGAIN;
	}
	assert_int_equal(x->replies[0].err, ERR_INTERNAL_ERROR);
	assert_int_equal(undone, 1);
	assert_int_equal(undone + again, x->n);
	fx_check_same(x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_only_the_op_that_fails_is_undone),
		TEST(test_it_is_told_with_its_place),
		TEST(test_what_is_wrong_in_memory_alone_mends_itself),
		TEST(test_the_answer_is_kept),
		TEST(test_entries_that_are_not_written_yet_stay),
		TEST(test_an_entry_of_many_that_fail_ends),
		TEST(test_queues_are_woken),
		TEST(test_signs_of_life_while_memory_is_made_anew),
		TEST(test_what_fails_at_the_end_is_the_fault_of_its_op),
		TEST(test_what_fails_at_the_end_may_be_wrong_in_memory),
		TEST(test_an_entry_of_many_that_fail_at_the_end_ends),
	};

	return cmocka_run_group_tests_name("fsm_fault", tests, NULL, NULL);
}
