/*
 * A node of several whose store is damaged. Its log is as good as ever: it
 * takes entries, answers for them and votes. But what it leads can be written
 * by nobody. So it hands over when it leads, and does not stand for election:
 * only when no leader was heard of for long it does, since it may be the one
 * that has the last entries, without which no other is chosen.
 *
 * It fetches a store from the leader (heal.h). Until then its log cannot be
 * cut, as nothing is applied. Beyond a bound no more entries are taken, but for
 * those that the fetched store has: the leader has these in memory itself, or
 * its log begins after the end of this one, and it offers a snapshot, as it
 * does to any node that was away.
 */
#include "cluster/entry.h"
#include "cluster/node_impl.h"
#include "rt/log.h"
#include "util/clock.h"

#define YIELD_NS NS_PER_S        /* between tries to hand over */
#define LONE_NS  (10 * NS_PER_S) /* without a leader */
#define LONE     10              /* election timeouts, if that is longer */

static bool is_out(const struct node *n)
{
	return n->frozen && n->port != NULL && !n->stopping;
}

/* --- it does not lead --- */

static void on_yielded(void *ctx, int err)
{
	struct node *n = ctx;

	if (err < 0 && !n->stopping)
		log_warn("the store of this node is damaged, and no other node "
			 "took the lead; trying again");
}

/* The most up to date first, then one after the other: its store may be
 * damaged too. */
static uint64_t choose_next(struct node *n)
{
	struct node_server all[NODE_SERVERS_MAX];
	size_t count = node_servers(n, all, ARRAY_SIZE(all));
	uint64_t others[NODE_SERVERS_MAX];
	size_t k = 0;

	for (size_t i = 0; i < count; i++)
		if (all[i].role == NODE_VOTER && all[i].id != n->raft.id)
			others[k++] = all[i].id;
	return n->yields++ == 0 || k == 0 ? 0 : others[n->yields % k];
}

void node_yield(struct node *n)
{
	uint64_t now_ns = clock_mono_ns();

	if (!is_out(n) || n->raft.state != RAFT_LEADER || node_voters(n) < 2 ||
	    n->transfer_done != NULL || now_ns < n->yield_ns)
		return;
	n->yield_ns = now_ns + YIELD_NS;
	log_warn("the store of this node is damaged: another one is to lead");
	(void)node_transfer(n, choose_next(n), on_yielded, n);
}

void node_forget_leader(struct node *n)
{
	struct raft *r = &n->raft;

	raft_free(r->follower_state.current_leader.address);
	r->follower_state.current_leader.address = NULL;
	r->follower_state.current_leader.id = 0;
}

static uint64_t lone_ns(const struct node *n)
{
	return MAX(LONE_NS, LONE * n->election_ns);
}

/*
 * In the place of becoming a candidate it forgets the leader, as one would:
 * while it believed in one it would give its vote to nobody.
 */
void node_stay_follower(struct node *n)
{
	raft_time now = n->io.time(&n->io);
	struct raft *r = &n->raft;

	if (!is_out(n) || r->state != RAFT_FOLLOWER ||
	    clock_mono_ns() >= n->heard_ns + lone_ns(n) ||
	    now - r->election_timer_start <
		r->follower_state.randomized_election_timeout)
		return;
	r->election_timer_start = now;
	node_forget_leader(n);
}

/* --- what it takes --- */

void node_leave_out_entries(struct raft_append_entries *a, unsigned from)
{
	if (from >= a->n_entries)
		return;
	if (from == 0) {
		raft_free(a->entries[0].batch);
		raft_free(a->entries);
		a->entries = NULL;
	}
	a->n_entries = from;
}

bool node_frozen_takes(struct node *n, struct raft_message *m)
{
	struct raft_append_entries *a = &m->append_entries;

	if (m->type == RAFT_IO_APPEND_ENTRIES)
		n->heard_ns = clock_mono_ns();
	if (!is_out(n)) {
		if (m->type == RAFT_IO_APPEND_ENTRIES && a->n_entries > 0 &&
		    node_is_far_behind(n))
			node_leave_out_entries(a, 0);
		return true;
	}
	if (m->type == RAFT_IO_APPEND_ENTRIES && a->n_entries > 0 &&
	    node_log_bytes(n) >= n->snapshot_bytes + n->kept_bytes &&
	    raft_last_index(&n->raft) >= n->taken_upto)
		node_leave_out_entries(a, 0);
	return m->type != RAFT_IO_TIMEOUT_NOW;
}

/* --- the store that will take the place of its own --- */

uint64_t node_frozen_index(const struct node *n)
{
	return n->frozen ? n->frozen_index : 0;
}

void node_take_upto(struct node *n, uint64_t index)
{
	n->taken_upto = index;
}

bool node_has_entry(struct node *n, uint64_t index,
		    const struct entry_origin *o)
{
	const struct raft_entry *e = node_entry(n, index);
	struct entry_origin own = { 0 };
	struct entry_head h;
	struct str bytes;

	if (e == NULL || e->type != RAFT_COMMAND ||
	    index > n->raft.last_stored ||
	    !entry_unwrap(str_of(e->buf.base, e->buf.len), &h, &bytes))
		return false;
	own.term = e->term;
	own.id = h.id;
	own.history = h.history;
	return origin_fits(o, &own);
}
