/*
 * How a node hears of a snapshot of the leader, and goes on after one: with
 * entries that its store has already.
 */
#include "install_world.h"

/* A follower with the snapshot in place. */
static void start_follower(struct world *w)
{
	make_node(w, 9, OTHER);
	make_ready(w);
	assert_int_equal(install_finish(&w->s, &why), 0);
	assert_int_equal(start_node(w, STORE, &w->i.manifest.store_origin), 0);
}

static void offer(struct world *w, uint64_t term, uint64_t index,
		  struct str data)
{
	struct raft_message m = { .type = RAFT_IO_INSTALL_SNAPSHOT,
				  .server_id = OTHER,
				  .server_address = "127.0.0.1:2" };
	struct raft_install_snapshot *a = &m.install_snapshot;

	a->term = term;
	a->last_index = index;
	a->last_term = TERM;
	a->conf_index = 1990;
	raft_configuration_init(&a->conf);
	assert_int_equal(
	    raft_configuration_add(&a->conf, OTHER, "127.0.0.1:2", RAFT_VOTER),
	    0);
	a->data.len = data.n;
	a->data.base = raft_malloc(data.n);
	memcpy(a->data.base, data.p, data.n);
	node_receive(&w->node->io, &m);
}

static void offer_manifest(struct world *w, uint64_t term, uint64_t index)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct manifest m = w->i.manifest;

	m.index = index;
	m.applied = index - 1;
	m.store = index + 5;
	manifest_put(&b, &m);
	offer(w, term, index, buf_str(&b));
}

static void an_offer_is_told_and_its_leader_is_known(void **state)
{
	struct world *w = *state;
	const char *address;
	raft_id leader;

	start_follower(w);
	offer_manifest(w, 12, 2000);
	assert_int_equal(w->offers, 1);
	assert_int_equal(w->offered.index, 2000);
	assert_int_equal(w->offered.applied, 1999);
	assert_int_equal(w->offered.store, 0);
	assert_int_equal(w->offered_term, TERM);
	assert_int_equal(w->offered_leader, OTHER);
	assert_int_equal(w->offered_members_index, 1990);
	assert_true(w->offered_members.n > 0);
	/* the library has not got it, but heard of the leader */
	assert_int_equal(w->node->raft.log.snapshot.last_index, INDEX);
	assert_int_equal(w->node->raft.current_term, 12);
	raft_leader(&w->node->raft, &leader, &address);
	assert_int_equal(leader, OTHER);
	offer_manifest(w, 12, 2000);
	assert_int_equal(w->offers, 2);
	end_node(w);
}

static void offers_of_no_use_are_not_told(void **state)
{
	struct world *w = *state;

	start_follower(w);
	offer_manifest(w, 8, 2000);    /* of a leader of the past */
	offer_manifest(w, 9, INDEX);   /* we have it */
	offer_manifest(w, 9, 900);     /* and more than that */
	offer(w, 9, 2000, STR("xxx")); /* what is that? */
	assert_int_equal(w->offers, 0);
	assert_int_equal(w->node->raft.current_term, 9);
	end_node(w);
}

/* --- entries the store has --- */

/* On a busy machine it may have taken the leader for dead, and not have looked
 * at what was committed. */
static void send_heartbeat(struct world *w)
{
	struct raft_message m = { .type = RAFT_IO_APPEND_ENTRIES,
				  .server_id = OTHER,
				  .server_address = "127.0.0.1:2" };

	m.append_entries =
	    (struct raft_append_entries){ .term = LATER,
					  .prev_log_index = w->sent,
					  .prev_log_term = 12,
					  .leader_commit = w->sent };
	node_receive(&w->node->io, &m);
}

static void on_tick(void *ctx)
{
	struct world *w = ctx;

	if (w->until(w)) {
		loop_stop(w->loop);
		return;
	}
	send_heartbeat(w);
	loop_timer_arm(w->tick, 20 * NS_PER_MS);
}

static void wait_until(struct world *w, bool (*until)(struct world *w))
{
	w->until = until;
	w->tick = loop_timer_add(w->loop, on_tick, w);
	loop_timer_arm(w->tick, 0);
	loop_run(w->loop);
	loop_timer_remove(w->tick);
}

/* The leader sends entries first to last, all of them committed. */
static void send_entries(struct world *w, uint64_t first, uint64_t last)
{
	size_t n = (size_t)(last - first + 1), len = entry_wrapped_len(8);
	struct raft_message m = { .type = RAFT_IO_APPEND_ENTRIES,
				  .server_id = OTHER,
				  .server_address = "127.0.0.1:2" };
	struct raft_append_entries *a = &m.append_entries;
	char *batch = raft_malloc(n * len);

	w->sent = last;
	*a = (struct raft_append_entries){
		.term = LATER,
		.prev_log_index = first - 1,
		.prev_log_term = first - 1 == INDEX ? TERM : LATER,
		.leader_commit = last,
		.entries = raft_malloc(n * sizeof(*a->entries)),
		.n_entries = (unsigned)n,
	};
	for (size_t i = 0; i < n; i++) {
		struct entry_head h = { .index = first + i,
					.committed = first + i - 1,
					.id = 0x1000 + first + i };

		h.history = w->i.manifest.origin.history;
		if (h.index == STORE)
			h.id = w->i.manifest.store_origin.id;
		entry_wrap(&h, STR("8 bytes."), batch + i * len);
		a->entries[i] = (struct raft_entry){
			.term = LATER,
			.type = RAFT_COMMAND,
			.buf = { batch + i * len, len },
			.batch = batch,
		};
	}
	node_receive(&w->node->io, &m);
}

static bool is_at_1002(struct world *w)
{
	return w->node->raft.last_applied == 1002;
}

static bool is_cut_at_1005(struct world *w)
{
	return w->node->raft.log.snapshot.last_index == 1005;
}

/* The store has them: what is known of it stays, and no snapshot is taken that
 * would say it had less. */
static void entries_the_store_has_change_nothing(void **state)
{
	struct world *w = *state;

	start_follower(w);
	node_want_snapshot(w->node);
	send_entries(w, INDEX + 1, 1002);
	wait_until(w, is_at_1002);
	assert_int_equal(w->node->applied, STORE);
	assert_int_equal(w->node->origin.id, w->i.manifest.store_origin.id);
	assert_int_equal(w->snapshots_n, 0);
	send_entries(w, 1003, 1005);
	wait_until(w, is_cut_at_1005);
	assert_int_equal(w->node->applied, 1005);
	assert_int_equal(w->snapshots_n, 1);
	assert_int_equal(w->snapshots[0], 1005);
	assert_int_equal(w->applied_n, 5);
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(w->applied[i], INDEX + 1 + i);
		assert_int_equal(w->known[i],
				 MAX(w->applied[i] - 1, (uint64_t)STORE));
	}
	w->i.manifest.store_origin = w->node->origin;
	end_node(w);
	/* the log that is left fits to it */
	assert_int_equal(start_node(w, 1005, &w->i.manifest.store_origin), 0);
	end_node(w);
}

static bool is_at_1005(struct world *w)
{
	return w->node->raft.last_applied == 1005;
}

/* From a leader that does not know how far it is. */
static void assert_taken_from(struct world *w, uint64_t first)
{
	start_follower(w);
	send_entries(w, 900, 950); /* none that it lacks */
	assert_int_equal(raft_last_index(&w->node->raft), INDEX);
	send_entries(w, first, 1005);
	wait_until(w, is_at_1005);
	assert_int_equal(w->applied_n, 5);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(w->applied[i], INDEX + 1 + i);
	assert_int_equal(w->node->applied, 1005);
	w->applied_n = 0;
	end_node(w);
}

static void entries_of_the_snapshot_are_no_gap(void **state)
{
	assert_taken_from(*state, 950);
	assert_taken_from(*state, INDEX);
	assert_taken_from(*state, 1);
}

/* From a leader that begins with its first entry, while the log goes on. */
static void entries_before_the_snapshot_stay_out_of_the_log(void **state)
{
	struct world *w = *state;

	start_follower(w);
	send_entries(w, INDEX + 1, 1005);
	wait_until(w, is_at_1005);
	send_entries(w, 1, 900);
	assert_int_equal(raft_last_index(&w->node->raft), 1005);
	assert_false(node_is_dead(w->node));
	end_node(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_offer_is_told_and_its_leader_is_known),
		TEST(offers_of_no_use_are_not_told),
		TEST(entries_the_store_has_change_nothing),
		TEST(entries_of_the_snapshot_are_no_gap),
		TEST(entries_before_the_snapshot_stay_out_of_the_log),
	};
	int r = cmocka_run_group_tests(tests, NULL, NULL);

	buf_done(&why);
	return r;
}
