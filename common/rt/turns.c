/* See rt/turns.h. */
#include "rt/turns.h"

#include <stdlib.h>

#include "util/clock.h"
#include "util/fiber.h"
#include "util/list.h"
#include "util/turn.h"

#define TURN_NS  (NS_PER_MS / 4) /* how long others wait for a turn */
#define AGAIN_NS NS_PER_MS       /* until there may be memory for a stack */

struct turn_work {
	struct list node;  /* of waiting or running */
	struct runner *on; /* NULL: it has not begun */
	bool is_over;      /* see util/turn.h */
	const struct turn_ops *ops;
	void *ctx;
};

struct runner {
	struct list idle; /* of turns */
	struct fiber *fiber;
	uint64_t until_ns; /* of its turn */
	bool ends_now;     /* it waits for no more turns */
	struct turn_work *work;
};

struct turns {
	struct loop_timer *timer;
	struct list waiting, running, idle;
	struct runner *runners;
	size_t n, started; /* runners, and those with a stack */
};

/* --- of the work --- */

static void look(void *ctx)
{
	struct runner *r = ctx;

	if (!r->ends_now && clock_mono_ns() >= r->until_ns)
		fiber_stop(r->fiber);
}

static void work(void *ctx)
{
	struct runner *r = ctx;

	turn_take_by(look, &r->work->is_over, r);
	r->work->ops->work(r->work->ctx);
}

/* --- of the loop --- */

/* False: it has ended. */
static bool give_turn(struct runner *r)
{
	r->until_ns = clock_mono_ns() + TURN_NS;
	return fiber_go(r->fiber);
}

/* NULL: all are at work, or there is no memory to be had. */
static struct runner *start_runner(struct turns *t)
{
	struct runner *r = &t->runners[t->started];

	if (t->started == t->n)
		return NULL;
	r->fiber = fiber_new();
	if (r->fiber == NULL)
		return NULL;
	list_init(&r->idle);
	t->started++;
	return r;
}

static struct runner *find_runner(struct turns *t)
{
	struct runner *r;

	if (list_empty(&t->idle))
		return start_runner(t);
	r = list_entry(t->idle.next, struct runner, idle);
	list_remove(&r->idle);
	return r;
}

static void begin_waiting(struct turns *t)
{
	while (!list_empty(&t->waiting)) {
		struct turn_work *w =
		    list_entry(t->waiting.next, struct turn_work, node);
		struct runner *r = find_runner(t);

		if (r == NULL)
			return;
		w->on = r;
		r->work = w;
		r->ends_now = false;
		fiber_set(r->fiber, work, r);
		list_remove(&w->node);
		list_push_back(&t->running, &w->node);
	}
}

static void forget(struct turns *t, struct turn_work *w)
{
	if (w->on != NULL)
		list_push_back(&t->idle, &w->on->idle);
	list_remove(&w->node);
	free(w);
}

static bool has_work(const struct turns *t)
{
	return !list_empty(&t->running) || !list_empty(&t->waiting);
}

static void on_turn(void *ctx)
{
	struct turns *t = ctx;
	struct turn_work *w;

	begin_waiting(t);
	if (!list_empty(&t->running)) {
		w = list_entry(t->running.next, struct turn_work, node);
		list_remove(&w->node);
		list_push_back(&t->running, &w->node);
		if (!give_turn(w->on)) {
			loop_fn *done = w->ops->done;
			void *of = w->ctx;

			forget(t, w);
			done(of);
		}
	}
	if (has_work(t))
		loop_timer_arm(t->timer,
			       list_empty(&t->running) ? AGAIN_NS : 0);
}

struct turn_work *turns_add(struct turns *t, const struct turn_ops *ops,
			    void *ctx)
{
	struct turn_work *w = xcalloc(1, sizeof(*w));

	w->ops = ops;
	w->ctx = ctx;
	list_push_back(&t->waiting, &w->node);
	loop_timer_arm(t->timer, 0);
	return w;
}

void turns_hurry(struct turn_work *w)
{
	w->is_over = true;
}

void turns_drop(struct turns *t, struct turn_work *w)
{
	w->is_over = true;
	if (w->on != NULL) {
		w->on->ends_now = true;
		while (give_turn(w->on)) {
		}
	}
	forget(t, w);
}

static void tell_time_is_up(struct list *works)
{
	LIST_FOREACH_SAFE (it, works) {
		struct turn_work *w = list_entry(it, struct turn_work, node);

		w->ops->time_is_up(w->ctx);
	}
}

void turns_time_is_up(struct turns *t)
{
	tell_time_is_up(&t->running);
	tell_time_is_up(&t->waiting);
}

struct turns *turns_new(struct loop *l, size_t at_a_time)
{
	struct turns *t = xcalloc(1, sizeof(*t));

	t->timer = loop_timer_add(l, on_turn, t);
	t->runners = xcalloc(at_a_time, sizeof(*t->runners));
	t->n = at_a_time;
	list_init(&t->waiting);
	list_init(&t->running);
	list_init(&t->idle);
	return t;
}

void turns_free(struct turns *t)
{
	if (t == NULL)
		return;
	CHECK(!has_work(t));
	for (size_t i = 0; i < t->started; i++)
		fiber_free(t->runners[i].fiber);
	loop_timer_remove(t->timer);
	free(t->runners);
	free(t);
}
