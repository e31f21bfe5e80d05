/*
 * Questions about schedules. Loop thread; answered from the state machine,
 * writes that are not in the store yet included.
 */
#include "serve/svc_impl.h"

#define PAGE_BYTES (8u << 20) /* of the schedules in one answer */

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

/* A page being read. */
struct page {
	struct arena *arena;
	struct m_schedule *items;
	size_t n, limit, bytes;
	bool more;
	int err;
};

static bool page_add(void *ctx, struct str key, struct str value)
{
	struct page *p = ctx;

	(void)key;
	p->more =
	    p->n == p->limit || (p->n > 0 && p->bytes + value.n > PAGE_BYTES);
	if (p->more)
		return false;
	p->bytes += value.n;
	if (msg_decode(&msg_schedule, arena_copy(p->arena, value), p->arena,
		       &p->items[p->n]) < 0)
		p->err = -ERR_INTERNAL_ERROR;
	p->n++;
	return p->err == 0;
}

void q_list_schedules(struct svc *s, struct rpc_req req,
		      const struct m_list_schedules *m)
{
	struct page p = { .arena = &s->scratch, .limit = LIMIT_SCHEDULE_PAGE };
	struct m_schedule_list list = { 0 };
	int r;

	if (m->limit > 0)
		p.limit = MIN(m->limit, (uint32_t)LIMIT_SCHEDULE_PAGE);
	p.items = arena_alloc(&s->scratch, p.limit * sizeof(*p.items));
	r = fsm_each_schedule(s->p->fsm, m->after, page_add, &p);
	if (r == 0)
		r = p.err;
	if (r < 0) {
		svc_reply_error(req, -r);
		return;
	}
	MSG_SET_LIST(&list, schedule_list, schedules, p.items, p.n);
	if (p.more)
		MSG_SET(&list, schedule_list, next, p.items[p.n - 1].id);
	svc_reply(s, req, &msg_schedule_list, &list);
}
