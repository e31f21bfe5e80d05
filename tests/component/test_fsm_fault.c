/*
 * An op that fails a check of the state machine: it is undone and answered 500,
 * alike on every replica, and all else goes on. What is wrong is planted here,
 * in the store or in memory: less is held of a budget than the jobs expect.
 */
#include "fsm/core/state.h"
#include "fsm/ties/purse.h"
#include "fsm_fixture.h"

#define USD  NS_PER_S
#define JOBS 12
#define WHY                                                               \
	"the operation failed a check of the server and was undone; its " \
	"log says which"
#define BEHIND (1u << 20)

#define TEST(fn) \
	cmocka_unit_test_setup_teardown(fn, fx_setup_level, fx_teardown)

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
	};

	return cmocka_run_group_tests_name("fsm_fault", tests, NULL, NULL);
}
