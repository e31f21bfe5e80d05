/*
 * Guards around the raft library, of who votes and who leads: see guard.h. Each
 * says which rule it keeps, and why.
 *
 * Loop thread.
 */
#ifndef CORVO_GUARD_VOTE_H
#define CORVO_GUARD_VOTE_H

#include <stdbool.h>

#include <raft.h>

struct node;

struct guard_vote {
	int role; /* this node's own, while it votes without being a voter */
	bool is_voting;
	unsigned writing; /* writes of members under way */
	/* the library's own, which ours stand before */
	int (*load)(struct raft_io *io, raft_term *term, raft_id *voted_for,
		    struct raft_snapshot **snapshot, raft_index *start_index,
		    struct raft_entry *entries[], size_t *n_entries);
	int (*start)(struct raft_io *io, unsigned msecs, raft_io_tick_cb tick,
		     raft_io_recv_cb recv);
	raft_io_tick_cb tick;
};

/* Before raft_init, of a node with others. */
void guard_vote_wire(struct node *n);
/* Entries are about to be written: whether members are among them. They are,
 * and the library has heard it. */
bool guard_vote_writing(struct node *n, const struct raft_entry *entries,
			unsigned count);
void guard_vote_written(struct node *n, bool members);
/* Members as the library encodes them: whether only this one votes. */
bool guard_vote_names_one(const struct raft_buffer *b, raft_id id);
/* Whether the library may see it. */
bool guard_vote_takes(const struct node *n, const struct raft_message *m);
/* A message came, and the library is about to see it; it has seen it. */
void guard_vote_receiving(struct node *n, const struct raft_message *m);
void guard_vote_received(struct node *n);
/* A message is about to leave. */
void guard_vote_sending(const struct node *n, struct raft_message *m);

#endif
