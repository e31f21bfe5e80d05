/*
 * What happened in the last hour, and what an autoscaler wants to know of each
 * queue. Names of queues come from clients.
 */
#include "serve/svc_impl.h"
#include "serve/throughput.h"

void q_throughput(struct svc *s, struct rpc_req req, const struct m_nothing *m)
{
	struct m_throughput_minute minutes[THROUGHPUT_MINUTES];
	struct m_throughput reply = { 0 };

	(void)m;
	throughput_read(&s->p->throughput, proposer_now(s->p->proposer),
			minutes);
	MSG_SET_LIST(&reply, throughput, minutes, minutes, THROUGHPUT_MINUTES);
	svc_reply(s, req, &msg_throughput, &reply);
}

static int read_busiest(struct svc *s, struct m_scale_list *ret)
{
	uint64_t now = proposer_now(s->p->proposer);
	unsigned fills = FSM_SCALE_FILLS;
	struct str *names;
	size_t n =
	    fsm_busiest(s->p->fsm, LIMIT_METRIC_QUEUES, &s->scratch, &names);
	struct m_scale *all = arena_alloc(&s->scratch, n * sizeof(*all));

	for (size_t i = 0; i < n; i++) {
		int r = fsm_scale(s->p->fsm, names[i], now, &fills, &all[i]);

		if (r < 0)
			return r;
		CHECK(r > 0);
	}
	MSG_SET_LIST(ret, scale_list, queues, all, n);
	return 1;
}

void q_scale(struct svc *s, struct rpc_req req, const struct m_scale_ask *m)
{
	struct m_scale_list list = { 0 };
	unsigned fills = FSM_SCALE_FILLS;
	struct m_scale one;
	int r;

	if (m->queue.n == 0) {
		r = read_busiest(s, &list);
	} else {
		r = fsm_scale(s->p->fsm, m->queue, proposer_now(s->p->proposer),
			      &fills, &one);
		MSG_SET_LIST(&list, scale_list, queues, &one, r > 0 ? 1 : 0);
	}
	if (r > 0)
		svc_reply(s, req, &msg_scale_list, &list);
	else if (r < 0)
		svc_reply_error(req, -r);
	else
		svc_reply_no_queue(s, req, m->queue);
}
