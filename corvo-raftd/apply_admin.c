/*
 * cancel, retry, delete, pause, resume: what people do to jobs and queues.
 */
#include "fsm_impl.h"

int apply_cancel(struct fsm *f, const struct m_job_ref *op,
		 struct m_status_reply *ret)
{
	struct job j;
	int r = job_must_find(f, op->job_id, ERR_CANCEL_ERROR, &j);

	if (r < 0)
		return r;
	MSG_SET(ret, status_reply, status, STR("cancelled"));
	if (j.live.state == JOB_ACTIVE) {
		MSG_SET(ret, status_reply, status, STR("cancelling"));
		if (j.live.cancel_requested)
			return 0;
		MSG_SET(&j.live, job_live, cancel_requested, true);
		job_event(f, &j, EVENT_CANCELLING, STR_NULL);
		job_save(f, &j);
		return 0;
	}
	if (j.live.state == JOB_CANCELLED && fsm_is_resend(f))
		return 0;
	if (!job_can_move(j.live.state, JOB_CANCELLED))
		return job_refuse_state(f, ERR_CANCEL_ERROR, &j, "cancelled");
	job_end_cancelled(f, &j);
	return 0;
}

static bool can_retry(const struct job *j)
{
	enum job_state s = j->live.state;

	return s == JOB_SCHEDULED || job_state_is_terminal(s);
}

int apply_retry(struct fsm *f, const struct m_job_ref *op,
		struct m_status_reply *ret)
{
	struct job j;
	int r = job_must_find(f, op->job_id, ERR_RETRY_ERROR, &j);

	if (r < 0)
		return r;
	MSG_SET(ret, status_reply, status, STR("retried"));
	if (j.live.state == JOB_PENDING && fsm_is_resend(f))
		return 0;
	if (!can_retry(&j))
		return job_refuse_state(f, ERR_RETRY_ERROR, &j, "retried");
	return job_rerun(f, &j, EVENT_RETRIED, 0);
}

int apply_delete(struct fsm *f, const struct m_job_ref *op,
		 struct m_status_reply *ret)
{
	struct job j;
	int r;

	MSG_SET(ret, status_reply, status, STR("deleted"));
	r = job_must_find(f, op->job_id, ERR_NOT_FOUND, &j);
	if (r == -ERR_NOT_FOUND && fsm_is_resend(f))
		return 0;
	if (r < 0)
		return r;
	job_delete(f, &j, EVENT_DELETED);
	return 0;
}

static int set_paused(struct fsm *f, const struct m_queue_ref *op, bool paused)
{
	if (!queue_name_fits(op->queue))
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "queue: must have 1 to %d bytes",
				  LIMIT_QUEUE_NAME_BYTES);
	queue_set_paused(f, queue_get(f, op->queue), paused);
	return 0;
}

int apply_pause(struct fsm *f, const struct m_queue_ref *op,
		struct m_status_reply *ret)
{
	MSG_SET(ret, status_reply, status, STR("paused"));
	return set_paused(f, op, true);
}

int apply_resume(struct fsm *f, const struct m_queue_ref *op,
		 struct m_status_reply *ret)
{
	MSG_SET(ret, status_reply, status, STR("resumed"));
	return set_paused(f, op, false);
}
