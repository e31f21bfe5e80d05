/*
 * Questions about one schedule, or those that are due. Loop thread; answered
 * from the state machine, writes that are not in the store yet included.
 */
#include "serve/svc_impl.h"

void q_get_schedule(struct svc *s, struct rpc_req req,
		    const struct m_schedule_ref *m)
{
	struct m_schedule found;
	int r = fsm_schedule(s->p->fsm, m->id, &s->scratch, &found);

	if (r < 0) {
		svc_reply_error(req, -r);
	} else if (r == 0) {
		struct str text = arena_printf(
		    &s->scratch, "schedule \"%.*s\" not found", STR_ARG(m->id));

		rpc_reply(req, ERR_NOT_FOUND, fsm_last_seq(s->p->fsm), text);
	} else {
		svc_reply(s, req, &msg_schedule, &found);
	}
}

/* sched needs no more of the job than that there will be one. */
void q_due_schedules(struct svc *s, struct rpc_req req,
		     const struct m_nothing *m)
{
	struct m_schedule *due;
	struct str ids[FSM_DUE_SCHEDULES];
	struct m_schedule_list list = { 0 };
	uint64_t now_ns = proposer_now(s->p->proposer);
	size_t n = 0;
	int r = 0;

	(void)m;
	if (node_is_ready(s->p->node))
		n = fsm_due_schedules(s->p->fsm, now_ns, ids, ARRAY_SIZE(ids));
	due = arena_zalloc(&s->scratch, (n + 1) * sizeof(*due));
	for (size_t i = 0; r >= 0 && i < n; i++) {
		r = fsm_schedule(s->p->fsm, ids[i], &s->scratch, &due[i]);
		MSG_UNSET(&due[i], schedule, job);
	}
	MSG_SET_LIST(&list, schedule_list, schedules, due, n);
	MSG_SET(&list, schedule_list, now_ns, now_ns);
	if (r < 0)
		svc_reply_error(req, -r);
	else
		svc_reply(s, req, &msg_schedule_list, &list);
}
