/*
 * Elections that came to nothing before guard_vote.c, with every node up and
 * connected: each with its guard, and, where it can be taken out, without.
 */
#include "cluster.h"
#include "lib/testlib.h"

#define SEEDS   20 /* the rest is chance */
#define WAIT_NS (20 * NS_PER_S)

struct world {
	struct sim sim;
	struct cluster c;
	char verdict[VERDICT_BYTES];
};

static struct world *begin(uint64_t seed, unsigned voters)
{
	struct world *w = xcalloc(1, sizeof(*w));

	sim_begin(&w->sim, seed);
	cluster_begin_still(&w->c, &w->sim, w->verdict, voters);
	return w;
}

static void end(struct world *w)
{
	cluster_end(&w->c);
	sim_end(&w->sim);
	free(w);
}

typedef bool until_fn(struct cluster *c);

static bool wait_for(struct world *w, until_fn *until)
{
	uint64_t last = w->sim.now_ns + WAIT_NS;

	while (!until(&w->c) && w->sim.now_ns < last)
		assert_true(sim_step(&w->sim));
	return until(&w->c);
}

static bool has_leader(struct cluster *c)
{
	return cluster_leader(c) != NULL;
}

/* --- terms that were missed --- */

/* A log that ends with so many entries of term 2, of a node that has heard of
 * a later term. */
static void put_log(struct member *m, unsigned entries, uint64_t term)
{
	struct sim_disk *d = &m->host.disk;
	char nothing[8] = { 0 };
	struct raft_entry e = { .term = 2,
				.type = RAFT_BARRIER,
				.buf = { nothing, sizeof(nothing) } };

	for (unsigned i = 0; i < entries; i++)
		disk_append(d, &e, 1, NULL);
	disk_settle(d);
	d->term = term;
}

/* Nobody is elected against a longer log, and in an old term. */
static bool the_longest_log_is_of_the_oldest_term(uint64_t seed)
{
	struct world *w = begin(seed, 3);
	bool found;

	put_log(&w->c.member[0], 3, 3);
	put_log(&w->c.member[1], 2, 6);
	put_log(&w->c.member[2], 0, 9);
	for (unsigned i = 0; i < 3; i++)
		member_start(&w->c.member[i]);
	found = wait_for(w, has_leader);
	end(w);
	return found;
}

/* --- a vote nobody has heard of --- */

static void on_changed(void *ctx, int err)
{
	(void)ctx;
	(void)err;
}

static bool has_joined(struct cluster *c)
{
	return !c->member[0].host.node->changing;
}

/* And has all the leader has, as far as that knows. */
static bool is_standby(struct cluster *c)
{
	struct raft *r = &c->member[0].host.node->raft;
	struct node_server s;

	return has_joined(c) &&
	       r->leader_state.progress[1].match_index == raft_last_index(r) &&
	       node_server_find(c->member[1].host.node, c->member[1].host.id,
				&s) &&
	       s.role == NODE_STANDBY;
}

static bool is_written(struct cluster *c)
{
	const struct raft *r = &c->member[0].host.node->raft;

	return r->last_stored == raft_last_index((struct raft *)r);
}

static void add_standby(struct world *w)
{
	struct member *first = &w->c.member[0], *second = &w->c.member[1];
	char address[SIM_ADDRESS];

	member_start(first);
	assert_true(wait_for(w, has_leader));
	member_make(&w->c, 1);
	second->joins = true;
	member_start(second);
	host_address(second->host.id, address);
	assert_int_equal(node_add(first->host.node, second->host.id, address,
				  on_changed, NULL),
			 0);
	assert_true(wait_for(w, has_joined));
	assert_int_equal(node_assign(first->host.node, second->host.id,
				     NODE_STANDBY, on_changed, NULL),
			 0);
	assert_true(wait_for(w, is_standby));
}

/* The first voter makes a second one, and is started anew before it can tell
 * it so. */
static bool the_second_voter_does_not_know_it(uint64_t seed)
{
	struct world *w = begin(seed, 1);
	struct member *first = &w->c.member[0];
	bool found;

	add_standby(w);
	net_cut(&w->c.net, 0, 1, CUT_LOSES);
	assert_int_equal(node_assign(first->host.node, w->c.member[1].host.id,
				     NODE_VOTER, on_changed, NULL),
			 0);
	assert_int_equal(node_voters(first->host.node), 2);
	assert_true(wait_for(w, is_written));
	member_stop(first);
	net_heal(&w->c.net);
	member_start(first);
	found = wait_for(w, has_leader);
	end(w);
	return found;
}

/* --- who is left alone --- */

static bool has_change(struct cluster *c)
{
	struct member *leader = cluster_leader(c);
	const struct member *other =
	    &c->member[leader == &c->member[0] ? 1 : 0];
	const struct raft *r = &other->host.node->raft;

	return r->last_stored == raft_last_index(&leader->host.node->raft);
}

/* The leader of two voters makes the other one none, which hears of it and has
 * it on its disk; and crashes before it has that itself. */
static bool the_last_voter_has_not_written_it(uint64_t seed)
{
	struct world *w = begin(seed, 2);
	struct member *leader, *other;
	bool found;

	member_start(&w->c.member[0]);
	member_start(&w->c.member[1]);
	assert_true(wait_for(w, has_leader));
	leader = cluster_leader(&w->c);
	other = &w->c.member[leader == &w->c.member[0] ? 1 : 0];
	assert_true(wait_for(w, has_change));
	leader->host.disk.flush_max_ns = 2 * WAIT_NS;
	assert_int_equal(node_assign(leader->host.node, other->host.id,
				     NODE_STANDBY, on_changed, NULL),
			 0);
	(void)wait_for(w, has_change);
	member_crash(leader);
	leader->host.disk.flush_max_ns = NS_PER_MS;
	member_start(leader);
	found = wait_for(w, has_leader);
	end(w);
	return found;
}

/* --- with and without --- */

static void look(bool (*case_of)(uint64_t seed), unsigned rule)
{
	unsigned without = 0;

	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		if (!case_of(seed))
			fail_msg("seed %u: nobody leads", (unsigned)seed);
#ifdef CORVO_FAULTS
	guards_off = rule;
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		without += case_of(seed);
	guards_off = 0;
#else
	(void)rule;
#endif
	assert_int_equal(without, 0);
}

static void who_asks_in_an_old_term_hears_of_it(void **state _unused_)
{
	look(the_longest_log_is_of_the_oldest_term, GUARD_LATE);
}

static void who_is_asked_votes(void **state _unused_)
{
	look(the_second_voter_does_not_know_it, GUARD_ASKED);
}

static void who_is_left_alone_writes_it_first(void **state _unused_)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		if (!the_last_voter_has_not_written_it(seed))
			fail_msg("seed %u: nobody leads", (unsigned)seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_asks_in_an_old_term_hears_of_it),
		cmocka_unit_test(who_is_asked_votes),
		cmocka_unit_test(who_is_left_alone_writes_it_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
