/*
 * What a process has around it, in a world: rt/daemon.h, rt/worker.h,
 * rt/room.h, and the thread of the write-behind store.
 */
#include <stdio.h>
#include <stdlib.h>

#include "machine.h"
#include "rt/room.h"
#include "rt/worker.h"
#include "store/kv_behind_impl.h"
#include "util/list.h"

#define TASK_MAX_NS (50 * NS_PER_MS)
#define PASS_MAX_NS (200 * NS_PER_MS)

/* --- daemon.h --- */

void daemon_ready(struct daemon *d)
{
	machine_of(d)->is_ready = true;
}

void daemon_exit(struct daemon *d, int status)
{
	machine_exits(machine_of(d), status);
}

void daemon_beat(void *ctx)
{
	machine_of(ctx)->silent_ns = 0;
}

/* An entry was applied, and time passes. */
static void applied(struct machine *m)
{
	m->host.sim->now_ns += m->apply_ns;
	m->silent_ns += m->apply_ns;
	m->silent_max_ns = MAX(m->silent_max_ns, m->silent_ns);
	m->apply_turn_ns += m->apply_ns;
	m->apply_max_ns = MAX(m->apply_max_ns, m->apply_turn_ns);
}

void daemon_doing(const char *what, uint64_t number)
{
	(void)number;
	if (what == NULL)
		applied(machine_of_loop(sim_here()));
}

void daemon_link_path(struct daemon *d, enum proc_id server,
		      enum proc_id client, unsigned number, struct buf *ret)
{
	buf_clear(ret);
	buf_printf(ret, "%u-%u-%u-%u", machine_of(d)->host.number, server,
		   client, number);
	buf_putc(ret, '\0');
	ret->n--;
}

/* --- worker.h --- */

struct task {
	struct list node;
	loop_fn *work, *done;
	void *ctx;
};

struct worker {
	struct loop *loop;
	struct list todo;
	struct sim_event next;
	bool ending;
};

static void do_first(struct worker *w)
{
	struct task *t = list_entry(w->todo.next, struct task, node);

	list_remove(&t->node);
	t->work(t->ctx);
	t->done(t->ctx);
	free(t);
}

static void on_next(void *ctx);

static void go_on(struct worker *w)
{
	struct sim *s = w->loop->sim;

	if (!list_empty(&w->todo) && !sim_is_due(&w->next))
		sim_after(s, &w->next, w->loop, sim_skewed(s, 0, TASK_MAX_NS),
			  on_next, w);
}

static void on_next(void *ctx)
{
	struct worker *w = ctx;

	do_first(w);
	go_on(w);
}

struct worker *worker_new(struct loop *l, const char *name, int nice)
{
	struct worker *w = xcalloc(1, sizeof(*w));

	(void)name;
	(void)nice;
	w->loop = l;
	list_init(&w->todo);
	return w;
}

void worker_run(struct worker *w, loop_fn *work, loop_fn *done, void *ctx)
{
	struct task *t = xcalloc(1, sizeof(*t));

	CHECK(!w->ending);
	t->work = work;
	t->done = done;
	t->ctx = ctx;
	list_push_back(&w->todo, &t->node);
	go_on(w);
}

bool worker_is_ending(const struct worker *w)
{
	return w->ending;
}

void worker_free(struct worker *w)
{
	if (w == NULL)
		return;
	w->ending = true;
	sim_forget(w->loop->sim, &w->next);
	while (!list_empty(&w->todo))
		do_first(w);
	free(w);
}

/* --- room.h --- */

enum room room_look(const struct settings *s, enum room before)
{
	(void)before;
	return machine_of_settings(s)->room;
}

uint64_t room_needed(const struct settings *s, enum room before)
{
	(void)s;
	(void)before;
	return 0;
}

bool room_to_open(const struct settings *s)
{
	return machine_of_settings(s)->room != ROOM_NONE;
}

void room_give_back(const struct settings *s)
{
	(void)s;
}

void room_reserve(const struct settings *s)
{
	(void)s;
}

/* --- the writer of kv_behind.c: an event passes on what is heavy --- */

struct pass {
	struct list node;
	struct behind *of;
	struct loop *loop;
	struct sim_event event;
};

static struct list passes = { &passes, &passes };

static struct pass *pass_of(const struct behind *s)
{
	LIST_FOREACH (it, &passes) {
		struct pass *p = list_entry(it, struct pass, node);

		if (p->of == s)
			return p;
	}
	CHECK(false);
	return NULL;
}

static void on_pass(void *ctx)
{
	struct pass *p = ctx;

	if (p->of->writing)
		behind_pass_on(p->of);
}

void behind_lock(struct behind *s)
{
	(void)s;
}

void behind_unlock(struct behind *s)
{
	(void)s;
}

void behind_wake(struct behind *s)
{
	struct pass *p = pass_of(s);
	struct sim *w = p->loop->sim;

	if (s->writing && !sim_is_due(&p->event))
		sim_after(w, &p->event, p->loop, sim_skewed(w, 0, PASS_MAX_NS),
			  on_pass, p);
}

/* Whoever waits does so for a write to end. */
void behind_wait(struct behind *s)
{
	CHECK(s->writing);
	behind_pass_on(s);
}

bool behind_wait_until(struct behind *s, uint64_t mono_ns)
{
	(void)mono_ns;
	behind_wait(s);
	return true;
}

void behind_writer_begin(struct behind *s)
{
	struct pass *p = xcalloc(1, sizeof(*p));

	p->of = s;
	p->loop = sim_here();
	list_push_back(&passes, &p->node);
}

/* What has not been passed on is lost. */
void process_abandon(struct loop *l)
{
	LIST_FOREACH_SAFE (it, &passes) {
		struct pass *p = list_entry(it, struct pass, node);

		if (p->loop == l) {
			list_remove(&p->node);
			free(p);
		}
	}
}

/* The library cannot write: corvo-raftd ends there, and is started again. */
_noreturn_ void __real_abort(void);
_noreturn_ void __wrap_abort(void);
_noreturn_ void __real_check_failed(const char *file, int line,
				    const char *what);
_noreturn_ void __wrap_check_failed(const char *file, int line,
				    const char *what);

static bool is_check_failed;

void __wrap_check_failed(const char *file, int line, const char *what)
{
	is_check_failed = true;
	__real_check_failed(file, line, what);
}

void __wrap_abort(void)
{
	struct loop *l = sim_here();

	if (!is_check_failed && l != NULL && l->host->disk.has_failed)
		sim_die(l->sim);
	__real_abort();
}

void behind_writer_end(struct behind *s)
{
	struct pass *p = pass_of(s);

	list_remove(&p->node);
	sim_forget(p->loop->sim, &p->event);
	free(p);
}
