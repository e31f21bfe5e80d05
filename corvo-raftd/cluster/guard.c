#include "cluster/guard.h"

#include "cluster/node_impl.h"

#ifdef CORVO_FAULTS
unsigned guards_off;
#endif

/* The index of the last entry that a message is about. */
static uint64_t end_of(const struct raft_append_entries *a)
{
	uint64_t room = UINT64_MAX - a->prev_log_index;

	return a->prev_log_index + MIN((uint64_t)a->n_entries, room);
}

/*
 * Commit. A message proves that two logs are the same up to its last entry, and
 * nothing about what comes behind it in the follower's. The library commits
 * there all the same: up to the leader's index, or the end of the whole log
 * when that is lower. So the leader's index never goes beyond the message. It
 * is cut on both sides, since the other one may not do so yet.
 */
static void cut_commit(struct raft_append_entries *a)
{
	if (guard_is_on(GUARD_COMMIT))
		a->leader_commit = MIN(a->leader_commit, end_of(a));
}

/*
 * Answers. The library answers everything that fits with the end of what it has
 * stored, be that of an earlier leader, and a leader takes it for what the
 * follower has of its own log. So an answer says no more than the message
 * proved. What was written for a leader of an earlier term is no answer to the
 * present one at all: the library sends it to whoever leads now.
 */
static bool cut_answer(struct node *n, struct raft_append_entries_result *r)
{
	const struct guard_answer *a = &n->guard.answer;
	bool is_late = a->term != n->raft.current_term;

	if (n->pieces.is_own) /* nobody has asked */
		return false;
	if (r->rejected != 0 || !guard_is_on(GUARD_ANSWER))
		return true;
	if (is_late && a->is_written)
		return false;
	/* the leader of an earlier term learns only of the later one */
	r->last_log_index = MIN(r->last_log_index, is_late ? 0 : a->upto);
	return true;
}

/* A follower without that guard: it cannot have more of this leader's entries
 * than it was sent. */
static void cut_heard(struct node *n, const struct raft_message *m,
		      struct raft_append_entries_result *r)
{
	if (r->rejected == 0 && guard_is_on(GUARD_ANSWER))
		r->last_log_index =
		    MIN(r->last_log_index, node_sent(n, m->server_id));
}

/*
 * Terms. What an earlier leader left behind is committed only together with an
 * entry of the present term (5.4.2 of the paper): a later leader could undo it
 * otherwise, with most nodes having it. The library counts who has the last
 * entry this leader has stored, of whatever term. Until that is one of its own,
 * nobody is said to have it.
 */
static void cut_count(struct node *n, struct raft_append_entries_result *r)
{
	uint64_t stored = n->raft.last_stored;

	if (r->rejected != 0 || stored <= node_committed(n) ||
	    node_term_of(n, stored) == n->raft.current_term ||
	    !guard_is_on(GUARD_TERM))
		return;
	r->last_log_index = MIN(r->last_log_index, stored - 1);
}

/*
 * Writes. When one has ended, the library looks which of its entries its log
 * has, and adds their number to what is stored. A write that lasts over two
 * elections may be of entries that the one leader had cut off and the next one
 * brought back: then both their writes count, what is stored is said to go
 * beyond the end of the log, and they are freed twice. So what was cut off
 * stays away until its write has ended; the leader sends it again.
 */
static void cut_back(struct node *n, struct raft_append_entries *a)
{
	if (n->port != NULL && guard_is_on(GUARD_ONCE))
		node_writes_wait(n, a);
}

bool guard_receiving(struct node *n, struct raft_message *m)
{
	struct guard_answer *a = &n->guard.answer;

	if (n->guard.diverged || (m->type == RAFT_IO_APPEND_ENTRIES &&
				  !guard_applied_fits(n, &m->append_entries)))
		return false;

	switch (m->type) {
	case RAFT_IO_APPEND_ENTRIES:
		cut_back(n, &m->append_entries);
		cut_commit(&m->append_entries);
		a->term = m->append_entries.term;
		a->upto = end_of(&m->append_entries);
		a->commit = m->append_entries.leader_commit;
		node_piece_receiving(n, &m->append_entries);
		guard_members_hide(n);
		break;
	case RAFT_IO_INSTALL_SNAPSHOT:
		/* one that is not needed: its entries are there */
		a->term = m->install_snapshot.term;
		a->upto = m->install_snapshot.last_index;
		break;
	case RAFT_IO_APPEND_ENTRIES_RESULT:
		if (n->raft.state != RAFT_LEADER ||
		    m->append_entries_result.term != n->raft.current_term)
			break;
		cut_heard(n, m, &m->append_entries_result);
		cut_count(n, &m->append_entries_result);
		break;
	default:
		break;
	}
	return true;
}

void guard_received(struct node *n)
{
	n->guard.answer = (struct guard_answer){ 0 };
	guard_members_show(n);
}

bool guard_sending(struct node *n, struct raft_message *m)
{
	if (n->guard.diverged)
		return false;
	if (m->type == RAFT_IO_APPEND_ENTRIES)
		cut_commit(&m->append_entries);
	return m->type != RAFT_IO_APPEND_ENTRIES_RESULT ||
	       cut_answer(n, &m->append_entries_result);
}

struct guard_answer guard_writing(const struct node *n)
{
	struct guard_answer a = n->guard.answer;

	a.is_written = true;
	return a;
}

void guard_writing_ends(struct node *n, const struct guard_answer *a)
{
	n->guard.answer = *a;
}

void guard_writing_ended(struct node *n)
{
	n->guard.answer = (struct guard_answer){ 0 };
	guard_members_look(n);
}

void guard_snapshot(struct node *n)
{
	guard_members_snapshot(n);
}

/* --- the log --- */

static int load(struct raft_io *io, raft_term *term, raft_id *voted_for,
		struct raft_snapshot **snapshot, raft_index *start_index,
		struct raft_entry *entries[], size_t *n_entries)
{
	struct node *n = container_of(io, struct node, io);
	int r = n->guard_io.load(io, term, voted_for, snapshot, start_index,
				 entries, n_entries);

	if (r == 0)
		guard_members_loaded(n, *snapshot, *start_index, *entries,
				     *n_entries);
	return r;
}

static int truncate_from(struct raft_io *io, raft_index index)
{
	struct node *n = container_of(io, struct node, io);

	if (!guard_applied_stays(n, index))
		return RAFT_SHUTDOWN;
	guard_members_cut(n, index);
	if (n->port != NULL)
		node_writes_cut(n, index);
	return n->guard_io.truncate(io, index);
}

void guard_wire(struct node *n)
{
	n->guard_io.load = n->io.load;
	n->io.load = load;
	n->guard_io.truncate = n->io.truncate;
	n->io.truncate = truncate_from;
}

void guard_done(struct node *n)
{
	buf_done(&n->guard.members.bytes);
}

void guard_started(struct node *n)
{
	guard_members_started(n);
	guard_applied_started(n);
}
