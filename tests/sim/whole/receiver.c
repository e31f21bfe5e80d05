/*
 * corvo-sched's push/caller.h in a world: those who are called, in the place of
 * libcurl. Mostly they answer; at times they say that something is wrong, are
 * slow, or are not there.
 */
#include <stdlib.h>

#include "machine.h"
#include "push/caller.h"
#include "pushed.h"
#include "util/clock.h"
#include "util/list.h"
#include "whole.h"

#define ANSWER_MAX_NS (2 * NS_PER_S)

struct caller {
	struct loop *loop;
	struct list calls;
};

struct call {
	struct list node;
	struct caller *c;
	struct call_request r; /* its texts live as long as the call */
	struct sim_event end;
	uint64_t began_ns;
	call_fn *fn;
	void *ctx;
};

struct caller *caller_new(struct loop *l, const struct reach *reach,
			  const char *ca_file, struct buf *why)
{
	struct caller *c = xcalloc(1, sizeof(*c));

	(void)reach;
	(void)ca_file;
	(void)why;
	c->loop = l;
	list_init(&c->calls);
	return c;
}

static void call_free(struct call *k)
{
	list_remove(&k->node);
	sim_forget(k->c->loop->sim, &k->end);
	free(k);
}

void caller_free(struct caller *c)
{
	LIST_FOREACH_SAFE (it, &c->calls)
		call_free(list_entry(it, struct call, node));
	free(c);
}

/* Nothing that ends a job for good: it is to be done in the end. */
static void choose(struct sim *s, struct call_answer *ret)
{
	static const unsigned wrong[] = { 500, 503, 429, 408 };
	uint64_t what = sim_below(s, 100);

	if (what < 85) {
		ret->class = CALL_ANSWERED;
		ret->status = 200;
	} else if (what < 93) {
		ret->class = CALL_ANSWERED;
		ret->status = wrong[sim_below(s, ARRAY_SIZE(wrong))];
	} else if (what < 97) {
		ret->class = CALL_TIMEOUT;
		ret->error = "it took too long";
	} else {
		ret->class = CALL_CONNECTION;
		ret->error = "nobody listens";
	}
}

static void on_end(void *ctx)
{
	struct call *k = ctx;
	struct whole *w = machine_of_loop(k->c->loop)->w;
	struct call_answer a = { 0 };

	choose(w->sim, &a);
	a.total_ns = w->sim->now_ns - k->began_ns;
	w->tally.called++;
	if (a.class == CALL_ANSWERED)
		pushed_hear(w->clients.pushed, str_from(k->r.url), k->r.body,
			    a.status == 200);
	k->fn(k->ctx, k, &a);
	call_free(k);
}

struct call *call_start(struct caller *c, const struct call_request *r,
			call_fn *fn, void *ctx)
{
	struct call *k = xcalloc(1, sizeof(*k));
	struct sim *s = c->loop->sim;
	struct machine *m = machine_of_loop(c->loop);

	if (!m->has_led)
		whole_fail(m->w, "node %u calls %s, and has never led",
			   m->host.number, r->url);
	k->c = c;
	k->r = *r;
	k->fn = fn;
	k->ctx = ctx;
	k->began_ns = s->now_ns;
	list_push_back(&c->calls, &k->node);
	sim_after(s, &k->end, c->loop,
		  MIN(sim_skewed(s, NS_PER_MS, ANSWER_MAX_NS), r->timeout_ns),
		  on_end, k);
	return k;
}

const char *call_header(struct call *c, const char *name)
{
	(void)c;
	(void)name;
	return NULL;
}

void call_cancel(struct call *c)
{
	call_free(c);
}
