/*
 * A store that came with a snapshot, ahead of the log beside it, and what comes
 * to the log: guard_applied.c.
 */
#include "cluster.h"
#include "lib/testlib.h"

#define ROWS    5
#define WAIT_NS (20 * NS_PER_S)

struct world {
	struct sim sim;
	struct cluster c;
	char verdict[VERDICT_BYTES];
	struct member *leader, *other;
};

typedef bool until_fn(struct world *w);

static void wait_for(struct world *w, until_fn *until)
{
	uint64_t last = w->sim.now_ns + WAIT_NS;

	while (!until(w)) {
		assert_true(w->sim.now_ns < last);
		assert_true(sim_step(&w->sim));
	}
}

static bool has_leader(struct world *w)
{
	w->leader = cluster_leader(&w->c);
	return w->leader != NULL;
}

static bool is_everywhere(struct world *w)
{
	for (unsigned i = 0; i < 3; i++)
		if (w->c.member[i].store.n < w->leader->store.n)
			return false;
	return w->leader->store.n > 0 && w->leader->store.n % ROWS == 0;
}

static void propose(struct world *w)
{
	for (unsigned i = 0; i < ROWS; i++)
		assert_true(member_propose(w->leader, 8));
}

/* Three nodes with entries, one of them stopped. */
static void begin(struct world *w)
{
	sim_begin(&w->sim, 1);
	cluster_begin_still(&w->c, &w->sim, w->verdict, 3);
	w->c.plan.is_loose = true; /* a node that stops is no failure */
	for (unsigned i = 0; i < 3; i++)
		member_start(&w->c.member[i]);
	wait_for(w, has_leader);
	propose(w);
	wait_for(w, is_everywhere);
	w->other = &w->c.member[(w->leader->host.number + 1) % 3];
	member_stop(w->other);
}

static void end(struct world *w)
{
	cluster_end(&w->c);
	sim_end(&w->sim);
	free(w);
}

/* Its log begins behind the members, and its store has all it had. */
static void put_snapshot(struct world *w)
{
	const struct store *s = &w->other->store;
	struct manifest x = { .index = 1,
			      .store = s->rows[s->n - 1].index,
			      .store_origin = s->rows[s->n - 1].origin };
	struct disk_snapshot d = { .index = 1, .term = 1, .members_index = 1 };

	x.origin.history = x.store_origin.history;
	members_encode(&w->leader->host.node->raft.configuration, &d.members);
	manifest_put(&d.data, &x);
	disk_install(&w->other->host.disk, &d);
	buf_done(&d.members);
	buf_done(&d.data);
}

static bool has_ended(struct world *w)
{
	return node_has_diverged(w->other->host.node);
}

static bool has_caught_up(struct world *w)
{
	assert_false(node_has_diverged(w->other->host.node));
	return is_everywhere(w) && w->other->host.node->raft.last_applied ==
				       w->leader->host.node->raft.last_applied;
}

static void what_the_store_has_comes(void **state _unused_)
{
	struct world *w = xcalloc(1, sizeof(*w));

	begin(w);
	put_snapshot(w);
	member_start(w->other);
	propose(w);
	wait_for(w, has_caught_up);
	end(w);
}

/* As the leader's disk would have forgotten it. */
static void another_entry_comes_in_its_place(void **state _unused_)
{
	struct world *w = xcalloc(1, sizeof(*w));
	struct store *s;

	begin(w);
	s = &w->other->store;
	s->rows[s->n - 1].origin.id++;
	put_snapshot(w);
	member_start(w->other);
	propose(w); /* the leader may take it for one that has all there is */
	wait_for(w, has_ended);
	assert_true(w->other->host.disk.has_diverged);
	member_stop(w->other);
	member_start(w->other);
	assert_true(w->other->is_refused);
	end(w);
}

/* The entry is further than all of what the log has by then. */
static void others_come_from_before_it(void **state _unused_)
{
	struct world *w = xcalloc(1, sizeof(*w));
	struct store *s;
	struct row *last;

	begin(w);
	s = &w->other->store;
	last = &s->rows[s->n - 1];
	last->index += 2;
	last->origin.term++;
	put_snapshot(w);
	member_start(w->other);
	propose(w);
	wait_for(w, has_ended);
	end(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_the_store_has_comes),
		cmocka_unit_test(another_entry_comes_in_its_place),
		cmocka_unit_test(others_come_from_before_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
