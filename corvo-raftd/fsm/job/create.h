/*
 * Where every job comes from: clients, chains, batches and schedules alike.
 */
#ifndef CORVO_FSM_JOB_CREATE_H
#define CORVO_FSM_JOB_CREATE_H

#include "fsm/core/entry.h"
#include "fsm/job/job.h"

/* A job to be created: what a client may say, and what only we do. */
struct new_job {
	const struct m_enqueue *op; /* job_id is new; retry rules as wanted */
	uint32_t waiting_on; /* of op->depends_on, jobs that have not ended */
	int64_t chain_step;  /* with op->chain_id and op->chain */
	struct str schedule_id;
	uint64_t scheduled_for; /* with schedule_id */
	struct str replay_of;
	uint32_t replay_from; /* with replay_of */
};

/* The answer to an enqueue that made this job. */
void job_reply(struct str id, const struct m_job_doc *d,
	       struct m_enqueue_reply *ret);
/* Creates it, with record, event and indexes. Nothing is checked here. */
void job_create(struct fsm *f, const struct new_job *n,
		struct m_enqueue_reply *ret);

/* When the job is to run; what is past means now. */
static inline uint64_t enqueue_due(const struct fsm *f,
				   const struct m_enqueue *op)
{
	return op->delay > 0 ? fsm_later(f, op->delay) : op->scheduled_at;
}

#endif
