/*
 * One queue: what is set and counted.
 */
#include "serve/svc_impl.h"

void svc_reply_no_queue(struct svc *s, struct rpc_req req, struct str queue)
{
	rpc_reply(req, ERR_NOT_FOUND, fsm_last_seq(s->p->fsm),
		  arena_printf(&s->scratch, "queue \"%.*s\" not found",
			       STR_ARG(queue)));
}

void q_get_queue(struct svc *s, struct rpc_req req, const struct m_queue_ref *m)
{
	struct m_queue q;

	if (fsm_queue(s->p->fsm, m->queue, &q))
		svc_reply(s, req, &msg_queue, &q);
	else
		svc_reply_no_queue(s, req, m->queue);
}
