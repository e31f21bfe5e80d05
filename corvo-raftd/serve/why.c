/*
 * Why a job is waiting: the state machine knows, but for who is asking for
 * jobs right now.
 */
#include "serve/svc_impl.h"

static bool is_fetched(void *ctx, struct str queue)
{
	const struct svc *s = ctx;

	return proposer_is_asked_for(s->p->proposer, queue);
}

void q_why(struct svc *s, struct rpc_req req, const struct m_job_ref *m)
{
	struct fsm_why ask = { .job_id = m->job_id,
			       .now_ns = proposer_now(s->p->proposer),
			       .is_fetched = is_fetched,
			       .push_state = push_state,
			       .ctx = s };
	struct m_why_reply reply;
	int r = fsm_flush(s->p->fsm);

	if (r == 0)
		r = fsm_why(s->p->fsm, &ask, &s->scratch, &reply);
	if (r < 0)
		svc_reply_error(req, -r);
	else if (r == 0)
		svc_reply_no_job(s, req, m->job_id);
	else
		svc_reply(s, req, &msg_why_reply, &reply);
}
