/*
 * Questions about bulk operations. Loop thread; answered from the state
 * machine, writes that are not in the store yet included. Ids come from
 * clients and may be of anything.
 */
#include <stdlib.h>

#include "serve/svc_impl.h"

void q_get_bulk(struct svc *s, struct rpc_req req, const struct m_bulk_ref *m)
{
	struct m_bulk found;
	int r = fsm_bulk(s->p->fsm, m->bulk_id, &s->scratch, &found);

	if (r > 0) {
		svc_reply(s, req, &msg_bulk, &found);
	} else if (r < 0) {
		svc_reply_error(req, -r);
	} else {
		struct str text = arena_printf(
		    &s->scratch, "bulk operation \"%.*s\" not found",
		    STR_ARG(m->bulk_id));

		rpc_reply(req, ERR_NOT_FOUND, fsm_last_seq(s->p->fsm), text);
	}
}

/* --- all of them --- */

struct collected {
	struct arena *arena;
	struct m_bulk *items; /* room for LIMIT_BULKS */
	size_t n;
	int err;
};

static bool collect(void *ctx, struct str key, struct str value)
{
	struct collected *c = ctx;

	(void)key;
	CHECK(c->n < LIMIT_BULKS);
	if (msg_decode(&msg_bulk, arena_copy(c->arena, value), c->arena,
		       &c->items[c->n]) < 0)
		c->err = -ERR_INTERNAL_ERROR;
	c->n++;
	return c->err == 0;
}

static int newest_first(const void *pa, const void *pb)
{
	const struct m_bulk *a = pa, *b = pb;

	return (a->created_seq < b->created_seq) -
	       (a->created_seq > b->created_seq);
}

void q_list_bulks(struct svc *s, struct rpc_req req, const struct m_nothing *m)
{
	struct collected c = { .arena = &s->scratch };
	struct m_bulk_list list = { 0 };
	int r;

	(void)m;
	c.items = arena_alloc(c.arena, LIMIT_BULKS * sizeof(*c.items));
	r = fsm_each_bulk(s->p->fsm, collect, &c);
	if (r == 0)
		r = c.err;
	if (r < 0) {
		svc_reply_error(req, -r);
		return;
	}
	qsort(c.items, c.n, sizeof(*c.items), newest_first);
	MSG_SET_LIST(&list, bulk_list, operations, c.items, c.n);
	svc_reply(s, req, &msg_bulk_list, &list);
}

/* --- what sched is to go on with --- */

void q_due_bulks(struct svc *s, struct rpc_req req, const struct m_nothing *m)
{
	struct str ids[FSM_DUE_BULKS];
	struct m_bulk_list list = { 0 };
	struct m_bulk *due;
	size_t n = 0;
	int r = 0;

	(void)m;
	if (node_is_ready(s->p->node))
		n = fsm_due_bulks(s->p->fsm, proposer_now(s->p->proposer), ids,
				  ARRAY_SIZE(ids));
	due = arena_zalloc(&s->scratch, (n + 1) * sizeof(*due));
	for (size_t i = 0; r >= 0 && i < n; i++)
		r = fsm_bulk(s->p->fsm, ids[i], &s->scratch, &due[i]);
	MSG_SET_LIST(&list, bulk_list, operations, due, n);
	MSG_SET(&list, bulk_list, ops, proposer_stats(s->p->proposer)->ops);
	if (r < 0)
		svc_reply_error(req, -r);
	else
		svc_reply(s, req, &msg_bulk_list, &list);
}
