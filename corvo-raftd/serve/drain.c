/*
 * The wait for a queue's active jobs to end. A wait belongs to its request: it
 * ends with an answer, at its deadline, or when the client goes. It costs
 * nothing until its queue has changed. Who comes when too many wait is told how
 * it is now: the queue is paused already, so there is nothing to refuse. Loop
 * thread.
 */
#include <stdlib.h>

#include "serve/svc_impl.h"
#include "util/clock.h"
#include "util/heap.h"

/* A queue somebody waits for. */
struct drain_queue {
	struct list waits;
	struct str name; /* behind the struct */
};

struct drain_wait {
	struct list node; /* in drain_queue.waits */
	struct rpc_req req;
	struct drain_queue *queue;
	struct heap_node end; /* key: clock_mono_ns */
};

struct drains {
	struct svc *s;
	struct hmap queues; /* name -> struct drain_queue */
	struct hmap reqs;   /* struct rpc_req -> struct drain_wait */
	struct heap ends;
	struct loop_timer *timer;
	uint64_t armed_ns; /* 0: not armed */
};

static void wait_free(struct drains *d, struct drain_wait *w)
{
	struct drain_queue *q = w->queue;

	list_remove(&w->node);
	heap_remove(&d->ends, &w->end);
	CHECK(hmap_remove(&d->reqs, rpc_req_key(&w->req)) == w);
	free(w);
	if (!list_empty(&q->waits))
		return;
	fsm_unwatch_queue(d->s->p->fsm, q->name);
	CHECK(hmap_remove(&d->queues, q->name) == q);
	free(q);
}

/* A queue that is resumed will not drain. */
static bool is_draining(const struct svc *s, struct str queue,
			struct m_queue *ret)
{
	*ret = (struct m_queue){ 0 };
	return fsm_queue(s->p->fsm, queue, ret) && ret->active > 0 &&
	       ret->paused;
}

static void answer(struct svc *s, struct rpc_req req, const struct m_queue *q)
{
	struct m_drain_reply reply = { 0 };

	MSG_SET(&reply, drain_reply, status,
		q->active > 0 ? STR("draining") : STR("drained"));
	MSG_SET(&reply, drain_reply, active, q->active);
	svc_reply(s, req, &msg_drain_reply, &reply);
}

static void end(struct drains *d, struct drain_wait *w)
{
	struct rpc_req req = w->req;
	struct m_queue q;

	(void)is_draining(d->s, w->queue->name, &q);
	wait_free(d, w);
	answer(d->s, req, &q);
}

static void arm(struct drains *d, uint64_t now_ns)
{
	const struct heap_node *n = heap_min(&d->ends);

	if (n == NULL || (d->armed_ns != 0 && d->armed_ns <= n->key))
		return;
	d->armed_ns = n->key;
	loop_timer_arm(d->timer, n->key > now_ns ? n->key - now_ns : 0);
}

static void on_timer(void *ctx)
{
	struct drains *d = ctx;
	uint64_t now_ns = clock_mono_ns();
	struct heap_node *n;

	d->armed_ns = 0;
	while ((n = heap_min(&d->ends)) != NULL && n->key <= now_ns)
		end(d, container_of(n, struct drain_wait, end));
	arm(d, now_ns);
}

static struct drain_queue *queue_of(struct drains *d, struct str name)
{
	struct drain_queue *q = hmap_get(&d->queues, name);

	if (q != NULL)
		return q;
	q = xcalloc(1, sizeof(*q) + name.n);
	memcpy(q + 1, name.p, name.n);
	q->name = str_of(q + 1, name.n);
	list_init(&q->waits);
	hmap_put(&d->queues, q->name, q);
	fsm_watch_queue(d->s->p->fsm, q->name);
	return q;
}

void q_drained(struct svc *s, struct rpc_req req, const struct m_drain *m)
{
	struct drains *d = s->drains;
	uint64_t now_ns = clock_mono_ns();
	struct drain_wait *w;
	struct m_queue q;

	if (!is_draining(s, m->queue, &q) || m->wait_ns == 0 || s->draining ||
	    d->reqs.n >= LIMIT_DRAIN_WAITS) {
		answer(s, req, &q);
		return;
	}
	if (hmap_get(&d->reqs, rpc_req_key(&req)) != NULL) {
		svc_reply_error(req, ERR_BAD_MESSAGE); /* its id comes twice */
		return;
	}
	w = xcalloc(1, sizeof(*w));
	w->req = req;
	w->queue = queue_of(d, m->queue);
	w->end.key = now_ns + MIN(m->wait_ns, LIMIT_WAIT_S * NS_PER_S);
	list_push_back(&w->queue->waits, &w->node);
	heap_insert(&d->ends, &w->end);
	hmap_put(&d->reqs, rpc_req_key(&w->req), w);
	arm(d, now_ns);
}

static void on_changed(void *ctx, struct str name)
{
	struct drains *d = ctx;
	struct drain_queue *q = hmap_get(&d->queues, name);
	struct m_queue m;
	size_t left = 0;

	if (is_draining(d->s, name, &m))
		return;
	/* the queue goes with the last that waits for it */
	LIST_FOREACH (it, &q->waits)
		left++;
	while (left-- > 0)
		end(d, list_entry(q->waits.next, struct drain_wait, node));
}

void drains_turn_end(struct drains *d)
{
	fsm_take_changed(d->s->p->fsm, on_changed, d);
}

void drains_end(struct drains *d)
{
	struct heap_node *n;

	while ((n = heap_min(&d->ends)) != NULL)
		end(d, container_of(n, struct drain_wait, end));
}

void drains_cancel(struct drains *d, struct rpc_req req)
{
	struct drain_wait *w = hmap_get(&d->reqs, rpc_req_key(&req));

	if (w != NULL)
		wait_free(d, w);
}

void drains_peer_down(struct drains *d, const struct rpc_peer *peer)
{
	size_t pos = 0;
	struct str key;
	void *v;

	while (hmap_next(&d->reqs, &pos, &key, &v)) {
		struct drain_wait *w = v;

		if (w->req.peer == peer)
			wait_free(d, w);
	}
}

struct drains *drains_new(struct svc *s)
{
	struct drains *d = xcalloc(1, sizeof(*d));

	d->s = s;
	d->timer = loop_timer_add(s->p->d->loop, on_timer, d);
	return d;
}

void drains_free(struct drains *d)
{
	struct heap_node *n;

	while ((n = heap_min(&d->ends)) != NULL)
		wait_free(d, container_of(n, struct drain_wait, end));
	hmap_done(&d->queues);
	hmap_done(&d->reqs);
	heap_done(&d->ends);
	loop_timer_remove(d->timer);
	free(d);
}
