/*
 * Numbers of Scheduled-DB, for who asks and for metrics.
 */
#include "proto/scheddb.h"
#include "proto/metric_list.h"
#include "rt/scheddb_limit.h"
#include "serve/svc_impl.h"

void q_sdb_numbers(struct svc *s, struct rpc_req req, const struct m_nothing *m)
{
	struct m_sdb_numbers n;

	(void)m;
	fsm_sdb(s->p->fsm, &n);
	svc_reply(s, req, &msg_sdb_numbers, &n);
}

static void put_by_status(struct svc *s, struct metric_list *o,
			  const uint64_t by[SDB_STATUSES])
{
	const struct fsm_counters *c = fsm_counters(s->p->fsm);

	for (unsigned i = 0; i < SDB_STATUSES; i++) {
		struct str label = arena_printf(&s->scratch, "status=\"%s\"",
						enum_text(&enum_sdb_status, i));

		metric_add(o, METRIC_SDB_BY_STATUS, (double)by[i], label);
		if (i != SDB_PENDING && i != SDB_IN_PROGRESS)
			metric_add(o, METRIC_SDB_EXECUTIONS,
				   (double)c->sdb_ended[i], label);
	}
}

static void put_by_type(struct svc *s, struct metric_list *o,
			const struct m_sdb_numbers *n)
{
	const struct fsm_counters *c = fsm_counters(s->p->fsm);

	for (unsigned i = SDB_ONCE; i <= SDB_RECURRING; i++) {
		struct str label = arena_printf(&s->scratch, "type=\"%s\"",
						enum_text(&enum_sdb_type, i));

		metric_add(o, METRIC_SDB_CREATED, (double)c->sdb_created[i],
			   label);
		metric_add(o, METRIC_SDB_BY_TYPE,
			   (double)(i == SDB_ONCE ? n->jobs - n->recurring
						  : n->recurring),
			   label);
	}
}

static void put_ends(struct svc *s, struct metric_list *o)
{
	const struct fsm_counters *c = fsm_counters(s->p->fsm);

	metric_add(o, METRIC_SDB_DELETED, (double)c->sdb_deleted, STR_NULL);
	for (unsigned i = 0; i < SDB_FAULTS; i++)
		metric_add(o, METRIC_SDB_FAILURES, (double)c->sdb_failures[i],
			   arena_printf(&s->scratch, "error_type=\"%s\"",
					sdb_fault_names[i]));
	svc_put_hist(o, METRIC_SDB_TIME, &c->sdb_time, &hist_long);
}

void scheddb_metrics(struct svc *s, struct metric_list *o)
{
	const struct fsm_counters *c = fsm_counters(s->p->fsm);
	const struct settings *set = &s->p->d->settings;
	uint64_t limit = scheddb_memory_limit(set);
	struct m_sdb_numbers n;

	fsm_sdb(s->p->fsm, &n);
	metric_add(o, METRIC_SDB_MEMORY, (double)n.bytes, STR_NULL);
	metric_add(o, METRIC_SDB_MEMORY_LIMIT, (double)limit, STR_NULL);
	metric_add(o, METRIC_SDB_MEMORY_PERCENT,
		   scheddb_percent(n.bytes, limit), STR_NULL);
	metric_add(o, METRIC_SDB_JOBS, (double)n.jobs, STR_NULL);
	metric_add(o, METRIC_SDB_JOB_LIMIT, (double)set->scheddb_job_limit,
		   STR_NULL);
	metric_add(o, METRIC_SDB_REJECTIONS, (double)c->sdb_no_memory,
		   STR("reason=\"memory\""));
	metric_add(o, METRIC_SDB_REJECTIONS, (double)c->sdb_no_place,
		   STR("reason=\"job_count\""));
	put_by_status(s, o,
		      (const uint64_t[SDB_STATUSES]){
			  [SDB_PENDING] = n.pending,
			  [SDB_IN_PROGRESS] = n.in_progress,
			  [SDB_COMPLETED] = n.completed,
			  [SDB_FAILED] = n.failed,
			  [SDB_CANCELLED] = n.cancelled,
			  [SDB_TIMEOUT] = n.timeout,
		      });
	put_by_type(s, o, &n);
	put_ends(s, o);
}
