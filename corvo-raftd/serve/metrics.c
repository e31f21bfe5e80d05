/*
 * raftd's rows of metrics.def, and those of the httpd processes where there
 * are several: a client reaches only one of them.
 */
#include <unistd.h>

#include "rt/file.h"
#include "rt/procstat.h"
#include "serve/svc_impl.h"
#include "util/clock.h"
#include "util/nano.h"

#define WORKER_ACTIVE_NS (300 * NS_PER_S) /* counts as active so long */
#define CHOICE_NS        (60 * NS_PER_S)  /* which queues are shown */

static void put(struct metric_list *o, enum metric_id id, uint64_t value)
{
	metric_add(o, id, (double)value, STR_NULL);
}

void svc_put_hist(struct metric_list *o, enum metric_id id,
		  const struct hist *h, const struct hist_scale *s)
{
	uint64_t below = 0;

	for (size_t i = 0; i < HIST_BOUNDS; i++) {
		below += h->count[i];
		metric_add(o, id, (double)below,
			   arena_printf(o->a, "le=\"%s\"", s->le[i]));
	}
	metric_add(o, id, (double)h->total, STR("le=\"+Inf\""));
	metric_add(o, id, h->sum_s, STR("sum"));
	metric_add(o, id, (double)h->total, STR("count"));
}

static void put_raft(struct metric_list *o, struct svc *s)
{
	struct node_info i;
	struct hist flush_time, turns, work;

	node_info(s->p->node, &i);
	loop_turns(s->p->d->loop, &turns);
	svc_put_hist(o, METRIC_RAFT_TURN_TIME, &turns, &hist_short);
	loop_turns_work(s->p->d->loop, &work);
	svc_put_hist(o, METRIC_RAFT_TURN_WORK, &work, &hist_short);
	node_flush_time(s->p->node, &flush_time);
	svc_put_hist(o, METRIC_RAFT_FLUSH_TIME, &flush_time, &hist_short);
	put(o, METRIC_CLUSTER_IS_LEADER, node_is_leader(s->p->node));
	put(o, METRIC_RAFT_STATE, (uint64_t)i.state_number);
	put(o, METRIC_RAFT_APPLIED_INDEX, i.applied_index);
	put(o, METRIC_RAFT_COMMIT_INDEX, i.commit_index);
	put(o, METRIC_RAFT_SNAPSHOT_INDEX, i.snapshot_index);
	put(o, METRIC_RAFT_LOG_BYTES, node_log_bytes(s->p->node));
	put(o, METRIC_RAFT_SNAPSHOT_FAILURES, i.cut_failures_total);
	metric_add(o, METRIC_BUILD_INFO, 1,
		   arena_printf(o->a, "version=\"%s\"", corvo_version));
}

static void put_proposer(struct metric_list *o, struct svc *s)
{
	const struct proposer_stats *p = proposer_stats(s->p->proposer);

	put(o, METRIC_RAFT_APPLY_PENDING, p->pending);
	put(o, METRIC_RAFT_PENDING_BYTES, p->pending_bytes);
	put(o, METRIC_RAFT_APPLY_MAX_PENDING,
	    s->p->d->settings.raft_max_pending);
	put(o, METRIC_RAFT_APPLY_OVERLOAD, p->overload);
	put(o, METRIC_RAFT_FETCH_OVERLOAD, p->fetch_overload);
	put(o, METRIC_RAFT_ENTRIES, p->entries);
	put(o, METRIC_PARKED_FETCHES, p->parked);
	put(o, METRIC_WAITING_READS, svc_waiting(s));
	metric_add(o, METRIC_CLOCK_STEPS, (double)p->clock_forward,
		   STR("direction=\"forward\""));
	metric_add(o, METRIC_CLOCK_STEPS, (double)p->clock_back,
		   STR("direction=\"back\""));
	svc_put_hist(o, METRIC_RAFT_QUEUE_TIME, &p->queue_time, &hist_short);
	svc_put_hist(o, METRIC_RAFT_APPLY_TIME, &p->apply_time, &hist_short);
}

static void put_jobs(struct metric_list *o, struct svc *s)
{
	const struct fsm_counters *c = fsm_counters(s->p->fsm);

	put(o, METRIC_RAFT_APPLIED, c->ops);
	put(o, METRIC_OPS_UNDONE, c->undone);
	put(o, METRIC_STATE_RELOADS, c->reloads);
	put(o, METRIC_ENTRIES_SKIPPED, fsm_skips_n(s->p->fsm));
	put(o, METRIC_ENQUEUED, c->enqueued);
	put(o, METRIC_COMPLETED, c->completed);
	put(o, METRIC_FAILED, c->failed);
	put(o, METRIC_EVENT_SEQ, fsm_last_seq(s->p->fsm));
	put(o, METRIC_RENEWALS, leases_renewed(s->p->leases));
	svc_put_hist(o, METRIC_START_LATENCY, &c->start_latency, &hist_long);
	svc_put_hist(o, METRIC_RUN_TIME, &c->run_time, &hist_long);
}

static void put_usage(struct metric_list *o, struct svc *s)
{
	const struct fsm_counters *c = fsm_counters(s->p->fsm);

	put(o, METRIC_USAGE_REPORTS, c->usage_reports);
	put(o, METRIC_USAGE_UNPRICED, c->usage_unpriced);
	metric_add(o, METRIC_USAGE_TOKENS, (double)c->usage_input,
		   STR("kind=\"input\""));
	metric_add(o, METRIC_USAGE_TOKENS, (double)c->usage_output,
		   STR("kind=\"output\""));
	metric_add(o, METRIC_USAGE_TOKENS, (double)c->usage_cache_creation,
		   STR("kind=\"cache_creation\""));
	metric_add(o, METRIC_USAGE_TOKENS, (double)c->usage_cache_read,
		   STR("kind=\"cache_read\""));
	put(o, METRIC_BUDGETS, fsm_budgets_n(s->p->fsm));
	put(o, METRIC_BUDGETS_EXCEEDED, c->budgets_exceeded);
	put(o, METRIC_SCORES, c->scores);
	put(o, METRIC_POLICIES, fsm_policies_n(s->p->fsm));
	put(o, METRIC_POLICY_HOLDS, c->policy_holds);
	metric_add(o, METRIC_DECISIONS, (double)c->approved,
		   STR("decision=\"approved\""));
	metric_add(o, METRIC_DECISIONS, (double)c->rejected,
		   STR("decision=\"rejected\""));
	put(o, METRIC_ESCALATIONS, c->escalated);
	put(o, METRIC_PROVIDER_FAILURES, c->provider_failures);
	metric_add(o, METRIC_USAGE_COST,
		   (double)c->usage_cost / (double)NANO_PER_UNIT, STR_NULL);
}

static void put_time(struct metric_list *o, enum metric_id id, uint64_t ns)
{
	metric_add(o, id, (double)ns / (double)NS_PER_S, STR_NULL);
}

static void put_sched(struct metric_list *o, struct svc *s)
{
	const struct fsm_counters *c = fsm_counters(s->p->fsm);
	const uint64_t *errors = s->sched_errors;

	put(o, METRIC_SCHED_PROMOTE, c->promoted);
	put(o, METRIC_SCHED_RECLAIM, c->reclaimed);
	put(o, METRIC_SCHED_EXPIRE, c->expired);
	put(o, METRIC_SCHED_PURGE, c->purged);
	put(o, METRIC_SCHED_PROMOTE_ERRORS, errors[SCHED_PROMOTES]);
	put(o, METRIC_SCHED_RECLAIM_ERRORS, errors[SCHED_RECLAIMS]);
	put(o, METRIC_SCHED_EXPIRE_ERRORS, errors[SCHED_EXPIRES]);
	put(o, METRIC_SCHED_PURGE_ERRORS, errors[SCHED_PURGES]);
	put_time(o, METRIC_SCHED_LAST_PROMOTE, c->promote_ns);
	put_time(o, METRIC_SCHED_LAST_RECLAIM, c->reclaim_ns);
	put_time(o, METRIC_SCHED_LAST_EXPIRE, c->expire_ns);
	put_time(o, METRIC_SCHED_LAST_PURGE, c->purge_ns);
}

static void put_totals(struct metric_list *o, const struct fsm_totals *t)
{
	put(o, METRIC_QUEUES, t->queues);
	put(o, METRIC_QUEUES_NOW, t->queues);
	put(o, METRIC_WORKERS_REGISTERED, t->workers);
	put(o, METRIC_WORKERS_ACTIVE, t->workers_active);
#define STATE(NAME, name, num, terminal)                 \
	metric_add(o, METRIC_JOBS, (double)t->jobs[num], \
		   STR("state=\"" #name "\""));
#include "proto/defs/states.def"
}

static void put_disk(struct metric_list *o, struct svc *s)
{
	uint64_t bytes;
	int e = dir_free_bytes(s->p->d->settings.data_dir, &bytes);

	metric_add(o, METRIC_DISK_FREE, e == 0 ? (double)bytes : METRIC_UNKNOWN,
		   STR_NULL);
}

/*
 * All, or those with most to do. Who that is, is asked once a minute: it costs
 * a look at every queue, and series that come and go are of little use.
 */
static size_t choose_queues(struct svc *s, uint64_t all, struct str **ret)
{
	uint64_t now = clock_mono_ns();

	if (all <= LIMIT_METRIC_QUEUES)
		return fsm_busiest(s->p->fsm, LIMIT_METRIC_QUEUES, &s->scratch,
				   ret);
	if (s->chosen_ns == 0 || now - s->chosen_ns >= CHOICE_NS) {
		arena_reset(&s->chosen_arena);
		s->chosen_n = fsm_busiest(s->p->fsm, LIMIT_METRIC_QUEUES,
					  &s->chosen_arena, &s->chosen);
		for (size_t i = 0; i < s->chosen_n; i++)
			s->chosen[i] =
			    arena_copy(&s->chosen_arena, s->chosen[i]);
		s->chosen_ns = now;
	}
	*ret = s->chosen;
	return s->chosen_n;
}

/* 1, 0: there is no such queue any more, -ERR_*. */
static int read_queue(struct svc *s, struct str name, unsigned *fills,
		      struct m_metric_queue *ret)
{
	struct m_queue q;
	struct m_scale sc;
	int r = fsm_scale(s->p->fsm, name, proposer_now(s->p->proposer), fills,
			  &sc);

	if (r <= 0)
		return r;
	CHECK(fsm_queue(s->p->fsm, name, &q));
	*ret = (struct m_metric_queue){ 0 };
	MSG_SET(ret, metric_queue, name, q.name);
#define STATE(NAME, state, num, terminal) \
	MSG_SET(ret, metric_queue, state, q.state);
#include "proto/defs/states.def"
	if (sc.waiting == 0 || MSG_HAS(&sc, scale, oldest_waiting_at))
		MSG_SET(ret, metric_queue, oldest_waiting_seconds,
			sc.oldest_waiting_seconds);
	return 1;
}

/* One row for all of a queue: a thousand queues are 9,000 series. */
static int put_queues(struct svc *s, uint64_t all, struct m_metrics *ret)
{
	unsigned fills = FSM_SCALE_FILLS;
	struct str *names;
	size_t found = 0, n = choose_queues(s, all, &names);
	struct m_metric_queue *rows =
	    arena_alloc(&s->scratch, n * sizeof(*rows));

	for (size_t i = 0; i < n; i++) {
		int r = read_queue(s, names[i], &fills, &rows[found]);

		if (r < 0)
			return r;
		found += (size_t)r;
	}
	MSG_SET_LIST(ret, metrics, queues, rows, found);
	return 0;
}

/* httpd asks neither sched nor the supervisor, and viewd may be away. */
static void put_processes(struct metric_list *o, struct svc *s)
{
	procstat_metrics(o, "raftd", getpid());
	procstat_metrics(o, "viewd", (pid_t)s->viewd_pid);
	procstat_metrics(o, "sched", (pid_t)s->sched_pid);
	if (s->p->d->notify.supervisor_fd >= 0)
		procstat_metrics(o, "supervisor", getppid());
}

void q_raftd_metrics(struct svc *s, struct rpc_req req,
		     const struct m_nothing *m)
{
	struct metric_list o = { .a = &s->scratch };
	struct fsm_totals t;
	struct m_metrics all;
	int e;

	(void)m;
	put_raft(&o, s);
	nodes_metrics(s, &o);
	put_proposer(&o, s);
	put_jobs(&o, s);
	put_usage(&o, s);
	put_sched(&o, s);
	push_metrics(s, &o);
	scheddb_metrics(s, &o);
	webhook_metrics(s, &o);
	fsm_totals(s->p->fsm, proposer_now(s->p->proposer) - WORKER_ACTIVE_NS,
		   &t);
	put_totals(&o, &t);
	workers_metrics(s, &o);
	put_disk(&o, s);
	put_processes(&o, s);
	metric_list_message(&o, &all);
	e = put_queues(s, t.queues, &all);
	if (e < 0) {
		svc_reply_error(req, -e);
		return;
	}
	svc_reply(s, req, &msg_metrics, &all);
}

/* --- several httpd processes --- */

static void put_told(struct metric_list *o, const struct buf *told)
{
	struct m_metrics m;

	/* it is what we encoded */
	CHECK(msg_decode(&msg_metrics, buf_str(told), o->a, &m) == 0);
	for (size_t i = 0; i < m.values_n; i++)
		metric_add(o, m.values[i].metric, m.values[i].value,
			   m.values[i].label);
}

void q_tell_metrics(struct svc *s, struct rpc_req req,
		    const struct m_tell_metrics *m)
{
	struct metric_list others = { .a = &s->scratch };
	struct m_metrics all = { 0 };
	struct buf *own;

	if (m->number >= LIMIT_HTTPD_PROCESSES) {
		svc_reply_error(req, ERR_BAD_MESSAGE);
		return;
	}
	own = &s->httpd_metrics[m->number];
	MSG_SET_LIST(&all, metrics, values, m->values, m->values_n);
	buf_clear(own);
	msg_encode(&msg_metrics, &all, own);
	for (size_t i = 0; !m->quiet && i < LIMIT_HTTPD_PROCESSES; i++)
		if (i != m->number && s->httpd_metrics[i].n > 0)
			put_told(&others, &s->httpd_metrics[i]);
	metric_list_message(&others, &all);
	svc_reply(s, req, &msg_metrics, &all);
}
