/*
 * Which webhooks there are, and when each is looked at. See
 * push/webhook_impl.h.
 */
#include <stdlib.h>
#include <string.h>

#include "push/webhook_impl.h"
#include "rt/log.h"

#define RETRY_NS (100 * NS_PER_MS)

/* --- what is looked at --- */

void whook_look(struct whook *w)
{
	if (list_empty(&w->dirty))
		list_push_back(&w->s->dirty, &w->dirty);
}

void whook_look_at(struct whook *w, uint64_t at_ns)
{
	if (w->wake.pos == 0 || at_ns < w->wake.key)
		heap_update(&w->s->wakes, &w->wake, at_ns);
}

void webhooks_look_at(struct list *of_target)
{
	LIST_FOREACH (it, of_target)
		whook_look(list_entry(it, struct whook, of_target));
}

static void look(struct whook *w)
{
	uint64_t now_ns = clock_mono_ns();

	if (!w->s->draining) {
		whook_start_tries(w, now_ns);
		whook_start_calls(w, now_ns);
	}
	whook_report(w, now_ns);
}

static void on_timer(void *ctx)
{
	struct webhooks *s = ctx;
	uint64_t now_ns = clock_mono_ns();
	struct heap_node *n;

	while ((n = heap_min(&s->wakes)) != NULL && n->key <= now_ns) {
		heap_remove(&s->wakes, n);
		whook_look(container_of(n, struct whook, wake));
	}
}

/* --- one webhook --- */

void webhooks_cancel(struct webhooks *s, struct rpc_call **call)
{
	if (*call != NULL && !s->closed)
		rpc_cancel(s->p->raftd, *call);
	*call = NULL;
}

static void line_free(struct wline *l)
{
	LIST_FOREACH_SAFE (it, &l->calls)
		wcall_free(list_entry(it, struct wcall, node));
}

static void tries_free(struct whook *w)
{
	size_t pos = 0;
	struct str key;
	void *v;

	LIST_FOREACH_SAFE (it, &w->tries)
		wcall_free(list_entry(it, struct wcall, node));
	while (hmap_next(&w->tries_by_seq, &pos, &key, &v)) {
		heap_remove(&w->tries_due, &((struct wtry *)v)->due);
		free(v);
	}
	hmap_done(&w->tries_by_seq);
	heap_done(&w->tries_due);
}

/* What of it is under way is given up; who leads next goes on from what was
 * reported. */
static void whook_free(struct whook *w)
{
	struct webhooks *s = w->s;

	CHECK(hmap_remove(&s->hooks, w->id) == w);
	webhooks_cancel(s, &w->report);
	line_free(&w->line);
	line_free(&w->replay);
	tries_free(w);
	list_remove(&w->dirty);
	list_remove(&w->of_target);
	heap_remove(&s->wakes, &w->wake);
	target_put(w->target);
	arena_done(&w->report_arena);
	arena_done(&w->arena);
	free(w);
}

static void drop_all(struct webhooks *s)
{
	struct str id;
	size_t pos = 0;
	void *v;

	while (hmap_next(&s->hooks, &pos, &id, &v))
		whook_free(v);
	feeds_free(s);
}

static struct whook *whook_new(struct webhooks *s, const struct m_webhook *m)
{
	struct whook *w = xcalloc(1, sizeof(*w) + m->id.n);
	char *id = (char *)(w + 1);

	memcpy(id, m->id.p, m->id.n);
	w->s = s;
	w->id = str_of(id, m->id.n);
	list_init(&w->line.calls);
	list_init(&w->replay.calls);
	list_init(&w->tries);
	w->line.read = w->line.done = m->position;
	w->line.to = UINT64_MAX;
	hmap_put(&s->hooks, w->id, w);
	return w;
}

static void join_target(struct whook *w)
{
	struct target *old = w->target;

	list_remove(&w->of_target);
	w->target = target_get(w->s->p, w->m.url, "");
	list_push_back(&w->target->hooks, &w->of_target);
	if (old != NULL)
		target_put(old);
}

static void set_settings(struct whook *w, const struct m_webhook *m)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	msg_encode(&msg_webhook, m, &b);
	arena_reset(&w->arena);
	CHECK(msg_decode(&msg_webhook, arena_copy(&w->arena, buf_str(&b)),
			 &w->arena, &w->m) == 0);
	webhook_types(&w->m, &w->types);
	w->hold_ns = 0; /* it was asked of the settings before */
	join_target(w);
}

/* What was reported, or is being reported, is not known by the list. One whose
 * call is under way may have been replayed meanwhile. */
static void set_tries(struct whook *w, const struct m_webhook_work *m)
{
	size_t pos = 0;
	struct str key;
	void *v;

	while (hmap_next(&w->tries_by_seq, &pos, &key, &v))
		((struct wtry *)v)->seen = false;
	for (size_t i = 0; i < m->tries_n; i++) {
		const struct m_webhook_try *t = &m->tries[i];

		whook_try_set(w, t->seq, t->tries, t->next_at);
		whook_try(w, t->seq)->seen = true;
	}
	pos = 0;
	while (hmap_next(&w->tries_by_seq, &pos, &key, &v)) {
		const struct wtry *t = v;

		if (!t->seen && t->call == NULL)
			whook_try_drop(w, t->seq);
	}
}

static void set_replay(struct whook *w, const struct m_webhook *m)
{
	if (m->replay_id == w->replay_id || m->replay_id == 0)
		return; /* we know its end first */
	line_free(&w->replay);
	w->replay_id = m->replay_id;
	w->replay.read = w->replay.done = m->replay_at;
	w->replay.to = m->replay_to;
}

static void whook_set(struct webhooks *s, const struct m_webhook_work *m)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);
	const struct m_webhook *set = m->webhook;
	struct whook *w;

	if (set == NULL || !set->enabled ||
	    webhook_check(set, &s->p->scratch, &why) < 0)
		return;
	w = hmap_get(&s->hooks, set->id);
	if (w != NULL && w->m.number != set->number) {
		whook_free(w);
		w = NULL;
	}
	if (w == NULL)
		w = whook_new(s, set);
	w->seen = true;
	if (w->target == NULL || w->m.version != set->version)
		set_settings(w, set);
	set_tries(w, m);
	set_replay(w, set);
	whook_look(w);
}

/* --- all of them --- */

static void take_list(struct webhooks *s, const struct m_webhook_work_list *m)
{
	struct str id;
	size_t pos = 0;
	void *v;

	while (hmap_next(&s->hooks, &pos, &id, &v))
		((struct whook *)v)->seen = false;
	for (size_t i = 0; i < m->webhooks_n; i++)
		whook_set(s, &m->webhooks[i]);
	pos = 0;
	while (hmap_next(&s->hooks, &pos, &id, &v))
		if (!((struct whook *)v)->seen)
			whook_free(v);
	s->version = MAX(m->version, s->stale_at);
	s->told = m->version;
}

static void on_list(void *ctx, const struct rpc_reply *r)
{
	struct webhooks *s = ctx;
	struct arena a = ARENA_INIT;
	struct m_webhook_work_list m = { 0 };
	int err = -r->err;

	s->list = NULL;
	if (err == 0)
		err = msg_decode(&msg_webhook_work_list, r->body, &a, &m);
	if (err < 0) {
		s->retry_ns = clock_mono_ns() + RETRY_NS;
		s->stale = true;
	} else if (!s->stale && s->leader) {
		take_list(s, &m);
	}
	arena_done(&a);
}

static void list_ask(struct webhooks *s)
{
	static const struct m_nothing nothing;

	s->stale = false;
	buf_clear(&s->out);
	msg_encode(&msg_nothing, &nothing, &s->out);
	s->list = rpc_call(s->p->raftd, QUERY_WEBHOOK_WORK, STR_NULL,
			   buf_str(&s->out),
			   clock_mono_ns() + s->p->d->settings.op_timeout,
			   ERR_LEADER_UNAVAILABLE, RPC_ONCE, on_list, s);
}

void webhooks_refresh(struct webhooks *s)
{
	s->stale = true; /* the end of the turn asks */
}

void webhooks_reload(struct whook *w)
{
	struct webhooks *s = w->s;

	log_debug("webhook %.*s is elsewhere than this process thought",
		  STR_ARG(w->id));
	whook_free(w);
	webhooks_refresh(s);
}

void webhooks_told(struct webhooks *s, bool leader, uint64_t version)
{
	bool began = leader && !s->leader;

	if (!leader && s->leader)
		drop_all(s);
	s->leader = leader;
	if (leader && (began || version != s->told))
		webhooks_refresh(s);
	s->told = version;
}

uint64_t webhooks_version(const struct webhooks *s)
{
	return s->told;
}

bool webhooks_is_active(const struct webhooks *s)
{
	return s->leader;
}

void webhooks_turn_end(struct webhooks *s)
{
	uint64_t now_ns = clock_mono_ns(), at_ns;
	struct heap_node *n;

	while (!list_empty(&s->dirty)) {
		struct whook *w =
		    list_entry(s->dirty.next, struct whook, dirty);

		list_remove(&w->dirty);
		look(w);
	}
	n = heap_min(&s->wakes);
	at_ns = n != NULL ? n->key : 0;
	if (s->leader && !s->draining && rpc_client_is_up(s->p->raftd)) {
		if (s->retry_ns > now_ns)
			at_ns = min_nonzero(at_ns, s->retry_ns);
		else if (s->stale && s->list == NULL)
			list_ask(s);
		else if (!s->stale && s->list == NULL)
			feeds_ask(s);
	}
	if (at_ns == 0)
		loop_timer_disarm(s->timer);
	else
		loop_timer_arm(s->timer, at_ns > now_ns ? at_ns - now_ns : 0);
}

void webhooks_drain(struct webhooks *s)
{
	s->draining = true;
	feeds_free(s);
	webhooks_cancel(s, &s->list);
}

bool webhooks_is_idle(const struct webhooks *s)
{
	struct str id;
	size_t pos = 0;
	void *v;

	while (hmap_next(&s->hooks, &pos, &id, &v)) {
		const struct whook *w = v;

		if (w->open > 0 || !whook_is_reported(w))
			return false;
	}
	return true;
}

struct webhooks *webhooks_new(struct push *p)
{
	struct webhooks *s = xcalloc(1, sizeof(*s));

	s->p = p;
	list_init(&s->dirty);
	s->timer = loop_timer_add(p->d->loop, on_timer, s);
	return s;
}

void webhooks_free(struct webhooks *s)
{
	s->closed = true;
	drop_all(s);
	hmap_done(&s->hooks);
	hmap_done(&s->feeds);
	heap_done(&s->wakes);
	loop_timer_remove(s->timer);
	buf_done(&s->out);
	free(s);
}
