/*
 * The view's numbers for GET /api/v1/metrics, and the sizes of files: a reader
 * runs on a thread that may wait for the disk. Queue names are free text and
 * become label values.
 */
#include <unistd.h>

#include "db/timetext.h"
#include "proto/metric_list.h"
#include "query/query_impl.h"
#include "rt/file.h"
#include "rt/procstat.h"
#include "util/clock.h"

#define METRICS_ACTIVE_NS (300 * NS_PER_S) /* a worker counts as active */

static void add_facts(struct metric_list *l, const struct query_facts *f)
{
	uint64_t lag =
	    f->head_seq > f->position ? f->head_seq - f->position : 0;

	metric_add(l, METRIC_VIEW_SEQ, (double)f->position, STR_NULL);
	metric_add(l, METRIC_VIEW_LAG, (double)lag, STR_NULL);
	metric_add(l, METRIC_VIEW_LAG_SECONDS, (double)f->lag_ns / 1e9,
		   STR_NULL);
	metric_add(l, METRIC_VIEW_REBUILDS, (double)f->rebuilds, STR_NULL);
	metric_add(l, METRIC_MIRROR_LAG, (double)lag, STR_NULL);
	metric_add(l, METRIC_MIRROR_DROPPED, 0, STR_NULL);
	procstat_metrics(l, "viewd", getpid());
}

static void encode(const struct metric_list *l, struct buf *out)
{
	struct m_metrics m;

	metric_list_message(l, &m);
	msg_encode(&msg_metrics, &m, out);
}

void query_facts_encode(const struct query_facts *f, struct buf *out)
{
	struct arena a = ARENA_INIT;
	struct metric_list l = { .a = &a };

	add_facts(&l, f);
	encode(&l, out);
	arena_done(&a);
}

/* A part that cannot be read is left out. */
static void add_sizes(struct metric_list *l, const char *data_dir)
{
	static const struct {
		const char *dir;
		const char *label;
	} parts[] = {
		{ "rocks", "part=\"rocksdb\"" },
		{ "raft", "part=\"raft\"" },
		{ "view", "part=\"sqlite\"" },
	};
	uint64_t bytes;

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		struct str path =
		    arena_printf(l->a, "%s/%s", data_dir, parts[i].dir);

		if (dir_bytes(path.p, &bytes) == 0)
			metric_add(l, METRIC_STORAGE, (double)bytes,
				   str_from(parts[i].label));
	}
	if (dir_free_bytes(data_dir, &bytes) == 0)
		metric_add(l, METRIC_DISK_FREE, (double)bytes, STR_NULL);
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

static int add_counts(struct query *q, struct metric_list *l)
{
	static const struct {
		enum metric_id metric;
		bool since;
		const char *sql;
	} counts[] = {
		{ METRIC_QUEUES, false, "SELECT count(*) FROM queues" },
		{ METRIC_QUEUES_NOW, false, "SELECT count(*) FROM queues" },
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
		metric_add(l, counts[i].metric, n, STR_NULL);
	}
	return 0;
}

static const char *state_name(unsigned i)
{
	return enum_text(&enum_job_state, i + 1);
}

static int add_totals(struct query *q, struct metric_list *l)
{
	struct db_stmt *s;
	int r = db_prepare(q->db,
			   "SELECT sum(pending), sum(active), sum(held),"
			   " sum(completed), sum(retrying), sum(dead),"
			   " sum(cancelled), sum(scheduled) FROM queue_stats",
			   &s);

	if (r < 0)
		return r;
	r = db_step(s);
	for (unsigned i = 0; r == 1 && i < QUERY_STATES; i++)
		metric_add(l, METRIC_JOBS, db_f64(s, (int)i),
			   arena_printf(l->a, "state=\"%s\"", state_name(i)));
	db_finalize(s);
	return MIN(r, 0);
}

/* Those with most jobs that have not ended, if there are too many. */
static int add_queues(struct query *q, struct metric_list *l)
{
	struct db_stmt *s;
	int r = db_prepare(q->db,
			   "SELECT queue, " QUERY_STATE_COLUMNS
			   " FROM queue_stats ORDER BY pending + active + held"
			   " + retrying + scheduled DESC, queue LIMIT ?1",
			   &s);

	if (r < 0)
		return r;
	db_bind_i64(s, 1, LIMIT_METRIC_QUEUES);
	while ((r = db_step(s)) == 1) {
		struct str name = metric_escape(db_text(s, 0), l->a);

		for (unsigned i = 0; i < QUERY_STATES; i++)
			metric_add(l, METRIC_QUEUE_JOBS, db_f64(s, (int)i + 1),
				   arena_printf(l->a,
						"queue=\"%.*s\",state=\"%s\"",
						STR_ARG(name), state_name(i)));
	}
	db_finalize(s);
	return r;
}

int query_metrics(struct query *q, const struct query_ask *ask, struct buf *out)
{
	struct metric_list l = { .a = &q->arena };
	int r;

	add_facts(&l, &ask->facts);
	if (ask->facts.data_dir != NULL)
		add_sizes(&l, ask->facts.data_dir);
	r = add_counts(q, &l);
	if (r == 0)
		r = add_totals(q, &l);
	if (r == 0)
		r = add_queues(q, &l);
	if (r == 0)
		encode(&l, out);
	return r;
}
