/*
 * score: how good a job's result is. The request comes from a client.
 */
#include "fsm/core/entry.h"
#include "fsm/job/job.h"
#include "fsm/ops/ops.h"
#include "fsm/ties/usage.h"
#include "proto/agent.h"

static int check(struct fsm *f, const struct m_score *op)
{
	/* what is not a number is in no range */
	bool ok =
	    op->value >= -LIMIT_SCORE_VALUE && op->value <= LIMIT_SCORE_VALUE;

	return ok ? 0
		  : fsm_refuse(f, ERR_VALIDATION_ERROR,
			       "value: must be from -%d to %d",
			       LIMIT_SCORE_VALUE, LIMIT_SCORE_VALUE);
}

/* One that has ended, or that a worker is at. */
static int check_iteration(struct fsm *f, const struct job *j,
			   const struct m_score *op)
{
	const struct m_agent_live *a = j->live.agent;
	uint32_t known = a != NULL ? a->recorded : 0;

	if (!MSG_HAS(op, score, iteration))
		return 0;
	if (op->iteration == 0)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "iteration: must be at least 1");
	if (!(j->extras & EXTRA_AGENT))
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "iteration: job \"%.*s\" is not an agent job",
				  STR_ARG(j->id));
	if (j->live.attempt > 0 && agent_iteration(&j->live) > known)
		known++;
	if (op->iteration <= known)
		return 0;
	return fsm_refuse(f, ERR_NOT_FOUND,
			  "iteration: job \"%.*s\" has had %u of them",
			  STR_ARG(j->id), known);
}

int apply_score(struct fsm *f, const struct m_score *op, struct m_score *ret)
{
	struct job j;
	int r = check(f, op);

	if (r < 0)
		return r;
	r = job_find(f, op->job_id, &j);
	if (r < 0)
		return r;
	if (r == 0)
		return fsm_refuse(f, ERR_NOT_FOUND, "job \"%.*s\" not found",
				  STR_ARG(op->job_id));
	if (j.live.started_at == 0)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "job_id: no worker has taken the job yet, so "
				  "there is nothing to judge");
	r = check_iteration(f, &j, op);
	if (r < 0)
		return r;
	r = score_record(f, &j, op, ret);
	if (r == 0)
		job_save(f, &j);
	return r;
}
