/*
 * What is due, for sched: it asks for the first moment and waits here until
 * that is another one. Loop thread.
 */
#include <stdlib.h>
#include <string.h>

#include "serve/svc_impl.h"

/* sched, waiting for the next moment to change. */
struct due_wait {
	struct list node;
	struct rpc_req req;
	uint64_t known_ns;
};

static uint64_t first_due(const struct m_due_reply *d)
{
	uint64_t all[] = { d->promote_ns, d->reclaim_ns, d->expire_ns,
			   d->release_ns, d->fire_ns,    d->purge_ns,
			   d->bulk_ns,    d->deadline_ns };
	uint64_t first = 0;

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		first = min_nonzero(first, all[i]);
	return first;
}

/* First moments of everything sched does. */
static void due_moments(struct svc *s, struct m_due_reply *ret)
{
	const struct m_cluster_settings *set = fsm_settings(s->p->fsm);

	fsm_due(s->p->fsm, ret);
	MSG_SET(ret, due_reply, purge_ns,
		fsm_purge_due(s->p->fsm, set->retention, set->queue_idle));
}

static void due_now(struct svc *s, struct m_due_reply *ret)
{
	uint64_t last = fsm_last_seq(s->p->fsm);
	uint64_t kept = last + 1 - fsm_first_seq(s->p->fsm);
	uint64_t keep = fsm_settings(s->p->fsm)->event_retention;

	*ret = (struct m_due_reply){ 0 };
	MSG_SET(ret, due_reply, leader, node_is_ready(s->p->node));
	if (!ret->leader)
		return;
	due_moments(s, ret);
	/* a tenth of slack, so that one trim removes many */
	if (keep > 0 && kept > keep + keep / 10)
		MSG_SET(ret, due_reply, trim_seq, last - keep);
}

/* A sched that was started again counts from 0; our numbers only grow. */
static void note_sched(struct svc *s, const struct m_due *m)
{
	uint64_t now[SCHED_TASKS] = { m->promote_errors, m->reclaim_errors,
				      m->expire_errors, m->purge_errors };

	if (s->sched_pid != m->pid)
		memset(s->sched_told, 0, sizeof(s->sched_told));
	s->sched_pid = m->pid;
	for (int i = 0; i < SCHED_TASKS; i++) {
		if (now[i] > s->sched_told[i])
			s->sched_errors[i] += now[i] - s->sched_told[i];
		s->sched_told[i] = now[i];
	}
}

void q_due(struct svc *s, struct rpc_req req, const struct m_due *m)
{
	struct due_wait *w = xcalloc(1, sizeof(*w));

	note_sched(s, m);
	w->req = req;
	w->known_ns = m->known_ns;
	list_push_back(&s->dues, &w->node); /* svc_turn_end looks at it */
}

/*
 * sched may come for work that is done or gone by now: that is answered here,
 * so that an idle node writes nothing.
 */
bool dues_is_nothing(struct svc *s, uint32_t op)
{
	struct m_due_reply now = { 0 };
	uint64_t moment;

	if (!node_is_ready(s->p->node))
		return false;
	if ((op == OP_EXPIRE || op == OP_PURGE || op == OP_DEADLINE) &&
	    !proposer_time_is_settled(s->p->proposer))
		return true;
	due_moments(s, &now);
	switch (op) {
	case OP_PROMOTE:
		moment = now.promote_ns;
		break;
	case OP_RECLAIM:
		moment = now.reclaim_ns;
		break;
	case OP_EXPIRE:
		moment = now.expire_ns;
		break;
	case OP_DEADLINE:
		moment = now.deadline_ns;
		break;
	case OP_RELEASE:
		moment = now.release_ns;
		break;
	case OP_PURGE:
		moment = now.purge_ns;
		break;
	default:
		return false;
	}
	return moment == 0 || moment > proposer_now(s->p->proposer);
}

/* An asker that is gone is noticed when there is something to answer. */
void dues_cancel(struct svc *s, struct rpc_req req)
{
	LIST_FOREACH_SAFE (it, &s->dues) {
		struct due_wait *w = list_entry(it, struct due_wait, node);

		if (!rpc_req_is(w->req, req))
			continue;
		list_remove(it);
		free(w);
	}
}

void dues_done(struct svc *s)
{
	LIST_FOREACH_SAFE (it, &s->dues)
		free(list_entry(it, struct due_wait, node));
}

/*
 * An earlier moment is news at once. A later one is not until the known one
 * has come: under load the first lease that ends is another one all the time.
 */
static bool due_is_news(const struct svc *s, const struct m_due_reply *now,
			uint64_t known_ns)
{
	uint64_t first = first_due(now);

	if (now->trim_seq != 0)
		return true;
	if (first == known_ns)
		return false;
	if (known_ns == 0 || (first != 0 && first < known_ns))
		return true;
	return known_ns <= proposer_now(s->p->proposer);
}

void dues_turn_end(struct svc *s)
{
	struct m_due_reply now;

	if (list_empty(&s->dues))
		return;
	due_now(s, &now);
	LIST_FOREACH_SAFE (it, &s->dues) {
		struct due_wait *w = list_entry(it, struct due_wait, node);

		if (rpc_req_is_live(w->req) &&
		    !due_is_news(s, &now, w->known_ns))
			continue;
		svc_reply(s, w->req, &msg_due_reply, &now);
		list_remove(it);
		free(w);
	}
}
