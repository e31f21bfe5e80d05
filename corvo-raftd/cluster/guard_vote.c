#include "cluster/guard_vote.h"

#include <string.h>

#include "cluster/node_impl.h"
#include "util/le.h"

/* --- terms --- */

/*
 * A voter that is alone leads in the term it finds itself in, says the library:
 * at its start, or when nobody leads. But another node may have led in that
 * term, or this one before it lost the end of its log in a crash. Then two
 * entries have the same index and term, and whoever has the one takes it for
 * the other. So such a node begins a term of its own, and gives its vote in it
 * to itself, before the library looks.
 */
static int begin_term(struct node *n, raft_term *term, raft_id *voted_for)
{
	int r = n->io.set_term(&n->io, *term + 1);

	if (r != 0)
		return r;
	*term += 1;
	*voted_for = 0;
	r = n->io.set_vote(&n->io, n->raft.id);
	if (r == 0)
		*voted_for = n->raft.id;
	return r;
}

static bool is_only_voter(const struct node *n)
{
	struct node_server s;

	return node_server_find(n, n->raft.id, &s) && s.role == NODE_VOTER &&
	       node_voters(n) == 1;
}

/*
 * A follower takes over members when they are written, says the library, and
 * only if it is a follower then. One that became a candidate meanwhile, and
 * leader, would never know of them, and count another majority than the others.
 * So it does not stand before that.
 */
static bool must_not_stand(const struct node *n)
{
	return n->vote.writing > 0 && n->raft.state == RAFT_FOLLOWER &&
	       guard_is_on(GUARD_STAND);
}

bool guard_vote_writing(struct node *n, const struct raft_entry *entries,
			unsigned count)
{
	bool members = false;

	for (unsigned i = 0; i < count; i++)
		members |= entries[i].type == RAFT_CHANGE;
	n->vote.writing += members;
	return members;
}

void guard_vote_written(struct node *n, bool members)
{
	n->vote.writing -= members;
}

/* The leader asks it to stand at once; it will ask again. */
bool guard_vote_takes(const struct node *n, const struct raft_message *m)
{
	return m->type != RAFT_IO_TIMEOUT_NOW || !must_not_stand(n);
}

static void on_tick(struct raft_io *io)
{
	struct node *n = container_of(io, struct node, io);
	struct raft *r = &n->raft;

	if (must_not_stand(n))
		return;
	/* when it is about to lead; a term that cannot be kept is met again */
	if (guard_is_on(GUARD_ALONE) && r->state == RAFT_FOLLOWER &&
	    is_only_voter(n) &&
	    io->time(io) - r->election_timer_start >=
		r->follower_state.randomized_election_timeout &&
	    begin_term(n, &r->current_term, &r->voted_for) != 0)
		return;
	n->vote.tick(io);
}

static int start(struct raft_io *io, unsigned msecs, raft_io_tick_cb tick,
		 raft_io_recv_cb recv)
{
	struct node *n = container_of(io, struct node, io);

	n->vote.tick = tick;
	return n->vote.start(io, msecs, on_tick, recv);
}

/* How many, and for each its number, its address with a NUL, its role. */
bool guard_vote_names_one(const struct raft_buffer *b, raft_id id)
{
	const char *at = (const char *)b->base + 1, *end = at + b->len - 1;
	uint64_t count, voters = 0;
	bool found = false;

	if (b->len < 1 + sizeof(count))
		return false;
	count = get_le64(at);
	at += sizeof(count);
	for (uint64_t i = 0; i < count; i++) {
		uint64_t one;
		const char *nul;

		if ((size_t)(end - at) <= sizeof(one))
			return false;
		one = get_le64(at);
		at += sizeof(one);
		nul = memchr(at, '\0', (size_t)(end - at));
		if (nul == NULL || nul + 1 >= end)
			return false;
		voters += nul[1] == RAFT_VOTER;
		found |= nul[1] == RAFT_VOTER && one == id;
		at = nul + 2;
	}
	return found && voters == 1;
}

static bool snapshot_names_one(const struct raft_snapshot *s, raft_id id)
{
	unsigned voters = 0;
	bool found = false;

	for (unsigned i = 0; s != NULL && i < s->configuration.n; i++) {
		const struct raft_server *x = &s->configuration.servers[i];

		voters += x->role == RAFT_VOTER;
		found |= x->role == RAFT_VOTER && x->id == id;
	}
	return found && voters == 1;
}

static bool will_be_alone(const struct node *n, const struct raft_snapshot *s,
			  const struct raft_entry *entries, size_t count)
{
	for (size_t i = count; i > 0; i--)
		if (entries[i - 1].type == RAFT_CHANGE)
			return guard_vote_names_one(&entries[i - 1].buf,
						    n->raft.id);
	return snapshot_names_one(s, n->raft.id);
}

static int load(struct raft_io *io, raft_term *term, raft_id *voted_for,
		struct raft_snapshot **snapshot, raft_index *start_index,
		struct raft_entry *entries[], size_t *n_entries)
{
	struct node *n = container_of(io, struct node, io);
	int r = n->vote.load(io, term, voted_for, snapshot, start_index,
			     entries, n_entries);

	if (r == 0 && guard_is_on(GUARD_ALONE) &&
	    will_be_alone(n, *snapshot, *entries, *n_entries))
		r = begin_term(n, term, voted_for);
	return r;
}

void guard_vote_wire(struct node *n)
{
	if (n->port == NULL)
		return;
	n->vote.load = n->io.load;
	n->io.load = load;
	n->vote.start = n->io.start;
	n->io.start = start;
}

/* --- votes --- */

static struct raft_server *own_server(struct node *n)
{
	struct raft_configuration *c = &n->raft.configuration;

	for (unsigned i = 0; i < c->n; i++)
		if (c->servers[i].id == n->raft.id)
			return &c->servers[i];
	return NULL;
}

/* A voter that hears nothing of its leader for that long stands itself, and
 * forgets it by that; others never do, says the library. */
static void forget_silent_leader(struct node *n)
{
	struct raft *r = &n->raft;

	if (r->state == RAFT_FOLLOWER &&
	    n->io.time(&n->io) - r->election_timer_start >= r->election_timeout)
		node_forget_leader(n);
}

/*
 * Who is asked, votes. The library refuses its vote as long as it has not heard
 * that it has one. A leader that made it a voter, and was started anew before
 * it could tell, needs just that vote to tell it: with two of them there would
 * be no leader ever again. Whether a vote counts is for the one who asks.
 */
void guard_vote_receiving(struct node *n, const struct raft_message *m)
{
	struct raft_server *s = own_server(n);

	if (m->type != RAFT_IO_REQUEST_VOTE || s == NULL ||
	    s->role == RAFT_VOTER || !guard_is_on(GUARD_ASKED))
		return;
	forget_silent_leader(n);
	n->vote.is_voting = true;
	n->vote.role = s->role;
	s->role = RAFT_VOTER;
}

void guard_vote_received(struct node *n)
{
	struct raft_server *s;

	if (!n->vote.is_voting)
		return;
	n->vote.is_voting = false;
	s = own_server(n);
	if (s != NULL)
		s->role = n->vote.role;
}

/*
 * Who asks too late, hears of it. The library answers the question whether an
 * election is worth while with the term of the question, also where its own is
 * higher. A node that missed terms, and has a log that none of the others is
 * elected against, would ask in its old one for ever.
 */
void guard_vote_sending(const struct node *n, struct raft_message *m)
{
	struct raft_request_vote_result *r = &m->request_vote_result;

	if (m->type == RAFT_IO_REQUEST_VOTE_RESULT &&
	    r->pre_vote == raft_tribool_true && !r->vote_granted &&
	    guard_is_on(GUARD_LATE))
		r->term = MAX(r->term, n->raft.current_term);
}
