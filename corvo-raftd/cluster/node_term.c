/*
 * Terms and votes that cannot be written. A follower that is told to lead
 * becomes a candidate, and when its new term cannot be kept the library makes
 * it a follower again without taking back what it had noted as a candidate. A
 * follower has the address of its leader in the same place, and that would be
 * freed.
 */
#include "cluster/node_impl.h"

static int not_kept(struct node *n, int status)
{
	if (status != 0 && n->raft.state == RAFT_CANDIDATE) {
		n->raft.candidate_state.disrupt_leader = false;
		n->raft.candidate_state.in_pre_vote = false;
	}
	return status;
}

static int set_term(struct raft_io *io, raft_term term)
{
	struct node *n = container_of(io, struct node, io);

	return not_kept(n, n->set_term(io, term));
}

static int set_vote(struct raft_io *io, raft_id server_id)
{
	struct node *n = container_of(io, struct node, io);

	return not_kept(n, n->set_vote(io, server_id));
}

void node_watch_terms(struct node *n)
{
	n->set_term = n->io.set_term;
	n->io.set_term = set_term;
	n->set_vote = n->io.set_vote;
	n->io.set_vote = set_vote;
}
