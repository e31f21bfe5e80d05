/*
 * A node of several whose store has frozen, as a file of it is damaged: it asks
 * the leader for a snapshot that has the entry it could not apply, and takes
 * that in the place of its store (follow.h). Its log and its votes stay.
 *
 * A leader of a version that does not know the question says so; then the
 * ordinary way is left: a snapshot that is offered when the log of this node
 * has fallen behind. Loop thread.
 */
#ifndef CORVO_HEAL_H
#define CORVO_HEAL_H

#include "follow.h"

struct heal;

struct heal_config {
	struct loop *loop;
	struct follow *follow;
	/* As in follow.h; only one of the two has a link at a time. */
	struct rpc_client *(*open)(void *ctx, uint64_t raft_id);
	void (*close)(void *ctx, struct rpc_client *c);
	/* The entry that could not be applied, and who leads; false: there is
	 * nothing to heal, or nobody to ask. */
	bool (*wanted)(void *ctx, uint64_t *ret_index, uint64_t *ret_leader,
		       struct history *ret_history);
	void *ctx;
};

struct heal *heal_new(const struct heal_config *c);
void heal_free(struct heal *h); /* before its follow; NULL is ignored */

#endif
