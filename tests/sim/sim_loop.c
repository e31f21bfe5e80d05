/*
 * rt/loop.h in a world: timers and work only, since nothing here has a
 * descriptor.
 */
#include <stdlib.h>

#include "sim.h"

#define WORK_MAX_NS (30 * NS_PER_MS)

struct loop_timer {
	struct sim_event event;
	struct loop *loop;
	loop_fn *fn;
	void *ctx;
};

struct work {
	struct sim_event event;
	loop_fn *work, *done;
	void *ctx;
};

struct loop_timer *loop_timer_add(struct loop *l, loop_fn *fn, void *ctx)
{
	struct loop_timer *t = xcalloc(1, sizeof(*t));

	t->loop = l;
	t->fn = fn;
	t->ctx = ctx;
	return t;
}

void loop_timer_disarm(struct loop_timer *t)
{
	sim_forget(t->loop->sim, &t->event);
}

void loop_timer_arm(struct loop_timer *t, uint64_t after_ns)
{
	loop_timer_disarm(t);
	sim_after(t->loop->sim, &t->event, t->loop, after_ns, t->fn, t->ctx);
}

void loop_timer_remove(struct loop_timer *t)
{
	loop_timer_disarm(t);
	free(t);
}

void loop_on_turn_end(struct loop *l, loop_fn *fn, void *ctx)
{
	l->turn_end = fn;
	l->turn_ctx = ctx;
}

static void on_work(void *ctx)
{
	struct work *w = ctx;

	w->work(w->ctx);
	w->done(w->ctx);
	free(w);
}

void loop_work(struct loop *l, loop_fn *work, loop_fn *done, void *ctx)
{
	struct work *w = xcalloc(1, sizeof(*w));

	w->work = work;
	w->done = done;
	w->ctx = ctx;
	sim_after(l->sim, &w->event, l, sim_skewed(l->sim, 0, WORK_MAX_NS),
		  on_work, w);
}

static struct sim_event *work_of(const struct loop *l)
{
	const struct heap *events = &l->sim->events;

	for (size_t i = 0; i < events->n; i++) {
		struct sim_event *e =
		    container_of(events->nodes[i], struct sim_event, at);

		if (e->loop == l && e->fn == on_work)
			return e;
	}
	return NULL;
}

void sim_work_end(struct loop *l, bool is_crash)
{
	struct sim_event *e;

	while ((e = work_of(l)) != NULL) {
		struct work *w = e->ctx;

		sim_forget(l->sim, e);
		if (!is_crash)
			w->work(w->ctx);
		w->done(w->ctx);
		free(w);
	}
}

/* A turn takes no time here. */
void loop_turns(const struct loop *l, struct hist *ret)
{
	(void)l;
	*ret = (struct hist){ 0 };
}

void loop_turns_work(const struct loop *l, struct hist *ret)
{
	loop_turns(l, ret);
}

uint64_t loop_turn(const struct loop *l)
{
	return l->turn;
}
