/*
 * heartbeat, renew: signs of life. Heartbeats that only extend a lease are
 * kept by the leader and arrive together in a renew.
 */
#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/job/active.h"
#include "fsm/job/checkpoint.h"
#include "fsm/job/job.h"
#include "fsm/job/log.h"
#include "fsm/job/worker.h"
#include "fsm/ops/ops.h"
#include "fsm/ties/usage.h"

/* It has spent more than one job may. True: its worker has lost it. */
static bool stop_over_budget(struct fsm *f, struct job *j,
			     const struct purse_report *report)
{
	if (!report->over_job ||
	    (report->action != BUDGET_HOLD && report->action != BUDGET_REJECT))
		return false;
	/* whoever asked for the end of it was told that it comes */
	if (report->action == BUDGET_REJECT || j->live.cancel_requested) {
		job_end_cancelled(f, j);
		return true;
	}
	buf_clear(&f->why);
	buf_puts(&f->why, "budget exceeded: ");
	purse_describe(f, &report->block, &f->why);
	job_hold(f, j,
		 &(struct hold){
		     .kind = HELD_BY_BUDGET,
		     .by = report->block.purse->m.id,
		     .reason = arena_copy(&f->item_arena, buf_str(&f->why)) });
	return true;
}

/* What became of a job by its heartbeat. */
struct beaten {
	bool refused;  /* its report was not counted */
	bool exceeded; /* a budget of it is spent */
	bool stopped;  /* and it is taken from its worker */
};

static int beat_store(struct fsm *f, struct fsm_active *a,
		      const struct m_beat *b, struct beaten *ret)
{
	struct usage_counted counted = { 0 };
	struct job j;
	int r;

	if (b->progress.n == 0 && b->checkpoint.n == 0 && b->logs_n == 0 &&
	    b->usage == NULL && b->response.n == 0)
		return 0;
	r = job_find(f, b->job_id, &j);
	if (r < 0)
		return r;
	MUST(f, r > 0);
	/* others of this request may have used up the names of units */
	ret->refused = b->usage != NULL && usage_check(f, b->usage) < 0;
	if (b->usage != NULL && !ret->refused)
		r = usage_add(f, &j, b->usage, "heartbeat", &counted);
	if (r < 0)
		return r;
	if (b->progress.n > 0)
		MSG_SET(&j.live, job_live, progress, b->progress);
	if (b->checkpoint.n > 0)
		checkpoint_set(f, &j, b->checkpoint);
	if (b->progress.n > 0 || b->checkpoint.n > 0)
		job_event(f, &j, EVENT_PROGRESS, b->progress);
	if (b->logs_n > 0) {
		log_append(f, &j, b->logs, b->logs_n);
		job_event(f, &j, EVENT_LOGGED,
			  fsm_event_number(f, "lines", b->logs_n));
	}
	if (b->response.n > 0) {
		MSG_SET(&j.live, job_live, response, b->response);
		MSG_SET(&j.live, job_live, accepted, true);
		a->accepted = true;
	}
	job_save(f, &j);
	ret->exceeded = counted.budget.exceeded || counted.budget.over_job;
	ret->stopped = stop_over_budget(f, &j, &counted.budget);
	return 0;
}

static void beat_reply(enum fsm_lease_state s, const struct claim *c,
		       const struct fsm_active *a, struct m_beat_reply *ret)
{
	MSG_SET(ret, beat_reply, status,
		s == FSM_LEASE_OK ? STR("ok") : STR("cancel"));
	if (s == FSM_LEASE_LOST || (s == FSM_LEASE_ENDED && c->has_token))
		MSG_SET(ret, beat_reply, code,
			str_from(err_code(ERR_LEASE_LOST)));
	if (s == FSM_LEASE_UNKNOWN)
		MSG_SET(ret, beat_reply, unknown, true);
	if (s == FSM_LEASE_OK || s == FSM_LEASE_CANCEL)
		MSG_SET(ret, beat_reply, lease_expires_at, a->lease.key);
}

/* A worker told to cancel keeps its lease while it winds up. */
static int beat_one(struct fsm *f, const struct m_heartbeat *op,
		    const struct m_beat *b, struct m_beat_reply *ret)
{
	struct claim c = {
		.job_id = b->job_id,
		.worker = b->worker_id.n > 0 ? b->worker_id : op->worker_id,
		.has_token = MSG_HAS(b, beat, lease_token),
		.token = b->lease_token,
	};
	struct fsm_active *a;
	enum fsm_lease_state s = claim_judge(f, &c, &a);
	struct beaten beaten = { 0 };
	int r = f->fatal;

	if (s == FSM_LEASE_OK || s == FSM_LEASE_CANCEL) {
		active_extend(f, a, fsm_later(f, a->granted_ns));
		worker_touch(f, a->worker);
		r = beat_store(f, a, b, &beaten);
	}
	if (beaten.stopped)
		s = FSM_LEASE_ENDED;
	MSG_SET(ret, beat_reply, job_id, b->job_id);
	beat_reply(s, &c, a, ret);
	if (beaten.exceeded)
		MSG_SET(ret, beat_reply, budget_exceeded, true);
	if (beaten.refused)
		MSG_SET(ret, beat_reply, code,
			str_from(err_code(ERR_VALIDATION_ERROR)));
	return r;
}

/* All of them, before anything is done. */
static int check_reports(struct fsm *f, const struct m_heartbeat *op)
{
	int r = 0;

	if (op->answers_n > 0)
		return 0; /* the first entry has */
	for (size_t i = 0; r == 0 && i < op->jobs_n; i++)
		if (op->jobs[i].usage != NULL)
			r = usage_check(f, op->jobs[i].usage);
	return r;
}

/* The records of the jobs are large: later entries go on after `done`. */
static int beat_rest(struct fsm *f, const struct m_heartbeat *op, size_t done,
		     struct m_beat_reply *replies)
{
	struct m_heartbeat *left = arena_alloc(&f->item_arena, sizeof(*left));

	*left = *op;
	MSG_SET_LIST(left, heartbeat, jobs, op->jobs + done, op->jobs_n - done);
	MSG_SET_LIST(left, heartbeat, answers, replies, op->answers_n + done);
	return fsm_go_on_with(f, left);
}

int apply_heartbeat(struct fsm *f, const struct m_heartbeat *op,
		    struct m_heartbeat_reply *ret)
{
	size_t before = op->answers_n, i = 0;
	struct m_beat_reply *replies = arena_zalloc(
	    &f->item_arena, (before + op->jobs_n) * sizeof(*replies));
	int r = check_reports(f, op);

	if (r < 0)
		return r;
	if (before > 0)
		memcpy(replies, op->answers, before * sizeof(*replies));
	for (; i < op->jobs_n; i++) {
		if (i > 0 && budget_is_spent(f))
			return beat_rest(f, op, i, replies);
		r = beat_one(f, op, &op->jobs[i], &replies[before + i]);
		if (r < 0)
			return r;
	}
	MSG_SET_LIST(ret, heartbeat_reply, jobs, replies, before + i);
	return 0;
}

/* No lease lasts longer than it was granted for, from now on. */
static uint64_t renewed_until(const struct fsm *f, const struct fsm_active *a,
			      const struct m_renewal *l)
{
	if (f->entry_format < 2)
		return l->lease_expires_at;
	return MIN(l->lease_expires_at, fsm_later(f, a->granted_ns));
}

int apply_renew(struct fsm *f, const struct m_renew *op,
		struct m_maintain_reply *ret)
{
	uint32_t count = 0;

	for (size_t i = 0; i < op->leases_n; i++) {
		const struct m_renewal *l = &op->leases[i];
		struct fsm_active *a = active_find(f, l->job_id);

		/* Acked, lost or handed out again since: nothing to renew. */
		if (a == NULL || a->token != l->lease_token)
			continue;
		count += active_extend(f, a, renewed_until(f, a, l));
		worker_touch(f, a->worker);
	}
	MSG_SET(ret, maintain_reply, count, count);
	return 0;
}
