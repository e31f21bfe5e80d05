/*
 * Counters of requests, and Prometheus text. See req/metrics.h.
 */
#include "req/metrics.h"

#include <math.h>
#include <stdlib.h>

#include "front/clients.h"
#include "front/conn.h"
#include "front/h2.h"
#include "front/server.h"
#include "proto/route.h"
#include "req/req.h"
#include "util/clock.h"

static const struct {
	uint64_t ns;
	const char *le;
} bounds[] = {
	{ 1 * NS_PER_MS, "0.001" },  { 5 * NS_PER_MS, "0.005" },
	{ 10 * NS_PER_MS, "0.01" },  { 25 * NS_PER_MS, "0.025" },
	{ 50 * NS_PER_MS, "0.05" },  { 100 * NS_PER_MS, "0.1" },
	{ 250 * NS_PER_MS, "0.25" }, { 500 * NS_PER_MS, "0.5" },
	{ 1000 * NS_PER_MS, "1" },   { 2500 * NS_PER_MS, "2.5" },
	{ 5000 * NS_PER_MS, "5" },   { 10000 * NS_PER_MS, "10" },
};

#define BUCKETS (ARRAY_SIZE(bounds) + 1) /* and +Inf */

struct series {
	uint64_t requests;
	uint64_t errors;
	uint64_t throttled;
	uint64_t sum_ns;
	uint64_t bucket[BUCKETS];
};

/* What viewd told last. */
struct view_told {
	uint64_t at_ns; /* 0: never */
	double seq, lag_s, rebuilds, log_dropped;
};

struct http_metrics {
	struct view_told view;
	uint64_t in_flight;
	uint64_t broken;           /* checks of ours that failed */
	uint64_t silent[PROC_MAX]; /* times it did not tell its numbers */
	size_t n; /* routes, and one for requests without a route */
	struct series series[];
};

/* Processes that are asked for theirs. */
static const enum proc_id asked[] = { PROC_RAFTD, PROC_VIEWD };

struct http_metrics *metrics_new(void)
{
	size_t n = route_count() + 1;
	struct http_metrics *m;

	m = xcalloc(1, sizeof(*m) + n * sizeof(struct series));
	m->n = n;
	return m;
}

void metrics_free(struct http_metrics *m)
{
	free(m);
}

void metrics_begin(struct http_metrics *m)
{
	m->in_flight++;
}

void metrics_count(struct http_metrics *m, const struct req *r)
{
	const struct route *route = r->match.route;
	struct series *s = &m->series[route != NULL ? route->index : m->n - 1];
	uint64_t ns = clock_mono_ns() - r->x.start_ns;
	size_t i = 0;

	while (i < ARRAY_SIZE(bounds) && ns > bounds[i].ns)
		i++;
	s->bucket[i]++;
	s->sum_ns += ns;
	s->requests++;
	if (r->x.status >= 400)
		s->errors++;
	if (r->x.status == 429)
		s->throttled++;
	metrics_leave(m);
}

void metrics_leave(struct http_metrics *m)
{
	CHECK(m->in_flight > 0);
	m->in_flight--;
}

void metrics_note_broken(struct http_metrics *m)
{
	m->broken++;
}

void metrics_note_silent(struct http_metrics *m, enum proc_id p)
{
	m->silent[p]++;
}

/* --- collecting --- */

static void put_series(struct metric_list *l, const struct series *s,
		       struct str labels)
{
	uint64_t sum = 0;

	metric_add(l, METRIC_HTTP_REQUESTS, (double)s->requests, labels);
	metric_add(l, METRIC_HTTP_ERRORS, (double)s->errors, labels);
	metric_add(l, METRIC_HTTP_THROTTLED, (double)s->throttled, labels);
	for (size_t i = 0; i < BUCKETS; i++) {
		const char *le = i < ARRAY_SIZE(bounds) ? bounds[i].le : "+Inf";

		sum += s->bucket[i];
		metric_add(
		    l, METRIC_HTTP_DURATION, (double)sum,
		    arena_printf(l->a, "%.*s,le=\"%s\"", STR_ARG(labels), le));
	}
	metric_add(l, METRIC_HTTP_DURATION,
		   (double)s->sum_ns / (double)NS_PER_S,
		   arena_printf(l->a, "sum,%.*s", STR_ARG(labels)));
	metric_add(l, METRIC_HTTP_DURATION, (double)s->requests,
		   arena_printf(l->a, "count,%.*s", STR_ARG(labels)));
}

static void put_routes(const struct http_metrics *m, struct str extra,
		       struct metric_list *l)
{
	for (size_t i = 0; i < m->n; i++) {
		const struct route *route = route_at(i);
		struct str labels;

		if (m->series[i].requests == 0)
			continue;
		labels = arena_printf(
		    l->a, "%.*smethod=\"%s\",route=\"%s\"", STR_ARG(extra),
		    route != NULL ? http_method_name(route->method) : "any",
		    route != NULL ? route->path : "unmatched");
		put_series(l, &m->series[i], labels);
	}
}

static void put_memory(const struct memory *m, struct str extra,
		       struct str alone, struct metric_list *l)
{
	metric_add(l, METRIC_HTTP_MEMORY, (double)m->used, alone);
	metric_add(l, METRIC_HTTP_MEMORY_LIMIT, (double)m->limit, alone);
	for (size_t i = 0; i < MEMORY_REASONS; i++)
		metric_add(
		    l, METRIC_HTTP_MEMORY_REFUSED, (double)m->refused[i],
		    arena_printf(l->a, "%.*sreason=\"%s\"", STR_ARG(extra),
				 memory_reason_name((enum memory_reason)i)));
}

static void put_clients(const struct clients *cs, struct str extra,
			struct metric_list *l)
{
	for (size_t i = 0; i < CLIENT_REASONS; i++)
		metric_add(
		    l, METRIC_HTTP_CLIENT_REFUSED, (double)cs->refused[i],
		    arena_printf(l->a, "%.*sreason=\"%s\"", STR_ARG(extra),
				 client_reason_name((enum client_reason)i)));
}

static void put_connections(struct server *s, struct str extra,
			    struct str alone, struct metric_list *l)
{
	const struct conns *cs = server_conns(s);
	const struct h2s *h2s = server_h2s(s);

	metric_add(l, METRIC_HTTP_CONNECTIONS, (double)cs->n, alone);
	metric_add(l, METRIC_HTTP_SHED, (double)cs->shed_sum, alone);
	metric_add(l, METRIC_HTTP_TURNED_AWAY, (double)cs->extra_sum, alone);
	metric_add(l, METRIC_HTTP2_CONNECTIONS, (double)h2s_count(h2s), alone);
	for (size_t i = 0; i < H2_REASONS; i++)
		metric_add(l, METRIC_HTTP2_ENDED,
			   (double)h2s_ended(h2s, (enum h2_reason)i),
			   arena_printf(l->a, "%.*sreason=\"%s\"",
					STR_ARG(extra),
					h2_reason_name((enum h2_reason)i)));
}

void metrics_collect(const struct http_metrics *m, struct str extra,
		     struct server *s, struct metric_list *l)
{
	struct str alone = extra;

	alone.n -= MIN(alone.n, (size_t)1); /* its comma */
	metric_add(l, METRIC_HTTP_IN_FLIGHT, (double)m->in_flight, alone);
	metric_add(l, METRIC_HTTP_BROKEN, (double)m->broken, alone);
	put_connections(s, extra, alone, l);
	put_memory(server_memory(s), extra, alone, l);
	put_clients(server_clients(s), extra, l);
	for (size_t i = 0; i < ARRAY_SIZE(asked); i++)
		metric_add(
		    l, METRIC_METRICS_ERRORS, (double)m->silent[asked[i]],
		    arena_printf(l->a, "%.*sprocess=\"%s\"", STR_ARG(extra),
				 proc_info(asked[i])->name));
	put_routes(m, extra, l);
}

/* --- in the place of viewd --- */

static double value_of(const struct m_metrics *set, enum metric_id id)
{
	for (size_t i = 0; i < set->values_n; i++)
		if (set->values[i].metric == id)
			return set->values[i].value;
	return METRIC_UNKNOWN;
}

void metrics_note_view(struct http_metrics *m, const struct m_metrics *told)
{
	m->view = (struct view_told){
		.at_ns = clock_mono_ns(),
		.seq = value_of(told, METRIC_VIEW_SEQ),
		.lag_s = value_of(told, METRIC_VIEW_LAG_SECONDS),
		.rebuilds = value_of(told, METRIC_VIEW_REBUILDS),
		.log_dropped = value_of(told, METRIC_PROCESS_LOG_DROPPED),
	};
}

/*
 * A view that is away stays where it was: what it has not taken in is counted
 * from what raftd says, and is as old as its silence at most.
 */
void metrics_of_silent_view(const struct http_metrics *m,
			    const struct m_metrics *raftd,
			    struct metric_list *l)
{
	const struct view_told *v = &m->view;
	uint64_t silent_ns = clock_mono_ns() - v->at_ns;
	double seq = v->at_ns != 0 ? v->seq : METRIC_UNKNOWN;
	double lag = value_of(raftd, METRIC_EVENT_SEQ) - seq; /* or NaN */
	double lag_s = v->lag_s + (double)silent_ns / (double)NS_PER_S;

	if (lag < 0) /* asked before a write that it knew of */
		lag = 0;
	metric_add(l, METRIC_VIEW_SEQ, seq, STR_NULL);
	metric_add(l, METRIC_VIEW_LAG, lag, STR_NULL);
	metric_add(l, METRIC_MIRROR_LAG, lag, STR_NULL);
	metric_add(l, METRIC_VIEW_LAG_SECONDS, lag > 0 ? lag_s : lag, STR_NULL);
	metric_add(l, METRIC_VIEW_TEXT_LAG_SECONDS, METRIC_UNKNOWN, STR_NULL);
	metric_add(l, METRIC_VIEW_REBUILDS, v->rebuilds, STR_NULL);
	metric_add(l, METRIC_LONG_SEARCHES, METRIC_UNKNOWN, STR_NULL);
	metric_add(l, METRIC_LONG_SEARCHES_WAITING, METRIC_UNKNOWN, STR_NULL);
	metric_add(l, METRIC_MIRROR_DROPPED, 0, STR_NULL);
	metric_add(l, METRIC_PROCESS_LOG_DROPPED, v->log_dropped,
		   STR("process=\"viewd\""));
	for (size_t i = 0; i < METRIC_PARTS; i++)
		metric_add(l, METRIC_STORAGE, METRIC_UNKNOWN,
			   str_from(metric_parts[i].label));
}

/* --- text --- */

static const char *type_name(enum metric_type t)
{
	switch (t) {
	case METRIC_COUNTER_TYPE:
		return "counter";
	case METRIC_GAUGE_TYPE:
		return "gauge";
	case METRIC_HISTOGRAM_TYPE:
		return "histogram";
	case METRIC_UNTYPED_TYPE:
		break;
	}
	return "untyped";
}

/* "sum,a=b" -> "_sum" and "a=b"; labels with le belong to _bucket. */
static const char *histogram_part(struct str *label)
{
	struct str head, tail;

	(void)str_split(*label, ',', &head, &tail);
	if (str_is(head, "sum") || str_is(head, "count")) {
		*label = tail;
		return str_is(head, "sum") ? "_sum" : "_count";
	}
	return "_bucket";
}

static void write_number(struct buf *out, double v)
{
	/* Whole numbers below 2^53 exactly, the rest as short as it goes. */
	if (isnan(v))
		buf_puts(out, "NaN");
	else if (v == floor(v) && fabs(v) < 9007199254740992.0)
		buf_put_i64(out, (int64_t)v);
	else
		buf_printf(out, "%.9g", v);
	buf_putc(out, '\n');
}

static void write_value(const struct metric_info *i,
			const struct m_metric_value *v, struct buf *out)
{
	struct str label = v->label;

	buf_puts(out, i->name);
	if (i->type == METRIC_HISTOGRAM_TYPE)
		buf_puts(out, histogram_part(&label));
	if (label.n > 0)
		buf_printf(out, "{%.*s}", STR_ARG(label));
	buf_putc(out, ' ');
	write_number(out, v->value);
}

/* Names of queues are free text and become label values. */
static void write_queue(const struct metric_info *i,
			const struct m_metric_queue *q, struct str name,
			struct buf *out)
{
	if (i->id == METRIC_OLDEST_WAITING) {
		buf_printf(out, "%s{queue=\"%.*s\"} ", i->name, STR_ARG(name));
		write_number(out,
			     MSG_HAS(q, metric_queue, oldest_waiting_seconds)
				 ? q->oldest_waiting_seconds
				 : METRIC_UNKNOWN);
		return;
	}
#define STATE(NAME, state, num, terminal)                                    \
	buf_printf(out, "%s{queue=\"%.*s\",state=\"" #state "\"} ", i->name, \
		   STR_ARG(name));                                           \
	write_number(out, (double)q->state);
#include "proto/defs/states.def"
}

static bool is_of_queues(const struct metric_info *i)
{
	return i->id == METRIC_QUEUE_JOBS || i->id == METRIC_OLDEST_WAITING;
}

static void write_set(const struct metric_info *i, const struct m_metrics *m,
		      struct arena *a, struct buf *out)
{
	for (size_t k = 0; k < m->values_n; k++)
		if (m->values[k].metric == i->id)
			write_value(i, &m->values[k], out);
	for (size_t k = 0; is_of_queues(i) && k < m->queues_n; k++)
		write_queue(i, &m->queues[k],
			    metric_escape(m->queues[k].name, a), out);
}

void metrics_write(const struct m_metrics *const *sets, size_t n,
		   struct arena *a, struct buf *out)
{
	const struct metric_info *i;

	for (size_t row = 0; (i = metric_at(row)) != NULL; row++) {
		size_t head = out->n, body;

		buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", i->name,
			   i->help, i->name, type_name(i->type));
		body = out->n;
		for (size_t s = 0; s < n; s++)
			write_set(i, sets[s], a, out);
		if (out->n == body) /* nobody has a number of it */
			out->n = head;
	}
}
