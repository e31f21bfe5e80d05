/*
 * move, priority, requeue, hold, approve, reject: what people do to one job.
 * Each refuses before it changes anything, so that many jobs can be acted on
 * in one operation too. A resend is answered as what it did the first time.
 */
#include "fsm_impl.h"

/* --- move --- */

/*
 * Whoever is moved goes to the end of the new queue, also when it comes into
 * the order later. The unique lock stays where it was taken.
 */
int apply_move(struct fsm *f, const struct m_move *op,
	       struct m_status_reply *ret)
{
	struct fsm_queue *from;
	struct job j;
	int r;

	if (!queue_name_fits(op->queue))
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "queue: must have 1 to %d bytes",
				  LIMIT_QUEUE_NAME_BYTES);
	r = job_must_find(f, op->job_id, ERR_MOVE_ERROR, &j);
	if (r < 0)
		return r;
	MSG_SET(ret, status_reply, status, STR("moved"));
	if (str_eq(j.q->name, op->queue))
		return 0;
	from = j.q;
	job_relink(f, &j, queue_get(f, op->queue), j.prio, ++f->last_job_seq);
	job_event(f, &j, EVENT_MOVED,
		  fsm_event_change(f, from->name, j.q->name));
	job_save(f, &j);
	return 0;
}

/* --- priority --- */

static struct str priority_text(uint32_t prio)
{
	return str_from(enum_text(&enum_priority, prio));
}

int apply_priority(struct fsm *f, const struct m_set_priority *op,
		   struct m_status_reply *ret)
{
	struct job j;
	uint8_t before;
	int r;

	if (!MSG_HAS(op, set_priority, priority) || op->priority >= PRIORITIES)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "priority: must be critical, high or normal");
	r = job_must_find(f, op->job_id, ERR_PRIORITY_ERROR, &j);
	if (r < 0)
		return r;
	MSG_SET(ret, status_reply, status, STR("changed"));
	if (j.live.state == JOB_ACTIVE || job_state_is_terminal(j.live.state))
		return job_refuse_state(f, ERR_PRIORITY_ERROR, &j,
					"given another priority");
	if (op->priority == j.prio)
		return 0;
	before = j.prio;
	job_relink(f, &j, j.q, (uint8_t)op->priority, j.live.seq);
	job_event(
	    f, &j, EVENT_PRIORITY_CHANGED,
	    fsm_event_change(f, priority_text(before), priority_text(j.prio)));
	job_save(f, &j);
	return 0;
}

/* --- requeue --- */

/*
 * The attempts stay counted. One whose attempts are used up gets exactly one
 * more: attempts are only compared when one has failed.
 */
int apply_requeue(struct fsm *f, const struct m_job_ref *op,
		  struct m_status_reply *ret)
{
	struct job j;
	int r = job_must_find(f, op->job_id, ERR_REQUEUE_ERROR, &j);

	if (r < 0)
		return r;
	MSG_SET(ret, status_reply, status, STR("requeued"));
	if (fsm_is_resend(f) &&
	    (j.live.state == JOB_PENDING || j.live.state == JOB_ACTIVE))
		return 0;
	if (j.live.state != JOB_DEAD)
		return job_refuse_state(f, ERR_REQUEUE_ERROR, &j, "requeued");
	return job_rerun(f, &j, EVENT_REQUEUED, j.live.attempt);
}

/* --- hold, approve, reject --- */

int apply_hold(struct fsm *f, const struct m_hold *op,
	       struct m_status_reply *ret)
{
	struct job j;
	int r = job_must_find(f, op->job_id, ERR_HOLD_ERROR, &j);

	if (r < 0)
		return r;
	MSG_SET(ret, status_reply, status, STR("held"));
	if (j.live.state == JOB_HELD && fsm_is_resend(f))
		return 0;
	if (!job_can_move(j.live.state, JOB_HELD))
		return job_refuse_state(f, ERR_HOLD_ERROR, &j, "held");
	if (j.live.cancel_requested)
		return fsm_refuse(f, ERR_HOLD_ERROR,
				  "job \"%.*s\" cannot be held: it is being "
				  "cancelled",
				  STR_ARG(j.id));
	job_hold(f, &j, op->reason);
	return 0;
}

static bool was_approved(enum job_state s)
{
	return s == JOB_PENDING || s == JOB_BLOCKED || s == JOB_ACTIVE;
}

int apply_approve(struct fsm *f, const struct m_job_ref *op,
		  struct m_status_reply *ret)
{
	struct job j;
	int r = job_must_find(f, op->job_id, ERR_APPROVE_ERROR, &j);

	if (r < 0)
		return r;
	MSG_SET(ret, status_reply, status, STR("pending"));
	if (fsm_is_resend(f) && was_approved(j.live.state))
		return 0;
	if (j.live.state != JOB_HELD)
		return job_refuse_state(f, ERR_APPROVE_ERROR, &j, "approved");
	job_approve(f, &j);
	return 0;
}

int apply_reject(struct fsm *f, const struct m_hold *op,
		 struct m_status_reply *ret)
{
	struct str text = STR("rejected");
	struct job j;
	int r = job_must_find(f, op->job_id, ERR_REJECT_ERROR, &j);

	if (r < 0)
		return r;
	MSG_SET(ret, status_reply, status, STR("dead"));
	if (j.live.state == JOB_DEAD && fsm_is_resend(f))
		return 0;
	if (j.live.state != JOB_HELD)
		return job_refuse_state(f, ERR_REJECT_ERROR, &j, "rejected");
	if (op->reason.n > 0)
		text = arena_printf(&f->item_arena, "rejected: %.*s",
				    STR_ARG(op->reason));
	job_record_error(f, &j, text, STR_NULL);
	job_event(f, &j, EVENT_REJECTED,
		  op->reason.n > 0 ? fsm_event_text(f, "reason", op->reason)
				   : STR_NULL);
	job_end_dead(f, &j, "rejected");
	return 0;
}
