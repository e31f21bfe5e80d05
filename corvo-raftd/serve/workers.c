/*
 * GET /workers: those that ask for jobs, from memory, and those that took one,
 * from the state machine, each once.
 */
#include <stdlib.h>

#include "propose/presence.h"
#include "proto/metric_list.h"
#include "serve/svc_impl.h"
#include "util/clock.h"
#include "util/json.h"

#define FORGET_NS  (LIMIT_WORKER_IDLE_S * NS_PER_S)
#define KEPT_TIMES 100 /* as long as the counting took */

enum worker_is {
	WORKER_IS_ACTIVE,
	WORKER_IS_IDLE,
	WORKER_IS_LOST,
	WORKER_IS_MAX
};

_Static_assert((int)WORKER_IS_MAX == SVC_WORKER_STATES, "kept in struct svc");

static const char *const state_names[] = {
	[WORKER_IS_ACTIVE] = "active",
	[WORKER_IS_IDLE] = "idle",
	[WORKER_IS_LOST] = "lost",
};

struct row {
	struct m_worker m;
	uint64_t silent_ns; /* for so long */
};

struct collect {
	struct arena *a;
	struct hmap by_id;
	struct row **rows;
	size_t n, cap;
	uint64_t now_ns, mono_ns;
};

static struct row *add(struct collect *c, struct str id)
{
	struct row *r = arena_zalloc(c->a, sizeof(*r));

	MSG_SET(&r->m, worker, id, id);
	r->silent_ns = UINT64_MAX;
	CHECK(hmap_put(&c->by_id, id, r) == NULL);
	c->rows = arena_grow(c->a, c->rows, sizeof(*c->rows), c->n, &c->cap);
	c->rows[c->n++] = r;
	return r;
}

/* --- those that ask --- */

static struct str queues_of(struct arena *a, const struct present *w)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct json_writer j = JSON_WRITER(&b);
	struct str name;
	size_t pos = 0;

	jw_array(&j);
	while (presence_next_queue(w, &pos, &name))
		jw_str(&j, name);
	jw_array_end(&j);
	return arena_copy(a, buf_str(&b));
}

static void add_present(struct collect *c, const struct presence *p)
{
	size_t pos = 0;
	struct str id;
	void *v;

	while (hmap_next(&p->workers, &pos, &id, &v)) {
		const struct present *w = v;
		struct row *r = add(c, w->id);

		MSG_SET(&r->m, worker, hostname, w->hostname);
		if (w->queues_n > 0)
			MSG_SET(&r->m, worker, queues, queues_of(c->a, w));
		MSG_SET(&r->m, worker, started_at, w->first.wall_ns);
		MSG_SET(&r->m, worker, last_heartbeat,
			w->open > 0 ? c->now_ns : w->last.wall_ns);
		r->silent_ns = w->open > 0 ? 0 : c->mono_ns - w->last.mono_ns;
	}
}

/* --- those that took a job --- */

static void add_known(void *ctx, const struct m_worker *w)
{
	struct collect *c = ctx;
	struct row *r = hmap_get(&c->by_id, w->id);
	/* One seen later than now was so before the clock was set back. */
	uint64_t seen_ns = MIN(w->last_heartbeat, c->now_ns);

	if (r == NULL)
		r = add(c, w->id);
	if (r->m.hostname.n == 0)
		MSG_SET(&r->m, worker, hostname, w->hostname);
	if (!MSG_HAS(&r->m, worker, queues) && w->queues.n > 0)
		MSG_SET(&r->m, worker, queues, w->queues);
	if (!MSG_HAS(&r->m, worker, started_at) ||
	    w->started_at < r->m.started_at)
		MSG_SET(&r->m, worker, started_at, w->started_at);
	MSG_SET(&r->m, worker, last_heartbeat,
		MAX(r->m.last_heartbeat, seen_ns));
	r->silent_ns = MIN(r->silent_ns, c->now_ns - seen_ns);
}

static void add_held(void *ctx, struct str job_id, struct str worker)
{
	struct collect *c = ctx;
	struct row *r = hmap_get(&c->by_id, worker);

	if (r == NULL)
		return; /* forgotten for those that were seen later */
	if (r->m.jobs == NULL)
		r->m.jobs =
		    arena_alloc(c->a, LIMIT_WORKER_JOBS * sizeof(*r->m.jobs));
	if (r->m.jobs_held < LIMIT_WORKER_JOBS)
		r->m.jobs[r->m.jobs_n++] = job_id;
	MSG_SET(&r->m, worker, jobs_held, r->m.jobs_held + 1);
}

/* --- all of them --- */

/* False: it is forgotten. */
static bool judge(const struct row *r, uint64_t lost_ns, enum worker_is *ret)
{
	*ret = r->m.jobs_held > 0       ? WORKER_IS_ACTIVE
	       : r->silent_ns < lost_ns ? WORKER_IS_IDLE
					: WORKER_IS_LOST;
	return *ret != WORKER_IS_LOST || r->silent_ns < MAX(FORGET_NS, lost_ns);
}

static int last_seen_first(const void *a, const void *b)
{
	const struct m_worker *x = a, *y = b;

	if (x->last_heartbeat != y->last_heartbeat)
		return x->last_heartbeat < y->last_heartbeat ? 1 : -1;
	return str_cmp(x->id, y->id);
}

/* In the scratch arena, last seen first; counts: of each state. */
static size_t workers_collect(struct svc *s, struct m_worker **ret,
			      uint64_t counts[WORKER_IS_MAX])
{
	struct proposer *p = s->p->proposer;
	struct collect c = { .a = &s->scratch };
	struct m_worker *all;
	size_t n = 0;

	c.now_ns = proposer_now(p);
	c.mono_ns = clock_mono_ns();
	add_present(&c, proposer_presence(p));
	fsm_each_worker(s->p->fsm, add_known, &c);
	fsm_each_held(s->p->fsm, LIMIT_HELD_JOBS, add_held, &c);
	hmap_done(&c.by_id);
	all = arena_alloc(c.a, c.n * sizeof(*all));
	for (size_t i = 0; i < c.n; i++) {
		struct row *r = c.rows[i];
		enum worker_is is;

		if (!judge(r, s->p->d->settings.worker_lost_after, &is))
			continue;
		MSG_SET(&r->m, worker, state, str_from(state_names[is]));
		MSG_SET_LIST(&r->m, worker, jobs, r->m.jobs, r->m.jobs_n);
		all[n++] = r->m;
		counts[is]++;
	}
	if (n > 0)
		qsort(all, n, sizeof(*all), last_seen_first);
	*ret = all;
	return n;
}

void q_list_workers(struct svc *s, struct rpc_req req,
		    const struct m_view_query *m)
{
	uint64_t counts[WORKER_IS_MAX] = { 0 };
	struct m_worker_list list = { 0 };
	struct m_worker *all;
	size_t n = workers_collect(s, &all, counts);

	(void)m;
	MSG_SET_LIST(&list, worker_list, workers, all,
		     MIN(n, (size_t)LIMIT_WORKERS));
	svc_reply(s, req, &msg_worker_list, &list);
}

/*
 * To count them is to look at all of them and at what they have in their hands.
 * The numbers are kept for a hundred times as long as that took: with a handful
 * they are those of now, and with ten thousand whoever asks all the time costs
 * no more than a hundredth of the loop.
 */
static void count(struct svc *s)
{
	uint64_t begin_ns = clock_mono_ns(), end_ns;
	struct m_worker *all;

	if (begin_ns < s->workers_until_ns)
		return;
	memset(s->workers_n, 0, sizeof(s->workers_n));
	(void)workers_collect(s, &all, s->workers_n);
	end_ns = clock_mono_ns();
	s->workers_until_ns = end_ns + KEPT_TIMES * (end_ns - begin_ns);
}

void workers_metrics(struct svc *s, struct metric_list *o)
{
	count(s);
	for (size_t i = 0; i < WORKER_IS_MAX; i++)
		metric_add(o, METRIC_WORKERS, (double)s->workers_n[i],
			   arena_printf(o->a, "state=\"%s\"", state_names[i]));
}
