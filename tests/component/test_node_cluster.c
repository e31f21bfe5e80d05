/*
 * Three nodes choose a leader, what it proposes is applied by all, one that was
 * away catches up, by the log or by a snapshot.
 */
#include "cluster_world.h"

static void three_nodes_agree(void **state _unused_)
{
	for (int i = 0; i < NODES; i++)
		start(&m[i]);
	for (int i = 0; i < 20; i++)
		propose(100);
	w_wait(all_applied, NULL);
}

/* More than fits one message; the others are not held up meanwhile. */
static void a_node_that_was_away_catches_up(void **state _unused_)
{
	start(&m[0]);
	start(&m[1]);
	for (int i = 0; i < BACKLOG; i++)
		propose(BIG);
	start(&m[2]);
	for (int i = 0; i < 20; i++)
		propose(100);
	w_wait(all_applied, NULL);
}

static void another_one_leads_when_the_leader_stops(void **state _unused_)
{
	for (int i = 0; i < NODES; i++)
		start(&m[i]);
	for (int round = 0; round < 3; round++) {
		struct member *old;

		propose(1000);
		old = leader();
		assert_non_null(old);
		stop(old);
		propose(1000);
		assert_ptr_not_equal(leader(), old);
		start(old);
		w_wait(all_applied, NULL);
	}
}

/* Again and again, by the leader there is, whom it follows. */
static bool is_offered(void *ctx)
{
	const struct member *k = ctx, *l = leader();
	struct node_info mine, leads;

	if (k->offers < 2 || l == NULL ||
	    k->offer.leader != raft_digest(l->s.node_id, 0))
		return false;
	node_info(k->node, &mine);
	node_info(l->node, &leads);
	return mine.state_number == 0 && mine.term == leads.term;
}

/* What a new node needs first was cut off the log: a snapshot that takes its
 * time leaves all of it there for a while. */
static bool begins_later(void)
{
	return leader() != NULL && leader()->node->raft.log.offset > 1;
}

/* As it would have come, with a store that has applied more. */
static void install(struct member *k)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	char folder[128];

	assert_true(seen_last > k->offer.manifest.index);
	k->store_index = k->offer.manifest.store = seen_last;
	k->store_origin = k->offer.manifest.store_origin =
	    seen[seen_last].origin;
	(void)snprintf(folder, sizeof(folder), "%s/incoming/%llu", k->dir,
		       (unsigned long long)k->offer.manifest.index);
	assert_int_equal(dir_make(folder), 0);
	assert_int_equal(install_ready(&k->s, &k->offer, &why), 0);
	assert_int_equal(install_finish(&k->s, &why), 0);
}

static bool has_all_or_newer_offer(void *ctx)
{
	const struct member *k = ctx;
	struct node_info info;

	node_info(k->node, &info);
	return all_applied(NULL) ||
	       k->offer.manifest.index > info.snapshot_index;
}

/* A snapshot that was under way may cut the log once more, behind the one that
 * was offered: then the next one is. */
static void install_until_it_goes_on(struct member *k)
{
	do {
		stop(k);
		propose(SMALL);
		install(k);
		start(k);
		propose(SMALL);
		w_wait(has_all_or_newer_offer, k);
	} while (!all_applied(NULL));
}

/*
 * While a snapshot is offered, and nothing is done about it, the node hears of
 * its leader and disturbs nobody. With it in place it goes on by the log.
 */
static void
a_node_that_was_away_too_long_needs_a_snapshot(void **state _unused_)
{
	struct node_info info;

	for (int i = 0; i < NODES; i++)
		m[i].s.snapshot_bytes = SNAPSHOT_BYTES;
	start(&m[0]);
	start(&m[1]);
	for (int i = 0; i < BACKLOG || !begins_later(); i++)
		propose(SMALL);
	start(&m[2]);
	w_wait(is_offered, &m[2]);
	/* at most what was on its way when the log was cut */
	assert_true(m[2].applied < proposed);
	install_until_it_goes_on(&m[2]);
	node_info(m[2].node, &info);
	assert_true(info.snapshot_index >= m[2].offer.manifest.index);
}

static bool is_cut(void *ctx _unused_)
{
	struct node_info info;

	if (leader() == NULL)
		return false;
	node_info(leader()->node, &info);
	return info.snapshot_index > 0;
}

/* The log keeps some of what was cut, by bytes: many small entries. */
static void a_node_that_is_a_little_behind_needs_none(void **state _unused_)
{
	for (int i = 0; i < NODES; i++) {
		m[i].s.snapshot_bytes = SNAPSHOT_BYTES;
		start(&m[i]);
	}
	propose(100);
	w_wait(all_applied, NULL);
	w_wait(has_leader, NULL);
	stop(&m[leader() == &m[0] ? 1 : 0]);
	for (int i = 0; i < FEW; i++)
		propose(100);
	w_wait(has_leader, NULL);
	node_want_snapshot(leader()->node);
	propose(100);
	w_wait(is_cut, NULL);
	for (int i = 0; i < NODES; i++)
		if (m[i].node == NULL)
			start(&m[i]);
	w_wait(all_applied, NULL);
	for (int i = 0; i < NODES; i++)
		assert_int_equal(m[i].offers, 0);
}

/* While a snapshot came, the log got there by itself. */
static void a_log_that_has_the_entry_is_not_given_up(void **state _unused_)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct node_install i = { .members_index = 1,
				  .members = STR("whatever") };
	char dir[128];

	for (int k = 0; k < NODES; k++)
		start(&m[k]);
	for (int k = 0; k < 5; k++)
		propose(100);
	w_wait(all_applied, NULL);
	i.manifest = (struct manifest){ .index = seen_last,
					.applied = seen_last,
					.origin = seen[seen_last].origin };
	i.term = seen[seen_last].origin.term;
	stop(&m[1]);
	(void)snprintf(dir, sizeof(dir), "%s/incoming/%llu", m[1].dir,
		       (unsigned long long)seen_last);
	assert_int_equal(dir_make(dir), 0);
	assert_int_equal(install_ready(&m[1].s, &i, &why), 0);
	assert_int_equal(install_finish(&m[1].s, &why), 0);
	assert_int_equal(access(dir, F_OK), -1);
	start(&m[1]); /* whose store is empty: it has all entries */
	propose(100);
	w_wait(all_applied, NULL);
}

/* --- what can be read after a start --- */

/* The node asks the leader, as often as it likes. */
static bool is_whole(void *ctx)
{
	struct member *k = ctx, *l = leader();
	struct node_info i;
	bool whole;

	if (l != NULL && l != k && node_is_ready(l->node)) {
		node_info(l->node, &i);
		node_told(k->node, i.term, i.commit_index);
	}
	node_turn(k->node);
	whole = node_is_whole(k->node);
	assert_true(!whole || k->applied >= proposed);
	return whole;
}

/* Also when it comes in parts. */
static void a_restarted_node_has_all_that_was_answered(void **state _unused_)
{
	for (int i = 0; i < NODES; i++)
		start(&m[i]);
	propose(SMALL);
	w_wait(all_applied, NULL);
	stop(leader() == &m[2] ? &m[1] : &m[2]);
	for (int i = 0; i < BACKLOG; i++)
		propose(BIG);
	for (int i = 0; i < NODES; i++)
		if (m[i].node == NULL) {
			start(&m[i]);
			w_wait(is_whole, &m[i]);
		}
}

struct heartbeats {
	uint64_t term, committed;
	unsigned n; /* after which it followed */
};

/* Of a leader, to the first node. */
static bool hears_for_a_while(void *ctx)
{
	struct heartbeats *b = ctx;
	struct node *n = m[0].node;
	struct raft_message h = {
		.type = RAFT_IO_APPEND_ENTRIES,
		.server_id = raft_digest(m[1].s.node_id, 0),
		.server_address = "127.0.0.1:1",
	};
	uint64_t last = raft_last_index(&n->raft);

	h.append_entries = (struct raft_append_entries){
		.term = b->term,
		.prev_log_index = last,
		.prev_log_term = node_term_of(n, last),
		.leader_commit = b->committed,
	};
	node_receive(&n->io, &h);
	node_turn(n);
	assert_false(node_is_whole(n));
	b->n += node_is_following(n) && n->raft.last_applied == b->committed;
	return b->n > 10;
}

/*
 * A new leader does not know yet how far the one before it had committed: what
 * it tells until then may be less than what was answered.
 */
static void
a_leader_must_know_before_a_restarted_node_does(void **state _unused_)
{
	struct heartbeats b = { 0 };

	for (int i = 0; i < NODES; i++)
		start(&m[i]);
	for (int i = 0; i < FEW; i++)
		propose(sizeof(uint32_t));
	w_wait(all_applied, NULL);
	for (int i = 0; i < NODES; i++)
		stop(&m[i]);
	start(&m[0]);
	node_not_told(m[0].node);
	b.term = m[0].node->raft.current_term + 1;
	b.committed = raft_last_index(&m[0].node->raft) - 1;
	w_wait(hears_for_a_while, &b);
	for (int i = 1; i < NODES; i++)
		start(&m[i]);
	w_wait(is_whole, &m[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(three_nodes_agree),
		CASE(a_node_that_was_away_catches_up),
		CASE(a_node_that_was_away_too_long_needs_a_snapshot),
		CASE(a_node_that_is_a_little_behind_needs_none),
		CASE(another_one_leads_when_the_leader_stops),
		CASE(a_log_that_has_the_entry_is_not_given_up),
		CASE(a_restarted_node_has_all_that_was_answered),
		CASE(a_leader_must_know_before_a_restarted_node_does),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
