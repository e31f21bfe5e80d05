/*
 * score: how good a job's result is. The request comes from a client.
 */
#include "fsm/core/entry.h"
#include "fsm/job/job.h"
#include "fsm/ops/ops.h"
#include "fsm/ties/usage.h"

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
	r = score_record(f, &j, op, ret);
	if (r == 0)
		job_save(f, &j);
	return r;
}
