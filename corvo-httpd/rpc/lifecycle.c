/*
 * The stream. See rpc/lifecycle.h.
 *
 * Who sends more than may be, or wrongly, is slowed down before he is refused:
 * frames beyond a rate wait, frames of all streams beyond a number wait, and
 * each error makes the next frame wait longer.
 */
#include "rpc/lifecycle.h"

#include <stdlib.h>

#include "proto/job.h"
#include "req/give_back.h"
#include "req/guarded.h"
#include "util/clock.h"

/* Frames that came late may catch up by so much. */
#define BURST_NS      (100 * NS_PER_MS)
#define STRIKE_NS     (5 * NS_PER_MS)
#define STRIKE_MAX_NS (500 * NS_PER_MS)

static const struct settings *set_of(const struct lifecycle *l)
{
	return l->h->set;
}

/* --- when the next frame may be read --- */

/* As many streams as there is room for look whether they may go on. */
static void offer_room(struct lifecycles *all)
{
	size_t max = all->h->set->stream_max_inflight;
	size_t n = max - MIN(max, all->h->calls.inflight);

	for (; n > 0 && !list_empty(&all->held); n--) {
		struct lifecycle *l =
		    list_entry(all->held.next, struct lifecycle, held);

		list_remove(&l->held);
		flow_go(l->flow);
	}
}

/* What a few bytes ask for can be large, and much of it comes in one turn. One
 * that only waits for jobs is no reason: it may wait for long. */
static bool is_crowded(const struct lifecycle *l)
{
	return flow_is_crowded(l->flow) &&
	       (!list_empty(&l->frames) || !list_empty(&l->ready));
}

static bool must_wait(struct lifecycle *l)
{
	uint64_t now;

	if (l->is_stopping || l->frames_n >= LIFECYCLE_FRAMES ||
	    l->kept >= LIFECYCLE_KEPT_BYTES || is_crowded(l) ||
	    flow_room(l->flow) == 0)
		return true;
	if (l->next_ns == 0)
		return false;
	now = clock_mono_ns();
	if (l->next_ns <= now)
		return false;
	loop_timer_arm(l->timer, l->next_ns - now);
	return true;
}

static bool is_ready(void *ctx)
{
	struct lifecycle *l = ctx;

	list_remove(&l->held);
	if (must_wait(l)) {
		offer_room(l->all); /* it may have been offered some */
		return false;
	}
	if (l->h->calls.inflight < set_of(l)->stream_max_inflight)
		return true;
	list_push_back(&l->all->held, &l->held);
	return false;
}

static void on_timer(void *ctx)
{
	struct lifecycle *l = ctx;

	flow_go(l->flow);
}

void lifecycles_release(struct lifecycles *all)
{
	CHECK(all->h->calls.inflight > 0);
	all->h->calls.inflight--;
	offer_room(all);
}

static void pace(struct lifecycle *l)
{
	uint64_t fps = set_of(l)->stream_max_fps, now;

	if (fps == 0)
		return;
	now = clock_mono_ns();
	if (l->next_ns + BURST_NS < now)
		l->next_ns = now - BURST_NS;
	l->next_ns += NS_PER_S / fps;
}

void lifecycle_judge(struct lifecycle *l, bool is_wrong)
{
	uint64_t delay;

	if (!is_wrong) {
		l->strikes = 0;
		return;
	}
	l->strikes++;
	delay = MIN(l->strikes * STRIKE_NS, STRIKE_MAX_NS);
	l->next_ns = MAX(l->next_ns, clock_mono_ns() + delay);
}

/* --- frames --- */

void lifecycle_add(struct lifecycle *l, struct list *frame)
{
	list_push_back(&l->frames, frame);
	l->frames_n++;
	l->h->calls.frames++;
	l->h->calls.inflight++;
}

/* Until the kernel has it: it would be lost with the connection. */
void lifecycle_note_job(struct lifecycle *l, const struct m_fetched *job)
{
	struct life_job *j;

	if (l->unsent_n == l->unsent_cap) {
		l->unsent_cap = MAX(2 * l->unsent_cap, (size_t)16);
		l->unsent =
		    xrealloc(l->unsent, l->unsent_cap * sizeof(*l->unsent));
	}
	j = &l->unsent[l->unsent_n++];
	*j = (struct life_job){ .back = fetched_give_back(job) };
	j->back.job_id.p = xstrndup(job->job_id.p, job->job_id.n);
}

static void forget_job(struct life_job *j)
{
	free((char *)(uintptr_t)j->back.job_id.p);
}

/* All that was written has been taken. */
static void note_taken(struct lifecycle *l)
{
	const struct exchange *x = &l->r->x;
	size_t n = 0;

	for (size_t i = 0; i < l->unsent_n; i++) {
		struct life_job *j = &l->unsent[i];

		if (j->place == 0)
			j->place = exchange_place(x);
		if (exchange_is_past(x, j->place))
			forget_job(j);
		else
			l->unsent[n++] = *j;
	}
	l->unsent_n = n;
}

/* After a good end all has left. */
static void give_unsent_back(struct lifecycle *l)
{
	const struct exchange *x = &l->r->x;

	for (size_t i = 0; i < l->unsent_n; i++) {
		struct life_job *j = &l->unsent[i];

		if (!x->sent &&
		    (j->place == 0 || !exchange_is_past(x, j->place)))
			give_back_job(l->h, &j->back);
		forget_job(j);
	}
	free(l->unsent);
}

static void end_if_over(struct lifecycle *l)
{
	uint64_t max = set_of(l)->stream_max_errors;

	if (max != 0 && l->strikes >= max)
		flow_end(l->flow, ERR_VALIDATION_ERROR,
			 STR("too many frames in a row had errors; the stream "
			     "is closed"));
	else if (l->has_ended && l->frames_n == 0)
		flow_end(l->flow, 0, STR_NULL);
	else if (l->is_stopping && l->frames_n == 0)
		flow_end(l->flow, ERR_SHUTTING_DOWN, STR_NULL);
}

void lifecycle_count(struct lifecycle *l)
{
	flow_keeps(l->flow, l->kept + l->asking);
}

static void send_frame(struct lifecycle *l, struct life_frame *f)
{
	life_frame_send(f);
	life_frame_free(f);
	l->frames_n--;
}

/* As many as are done, and there is room for. */
static void send_done(struct lifecycle *l, struct list *frames)
{
	while (!list_empty(frames) && !flow_is_ending(l->flow) &&
	       flow_room(l->flow) > 0) {
		struct life_frame *f = life_frame_of(frames->next);

		if (!life_frame_is_done(f))
			return;
		send_frame(l, f);
	}
}

/* It may have something to send, to read, or be over. */
static void look(_unused_ struct req *r, void *arg)
{
	struct lifecycle *l = arg;

	list_remove(&l->look);
	send_done(l, &l->ready);
	send_done(l, &l->frames);
	end_if_over(l);
	if (!l->is_stopping)
		flow_go(l->flow);
	lifecycle_count(l);
}

void lifecycle_wait(struct lifecycle *l, struct list *frame)
{
	list_remove(frame);
	list_push_back(&l->waiting, frame);
}

/* A turn has many of them; they leave together. */
void lifecycle_done(struct lifecycle *l, struct list *frame, bool waited)
{
	if (waited) {
		list_remove(frame);
		list_push_back(&l->ready, frame);
	}
	if (list_empty(&l->look))
		list_push_back(&l->all->looks, &l->look);
}

void lifecycles_turn(struct lifecycles *all)
{
	life_gather_send(all);
	while (!list_empty(&all->looks)) {
		struct lifecycle *l =
		    list_entry(all->looks.next, struct lifecycle, look);

		req_guarded(l->r, look, l);
	}
}

/* --- the flow --- */

#define TOO_MANY "too many open lifecycle streams"

static bool is_full(struct httpd *h)
{
	if (h->calls.open < h->set->stream_max_open)
		return false;
	h->calls.overloads++;
	return true;
}

/* One that is only a head is no open stream: whoever has but heads to send
 * keeps nobody out. */
static void on_begun(void *ctx)
{
	struct lifecycle *l = ctx;

	if (is_full(l->h)) {
		flow_end(l->flow, ERR_OVERLOADED, STR(TOO_MANY));
		return;
	}
	l->is_counted = true;
	l->h->calls.open++;
	l->h->calls.streams++;
}

static void on_message(void *ctx, struct str bytes)
{
	struct lifecycle *l = ctx;

	pace(l);
	life_frame_begin(l, bytes);
}

static void on_ended(void *ctx)
{
	struct lifecycle *l = ctx;

	l->has_ended = true;
	end_if_over(l);
}

static void on_room(void *ctx)
{
	struct lifecycle *l = ctx;

	note_taken(l);
	look(l->r, l);
}

/* What was asked for is answered, as far as it need not wait. */
static void on_stop(void *ctx)
{
	struct lifecycle *l = ctx;

	l->is_stopping = true;
	flow_pause(l->flow);
	list_remove(&l->held);
	LIST_FOREACH_SAFE (it, &l->frames)
		life_frame_hurry(life_frame_of(it));
	LIST_FOREACH_SAFE (it, &l->waiting)
		life_frame_hurry(life_frame_of(it));
	look(l->r, l);
}

static void abandon(struct list *frames)
{
	LIST_FOREACH_SAFE (it, frames) {
		life_frame_abandon(life_frame_of(it));
		life_frame_free(life_frame_of(it));
	}
}

static void on_closed(void *ctx)
{
	struct lifecycle *l = ctx;

	l->is_stopping = true;
	list_remove(&l->held);
	list_remove(&l->look);
	abandon(&l->frames);
	abandon(&l->waiting);
	abandon(&l->ready);
	give_unsent_back(l);
	pushed_remove_all(l);
	loop_timer_remove(l->timer);
	if (l->is_counted)
		l->h->calls.open--;
	offer_room(l->all);
}

static const struct flow_ops flow_ops = {
	.begun = on_begun,
	.ready = is_ready,
	.message = on_message,
	.ended = on_ended,
	.room = on_room,
	.stop = on_stop,
	.closed = on_closed,
};

void serve_lifecycle(struct req *r)
{
	struct lifecycles *all = r->h->lifecycles;
	struct lifecycle *l;
	const char *redirect = req_header(r, HEAD_CORVO_REDIRECT);

	if (is_full(r->h)) {
		req_fail(r, ERR_OVERLOADED, TOO_MANY);
		return;
	}
	l = arena_zalloc(&r->arena, sizeof(*l));
	l->all = all;
	l->h = r->h;
	l->r = r;
	l->redirects = redirect != NULL && strcmp(redirect, "1") == 0;
	list_init(&l->held);
	list_init(&l->look);
	list_init(&l->frames);
	list_init(&l->waiting);
	list_init(&l->ready);
	list_init(&l->jobs);
	l->timer = loop_timer_add(r->h->d->loop, on_timer, l);
	l->flow = flow_begin(r, &flow_ops, l, false);
}

struct lifecycles *lifecycles_new(struct httpd *h)
{
	struct lifecycles *all = xcalloc(1, sizeof(*all));

	all->h = h;
	list_init(&all->held);
	list_init(&all->looks);
	all->pushed = pushed_new(h);
	return all;
}

void lifecycles_free(struct lifecycles *all)
{
	if (all == NULL)
		return;
	CHECK(all->h->calls.open == 0);
	for (size_t i = 0; i < GATHER_KINDS; i++)
		CHECK(all->gathers[i] == NULL);
	pushed_free(all->pushed);
	free(all);
}
