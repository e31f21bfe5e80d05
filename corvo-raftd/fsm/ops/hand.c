/*
 * What operations on one job by hand share: finding it, refusing it, and
 * another life for one that has ended. Ids come from clients.
 */
#include "fsm/ops/hand.h"

#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/job/iteration.h"
#include "fsm/job/job.h"
#include "fsm/ties/unique.h"

int job_must_find(struct fsm *f, struct str id, struct job *ret)
{
	int r = job_find(f, id, ret);

	if (r == 0)
		return fsm_refuse(f, ERR_NOT_FOUND, "job \"%.*s\" not found",
				  STR_ARG(id));
	return MIN(r, 0);
}

int job_refuse_resend(struct fsm *f, struct str id)
{
	struct job j;
	int r = 0;

	if (fsm_is_resend(f))
		r = job_find(f, id, &j);
	if (r > 0)
		return fsm_refuse(f, ERR_OUTCOME_UNKNOWN,
				  "job \"%.*s\" was created already",
				  STR_ARG(id));
	return r;
}

int job_refuse_state(struct fsm *f, int err, const struct job *j,
		     const char *done)
{
	enum job_state s = job_state_shown(j->live.state);

	return fsm_refuse(f, err, "job \"%.*s\" cannot be %s from state \"%s\"",
			  STR_ARG(j->id), done, enum_text(&enum_job_state, s));
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
	l->response = STR_NULL;
	MSG_UNSET(l, job_live, response);
}

/*
 * A job whose expiry has passed would die again at once, so it loses it: who
 * runs it by hand wants it to run. One still to come holds again.
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

int job_rerun(struct fsm *f, struct job *j, enum event_type type,
	      uint32_t attempt)
{
	int r = j->extras & EXTRA_UNIQUE ? unique_retake(f, j) : 0;

	if (r < 0)
		return r;
	renew_expiry(f, j);
	if (j->extras & EXTRA_AGENT)
		iteration_begin(f, j);
	MSG_SET(&j->live, job_live, attempt, attempt);
	MSG_SET(&j->live, job_live, seq, ++f->last_job_seq);
	job_event(f, j, type, STR_NULL);
	job_move(f, j, JOB_PENDING);
	clear_times(&j->live);
	job_save(f, j);
	return 0;
}
