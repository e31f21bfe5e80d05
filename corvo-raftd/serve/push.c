/*
 * Push queues, for sched: which they are, whether this node makes the calls,
 * and what sched tells of them, for people who ask. Loop thread.
 */
#include <stdlib.h>
#include <string.h>

#include "proto/metric_list.h"
#include "serve/svc_impl.h"

/* sched, waiting for another answer. */
struct push_wait {
	struct list node;
	struct rpc_req req;
	uint64_t version, webhooks;
	bool active, leader;
};

/* --- what sched tells --- */

static void keep_states(struct svc *s, const struct m_push_watch *m)
{
	struct push_told *t = &s->push;

	hmap_clear(&t->states);
	arena_reset(&t->arena);
	for (size_t i = 0; i < m->states_n; i++) {
		const struct m_push_state *from = &m->states[i];
		struct m_push_state *to = arena_alloc(&t->arena, sizeof(*to));

		*to = *from;
		to->queue = arena_copy(&t->arena, from->queue);
		to->host = arena_copy(&t->arena, from->host);
		to->error = arena_copy(&t->arena, from->error);
		hmap_put(&t->states, to->queue, to);
	}
}

/* A sched that was started again counts from 0; our numbers only grow. */
static void keep_counts(struct svc *s, const struct m_push_watch *m)
{
	struct push_told *t = &s->push;

	if (t->pid != m->pid)
		t->told_calls = t->told_failures = 0;
	t->pid = m->pid;
	t->calls += m->calls - MIN(m->calls, t->told_calls);
	t->failures += m->failures - MIN(m->failures, t->told_failures);
	t->told_calls = m->calls;
	t->told_failures = m->failures;
	t->open = m->open;
	t->breakers = m->breakers;
}

const struct m_push_state *push_state(void *ctx, struct str queue)
{
	const struct svc *s = ctx;

	return hmap_get(&s->push.states, queue);
}

void push_metrics(struct svc *s, struct metric_list *o)
{
	const struct push_told *t = &s->push;

	metric_add(o, METRIC_PUSH_CALLS, (double)(t->calls - t->failures),
		   STR("result=\"ok\""));
	metric_add(o, METRIC_PUSH_CALLS, (double)t->failures,
		   STR("result=\"failed\""));
	metric_add(o, METRIC_PUSH_OPEN, (double)t->open, STR_NULL);
	metric_add(o, METRIC_PUSH_BREAKERS, (double)t->breakers, STR_NULL);
	metric_add(o, METRIC_PUSH_QUEUES, (double)fsm_push_n(s->p->fsm),
		   STR_NULL);
}

/* --- what sched asks --- */

/* Webhooks are delivered to by one node: each has one place in the log. */
static bool is_leader(const struct svc *s)
{
	return !s->draining && node_is_ready(s->p->node);
}

static bool is_active(const struct svc *s)
{
	return is_leader(s) ||
	       (!s->draining &&
		strcmp(s->p->d->settings.push_nodes, "all") == 0);
}

void q_push_watch(struct svc *s, struct rpc_req req,
		  const struct m_push_watch *m)
{
	struct push_wait *w = xcalloc(1, sizeof(*w));

	keep_states(s, m);
	keep_counts(s, m);
	w->req = req;
	w->version = m->version;
	w->active = m->active;
	w->webhooks = m->webhooks;
	w->leader = m->leader;
	list_push_back(&s->push.waits, &w->node); /* push_turn_end looks */
}

void q_push_list(struct svc *s, struct rpc_req req, const struct m_push_list *m)
{
	struct m_push_list_reply reply = { 0 };
	struct m_push_queue *queues;
	struct m_fetched *held;
	size_t n = fsm_push_queues(s->p->fsm, m->after, LIMIT_PUSH_PAGE + 1,
				   &s->scratch, &queues);

	MSG_SET(&reply, push_list_reply, version, fsm_push_version(s->p->fsm));
	MSG_SET(&reply, push_list_reply, more, n > LIMIT_PUSH_PAGE);
	MSG_SET_LIST(&reply, push_list_reply, queues, queues,
		     MIN(n, (size_t)LIMIT_PUSH_PAGE));
	if (m->worker_id.n > 0) {
		n = fsm_push_held(s->p->fsm, m->worker_id, LIMIT_HELD_JOBS,
				  &s->scratch, &held);
		MSG_SET_LIST(&reply, push_list_reply, held, held, n);
	}
	svc_reply(s, req, &msg_push_list_reply, &reply);
}

void push_turn_end(struct svc *s)
{
	struct m_push_watch_reply now = { 0 };

	if (list_empty(&s->push.waits))
		return;
	MSG_SET(&now, push_watch_reply, version, fsm_push_version(s->p->fsm));
	MSG_SET(&now, push_watch_reply, active, is_active(s));
	MSG_SET(&now, push_watch_reply, webhooks,
		fsm_webhooks_version(s->p->fsm));
	MSG_SET(&now, push_watch_reply, leader, is_leader(s));
	LIST_FOREACH_SAFE (it, &s->push.waits) {
		struct push_wait *w = list_entry(it, struct push_wait, node);

		if (rpc_req_is_live(w->req) && w->version == now.version &&
		    w->active == now.active && w->webhooks == now.webhooks &&
		    w->leader == now.leader)
			continue;
		svc_reply(s, w->req, &msg_push_watch_reply, &now);
		list_remove(it);
		free(w);
	}
}

void push_cancel(struct svc *s, struct rpc_req req)
{
	LIST_FOREACH_SAFE (it, &s->push.waits) {
		struct push_wait *w = list_entry(it, struct push_wait, node);

		if (!rpc_req_is(w->req, req))
			continue;
		list_remove(it);
		free(w);
	}
}

void push_init(struct svc *s)
{
	list_init(&s->push.waits);
}

void push_done(struct svc *s)
{
	LIST_FOREACH_SAFE (it, &s->push.waits)
		free(list_entry(it, struct push_wait, node));
	hmap_done(&s->push.states);
	arena_done(&s->push.arena);
}
