/*
 * Questions about inbound webhooks.
 */
#include "serve/svc_impl.h"

void q_get_hook(struct svc *s, struct rpc_req req, const struct m_hook_ref *m)
{
	const struct m_hook *h = fsm_hook(s->p->fsm, m->name);

	if (h != NULL)
		svc_reply(s, req, &msg_hook, h);
	else
		rpc_reply(req, ERR_NOT_FOUND, 0,
			  STR("there is no inbound webhook of that name"));
}

void q_list_hooks(struct svc *s, struct rpc_req req, const struct m_nothing *m)
{
	struct m_hook_list list = { 0 };

	(void)m;
	fsm_hooks(s->p->fsm, &s->scratch, &list);
	svc_reply(s, req, &msg_hook_list, &list);
}
