/*
 * What another node is to do: ops of a leadership that is over. See
 * propose/proposer.h.
 */
#include "propose/proposer_impl.h"

/* Done twice it is as good as done once. */
static bool may_come_twice(const struct op *op)
{
	return (op->flags & FRAME_KEEP) || op->id == OP_FETCH;
}

bool pass_on(struct proposer *p, struct op *op, int err)
{
	struct frame_request item = {
		.op = op->id,
		.flags = op->flags,
		.deadline_ns = op->deadline_ns,
		.done = op->caller.done,
		.origin = op->caller.origin,
		.number = op->number,
		.key = op->key,
		.body = op->body,
	};

	if (p->c.pass_on == NULL || op->req.peer == NULL || p->draining ||
	    op->cancelled || !rpc_req_is_live(op->req))
		return false;
	if (err == ERR_OUTCOME_UNKNOWN) {
		if (!may_come_twice(op))
			return false;
		item.flags |= FRAME_RESEND;
	}
	/*
	 * Another node sends its own to the next leader, when this one takes
	 * its leave of it. Sent by both, a fetch would be given its jobs twice:
	 * what its worker got first would be taken from it.
	 */
	if (!rpc_req_is_of_node(op->req))
		p->c.pass_on(p->c.ctx, op->req, &item);
	op_free(p, op);
	return true;
}

/* The server's own ops have no meaning for another leader. */
static void pass_or_refuse(struct proposer *p, struct op *op)
{
	if (!pass_on(p, op, ERR_LEADER_UNAVAILABLE))
		op_refuse(p, op, ERR_LEADER_UNAVAILABLE,
			  err_text(ERR_LEADER_UNAVAILABLE));
}

void proposer_step_down(struct proposer *p)
{
	struct waiter *w;

	fences_pass_on(p, &p->fences, ERR_LEADER_UNAVAILABLE);
	LIST_FOREACH_SAFE (it, &p->pending) {
		struct op *op = list_entry(it, struct op, node);

		pending_drop(p, op);
		pass_or_refuse(p, op);
	}
	while ((w = lot_next_deadline(&p->lot)) != NULL)
		pass_or_refuse(p, container_of(w, struct fetch, waiter)->op);
}
