/*
 * Many jobs that wait: long chains and wide fans are told in bounded portions,
 * without recursion, and go on after a restart where they were.
 */
#include "deps_many.h"

static void test_a_request_that_is_one_long_chain(void **state)
{
	struct fx *x = *state;
	struct many m;

	x->unchecked = true;
	many_init(&m, LIMIT_ENQUEUE_BATCH, "c");
	make_chain(&m);
	many_add(x, &m);
	for (size_t i = m.n; i-- > m.n - 20;)
		run(x, m.names[i]);
	many_depend(&m, m.n - 1, "#0");
	{
		struct m_enqueue_batch b = { 0 };

		MSG_SET_LIST(&b, enqueue_batch, jobs, m.jobs, m.n);
		assert_int_equal(fx_do(x, OP_ENQUEUE_BATCH, &b, NULL),
				 ERR_VALIDATION_ERROR);
	}
	x->unchecked = false;
	fx_enqueue(x, "last", "q"); /* and everything fits together */
	many_done(&m);
}

static void test_a_long_chain_fails_in_portions_without_recursion(void **state)
{
	struct fx *x = *state;
	uint32_t entries = 0;
	struct many m;
	bool more = true;

	x->unchecked = true;
	many_init(&m, 3001, "c");
	make_chain(&m);
	many_add(x, &m);
	fx_job_op(x, OP_CANCEL, m.names[m.n - 1], "cancelled");
	fx_expect_state(x, m.names[m.n - 1001], JOB_DEAD);
	fx_expect_state(x, m.names[m.n - 1002], JOB_PENDING);
	restart_both(x);
	for (; more; entries++) {
		uint32_t n = fx_maintain(x, OP_RELEASE, 0, &more);

		assert_true(n <= LIMIT_MAINTAIN_JOBS);
	}
	assert_int_equal(entries, 2);
	expect_error(x, m.names[0], "dependency c00001 failed: dead");
	x->unchecked = false;
	assert_int_equal(fx_maintain(x, OP_RELEASE, 0, &more), 0);
	many_done(&m);
}

static uint64_t release_ns(struct fx *x)
{
	struct m_due_reply due = { 0 };

	fsm_due(x->side[FX_ROCKS].f, &due);
	return due.release_ns;
}

static void add_children(struct fx *x, const char *prefix, size_t n)
{
	struct many m;

	many_init(&m, n, prefix);
	for (size_t i = 0; i < n; i++)
		many_depend(&m, i, "a");
	many_add(x, &m);
	many_done(&m);
}

static void test_many_dependents_are_released_in_portions(void **state)
{
	struct fx *x = *state;
	uint32_t told = LIMIT_MAINTAIN_JOBS;
	uint64_t first;
	bool more = true;

	x->unchecked = true;
	add(x, "a", NULL);
	add_children(x, "c", 2500);
	assert_int_equal(release_ns(x), 0);
	run(x, "a");
	x->unchecked = false;
	first = release_ns(x);
	assert_in_range(first, 1, FX_START_NS); /* the past by any clock */
	/* what happens meanwhile does not tell them, but by its own share */
	fx_enqueue(x, "other", "elsewhere");
	assert_int_not_equal(release_ns(x), first);
	expect_waiting(x, "c00999", 0);
	expect_waiting(x, "c01000", 1);
	assert_int_equal(fx_maintain(x, OP_RELEASE, 10, &more), 10);
	assert_true(more);
	expect_waiting(x, "c01009", 0);
	expect_waiting(x, "c01010", 1);
	told += 10;
	restart_both(x);
	assert_true(release_ns(x) > 0);
	while (more)
		told += fx_maintain(x, OP_RELEASE, 0, &more);
	assert_int_equal(told, 2500);
	assert_int_equal(release_ns(x), 0);
	for (int i = 0; i < 3; i++) { /* in the order of their creation */
		char id[NAME_BYTES];

		(void)snprintf(id, sizeof(id), "c%05d", i);
		run(x, id);
	}
}

/* The parent's second life has its own dependents and its own end. */
static void
test_parent_retried_while_its_dependents_are_being_told(void **state)
{
	struct fx *x = *state;
	bool more = true;

	x->unchecked = true;
	add(x, "a", NULL);
	add_children(x, "c", 1500);
	kill(x, "a");
	x->unchecked = false;
	expect_waiting(x, "c01400", 1);
	fx_job_op(x, OP_RETRY, "a", "retried");
	add(x, "new", "a");
	fx_job_op(x, OP_DELETE, "c01499", "deleted");
	run(x, "a"); /* tells the former children of the first end, first */
	while (more)
		fx_maintain(x, OP_RELEASE, 0, &more);
	expect_error(x, "c01498", "dependency a failed: dead");
	run(x, "new");
}

/* The budget is one for all items of an entry. */
static void test_one_entry_tells_a_bounded_number(void **state)
{
	struct fx *x = *state;
	struct m_job_ref a = { 0 }, b = { 0 };
	bool more;

	x->unchecked = true;
	add(x, "b", NULL);
	add(x, "a", NULL);
	add_children(x, "c", 800);
	for (int i = 0; i < 400; i++) {
		char id[NAME_BYTES];

		(void)snprintf(id, sizeof(id), "d%05d", i);
		add(x, id, "b");
	}
	MSG_SET(&a, job_ref, job_id, STR("a"));
	MSG_SET(&b, job_ref, job_id, STR("b"));
	fx_begin(x);
	fx_add(x, OP_CANCEL, 0, &a);
	fx_add(x, OP_CANCEL, 0, &b);
	fx_commit(x);
	x->unchecked = false;
	fx_expect_state(x, "c00799", JOB_DEAD);
	fx_expect_state(x, "d00199", JOB_DEAD);
	expect_waiting(x, "d00200", 1);
	assert_int_equal(fx_maintain(x, OP_RELEASE, 0, &more), 200);
	assert_false(more);
}

static void test_more_doomed_jobs_than_one_entry_may_tell(void **state)
{
	struct fx *x = *state;
	bool more;

	x->unchecked = true;
	add(x, "a", NULL);
	kill(x, "a");
	add_children(x, "c", 1500);
	x->unchecked = false;
	fx_expect_state(x, "c00999", JOB_DEAD);
	expect_waiting(x, "c01000", 1);
	assert_int_equal(fx_maintain(x, OP_RELEASE, 0, &more), 500);
	assert_false(more);
	expect_error(x, "c01499", "dependency a failed: dead");
}

/* Large payloads count for more, so that an entry's memory is bounded. */
static void test_large_dependents_are_told_in_smaller_portions(void **state)
{
	struct fx *x = *state;
	size_t n = 256u << 10;
	char *payload = xmalloc(n);
	bool more = true;
	uint32_t told;

	x->unchecked = true;
	memset(payload, '1', n);
	add(x, "a", NULL);
	for (int i = 0; i < 150; i++) {
		struct str on = STR("a");
		struct m_enqueue m = { 0 };
		char id[NAME_BYTES];

		(void)snprintf(id, sizeof(id), "c%05d", i);
		MSG_SET(&m, enqueue, job_id, str_from(id));
		MSG_SET(&m, enqueue, queue, STR("q"));
		MSG_SET(&m, enqueue, payload, str_of(payload, n));
		MSG_SET_LIST(&m, enqueue, depends_on, &on, 1);
		assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
	}
	run(x, "a");
	x->unchecked = false;
	told = fx_maintain(x, OP_RELEASE, 0, &more);
	assert_true(more);
	assert_in_range(told, 10, 64);
	while (more)
		fx_maintain(x, OP_RELEASE, 0, &more);
	expect_waiting(x, "c00149", 0);
	free(payload);
}

#define TEST(t) cmocka_unit_test_setup_teardown(t, fx_setup, fx_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_request_that_is_one_long_chain),
		TEST(test_a_long_chain_fails_in_portions_without_recursion),
		TEST(test_many_dependents_are_released_in_portions),
		TEST(test_parent_retried_while_its_dependents_are_being_told),
		TEST(test_one_entry_tells_a_bounded_number),
		TEST(test_more_doomed_jobs_than_one_entry_may_tell),
		TEST(test_large_dependents_are_told_in_smaller_portions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
