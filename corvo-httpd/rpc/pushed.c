/*
 * Jobs of workers that want to hear at once when one of them is cancelled. All
 * streams of the process share one look at the event log, which is only taken
 * while there is such a job. See rpc/lifecycle.h.
 *
 * A job is looked for from the moment its fetch was answered, in what came
 * after that in the log; what is found before the worker has the job is told
 * when it has. The log is that of this node, which may be behind or ahead of
 * the answer where another one leads.
 *
 * A worker that hears nothing loses nothing: the next heartbeat says the same.
 */
#include <stdlib.h>

#include "req/hub.h"
#include "rpc/lifecycle.h"

#define AGAIN_NS (100 * NS_PER_MS) /* after events were lost */

struct pushed {
	struct httpd *h;
	struct hmap jobs;         /* id -> struct pushed_job */
	struct hub_sub *sub;      /* NULL: there are none */
	uint64_t seen;            /* the last event of it */
	struct loop_timer *timer; /* for the first look */
};

struct pushed_job {
	struct list node; /* in lifecycle.jobs */
	struct lifecycle *l;
	uint64_t seq;      /* of its fetch */
	bool is_sent;      /* the worker has it */
	bool is_cancelled; /* and is told when it has */
	size_t id_n;
	char id[];
};

static void on_events(void *ctx);

struct pushed *pushed_new(struct httpd *h)
{
	struct pushed *p = xcalloc(1, sizeof(*p));

	p->h = h;
	p->timer = loop_timer_add(h->d->loop, on_events, p);
	return p;
}

void pushed_free(struct pushed *p)
{
	CHECK(p->jobs.n == 0);
	loop_timer_remove(p->timer);
	hmap_done(&p->jobs);
	free(p);
}

/* What ends the work of whoever has the job, by another's will. */
static bool is_cancel(const struct m_event *e)
{
	return e->type == EVENT_CANCELLING || e->type == EVENT_EXPIRED ||
	       e->type == EVENT_DELETED || e->type == EVENT_TIMED_OUT;
}

static void forget(struct pushed *p, struct pushed_job *j)
{
	(void)hmap_remove(&p->jobs, str_of(j->id, j->id_n));
	list_remove(&j->node);
	j->l->jobs_n--;
	free(j);
}

static void tell(struct pushed *p, struct pushed_job *j)
{
	struct m_lifecycle_reply m = { 0 };
	struct str id = str_of(j->id, j->id_n);

	MSG_SET_LIST(&m, lifecycle_reply, cancelled_job_ids, &id, 1);
	flow_send(j->l->flow, &pb_LifecycleStreamResponse, &m);
	forget(p, j);
}

static void stop_if_idle(struct pushed *p)
{
	if (p->jobs.n > 0 || p->sub == NULL)
		return;
	hub_unsubscribe(p->sub);
	p->sub = NULL;
}

/* Events are told of when the last ones were read; these are read later, as
 * a frame may be about to be written. */
static void begin(struct pushed *p, uint64_t after_seq, uint64_t delay_ns)
{
	struct hub_sub *old = p->sub;

	p->sub = hub_subscribe(p->h->hub, after_seq, on_events, p);
	p->seen = after_seq;
	if (old != NULL)
		hub_unsubscribe(old);
	loop_timer_arm(p->timer, delay_ns);
}

static void on_event(struct pushed *p, const struct m_event *e)
{
	struct pushed_job *j =
	    is_cancel(e) ? hmap_get(&p->jobs, e->job_id) : NULL;

	if (j == NULL || e->seq <= j->seq)
		return;
	if (j->is_sent)
		tell(p, j);
	else
		j->is_cancelled = true;
}

static void on_events(void *ctx)
{
	struct pushed *p = ctx;
	struct m_event e;
	int n;

	if (p->sub == NULL)
		return;
	while ((n = hub_next(p->sub, &e)) > 0) {
		p->seen = e.seq;
		on_event(p, &e);
	}
	/* what is lost is told by heartbeats; go on with what comes */
	if (n < 0)
		begin(p, p->h->seq, AGAIN_NS);
	stop_if_idle(p);
}

void pushed_add(struct lifecycle *l, struct str job_id, uint64_t seq)
{
	struct pushed *p = l->all->pushed;
	struct pushed_job *j = hmap_get(&p->jobs, job_id);

	if (j != NULL && j->seq > seq) /* another has it meanwhile */
		return;
	if (j == NULL && l->jobs_n == LIFECYCLE_PUSHED)
		j = list_entry(l->jobs.next, struct pushed_job, node);
	if (j != NULL) /* it was fetched again, by another perhaps */
		forget(p, j);
	j = xcalloc(1, sizeof(*j) + job_id.n);
	j->l = l;
	j->seq = seq;
	j->id_n = job_id.n;
	memcpy(j->id, job_id.p, job_id.n);
	list_push_back(&l->jobs, &j->node);
	l->jobs_n++;
	(void)hmap_put(&p->jobs, job_id, j);
	if (p->sub == NULL || seq < p->seen)
		begin(p, seq, 0);
}

static struct pushed_job *find(struct lifecycle *l, struct str job_id)
{
	struct pushed *p = l->all->pushed;
	struct pushed_job *j =
	    p->jobs.n > 0 ? hmap_get(&p->jobs, job_id) : NULL;

	return j != NULL && j->l == l ? j : NULL;
}

void pushed_sent(struct lifecycle *l, struct str job_id)
{
	struct pushed_job *j = find(l, job_id);

	if (j == NULL)
		return;
	j->is_sent = true;
	if (!j->is_cancelled)
		return;
	tell(l->all->pushed, j);
	stop_if_idle(l->all->pushed);
}

void pushed_remove(struct lifecycle *l, struct str job_id)
{
	struct pushed_job *j = find(l, job_id);

	if (j == NULL)
		return;
	forget(l->all->pushed, j);
	stop_if_idle(l->all->pushed);
}

void pushed_remove_all(struct lifecycle *l)
{
	struct pushed *p = l->all->pushed;

	LIST_FOREACH_SAFE (it, &l->jobs)
		forget(p, list_entry(it, struct pushed_job, node));
	stop_if_idle(p);
}
