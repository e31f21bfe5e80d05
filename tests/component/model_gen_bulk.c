/*
 * See model_run.h: actions on several jobs at once. The rule: it does to each
 * in turn what the operation on one job does; what that refuses, or would not
 * change, is skipped.
 */
#include "model_run.h"

#define JOBS_MAX 6

/* Nothing about it would change. */
static bool is_so(struct run *n, const struct m_bulk_act *op, struct str id)
{
	const struct model_job *j = model_find(n->m, id);

	if (j == NULL)
		return false;
	if (op->action == BULK_CANCEL)
		return j->state == JOB_ACTIVE && j->cancel_requested;
	if (op->action == BULK_MOVE)
		return str_eq(j->queue, op->move_to_queue);
	return op->action == BULK_CHANGE_PRIORITY && j->prio == op->priority;
}

static void model_act(struct run *n, const struct m_bulk_act *op, struct str id)
{
	struct m_set_priority priority = { .job_id = id,
					   .priority = op->priority };
	struct m_move move = { .job_id = id, .queue = op->move_to_queue };
	struct m_hold hold = { .job_id = id, .reason = op->reason };

	switch ((enum bulk_action)op->action) {
	case BULK_RETRY:
		(void)model_job_op(n->m, OP_RETRY, id);
		break;
	case BULK_DELETE:
		(void)model_job_op(n->m, OP_DELETE, id);
		break;
	case BULK_CANCEL:
		(void)model_job_op(n->m, OP_CANCEL, id);
		break;
	case BULK_MOVE:
		model_move(n->m, &move);
		break;
	case BULK_REQUEUE:
		(void)model_job_op(n->m, OP_REQUEUE, id);
		break;
	case BULK_CHANGE_PRIORITY:
		model_priority(n->m, &priority);
		break;
	case BULK_HOLD:
		model_hold(n->m, &hold);
		break;
	case BULK_APPROVE:
		(void)model_job_op(n->m, OP_APPROVE, id);
		break;
	case BULK_REJECT:
		model_reject(n->m, &hold);
		break;
	}
}

/* How many it acts on. */
static uint64_t act_on_all(struct run *n, const struct m_bulk_act *op)
{
	uint64_t affected = 0;

	for (size_t i = 0; i < op->job_ids_n; i++) {
		bool so = is_so(n, op, op->job_ids[i]);

		n->m->errs_n = 0;
		model_act(n, op, op->job_ids[i]);
		affected += n->m->errs_n == 0 && !so;
	}
	n->m->errs_n = 0; /* the operation itself is accepted */
	return affected;
}

void run_bulk(struct run *n)
{
	struct m_bulk_act op = { 0 };
	struct m_bulk_result r;
	struct str ids[JOBS_MAX];
	size_t jobs = 1 + run_below(n, JOBS_MAX);
	uint64_t affected = 0;

	for (size_t i = 0; i < jobs; i++)
		ids[i] = run_job(n);
	MSG_SET(&op, bulk_act, action, (uint32_t)run_below(n, BULK_REJECT + 1));
	MSG_SET_LIST(&op, bulk_act, job_ids, ids, jobs);
	if (op.action == BULK_MOVE)
		MSG_SET(&op, bulk_act, move_to_queue, run_queue(n));
	if (op.action == BULK_CHANGE_PRIORITY)
		MSG_SET(&op, bulk_act, priority, (uint32_t)run_below(n, 3));
	if (op.action == BULK_HOLD && run_chance(n, 50))
		MSG_SET(&op, bulk_act, reason, STR("look first"));
	MSG_SET(&op, bulk_act, dry_run, run_chance(n, 20));
	if (op.action == BULK_MOVE)
		(void)model_may_name(n->m, &op.move_to_queue, 1);
	if (!op.dry_run && n->m->errs_n == 0)
		affected = act_on_all(n, &op);
	if (!run_do(n, OP_BULK_ACT, &op, &r))
		return;
	assert_int_equal(r.affected + r.skipped, jobs);
	if (!op.dry_run)
		assert_int_equal(r.affected, affected);
}
