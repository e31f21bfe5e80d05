/*
 * Questions that are not answered yet.
 */
#include "svc_impl.h"

#define STUB(name, request)                              \
	void q_##name(struct svc *s, struct rpc_req req, \
		      const struct m_##request *m)       \
	{                                                \
		(void)s;                                 \
		(void)m;                                 \
		svc_reply_error(req, ERR_NOT_FOUND);     \
	}

STUB(throughput, nothing)
STUB(scale, scale_ask)
