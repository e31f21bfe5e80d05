/*
 * When jobs of push queues are fetched.
 *
 * A queue is looked at when something changes for it, at the end of the turn.
 * It has at most one fetch, which waits in raftd for a job; it is for as many
 * as the queue, its host and this process have room for.
 */
#include "push/push.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "push/push_impl.h"
#include "rt/log.h"

#define RETRY_FIRST_NS (50 * NS_PER_MS)
#define RETRY_MAX_NS   (1 * NS_PER_S)
#define FETCH_WAIT_NS  (LIMIT_FETCH_WAIT_S * NS_PER_S)
#define DRAIN_MAX_NS   (3 * NS_PER_S)
/* A fetch that is not answered so soon has found nothing, and waits. */
#define PASS_NS (20 * NS_PER_MS)

/* --- what is looked at --- */

void push_look(struct pqueue *q)
{
	if (list_empty(&q->dirty))
		list_push_back(&q->p->dirty, &q->dirty);
}

void push_look_at(struct pqueue *q, uint64_t at_ns)
{
	heap_update(&q->p->wakes, &q->wake, at_ns);
}

void push_look_at_all(struct push *p)
{
	size_t pos = 0;
	struct str name;
	void *v;

	while (hmap_next(&p->queues, &pos, &name, &v))
		push_look(v);
}

/* --- targets --- */

static void put_target(struct buf *key, struct str url)
{
	struct push_url parts;
	const char *why;

	CHECK(push_url_parse(url, &parts, &why));
	buf_printf(key, "%s://", parts.tls ? "https" : "http");
	for (size_t i = 0; i < parts.host.n; i++)
		buf_putc(key, (char)tolower((unsigned char)parts.host.p[i]));
	buf_printf(key, ":%u", parts.port);
}

struct target *target_get(struct push *p, struct str url, const char *kind)
{
	_cleanup_(buf_done) struct buf key = BUF_INIT(0);
	struct target *t;

	buf_puts(&key, kind);
	if (url.n > 0)
		put_target(&key, url);
	t = hmap_get(&p->targets, buf_str(&key));
	if (t == NULL) {
		t = xcalloc(1, sizeof(*t));
		t->p = p;
		list_init(&t->queues);
		list_init(&t->waiting);
		list_init(&t->starved);
		list_init(&t->hooks);
		hmap_put(&p->targets, buf_str(&key), t);
		buf_putc(&key, '\0');
		t->key = xstrdup(key.p);
	}
	t->refs++;
	return t;
}

void target_put(struct target *t)
{
	if (--t->refs > 0)
		return;
	heap_remove(&t->p->target_wakes, &t->wake);
	CHECK(hmap_remove(&t->p->targets, str_from(t->key)) == t);
	free(t->key);
	free(t);
}

/* --- fetches --- */

static void give_back_all(void *ctx, const struct rpc_reply *r)
{
	struct arena a = ARENA_INIT;
	struct m_fetch_reply m = { 0 };

	if (r->err == 0 && msg_decode(&msg_fetch_reply, r->body, &a, &m) == 0)
		for (size_t i = 0; i < m.jobs_n; i++)
			push_give_back(ctx, &m.jobs[i]);
	arena_done(&a);
}

static void fetch_stop(struct pqueue *q)
{
	if (q->fetch == NULL)
		return;
	(void)rpc_abandon(q->p->raftd, q->fetch, give_back_all, q->p);
	q->fetch = NULL;
}

static void on_fetched(void *ctx, const struct rpc_reply *r)
{
	struct pqueue *q = ctx;
	struct arena a = ARENA_INIT;
	struct m_fetch_reply m = { 0 };

	q->fetch = NULL;
	if (r->err != 0 || msg_decode(&msg_fetch_reply, r->body, &a, &m) < 0) {
		q->pause_ns = q->pause_ns == 0
				  ? RETRY_FIRST_NS
				  : MIN(q->pause_ns * 2, RETRY_MAX_NS);
		q->retry_ns = clock_mono_ns() + q->pause_ns;
	} else {
		q->pause_ns = q->retry_ns = 0;
	}
	for (size_t i = 0; i < m.jobs_n; i++)
		if (MSG_HAS(&m.jobs[i], fetched, push_version))
			pcall_add(q, &m.jobs[i]);
		else /* it was no push queue any more */
			push_give_back(q->p, &m.jobs[i]);
	arena_done(&a);
	push_look(q);
}

static void fetch(struct pqueue *q, uint32_t count)
{
	struct push *p = q->p;
	struct m_fetch m = { 0 };
	uint64_t now_ns = clock_mono_ns();

	list_remove(&q->starved);
	q->fetch_ns = now_ns;
	MSG_SET_LIST(&m, fetch, queues, &q->name, 1);
	MSG_SET(&m, fetch, worker_id, p->worker);
	MSG_SET(&m, fetch, hostname, str_from(p->d->settings.node_id));
	MSG_SET(&m, fetch, timeout, FETCH_WAIT_NS);
	MSG_SET(&m, fetch, count, MIN(count, (uint32_t)LIMIT_FETCH_COUNT));
	MSG_SET(&m, fetch, fetch_id, rng_u64(&p->rng));
	buf_clear(&p->out);
	msg_encode(&msg_fetch, &m, &p->out);
	q->fetch = rpc_call(p->raftd, OP_FETCH, q->name, buf_str(&p->out),
			    now_ns + FETCH_WAIT_NS + p->d->settings.op_timeout,
			    ERR_REQUEST_TIMEOUT, RPC_CHANGES, on_fetched, q);
	rpc_when_late(q->fetch, give_back_all, p);
}

/* --- how many --- */

static uint32_t left(uint64_t max, uint64_t used)
{
	return (uint32_t)(max > used ? max - used : 0);
}

/* Calls that the host could be asked to take. While its breaker is half open
 * that is the one that tries it; those that were begun before do not count,
 * they may hang for long. */
static uint32_t host_room(const struct target *t)
{
	uint32_t n = left(t->p->limits.concurrency, t->leased);

	if (t->h.breaker != BREAKER_HALF_OPEN)
		return n;
	return t->h.probing || !list_empty(&t->waiting) ? 0 : MIN(n, 1u);
}

/* What waits to be reported is in memory as what is under way: while nobody
 * takes it no more is fetched. */
static uint32_t room_in_all(const struct push *p)
{
	return left(p->d->settings.push_max_calls, p->leased + p->reporting);
}

/* Jobs that could be called now; 0: it is looked at again when that changes. */
static uint32_t room_of(struct pqueue *q, uint64_t now_ns)
{
	struct push *p = q->p;
	struct target *t = q->target;
	uint32_t own =
	    q->set->concurrency > 0 ? q->set->concurrency : PUSH_CONCURRENCY;
	uint32_t mine = left(own, q->leased);
	uint32_t host = host_room(t), all = room_in_all(p);
	uint64_t at_ns = 0;

	if (mine == 0)
		return 0;
	if (host == 0 || all == 0) {
		if (list_empty(&q->starved))
			list_push_back(host == 0 ? &t->starved : &p->starved,
				       &q->starved);
		return 0;
	}
	if (!bucket_has(&q->bucket, q->set->rate, now_ns, &at_ns)) {
		push_look_at(q, at_ns);
		push_tell(p);
		return 0;
	}
	mine = MIN(mine, bucket_left(&q->bucket, q->set->rate, now_ns));
	return MIN(mine, MIN(host, all));
}

/* Who waited longest comes first. */
static void look_at_first(struct list *starved)
{
	struct list *first = starved->next;

	if (list_empty(starved))
		return;
	list_remove(first);
	push_look(list_entry(first, struct pqueue, starved));
}

void push_pass_on_any(struct push *p)
{
	if (room_in_all(p) > 0)
		look_at_first(&p->starved);
}

void push_pass_on(struct target *t)
{
	if (host_room(t) > 0)
		look_at_first(&t->starved);
	push_pass_on_any(t->p);
}

/*
 * A queue that was looked at because there is room may have no use for it: it
 * is held, or has no jobs, so that its fetch only waits. Then it is the turn of
 * others; of two for each one that waits, so that many of those without jobs
 * are soon passed by.
 */
static void pass_on_if_unused(struct pqueue *q, uint64_t now_ns)
{
	struct target *t = q->target;
	uint64_t waits_ns = q->fetch_ns + PASS_NS;

	if (list_empty(&t->starved) && list_empty(&q->p->starved))
		return;
	if (q->fetch != NULL && waits_ns > now_ns) {
		push_look_at(q, waits_ns);
		return;
	}
	push_pass_on(t);
	if (q->fetch != NULL)
		push_pass_on(t);
}

/* It is called neither now nor soon: as long as that is so nothing is fetched.
 */
static bool is_held(struct pqueue *q, uint64_t now_ns)
{
	struct push *p = q->p;
	struct target *t = q->target;
	uint64_t wait_ns = MAX(q->hold_ns, q->retry_ns);

	if (host_look(&t->h, now_ns))
		push_tell(p);
	if (wait_ns > now_ns)
		push_look_at(q, wait_ns);
	if (t->h.breaker == BREAKER_OPEN)
		heap_update(&p->target_wakes, &t->wake, t->h.until_ns);
	return q->gone || !p->active || p->draining || wait_ns > now_ns ||
	       t->h.breaker == BREAKER_OPEN;
}

static void look(struct pqueue *q)
{
	uint64_t now_ns = clock_mono_ns();
	bool held = is_held(q, now_ns);
	uint32_t room = 0;

	if (held)
		fetch_stop(q);
	else if (q->fetch == NULL)
		room = room_of(q, now_ns);
	if (room > 0)
		fetch(q, room);
	pass_on_if_unused(q, now_ns);
	if (held)
		pqueue_drop(q);
}

/* --- moments --- */

static void target_wake(struct target *t)
{
	if (host_look(&t->h, clock_mono_ns()))
		push_tell(t->p);
	target_go_on(t);
	LIST_FOREACH (it, &t->queues)
		push_look(list_entry(it, struct pqueue, of_target));
}

static void on_timer(void *ctx)
{
	struct push *p = ctx;
	uint64_t now_ns = clock_mono_ns();
	struct heap_node *n;

	while ((n = heap_min(&p->wakes)) != NULL && n->key <= now_ns) {
		heap_remove(&p->wakes, n);
		push_look(container_of(n, struct pqueue, wake));
	}
	while ((n = heap_min(&p->target_wakes)) != NULL && n->key <= now_ns) {
		heap_remove(&p->target_wakes, n);
		target_wake(container_of(n, struct target, wake));
	}
}

static void arm_timer(struct push *p)
{
	const struct heap_node *a = heap_min(&p->wakes);
	const struct heap_node *b = heap_min(&p->target_wakes);
	uint64_t at_ns =
	    min_nonzero(a != NULL ? a->key : 0, b != NULL ? b->key : 0);
	uint64_t now_ns = clock_mono_ns();

	if (at_ns == 0)
		loop_timer_disarm(p->timer);
	else
		loop_timer_arm(p->timer, at_ns > now_ns ? at_ns - now_ns : 0);
}

void push_turn_end(struct push *p)
{
	while (!list_empty(&p->dirty)) {
		struct pqueue *q =
		    list_entry(p->dirty.next, struct pqueue, dirty);

		list_remove(&q->dirty);
		look(q);
	}
	webhooks_turn_end(p->webhooks);
	arm_timer(p);
}

/* --- queues --- */

static void join_target(struct pqueue *q)
{
	struct target *old = q->target;

	list_remove(&q->of_target);
	list_remove(&q->starved);
	q->target =
	    target_get(q->p, q->set->url,
		       q->set->format == PUSH_SCHEDDB ? SDB_TARGET : "");
	list_push_back(&q->target->queues, &q->of_target);
	if (old == NULL)
		return;
	push_pass_on(old); /* the room there is no longer for this one */
	target_put(old);
}

void pqueue_set(struct push *p, const struct m_push_queue *m)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct pqueue *q = hmap_get(&p->queues, m->queue);
	struct m_push *set;
	char *name;

	if (q == NULL) {
		q = xcalloc(1, sizeof(*q) + m->queue.n);
		name = (char *)(q + 1);
		memcpy(name, m->queue.p, m->queue.n);
		q->p = p;
		q->name = str_of(name, m->queue.n);
		list_init(&q->unsure);
		hmap_put(&p->queues, q->name, q);
	}
	q->seen = true;
	if (q->gone) /* as it is back, nothing else looks at it */
		push_look(q);
	q->gone = false;
	msg_encode(&msg_push, m->push, &b);
	if (str_eq(buf_str(&b), q->encoded))
		return;
	arena_reset(&q->arena);
	q->encoded = arena_copy(&q->arena, buf_str(&b));
	set = arena_alloc(&q->arena, sizeof(*set));
	CHECK(msg_decode(&msg_push, q->encoded, &q->arena, set) == 0);
	q->set = set;
	q->hold_ns = 0; /* it was asked of the settings before */
	join_target(q);
	pqueue_settle(q);
	push_look(q);
}

static void pqueue_free(struct pqueue *q)
{
	struct push *p = q->p;

	list_remove(&q->dirty);
	list_remove(&q->of_target);
	list_remove(&q->starved);
	heap_remove(&p->wakes, &q->wake);
	CHECK(hmap_remove(&p->queues, q->name) == q);
	target_put(q->target);
	arena_done(&q->arena);
	free(q);
}

void pqueue_drop(struct pqueue *q)
{
	if (!q->gone || q->open > 0 || q->fetch != NULL)
		return;
	push_pass_on(q->target);
	pqueue_free(q);
}

void push_drop_unseen(struct push *p)
{
	size_t pos = 0;
	struct str name;
	void *v;

	while (hmap_next(&p->queues, &pos, &name, &v)) {
		struct pqueue *q = v;

		if (q->seen)
			continue;
		q->gone = true;
		pqueue_return_unsure(q);
		push_look(q);
	}
}

/* --- the process --- */

static void on_beats(void *ctx)
{
	pcalls_beat(ctx);
}

static void on_again(void *ctx)
{
	reports_again(ctx);
}

static void end_drain(void *ctx)
{
	struct push *p = ctx;
	loop_fn *done = p->drained;

	p->drained = NULL;
	if (done != NULL)
		done(p->drained_ctx);
}

void push_check_drained(struct push *p)
{
	if (p->draining && list_empty(&p->calls) &&
	    webhooks_is_idle(p->webhooks))
		end_drain(p);
}

void push_drain(struct push *p, loop_fn *done, void *ctx)
{
	size_t pos = 0;
	struct str key;
	void *v;

	p->draining = true;
	p->drained = done;
	p->drained_ctx = ctx;
	if (p->watch != NULL)
		rpc_cancel(p->raftd, p->watch);
	if (p->list != NULL)
		rpc_cancel(p->raftd, p->list);
	p->watch = p->list = NULL;
	push_look_at_all(p);
	while (hmap_next(&p->targets, &pos, &key, &v))
		target_return(v);
	pos = 0;
	while (hmap_next(&p->queues, &pos, &key, &v))
		pqueue_return_unsure(v);
	webhooks_drain(p->webhooks);
	loop_timer_arm(p->drain_timer,
		       MIN(p->d->settings.shutdown_timeout / 4, DRAIN_MAX_NS));
	push_check_drained(p);
}

static void set_limits(struct push *p)
{
	const struct settings *s = &p->d->settings;

	p->limits = (struct host_limits){
		.concurrency = (uint32_t)s->push_host_concurrency,
		.rate = (uint32_t)s->push_host_rate,
		.failures = (uint32_t)s->push_breaker_failures,
		.pause_ns = s->push_breaker_pause,
	};
}

struct push *push_new(struct daemon *d, struct rpc_client *raftd,
		      struct buf *why)
{
	struct push *p = xcalloc(1, sizeof(*p));
	const struct settings *s = &d->settings;
	uint64_t seed;

	p->d = d;
	p->raftd = raftd;
	list_init(&p->calls);
	list_init(&p->dirty);
	list_init(&p->starved);
	list_init(&p->beaten);
	rng_system(&seed, sizeof(seed));
	rng_seed(&p->rng, seed);
	buf_printf(&p->worker_buf, "push@%s", s->node_id);
	p->worker = buf_str(&p->worker_buf);
	set_limits(p);
	if (reach_init(&p->reach, s->push_allow,
		       reach_is_local(s->bind) &&
			   (s->scheddb_bind[0] == '\0' ||
			    reach_is_local(s->scheddb_bind)),
		       why) == 0)
		p->caller =
		    caller_new(d->loop, &p->reach, s->push_ca_file, why);
	if (p->caller == NULL) {
		buf_done(&p->worker_buf);
		free(p);
		return NULL;
	}
	p->timer = loop_timer_add(d->loop, on_timer, p);
	p->beats = loop_timer_add(d->loop, on_beats, p);
	p->again = loop_timer_add(d->loop, on_again, p);
	p->watch_timer = loop_timer_add(d->loop, push_on_watch_timer, p);
	p->drain_timer = loop_timer_add(d->loop, end_drain, p);
	p->webhooks = webhooks_new(p);
	return p;
}

void push_free(struct push *p)
{
	size_t pos = 0;
	struct str name;
	void *v;

	if (p == NULL)
		return;
	pcalls_free(p);
	webhooks_free(p->webhooks);
	while (hmap_next(&p->queues, &pos, &name, &v))
		pqueue_free(v);
	caller_free(p->caller);
	loop_timer_remove(p->timer);
	loop_timer_remove(p->beats);
	loop_timer_remove(p->again);
	loop_timer_remove(p->watch_timer);
	loop_timer_remove(p->drain_timer);
	hmap_done(&p->queues);
	hmap_done(&p->targets);
	heap_done(&p->wakes);
	heap_done(&p->target_wakes);
	heap_done(&p->beats_due);
	arena_done(&p->scratch);
	arena_done(&p->list_arena);
	buf_done(&p->worker_buf);
	buf_done(&p->out);
	free(p);
}
