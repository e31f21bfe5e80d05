/*
 * The leader's store in the place of a damaged one: the log stays, over a crash
 * after every step, and goes on from where the new store ends.
 */
#include "install_world.h"

#define ENTRIES 6

static struct {
	uint64_t index;
	struct entry_origin o;
} seen[ENTRIES];
static unsigned seen_n;
static unsigned answered;

static int note_entry(void *ctx, uint64_t raft_index, const void *tag,
		      const struct entry_origin *o, struct str entry)
{
	if (seen_n < ENTRIES) {
		seen[seen_n].index = raft_index;
		seen[seen_n++].o = *o;
	}
	return on_apply(ctx, raft_index, tag, o, entry);
}

static const struct node_ops noting = {
	.apply = note_entry,
	.before_snapshot = on_before_snapshot,
	.make_durable = on_make_durable,
	.on_change = on_change,
};

static void on_answer(void *ctx _unused_, int err)
{
	assert_int_equal(err, 0);
	answered++;
}

static void on_tick(void *ctx)
{
	struct world *w = ctx;

	node_turn(w->node);
	if (w->until(w))
		loop_stop(w->loop);
	else
		loop_timer_arm(w->tick, NS_PER_MS);
}

static void wait_until(struct world *w, bool (*until)(struct world *w))
{
	w->until = until;
	w->tick = loop_timer_add(w->loop, on_tick, w);
	loop_timer_arm(w->tick, 0);
	loop_run(w->loop);
	loop_timer_remove(w->tick);
}

static bool is_ready(struct world *w)
{
	return node_is_ready(w->node);
}

static bool all_answered(struct world *w _unused_)
{
	return answered == ENTRIES;
}

static void start_noting(struct world *w, uint64_t store,
			 const struct entry_origin *o)
{
	struct node_config c = { .settings = &w->s,
				 .store_index = store,
				 .store_origin = *o };

	w->loop = loop_new();
	w->applied_n = 0;
	assert_int_equal(node_start(w->loop, &c, &noting, w, &w->node, &why),
			 0);
	wait_until(w, is_ready);
}

/* A node with a log of some entries, and a store that is damaged. */
static void make_damaged(struct world *w)
{
	struct entry_origin none = { 0 };
	const void *tag;

	dir_remove(w->dir);
	assert_int_equal(dir_make(w->dir), 0);
	seen_n = answered = 0;
	start_noting(w, 0, &none);
	for (unsigned i = 0; i < ENTRIES; i++)
		assert_int_equal(
		    node_propose(w->node, STR("entry"), &tag, on_answer, NULL),
		    0);
	wait_until(w, all_answered);
	end_node(w);
	assert_int_equal(dir_make(in_dir(w, "rocks")), 0);
	put(w, "rocks/OLD", STR("damaged"));
	assert_int_equal(dir_make(in_dir(w, "checkpoints/snapshot-1")), 0);
}

/* The store ends with the entry at `at`, of that origin. */
static void make_store(struct world *w, unsigned at,
		       const struct entry_origin *o)
{
	w->i = (struct node_install){ .store_only = true, .leader = OTHER };
	w->i.manifest.index = INDEX;
	w->i.manifest.applied = seen[at].index;
	w->i.manifest.origin.history = o->history;
	w->i.manifest.store = seen[at].index;
	w->i.manifest.store_origin = *o;
	make_ready(w);
}

static void assert_healed(struct world *w, unsigned at)
{
	assert_true(has(w, "rocks/NEW"));
	assert_false(has(w, "rocks/OLD"));
	assert_false(has(w, "incoming"));
	assert_int_equal(count(w, "checkpoints", ""), 0);
	start_noting(w, seen[at].index, &seen[at].o);
	assert_int_equal(w->node->applied, seen[ENTRIES - 1].index);
	assert_int_equal(w->applied[w->applied_n - 1], seen[ENTRIES - 1].index);
	end_node(w);
}

static void a_crash_after_any_step_is_finished(void **state)
{
	struct world *w = *state;

	for (unsigned k = 0; k <= INSTALL_STEPS; k++) {
		bool heals = false;

		make_damaged(w);
		make_store(w, 3, &seen[3].o);
		assert_int_equal(install_index(&w->s, &heals), INDEX);
		assert_true(heals);
		assert_int_equal(install_steps(&w->s, k, &why), 0);
		assert_int_equal(install_finish(&w->s, &why), 0);
		assert_healed(w, 3);
	}
}

static void the_last_entry_of_the_log_will_do(void **state)
{
	struct world *w = *state;

	make_damaged(w);
	make_store(w, ENTRIES - 1, &seen[ENTRIES - 1].o);
	assert_int_equal(install_finish(&w->s, &why), 0);
	assert_healed(w, ENTRIES - 1);
}

/* The damaged one is better than one that the log does not go on from. */
static void a_store_that_does_not_fit_is_left_out(void **state)
{
	struct world *w = *state;
	struct entry_origin o;

	make_damaged(w);
	o = seen[3].o;
	o.id++;
	make_store(w, 3, &o);
	assert_int_equal(install_finish(&w->s, &why), 0);
	assert_true(has(w, "rocks/OLD"));
	assert_false(has(w, "incoming"));
	/* nor one that is ahead of it */
	make_store(w, ENTRIES - 1, &seen[ENTRIES - 1].o);
	w->i.manifest.store += 10;
	assert_int_equal(install_ready(&w->s, &w->i, &why), 0);
	assert_int_equal(install_finish(&w->s, &why), 0);
	assert_true(has(w, "rocks/OLD"));
	assert_false(has(w, "incoming"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_crash_after_any_step_is_finished),
		TEST(the_last_entry_of_the_log_will_do),
		TEST(a_store_that_does_not_fit_is_left_out),
	};
	int r = cmocka_run_group_tests(tests, NULL, NULL);

	buf_done(&why);
	return r;
}
