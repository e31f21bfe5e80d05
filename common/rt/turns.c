/*
 * See rt/turns.h. Who may run is handed to and fro like a baton: a mutex and a
 * condition for each thread, and the loop waits while one of them has it.
 */
#include "rt/turns.h"

#include <pthread.h>
#include <stdlib.h>

#include "util/clock.h"
#include "util/list.h"
#include "util/turn.h"

#define TURN_NS (NS_PER_MS / 2) /* how long others wait for a turn */

struct turn_work {
	struct list node;  /* of waiting or running */
	struct runner *on; /* NULL: it has not begun */
	bool is_over;      /* see util/turn.h */
	loop_fn *work;
	loop_fn *done;
	void *ctx;
};

struct runner {
	struct list idle; /* of turns */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t change;
	bool runs; /* it has the baton; under lock */
	bool stop;
	uint64_t until_ns;      /* of its turn */
	bool ends_now;          /* it waits for no more turns */
	struct turn_work *work; /* NULL: it has ended */
};

struct turns {
	struct loop_timer *timer;
	struct list waiting, running, idle;
	struct runner *runners;
	size_t n, started; /* runners, and those with a thread */
};

/* --- on the threads --- */

/* Under lock. */
static void wait_for_turn(struct runner *r)
{
	while (!r->runs)
		pthread_cond_wait(&r->change, &r->lock);
}

static void give_back(struct runner *r)
{
	r->runs = false;
	pthread_cond_signal(&r->change);
}

static void look(void *ctx)
{
	struct runner *r = ctx;

	if (r->ends_now || clock_mono_ns() < r->until_ns)
		return;
	pthread_mutex_lock(&r->lock);
	give_back(r);
	wait_for_turn(r);
	pthread_mutex_unlock(&r->lock);
}

static void *run(void *ctx)
{
	struct runner *r = ctx;

	pthread_mutex_lock(&r->lock);
	for (;;) {
		wait_for_turn(r);
		if (r->stop)
			break;
		pthread_mutex_unlock(&r->lock);
		turn_take_by(look, &r->work->is_over, r);
		r->work->work(r->work->ctx);
		pthread_mutex_lock(&r->lock);
		r->work = NULL;
		give_back(r);
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

/* --- on the loop --- */

static void give_turn(struct runner *r)
{
	pthread_mutex_lock(&r->lock);
	r->until_ns = clock_mono_ns() + TURN_NS;
	r->runs = true;
	pthread_cond_signal(&r->change);
	while (r->runs)
		pthread_cond_wait(&r->change, &r->lock);
	pthread_mutex_unlock(&r->lock);
}

static struct runner *start_runner(struct turns *t)
{
	struct runner *r = &t->runners[t->started];

	CHECK(pthread_mutex_init(&r->lock, NULL) == 0);
	CHECK(pthread_cond_init(&r->change, NULL) == 0);
	if (pthread_create(&r->thread, NULL, run, r) != 0) {
		pthread_cond_destroy(&r->change);
		pthread_mutex_destroy(&r->lock);
		return NULL;
	}
	(void)pthread_setname_np(r->thread, "turns");
	list_init(&r->idle);
	t->started++;
	return r;
}

/* NULL: all are at work, or there is no thread to be had. */
static struct runner *find_runner(struct turns *t)
{
	struct runner *r;

	if (list_empty(&t->idle))
		return t->started < t->n ? start_runner(t) : NULL;
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
		give_turn(w->on);
		if (w->on->work == NULL) {
			loop_fn *done = w->done;
			void *of = w->ctx;

			forget(t, w);
			done(of);
		}
	}
	if (has_work(t)) /* a moment where there is no thread for it */
		loop_timer_arm(t->timer, list_empty(&t->running) ? TURN_NS : 0);
}

struct turn_work *turns_add(struct turns *t, loop_fn *work, loop_fn *done,
			    void *ctx)
{
	struct turn_work *w = xcalloc(1, sizeof(*w));

	w->work = work;
	w->done = done;
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
		while (w->on->work != NULL)
			give_turn(w->on);
	}
	forget(t, w);
}

struct turns *turns_new(struct loop *l, size_t threads)
{
	struct turns *t = xcalloc(1, sizeof(*t));

	t->timer = loop_timer_add(l, on_turn, t);
	t->runners = xcalloc(threads, sizeof(*t->runners));
	t->n = threads;
	list_init(&t->waiting);
	list_init(&t->running);
	list_init(&t->idle);
	return t;
}

static void stop_runner(struct runner *r)
{
	pthread_mutex_lock(&r->lock);
	r->stop = r->runs = true;
	pthread_cond_signal(&r->change);
	pthread_mutex_unlock(&r->lock);
	pthread_join(r->thread, NULL);
	pthread_cond_destroy(&r->change);
	pthread_mutex_destroy(&r->lock);
}

void turns_free(struct turns *t)
{
	if (t == NULL)
		return;
	CHECK(!has_work(t));
	for (size_t i = 0; i < t->started; i++)
		stop_runner(&t->runners[i]);
	loop_timer_remove(t->timer);
	free(t->runners);
	free(t);
}
