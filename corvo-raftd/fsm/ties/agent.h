/*
 * Agents' jobs: loops that go on, iteration by iteration, until an ack says
 * that they are done or a limit holds them.
 */
#ifndef CORVO_FSM_TIES_AGENT_H
#define CORVO_FSM_TIES_AGENT_H

#include "fsm/job/job.h"

/* What a client says of limits; under: what stands before their names. */
int agent_check(struct fsm *f, struct m_agent *a, const char *under);

/* What the worker says: done, if nothing. */
enum agent_status agent_said(const struct m_ack *op);

/* What an ack says must fit its job. Nothing has changed when it does not. */
int agent_check_ack(struct fsm *f, const struct job *j, const struct m_ack *op);

/* What an ack comes to: as its worker said, or a limit says otherwise. */
struct agent_turn {
	enum agent_status status;
	struct hold hold; /* with AGENT_HOLD */
};

/*
 * The attempt ends with this ack, its usage is counted and its checkpoint set.
 * Of an agent's job the iteration is recorded, and the next one is begun unless
 * it is done. 0 or -ERR_*. The caller moves the job.
 */
int agent_turn(struct fsm *f, struct job *j, const struct m_ack *op,
	       struct agent_turn *ret);
/* To its next iteration, at its place. It also saves. */
void agent_go_on(struct fsm *f, struct job *j);

/* Of a held job, as it is approved. Refused when it is no agent's. */
int agent_change_limits(struct fsm *f, struct job *j,
			const struct m_approve *op);

#endif
