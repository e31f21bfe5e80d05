/*
 * Whole lifecycles: producers and workers beside each other. See load.h.
 */
#include <stdlib.h>

#include "load/run.h"
#include "util/clock.h"

#define TICK_NS      NS_PER_MS
#define BURST_GAP_NS NS_PER_S

/* --- which of them may begin --- */

static bool may_begin(const struct run *r)
{
	/* others may have left jobs: more can be done than were sent */
	return !r->closing && r->sent < r->acked + r->lives->backlog &&
	       r->sent < r->count && r->sent < r->allowed;
}

static void produce(struct conn *c);

/* Producers that had to wait go on, in turns. */
static void wake_producers(struct run *r)
{
	unsigned all = r->lives->producers;

	for (unsigned i = 0; i < all && may_begin(r); i++) {
		struct conn *c = r->l->cl->conns[r->turn++ % all];
		struct lane *lane = c->own;

		if (!lane->waits)
			continue;
		lane->waits = false;
		produce(c);
	}
}

/* The next burst, when the last one is done and its second is over. */
static void allow_burst(struct run *r, uint64_t now_ns)
{
	if (r->acked < r->allowed || now_ns < r->burst_ns + BURST_GAP_NS)
		return;
	r->burst_ns = now_ns;
	r->allowed += r->lives->burst;
}

static void allow_more(struct run *r)
{
	uint64_t now_ns = clock_mono_ns();

	if (r->lives->burst > 0)
		allow_burst(r, now_ns);
	else
		r->allowed = (uint64_t)((double)(now_ns - r->start_ns) / 1e9 *
					r->lives->rate);
}

static void on_tick(struct client *cl)
{
	struct run *r = ((struct load *)cl->ctx)->run;

	cl->tick_ns = clock_mono_ns() + TICK_NS;
	allow_more(r);
	wake_producers(r);
}

/*
 * Nothing will be begun, and no producer waits for an answer: what is there is
 * all there is. A fetch that is sent from now on and finds nothing is the last.
 */
static void note_over(struct run *r)
{
	if (r->over_ns != 0 || (!r->closing && r->sent < r->count))
		return;
	for (unsigned i = 0; i < r->lives->producers; i++)
		if (r->l->cl->conns[i]->on_answer != NULL)
			return;
	r->over_ns = clock_mono_ns();
}

static bool is_worked_off(const struct run *r)
{
	const struct ledger *g = r->l->ledger;

	return r->over_ns != 0 && (g == NULL || g->done >= g->known);
}

static void count_acked(struct run *r, unsigned n)
{
	r->acked += n;
	run_count(r, n);
	if (r->lives->burst > 0 && r->acked == r->allowed)
		run_time(r, &r->ret->burst, clock_mono_ns() - r->burst_ns);
	if (r->acked >= r->count || (r->closing && is_worked_off(r)))
		r->l->cl->stop = true;
}

/* --- producers --- */

static void on_produced(struct conn *c, const struct answer *a);

static void produce(struct conn *c)
{
	struct run *r = run_of(c);
	struct lane *lane = c->own;
	struct ledger *g = r->l->ledger;

	lane->waits = !may_begin(r);
	if (lane->waits)
		return;
	lane->n = (unsigned)MIN(r->count - r->sent, (uint64_t)r->batch);
	if (r->lives->burst > 0)
		lane->n =
		    (unsigned)MIN(r->allowed - r->sent, (uint64_t)lane->n);
	r->sent += lane->n;
	if (g != NULL)
		lane->number = ledger_new(g, lane->n);
	run_send_jobs(c, on_produced);
}

static void on_produced(struct conn *c, const struct answer *a)
{
	struct run *r = run_of(c);

	if (run_jobs_known(c, a)) {
		produce(c);
	} else if (!r->closing && !client_has_failed(c->cl)) {
		run_send_jobs(c, on_produced); /* the same again */
		return;
	}
	note_over(r);
	if (r->closing && is_worked_off(r))
		c->cl->stop = true;
}

/* --- workers --- */

static void on_fetched(struct conn *c, const struct answer *a);

static void fetch(struct conn *c)
{
	struct run *r = run_of(c);

	send_fetch(c, r->l->kind, r->batch, r->batched, r->wait_s, on_fetched);
}

static void on_acked(struct conn *c, const struct answer *a)
{
	struct run *r = run_of(c);
	struct lane *lane = c->own;

	if (!run_jobs_acked(c, a, lane->held, lane->n)) {
		if (!client_has_failed(c->cl))
			send_ack(c, r->l->kind, lane->held, lane->n, r->batched,
				 on_acked);
		return;
	}
	count_acked(r, lane->n);
	fetch(c);
	wake_producers(r);
}

static void on_fetched(struct conn *c, const struct answer *a)
{
	struct run *r = run_of(c);
	struct lane *lane = c->own;

	lane->n = run_jobs_taken(c, a, lane->held, r->batch);
	if (client_has_failed(c->cl))
		return;
	if (lane->n > 0)
		send_ack(c, r->l->kind, lane->held, lane->n, r->batched,
			 on_acked);
	else if (r->over_ns == 0 || c->sent_ns < r->over_ns || is_refused(a))
		fetch(c);
	else if (c->cl->busy == 0)
		c->cl->stop = true; /* nobody finds any: the rest is lost */
}

/* --- the run --- */

static void start(struct run *r)
{
	struct client *cl = r->l->cl;
	const struct load_lives *s = r->lives;

	if (s->rate > 0 || s->burst > 0) {
		r->allowed = 0;
		cl->on_tick = on_tick;
		cl->tick_ns = r->start_ns;
	}
	for (unsigned i = 0; i < s->workers; i++) {
		struct conn *c = cl->conns[s->producers + i];

		((struct lane *)c->own)->held =
		    xcalloc(r->batch, sizeof(struct held));
		fetch(c);
	}
	for (unsigned i = 0; i < s->producers; i++)
		produce(cl->conns[i]);
}

void load_lives(struct load *l, const struct load_lives *s)
{
	struct run r = { .wait_s = s->wait_s,
			 .ret = s->ret,
			 .lives = s,
			 .allowed = UINT64_MAX };
	unsigned connections = s->producers + s->workers;
	uint64_t count = s->count > 0 ? s->count : UINT64_MAX;

	CHECK(s->producers > 0 && s->workers > 0 && s->ret != NULL);
	if (l->ledger != NULL)
		count = MIN(count, LEDGER_JOBS_MAX - l->ledger->n);
	if (run_begin(&r, l, connections, s->batch, count)) {
		start(&r);
		client_run(l->cl, s->time_ns > 0 ? r.start_ns + s->time_ns : 0);
		s->ret->took_ns = clock_mono_ns() - r.start_ns;
		l->cl->tick_ns = 0;
		r.closing = true;
		note_over(&r);
		if (l->ledger != NULL && l->cl->busy > 0 && !is_worked_off(&r))
			client_run(l->cl, 0);
		for (unsigned i = 0; i < connections; i++)
			free(r.lanes[i].held);
		client_hang_up(l->cl);
	}
	run_end(&r);
}
