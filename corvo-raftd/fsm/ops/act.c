/*
 * See ops/act.h. Ids and reasons come from clients. Each action refuses before
 * it changes anything, so that an operation on many jobs can pass over one.
 */
#include "fsm/ops/act.h"

#include "fsm/ops/clock.h"
#include "fsm/ops/hand.h"
#include "fsm/order/roster.h"
#include "fsm/ties/agent.h"
#include "fsm/ties/link.h"
#include "fsm/ties/policy.h"
#include "fsm/ties/unique.h"

/* --- what an action does to a job that was found --- */

typedef int act_fn(struct fsm *f, const struct act *a, struct job *j);

struct kind {
	act_fn *fn;
	int err;            /* code of a refusal */
	const char *done;   /* as in "cannot be cancelled" */
	const char *status; /* what a client is told */
};

#define KINDS (BULK_REJECT + 1)

static const struct kind kinds[KINDS];

static int refuse_state(struct fsm *f, const struct act *a, const struct job *j)
{
	const struct kind *k = &kinds[a->action];

	return job_refuse_state(f, k->err, j, k->done);
}

static int rerun(struct fsm *f, const struct act *a, struct job *j,
		 enum event_type type, uint32_t attempt)
{
	int r = 0;

	if (!a->dry_run)
		r = job_rerun(f, j, type, attempt);
	else if (j->extras & EXTRA_UNIQUE)
		r = unique_check(f, j);
	return r < 0 ? r : 1;
}

static int act_retry(struct fsm *f, const struct act *a, struct job *j)
{
	enum job_state s = j->live.state;

	if (s != JOB_SCHEDULED && !job_state_is_terminal(s))
		return refuse_state(f, a, j);
	return rerun(f, a, j, EVENT_RETRIED, 0);
}

/*
 * The attempts stay counted. One whose attempts are used up gets exactly one
 * more: attempts are only compared when one has failed.
 */
static int act_requeue(struct fsm *f, const struct act *a, struct job *j)
{
	if (j->live.state != JOB_DEAD)
		return refuse_state(f, a, j);
	return rerun(f, a, j, EVENT_REQUEUED, j->live.attempt);
}

static int act_delete(struct fsm *f, const struct act *a, struct job *j)
{
	if (!a->dry_run)
		job_delete(f, j, EVENT_DELETED);
	return 1;
}

/* Its worker is told by the next heartbeat, and ends it. */
static int cancel_active(struct fsm *f, const struct act *a, struct job *j)
{
	if (j->live.cancel_requested)
		return 0;
	if (!a->dry_run) {
		MSG_SET(&j->live, job_live, cancel_requested, true);
		job_event(f, j, EVENT_CANCELLING, STR_NULL);
		job_save(f, j);
	}
	return 1;
}

static int act_cancel(struct fsm *f, const struct act *a, struct job *j)
{
	if (j->live.state == JOB_ACTIVE)
		return cancel_active(f, a, j);
	if (!job_can_move(j->live.state, JOB_CANCELLED))
		return refuse_state(f, a, j);
	if (!a->dry_run)
		job_end_cancelled(f, j);
	return 1;
}

/*
 * Whoever is moved goes to the end of the new queue, also when it comes into
 * the order later. The unique lock stays where it was taken.
 */
static int act_move(struct fsm *f, const struct act *a, struct job *j)
{
	struct fsm_queue *from = j->q;
	int r;

	if (str_eq(from->name, a->queue))
		return 0;
	r = roster_check(f, &a->queue, 1);
	if (r < 0)
		return r;
	if (a->dry_run)
		return 1;
	job_relink(f, j, queue_get(f, a->queue), j->prio, ++f->last_job_seq);
	job_event(f, j, EVENT_MOVED,
		  fsm_event_change(f, from->name, j->q->name));
	job_save(f, j);
	r = clock_changed_queue(f, j);
	return r < 0 ? r : 1;
}

static struct str priority_text(uint32_t prio)
{
	return str_from(enum_text(&enum_priority, prio));
}

static int act_priority(struct fsm *f, const struct act *a, struct job *j)
{
	uint8_t before = j->prio;

	if (j->live.state == JOB_ACTIVE || job_state_is_terminal(j->live.state))
		return refuse_state(f, a, j);
	if (a->priority == before)
		return 0;
	if (a->dry_run)
		return 1;
	job_relink(f, j, j->q, (uint8_t)a->priority, j->live.seq);
	job_event(
	    f, j, EVENT_PRIORITY_CHANGED,
	    fsm_event_change(f, priority_text(before), priority_text(j->prio)));
	job_save(f, j);
	return 1;
}

static int act_hold(struct fsm *f, const struct act *a, struct job *j)
{
	if (!job_can_move(j->live.state, JOB_HELD))
		return refuse_state(f, a, j);
	if (j->live.cancel_requested)
		return fsm_refuse(f, ERR_HOLD_ERROR,
				  "job \"%.*s\" cannot be held: it is being "
				  "cancelled",
				  STR_ARG(j->id));
	if (!a->dry_run)
		job_hold(
		    f, j,
		    &(struct hold){ .by = a->verdict.by, .reason = a->reason });
	return 1;
}

/* Who approves has seen what is asked, and not another payload or hold. */
static bool is_what_was_seen(const struct act *a, const struct job *j)
{
	return a->approve == NULL || !MSG_HAS(a->approve, approve, number) ||
	       a->approve->number == link_number(j);
}

static int act_approve(struct fsm *f, const struct act *a, struct job *j)
{
	int r = 0;

	if (j->live.state != JOB_HELD)
		return refuse_state(f, a, j);
	if (!is_what_was_seen(a, j))
		return fsm_refuse(f, ERR_CONFLICT,
				  "number: job \"%.*s\" is held for something "
				  "else by now, or has another payload; look "
				  "at it again",
				  STR_ARG(j->id));
	if (a->approve != NULL)
		r = agent_change_limits(f, j, a->approve);
	if (r == 0 && !a->dry_run)
		r = policy_approve(f, j, &a->verdict);
	return r < 0 ? r : 1;
}

static int act_reject(struct fsm *f, const struct act *a, struct job *j)
{
	if (j->live.state != JOB_HELD)
		return refuse_state(f, a, j);
	if (!a->dry_run)
		job_reject(f, j, a->reason, &a->verdict);
	return 1;
}

static const struct kind kinds[KINDS] = {
	[BULK_RETRY] = { act_retry, ERR_RETRY_ERROR, "retried", "retried" },
	[BULK_DELETE] = { act_delete, ERR_NOT_FOUND, "deleted", "deleted" },
	[BULK_CANCEL] = { act_cancel, ERR_CANCEL_ERROR, "cancelled",
			  "cancelled" },
	[BULK_MOVE] = { act_move, ERR_MOVE_ERROR, "moved", "moved" },
	[BULK_REQUEUE] = { act_requeue, ERR_REQUEUE_ERROR, "requeued",
			   "requeued" },
	[BULK_CHANGE_PRIORITY] = { act_priority, ERR_PRIORITY_ERROR,
				   "given another priority", "changed" },
	[BULK_HOLD] = { act_hold, ERR_HOLD_ERROR, "held", "held" },
	[BULK_APPROVE] = { act_approve, ERR_APPROVE_ERROR, "approved",
			   "pending" },
	[BULK_REJECT] = { act_reject, ERR_REJECT_ERROR, "rejected", "dead" },
};

/* --- one job, alone or of many --- */

struct str act_state_text(const struct job *j)
{
	return str_from(
	    enum_text(&enum_job_state, job_state_shown(j->live.state)));
}

int act_on(struct fsm *f, const struct act *a, struct str id, struct job *ret)
{
	const struct kind *k = &kinds[a->action];
	int r = job_must_find(f, id, ret);

	return r < 0 ? r : k->fn(f, a, ret);
}

int act_alone(struct fsm *f, const struct act *a, struct str id,
	      struct m_status_reply *ret)
{
	const struct kind *k = &kinds[a->action];
	struct job j;
	int r = job_must_find(f, id, &j);

	MSG_SET(ret, status_reply, status, str_from(k->status));
	if (r < 0)
		return r;
	r = k->fn(f, a, &j);
	if (a->action == BULK_CANCEL && j.live.state == JOB_ACTIVE)
		MSG_SET(ret, status_reply, status, STR("cancelling"));
	if (r == 1 && a->action == BULK_APPROVE)
		MSG_SET(ret, status_reply, status, act_state_text(&j));
	return MIN(r, 0);
}
