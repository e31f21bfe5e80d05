/*
 * The part of the checks that is about pending jobs: their keys, lanes,
 * windows and limiters.
 */
#ifndef CORVO_FSM_CHECK_LANE_H
#define CORVO_FSM_CHECK_LANE_H

#include "fsm/core/state.h"
#include "fsm/order/window.h"

/* What the jobs say of one lane. */
struct lane_tally {
	uint64_t pending, active;
	bool stored;
};

struct lane_check {
	struct kv *kv;
	struct fsm *f;
	struct arena *arena;
	struct hmap tallies; /* key of the lane -> struct lane_tally */
	uint64_t keys;       /* of pending jobs */
	uint64_t limiters;
};

struct lane_tally *lane_tally_of(struct lane_check *c, struct str queue,
				 struct str group);

/* Where it stands; the lane of jobs without a group: *group is empty then. */
void check_pending_key(struct lane_check *c, struct str queue,
		       struct str *group, uint8_t prio, uint64_t seq,
		       struct key *ret);

/* Keys are without their prefix. */
void check_pending(struct lane_check *c, struct str key, struct str value);
void check_group_pending(struct lane_check *c, struct str key,
			 struct str value);
void check_lane_doc(struct lane_check *c, struct str key, struct str value);
void check_limiter(struct lane_check *c, struct str queue);

/* After all keys: lanes in memory against what was counted. */
void check_lanes(struct lane_check *c);

#endif
