/*
 * Questions about approval policies and signed links.
 */
#include "serve/svc_impl.h"

void q_list_policies(struct svc *s, struct rpc_req req,
		     const struct m_nothing *m)
{
	struct m_policy_list list = { 0 };

	(void)m;
	fsm_policies(s->p->fsm, &s->scratch, &list);
	svc_reply(s, req, &msg_policy_list, &list);
}

void q_get_policy(struct svc *s, struct rpc_req req,
		  const struct m_policy_ref *m)
{
	const struct m_policy *p = fsm_policy(s->p->fsm, m->id);

	if (p != NULL)
		svc_reply(s, req, &msg_policy, p);
	else
		rpc_reply(req, ERR_NOT_FOUND, 0,
			  STR("there is no approval policy of that id or "
			      "name"));
}

void q_show_link(struct svc *s, struct rpc_req req, const struct m_link_ref *m)
{
	struct m_link_view view = { 0 };
	struct str why;
	int r = fsm_link(s->p->fsm, m->token, proposer_now(s->p->proposer),
			 &s->scratch, &view, &why);

	if (r == 0)
		svc_reply(s, req, &msg_link_view, &view);
	else
		rpc_reply(req, -r, 0, why.n > 0 ? why : str_from(err_text(-r)));
}
