/*
 * The state machine against a naive model of its rules (model.h): random
 * operations over few queues, keys and groups, so that they meet. Each one
 * goes to both; replies must agree, and after it everything it touched; each
 * job is then in exactly one index and every counter equals a scan. From time
 * to time all jobs and batches are compared, both stores, and replicas start
 * anew.
 *
 * CORVO_TEST_SEED repeats a run, CORVO_TEST_OPS makes it longer.
 */
#include "fsm_fixture.h"
#include "fsm_twin.h"
#include "model_run.h"

#define OPS        8000
#define ALL_EVERY  16   /* ops between comparisons of everything */
#define SAME_EVERY 500  /* between comparisons of the two stores */
#define DISK_EVERY 2500 /* between restarts on RocksDB */
#define KEEP       24   /* events kept, so that a check stays short */

static void trim(struct run *n)
{
	struct m_maintain m = { 0 };
	uint64_t last = fsm_last_seq(n->x->side[FX_MEM].f);

	if (last - fsm_first_seq(n->x->side[FX_MEM].f) < 2 * KEEP)
		return;
	MSG_SET(&m, maintain, upto_seq, last - KEEP);
	assert_int_equal(fx_do(n->x, OP_TRIM_EVENTS, &m, NULL), 0);
}

static void look_around(struct run *n)
{
	struct fx *x = n->x;

	fx_check_side(&x->side[FX_MEM]);
	model_compare(n->m, x, n->op % ALL_EVERY == 0);
	if (n->op % SAME_EVERY == 0) {
		fx_check_same(x);
		fx_check_side(&x->side[FX_ROCKS]);
		fx_restart(x, FX_MEM);
	}
	if (n->op % DISK_EVERY == 0)
		fx_restart(x, FX_ROCKS);
}

static uint64_t ops_wanted(void)
{
	const char *given = getenv("CORVO_TEST_OPS");
	uint64_t n = OPS;

	if (given != NULL && !str_parse_u64(str_from(given), &n))
		fail_msg("CORVO_TEST_OPS=%s is not a number", given);
	return n;
}

static void test_random_ops_agree_with_the_model(void **state)
{
	struct run *n = *state;
	uint64_t upto = ops_wanted();

	test_rng(&n->rng);
	twins_start(n->x, rng_u64(&n->rng));
	n->x->unchecked = true;
	while (n->op < upto) {
		run_step(n);
		look_around(n);
		if (run_resend(n))
			model_compare(n->m, n->x, true);
		trim(n);
		arena_reset(&n->arena);
	}
	n->done = true;
}

static int setup(void **state)
{
	struct run *n = xcalloc(1, sizeof(*n));
	void *x;

	(void)fx_setup(&x);
	n->x = x;
	n->m = model_new();
	fx_raise_level(x);
	*state = n;
	return 0;
}

static int teardown(void **state)
{
	struct run *n = *state;
	void *x = n->x;

	if (n->done)
		run_summary(n);
	else
		run_report(n);
	run_done(n);
	model_done(n->m);
	free(n);
	return fx_teardown(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
		    test_random_ops_agree_with_the_model, setup, teardown),
	};

	return cmocka_run_group_tests_name("fsm_model", tests, NULL, NULL);
}
