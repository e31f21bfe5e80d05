#include "strangers.h"

#include <stdlib.h>

#include "keeper.h"
#include "util/clock.h"
#include "whole.h"
#include "wild.h"

#define BETWEEN_MAX_NS (300 * NS_PER_MS)
#define WAIT_MAX_NS    (5 * NS_PER_S)
#define HASTE_NS       (30 * NS_PER_MS) /* the deadline of some */
#define PATIENCE_NS    (200 * NS_PER_MS)
#define LEAVING        16 /* requests that may be withdrawn at a time */

/* A request whose client may go away. */
struct leaving {
	struct strangers *x;
	struct ask *ask; /* NULL: none */
	struct sim_event when;
};

struct strangers {
	struct whole *w;
	struct wild *wild;
	struct sim_event next;
	struct leaving leaving[LEAVING];
};

/* --- clients that go away --- */

static void on_leave(void *ctx)
{
	struct leaving *l = ctx;

	desk_withdraw(l->ask);
	l->ask = NULL;
}

static void on_reply(void *ctx, const struct rpc_reply *r)
{
	struct leaving *l = ctx;

	(void)r;
	sim_forget(l->x->w->sim, &l->when);
	l->ask = NULL;
}

static struct leaving *some_place(struct strangers *x)
{
	for (size_t i = 0; i < LEAVING; i++)
		if (x->leaving[i].ask == NULL)
			return &x->leaving[i];
	return NULL;
}

static void ask(struct strangers *x, struct desk *d, unsigned op,
		struct str body)
{
	struct sim *s = x->w->sim;
	uint64_t wait =
	    sim_chance(s, 10) ? sim_below(s, HASTE_NS) : WAIT_MAX_NS;
	struct leaving *l = sim_chance(s, 8) ? some_place(x) : NULL;
	struct ask *a = desk_ask(d, op, body, clock_mono_ns() + wait,
				 l != NULL ? on_reply : NULL, l);

	if (l == NULL)
		return;
	l->x = x;
	l->ask = a;
	sim_after(s, &l->when, NULL, sim_skewed(s, 0, PATIENCE_NS), on_leave,
		  l);
}

/* --- requests --- */

static void one(struct strangers *x)
{
	struct whole *w = x->w;
	struct machine *m = &w->machine[sim_below(w->sim, w->plan.machines)];
	struct buf b = BUF_INIT(0);
	unsigned op;

	if (wild_next(x->wild, witness_fx(w->witness), &op, &b)) {
		w->tally.wild++;
		sim_note(w->sim, op_info(op)->name, m->host.number, b.n,
			 wild_jobs(x->wild), 0, 0);
		if (op_info(op)->who & OP_SERVER)
			keeper_ask(m->keeper, op, buf_str(&b));
		else
			ask(x, m->desk, op, buf_str(&b));
	}
	buf_done(&b);
}

static void on_next(void *ctx)
{
	struct strangers *x = ctx;
	struct sim *s = x->w->sim;
	uint64_t n = sim_skewed(s, 1, 6);

	for (uint64_t i = 0; i < n; i++)
		one(x);
	sim_after(s, &x->next, NULL, sim_skewed(s, NS_PER_MS, BETWEEN_MAX_NS),
		  on_next, x);
}

struct strangers *strangers_new(struct whole *w)
{
	struct strangers *x = xcalloc(1, sizeof(*x));

	x->w = w;
	x->wild = wild_new(rng_u64(&w->sim->rng));
	if (!(w->plan.cut.without & WHOLE_STRANGERS))
		sim_after(w->sim, &x->next, NULL, NS_PER_S, on_next, x);
	return x;
}

void strangers_calm(struct strangers *x)
{
	sim_forget(x->w->sim, &x->next);
}

void strangers_free(struct strangers *x)
{
	struct sim *s;

	if (x == NULL)
		return;
	s = x->w->sim;
	sim_forget(s, &x->next);
	for (size_t i = 0; i < LEAVING; i++)
		sim_forget(s, &x->leaving[i].when);
	wild_free(x->wild);
	free(x);
}
