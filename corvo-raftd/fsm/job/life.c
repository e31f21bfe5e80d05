/*
 * How jobs end, are held and get another attempt: see job/job.h. What several
 * operations do alike.
 */
#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/job/job.h"

/* --- ends of a life --- */

/* What only means something while a worker has the job, or it waits. */
static void forget_waiting(struct job *j)
{
	j->live.scheduled_at = 0;
	MSG_UNSET(&j->live, job_live, scheduled_at);
	j->live.cancel_requested = false;
	MSG_UNSET(&j->live, job_live, cancel_requested);
	j->live.hold_reason = STR_NULL;
	MSG_UNSET(&j->live, job_live, hold_reason);
}

void job_end_cancelled(struct fsm *f, struct job *j)
{
	job_event(f, j, EVENT_CANCELLED, STR_NULL);
	job_move(f, j, JOB_CANCELLED);
	forget_waiting(j);
	MSG_SET(&j->live, job_live, cancelled_at, f->now_ns);
	job_save(f, j);
}

void job_end_dead(struct fsm *f, struct job *j, const char *reason)
{
	job_event(f, j, EVENT_DEAD,
		  fsm_event_text(f, "reason", str_from(reason)));
	job_move(f, j, JOB_DEAD);
	forget_waiting(j);
	MSG_SET(&j->live, job_live, failed_at, f->now_ns);
	job_save(f, j);
}

void job_end_expired(struct fsm *f, struct job *j)
{
	job_record_error(f, j, STR("job expired"), STR_NULL);
	job_event(f, j, EVENT_EXPIRED, STR_NULL);
	job_end_dead(f, j, "job expired");
	f->counters.expired++;
}

void job_back_to_pending(struct fsm *f, struct job *j)
{
	job_move(f, j, JOB_PENDING);
	forget_waiting(j);
	job_save(f, j);
}

void job_hold(struct fsm *f, struct job *j, struct str reason)
{
	job_event(f, j, EVENT_HELD,
		  reason.n > 0 ? fsm_event_text(f, "reason", reason)
			       : STR_NULL);
	job_move(f, j, JOB_HELD);
	forget_waiting(j);
	if (reason.n > 0)
		MSG_SET(&j->live, job_live, hold_reason, reason);
	job_save(f, j);
}

void job_approve(struct fsm *f, struct job *j)
{
	job_event(f, j, EVENT_APPROVED, STR_NULL);
	job_move(f, j, j->live.waiting_on > 0 ? JOB_BLOCKED : JOB_PENDING);
	forget_waiting(j);
	job_save(f, j);
}

/* --- another attempt --- */

static uint64_t retry_delay(struct fsm *f, const struct job *j)
{
	const struct m_job_doc *d = &j->doc;

	return job_retry_delay((enum backoff)d->retry_backoff,
			       d->retry_base_delay, d->retry_max_delay,
			       d->retry_jitter, j->live.attempt, fsm_random(f));
}

int job_retry_or_die(struct fsm *f, struct job *j, const uint64_t *retry_after,
		     const char *reason)
{
	uint64_t delay, due;
	int r;

	if (job_attempts_left(j->max_retries, j->live.attempt) == 0) {
		job_end_dead(f, j, reason);
		return 0;
	}
	r = job_need_doc(f, j);
	if (r < 0)
		return r;
	delay = retry_after != NULL ? *retry_after : retry_delay(f, j);
	due = fsm_later(f, delay);
	job_event(f, j, EVENT_RETRYING,
		  fsm_event_time(f, "next_attempt_at", due));
	if (delay == 0) {
		job_back_to_pending(f, j);
		return 0;
	}
	MSG_SET(&j->live, job_live, scheduled_at, due);
	job_move(f, j, JOB_RETRYING);
	job_save(f, j);
	return 0;
}
