/*
 * The view's numbers for GET /api/v1/metrics. Queue names are free text and
 * become label values, so they are escaped as Prometheus wants it.
 */
#include "query_impl.h"
#include "timetext.h"
#include "util/clock.h"

#define METRICS_QUEUES    1000
#define METRICS_ACTIVE_NS (300 * NS_PER_S) /* a worker counts as active */

struct values {
	struct arena *a;
	struct m_metric_value *items;
	size_t n, cap;
};

static void add(struct values *v, unsigned metric, double value,
		struct str label)
{
	struct m_metric_value *m;

	v->items = query_grow(v->a, v->items, sizeof(*v->items), v->n, &v->cap);
	m = &v->items[v->n++];
	*m = (struct m_metric_value){ 0 };
	MSG_SET(m, metric_value, metric, metric);
	MSG_SET(m, metric_value, value, value);
	if (label.n > 0)
		MSG_SET(m, metric_value, label, label);
}

static void add_facts(struct values *v, const struct query_facts *f)
{
	uint64_t lag =
	    f->head_seq > f->position ? f->head_seq - f->position : 0;

	add(v, METRIC_VIEW_SEQ, (double)f->position, STR_NULL);
	add(v, METRIC_VIEW_LAG, (double)lag, STR_NULL);
	add(v, METRIC_VIEW_REBUILDS, (double)f->rebuilds, STR_NULL);
}

static void encode(const struct values *v, struct buf *out)
{
	struct m_metrics m = { 0 };

	MSG_SET_LIST(&m, metrics, values, v->items, v->n);
	msg_encode(&msg_metrics, &m, out);
}

void query_facts_encode(const struct query_facts *f, struct buf *out)
{
	struct arena a = ARENA_INIT;
	struct values v = { .a = &a };

	add_facts(&v, f);
	encode(&v, out);
	arena_done(&a);
}

static struct str escape_label(struct str s, struct arena *a)
{
	char *out = arena_alloc(a, s.n * 2 + 1);
	size_t n = 0;

	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];

		if (c == '\\' || c == '"' || c == '\n')
			out[n++] = '\\';
		out[n++] = c == '\n' ? 'n' : c;
	}
	return str_of(out, n);
}

/* One number from a statement without parameters but ?1, if bound. */
static int one_number(struct query *q, const char *sql, struct str bound,
		      double *ret)
{
	struct db_stmt *s;
	int r = db_prepare(q->db, sql, &s);

	if (r < 0)
		return r;
	if (bound.n > 0)
		db_bind_text(s, 1, bound);
	r = db_step(s);
	if (r == 1)
		*ret = db_f64(s, 0);
	db_finalize(s);
	return MIN(r, 0);
}

static int add_counts(struct query *q, struct values *v)
{
	static const struct {
		unsigned metric;
		bool since;
		const char *sql;
	} counts[] = {
		{ METRIC_QUEUES, false, "SELECT count(*) FROM queues" },
		{ METRIC_WORKERS_REGISTERED, false,
		  "SELECT count(*) FROM workers" },
		{ METRIC_WORKERS_ACTIVE, true,
		  "SELECT count(*) FROM workers WHERE last_heartbeat >= ?1" },
	};
	uint64_t since_ns = clock_wall_ns() - METRICS_ACTIVE_NS;
	struct timetext times = { 0 };
	char since[TIMETEXT_LEN];

	timetext_put(&times, since_ns, since);
	for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
		double n = 0;
		int r = one_number(
		    q, counts[i].sql,
		    counts[i].since ? str_of(since, sizeof(since)) : STR_NULL,
		    &n);

		if (r < 0)
			return r;
		add(v, counts[i].metric, n, STR_NULL);
	}
	return 0;
}

static const char *state_name(unsigned i)
{
	return enum_text(&enum_job_state, i + 1);
}

static void add_queue(struct db_stmt *s, struct values *v, double *totals,
		      bool shown)
{
	struct str name = shown ? escape_label(db_text(s, 0), v->a) : STR_NULL;

	for (unsigned i = 0; i < QUERY_STATES; i++) {
		double n = db_f64(s, (int)i + 1);

		totals[i] += n;
		if (shown)
			add(v, METRIC_QUEUE_JOBS, n,
			    arena_printf(v->a, "queue=\"%.*s\",state=\"%s\"",
					 STR_ARG(name), state_name(i)));
	}
}

static int add_jobs(struct query *q, struct values *v)
{
	double totals[QUERY_STATES] = { 0 };
	size_t queues = 0;
	struct db_stmt *s;
	int r = db_prepare(q->db,
			   "SELECT queue, " QUERY_STATE_COLUMNS
			   " FROM queue_stats ORDER BY queue",
			   &s);

	if (r < 0)
		return r;
	while ((r = db_step(s)) == 1)
		add_queue(s, v, totals, queues++ < METRICS_QUEUES);
	db_finalize(s);
	for (unsigned i = 0; i < QUERY_STATES; i++)
		add(v, METRIC_JOBS, totals[i],
		    arena_printf(v->a, "state=\"%s\"", state_name(i)));
	return r;
}

int query_metrics(struct query *q, const struct query_ask *ask, struct buf *out)
{
	struct values v = { .a = &q->arena };
	int r;

	add_facts(&v, &ask->facts);
	r = add_counts(q, &v);
	if (r == 0)
		r = add_jobs(q, &v);
	if (r == 0)
		encode(&v, out);
	return r;
}
