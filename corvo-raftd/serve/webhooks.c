/*
 * Questions about webhooks: of people, and of sched, which delivers. Loop
 * thread, but for at_work.
 */
#include <stdlib.h>

#include "proto/metric_list.h"
#include "serve/svc_impl.h"
#include "store/record.h"

#define AT_ASKS_MAX 16 /* at a time: the worker has others to serve */

void webhook_metrics(struct svc *s, struct metric_list *o)
{
	const struct fsm_counters *c = fsm_counters(s->p->fsm);
	struct fsm_webhook_totals t;

	fsm_webhook_totals(s->p->fsm, &t);
	metric_add(o, METRIC_WEBHOOKS, (double)t.n, STR_NULL);
	metric_add(o, METRIC_WEBHOOK_TRIES, (double)c->webhooks_ok,
		   STR("result=\"ok\""));
	metric_add(o, METRIC_WEBHOOK_TRIES, (double)c->webhooks_failed,
		   STR("result=\"failed\""));
	metric_add(o, METRIC_WEBHOOK_PENDING, (double)t.pending, STR_NULL);
	metric_add(o, METRIC_WEBHOOK_LAG, (double)t.lag, STR_NULL);
}

static void reply_none(struct rpc_req req)
{
	rpc_reply(req, ERR_NOT_FOUND, 0, STR("there is no such webhook"));
}

void q_list_webhooks(struct svc *s, struct rpc_req req,
		     const struct m_nothing *m)
{
	struct m_webhook_list list = { 0 };

	(void)m;
	fsm_webhooks(s->p->fsm, &s->scratch, &list);
	svc_reply(s, req, &msg_webhook_list, &list);
}

void q_get_webhook(struct svc *s, struct rpc_req req,
		   const struct m_webhook_ref *m)
{
	struct m_webhook w;

	if (fsm_webhook(s->p->fsm, m->id, &w))
		svc_reply(s, req, &msg_webhook, &w);
	else
		reply_none(req);
}

void q_webhook_work(struct svc *s, struct rpc_req req,
		    const struct m_nothing *m)
{
	struct m_webhook_work_list list = { 0 };

	(void)m;
	fsm_webhook_work(s->p->fsm, &s->scratch, &list);
	svc_reply(s, req, &msg_webhook_work_list, &list);
}

void q_list_deliveries(struct svc *s, struct rpc_req req,
		       const struct m_deliveries_ask *m)
{
	struct m_delivery_list list = { 0 };
	int r = fsm_flush(s->p->fsm);

	if (r == 0)
		r = fsm_deliveries(s->p->fsm, m, &s->scratch, &list);
	if (r < 0)
		svc_reply_error(req, -r);
	else if (r == 0)
		reply_none(req);
	else
		svc_reply(s, req, &msg_delivery_list, &list);
}

/* --- events of a time --- */

struct at_ask {
	struct svc *s;
	struct rpc_req req;
	uint64_t from_ns, to_ns;
	uint64_t first, last; /* events there are */
	struct m_event_place place;
	int err;
};

/* When an event was: 1, 0: it is not kept any more, -ERR_*. */
static int time_of(struct at_ask *a, uint64_t seq, uint64_t *ret)
{
	struct arena arena = ARENA_INIT;
	struct m_events_reply m;
	int r = record_events(a->s->p->kv, seq - 1, 1, &arena, &m);

	if (r == 0 && m.events_n > 0) {
		*ret = m.events[0].at;
		r = 1;
	}
	arena_done(&arena);
	return r;
}

/* The first event at that time or after it; one after the last: there is none.
 * A clock that was set back makes it one of those that fit. */
static int find_first(struct at_ask *a, uint64_t ns, uint64_t *ret)
{
	uint64_t low = a->first, high = a->last + 1;

	while (low < high) {
		uint64_t mid = low + (high - low) / 2, at = 0;
		int r = time_of(a, mid, &at);

		if (r < 0)
			return r;
		if (r == 0 || at < ns)
			low = mid + 1;
		else
			high = mid;
	}
	*ret = low;
	return 0;
}

static void at_work(void *ctx)
{
	struct at_ask *a = ctx;
	uint64_t from = 0, after = 0;

	a->err = find_first(a, a->from_ns, &from);
	if (a->err == 0)
		a->err = find_first(a, a->to_ns, &after);
	MSG_SET(&a->place, event_place, from_seq, from);
	MSG_SET(&a->place, event_place, to_seq, MAX(after, (uint64_t)1) - 1);
}

static void at_done(void *ctx)
{
	struct at_ask *a = ctx;

	a->s->at_asks--;
	if (a->err < 0)
		svc_reply_error(a->req, -a->err);
	else
		svc_reply(a->s, a->req, &msg_event_place, &a->place);
	free(a);
}

void q_event_at(struct svc *s, struct rpc_req req, const struct m_event_at *m)
{
	struct at_ask *a;
	int r = fsm_flush(s->p->fsm);

	if (r < 0 || s->at_asks >= AT_ASKS_MAX) {
		svc_reply_error(req, r < 0 ? -r : ERR_OVERLOADED);
		return;
	}
	a = xcalloc(1, sizeof(*a));
	a->s = s;
	a->req = req;
	a->from_ns = m->from;
	a->to_ns = m->to;
	a->first = MAX(fsm_first_seq(s->p->fsm), (uint64_t)1);
	a->last = fsm_last_seq(s->p->fsm);
	s->at_asks++;
	worker_run(s->p->worker, at_work, at_done, a);
}
