/*
 * One step for all jobs: enqueue, fetch or ack. See load.h.
 */
#include "load/load.h"

#include <stdlib.h>

#include "load/run.h"
#include "util/clock.h"

void load_done(struct load *l)
{
	free(l->held);
	l->held = NULL;
	l->held_n = l->held_cap = 0;
}

/* A connection has nothing more to do; the last one ends the run. */
static void rest(struct conn *c)
{
	if (c->cl->busy == 0)
		c->cl->stop = true;
}

/*
 * Each connection goes on by itself once `next` was called for it. Returns how
 * many jobs were begun.
 */
static uint64_t run_step(struct load *l, const struct load_step *s,
			 uint64_t count, void (*next)(struct conn *c))
{
	struct run r = { .wait_s = s->wait_s, .ret = s->ret };

	if (run_begin(&r, l, s->connections, s->batch, count)) {
		for (unsigned i = 0; i < s->connections; i++)
			next(l->cl->conns[i]);
		if (l->cl->busy > 0)
			client_run(l->cl, s->time_ns > 0
					      ? r.start_ns + s->time_ns
					      : 0);
		if (s->ret != NULL)
			s->ret->took_ns = clock_mono_ns() - r.start_ns;
		r.closing = true;
		if (l->cl->busy > 0)
			client_run(l->cl, 0);
	}
	run_end(&r);
	return r.begun;
}

/*
 * The jobs of the next request: the lane's n, from its number on. False: none
 * is left.
 */
static bool take_turn(struct conn *c)
{
	struct run *r = run_of(c);
	struct lane *lane = c->own;
	uint64_t left = r->closing ? 0 : r->count - r->begun;

	lane->number = r->begun;
	lane->n = (unsigned)MIN(left, (uint64_t)r->batch);
	r->begun += lane->n;
	if (lane->n == 0)
		rest(c);
	return lane->n > 0;
}

/* --- enqueue --- */

static void on_enqueued(struct conn *c, const struct answer *a);

static void enqueue_next(struct conn *c)
{
	struct run *r = run_of(c);
	struct lane *lane = c->own;

	if (!take_turn(c))
		return;
	if (r->l->ledger != NULL)
		lane->number = ledger_new(r->l->ledger, lane->n);
	run_send_jobs(c, on_enqueued);
}

static void on_enqueued(struct conn *c, const struct answer *a)
{
	struct run *r = run_of(c);
	const struct lane *lane = c->own;

	if (run_jobs_known(c, a)) {
		run_count(r, lane->n);
		enqueue_next(c);
	} else if (!r->closing && !client_has_failed(c->cl)) {
		run_send_jobs(c, on_enqueued); /* the same again */
	} else {
		rest(c);
	}
}

void load_enqueue(struct load *l, const struct load_step *s)
{
	uint64_t count = s->count > 0 ? s->count : UINT64_MAX;

	if (l->ledger != NULL)
		count = MIN(count, LEDGER_JOBS_MAX - l->ledger->n);
	(void)run_step(l, s, count, enqueue_next);
}

/* --- fetch --- */

static struct held *room_for(struct load *l, unsigned n)
{
	if (l->held_n + n > l->held_cap) {
		l->held_cap = MAX(l->held_n + n, l->held_cap * 2);
		l->held = xrealloc(l->held, l->held_cap * sizeof(*l->held));
	}
	return l->held + l->held_n;
}

static void on_fetched(struct conn *c, const struct answer *a);

static void fetch_next(struct conn *c)
{
	const struct run *r = run_of(c);
	const struct lane *lane = c->own;

	if (take_turn(c))
		send_fetch(c, r->l->kind, lane->n, r->batched, r->wait_s,
			   on_fetched);
}

static void on_fetched(struct conn *c, const struct answer *a)
{
	struct run *r = run_of(c);
	struct load *l = r->l;
	const struct lane *lane = c->own;
	unsigned n = run_jobs_taken(c, a, room_for(l, lane->n), lane->n);

	l->held_n += n;
	r->begun -= lane->n - n;
	run_count(r, n);
	if (n > 0 || is_refused(a))
		fetch_next(c);
	else
		rest(c);
}

void load_fetch(struct load *l, const struct load_step *s)
{
	(void)run_step(l, s, s->count, fetch_next);
}

/* --- ack --- */

static void on_acked(struct conn *c, const struct answer *a);

static void send_lane(struct conn *c)
{
	const struct run *r = run_of(c);
	const struct lane *lane = c->own;

	send_ack(c, r->l->kind, r->l->held + lane->number, lane->n, r->batched,
		 on_acked);
}

static void ack_next(struct conn *c)
{
	if (take_turn(c))
		send_lane(c);
}

static void on_acked(struct conn *c, const struct answer *a)
{
	struct run *r = run_of(c);
	const struct lane *lane = c->own;

	if (run_jobs_acked(c, a, r->l->held + lane->number, lane->n)) {
		run_count(r, lane->n);
		ack_next(c);
	} else if (!client_has_failed(c->cl)) {
		send_lane(c);
	}
}

void load_ack(struct load *l, const struct load_step *s)
{
	uint64_t count = s->count > 0 ? MIN(s->count, l->held_n) : l->held_n;
	uint64_t begun;

	if (count == 0)
		return;
	begun = run_step(l, s, count, ack_next);
	l->held_n -= begun;
	memmove(l->held, l->held + begun, l->held_n * sizeof(*l->held));
}
