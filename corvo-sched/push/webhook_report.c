/*
 * Reports of webhooks: one at a time of each, with all that has ended since the
 * last one. See push/webhook_impl.h, and corvo-raftd's fsm/ops/webhook_report.c
 * for what counts.
 *
 * Events are reported in the order of the log. One that takes long must not
 * hold up those behind it, which would be called again after a crash: it is
 * reported as one that waits for its try, and ends as such.
 */
#include "push/webhook_impl.h"
#include "rt/log.h"

#define RETRY_NS    (100 * NS_PER_MS)
#define SLOW_NS     (1 * NS_PER_S)  /* of a call that others wait behind */
#define SPARE_NS    (30 * NS_PER_S) /* after its end, before it is made again */
#define MOVE_NS     (1 * NS_PER_S)  /* between reports of a place alone */
#define MOVE_EVENTS 5000

static void on_reported(void *ctx, const struct rpc_reply *r);

/* --- what there is to report --- */

struct sheet {
	struct m_delivery *list;
	size_t n;
	bool gone;
};

static bool has_ended_behind(const struct wline *l, const struct wcall *c)
{
	for (const struct list *it = c->node.next; it != &l->calls;
	     it = it->next)
		if (list_entry(it, const struct wcall, node)->state ==
		    WCALL_ENDED)
			return true;
	return false;
}

static bool is_slow(struct whook *w, const struct wline *l,
		    const struct wcall *c, uint64_t now_ns)
{
	if (c->state != WCALL_CALLING || !has_ended_behind(l, c) ||
	    w->tries_by_seq.n >= LIMIT_WEBHOOK_TRIES)
		return false;
	if (now_ns - c->begun_ns >= SLOW_NS)
		return true;
	whook_look_at(w, c->begun_ns + SLOW_NS);
	return false;
}

static void put_slow(struct wcall *c, struct sheet *s)
{
	struct m_delivery *d = &s->list[s->n++];

	c->is_slow = true;
	*d = (struct m_delivery){ 0 };
	MSG_SET(d, delivery, seq, c->seq);
	MSG_SET(d, delivery, attempt, 0);
	MSG_SET(d, delivery, state, DELIVERY_RETRYING);
	MSG_SET(d, delivery, next_at,
		clock_wall_ns() + c->w->m.timeout + SPARE_NS);
	if (c->replayed)
		MSG_SET(d, delivery, replayed, true);
}

static void put_ended(struct wcall *c, struct sheet *s)
{
	s->list[s->n++] = c->d;
	s->gone |= c->gone;
	c->state = WCALL_REPORTED;
}

/* How far a line is, with what of it has ended. */
static uint64_t put_line(struct whook *w, struct wline *l, uint64_t now_ns,
			 struct sheet *s)
{
	LIST_FOREACH (it, &l->calls) {
		struct wcall *c = list_entry(it, struct wcall, node);

		if (s->n == LIMIT_WEBHOOK_REPORT)
			return c->seq - 1;
		if (c->state == WCALL_ENDED)
			put_ended(c, s);
		else if (is_slow(w, l, c, now_ns))
			put_slow(c, s);
		else
			return c->seq - 1;
	}
	return l->read;
}

static void put_tries(struct whook *w, struct sheet *s)
{
	LIST_FOREACH (it, &w->tries) {
		struct wcall *c = list_entry(it, struct wcall, node);

		if (s->n < LIMIT_WEBHOOK_REPORT && c->state == WCALL_ENDED)
			put_ended(c, s);
	}
}

/* A place alone is not worth an entry each time. */
static bool is_worth_it(struct whook *w, const struct sheet *s, uint64_t to,
			uint64_t replay_at, uint64_t now_ns)
{
	uint64_t moved = to - w->line.done + (replay_at - w->replay.done);

	if (s->n > 0 || w->lost > 0 || moved >= MOVE_EVENTS ||
	    (w->replay_id != 0 && replay_at == w->replay.to))
		return true;
	if (moved == 0)
		return false;
	if (now_ns >= w->moved_ns + MOVE_NS)
		return true;
	whook_look_at(w, w->moved_ns + MOVE_NS);
	return false;
}

bool whook_is_reported(const struct whook *w)
{
	if (w->report_body.n > 0)
		return false;
	LIST_FOREACH (it, &w->tries)
		if (list_entry(it, struct wcall, node)->state == WCALL_ENDED)
			return false;
	if (!list_empty(&w->line.calls) &&
	    list_entry(w->line.calls.next, struct wcall, node)->state ==
		WCALL_ENDED)
		return false;
	return true;
}

/* --- sending it --- */

static void send_report(struct whook *w)
{
	struct push *p = w->s->p;

	w->retry_ns = 0;
	w->report = rpc_call(
	    p->raftd, OP_WEBHOOK_REPORT, STR_NULL, w->report_body,
	    clock_mono_ns() + p->d->settings.op_timeout, ERR_LEADER_UNAVAILABLE,
	    RPC_CHANGES | RPC_KEEP, on_reported, w);
}

static void write_report(struct whook *w, const struct sheet *s, uint64_t to,
			 uint64_t replay_at)
{
	struct m_webhook_report *m = &w->reported;
	struct buf *out = &w->s->out;

	*m = (struct m_webhook_report){ 0 };
	MSG_SET(m, webhook_report, id, w->id);
	MSG_SET(m, webhook_report, number, w->m.number);
	MSG_SET(m, webhook_report, from, w->line.done);
	MSG_SET(m, webhook_report, to, to);
	MSG_SET(m, webhook_report, lost, w->lost);
	if (w->replay_id != 0) {
		MSG_SET(m, webhook_report, replay_id, w->replay_id);
		MSG_SET(m, webhook_report, replay_at, replay_at);
	}
	if (s->gone)
		MSG_SET(m, webhook_report, gone, true);
	MSG_SET_LIST(m, webhook_report, deliveries, s->list, s->n);
	buf_clear(out);
	msg_encode(&msg_webhook_report, m, out);
	w->report_body = arena_copy(&w->report_arena, buf_str(out));
}

void whook_report(struct whook *w, uint64_t now_ns)
{
	struct sheet s = { 0 };
	uint64_t to, replay_at = w->replay.done;

	if (w->report != NULL)
		return;
	if (w->report_body.n > 0) {
		if (w->retry_ns <= now_ns)
			send_report(w);
		else
			whook_look_at(w, w->retry_ns);
		return;
	}
	arena_reset(&w->report_arena);
	s.list = arena_alloc(&w->report_arena,
			     LIMIT_WEBHOOK_REPORT * sizeof(*s.list));
	to = put_line(w, &w->line, now_ns, &s);
	if (w->replay_id != 0)
		replay_at = put_line(w, &w->replay, now_ns, &s);
	put_tries(w, &s);
	if (!is_worth_it(w, &s, to, replay_at, now_ns))
		return;
	w->moved_ns = now_ns;
	write_report(w, &s, to, replay_at);
	send_report(w);
}

/* --- its answer --- */

/* It goes on as another try, of which the state machine knows now. */
static void become_try(struct wcall *c, struct wline *l)
{
	struct whook *w = c->w;
	struct wtry *t;

	l->n--;
	l->bytes -= c->bytes;
	c->is_slow = false;
	c->is_try = true;
	list_remove(&c->node);
	list_push_back(&w->tries, &c->node);
	whook_try_set(w, c->seq, 0, UINT64_MAX);
	t = whook_try(w, c->seq);
	t->call = c;
	heap_remove(&w->tries_due, &t->due);
}

/* By the rule of the state machine: see is_next_try there. */
static bool has_counted(const struct wcall *c)
{
	const struct wtry *t = whook_try(c->w, c->seq);

	return !c->is_try ||
	       (t != NULL && !t->gone && c->attempt == t->tries + 1);
}

static void settle(struct wcall *c)
{
	struct whook *w = c->w;

	if (has_counted(c)) {
		if (c->d.state == DELIVERY_RETRYING)
			whook_try_set(w, c->seq, c->attempt, c->d.next_at);
		else
			whook_try_drop(w, c->seq);
	}
	whook_try_leave(c, 0);
	wcall_free(c);
}

static void settle_line(struct wline *l)
{
	LIST_FOREACH_SAFE (it, &l->calls) {
		struct wcall *c = list_entry(it, struct wcall, node);

		if (c->is_slow)
			become_try(c, l);
		else if (c->state == WCALL_REPORTED)
			settle(c);
	}
}

static void settle_tries(struct whook *w)
{
	LIST_FOREACH_SAFE (it, &w->tries) {
		struct wcall *c = list_entry(it, struct wcall, node);

		if (c->state == WCALL_REPORTED)
			settle(c);
	}
}

static void take_answer(struct whook *w, const struct m_webhook_place *m)
{
	uint64_t replay_at = w->reported.replay_at;

	if (m->position != w->reported.to) {
		webhooks_reload(w); /* another process leads, or has led */
		return;
	}
	w->report_body = STR_NULL;
	w->line.done = w->reported.to;
	w->lost -= w->reported.lost;
	settle_line(&w->line); /* in the order in which it counts */
	settle_line(&w->replay);
	settle_tries(w);
	if (w->replay_id != 0 && w->reported.replay_id == w->replay_id) {
		w->replay.done = replay_at;
		if (replay_at == w->replay.to) {
			w->replay_id = 0;
			w->replay = (struct wline){ 0 };
			list_init(&w->replay.calls);
		}
	}
	whook_look(w);
}

static void on_reported(void *ctx, const struct rpc_reply *r)
{
	struct whook *w = ctx;
	struct push *p = w->s->p;
	struct arena a = ARENA_INIT;
	struct m_webhook_place m = { 0 };

	w->report = NULL;
	if (push_is_passing(r->err)) {
		w->retry_ns = clock_mono_ns() + RETRY_NS;
		whook_look(w);
		return;
	}
	if (r->err != 0 ||
	    msg_decode(&msg_webhook_place, r->body, &a, &m) < 0) {
		if (r->err != ERR_NOT_FOUND)
			log_warn("webhook %.*s: a report was refused: %s",
				 STR_ARG(w->id), err_code(r->err));
		webhooks_reload(w);
	} else {
		take_answer(w, &m);
	}
	arena_done(&a); /* the reply has no lists or texts */
	push_check_drained(p);
}
