/*
 * One queue: what is set and counted, and the wait for its active jobs to end.
 * A wait belongs to its request: it ends with an answer, at its deadline, or
 * when the client goes.
 */
#include <stdlib.h>

#include "serve/svc_impl.h"
#include "util/clock.h"

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

/* --- drain --- */

struct drain_wait {
	struct list node;
	struct rpc_req req;
	uint64_t deadline_ns; /* monotonic */
	struct str queue;     /* behind the struct */
};

static void on_drain_timer(void *ctx)
{
	(void)ctx; /* the end of this turn looks at the deadlines */
}

void drains_init(struct svc *s)
{
	list_init(&s->drains);
	s->drain_timer = loop_timer_add(s->p->d->loop, on_drain_timer, s);
}

void drains_done(struct svc *s)
{
	LIST_FOREACH_SAFE (it, &s->drains)
		free(list_entry(it, struct drain_wait, node));
	loop_timer_remove(s->drain_timer);
}

void drains_cancel(struct svc *s, struct rpc_req req)
{
	LIST_FOREACH_SAFE (it, &s->drains) {
		struct drain_wait *w = list_entry(it, struct drain_wait, node);

		if (!rpc_req_is(w->req, req))
			continue;
		list_remove(it);
		free(w);
	}
}

void q_drained(struct svc *s, struct rpc_req req, const struct m_drain *m)
{
	struct drain_wait *w = xcalloc(1, sizeof(*w) + m->queue.n);
	char *name = (char *)(w + 1);

	memcpy(name, m->queue.p, m->queue.n);
	w->queue = str_of(name, m->queue.n);
	w->req = req;
	w->deadline_ns = clock_mono_ns() +
			 MIN(m->wait_ns, LIMIT_WAIT_S * (uint64_t)NS_PER_S);
	list_push_back(&s->drains, &w->node); /* drains_turn_end looks at it */
}

/* True: answered. A queue that is resumed will not drain. */
static bool drain_answer(struct svc *s, const struct drain_wait *w,
			 uint64_t now_ns)
{
	struct m_drain_reply reply = { 0 };
	struct m_queue q = { 0 };
	bool found = fsm_queue(s->p->fsm, w->queue, &q);

	if (found && q.active > 0 && q.paused && now_ns < w->deadline_ns)
		return false;
	MSG_SET(&reply, drain_reply, status,
		q.active > 0 ? STR("draining") : STR("drained"));
	MSG_SET(&reply, drain_reply, active, q.active);
	svc_reply(s, w->req, &msg_drain_reply, &reply);
	return true;
}

void drains_turn_end(struct svc *s)
{
	uint64_t now_ns, first_ns = UINT64_MAX;

	if (list_empty(&s->drains))
		return;
	now_ns = clock_mono_ns();
	LIST_FOREACH_SAFE (it, &s->drains) {
		struct drain_wait *w = list_entry(it, struct drain_wait, node);

		if (rpc_req_is_live(w->req) && !drain_answer(s, w, now_ns)) {
			first_ns = MIN(first_ns, w->deadline_ns);
			continue;
		}
		list_remove(it);
		free(w);
	}
	if (first_ns != UINT64_MAX)
		loop_timer_arm(s->drain_timer, first_ns - now_ns);
}

void drains_end(struct svc *s)
{
	LIST_FOREACH_SAFE (it, &s->drains)
		list_entry(it, struct drain_wait, node)->deadline_ns = 0;
	drains_turn_end(s);
}
