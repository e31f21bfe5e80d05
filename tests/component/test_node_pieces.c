/*
 * Three nodes whose state machine is slow. However much is committed at once,
 * a turn of the loop applies a little of it, and messages are heard in between.
 */
#include "cluster_world.h"

#define ENTRIES  40
#define SLOW_NS  (12 * NS_PER_MS) /* an entry; longer than a piece may take */
#define TURN_MAX 2                /* entries: the first may end just in time */

static struct {
	struct loop_timer *timer; /* runs in each turn */
	uint64_t number;
} turn;

/* What a node has applied in one turn, and said to be committed. */
static struct {
	uint64_t turn;
	unsigned entries, most;
	uint64_t committed;
} done[NODES];

static void on_turn(void *ctx _unused_)
{
	turn.number++;
	loop_timer_arm(turn.timer, 0);
}

static void spin(uint64_t ns)
{
	uint64_t end_ns = clock_mono_ns() + ns;

	while (clock_mono_ns() < end_ns)
		;
}

static int apply_slowly(void *ctx, uint64_t raft_index, const void *tag,
			const struct entry_origin *o, struct str entry)
{
	const struct member *k = ctx;
	struct node_info info;

	if (done[k->number].turn != turn.number)
		done[k->number].entries = 0;
	done[k->number].turn = turn.number;
	done[k->number].entries++;
	done[k->number].most =
	    MAX(done[k->number].most, done[k->number].entries);
	node_info(k->node, &info);
	assert_true(info.commit_index >= raft_index);
	assert_true(info.commit_index >= done[k->number].committed);
	done[k->number].committed = info.commit_index;
	spin(SLOW_NS);
	return on_apply(ctx, raft_index, tag, o, entry);
}

static const struct node_ops slow_ops = {
	.apply = apply_slowly,
	.before_snapshot = on_before_snapshot,
	.make_durable = on_make_durable,
	.on_change = on_change,
	.address_of = address_of,
	.on_install = on_install,
};

static int begin(void **state)
{
	memset(done, 0, sizeof(done));
	(void)set_up(state);
	turn.timer = loop_timer_add(w.loop, on_turn, NULL);
	loop_timer_arm(turn.timer, 0);
	return 0;
}

static int end(void **state)
{
	loop_timer_remove(turn.timer);
	return tear_down(state);
}

static void one_that_catches_up_applies_in_pieces(void **state _unused_)
{
	struct member *k;

	for (int i = 0; i < NODES; i++)
		start(&m[i]);
	propose(8);
	w_wait(all_applied, NULL);
	k = &m[leader() == &m[0] ? 1 : 0];
	k->store_index = seen_last;
	k->store_origin = seen[seen_last].origin;
	stop(k);
	for (int i = 0; i < ENTRIES; i++)
		propose(8);
	start_with(k, &slow_ops);
	w_wait(all_applied, NULL);
	assert_in_range(done[k->number].most, 1, TURN_MAX);
}

static unsigned answers;

static void on_one_answer(void *ctx _unused_, int err)
{
	assert_int_equal(err, 0);
	answers++;
}

static bool all_are_answered(void *ctx _unused_)
{
	return answers == ENTRIES;
}

/* All of them are under way at once, and nothing is written after them that
 * would remind the library of them. */
static void one_that_leads_applies_all(void **state _unused_)
{
	const void *tag;
	struct member *k;

	for (int i = 0; i < NODES; i++)
		start_with(&m[i], &slow_ops);
	propose(8);
	w_wait(all_applied, NULL);
	k = leader();
	assert_non_null(k);
	answers = 0;
	for (uint32_t i = 0; i < ENTRIES; i++) {
		uint32_t entry[] = { proposed + 1 + i };

		assert_int_equal(
		    node_propose(k->node, str_of((char *)entry, sizeof(entry)),
				 &tag, on_one_answer, NULL),
		    0);
	}
	proposed += ENTRIES;
	w_wait(all_are_answered, NULL);
	w_wait(all_applied, NULL);
	for (int i = 0; i < NODES; i++)
		assert_in_range(done[i].most, 1, TURN_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
		    one_that_catches_up_applies_in_pieces, begin, end),
		cmocka_unit_test_setup_teardown(one_that_leads_applies_all,
						begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
