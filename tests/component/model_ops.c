/*
 * What workers and people do to jobs, and what comes with time. See model.h.
 */
#include "model.h"

/* --- workers --- */

/*
 * Who may speak for the job: itself, or NULL with the refusal noted. Of a
 * holder that gave no name nobody is another one.
 */
static struct model_job *holder(struct model *m, struct str id, bool has_token,
				uint64_t token, struct str worker,
				int not_found, int not_active)
{
	struct model_job *j = model_find(m, id);
	bool named = has_token || worker.n > 0;

	if (j == NULL)
		model_refuse(m, not_found);
	else if (j->state != JOB_ACTIVE)
		model_refuse(m, named ? ERR_LEASE_LOST : not_active);
	else if ((has_token && token != j->token) ||
		 (worker.n > 0 && j->worker.n > 0 &&
		  !str_eq(worker, j->worker)))
		model_refuse(m, ERR_LEASE_LOST);
	else
		return j;
	return NULL;
}

/* --- a request that ended an attempt is answered so again --- */

static struct str said(struct model *m, struct buf *b, const struct str *logs,
		       size_t logs_n)
{
	struct str ret;

	for (size_t i = 0; i < logs_n; i++)
		buf_printf(b, "|%.*s", STR_ARG(logs[i]));
	ret = model_copy(m, buf_str(b));
	buf_done(b);
	return ret;
}

static struct str ack_said(struct model *m, const struct m_ack *op)
{
	struct buf b = BUF_INIT(0);

	buf_printf(&b, "ack|%.*s|%.*s|%.*s|%.*s|%d %u", STR_ARG(op->worker_id),
		   STR_ARG(op->result), STR_ARG(op->checkpoint),
		   STR_ARG(op->response), MSG_HAS(op, ack, step_status),
		   op->step_status);
	buf_printf(&b, "|%d %u %d %u|%.*s|%.*s", MSG_HAS(op, ack, agent_status),
		   op->agent_status, MSG_HAS(op, ack, ack_status),
		   op->ack_status, STR_ARG(op->hold_reason),
		   STR_ARG(op->trace));
	buf_printf(&b, "|%.*s %d %llu|", STR_ARG(op->provider),
		   MSG_HAS(op, ack, latency), (unsigned long long)op->latency);
	model_usage_said(&b, op->usage);
	return said(m, &b, op->logs, op->logs_n);
}

static struct str fail_said(struct model *m, const struct m_fail *op)
{
	struct buf b = BUF_INIT(0);

	buf_printf(&b, "fail|%.*s|%.*s|%.*s|%d %d %d %d %d %llu",
		   STR_ARG(op->worker_id), STR_ARG(op->error),
		   STR_ARG(op->response), MSG_HAS(op, fail, requeue),
		   op->requeue, MSG_HAS(op, fail, retry), op->retry,
		   MSG_HAS(op, fail, retry_after),
		   (unsigned long long)op->retry_after);
	buf_printf(&b, "|%.*s %d %llu|", STR_ARG(op->provider),
		   MSG_HAS(op, fail, latency), (unsigned long long)op->latency);
	model_usage_said(&b, op->usage);
	return said(m, &b, op->logs, op->logs_n);
}

static void spend(struct model_job *j, bool has_token, uint64_t token,
		  struct str by)
{
	j->spent_token = has_token ? token : 0;
	j->spent_by = by;
	j->spent_error = STR_NULL;
}

/* The job it ended an attempt of; then it is not refused. */
static struct model_job *spent(struct model *m, struct str id, bool has_token,
			       uint64_t token, struct str by)
{
	struct model_job *j = model_find(m, id);

	if (j == NULL || !has_token || j->spent_token != token ||
	    !str_eq(j->spent_by, by))
		return NULL;
	m->errs_n = 0;
	return j;
}

static void fail_attempt(struct model *m, struct model_job *j,
			 const struct m_fail *op)
{
	model_error(m, j, op->error);
	if (j->cancel_requested)
		model_end(m, j, JOB_CANCELLED);
	else if (MSG_HAS(op, fail, retry) && !op->retry)
		model_end(m, j, JOB_DEAD);
	else
		model_retry_or_die(
		    m, j,
		    MSG_HAS(op, fail, retry_after) ? &op->retry_after : NULL);
}

/* Backoff none: it is pending at once, but the attempt failed. */
static enum job_state failed_to(const struct model_job *j)
{
	return j->state == JOB_PENDING ? JOB_RETRYING : j->state;
}

/* The only schema there is asks for an object, and results are objects, the
 * number 2, or absent. */
static bool result_fits(struct model *m, const struct model_job *j,
			const struct m_ack *op)
{
	enum agent_status said =
	    MSG_HAS(op, ack, agent_status) ? op->agent_status : op->ack_status;

	return model_queue(m, j->queue)->set.result_schema.n == 0 ||
	       j->cancel_requested || said != AGENT_DONE ||
	       str_starts(op->result, STR("{"));
}

static void reject_result(struct model *m, struct model_job *j)
{
	struct m_fail fail = { .error = STR("result: must be of type object") };

	j->touched = true;
	fail_attempt(m, j, &fail);
	j->spent_error = fail.error;
	j->spent_reply.status = failed_to(j);
	m->ack_error = fail.error;
	m->ack_status = j->spent_reply.status;
}

void model_ack(struct model *m, const struct m_ack *op, int not_found)
{
	bool has_token = MSG_HAS(op, ack, lease_token);
	struct model_job *j = holder(m, op->job_id, has_token, op->lease_token,
				     op->worker_id, not_found, ERR_ACK_ERROR);
	struct str by = ack_said(m, op);

	m->ack_error = STR_NULL;
	if (j == NULL) {
		j = spent(m, op->job_id, has_token, op->lease_token, by);
		if (j != NULL) {
			m->ack_error = j->spent_error;
			m->ack_status = j->spent_reply.status;
		}
		return;
	}
	if (!model_agent_fits(m, j, op))
		return;
	spend(j, has_token, op->lease_token, by);
	model_report(m, j, op->usage);
	model_heard(m,
		    op->provider.n == 0 && op->usage != NULL
			? op->usage->provider
			: op->provider,
		    false, op->latency);
	if (op->response.n > 0)
		j->response = model_copy(m, op->response);
	j->log_lines += (uint32_t)op->logs_n;
	if (!result_fits(m, j, op)) {
		reject_result(m, j);
		return;
	}
	if (op->checkpoint.n > 0)
		j->checkpoint = model_copy(m, op->checkpoint);
	if (model_agent_turn(m, j, op))
		return;
	j->exit_chain = op->step_status == STEP_EXIT;
	model_end(m, j, j->cancel_requested ? JOB_CANCELLED : JOB_COMPLETED);
}

void model_fail(struct model *m, const struct m_fail *op,
		struct m_fail_reply *ret)
{
	bool has_token = MSG_HAS(op, fail, lease_token);
	struct model_job *j =
	    holder(m, op->job_id, has_token, op->lease_token, op->worker_id,
		   ERR_NOT_FOUND, ERR_FAIL_ERROR);
	struct str by = fail_said(m, op);

	if (j == NULL) {
		j = spent(m, op->job_id, has_token, op->lease_token, by);
		if (j != NULL)
			*ret = j->spent_reply;
		m->failed_at = j != NULL ? j->spent_at : 0;
		return;
	}
	spend(j, has_token, op->lease_token, by);
	model_report(m, j, op->usage);
	model_heard(m, op->provider, true, op->latency);
	j->touched = true;
	j->log_lines += (uint32_t)op->logs_n;
	if (!op->requeue) {
		if (op->response.n > 0)
			j->response = model_copy(m, op->response);
		fail_attempt(m, j, op);
	} else if (j->cancel_requested) {
		model_end(m, j, JOB_CANCELLED);
	} else {
		j->attempt--;
		model_to_pending(m, j);
	}
	ret->status = op->requeue ? j->state : failed_to(j);
	ret->attempts_remaining =
	    job_state_is_terminal(j->state) ? 0 : model_attempts_left(j);
	ret->next_attempt_at = j->scheduled_at ? j->scheduled_at : m->now;
	j->spent_reply = *ret;
	j->spent_at = m->now;
	m->failed_at = m->now;
}

void model_beat(struct model *m, struct str worker, const struct m_beat *b,
		struct m_beat_reply *ret)
{
	struct model_job *j;

	if (b->worker_id.n > 0)
		worker = b->worker_id;
	m->errs_n = 0;
	j = holder(m, b->job_id, MSG_HAS(b, beat, lease_token), b->lease_token,
		   worker, ERR_NOT_FOUND, ERR_ACK_ERROR);
	*ret = (struct m_beat_reply){ .status = STR("cancel") };
	if (j == NULL) {
		const struct model_job *it = model_find(m, b->job_id);

		ret->unknown = it == NULL;
		if (it != NULL &&
		    (it->state == JOB_ACTIVE || MSG_HAS(b, beat, lease_token)))
			ret->code = STR("LEASE_LOST");
	}
	m->errs_n = 0;
	if (j == NULL)
		return;
	if (!j->cancel_requested)
		ret->status = STR("ok");
	j->touched = true;
	j->lease_end = MAX(j->lease_end, m->now + j->lease_ns);
	ret->lease_expires_at = j->lease_end;
	model_report(m, j, b->usage);
	if (b->progress.n > 0)
		j->progress = model_copy(m, b->progress);
	if (b->checkpoint.n > 0)
		j->checkpoint = model_copy(m, b->checkpoint);
	j->log_lines += (uint32_t)b->logs_n;
}

void model_renew(struct model *m, const struct m_renewal *r)
{
	struct model_job *j = model_find(m, r->job_id);

	if (j == NULL || j->state != JOB_ACTIVE || j->token != r->lease_token)
		return;
	j->lease_end =
	    MAX(j->lease_end, MIN(r->lease_expires_at, m->now + j->lease_ns));
	j->touched = true;
}

/* --- people --- */

static const char *cancel(struct model *m, struct model_job *j)
{
	j->touched = true;
	if (j->state == JOB_ACTIVE) {
		j->cancel_requested = true;
		return "cancelling";
	}
	if (!model_is_waiting(j) || j->state == JOB_HELD)
		model_refuse(m, ERR_CANCEL_ERROR);
	else
		model_end(m, j, JOB_CANCELLED);
	return "cancelled";
}

/* It would be pending again: another job may have its key meanwhile. */
static bool take_key(struct model *m, struct model_job *j)
{
	const struct model_job *other;

	if (j->key.n == 0)
		return true;
	other = model_lock_holder(m, j->key_queue, j->key);
	if (other != NULL && other != j) {
		model_refuse(m, ERR_UNIQUE_CONFLICT);
		return false;
	}
	j->key_until = m->now + j->key_period;
	return true;
}

/* One whose expiry has passed loses it: it is to run. */
static void run_again(struct model *m, struct model_job *j)
{
	if (j->expire_at != 0 && j->expire_at <= m->now)
		j->expire_at = 0;
	model_agent_rerun(j);
	j->placed = true;
	j->completed_at = j->failed_at = j->cancelled_at = j->started_at = 0;
	j->ended_at = 0;
	j->progress = j->result = j->response = STR_NULL;
	model_to_pending(m, j);
}

static const char *retry(struct model *m, struct model_job *j)
{
	if (!job_state_is_terminal(j->state) && j->state != JOB_SCHEDULED) {
		model_refuse(m, ERR_RETRY_ERROR);
	} else if (take_key(m, j)) {
		j->attempt = 0;
		run_again(m, j);
	}
	return "retried";
}

static const char *requeue(struct model *m, struct model_job *j)
{
	if (j->state != JOB_DEAD) {
		model_refuse(m, ERR_REQUEUE_ERROR);
	} else if (take_key(m, j)) {
		run_again(m, j);
	}
	return "requeued";
}

static const char *approve(struct model *m, struct model_job *j)
{
	if (j->state != JOB_HELD) {
		model_refuse(m, ERR_APPROVE_ERROR);
		return "";
	}
	return model_approve_held(m, j, DECIDED_VIA_REQUEST, STR_NULL,
				  STR_NULL);
}

const char *model_job_op(struct model *m, enum op_id op, struct str id)
{
	static const struct {
		enum op_id op;
		const char *(*fn)(struct model *m, struct model_job *j);
	} ops[] = {
		{ OP_CANCEL, cancel },
		{ OP_RETRY, retry },
		{ OP_REQUEUE, requeue },
		{ OP_APPROVE, approve },
	};
	struct model_job *j = model_find(m, id);

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		if (ops[i].op != op)
			continue;
		if (j != NULL)
			return ops[i].fn(m, j);
		model_refuse(m, ERR_NOT_FOUND);
		return "";
	}
	assert_int_equal(op, OP_DELETE);
	if (j == NULL)
		model_refuse(m, ERR_NOT_FOUND);
	else
		model_end(m, j, MODEL_DELETED);
	return "deleted";
}

void model_move(struct model *m, const struct m_move *op)
{
	struct model_job *j = model_find(m, op->job_id);

	if (j == NULL) {
		model_refuse(m, ERR_NOT_FOUND);
		return;
	}
	j->touched = true;
	if (str_eq(j->queue, op->queue) || !model_may_name(m, &op->queue, 1))
		return;
	j->queue = model_queue(m, op->queue)->name;
	j->placed = true;
}

void model_priority(struct model *m, const struct m_set_priority *op)
{
	struct model_job *j = model_find(m, op->job_id);

	if (j == NULL || !model_is_waiting(j)) {
		model_refuse(m, j == NULL ? ERR_NOT_FOUND : ERR_PRIORITY_ERROR);
		return;
	}
	j->prio = op->priority;
	j->touched = true;
}

void model_hold(struct model *m, const struct m_hold *op)
{
	struct model_job *j = model_find(m, op->job_id);

	if (j == NULL || job_state_is_terminal(j->state) ||
	    j->state == JOB_HELD || j->cancel_requested) {
		model_refuse(m, j == NULL ? ERR_NOT_FOUND : ERR_HOLD_ERROR);
		return;
	}
	model_held_by(m, j, HELD_BY_PERSON, op->by, op->reason);
}

void model_reject(struct model *m, const struct m_hold *op)
{
	struct model_job *j = model_find(m, op->job_id);

	if (j == NULL || j->state != JOB_HELD) {
		model_refuse(m, j == NULL ? ERR_NOT_FOUND : ERR_REJECT_ERROR);
		return;
	}
	model_reject_held(m, j, DECIDED_VIA_REQUEST, op->by,
			  op->comment.n > 0 ? op->comment : op->reason);
}

/* --- time --- */

uint32_t model_promote(struct model *m)
{
	uint32_t n = 0;

	MODEL_EACH(m, j)
	{
		if ((j->state != JOB_SCHEDULED && j->state != JOB_RETRYING) ||
		    j->scheduled_at > m->now)
			continue;
		model_to_pending(m, j);
		n++;
	}
	return n;
}

uint32_t model_reclaim(struct model *m)
{
	uint32_t n = 0;

	MODEL_EACH(m, j)
	{
		bool timeout = j->timeout_at != 0 && j->timeout_at <= m->now;

		if (j->state != JOB_ACTIVE ||
		    (!timeout && j->lease_end > m->now))
			continue;
		n++;
		model_error(m, j,
			    timeout ? STR("timeout") : STR("lease expired"));
		if (!timeout)
			j->lost_leases++;
		if (j->cancel_requested)
			model_end(m, j, JOB_CANCELLED);
		else if (model_attempts_left(j) == 0)
			model_end(m, j, JOB_DEAD);
		else if (timeout)
			model_retry_or_die(m, j, NULL);
		else
			model_to_pending(m, j);
	}
	return n;
}

uint32_t model_expire(struct model *m)
{
	uint32_t n = 0;

	MODEL_EACH(m, j)
	{
		if (job_state_is_terminal(j->state) || j->expire_at == 0 ||
		    j->expire_at > m->now)
			continue;
		model_expire_job(m, j);
		n++;
	}
	return n;
}

/* Nobody seals it: it goes, and its parent counts it as failed. */
static void purge_open(struct model *m, struct model_batch *b)
{
	struct model_batch *up = model_find_batch(m, b->parent);

	b->used = false;
	if (up == NULL)
		return;
	up->failed++;
	up->changed_at = m->now;
	model_batch_look(m, up);
}

void model_purge(struct model *m, uint64_t retention)
{
	if (m->retention != 0)
		retention = m->retention;
	MODEL_EACH(m, j)
	{
		const struct m_set_queue *s = &model_queue(m, j->queue)->set;
		uint64_t keep =
		    MSG_HAS(s, set_queue, retention) ? s->retention : retention;

		if (job_state_is_terminal(j->state) && keep != 0 &&
		    j->ended_at + keep <= m->now)
			model_end(m, j, MODEL_DELETED);
	}
	for (size_t i = 0; i < MODEL_BATCHES; i++) {
		struct model_batch *b = &m->batches[i];

		if (!b->used || retention == 0)
			continue;
		if (b->ended_at != 0 && b->ended_at + retention <= m->now)
			b->used = false;
		else if (!b->sealed && b->succeeded + b->failed == b->total &&
			 b->changed_at + retention <= m->now)
			purge_open(m, b);
	}
}
