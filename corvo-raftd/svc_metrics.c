#include "svc_metrics.h"

#include "svc.h"

#define METRICS_MAX 128 /* numbers in one answer */

struct out {
	struct m_metric_value *values;
	size_t n;
	struct arena *a;
};

static void put_labelled(struct out *o, enum metric_id id, double value,
			 struct str label)
{
	struct m_metric_value *v;

	CHECK(o->n < METRICS_MAX);
	v = &o->values[o->n++];
	MSG_SET(v, metric_value, metric, id);
	MSG_SET(v, metric_value, value, value);
	if (label.n > 0)
		MSG_SET(v, metric_value, label, label);
}

static void put(struct out *o, enum metric_id id, uint64_t value)
{
	put_labelled(o, id, (double)value, STR_NULL);
}

/* Cumulative buckets with their bound, then the sum and the count. */
static void put_hist(struct out *o, enum metric_id id, const struct hist *h)
{
	uint64_t below = 0;

	for (size_t i = 0; i < HIST_BOUNDS; i++) {
		below += h->count[i];
		put_labelled(o, id, (double)below,
			     arena_printf(o->a, "le=\"%g\"", hist_bounds_s[i]));
	}
	put_labelled(o, id, (double)h->total, STR("le=\"+Inf\""));
	put_labelled(o, id, h->sum_s, STR("sum"));
	put_labelled(o, id, (double)h->total, STR("count"));
}

static void put_raft(struct out *o, struct raftd *r)
{
	struct node_info i;

	node_info(r->node, &i);
	put(o, METRIC_CLUSTER_IS_LEADER, node_is_leader(r->node));
	put(o, METRIC_RAFT_STATE, (uint64_t)i.state_number);
	put(o, METRIC_RAFT_APPLIED_INDEX, i.applied_index);
	put(o, METRIC_RAFT_COMMIT_INDEX, i.commit_index);
	put(o, METRIC_RAFT_SNAPSHOT_INDEX, i.snapshot_index);
}

static void put_proposer(struct out *o, struct raftd *r)
{
	const struct proposer_stats *p = proposer_stats(r->proposer);

	put(o, METRIC_RAFT_APPLY_PENDING, p->pending);
	put(o, METRIC_RAFT_APPLY_MAX_PENDING, r->d->settings.raft_max_pending);
	put(o, METRIC_RAFT_APPLY_OVERLOAD, p->overload);
	put(o, METRIC_RAFT_FETCH_OVERLOAD, p->fetch_overload);
	put(o, METRIC_RAFT_ENTRIES, p->entries);
	put(o, METRIC_PARKED_FETCHES, p->parked);
	put(o, METRIC_WAITING_READS, svc_waiting(r->svc));
	put_hist(o, METRIC_RAFT_QUEUE_TIME, &p->queue_time);
	put_hist(o, METRIC_RAFT_APPLY_TIME, &p->apply_time);
}

static void put_jobs(struct out *o, struct raftd *r)
{
	const struct fsm_counters *c = fsm_counters(r->fsm);

	put(o, METRIC_RAFT_APPLIED, c->ops);
	put(o, METRIC_ENQUEUED, c->enqueued);
	put(o, METRIC_COMPLETED, c->completed);
	put(o, METRIC_FAILED, c->failed);
	put(o, METRIC_SCHED_PROMOTE, c->promoted);
	put(o, METRIC_SCHED_RECLAIM, c->reclaimed);
	put(o, METRIC_SCHED_EXPIRE, c->expired);
	put(o, METRIC_EVENT_SEQ, fsm_last_seq(r->fsm));
	put(o, METRIC_RENEWALS, leases_renewed(r->leases));
}

void svc_metrics(struct raftd *r, struct arena *a, struct m_metrics *ret)
{
	struct out o = { .a = a };

	o.values = arena_zalloc(a, METRICS_MAX * sizeof(*o.values));
	put_raft(&o, r);
	put_proposer(&o, r);
	put_jobs(&o, r);
	*ret = (struct m_metrics){ 0 };
	MSG_SET_LIST(ret, metrics, values, o.values, o.n);
}
