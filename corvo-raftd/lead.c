/*
 * See lead.h. Each thing is proposed once in a leadership; when the disk is
 * full, with the first entry after that.
 */
#include "lead.h"

static void propose(struct lead *l, unsigned op, const void *m)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	msg_encode(op_info(op)->request, m, &b);
	proposer_submit_own(l->p->proposer, op, buf_str(&b));
}

/* What is set here becomes part of the state, the same on all replicas. */
static void propose_limits(struct lead *l)
{
	uint64_t max_queues = l->p->d->settings.max_queues;
	struct m_limits m = { 0 };

	if (fsm_max_queues(l->p->fsm) == max_queues)
		return;
	MSG_SET(&m, limits, max_queues, max_queues);
	propose(l, OP_SET_LIMITS, &m);
}

/* One that is alone leads always, which is no news. */
static void propose_leader(struct lead *l, const struct lead_voters *v)
{
	struct m_leader m = { 0 };
	struct node_info info;

	if (v->n <= 1)
		return;
	node_info(l->p->node, &info);
	MSG_SET(&m, leader, raft_id, v->self);
	MSG_SET(&m, leader, name, str_from(l->p->d->settings.node_id));
	MSG_SET(&m, leader, term, info.term);
	propose(l, OP_LEADER, &m);
}

static void propose_level(struct lead *l, const struct lead_voters *v)
{
	uint32_t level = fsm_level_for(l->p->fsm, v->ids, v->n, v->self);
	struct m_level m = { 0 };

	if (level <= MAX(fsm_level(l->p->fsm), l->level_asked))
		return;
	l->level_asked = level;
	MSG_SET(&m, level, level, level);
	propose(l, OP_SET_LEVEL, &m);
}

void lead_look(struct lead *l)
{
	struct lead_voters v = { 0 };

	/* in nearly all entries there is nothing to do */
	if (!l->leading || (l->told && fsm_level(l->p->fsm) == FEATURE_LEVEL) ||
	    !proposer_stats(l->p->proposer)->disk_ok)
		return;
	l->voters(l->ctx, &v);
	if (!l->told) {
		propose_limits(l);
		propose_leader(l, &v);
	}
	l->told = true;
	propose_level(l, &v);
}

void lead_begin(struct lead *l)
{
	l->leading = true;
	l->told = false;
	l->level_asked = 0;
	lead_look(l);
}

void lead_end(struct lead *l)
{
	l->leading = false;
}
