/*
 * ack, ack_batch, fail: a worker ends an attempt. Whoever holds the lease may;
 * without token and worker_id anybody may, as clients of v0.3.0 do.
 */
#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/job/active.h"
#include "fsm/job/checkpoint.h"
#include "fsm/job/job.h"
#include "fsm/job/log.h"
#include "fsm/job/timing.h"
#include "fsm/job/worker.h"
#include "fsm/ops/ops.h"
#include "fsm/ties/agent.h"
#include "fsm/ties/provider.h"
#include "fsm/ties/usage.h"
#include "util/hash.h"
#include "util/json.h"
#include "util/schema.h"

static int refuse_not_found(struct fsm *f, struct str id)
{
	return fsm_refuse(f, ERR_NOT_FOUND, "job \"%.*s\" not found",
			  STR_ARG(id));
}

static int refuse_lost(struct fsm *f, struct str id)
{
	return fsm_refuse(f, ERR_LEASE_LOST,
			  "the lease on job \"%.*s\" is no longer yours",
			  STR_ARG(id));
}

/* The job is not active: who named himself has lost his lease. */
static int refuse_ended(struct fsm *f, int err, const struct claim *c)
{
	if (c->has_token || c->worker.n > 0)
		return refuse_lost(f, c->job_id);
	return fsm_refuse(f, err, "job \"%.*s\" is not active",
			  STR_ARG(c->job_id));
}

/*
 * --- requests sent again ---
 *
 * A token that ended an attempt is spent. The job remembers with what, until
 * the next attempt has ended: the same request is answered as the first time,
 * another one is refused.
 */

/* Of all its members, those of later versions too. */
static uint64_t request_hash(struct fsm *f, const struct msg_desc *d,
			     const void *op)
{
	f->scratch.n = 0;
	msg_encode(d, op, &f->scratch);
	return hash_stable(f->scratch.p, f->scratch.n);
}

/* The caller saves. */
static void spend(struct job *j, const struct claim *c, uint64_t hash)
{
	struct m_job_live *l = &j->live;

	MSG_UNSET(l, job_live, spent);
	MSG_UNSET(l, job_live, spent_status);
	MSG_UNSET(l, job_live, spent_left);
	MSG_UNSET(l, job_live, spent_next_at);
	MSG_UNSET(l, job_live, spent_error);
	if (c->has_token)
		MSG_SET(l, job_live, spent, hash);
}

/* 1: this very request ended an attempt, of *ret; 0; -ERR_* of the store. */
static int was_spent(struct fsm *f, const struct claim *c, uint64_t hash,
		     struct job *ret)
{
	int r = c->has_token ? job_find(f, c->job_id, ret) : 0;

	if (r <= 0)
		return r;
	return MSG_HAS(&ret->live, job_live, spent) && ret->live.spent == hash;
}

/* --- ack --- */

static void complete_job(struct fsm *f, struct job *j, const struct m_ack *op)
{
	j->exit_chain = op->step_status == STEP_EXIT;
	job_event(f, j, EVENT_COMPLETED, STR_NULL);
	job_move(f, j, JOB_COMPLETED);
	MSG_SET(&j->live, job_live, completed_at, f->now_ns);
	job_save(f, j);
	f->counters.completed++;
}

/* What becomes of the job: it is done, or an agent's goes on or is held. */
static int end_by_ack(struct fsm *f, struct job *j, const struct m_ack *op)
{
	struct agent_turn turn;
	int r = agent_turn(f, j, op, &turn);

	if (r < 0)
		return r;
	if (op->result.n > 0 && turn.status != AGENT_CONTINUE)
		MSG_SET(&j->live, job_live, result, op->result);
	if (j->live.cancel_requested)
		job_end_cancelled(f, j);
	else if (turn.status == AGENT_HOLD)
		job_hold(f, j, &turn.hold);
	else if (turn.status == AGENT_CONTINUE)
		agent_go_on(f, j);
	else
		complete_job(f, j, op);
	return 0;
}

/* Before anything is done. */
static int check_ack(struct fsm *f, const struct m_ack *op)
{
	int r = op->usage != NULL ? usage_check(f, op->usage) : 0;

	return r < 0
		   ? r
		   : provider_check(f, MSG_HAS(op, ack, latency), op->latency);
}

static void praise(struct fsm *f, const struct m_ack *op)
{
	struct provider_report r = {
		.provider = op->provider,
		.has_latency = MSG_HAS(op, ack, latency),
		.latency_ns = op->latency,
	};

	if (r.provider.n == 0 && op->usage != NULL)
		r.provider = op->usage->provider;
	provider_report(f, &r);
}

/*
 * It is what the queue asks for. A loop that goes on or is held has no result
 * yet, and nobody asks for that of a cancelled job. False: f->why says where it
 * is not.
 */
static bool result_fits(struct fsm *f, const struct job *j,
			const struct m_ack *op)
{
	struct json_error e;

	if (j->q->result_schema == NULL || j->live.cancel_requested ||
	    agent_said(op) != AGENT_DONE)
		return true;
	buf_clear(&f->why);
	if (op->result.n > 0 &&
	    !json_validate(op->result, LIMIT_JSON_DEPTH, &e)) {
		buf_printf(&f->why, "result: %s at byte %zu", e.text, e.pos);
		return false;
	}
	return schema_fits(j->q->result_schema, op->result, "result",
			   &f->item_arena, &f->why);
}

static int reject_result(struct fsm *f, struct job *j, const struct m_ack *op,
			 const struct claim *c, struct m_status_reply *ret);

static int complete(struct fsm *f, const struct m_ack *op,
		    const struct claim *c, struct m_status_reply *ret)
{
	struct usage_counted counted;
	struct job j;
	int r = job_find(f, op->job_id, &j);

	if (r < 0)
		return r;
	MUST(f, r > 0);
	r = agent_check_ack(f, &j, op);
	if (r == 0 && op->usage != NULL)
		r = usage_check_job(f, &j, op->usage);
	if (r == 0 && op->usage != NULL)
		r = usage_add(f, &j, op->usage, "ack", &counted);
	if (r < 0)
		return r;
	praise(f, op);
	if (!result_fits(f, &j, op))
		return reject_result(f, &j, op, c, ret);
	timing_note_run(f, &j);
	if (op->checkpoint.n > 0)
		checkpoint_set(f, &j, op->checkpoint);
	if (op->response.n > 0)
		MSG_SET(&j.live, job_live, response, op->response);
	log_append(f, &j, op->logs, op->logs_n);
	spend(&j, c, c->has_token ? request_hash(f, &msg_ack, op) : 0);
	return end_by_ack(f, &j, op);
}

/* Who ends a job lives: whoever it is that says so for its worker. The lease is
 * gone then, so the name is of before. */
static void hear_of(struct fsm *f, struct str worker)
{
	if (f->entry_format > 1)
		worker_touch(f, worker);
}

static int fill_spent_ack(struct fsm *f, const struct job *j,
			  struct m_status_reply *ret);

static int ack_one(struct fsm *f, const struct m_ack *op,
		   struct m_status_reply *ret)
{
	struct claim c = {
		.job_id = op->job_id,
		.worker = op->worker_id,
		.has_token = MSG_HAS(op, ack, lease_token),
		.token = op->lease_token,
	};
	enum fsm_lease_state s;
	struct fsm_active *a;
	struct str worker;
	struct job j;
	int r = check_ack(f, op);

	if (r < 0)
		return r;
	MSG_SET(ret, status_reply, status, STR("ok"));
	s = claim_judge(f, &c, &a);
	if (s == FSM_LEASE_OK || s == FSM_LEASE_CANCEL) {
		worker = arena_copy(&f->item_arena, a->worker);
		r = complete(f, op, &c, ret);
		if (r == 0)
			hear_of(f, worker);
		return r;
	}
	if (s == FSM_LEASE_UNKNOWN)
		return refuse_not_found(f, op->job_id);
	r = was_spent(f, &c, request_hash(f, &msg_ack, op), &j);
	if (r != 0)
		return r < 0 ? r : fill_spent_ack(f, &j, ret);
	return s == FSM_LEASE_LOST ? refuse_lost(f, op->job_id)
				   : refuse_ended(f, ERR_ACK_ERROR, &c);
}

int apply_ack(struct fsm *f, const struct m_ack *op, struct m_status_reply *ret)
{
	return ack_one(f, op, ret);
}

#define TAKE(member)                                             \
	do {                                                     \
		if (MSG_HAS(item, ack_item, member))             \
			MSG_SET(ret, ack, member, item->member); \
	} while (0)

/* The very same as if it had been sent alone. */
static void ack_from_item(const struct m_ack_item *item, struct m_ack *ret)
{
	*ret = (struct m_ack){ 0 };
	TAKE(job_id);
	TAKE(result);
	TAKE(checkpoint);
	TAKE(worker_id);
	TAKE(step_status);
	TAKE(lease_token);
	TAKE(usage);
	TAKE(response);
	TAKE(agent_status);
	TAKE(ack_status);
	TAKE(hold_reason);
	TAKE(trace);
	TAKE(provider);
	TAKE(latency);
	if (item->logs_n > 0)
		MSG_SET_LIST(ret, ack, logs, item->logs, item->logs_n);
}

/* The next of them; *done counts it. */
static int ack_next(struct fsm *f, struct m_ack_batch *done)
{
	struct m_status_reply reply = { 0 };
	struct m_ack ack;
	int r;

	ack_from_item(&done->acks[0], &ack);
	done->acks++;
	done->acks_n--;
	r = ack_one(f, &ack, &reply);
	if (f->fatal < 0)
		return f->fatal;
	if (r == 0 && reply.error.n > 0)
		r = -ERR_RESULT_INVALID;
	if (r == 0) {
		MSG_SET(done, ack_batch, acked, done->acked + 1);
	} else {
		struct m_refusal *m = &done->refused[done->refused_n++];

		MSG_SET(m, refusal, job_id, ack.job_id);
		MSG_SET(m, refusal, code, str_from(err_code(-r)));
	}
	return 0;
}

/* One that cannot be counted is a mistake of the whole request. */
static int check_reports(struct fsm *f, const struct m_ack_batch *op)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < op->acks_n; i++) {
		struct m_ack ack;

		ack_from_item(&op->acks[i], &ack);
		r = check_ack(f, &ack);
	}
	return r;
}

/*
 * Each job may have large records, and its end may create another: what does
 * not fit into this entry is left to the next ones, with what is known so far.
 */
int apply_ack_batch(struct fsm *f, const struct m_ack_batch *op,
		    struct m_ack_batch_reply *ret)
{
	struct m_ack_batch *left = arena_alloc(&f->item_arena, sizeof(*left));
	size_t all = op->acks_n + op->refused_n;
	int r;

	r = op->refused_n == 0 && op->acked == 0 ? check_reports(f, op) : 0;
	if (r < 0)
		return r;
	*left = *op;
	MSG_SET_LIST(left, ack_batch, refused,
		     arena_zalloc(&f->item_arena, all * sizeof(*left->refused)),
		     op->refused_n);
	if (op->refused_n > 0)
		memcpy(left->refused, op->refused,
		       op->refused_n * sizeof(*op->refused));
	while (left->acks_n > 0) {
		if (left->acks_n < op->acks_n && budget_is_spent(f))
			return fsm_go_on_with(f, left);
		r = ack_next(f, left);
		if (r < 0)
			return r;
	}
	MSG_SET(ret, ack_batch_reply, acked, left->acked);
	if (left->refused_n > 0)
		MSG_SET_LIST(ret, ack_batch_reply, refused, left->refused,
			     left->refused_n);
	return 0;
}

/* --- fail --- */

static void fill_fail_reply(const struct job *j, enum job_state status,
			    struct m_fail_reply *ret)
{
	MSG_SET(ret, fail_reply, status, status);
	MSG_SET(ret, fail_reply, attempts_remaining,
		status == JOB_DEAD || status == JOB_CANCELLED
		    ? 0
		    : job_attempts_left(j->max_retries, j->live.attempt));
}

static void give_back(struct fsm *f, struct job *j, struct m_fail_reply *ret)
{
	job_event(f, j, EVENT_GIVEN_BACK, STR_NULL);
	MUST(f, j->live.attempt > 0);
	MSG_SET(&j->live, job_live, attempt, j->live.attempt - 1);
	job_back_to_pending(f, j);
	fill_fail_reply(j, JOB_PENDING, ret);
}

static int end_attempt(struct fsm *f, struct job *j, const struct m_fail *op,
		       struct m_fail_reply *ret)
{
	bool last = job_attempts_left(j->max_retries, j->live.attempt) == 0;
	bool no_retry = MSG_HAS(op, fail, retry) && !op->retry;
	int r;

	timing_note_run(f, j);
	if (op->response.n > 0)
		MSG_SET(&j->live, job_live, response, op->response);
	job_record_error(f, j, op->error, op->backtrace);
	job_event(f, j, EVENT_FAILED, fsm_event_text(f, "error", op->error));
	f->counters.failed++;
	if (j->live.cancel_requested) {
		job_end_cancelled(f, j);
		fill_fail_reply(j, JOB_CANCELLED, ret);
		return 0;
	}
	if (no_retry && !last) {
		job_end_dead(f, j, "the worker asked for no retry");
		fill_fail_reply(j, JOB_DEAD, ret);
		return 0;
	}
	r = job_retry_or_die(
	    f, j, MSG_HAS(op, fail, retry_after) ? &op->retry_after : NULL,
	    "no attempts left");
	if (r < 0)
		return r;
	fill_fail_reply(j, last ? JOB_DEAD : JOB_RETRYING, ret);
	if (!last)
		MSG_SET(ret, fail_reply, next_attempt_at,
			MAX(j->live.scheduled_at, f->now_ns));
	return 0;
}

/* What the job remembers of the answer. The caller saves. */
static void spend_fail(struct job *j, const struct claim *c, uint64_t hash,
		       const struct m_fail_reply *m)
{
	struct m_job_live *l = &j->live;

	spend(j, c, hash);
	MSG_SET(l, job_live, spent_status, m->status);
	MSG_SET(l, job_live, spent_left, m->attempts_remaining);
	if (MSG_HAS(m, fail_reply, next_attempt_at))
		MSG_SET(l, job_live, spent_next_at, m->next_attempt_at);
}

static void fill_spent_reply(const struct m_job_live *l,
			     struct m_fail_reply *ret)
{
	MSG_SET(ret, fail_reply, status, l->spent_status);
	MSG_SET(ret, fail_reply, attempts_remaining, l->spent_left);
	if (MSG_HAS(l, job_live, spent_next_at))
		MSG_SET(ret, fail_reply, next_attempt_at, l->spent_next_at);
}

static void blame(struct fsm *f, const struct m_fail *op)
{
	struct provider_report r = {
		.provider = op->provider,
		.failed = true,
		.has_latency = MSG_HAS(op, fail, latency),
		.latency_ns = op->latency,
		.error = op->error,
	};

	provider_report(f, &r);
	f->counters.provider_failures += op->provider.n > 0;
}

static int fail_held(struct fsm *f, const struct m_fail *op,
		     const struct claim *c, struct m_fail_reply *ret)
{
	struct usage_counted counted;
	struct job j;
	int r = job_find(f, op->job_id, &j);

	if (r < 0)
		return r;
	MUST(f, r > 0);
	r = op->usage != NULL ? usage_add(f, &j, op->usage, "fail", &counted)
			      : 0;
	if (r < 0)
		return r;
	blame(f, op);
	log_append(f, &j, op->logs, op->logs_n);
	if (!op->requeue) {
		r = end_attempt(f, &j, op, ret);
	} else if (j.live.cancel_requested) {
		job_end_cancelled(f, &j);
		fill_fail_reply(&j, JOB_CANCELLED, ret);
	} else {
		give_back(f, &j, ret);
	}
	if (r < 0 || !c->has_token)
		return MIN(r, 0);
	spend_fail(&j, c, request_hash(f, &msg_fail, op), ret);
	job_save(f, &j);
	return 0;
}

int apply_fail(struct fsm *f, const struct m_fail *op, struct m_fail_reply *ret)
{
	struct claim c = {
		.job_id = op->job_id,
		.worker = op->worker_id,
		.has_token = MSG_HAS(op, fail, lease_token),
		.token = op->lease_token,
	};
	enum fsm_lease_state s;
	struct fsm_active *a;
	struct str worker;
	struct job j;
	int r = op->usage != NULL ? usage_check(f, op->usage) : 0;

	if (r == 0)
		r = provider_check(f, MSG_HAS(op, fail, latency), op->latency);
	if (r < 0)
		return r;
	s = claim_judge(f, &c, &a);
	if (s == FSM_LEASE_OK || s == FSM_LEASE_CANCEL) {
		worker = arena_copy(&f->item_arena, a->worker);
		r = fail_held(f, op, &c, ret);
		if (r == 0)
			hear_of(f, worker);
		return r;
	}
	if (s == FSM_LEASE_UNKNOWN)
		return refuse_not_found(f, op->job_id);
	r = was_spent(f, &c, request_hash(f, &msg_fail, op), &j);
	if (r > 0)
		fill_spent_reply(&j.live, ret);
	if (r != 0)
		return MIN(r, 0);
	return s == FSM_LEASE_LOST ? refuse_lost(f, op->job_id)
				   : refuse_ended(f, ERR_FAIL_ERROR, &c);
}

/* --- results that are no good --- */

static void fill_rejected(enum job_state status, struct str error,
			  struct m_status_reply *ret)
{
	MSG_SET(ret, status_reply, status,
		str_from(enum_text(&enum_job_state, status)));
	MSG_SET(ret, status_reply, error, error);
}

/* The worker has done its work, and must not try again with another result:
 * the attempt has failed, as f->why says. */
static int reject_result(struct fsm *f, struct job *j, const struct m_ack *op,
			 const struct claim *c, struct m_status_reply *ret)
{
	struct str error = arena_copy(&f->item_arena, buf_str(&f->why));
	struct m_fail_reply became = { 0 };
	struct m_fail fail = { 0 };
	int r;

	MSG_SET(&fail, fail, error, error);
	if (op->response.n > 0)
		MSG_SET(&fail, fail, response, op->response);
	log_append(f, j, op->logs, op->logs_n);
	r = end_attempt(f, j, &fail, &became);
	if (r < 0)
		return r;
	fill_rejected(became.status, error, ret);
	if (!c->has_token)
		return 0;
	spend_fail(j, c, request_hash(f, &msg_ack, op), &became);
	MSG_SET(&j->live, job_live, spent_error, j->live.errors);
	job_save(f, j);
	return 0;
}

/* The same answer as the first time; without its words when so many leases were
 * lost since that the error is gone. */
static int fill_spent_ack(struct fsm *f, const struct job *j,
			  struct m_status_reply *ret)
{
	struct m_job_error e = { 0 };
	struct key k;
	int r;

	MSG_SET(ret, status_reply, status, STR("ok"));
	if (!MSG_HAS(&j->live, job_live, spent_error))
		return 0;
	key_error(&k, j->id, j->live.spent_error);
	r = fsm_read(f, &k, &msg_job_error, &e);
	if (r < 0)
		return r;
	fill_rejected(j->live.spent_status,
		      r > 0 ? e.error : STR("result: was refused"), ret);
	return 0;
}
