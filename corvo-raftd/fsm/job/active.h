/*
 * Jobs in workers' hands, and who may speak for them.
 */
#ifndef CORVO_FSM_JOB_ACTIVE_H
#define CORVO_FSM_JOB_ACTIVE_H

#include "fsm/core/entry.h"
#include "fsm/order/queue.h"

struct job;

/* A job in a worker's hands. */
struct fsm_active {
	struct str id; /* behind the struct, with worker and group */
	struct str worker;
	struct str group;
	struct fsm_queue *q;
	struct fsm_lane *lane;
	uint8_t prio;
	uint8_t extras; /* enum job_extra */
	uint32_t max_retries;
	uint64_t expire_at; /* 0: never */
	uint64_t token;
	uint64_t granted_ns;
	struct bynum_node given; /* by fetch_id, unless that is 0 */
	bool cancel_requested;
	bool accepted; /* of a push queue: its receiver ends it itself */
	struct heap_node lease;   /* key: end of the lease, tie: token */
	struct heap_node timeout; /* key: end of the attempt; perhaps none */
	char *live; /* the live record as stored; NULL: too large */
	size_t live_n, live_cap;
};

struct fsm_active *active_find(const struct fsm *f, struct str id);
struct fsm_active *active_add(struct fsm *f, const struct job *j,
			      uint64_t lease_expires);
void active_remove(struct fsm *f, struct fsm_active *a);
void active_free(struct fsm_active *a);
/* Groups of the queue, of any if NULL, have lanes now, or none any more. */
void active_regroup(struct fsm *f, const struct fsm_queue *q);
/* Keeps the live record in memory, so that an ack need not read it. */
void active_keep_live(struct fsm_active *a, struct str encoded);
/* It is handed out once more: token, lease and timeout of j->live, from now.
 */
void active_grant_again(struct fsm *f, struct fsm_active *a,
			const struct job *j);
/* Moves the end of the lease forward, never back; true when it moved. */
bool active_extend(struct fsm *f, struct fsm_active *a, uint64_t expires);
/* The clock was set: this is its end now. */
void active_set_lease(struct fsm *f, struct fsm_active *a, uint64_t expires);
void active_set_timeout(struct fsm *f, struct fsm_active *a, uint64_t at);

/* Who may speak for a job: the rule of ack, fail and heartbeat. */
struct claim {
	struct str job_id;
	struct str worker; /* empty: not said */
	bool has_token;
	uint64_t token;
};

enum fsm_lease_state claim_judge(struct fsm *f, const struct claim *c,
				 struct fsm_active **ret);

#endif
