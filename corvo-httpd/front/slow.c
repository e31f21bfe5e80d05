/*
 * See front/slow.h.
 */
#include "front/slow.h"

#include <stdlib.h>

#include "front/conn.h"
#include "front/exchange.h"
#include "front/server.h"
#include "proto/err.h"
#include "proto/limits.h"
#include "util/clock.h"
#include "util/turn.h"

#define MOMENT_NS NS_PER_S              /* a rate is that of so long */
#define PAUSE_NS  (20 * NS_PER_MS)      /* between two cuts */
#define SLOW_RATE ((uint64_t)256 << 10) /* faster ones are not cut */

/* An answer of fixed length is on its way. */
static bool is_sending(const struct exchange *x)
{
	return x->answered && x->stream == NULL;
}

/* A body that is taken in pieces has a pace of its own. */
static bool is_coming(const struct exchange *x)
{
	return x->coming && x->body_to == NULL && !x->answered;
}

/* Bytes that came or were taken, counted from anywhere. */
static bool progress(const struct exchange *x, uint64_t *ret)
{
	if (is_coming(x)) {
		*ret = x->body.n;
		return true;
	}
	return is_sending(x) && x->front->progress(x, ret);
}

static void count(const struct exchange *x, enum memory_reason r)
{
	server_memory(x->server)->refused[r]++;
}

void slow_cut_reader(struct exchange *x)
{
	count(x, MEMORY_SLOW_READER);
	exchange_cut(x);
	x->front->cut(x);
}

/* Whether it takes too little whatever others need; a new window else. */
static bool is_too_slow(const struct conns *cs, struct pace *p, uint64_t n,
			uint64_t now_ns)
{
	uint64_t ns = now_ns - p->window_ns;
	uint64_t least = LIMIT_ANSWER_RATE * (ns / NS_PER_MS) / 1000;

	if (ns < cs->answer_timeout_ns)
		return false;
	if (n - p->window_n < least)
		return true;
	p->window_ns = now_ns;
	p->window_n = n;
	return false;
}

void slow_look(const struct conns *cs, struct exchange *x, uint64_t now_ns)
{
	struct pace *p = &x->pace;
	uint64_t n, ns;

	if (x->is_cut || !progress(x, &n))
		return;
	if (p->since_ns == 0) {
		p->since_ns = p->window_ns = now_ns;
		p->since_n = p->window_n = n;
		return;
	}
	if (is_sending(x) && is_too_slow(cs, p, n, now_ns)) {
		slow_cut_reader(x);
		return;
	}
	ns = now_ns - p->since_ns;
	if (ns < MOMENT_NS)
		return;
	p->rate = (n - p->since_n) * 1000 / (ns / NS_PER_MS);
	p->known = true;
	p->since_ns = now_ns;
	p->since_n = n;
}

static bool is_slow(const struct exchange *x)
{
	return (is_coming(x) || is_sending(x)) && x->pace.known &&
	       x->pace.rate < SLOW_RATE && !x->is_cut;
}

static int by_rate(const void *a, const void *b)
{
	const struct exchange *x = *(struct exchange *const *)a;
	const struct exchange *y = *(struct exchange *const *)b;

	return (x->pace.rate > y->pace.rate) - (x->pace.rate < y->pace.rate);
}

static void cut(struct exchange *x)
{
	if (is_sending(x)) {
		slow_cut_reader(x);
		return;
	}
	count(x, MEMORY_SLOW_BODY);
	x->front->refuse(x, ERR_OVERLOADED,
			 STR("memory for requests is short, and this one came "
			     "slowly; try again after retry_after_ms"));
}

struct slow_list {
	const struct exchange *but;
	struct exchange **items;
	size_t n, cap;
};

static void add_slow(void *ctx, struct exchange *x)
{
	struct slow_list *l = ctx;

	if (x == l->but || !is_slow(x))
		return;
	if (l->n == l->cap) {
		l->cap = MAX(l->cap * 2, (size_t)64);
		l->items = xrealloc(l->items, l->cap * sizeof(l->items[0]));
	}
	l->items[l->n++] = x;
}

void slow_cut(struct conns *cs, const struct exchange *but, uint64_t bytes)
{
	uint64_t now_ns = clock_mono_ns(), freed = 0;
	struct slow_list l = { .but = but };

	if (now_ns - cs->cut_ns < PAUSE_NS)
		return;
	cs->cut_ns = now_ns;
	conns_each_exchange(cs, add_slow, &l);
	if (l.n > 0)
		qsort(l.items, l.n, sizeof(l.items[0]), by_rate);
	/* with another turn in between they could end, and be in the list */
	turn_hold();
	for (size_t i = 0; i < l.n && freed < bytes; i++) {
		freed += l.items[i]->held;
		cut(l.items[i]);
	}
	turn_let();
	free(l.items);
}
