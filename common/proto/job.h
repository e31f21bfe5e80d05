/*
 * Rules of a job's life that need no store.
 */
#ifndef CORVO_JOB_H
#define CORVO_JOB_H

#include "proto/proto.h"

#define JOB_DEFAULT_MAX_RETRIES   3
#define JOB_DEFAULT_BASE_DELAY_NS (5 * NS_PER_S)
#define JOB_DEFAULT_MAX_DELAY_NS  (600 * NS_PER_S)

/* Clients and the view see the states below this one. */
#define JOB_STATES_SHOWN JOB_BLOCKED

static inline enum job_state job_state_shown(enum job_state s)
{
	return s == JOB_BLOCKED ? JOB_PENDING : s;
}

/* Of the feed: the part that never changes is left out, as the view has it. */
static inline bool job_is_partial(const struct m_job *j)
{
	return !MSG_HAS(j, job, created_at);
}

bool job_state_is_terminal(enum job_state s);
/* The state a job is created in, which it has while it has no job_live. */
enum job_state job_state_at_creation(const struct m_job_doc *d);
/* Every change of a state is CHECKed with this: rows of MOVE. */
bool job_can_move(enum job_state from, enum job_state to);

/*
 * Delay before the attempt after `attempt` (1: the first failed). Capped at
 * max_ns, never overflows; multiplied by a number in (1 - jitter, 1] made
 * from `random` (any 64 bits).
 */
uint64_t job_retry_delay(enum backoff b, uint64_t base_ns, uint64_t max_ns,
			 double jitter, uint32_t attempt, uint64_t random);

/* Payloads and tags of a chain; NULL: none. */
size_t chain_bytes(const struct m_chain *c);

/* max_retries 0 and 1 both mean one attempt. */
uint32_t job_attempts_left(uint32_t max_retries, uint32_t attempt);

/* What gives a job back that nobody took: at once, and without an attempt. Its
 * texts are those of `job`. */
struct m_fail fetched_give_back(const struct m_fetched *job);

#endif
