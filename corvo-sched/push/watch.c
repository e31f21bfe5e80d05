/*
 * Which queues are pushed. One question always waits in raftd, which answers it
 * when a push queue is changed or another node makes the calls; with the
 * question raftd hears what keeps calls back. See push/push_impl.h.
 */
#include <unistd.h>

#include "push/push_impl.h"
#include "rt/log.h"

#define TELL_NS         (200 * NS_PER_MS) /* between two tellings */
#define RETRY_NS        (50 * NS_PER_MS)
#define VERSION_UNKNOWN UINT64_MAX /* any answer is another one */

static void watch_ask(struct push *p);
static void list_ask(struct push *p);

/* --- the list of them --- */

static void list_take(struct push *p, const struct m_push_list_reply *m)
{
	for (size_t i = 0; i < m->queues_n; i++)
		if (m->queues[i].push != NULL &&
		    push_check(m->queues[i].push, &p->list_arena, &p->out) == 0)
			pqueue_set(p, &m->queues[i]);
	if (m->held_n > 0)
		log_info("push: %zu jobs that a process before this one had "
			 "go back",
			 m->held_n);
	for (size_t i = 0; i < m->held_n; i++)
		push_give_back(p, &m->held[i]);
}

/* This node may be behind the one that handed them out. */
static bool has_unsure(const struct push *p)
{
	size_t pos = 0;
	struct str name;
	void *v;

	while (hmap_next(&p->queues, &pos, &name, &v))
		if (!list_empty(&((struct pqueue *)v)->unsure))
			return true;
	return false;
}

/* At once, unless the answer would be the same as before. */
static void watch_soon(struct push *p)
{
	if (p->version != VERSION_UNKNOWN)
		watch_ask(p);
	else
		loop_timer_arm(p->watch_timer, RETRY_NS);
}

static void on_list(void *ctx, const struct rpc_reply *r)
{
	struct push *p = ctx;
	struct arena a = ARENA_INIT;
	struct m_push_list_reply m = { 0 };
	bool first = p->list_after.n == 0;
	int err = -r->err;

	p->list = NULL;
	if (err == 0)
		err = msg_decode(&msg_push_list_reply, r->body, &a, &m);
	if (err == 0 && (first || m.version == p->list_version)) {
		p->list_version = m.version;
		list_take(p, &m);
		p->returned |= p->active && first;
		arena_reset(&p->list_arena);
		p->list_after = m.more
				    ? arena_copy(&p->list_arena,
						 m.queues[m.queues_n - 1].queue)
				    : STR_NULL;
		if (m.more) {
			list_ask(p);
		} else {
			push_drop_unseen(p);
			p->version =
			    has_unsure(p) ? VERSION_UNKNOWN : m.version;
			watch_soon(p);
		}
	} else {
		p->list_after = STR_NULL; /* from the beginning */
		p->version = VERSION_UNKNOWN;
		loop_timer_arm(p->watch_timer, RETRY_NS);
	}
	arena_done(&a);
}

static void list_ask(struct push *p)
{
	struct m_push_list m = { 0 };
	size_t pos = 0;
	struct str name;
	void *v;

	if (p->list_after.n == 0)
		while (hmap_next(&p->queues, &pos, &name, &v))
			((struct pqueue *)v)->seen = false;
	MSG_SET(&m, push_list, after, p->list_after);
	if (p->list_after.n == 0 && p->active && !p->returned)
		MSG_SET(&m, push_list, worker_id, p->worker);
	buf_clear(&p->out);
	msg_encode(&msg_push_list, &m, &p->out);
	p->list =
	    rpc_call(p->raftd, QUERY_PUSH_LIST, STR_NULL, buf_str(&p->out),
		     clock_mono_ns() + p->d->settings.op_timeout,
		     ERR_LEADER_UNAVAILABLE, RPC_ONCE, on_list, p);
}

void push_refresh(struct push *p)
{
	if (p->list != NULL || p->draining || !rpc_client_is_up(p->raftd))
		return; /* when it is answered, who is unsure is looked at */
	if (p->watch != NULL)
		rpc_cancel(p->raftd, p->watch);
	p->watch = NULL;
	list_ask(p);
}

/* --- the question that waits in raftd --- */

static void fill_state(struct pqueue *q, uint64_t now_ns,
		       struct m_push_state *ret)
{
	const struct host *h = &q->target->h;
	uint64_t until_ns = 0;
	unsigned why;

	if (h->breaker != BREAKER_CLOSED) {
		why = PUSH_HOLD_BREAKER;
		until_ns = h->breaker == BREAKER_OPEN ? h->until_ns : 0;
		MSG_SET(ret, push_state, failures, h->failures);
		MSG_SET(ret, push_state, error, str_from(h->error));
	} else if (q->hold_ns > now_ns) {
		why = PUSH_HOLD_WAIT;
		until_ns = q->hold_ns;
	} else if (!bucket_has(&q->bucket, q->set->rate, now_ns, &until_ns)) {
		why = PUSH_HOLD_RATE;
	} else {
		return;
	}
	MSG_SET(ret, push_state, queue, q->name);
	MSG_SET(ret, push_state, host, str_from(q->target->key));
	MSG_SET(ret, push_state, why, why);
	if (until_ns > now_ns)
		MSG_SET(ret, push_state, until_ns,
			clock_wall_ns() + until_ns - now_ns);
}

static uint64_t count_breakers(struct push *p)
{
	size_t pos = 0;
	struct str key;
	uint64_t n = 0;
	void *v;

	while (hmap_next(&p->targets, &pos, &key, &v))
		n += ((struct target *)v)->h.breaker != BREAKER_CLOSED;
	return n;
}

static void fill_watch(struct push *p, struct m_push_watch *m)
{
	struct m_push_state *states;
	uint64_t now_ns = clock_mono_ns();
	size_t pos = 0, n = 0;
	struct str name;
	void *v;

	states = arena_zalloc(&p->scratch, (p->queues.n + 1) * sizeof(*states));
	while (hmap_next(&p->queues, &pos, &name, &v)) {
		fill_state(v, now_ns, &states[n]);
		n += states[n].has != 0;
	}
	MSG_SET(m, push_watch, version, p->version);
	MSG_SET(m, push_watch, active, p->active);
	MSG_SET(m, push_watch, pid, (uint32_t)getpid());
	MSG_SET_LIST(m, push_watch, states, states, n);
	MSG_SET(m, push_watch, calls, p->calls_n);
	MSG_SET(m, push_watch, failures, p->failures);
	MSG_SET(m, push_watch, open, p->leased);
	MSG_SET(m, push_watch, breakers, count_breakers(p));
	MSG_SET(m, push_watch, webhooks, webhooks_version(p->webhooks));
	MSG_SET(m, push_watch, leader, webhooks_is_active(p->webhooks));
}

static void on_watch(void *ctx, const struct rpc_reply *r)
{
	struct push *p = ctx;
	struct arena a = ARENA_INIT;
	struct m_push_watch_reply m = { 0 };
	int err = -r->err;

	p->watch = NULL;
	if (err == 0)
		err = msg_decode(&msg_push_watch_reply, r->body, &a, &m);
	arena_done(&a); /* the reply has no lists or texts */
	if (!rpc_client_is_up(p->raftd))
		return; /* push_link asks again */
	if (err < 0) {
		loop_timer_arm(p->watch_timer, RETRY_NS);
		return;
	}
	if (p->active != m.active)
		push_look_at_all(p);
	p->active = m.active;
	webhooks_told(p->webhooks, m.leader, m.webhooks);
	if (m.version != p->version || (p->active && !p->returned))
		list_ask(p);
	else
		watch_ask(p);
}

/* Puts the question in the place of the one that waits. */
static void watch_ask(struct push *p)
{
	struct m_push_watch m = { 0 };

	if (p->draining || !rpc_client_is_up(p->raftd) || p->list != NULL)
		return;
	if (p->watch != NULL)
		rpc_cancel(p->raftd, p->watch);
	loop_timer_disarm(p->watch_timer);
	p->told_ns = clock_mono_ns();
	arena_reset(&p->scratch);
	fill_watch(p, &m);
	buf_clear(&p->out);
	msg_encode(&msg_push_watch, &m, &p->out);
	p->watch =
	    rpc_call(p->raftd, QUERY_PUSH_WATCH, STR_NULL, buf_str(&p->out), 0,
		     ERR_LEADER_UNAVAILABLE, RPC_ONCE, on_watch, p);
	p->telling = false;
}

void push_on_watch_timer(void *ctx)
{
	watch_ask(ctx);
}

void push_tell(struct push *p)
{
	uint64_t now_ns = clock_mono_ns();

	if (p->telling || p->draining)
		return;
	p->telling = true;
	loop_timer_arm(p->watch_timer, p->told_ns + TELL_NS > now_ns
					   ? p->told_ns + TELL_NS - now_ns
					   : 0);
}

void push_link(struct push *p, bool up)
{
	if (up)
		watch_ask(p);
}
