/*
 * open_batch, seal_batch, and the read of one batch. Ids were chosen before
 * the entry was proposed: a batch of that id is the one of an earlier try.
 */
#include "fsm/ties/batch.h"
#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/ops/ops.h"

int apply_open_batch(struct fsm *f, const struct m_open_batch *op,
		     struct m_batch_ref *ret)
{
	struct m_batch_options o = {
		.callback_queue = op->callback_queue,
		.callback_payload = op->callback_payload,
		.parent_id = op->parent_id,
	};
	int r = fsm_is_old_resend(f) ? batch_exists(f, op->batch_id) : 0;

	if (r == 0)
		r = batch_create(f, op->batch_id, &o, false);
	if (r < 0)
		return r;
	MSG_SET(ret, batch_ref, batch_id, op->batch_id);
	return 0;
}

int apply_seal_batch(struct fsm *f, const struct m_batch_ref *op,
		     struct m_batch *ret)
{
	int r = batch_seal(f, op->batch_id);

	if (r > 0)
		r = batch_read(f, op->batch_id, ret);
	if (r == 0)
		return fsm_refuse(f, ERR_NOT_FOUND, "batch \"%.*s\" not found",
				  STR_ARG(op->batch_id));
	return MIN(r, 0);
}

int fsm_batch(struct fsm *f, struct str id, struct m_batch *ret)
{
	arena_reset(&f->item_arena);
	return batch_read(f, id, ret);
}
