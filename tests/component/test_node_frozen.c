/*
 * A node of three whose store cannot apply what the others can: it neither
 * leads nor stands for election, and its log does not grow without end.
 */
#include "cluster_world.h"

/* The store of this one is damaged; NULL: of none. */
static const struct member *damaged;

static int apply_or_not(void *ctx, uint64_t raft_index, const void *tag,
			const struct entry_origin *o, struct str entry)
{
	if (ctx == damaged)
		return -ERR_STORAGE_ERROR;
	return on_apply(ctx, raft_index, tag, o, entry);
}

static int on_rewind(void *ctx _unused_, uint64_t *ret_index)
{
	*ret_index = 0;
	return -ERR_STORAGE_ERROR;
}

static const struct node_ops frozen_ops = {
	.apply = apply_or_not,
	.before_snapshot = on_before_snapshot,
	.make_durable = on_make_durable,
	.on_change = on_change,
	.address_of = address_of,
	.on_install = on_install,
	.rewind = on_rewind,
};

static void start_three(void)
{
	damaged = NULL;
	for (int i = 0; i < NODES; i++) {
		m[i].s.snapshot_bytes = SNAPSHOT_BYTES;
		m[i].s.raft_max_pending_bytes = 8 * SNAPSHOT_BYTES;
		start_with(&m[i], &frozen_ops);
	}
}

static bool is_frozen(void *ctx)
{
	return node_is_frozen(((struct member *)ctx)->node);
}

static bool another_leads(void *ctx)
{
	return leader() != NULL && leader() != ctx &&
	       !node_is_leader(((struct member *)ctx)->node);
}

/* The next entries are applied by the two others. */
static void go_on(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		propose(SMALL);
}

static void a_leader_that_freezes_hands_over(void **state _unused_)
{
	struct member *old;

	start_three();
	go_on(5);
	old = leader();
	damaged = old;
	go_on(1); /* through another one, in the end */
	assert_true(is_frozen(old));
	/* its store cannot go back to where it was: nothing of it is true */
	assert_false(node_is_whole(old->node));
	w_wait(another_leads, old);
	go_on(5);
	assert_ptr_not_equal(leader(), old);
}

static bool have_the_same(void *ctx _unused_)
{
	for (int i = 1; i < NODES; i++)
		if (raft_last_index(&m[i].node->raft) !=
		    raft_last_index(&m[0].node->raft))
			return false;
	return true;
}

/* With the leader gone, of the two others only one can lead. */
static void one_that_is_frozen_does_not_stand(void **state _unused_)
{
	struct member *k, *old;

	start_three();
	go_on(5);
	k = &m[leader() == &m[0] ? 1 : 0];
	damaged = k;
	go_on(1);
	w_wait(is_frozen, k);
	w_wait(another_leads, k); /* on a busy machine it may have changed */
	w_wait(have_the_same, NULL);
	old = leader();
	assert_non_null(old);
	stop(old);
	go_on(2);
	assert_ptr_not_equal(leader(), k);
	/* nor when it is asked to */
	answered = false;
	assert_int_equal(
	    node_transfer(leader()->node, node_id(k->node), on_answer, NULL),
	    0);
	w_wait(is_answered, NULL);
	w_wait(has_leader, NULL);
	assert_ptr_not_equal(leader(), k);
}

#define LONG_NS (20 * NS_PER_S)

/* Others need an election timeout to see that the leader is gone, and more to
 * choose one of them. */
static void one_that_is_frozen_waits_for_others(void **state _unused_)
{
	uint64_t usual_ns;
	raft_time before;
	struct member *k;

	start_three();
	go_on(5);
	k = &m[leader() == &m[0] ? 1 : 0];
	damaged = k;
	go_on(1);
	w_wait(is_frozen, k);
	w_wait(another_leads, k);
	usual_ns = k->node->election_ns;
	before = k->node->raft.election_timer_start -
		 2 * k->node->raft.election_timeout;
	k->node->election_ns = LONG_NS;
	k->node->raft.election_timer_start = before;
	k->node->heard_ns = clock_mono_ns() - LONG_NS;
	node_stay_follower(k->node);
	assert_true(k->node->raft.election_timer_start > before);
	k->node->election_ns = usual_ns;
}

static bool other_has_all(void *ctx)
{
	const struct member *k = ctx;

	return k->applied == proposed;
}

/* The last entries are in the log of the frozen one only. */
static void what_only_a_frozen_one_has_is_not_lost(void **state _unused_)
{
	struct member *k, *old, *third;

	start_three();
	go_on(5);
	w_wait(all_applied, NULL);
	old = leader();
	k = &m[old == &m[0] ? 1 : 0];
	third = &m[NODES - k->number - old->number];
	third->store_index = seen_last;
	third->store_origin = seen[seen_last].origin;
	stop(third);
	damaged = k;
	go_on(5);
	stop(old);
	start_with(third, &frozen_ops);
	w_wait(other_has_all, third);
	w_wait(another_leads, k);
}

/* It is offered a snapshot when the others have gone on without it. */
static bool is_offered(void *ctx)
{
	return ((struct member *)ctx)->offers > 0;
}

static void the_log_of_one_that_is_frozen_is_bounded(void **state _unused_)
{
	uint64_t max = 8 * SNAPSHOT_BYTES;
	struct member *k;

	start_three();
	go_on(5);
	k = &m[leader() == &m[0] ? 1 : 0];
	damaged = k;
	go_on(1);
	w_wait(is_frozen, k);
	while (!is_offered(k)) {
		go_on(10);
		assert_true(node_log_bytes(k->node) < max);
	}
}

struct reach {
	struct member *k;
	uint64_t index;
};

static bool reaches(void *ctx)
{
	struct reach *r = ctx;

	return node_has_entry(r->k->node, r->index, &seen[r->index].origin);
}

/* The store that it fetched ends with an entry that it would not take. */
static void
what_a_fetched_store_has_is_taken_beyond_the_bound(void **state _unused_)
{
	uint64_t bound = 6 * SNAPSHOT_BYTES;
	struct entry_origin other;
	struct reach r = { 0 };

	start_three();
	for (int i = 0; i < NODES; i++) /* nothing is offered */
		m[i].node->snapshot_bytes = 100 * SNAPSHOT_BYTES;
	go_on(5);
	r.k = &m[leader() == &m[0] ? 1 : 0];
	r.k->node->snapshot_bytes = SNAPSHOT_BYTES;
	damaged = r.k;
	go_on(1);
	w_wait(is_frozen, r.k);
	assert_true(node_frozen_index(r.k->node) > 0);
	while (node_log_bytes(leader()->node) < bound + SNAPSHOT_BYTES)
		go_on(10);
	r.index = seen_last;
	assert_false(reaches(&r));
	node_take_upto(r.k->node, r.index);
	w_wait(reaches, &r);
	other = seen[r.index].origin;
	other.id++;
	assert_false(node_has_entry(r.k->node, r.index, &other));
	assert_false(node_has_entry(r.k->node, r.index + 1, &other));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_leader_that_freezes_hands_over),
		CASE(one_that_is_frozen_does_not_stand),
		CASE(one_that_is_frozen_waits_for_others),
		CASE(what_only_a_frozen_one_has_is_not_lost),
		CASE(the_log_of_one_that_is_frozen_is_bounded),
		CASE(what_a_fetched_store_has_is_taken_beyond_the_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
