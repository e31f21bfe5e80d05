/*
 * cancel, retry, delete, pause, resume: what people do to jobs and queues.
 */
#include "fsm_impl.h"

/* 0 found; refused with `err` when absent, or -ERR_* of the store. */
static int must_find(struct fsm *f, struct str id, int err, struct job *ret)
{
	int r = job_find(f, id, ret);

	if (r == 0)
		return fsm_refuse(f, err, "job \"%.*s\" not found",
				  STR_ARG(id));
	return MIN(r, 0);
}

static const char *state_text(const struct job *j)
{
	return enum_text(&enum_job_state, j->live.state);
}

int apply_cancel(struct fsm *f, const struct m_job_ref *op,
		 struct m_status_reply *ret)
{
	struct job j;
	int r = must_find(f, op->job_id, ERR_CANCEL_ERROR, &j);

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
		return fsm_refuse(
		    f, ERR_CANCEL_ERROR,
		    "job \"%.*s\" cannot be cancelled from state \"%s\"",
		    STR_ARG(op->job_id), state_text(&j));
	job_end_cancelled(f, &j);
	return 0;
}

static bool can_retry(const struct job *j)
{
	enum job_state s = j->live.state;

	return s == JOB_SCHEDULED || job_state_is_terminal(s);
}

static void clear_times(struct m_job_live *l)
{
	l->scheduled_at = l->started_at = 0;
	l->completed_at = l->failed_at = l->cancelled_at = 0;
	MSG_UNSET(l, job_live, scheduled_at);
	MSG_UNSET(l, job_live, started_at);
	MSG_UNSET(l, job_live, completed_at);
	MSG_UNSET(l, job_live, failed_at);
	MSG_UNSET(l, job_live, cancelled_at);
	MSG_UNSET(l, job_live, progress);
	MSG_UNSET(l, job_live, result);
}

/*
 * A job whose expiry has passed would die again at once, so it loses it: who
 * retries by hand wants it to run. One still to come holds again.
 */
static void renew_expiry(struct fsm *f, struct job *j)
{
	struct key k;

	if (j->expire_at == 0)
		return;
	if (job_is_expired(f, j)) {
		if (!job_state_is_terminal(j->live.state)) {
			key_expiry(&k, j->expire_at, j->id);
			fsm_delete(f, &k);
		}
		MSG_SET(&j->live, job_live, no_expiry, true);
		j->expire_at = 0;
		return;
	}
	key_expiry(&k, j->expire_at, j->id);
	txn_put(f->txn, key_str(&k), STR(""));
	f->expiry_from = MIN(f->expiry_from, j->expire_at);
}

int apply_retry(struct fsm *f, const struct m_job_ref *op,
		struct m_status_reply *ret)
{
	struct job j;
	int r = must_find(f, op->job_id, ERR_RETRY_ERROR, &j);

	if (r < 0)
		return r;
	MSG_SET(ret, status_reply, status, STR("retried"));
	if (j.live.state == JOB_PENDING && fsm_is_resend(f))
		return 0;
	if (!can_retry(&j))
		return fsm_refuse(
		    f, ERR_RETRY_ERROR,
		    "job \"%.*s\" cannot be retried from state \"%s\"",
		    STR_ARG(op->job_id), state_text(&j));
	r = j.extras & EXTRA_UNIQUE ? unique_retake(f, &j) : 0;
	if (r < 0)
		return r;
	renew_expiry(f, &j);
	MSG_SET(&j.live, job_live, attempt, 0);
	MSG_SET(&j.live, job_live, seq, ++f->last_job_seq);
	job_event(f, &j, EVENT_RETRIED, STR_NULL);
	job_move(f, &j, JOB_PENDING);
	clear_times(&j.live);
	job_save(f, &j);
	return 0;
}

int apply_delete(struct fsm *f, const struct m_job_ref *op,
		 struct m_status_reply *ret)
{
	struct job j;
	int r;

	MSG_SET(ret, status_reply, status, STR("deleted"));
	r = must_find(f, op->job_id, ERR_NOT_FOUND, &j);
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
