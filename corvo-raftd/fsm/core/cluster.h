/*
 * What the state knows of the cluster it is the state of: its nodes, who leads,
 * and the feature level. There are few nodes, so all of them are in memory.
 *
 * The feature level says which operations may be used: the highest that every
 * voter knows. It only rises. An operation above it is not proposed; one that
 * is met in the log all the same stops the node, for to leave it out would be
 * to become another state than that of the others.
 */
#ifndef CORVO_FSM_CORE_CLUSTER_H
#define CORVO_FSM_CORE_CLUSTER_H

#include "fsm/core/state.h"

#define LEVEL_FIRST 1u /* of a cluster that says nothing */

/* One block: the texts stand behind it. */
struct fsm_member {
	struct m_member m;
	char texts[];
};

int cluster_load(struct fsm *f);
void cluster_free(struct fsm *f);

/* NULL: there is none. */
const struct m_member *cluster_find(const struct fsm *f, uint64_t raft_id);
/* In memory and in the store; in the place of one with the same raft id. */
void cluster_put(struct fsm *f, const struct m_member *m);
void cluster_remove(struct fsm *f, uint64_t raft_id);
/* False: nobody led yet. */
bool cluster_leader(const struct fsm *f, struct m_leader *ret);
/* The record of leader and level. */
void cluster_save(struct fsm *f);
void cluster_set_leader(struct fsm *f, const struct m_leader *l);

/*
 * The level that voters who know these levels can use; never below the one
 * that is used already.
 */
uint32_t level_agreed(uint32_t now, const uint32_t *known, size_t n);

#endif
