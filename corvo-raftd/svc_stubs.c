/* Placeholders: each goes when its query is built. */
#include "svc_impl.h"

void q_why(struct svc *s, struct rpc_req req, const struct m_job_ref *m)
{
	(void)s;
	(void)m;
	svc_reply_error(req, ERR_INTERNAL_ERROR);
}
