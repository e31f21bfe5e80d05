/*
 * What a chain, a tree or a queue full of dependents costs and leaves when its
 * jobs end or are deleted, in any order of their keys.
 */
#include "deps_many.h"
#include "fsm/core/state.h"
#include "tap_kv.h"

#define LONG 1200

/* --- what is looked for in the store --- */

struct tapped {
	struct fx *x;
	struct kv *below;
};

static void tap(struct fx *x, struct tapped *t)
{
	struct fx_side *s = &x->side[FX_MEM];

	*t = (struct tapped){ x, s->kv };
	s->kv = tap_new(t->below, true);
	fx_restart(x, FX_MEM);
}

static void untap(struct tapped *t)
{
	struct fx_side *s = &t->x->side[FX_MEM];

	kv_close(s->kv);
	s->kv = t->below;
	fx_restart(t->x, FX_MEM);
}

static void release_all(struct fx *x)
{
	bool more = true;

	while (more)
		fx_maintain(x, OP_RELEASE, 0, &more);
}

/* Each waits for the one before or behind it. */
static void chain(struct fx *x, struct many *m, size_t n, bool backwards)
{
	many_init(m, n, backwards ? "b" : "f");
	for (size_t i = 0; i < n; i++) {
		char on[NAME_BYTES];
		size_t parent = backwards ? i + 1 : i - 1;

		if (parent >= n)
			continue;
		(void)snprintf(on, sizeof(on), "#%zu", parent);
		many_depend(m, i, on);
	}
	many_add(x, m);
}

static uint64_t release_looks(struct fx *x, size_t n, bool backwards)
{
	struct tapped t;
	struct many m;
	uint64_t looks;

	x->unchecked = true;
	chain(x, &m, n, backwards);
	tap(x, &t);
	(void)tap_looks(x->side[FX_MEM].kv, "dr|");
	fx_job_op(x, OP_CANCEL, m.names[backwards ? n - 1 : 0], "cancelled");
	release_all(x);
	fx_expect_state(x, m.names[backwards ? 0 : n - 1], JOB_DEAD);
	looks = tap_looks(x->side[FX_MEM].kv, "dr|");
	untap(&t);
	many_done(&m);
	return looks;
}

/*
 * Each step puts one key and takes it away: to look for it in the store would
 * be to pass all those before it.
 */
static void test_a_chain_is_told_without_looking_for_each_end(void **state)
{
	struct fx *x = *state;

	assert_in_range(release_looks(x, LONG, false), 0, 16);
	assert_in_range(release_looks(x, LONG, true), 0, 16);
}

/* --- more ends than are kept in memory --- */

/* The root, its children, and a child of each; keys in the order of names. */
static void make_tree(struct many *m, size_t fan)
{
	for (size_t i = 1; i < m->n; i++) {
		char on[NAME_BYTES];

		(void)snprintf(on, sizeof(on), "#%zu", i <= fan ? 0 : i - fan);
		many_depend(m, i, on);
	}
}

static void expect_all(struct fx *x, const struct many *m, size_t from,
		       enum job_state s)
{
	for (size_t i = from; i < m->n; i++)
		fx_expect_state(x, m->names[i], s);
}

static void test_more_ends_at_a_time_than_are_kept(void **state)
{
	size_t fan = 2 * ENDED_KEPT + 200;
	struct fx *x = *state;
	const struct ended *e;
	size_t most = 0;
	struct many m;
	bool more = true;

	x->unchecked = true;
	many_init(&m, 2 * fan + 1, "t");
	make_tree(&m, fan);
	many_add(x, &m);
	fx_job_op(x, OP_CANCEL, m.names[0], "cancelled");
	for (int i = 0; more; i++) {
		x->unchecked = i % 3 != 0;
		fx_maintain(x, OP_RELEASE, 700, &more);
		e = &x->side[FX_MEM].f->deps.ends;
		most = MAX(most, (size_t)e->n);
		if (i % 4 == 3)
			fx_restart(x, FX_MEM); /* the other goes on with it */
	}
	x->unchecked = false;
	assert_true(most > ENDED_KEPT);
	expect_all(x, &m, 1, JOB_DEAD);
	many_done(&m);
	fx_enqueue(x, "last", "q");
}

/* --- sweeps --- */

struct sweep {
	struct m_clear_queue m;
	char cursor[KEY_MAX];
};

static void sweep_begin(struct sweep *s, const char *queue)
{
	*s = (struct sweep){ 0 };
	MSG_SET(&s->m, clear_queue, queue, str_from(queue));
}

/* A portion, as who asks goes on. False: it was the last one. */
static bool sweep_on(struct fx *x, struct sweep *s, enum op_id op,
		     uint64_t *count)
{
	struct m_clear_queue_reply r;

	assert_int_equal(fx_do(x, op, &s->m, &r), 0);
	*count += r.count;
	MSG_SET(&s->m, clear_queue, upto_seq, r.upto_seq);
	if (r.cursor.n > 0)
		memcpy(s->cursor, r.cursor.p, r.cursor.n);
	MSG_SET(&s->m, clear_queue, cursor, str_of(s->cursor, r.cursor.n));
	return r.more;
}

static uint64_t sweep(struct fx *x, enum op_id op, const char *queue)
{
	struct sweep s;
	uint64_t n = 0;
	bool more;

	sweep_begin(&s, queue);
	while (sweep_on(x, &s, op, &n))
		fx_maintain(x, OP_RELEASE, 0, &more); /* at the worst moment */
	release_all(x);
	return n;
}

static void expect_none_of(struct fx *x, const struct many *m)
{
	for (size_t i = 0; i < m->n; i++)
		if (fx_job_exists(x, m->names[i]))
			fail_msg("%s is still there", m->names[i]);
}

static void sweep_chain(struct fx *x, enum op_id op, bool backwards)
{
	struct many m;

	x->unchecked = true;
	chain(x, &m, LONG, backwards);
	assert_int_equal(sweep(x, op, "q"), m.n);
	expect_none_of(x, &m);
	x->unchecked = false;
	many_done(&m);
	fx_enqueue(x, "last", "elsewhere");
}

static void test_clear_leaves_nothing_of_a_chain(void **state)
{
	struct fx *x = *state;

	sweep_chain(x, OP_CLEAR_QUEUE, false);
	fx_job_op(x, OP_DELETE, "last", "deleted");
	sweep_chain(x, OP_CLEAR_QUEUE, true);
}

static void test_delete_leaves_nothing_of_a_chain(void **state)
{
	struct fx *x = *state;

	sweep_chain(x, OP_DELETE_QUEUE, false);
	fx_job_op(x, OP_DELETE, "last", "deleted");
	sweep_chain(x, OP_DELETE_QUEUE, true);
}

static void put_in(struct fx *x, const char *id, const char *queue,
		   const char *on)
{
	struct m_enqueue m = fx_new(id, queue);
	struct str dep = str_from(on);

	if (on != NULL)
		MSG_SET_LIST(&m, enqueue, depends_on, &dep, 1);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
}

/*
 * What waits elsewhere for a job that is cleared fails; what waits in the queue
 * for that goes with the others, what came since then fails, too.
 */
static void test_clear_by_way_of_another_queue(void **state)
{
	struct fx *x = *state;
	struct sweep s;
	struct many pad;
	uint64_t n = 0;

	x->unchecked = true;
	put_in(x, "a-root", "q", NULL);
	put_in(x, "a1", "q", "a-root");
	put_in(x, "between", "other", "a1");
	put_in(x, "z-last", "q", "between");
	many_init(&pad, 3 * LIMIT_ENTRY_JOBS_2, "b");
	for (size_t i = 0; i < pad.n; i++)
		many_depend(&pad, i, "a-root");
	many_add(x, &pad);
	sweep_begin(&s, "q");
	assert_true(sweep_on(x, &s, OP_CLEAR_QUEUE, &n));
	put_in(x, "late", "q", "between");
	release_all(x);
	while (sweep_on(x, &s, OP_CLEAR_QUEUE, &n))
		;
	assert_int_equal(n, pad.n + 3); /* without what is elsewhere */
	release_all(x);
	x->unchecked = false;
	expect_error(x, "between", "dependency a1 failed: deleted");
	expect_error(x, "late", "dependency between failed: dead");
	assert_false(fx_job_exists(x, "z-last"));
	assert_false(fx_job_exists(x, "a-root"));
	expect_none_of(x, &pad);
	many_done(&pad);
	fx_enqueue(x, "last", "elsewhere");
}

/* Ends that nobody waits for any more are looked at, and that is bounded. */
static void test_ends_without_dependents_are_work_too(void **state)
{
	struct fx *x = *state;
	uint64_t before, n = 0;
	struct sweep s;
	struct many all;
	bool more;

	x->unchecked = true;
	chain(x, &all, LONG, false);
	sweep_begin(&s, "q");
	while (sweep_on(x, &s, OP_CLEAR_QUEUE, &n))
		;
	before = x->side[FX_MEM].f->deps.ends.n;
	assert_true(before > LIMIT_ENTRY_JOBS_2);
	fx_maintain(x, OP_RELEASE, 0, &more);
	assert_true(more);
	assert_int_equal(x->side[FX_MEM].f->deps.ends.n,
			 before - LIMIT_ENTRY_JOBS_2);
	release_all(x);
	x->unchecked = false;
	many_done(&all);
	fx_enqueue(x, "last", "elsewhere");
}

#define TEST(t) cmocka_unit_test_setup_teardown(t, fx_setup_level, fx_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_chain_is_told_without_looking_for_each_end),
		TEST(test_more_ends_at_a_time_than_are_kept),
		TEST(test_clear_leaves_nothing_of_a_chain),
		TEST(test_delete_leaves_nothing_of_a_chain),
		TEST(test_clear_by_way_of_another_queue),
		TEST(test_ends_without_dependents_are_work_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
