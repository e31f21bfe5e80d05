/*
 * Questions about usage. Sums are read on the worker, like the feed: there may
 * be many. A question is its own until its answer is given.
 */
#include <stdlib.h>

#include "serve/svc_impl.h"
#include "store/record.h"

/* At a time: the worker has the view's feed to read too. */
#define USAGE_ASKS_MAX 4

struct usage_ask {
	struct rpc_req req;
	struct svc *s;
	struct arena arena; /* the question, and the answer */
	struct m_usage_ask ask;
	int err;
	uint64_t seq;
	struct buf why, out;
};

static void usage_work(void *ctx)
{
	struct usage_ask *a = ctx;
	struct m_usage_reply m;

	if (a->err == 0)
		a->err =
		    -record_usage(a->s->p->kv, &a->ask, &a->arena, &m, &a->why);
	if (a->err == 0)
		msg_encode(&msg_usage_reply, &m, &a->out);
	arena_done(&a->arena); /* megabytes, which take the loop a while */
}

static void usage_done(void *ctx)
{
	struct usage_ask *a = ctx;

	a->s->usage_asks--;
	if (a->err == ERR_VALIDATION_ERROR)
		rpc_reply(a->req, a->err, 0, buf_str(&a->why));
	else if (a->err != 0)
		svc_reply_error(a->req, a->err);
	else
		rpc_reply_take(a->req, a->seq, &a->out);
	buf_done(&a->why);
	buf_done(&a->out);
	free(a);
}

/* Its texts are the request's, which goes. */
static void copy_ask(struct usage_ask *a, const struct m_usage_ask *m)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	msg_encode(&msg_usage_ask, m, &b);
	CHECK(msg_decode(&msg_usage_ask, arena_copy(&a->arena, buf_str(&b)),
			 &a->arena, &a->ask) == 0);
}

void q_usage(struct svc *s, struct rpc_req req, const struct m_usage_ask *m)
{
	struct usage_ask *a;

	if (s->usage_asks >= USAGE_ASKS_MAX) {
		rpc_reply(req, ERR_OVERLOADED, 0,
			  STR("too many questions about usage are under way"));
		return;
	}
	s->usage_asks++;
	a = xcalloc(1, sizeof(*a));
	a->req = req;
	a->s = s;
	a->seq = fsm_last_seq(s->p->fsm);
	copy_ask(a, m);
	a->err = -fsm_flush(s->p->fsm);
	worker_run(s->p->worker, usage_work, usage_done, a);
}

void q_get_usage_settings(struct svc *s, struct rpc_req req,
			  const struct m_nothing *m)
{
	(void)m;
	svc_reply(s, req, &msg_usage_settings, fsm_usage_settings(s->p->fsm));
}

void q_list_prices(struct svc *s, struct rpc_req req, const struct m_nothing *m)
{
	struct m_price_list list = { 0 };

	(void)m;
	fsm_prices(s->p->fsm, &s->scratch, &list);
	svc_reply(s, req, &msg_price_list, &list);
}

void q_list_budgets(struct svc *s, struct rpc_req req,
		    const struct m_nothing *m)
{
	struct m_budget_list list = { 0 };

	(void)m;
	fsm_budgets(s->p->fsm, proposer_now(s->p->proposer), &s->scratch,
		    &list);
	svc_reply(s, req, &msg_budget_list, &list);
}

void q_list_providers(struct svc *s, struct rpc_req req,
		      const struct m_nothing *m)
{
	struct m_provider_list list = { 0 };

	(void)m;
	fsm_providers(s->p->fsm, proposer_now(s->p->proposer), &s->scratch,
		      &list);
	svc_reply(s, req, &msg_provider_list, &list);
}
