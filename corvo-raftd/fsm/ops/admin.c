/*
 * pause and resume of a queue.
 */
#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/ops/ops.h"
#include "fsm/order/queue.h"
#include "fsm/order/roster.h"

static int set_paused(struct fsm *f, const struct m_queue_ref *op, bool paused,
		      struct m_status_reply *ret)
{
	int r;

	if (!queue_name_fits(op->queue))
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "queue: must have 1 to %d bytes",
				  LIMIT_QUEUE_NAME_BYTES);
	r = roster_check(f, &op->queue, 1);
	if (r < 0)
		return r;
	/* a mistyped name must not look like one that is known */
	if (queue_find(f, op->queue) == NULL)
		MSG_SET(ret, status_reply, created, true);
	queue_set_paused(f, queue_get(f, op->queue), paused);
	return 0;
}

int apply_pause(struct fsm *f, const struct m_queue_ref *op,
		struct m_status_reply *ret)
{
	MSG_SET(ret, status_reply, status, STR("paused"));
	return set_paused(f, op, true, ret);
}

int apply_resume(struct fsm *f, const struct m_queue_ref *op,
		 struct m_status_reply *ret)
{
	MSG_SET(ret, status_reply, status, STR("resumed"));
	return set_paused(f, op, false, ret);
}
