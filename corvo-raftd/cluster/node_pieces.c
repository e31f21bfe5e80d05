/*
 * Entries are applied in pieces. The library applies all that is committed at
 * once, however long that takes, and meanwhile this node hears nobody and is
 * not heard: a follower that catches up stands for election, a leader is voted
 * out of office.
 *
 * So at the end of a piece it is made to believe that no more is committed than
 * it has applied, which raft allows at any time, and messages are looked at.
 * Then it is reminded: a follower by a word of its leader, which this node says
 * to itself, and a leader by the end of a write, of a barrier if there is none
 * under way. Until then the rest is known here alone: node_committed.
 *
 * A turn has one piece, whatever comes to the library in it.
 */
#include <stdlib.h>
#include <string.h>

#include "cluster/node_impl.h"
#include "util/clock.h"

#define PIECE_NS (10 * NS_PER_MS)
#define AGAIN_NS (20 * NS_PER_MS) /* until it is tried again */

#ifdef CORVO_FAULTS
unsigned node_piece_most;
#endif

uint64_t node_committed(const struct node *n)
{
	return MAX(n->pieces.upto, n->raft.commit_index);
}

static bool has_had_its_time(const struct node_pieces *p)
{
#ifdef CORVO_FAULTS
	if (node_piece_most != 0 && p->entries >= node_piece_most)
		return true;
#endif
	return clock_mono_ns() - p->began_ns >= PIECE_NS;
}

/* Nobody waits to hear a node that is alone. */
static bool is_over(const struct node *n)
{
	const struct node_pieces *p = &n->pieces;

	return p->go_on != NULL && p->entries > 0 &&
	       p->turn == loop_turn(n->loop) && has_had_its_time(p) &&
	       node_voters(n) != 1;
}

void node_piece_begins(struct node *n)
{
	struct node_pieces *p = &n->pieces;

	if (p->entries > 0 && p->turn == loop_turn(n->loop)) {
		p->entries++;
		return;
	}
	p->turn = loop_turn(n->loop);
	p->began_ns = clock_mono_ns();
	p->entries = 1;
}

void node_piece_applied(struct node *n, uint64_t index)
{
	struct node_pieces *p = &n->pieces;
	uint64_t committed = n->raft.commit_index;

	if (index >= committed || !is_over(n))
		return;
	p->upto = MAX(p->upto, committed);
	n->raft.commit_index = index;
	p->is_armed = true;
	loop_timer_arm(p->go_on, 0);
}

bool node_piece_holds(struct node *n, struct list *written)
{
	struct node_pieces *p = &n->pieces;

	if (p->go_on == NULL || (list_empty(&p->written) &&
				 (n->raft.state != RAFT_LEADER || !is_over(n))))
		return false;
	list_push_back(&p->written, written);
	p->is_armed = true;
	loop_timer_arm(p->go_on, 0);
	return true;
}

/* NULL: so many have never been members. */
static struct node_said *said_by(struct node_pieces *p, uint64_t id)
{
	for (unsigned i = 0; i < p->said_n; i++)
		if (p->said[i].id == id)
			return &p->said[i];
	if (p->said_n == ARRAY_SIZE(p->said))
		return NULL;
	p->said[p->said_n] = (struct node_said){ .id = id };
	return &p->said[p->said_n++];
}

/* Each may be the one by which an entry more is committed. Of those of one node
 * the largest says what the others do; a refusal commits nothing. */
bool node_piece_keeps(struct node *n, const struct raft_message *m)
{
	const struct raft_append_entries_result *r = &m->append_entries_result;
	struct node_pieces *p = &n->pieces;
	struct node_said *s;

	if (n->raft.state != RAFT_LEADER || r->rejected != 0 ||
	    r->term != n->raft.current_term || !is_over(n))
		return false;
	s = said_by(p, m->server_id);
	if (s == NULL)
		return false;
	if (s->result.term != r->term ||
	    s->result.last_log_index < r->last_log_index)
		s->result = *r;
	p->is_armed = true;
	loop_timer_arm(p->go_on, 0);
	return true;
}

static void tell_said(struct node *n)
{
	struct node_pieces *p = &n->pieces;
	const struct node_said s = p->said[0];
	struct raft_message m = { .type = RAFT_IO_APPEND_ENTRIES_RESULT,
				  .server_id = s.id,
				  .server_address = "" };

	m.append_entries_result = s.result;
	memmove(p->said, p->said + 1, --p->said_n * sizeof(p->said[0]));
	node_receive_result(n, &m);
}

/* More is committed than the library is to know in this turn. */
static void remember(struct node *n, uint64_t committed)
{
	struct node_pieces *p = &n->pieces;

	if (committed <= node_committed(n))
		return;
	p->upto = committed;
	p->is_armed = true;
	loop_timer_arm(p->go_on, 0);
}

static bool is_behind(const struct node *n)
{
	return n->pieces.go_on != NULL &&
	       (is_over(n) || n->raft.last_applied < node_committed(n));
}

/* The library compares what it is told with it, and here does nothing else. */
bool node_piece_hides(struct node *n)
{
	if (n->raft.state != RAFT_FOLLOWER || !is_behind(n))
		return false;
	n->pieces.hidden = n->raft.commit_index;
	n->raft.commit_index = UINT64_MAX;
	return true;
}

void node_piece_shows(struct node *n, const struct guard_answer *a)
{
	struct raft *r = &n->raft;

	CHECK(r->commit_index == UINT64_MAX);
	r->commit_index = n->pieces.hidden;
	if (r->state == RAFT_FOLLOWER && a->term == r->current_term)
		remember(n, MIN(a->commit, r->last_stored));
}

/*
 * Messages are heard while it catches up, and the library keeps their entries
 * in memory, so a leader that is faster would have no end of them there. By the
 * mean of all entries: to count it is not worth more.
 */
bool node_is_far_behind(struct node *n)
{
	struct raft *r = &n->raft;
	uint64_t last = raft_last_index(r), all = last - r->log.offset;

	return n->pieces.go_on != NULL && all > 0 &&
	       r->last_applied < node_committed(n) &&
	       node_log_bytes(n) / all * (last - r->last_applied) >=
		   n->snapshot_bytes;
}

static void tell_written(struct node *n)
{
	struct list *first = n->pieces.written.next;

	list_remove(first);
	node_written(first);
}

/* Whether the log here has all of it. */
static bool is_there(struct node *n, const struct raft_append_entries *a)
{
	uint64_t last = a->prev_log_index + a->n_entries;
	uint64_t term = a->n_entries > 0 ? a->entries[a->n_entries - 1].term
					 : a->prev_log_term;

	return last <= raft_last_index(&n->raft) &&
	       node_term_of(n, last) == term;
}

/* What new entries bring is committed when they are written. */
void node_piece_receiving(struct node *n, struct raft_append_entries *a)
{
	struct raft *r = &n->raft;
	uint64_t committed = MIN(a->leader_commit, r->last_stored);

	if (n->pieces.is_own || !is_behind(n) || !is_there(n, a))
		return;
	a->leader_commit = MIN(a->leader_commit, r->commit_index);
	if (r->state == RAFT_FOLLOWER && a->term == r->current_term)
		remember(n, committed);
}

/* --- the next one --- */

static void on_barrier(struct raft_barrier *req, int status)
{
	(void)status; /* its write was all it was for */
	free(req);
}

static void lead_on(struct node *n)
{
	struct raft_barrier *b;

	n->raft.commit_index = node_committed(n);
	n->pieces.upto = 0;
	if (n->pieces.writes > 0)
		return;
	b = xcalloc(1, sizeof(*b));
	if (raft_barrier(&n->raft, b, on_barrier) != 0)
		free(b); /* it is handing over: that comes about, or ends */
}

static void follow_on(struct node *n)
{
	struct raft *r = &n->raft;
	uint64_t upto = node_committed(n);
	raft_time heard = r->election_timer_start;
	struct raft_message m = { .type = RAFT_IO_APPEND_ENTRIES };
	const char *address;

	raft_leader(r, &m.server_id, &address);
	if (m.server_id == 0 || m.server_id == r->id)
		return; /* there will be one */
	m.server_address = address;
	m.append_entries = (struct raft_append_entries){
		.term = r->current_term,
		.prev_log_index = upto,
		.prev_log_term = node_term_of(n, upto),
		.leader_commit = upto,
	};
	n->pieces.upto = upto;
	r->commit_index = r->last_applied;
	n->pieces.is_own = true;
	n->receive.recv(&n->io, &m);
	n->pieces.is_own = false;
	guard_members_look(n);
	/* it was not the leader who spoke */
	if (r->state == RAFT_FOLLOWER)
		r->election_timer_start = heard;
}

static void on_go_on(void *ctx)
{
	struct node *n = ctx;
	struct node_pieces *p = &n->pieces;

	p->is_armed = false;
	while (!list_empty(&p->written) && !is_over(n))
		tell_written(n);
	while (p->said_n > 0 && !is_over(n))
		tell_said(n);
	if (!list_empty(&p->written) || p->said_n > 0 || is_over(n)) {
		loop_timer_arm(p->go_on, 0);
		return;
	}
	if (n->raft.last_applied == node_committed(n))
		return;
	if (n->raft.state == RAFT_LEADER)
		lead_on(n);
	else if (n->raft.state == RAFT_FOLLOWER)
		follow_on(n);
	if (!p->is_armed && n->raft.last_applied < node_committed(n))
		loop_timer_arm(p->go_on, AGAIN_NS);
}

void node_pieces_start(struct node *n)
{
	list_init(&n->pieces.written);
	n->pieces.go_on = loop_timer_add(n->loop, on_go_on, n);
}

void node_pieces_stop(struct node *n)
{
	if (n->pieces.go_on == NULL)
		return;
	loop_timer_remove(n->pieces.go_on);
	n->pieces.go_on = NULL;
}

void node_pieces_close(struct node *n)
{
	if (n->pieces.written.next == NULL)
		return; /* it had none */
	while (!list_empty(&n->pieces.written))
		tell_written(n);
}
