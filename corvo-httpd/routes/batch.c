/*
 * POST /batches. The id is made here, so that a request that is sent again
 * after a crash of raftd names the same batch.
 */
#include "req/req.h"
#include "routes/handlers.h"

static void on_opened(struct req *r, const struct rpc_reply *reply)
{
	struct m_batch_ref *m = req_reply(r, &msg_batch_ref, reply);

	if (m != NULL)
		req_answer_message(r, &msg_batch_ref, m,
				   r->match.route->status);
}

void h_open_batch(struct req *r)
{
	struct m_open_batch *m = arena_zalloc(&r->arena, sizeof(*m));

	if (!req_read(r, &msg_open_batch, m))
		return;
	MSG_SET(m, open_batch, batch_id, req_make_id(r, "batch_"));
	req_call_raftd(r, OP_OPEN_BATCH, m->callback_queue, &msg_open_batch, m,
		       on_opened);
}
