/*
 * See req/tell.h. Loop thread.
 */
#include "req/tell.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "front/server.h"
#include "front/stream.h"
#include "req/metrics.h"
#include "rt/procstat.h"
#include "util/clock.h"

#define TELL_NS (2 * NS_PER_S)

struct tell {
	struct httpd *h;
	struct loop_timer *timer;
	struct rpc_call *call; /* NULL: none under way */
	struct buf out;
};

bool tell_has_others(const struct httpd *h)
{
	return h->set->httpd_processes > 1;
}

static void collect_calls(const struct call_counts *c, struct str labels,
			  struct metric_list *l)
{
	metric_add(l, METRIC_RPC_STREAMS_OPEN, (double)c->open, labels);
	metric_add(l, METRIC_RPC_STREAMS, (double)c->streams, labels);
	metric_add(l, METRIC_RPC_FRAMES_INFLIGHT, (double)c->inflight, labels);
	metric_add(l, METRIC_RPC_FRAMES, (double)c->frames, labels);
	metric_add(l, METRIC_RPC_OVERLOADS, (double)c->overloads, labels);
}

void tell_collect(struct httpd *h, struct metric_list *l)
{
	struct str extra = STR_NULL, alone;
	char name[32];

	if (tell_has_others(h))
		extra = arena_printf(l->a, "httpd=\"%u\",", h->d->number);
	alone = str_of(extra.p, extra.n > 0 ? extra.n - 1 : 0);
	metrics_collect(h->metrics, extra, h->server, l);
	metric_add(l, METRIC_STREAMS_OPEN,
		   (double)streams_count(server_streams(h->server)), alone);
	collect_calls(&h->calls, alone, l);
	(void)snprintf(name, sizeof(name), "httpd-%u", h->d->number);
	procstat_metrics(l, name, getpid());
}

static void on_told(void *ctx, const struct rpc_reply *reply)
{
	struct tell *t = ctx;

	(void)reply; /* what did not arrive is told again */
	t->call = NULL;
}

static void on_timer(void *ctx)
{
	struct tell *t = ctx;
	struct arena a = ARENA_INIT;
	struct metric_list l = { .a = &a };
	struct m_tell_metrics m = { 0 };

	loop_timer_arm(t->timer, TELL_NS);
	if (t->call != NULL || !rpc_client_is_up(t->h->raftd))
		return;
	tell_collect(t->h, &l);
	MSG_SET(&m, tell_metrics, number, t->h->d->number);
	MSG_SET_LIST(&m, tell_metrics, values, l.items, l.n);
	MSG_SET(&m, tell_metrics, quiet, true);
	buf_clear(&t->out);
	msg_encode(&msg_tell_metrics, &m, &t->out);
	t->call = rpc_call(t->h->raftd, QUERY_TELL_METRICS, STR_NULL,
			   buf_str(&t->out), clock_mono_ns() + TELL_NS,
			   ERR_LEADER_UNAVAILABLE, RPC_ONCE, on_told, t);
	arena_done(&a);
}

struct tell *tell_new(struct httpd *h)
{
	struct tell *t = xcalloc(1, sizeof(*t));

	t->h = h;
	t->timer = loop_timer_add(h->d->loop, on_timer, t);
	if (tell_has_others(h))
		loop_timer_arm(t->timer, TELL_NS);
	return t;
}

void tell_free(struct tell *t)
{
	if (t == NULL)
		return;
	if (t->call != NULL)
		rpc_cancel(t->h->raftd, t->call);
	loop_timer_remove(t->timer);
	buf_done(&t->out);
	free(t);
}
