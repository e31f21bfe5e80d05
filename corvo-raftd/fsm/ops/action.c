/*
 * retry, delete, cancel, move, priority, requeue, hold, approve, reject: what
 * people do to one job. What each does is in ops/act.c.
 */
#include "fsm/ops/act.h"
#include "fsm/ops/ops.h"

int apply_retry(struct fsm *f, const struct m_job_ref *op,
		struct m_status_reply *ret)
{
	struct act a = { .action = BULK_RETRY };

	return act_alone(f, &a, op->job_id, ret);
}

int apply_delete(struct fsm *f, const struct m_job_ref *op,
		 struct m_status_reply *ret)
{
	struct act a = { .action = BULK_DELETE };

	return act_alone(f, &a, op->job_id, ret);
}

int apply_cancel(struct fsm *f, const struct m_job_ref *op,
		 struct m_status_reply *ret)
{
	struct act a = { .action = BULK_CANCEL };

	return act_alone(f, &a, op->job_id, ret);
}

int apply_move(struct fsm *f, const struct m_move *op,
	       struct m_status_reply *ret)
{
	struct act a = { .action = BULK_MOVE, .queue = op->queue };

	if (!queue_name_fits(op->queue))
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "queue: must have 1 to %d bytes",
				  LIMIT_QUEUE_NAME_BYTES);
	return act_alone(f, &a, op->job_id, ret);
}

int apply_priority(struct fsm *f, const struct m_set_priority *op,
		   struct m_status_reply *ret)
{
	struct act a = { .action = BULK_CHANGE_PRIORITY,
			 .priority = op->priority };

	if (!MSG_HAS(op, set_priority, priority) || op->priority >= PRIORITIES)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "priority: must be critical, high or normal");
	return act_alone(f, &a, op->job_id, ret);
}

int apply_requeue(struct fsm *f, const struct m_job_ref *op,
		  struct m_status_reply *ret)
{
	struct act a = { .action = BULK_REQUEUE };

	return act_alone(f, &a, op->job_id, ret);
}

int apply_hold(struct fsm *f, const struct m_hold *op,
	       struct m_status_reply *ret)
{
	struct act a = { .action = BULK_HOLD,
			 .reason = op->reason,
			 .verdict = { .by = op->by } };

	if (op->comment.n > 0)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "comment: a hold has a reason instead");
	return act_alone(f, &a, op->job_id, ret);
}

int apply_approve(struct fsm *f, const struct m_approve *op,
		  struct m_status_reply *ret)
{
	struct act a = { .action = BULK_APPROVE,
			 .approve = op,
			 .verdict = { .by = op->by, .comment = op->comment } };

	return act_alone(f, &a, op->job_id, ret);
}

int apply_reject(struct fsm *f, const struct m_hold *op,
		 struct m_status_reply *ret)
{
	struct act a = { .action = BULK_REJECT,
			 .reason = op->reason,
			 .verdict = { .by = op->by, .comment = op->comment } };

	return act_alone(f, &a, op->job_id, ret);
}
