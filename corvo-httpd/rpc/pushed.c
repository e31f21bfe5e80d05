/*
 * Jobs of workers that want to hear at once when one of them is cancelled. All
 * streams of the process share one look at the event log, which is only taken
 * while there is such a job. See rpc/lifecycle.h.
 *
 * A worker that hears nothing loses nothing: the next heartbeat says the same.
 */
#include <stdlib.h>

#include "req/hub.h"
#include "rpc/lifecycle.h"

struct pushed {
	struct httpd *h;
	struct hmap jobs; /* id -> struct pushed_job */
	struct hub_sub *sub;
	struct loop_timer *timer; /* for the first look */
};

struct pushed_job {
	struct list node; /* in lifecycle.jobs */
	struct lifecycle *l;
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

static void tell(struct pushed_job *j)
{
	struct m_lifecycle_reply m = { 0 };
	struct str id = str_of(j->id, j->id_n);

	MSG_SET_LIST(&m, lifecycle_reply, cancelled_job_ids, &id, 1);
	flow_send(j->l->flow, &pb_LifecycleStreamResponse, &m);
}

static void forget(struct pushed *p, struct pushed_job *j)
{
	(void)hmap_remove(&p->jobs, str_of(j->id, j->id_n));
	list_remove(&j->node);
	j->l->jobs_n--;
	free(j);
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
static void begin(struct pushed *p)
{
	p->sub = hub_subscribe(p->h->hub, p->h->seq, on_events, p);
	loop_timer_arm(p->timer, 0);
}

static void on_events(void *ctx)
{
	struct pushed *p = ctx;
	struct pushed_job *j;
	struct m_event e;
	int n;

	if (p->sub == NULL)
		return;
	while ((n = hub_next(p->sub, &e)) > 0) {
		j = is_cancel(&e) ? hmap_get(&p->jobs, e.job_id) : NULL;
		if (j == NULL)
			continue;
		tell(j);
		forget(p, j);
	}
	/* what is lost is told by heartbeats; go on with what comes */
	if (n < 0) {
		hub_unsubscribe(p->sub);
		begin(p);
	}
	stop_if_idle(p);
}

void pushed_add(struct lifecycle *l, struct str job_id)
{
	struct pushed *p = l->all->pushed;
	struct pushed_job *j = hmap_get(&p->jobs, job_id);

	if (j == NULL && l->jobs_n == LIFECYCLE_PUSHED)
		j = list_entry(l->jobs.next, struct pushed_job, node);
	if (j != NULL) /* it was fetched again, by another perhaps */
		forget(p, j);
	j = xcalloc(1, sizeof(*j) + job_id.n);
	j->l = l;
	j->id_n = job_id.n;
	memcpy(j->id, job_id.p, job_id.n);
	list_push_back(&l->jobs, &j->node);
	l->jobs_n++;
	(void)hmap_put(&p->jobs, job_id, j);
	if (p->sub == NULL)
		begin(p);
}

void pushed_remove(struct lifecycle *l, struct str job_id)
{
	struct pushed *p = l->all->pushed;
	struct pushed_job *j =
	    p->jobs.n > 0 ? hmap_get(&p->jobs, job_id) : NULL;

	if (j == NULL || j->l != l)
		return;
	forget(p, j);
	stop_if_idle(p);
}

void pushed_remove_all(struct lifecycle *l)
{
	struct pushed *p = l->all->pushed;

	LIST_FOREACH_SAFE (it, &l->jobs)
		forget(p, list_entry(it, struct pushed_job, node));
	stop_if_idle(p);
}
