/*
 * Answers what a batch is like. The id comes from a client and may be of
 * anything.
 */
#include "serve/parts.h"
#include "serve/svc_impl.h"

void q_get_batch(struct svc *s, struct rpc_req req, const struct m_batch_ref *m)
{
	struct m_batch batch;
	int r = fsm_batch(s->p->fsm, m->batch_id, &batch);

	if (r > 0) {
		svc_reply(s, req, &msg_batch, &batch);
	} else if (r < 0) {
		svc_reply_error(req, -r);
	} else {
		struct str text =
		    arena_printf(&s->scratch, "batch \"%.*s\" not found",
				 STR_ARG(m->batch_id));

		rpc_reply(req, ERR_NOT_FOUND, fsm_last_seq(s->p->fsm), text);
	}
}
