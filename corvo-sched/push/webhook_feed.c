/*
 * Reading the event log for webhooks. Those that have read up to the same place
 * share a question, so that all that keep up cost as much as one; one that is
 * behind reads by itself, and only while it has room. See push/webhook_impl.h.
 */
#include <stdlib.h>

#include "push/webhook_impl.h"

#define PAGE_EVENTS 256
#define WAIT_NS     (LIMIT_WAIT_S * NS_PER_S)
#define LATE_NS     (5 * NS_PER_S) /* for the answer, after the wait */
#define RETRY_NS    (100 * NS_PER_MS)

static struct str place_key(const uint64_t *place)
{
	return str_of(place, sizeof(*place));
}

/* --- a page --- */

/* From here on webhooks are others than the list says. */
static bool is_change(const struct webhooks *s, const struct m_event *e)
{
	return e->seq > s->version && (e->type == EVENT_WEBHOOK_SET ||
				       e->type == EVENT_WEBHOOK_DELETED ||
				       e->type == EVENT_WEBHOOK_DISABLED ||
				       e->type == EVENT_WEBHOOK_REPLAYED);
}

static void note_lost(struct whook *w, struct wline *l, uint64_t first)
{
	if (l == &w->line)
		w->lost += first - 1 - l->read;
	l->read = MIN(first - 1, l->to);
}

static void take_page(struct whook *w, struct wline *l,
		      const struct m_events_reply *m)
{
	struct webhooks *s = w->s;

	if (m->lost && m->events_n > 0 && m->events[0].seq > l->read + 1)
		note_lost(w, l, m->events[0].seq);
	for (size_t i = 0; i < m->events_n; i++) {
		const struct m_event *e = &m->events[i];

		if (e->seq <= l->read)
			continue;
		if (e->seq > l->to || !wline_has_room(w, l))
			break;
		if (is_change(s, e)) {
			s->stale_at = MAX(s->stale_at, e->seq);
			webhooks_refresh(s);
			break;
		}
		if (webhook_takes(&w->m, &w->types, e))
			wcall_add(w, l, e);
		l->read = e->seq;
	}
	whook_look(w);
}

static void take_for_all(struct webhooks *s, uint64_t after,
			 const struct m_events_reply *m)
{
	struct str id;
	size_t pos = 0;
	void *v;

	while (hmap_next(&s->hooks, &pos, &id, &v)) {
		struct whook *w = v;

		if (w->line.read == after)
			take_page(w, &w->line, m);
		if (w->replay_id != 0 && w->replay.read == after)
			take_page(w, &w->replay, m);
	}
}

static void on_page(void *ctx, const struct rpc_reply *r)
{
	struct wfeed *f = ctx;
	struct webhooks *s = f->s;
	struct arena a = ARENA_INIT;
	struct m_events_reply m = { 0 };
	int err = -r->err;

	CHECK(hmap_remove(&s->feeds, place_key(&f->after)) == f);
	if (err == 0)
		err = msg_decode(&msg_events_reply, r->body, &a, &m);
	if (err == 0) {
		s->head = MAX(s->head, m.head_seq);
		take_for_all(s, f->after, &m);
	} else {
		s->retry_ns = clock_mono_ns() + RETRY_NS;
	}
	arena_done(&a);
	free(f);
}

static struct rpc_call *ask(struct webhooks *s, uint64_t after, uint32_t limit,
			    uint64_t wait_ns, rpc_reply_fn *fn, void *ctx)
{
	struct m_events_ask m = { 0 };

	MSG_SET(&m, events_ask, after_seq, after);
	MSG_SET(&m, events_ask, limit, limit);
	MSG_SET(&m, events_ask, wait_ns, wait_ns);
	buf_clear(&s->out);
	msg_encode(&msg_events_ask, &m, &s->out);
	return rpc_call(s->p->raftd, QUERY_EVENTS, STR_NULL, buf_str(&s->out),
			clock_mono_ns() + wait_ns + LATE_NS,
			ERR_LEADER_UNAVAILABLE, RPC_ONCE, fn, ctx);
}

static void feed_for(struct whook *w, const struct wline *l)
{
	struct webhooks *s = w->s;
	struct wfeed *f;

	if (!wline_has_room(w, l) ||
	    hmap_get(&s->feeds, place_key(&l->read)) != NULL)
		return;
	f = xcalloc(1, sizeof(*f));
	f->s = s;
	f->after = l->read;
	/* who waits is answered now and then; who is behind need not wait */
	f->ask = ask(s, f->after, PAGE_EVENTS, f->after < s->head ? 0 : WAIT_NS,
		     on_page, f);
	hmap_put(&s->feeds, place_key(&f->after), f);
}

void feeds_ask(struct webhooks *s)
{
	struct str id;
	size_t pos = 0;
	void *v;

	while (hmap_next(&s->hooks, &pos, &id, &v)) {
		struct whook *w = v;

		feed_for(w, &w->line);
		if (w->replay_id != 0)
			feed_for(w, &w->replay);
	}
}

void feeds_free(struct webhooks *s)
{
	struct str key;
	size_t pos = 0;
	void *v;

	while (hmap_next(&s->feeds, &pos, &key, &v)) {
		struct wfeed *f = v;

		webhooks_cancel(s, &f->ask);
		free(f);
	}
	hmap_clear(&s->feeds);
}

/* --- one event --- */

static void take_event(struct wcall *c, const struct m_events_reply *m)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	if (m->events_n == 0 || m->events[0].seq != c->seq) {
		wcall_fail(c, "the event is no longer kept");
		return;
	}
	msg_encode(&msg_event, &m->events[0], &b);
	CHECK(msg_decode(&msg_event, arena_copy(&c->arena, buf_str(&b)),
			 &c->arena, &c->event) == 0);
	if (enum_text(&enum_event_type, c->event.type) == NULL)
		wcall_fail(c, "the event is of a type of another version");
	else
		c->state = WCALL_WAITING;
}

static void on_event(void *ctx, const struct rpc_reply *r)
{
	struct wcall *c = ctx;
	struct whook *w = c->w;
	struct arena a = ARENA_INIT;
	struct m_events_reply m = { 0 };
	int err = -r->err;

	c->ask = NULL;
	if (err == 0)
		err = msg_decode(&msg_events_reply, r->body, &a, &m);
	if (err == 0) {
		take_event(c, &m);
	} else { /* later, as if nothing had been */
		whook_try_leave(c, clock_wall_ns() + RETRY_NS);
		wcall_free(c);
	}
	arena_done(&a);
	whook_look(w);
}

void wcall_ask_event(struct wcall *c)
{
	c->ask = ask(c->w->s, c->seq - 1, 1, 0, on_event, c);
}
