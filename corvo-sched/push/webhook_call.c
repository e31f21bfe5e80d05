/*
 * Calls of webhooks: from the event to what came of it. See
 * push/webhook_impl.h.
 */
#include <stdlib.h>

#include "push/letter.h"
#include "push/outcome.h"
#include "push/webhook_impl.h"

#define ROOM_NS       (20 * NS_PER_MS) /* until places of all are looked at */
#define JITTER_SHARE  10               /* of a delay is by chance */
#define DOUBLINGS_MAX 40

/* --- what waits for another try --- */

static struct str seq_key(const uint64_t *seq)
{
	return str_of(seq, sizeof(*seq));
}

struct wtry *whook_try(struct whook *w, uint64_t seq)
{
	return hmap_get(&w->tries_by_seq, seq_key(&seq));
}

/* A time of the wall clock, which the loop does not wait by. */
static uint64_t mono_of(uint64_t wall_ns)
{
	uint64_t wall = clock_wall_ns(), mono = clock_mono_ns();

	return wall_ns > wall ? mono + (wall_ns - wall) : mono;
}

static void wait_for(struct whook *w, struct wtry *t)
{
	if (t->call != NULL)
		return;
	heap_update(&w->tries_due, &t->due, mono_of(t->next_at));
	whook_look(w);
}

void whook_try_set(struct whook *w, uint64_t seq, uint32_t tries,
		   uint64_t next_at)
{
	struct wtry *t = whook_try(w, seq);

	if (t == NULL) {
		t = xcalloc(1, sizeof(*t));
		t->seq = seq;
		hmap_put(&w->tries_by_seq, seq_key(&seq), t);
	}
	t->tries = tries;
	t->next_at = next_at;
	t->gone = false;
	wait_for(w, t);
}

void whook_try_drop(struct whook *w, uint64_t seq)
{
	struct wtry *t = whook_try(w, seq);

	if (t == NULL)
		return;
	t->gone = true;
	if (t->call != NULL)
		return;
	CHECK(hmap_remove(&w->tries_by_seq, seq_key(&seq)) == t);
	heap_remove(&w->tries_due, &t->due);
	free(t);
}

void whook_try_leave(struct wcall *c, uint64_t not_before)
{
	struct wtry *t = whook_try(c->w, c->seq);

	if (t == NULL || t->call != c)
		return;
	t->call = NULL;
	t->next_at = MAX(t->next_at, not_before);
	if (t->gone)
		whook_try_drop(c->w, c->seq);
	else
		wait_for(c->w, t);
}

/* --- one delivery --- */

static struct wcall *wcall_new(struct whook *w, uint64_t seq, uint32_t attempt)
{
	struct wcall *c = xcalloc(1, sizeof(*c));

	c->w = w;
	c->seq = seq;
	c->attempt = attempt;
	return c;
}

void wcall_add(struct whook *w, struct wline *l, const struct m_event *e)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct wcall *c = wcall_new(w, e->seq, 1);

	msg_encode(&msg_event, e, &b);
	CHECK(msg_decode(&msg_event, arena_copy(&c->arena, buf_str(&b)),
			 &c->arena, &c->event) == 0);
	c->bytes = b.n;
	c->replayed = l == &w->replay;
	c->state = WCALL_WAITING;
	list_push_back(&l->calls, &c->node);
	l->n++;
	l->bytes += c->bytes;
}

bool wline_has_room(const struct whook *w, const struct wline *l)
{
	return l->read < l->to && l->n < WINDOW_CALLS &&
	       l->bytes < WINDOW_BYTES &&
	       w->tries_by_seq.n + w->line.n + w->replay.n <
		   LIMIT_WEBHOOK_TRIES;
}

static void leave_place(struct wcall *c)
{
	struct target *t = c->target;

	c->target = NULL;
	c->w->open--;
	target_leave_place(t);
	target_put(t);
}

void wcall_free(struct wcall *c)
{
	struct whook *w = c->w;
	struct wline *l = c->replayed ? &w->replay : &w->line;

	webhooks_cancel(w->s, &c->ask);
	if (c->call != NULL) {
		call_cancel(c->call);
		target_note_drop(c->target);
		leave_place(c);
	}
	if (!c->is_try) {
		l->n--;
		l->bytes -= c->bytes;
	}
	list_remove(&c->node);
	arena_done(&c->arena);
	free(c);
}

/* --- what came of it --- */

static void fill_result(struct wcall *c, uint32_t state)
{
	struct m_delivery *d = &c->d;
	const struct m_event *e = &c->event;

	MSG_SET(d, delivery, seq, c->seq);
	MSG_SET(d, delivery, attempt, c->attempt);
	MSG_SET(d, delivery, state, state);
	if (MSG_HAS(e, event, type))
		MSG_SET(d, delivery, type, e->type);
	if (e->job_id.n > 0)
		MSG_SET(d, delivery, job_id, e->job_id);
	if (e->queue.n > 0)
		MSG_SET(d, delivery, queue, e->queue);
	if (c->replayed)
		MSG_SET(d, delivery, replayed, true);
	if (!MSG_HAS(d, delivery, at))
		MSG_SET(d, delivery, at, clock_wall_ns());
	c->state = WCALL_ENDED;
	whook_look(c->w);
}

static void set_error(struct wcall *c, const char *error)
{
	MSG_SET(&c->d, delivery, error,
		outcome_text(str_from(error), LIMIT_WEBHOOK_ERROR_BYTES,
			     &c->arena));
}

void wcall_fail(struct wcall *c, const char *why)
{
	set_error(c, why);
	fill_result(c, DELIVERY_FAILED);
}

/* It doubles with each try, and is not the same for all. */
static uint64_t delay_of(struct wcall *c, const struct outcome *o)
{
	const struct m_webhook *m = &c->w->m;
	uint64_t ns = m->retry_delay;

	if (o->has_wait)
		return o->wait_ns;
	for (uint32_t i = 1; i < c->attempt && i < DOUBLINGS_MAX; i++)
		ns = MIN(ns * 2, m->retry_max_delay);
	ns = MIN(ns, m->retry_max_delay);
	return ns - rng_below(&c->w->s->p->rng, ns / JITTER_SHARE + 1);
}

static void judge(struct wcall *c, struct call *call,
		  const struct call_answer *a, struct outcome *ret)
{
	struct m_delivery *d = &c->d;

	outcome_judge(call, a, "", false, clock_wall_ns(), &c->arena, ret);
	MSG_SET(d, delivery, duration_ms,
		(double)(a->total_ns / NS_PER_US) / 1000);
	if (a->status > 0)
		MSG_SET(d, delivery, status_code, a->status);
	if (a->body.n > 0) {
		struct str body = arena_copy(&c->arena, a->body);

		MSG_SET(d, delivery, response,
			outcome_text(body, LIMIT_WEBHOOK_RESPONSE_BYTES,
				     &c->arena));
	}
	if (ret->kind != OUTCOME_FAILED) {
		fill_result(c, DELIVERY_DELIVERED);
		return;
	}
	set_error(c, ret->error);
	c->gone = a->status == 410;
	if (c->gone || c->attempt >= c->w->m.retry_limit) {
		fill_result(c, DELIVERY_FAILED);
		return;
	}
	MSG_SET(d, delivery, next_at, clock_wall_ns() + delay_of(c, ret));
	fill_result(c, DELIVERY_RETRYING);
}

static void on_answer(void *ctx, struct call *call, const struct call_answer *a)
{
	struct wcall *c = ctx;
	struct whook *w = c->w;
	struct target *t = c->target;
	struct outcome o;

	c->call = NULL;
	judge(c, call, a, &o);
	if (o.has_wait && o.wait_ns > 0)
		w->hold_ns = clock_mono_ns() + o.wait_ns;
	t->refs++; /* while its other calls are told */
	leave_place(c);
	target_note_end(t, o.of_host ? o.error : NULL);
	target_put(t);
	push_check_drained(w->s->p);
}

/* --- calling --- */

static void start(struct wcall *c, uint64_t now_ns)
{
	_cleanup_(buf_done) struct buf id = BUF_INIT(0);
	struct whook *w = c->w;
	struct push *p = w->s->p;
	struct event_letter l = {
		.webhook = &w->m,
		.event = &c->event,
		.attempt = c->attempt,
		.now_ns = clock_wall_ns(),
	};
	struct call_request r = {
		.timeout_ns = w->m.timeout,
		.connect_timeout_ns = p->d->settings.push_connect_timeout,
		.body_max = LIMIT_WEBHOOK_RESPONSE_BYTES,
	};

	webhook_put_delivery_id(&id, w->id, c->seq);
	l.id = buf_str(&id);
	letter_write_event(&l, &c->arena, &r);
	c->target = w->target;
	c->target->refs++;
	target_take_place(c->target);
	host_called(&c->target->h, &p->limits, now_ns);
	w->open++;
	c->state = WCALL_CALLING;
	c->begun_ns = now_ns;
	MSG_SET(&c->d, delivery, at, l.now_ns);
	c->call = call_start(p->caller, &r, on_answer, c);
}

/* A call may be made now; else it is looked at when that changes. */
static bool may_call(struct whook *w, uint64_t now_ns)
{
	struct push *p = w->s->p;
	struct target *t = w->target;
	uint64_t at_ns = 0;

	if (w->open >= w->m.concurrency)
		return false;
	if (w->hold_ns > now_ns) {
		whook_look_at(w, w->hold_ns);
		return false;
	}
	if (p->leased >= p->d->settings.push_max_calls) {
		whook_look_at(w, now_ns + ROOM_NS);
		return false;
	}
	if (host_may_call(&t->h, &p->limits, now_ns, &at_ns))
		return true;
	if (at_ns != 0)
		heap_update(&p->target_wakes, &t->wake, at_ns);
	return false;
}

static void start_waiting(struct whook *w, struct list *calls, uint64_t now_ns)
{
	LIST_FOREACH (it, calls) {
		struct wcall *c = list_entry(it, struct wcall, node);

		if (c->state != WCALL_WAITING)
			continue;
		if (!may_call(w, now_ns))
			return;
		start(c, now_ns);
	}
}

void whook_start_calls(struct whook *w, uint64_t now_ns)
{
	start_waiting(w, &w->tries, now_ns);
	start_waiting(w, &w->line.calls, now_ns);
	start_waiting(w, &w->replay.calls, now_ns);
}

static size_t count(const struct list *l)
{
	size_t n = 0;

	LIST_FOREACH (it, l)
		n++;
	return n;
}

/* Their events are read first. While the receiver is left alone that would be
 * for nothing. */
void whook_start_tries(struct whook *w, uint64_t now_ns)
{
	size_t n = count(&w->tries);
	struct heap_node *first;

	while ((first = heap_min(&w->tries_due)) != NULL) {
		struct wtry *t = container_of(first, struct wtry, due);

		if (first->key > now_ns) {
			whook_look_at(w, first->key);
			return;
		}
		if (n >= w->m.concurrency || !may_call(w, now_ns))
			return;
		heap_remove(&w->tries_due, first);
		t->call = wcall_new(w, t->seq, t->tries + 1);
		t->call->is_try = true;
		list_push_back(&w->tries, &t->call->node);
		wcall_ask_event(t->call);
		n++;
	}
}
