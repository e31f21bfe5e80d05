/*
 * Pages of the event log, for those who read it: a page that is there, or one
 * that waits until there is something new.
 *
 * Readers yield to writers: pages are read on the worker, few at a time so
 * that the view's feed is never behind many of them, and while there is always
 * something new, those who wait are answered only every so often, with more.
 *
 * A place that this node has yet to hear of is no place that never was: whoever
 * names it had it from another node, or from an answer that came through here.
 * It is waited for; only who leads can tell that there is no such event.
 *
 * Loop thread, but for answer_work.
 */
#include <stdlib.h>

#include "serve/svc_impl.h"
#include "store/record.h"
#include "util/clock.h"

#define PACE_NS      (25 * NS_PER_MS)
#define FENCE_NS     (5 * NS_PER_S) /* for the leader to say how far it is */
#define AGAIN_NS     (NS_PER_S / 2) /* after it did not */
#define ASKED_MAX    1024           /* questions at a time; more are refused */
#define RUNNING_MAX  2              /* of them on the worker */
#define PAGE_DEFAULT 100

struct event_ask {
	struct list node;
	struct svc_events *e;
	struct rpc_req req;
	uint64_t after_seq;
	uint32_t limit;
	uint64_t head_seq; /* newest event, also if it is in memory only */
	uint64_t until_ns; /* waits for news until then; clock_mono_ns */
	uint64_t fence;    /* the first that is asked after it came */
	int err;
	struct buf out;
};

struct svc_events {
	struct svc *s;
	struct list ahead;   /* of what this node has */
	struct list waiting; /* for news */
	struct list due;     /* for the worker */
	size_t asked;        /* in all three, and on the worker */
	size_t running;
	struct loop_timer *timer;
	uint64_t armed_ns;      /* 0: not armed */
	uint64_t answered_ns;   /* when news were found last */
	uint64_t flushed_seq;   /* the store holds all up to here, */
	uint64_t flushed_first; /* from here on */
	/* How far the leader is: it is asked by fences, one at a time. */
	uint64_t fences;      /* asked so far */
	uint64_t fences_done; /* number of the last that was answered */
	bool is_fencing;      /* one is under way */
	uint64_t fence_ns;    /* the next is not asked before */
	uint64_t fence_seq;   /* the newest event it told of */
};

static void on_timer(void *ctx)
{
	struct svc_events *e = ctx;

	e->armed_ns = 0; /* svc_events_turn_end of this turn does the work */
}

struct svc_events *svc_events_new(struct svc *s)
{
	struct svc_events *e = xcalloc(1, sizeof(*e));

	e->s = s;
	list_init(&e->ahead);
	list_init(&e->waiting);
	list_init(&e->due);
	e->timer = loop_timer_add(s->p->d->loop, on_timer, e);
	return e;
}

static void ask_free(struct event_ask *a)
{
	list_remove(&a->node);
	a->e->asked--;
	buf_done(&a->out);
	free(a);
}

static void free_all(struct list *l)
{
	LIST_FOREACH_SAFE (it, l)
		ask_free(list_entry(it, struct event_ask, node));
}

void svc_events_free(struct svc_events *e)
{
	free_all(&e->ahead);
	free_all(&e->waiting);
	free_all(&e->due);
	CHECK(e->asked == 0);
	loop_timer_remove(e->timer);
	free(e);
}

static bool is_ahead(const struct event_ask *a)
{
	const struct parts *p = a->e->s->p;

	return p->forward != NULL && a->after_seq > fsm_last_seq(p->fsm);
}

/* svc_events_turn_end looks at it. */
static void put_in_line(struct event_ask *a)
{
	struct svc_events *e = a->e;

	list_push_back(a->until_ns > 0 ? &e->waiting : &e->due, &a->node);
}

void q_events(struct svc *s, struct rpc_req req, const struct m_events_ask *m)
{
	struct svc_events *e = s->events;
	struct event_ask *a;

	if (e->asked >= ASKED_MAX) {
		rpc_reply(req, ERR_OVERLOADED, 0,
			  STR("too many readers of the event log"));
		return;
	}
	a = xcalloc(1, sizeof(*a));
	a->e = e;
	a->req = req;
	a->after_seq = m->after_seq;
	a->limit = m->limit == 0 ? PAGE_DEFAULT : m->limit;
	if (m->wait_ns > 0)
		a->until_ns =
		    clock_mono_ns() + MIN(m->wait_ns, LIMIT_WAIT_S * NS_PER_S);
	list_init(&a->node);
	e->asked++;
	if (is_ahead(a)) {
		a->fence = e->fences + 1;
		list_push_back(&e->ahead, &a->node);
	} else {
		put_in_line(a);
	}
}

/* --- answering --- */

static void answer_work(void *ctx)
{
	struct event_ask *a = ctx;
	struct arena arena = { .block_size = 64 * 1024 };
	struct m_events_reply m;
	int r = -a->err;

	if (r == 0)
		r = record_events(a->e->s->p->kv, a->after_seq, a->limit,
				  &arena, &m);
	a->err = r < 0 ? -r : 0;
	if (r == 0) {
		m.head_seq = MAX(m.head_seq, a->head_seq);
		msg_encode(&msg_events_reply, &m, &a->out);
	}
	arena_done(&arena);
}

static void answer_done(void *ctx)
{
	struct event_ask *a = ctx;

	a->e->running--; /* the next one is begun when the turn ends */
	if (a->err != 0)
		svc_reply_error(a->req, a->err);
	else
		rpc_reply_take(a->req, 0, &a->out);
	ask_free(a);
}

/* Whether the store has all of the page, and nothing of it is gone since. */
static bool is_in_store(const struct svc_events *e, const struct event_ask *a)
{
	uint64_t first = fsm_first_seq(e->s->p->fsm);

	return a->after_seq < e->flushed_seq &&
	       a->limit <= e->flushed_seq - a->after_seq &&
	       (a->after_seq >= first - 1 || e->flushed_first == first);
}

/* What is asked for may be in memory only, or its end may. */
static int flush_for(struct svc_events *e, const struct event_ask *a)
{
	struct fsm *f = e->s->p->fsm;
	int r;

	if (is_in_store(e, a))
		return 0;
	r = fsm_flush(f);
	if (r == 0) {
		e->flushed_seq = fsm_last_seq(f);
		e->flushed_first = fsm_first_seq(f);
	}
	return r;
}

static void begin_due(struct svc_events *e)
{
	LIST_FOREACH_SAFE (it, &e->due) {
		struct event_ask *a = list_entry(it, struct event_ask, node);

		if (e->running >= RUNNING_MAX)
			return;
		if (!rpc_req_is_live(a->req)) {
			ask_free(a);
			continue;
		}
		list_remove(it);
		a->err = -flush_for(e, a);
		a->head_seq = fsm_last_seq(e->s->p->fsm);
		e->running++;
		worker_run(e->s->p->worker, answer_work, answer_done, a);
	}
}

/* --- waiting --- */

static void arm(struct svc_events *e, uint64_t at_ns, uint64_t now_ns)
{
	if (e->armed_ns != 0 && e->armed_ns <= at_ns)
		return;
	e->armed_ns = at_ns;
	loop_timer_arm(e->timer, at_ns - now_ns);
}

/* Those who need wait no longer are due. */
static void look(struct svc_events *e, uint64_t now_ns)
{
	uint64_t last = fsm_last_seq(e->s->p->fsm);
	uint64_t next_ns = e->answered_ns + PACE_NS, again_ns = UINT64_MAX;
	bool is_time = now_ns >= next_ns;

	LIST_FOREACH_SAFE (it, &e->waiting) {
		struct event_ask *a = list_entry(it, struct event_ask, node);
		bool news = a->after_seq != last;

		if ((news && is_time) || a->until_ns <= now_ns) {
			list_remove(it);
			list_push_back(&e->due, it);
			e->answered_ns = now_ns;
		} else {
			again_ns = MIN(again_ns, news ? next_ns : a->until_ns);
		}
	}
	if (again_ns != UINT64_MAX)
		arm(e, again_ns, now_ns);
}

/* --- what this node has yet to hear of --- */

static void on_fenced(void *ctx, int err, uint64_t seq)
{
	struct svc_events *e = ctx;

	e->is_fencing = false;
	if (err != 0) {
		e->fence_ns = clock_mono_ns() + AGAIN_NS;
		return;
	}
	e->fences_done = e->fences;
	e->fence_seq = MAX(e->fence_seq, seq);
}

static void on_fence(void *ctx, const struct rpc_reply *reply)
{
	on_fenced(ctx, reply->err, reply->seq);
}

/* Also when this node leads: others may have another leader by now, and a
 * reader may come from there. */
static void ask_leader(struct svc_events *e, uint64_t now_ns)
{
	static const struct m_nothing nothing;
	struct svc *s = e->s;
	bool leads = node_is_ready(s->p->node);

	if (e->is_fencing || (!leads && !node_is_following(s->p->node)))
		return;
	if (now_ns < e->fence_ns) {
		arm(e, e->fence_ns, now_ns);
		return;
	}
	e->is_fencing = true;
	e->fences++;
	if (leads) {
		proposer_fence_own(s->p->proposer, on_fenced, e);
		return;
	}
	buf_clear(&s->out);
	msg_encode(&msg_nothing, &nothing, &s->out);
	forward_ask(s->p->forward, QUERY_FENCE, buf_str(&s->out),
		    now_ns + FENCE_NS, on_fence, e);
}

/* A leader told of it, so it comes to this node, too. */
static bool is_to_come(const struct event_ask *a)
{
	const struct svc_events *e = a->e;
	const struct parts *p = e->s->p;

	return !node_is_sure(p->node) &&
	       a->after_seq <= MAX(e->fence_seq, forward_seq(p->forward));
}

/* Who leads has all there is, and leads still. */
static bool never_was(const struct event_ask *a)
{
	return a->e->fences_done >= a->fence;
}

static void look_ahead(struct svc_events *e)
{
	bool asks = false;

	LIST_FOREACH_SAFE (it, &e->ahead) {
		struct event_ask *a = list_entry(it, struct event_ask, node);

		if (!is_ahead(a)) {
			list_remove(it);
			put_in_line(a);
		} else if (is_to_come(a)) {
			continue;
		} else if (never_was(a)) {
			list_remove(it);
			list_push_back(&e->due, it);
		} else {
			asks = true;
		}
	}
	if (asks)
		ask_leader(e, clock_mono_ns());
}

void svc_events_turn_end(struct svc_events *e)
{
	/* while the log is replayed the end is not where it was and will be */
	if (e->asked == 0 || !node_is_whole(e->s->p->node))
		return;
	if (!list_empty(&e->ahead))
		look_ahead(e);
	if (!list_empty(&e->waiting))
		look(e, clock_mono_ns());
	begin_due(e);
}

static void drop(struct list *l, const struct rpc_peer *peer,
		 const struct rpc_req *req)
{
	LIST_FOREACH_SAFE (it, l) {
		struct event_ask *a = list_entry(it, struct event_ask, node);

		if (req != NULL ? rpc_req_is(a->req, *req)
				: a->req.peer == peer)
			ask_free(a);
	}
}

void svc_events_cancel(struct svc_events *e, struct rpc_req req)
{
	drop(&e->ahead, NULL, &req);
	drop(&e->waiting, NULL, &req);
	drop(&e->due, NULL, &req);
}

void svc_events_peer_down(struct svc_events *e, const struct rpc_peer *peer)
{
	drop(&e->ahead, peer, NULL);
	drop(&e->waiting, peer, NULL);
	drop(&e->due, peer, NULL);
}
