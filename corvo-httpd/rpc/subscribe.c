/*
 * Subscribe: the event log as a stream of messages. See routes/events.c for the
 * same over HTTP.
 */
#include "req/event_filter.h"
#include "req/guarded.h"
#include "req/hub.h"
#include "rpc/flow.h"
#include "rpc/streams.h"

struct watch {
	struct req *r;
	struct flow *flow;
	struct hub_sub *sub;
	struct event_filter filter;
	uint64_t pos; /* last event seen */
	bool resumed;
};

static void write_more(_unused_ struct req *r, void *arg)
{
	struct watch *w = arg;
	struct m_event e;
	int n = 0;

	while (!flow_is_ending(w->flow) && flow_room(w->flow) > 0 &&
	       (n = hub_next(w->sub, &e)) > 0)
		if (event_filter_matches(&w->filter, &e))
			flow_send(w->flow, &pb_SubscribeEvent, &e);
	if (flow_room(w->flow) == 0)
		hub_rest(w->sub);
	if (n < 0)
		flow_end(w->flow, ERR_EVENTS_LOST, STR_NULL);
}

static void fill(void *ctx)
{
	struct watch *w = ctx;

	req_guarded(w->r, write_more, w);
}

static void on_closed(void *ctx)
{
	struct watch *w = ctx;

	hub_unsubscribe(w->sub);
}

/* The one request has come before. */
static void no_message(_unused_ void *ctx, _unused_ struct str bytes)
{
}

static void no_end(_unused_ void *ctx)
{
}

static const struct flow_ops watch_ops = {
	.message = no_message,
	.ended = no_end,
	.room = fill,
	.closed = on_closed,
};

static void on_place(struct req *r, const struct rpc_reply *reply)
{
	struct watch *w = r->state;

	if (!hub_place(r, reply, w->resumed, &w->pos) || !flow_may_begin(r))
		return;
	w->sub = hub_subscribe(r->h->hub, w->pos, fill, w);
	hub_charge(w->sub, &r->x);
	w->flow = flow_begin(r, &watch_ops, w, true);
}

/* The body they stand in goes when the answer begins, and the stream lasts. */
static struct event_names keep_names(struct req *r, const struct str *names,
				     size_t n)
{
	struct event_names own = { .n = n };

	own.items = arena_alloc(&r->arena, n * sizeof(*own.items));
	for (size_t i = 0; i < n; i++)
		own.items[i] = arena_copy(&r->arena, names[i]);
	return own;
}

void serve_subscribe(struct req *r)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);
	struct m_subscribe *m = arena_zalloc(&r->arena, sizeof(*m));
	struct watch *w = arena_zalloc(&r->arena, sizeof(*w));
	struct m_events_ask ask = { 0 };
	int err;

	if (!req_read(r, &msg_subscribe, m))
		return;
	err = event_filter_types(&w->filter, m->types, m->types_n, &why);
	if (err < 0) {
		req_fail_text(r, -err, buf_str(&why));
		return;
	}
	w->r = r;
	w->filter.queues = keep_names(r, m->queues, m->queues_n);
	w->filter.job_ids = keep_names(r, m->job_ids, m->job_ids_n);
	w->resumed = MSG_HAS(m, subscribe, last_event_id);
	w->pos = m->last_event_id;
	r->state = w;
	MSG_SET(&ask, events_ask, after_seq, w->pos);
	MSG_SET(&ask, events_ask, limit, 1);
	req_call_raftd(r, QUERY_EVENTS, STR_NULL, &msg_events_ask, &ask,
		       on_place);
}
