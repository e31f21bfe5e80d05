/*
 * What is applied stays. An entry that was committed is in the log of every
 * later leader, so one who has another in its place is proof that the promise
 * was broken before, here or there. The library stops at that, and says so to
 * nobody; and after a start it does not know any more what was committed, and
 * cuts off entries that the store has applied. From then on store and cluster
 * differ, silently and for good.
 *
 * So such a node says what it met, writes it down, and takes part in nothing
 * any more, also after a start: its store is not the cluster's.
 */
#include <inttypes.h>

#include "cluster/entry.h"
#include "cluster/node_impl.h"
#include "rt/log.h"

static void diverge(struct node *n, uint64_t index, uint64_t mine,
		    uint64_t theirs)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);

	if (n->guard.diverged)
		return;
	n->guard.diverged = true;
	buf_printf(&text,
		   "this node has applied entry %" PRIu64 " of term %" PRIu64
		   " and the cluster has another one in its place",
		   index, mine);
	if (theirs != 0)
		buf_printf(&text, ", of term %" PRIu64, theirs);
	buf_puts(&text, ": consensus was violated, and what this node has is "
			"not what the cluster has; " GUARD_HELPS);
	guard_note(n, buf_str(&text));
	log_error("%.*s", STR_ARG(buf_str(&text)));
}

static uint64_t applied_upto(const struct node *n)
{
	return MAX(n->applied, node_committed(n));
}

bool guard_applied_fits(struct node *n, const struct raft_append_entries *a)
{
	uint64_t upto = applied_upto(n);

	if (!guard_is_on(GUARD_APPLIED) || a->term < n->raft.current_term)
		return true;
	for (unsigned i = 0; i <= a->n_entries; i++) {
		uint64_t index = a->prev_log_index + i;
		uint64_t theirs =
		    i == 0 ? a->prev_log_term : a->entries[i - 1].term;
		uint64_t mine;

		if (index > upto)
			break;
		mine = index > 0 ? node_term_of(n, index) : 0;
		if (mine == 0 || mine == theirs)
			continue;
		diverge(n, index, mine, theirs);
		return false;
	}
	return true;
}

bool guard_applied_stays(struct node *n, uint64_t index)
{
	if (!guard_is_on(GUARD_APPLIED) || index > applied_upto(n))
		return true;
	diverge(n, index, node_term_of(n, index), 0);
	return false;
}

/* --- a store ahead of its log --- */

/*
 * A store that came with a snapshot has entries that are yet to come to the log
 * beside it. They are committed, as long as no disk forgets: the leader may
 * lose them in a power failure when it does not wait for its disk. Then others
 * come in their place, which are not applied, since the store is beyond them.
 */
void guard_applied_started(struct node *n)
{
	if (n->applied > n->raft.log.snapshot.last_index &&
	    node_entry(n, n->applied) == NULL)
		n->guard.ahead = (struct guard_ahead){ n->applied, n->origin };
}

static bool is_there(struct node *n, const struct guard_ahead *a)
{
	const struct raft_entry *e = node_entry(n, a->index);
	struct entry_origin own = { 0 };
	struct entry_head h;
	struct str bytes;

	if (e == NULL || e->type != RAFT_COMMAND ||
	    !entry_unwrap(str_of(e->buf.base, e->buf.len), &h, &bytes))
		return false;
	own.term = e->term;
	own.id = h.id;
	own.history = h.history;
	return origin_fits(&a->origin, &own);
}

bool guard_applying(struct node *n, uint64_t index)
{
	struct guard_ahead *a = &n->guard.ahead;

	if (n->guard.diverged)
		return false;
	if (a->index == 0 || index < a->index || !guard_is_on(GUARD_APPLIED))
		return true;
	if (!is_there(n, a)) {
		diverge(n, a->index, a->origin.term, node_term_of(n, a->index));
		return false;
	}
	a->index = 0;
	return true;
}
