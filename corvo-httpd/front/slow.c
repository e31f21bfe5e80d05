/*
 * See front/slow.h.
 */
#include "front/slow.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "front/conn.h"
#include "front/exchange.h"
#include "front/server.h"
#include "proto/err.h"
#include "proto/limits.h"
#include "util/clock.h"

#define MOMENT_NS NS_PER_S              /* a rate is that of so long */
#define PAUSE_NS  (20 * NS_PER_MS)      /* between two cuts */
#define SLOW_RATE ((uint64_t)256 << 10) /* faster ones are not cut */

/* An answer of fixed length is on its way. */
static bool is_sending(const struct conn *c)
{
	const struct exchange *x = c->exchange;

	return c->phase == CONN_WORK && x != NULL && x->answered &&
	       x->stream == NULL;
}

static bool is_coming(const struct conn *c)
{
	return c->phase == CONN_BODY && c->exchange != NULL;
}

/*
 * Bytes that came or were taken, counted from anywhere. What the kernel has of
 * an answer is not taken; other sockets than those of TCP do not tell.
 */
static bool progress(const struct conn *c, uint64_t *ret)
{
	struct tcp_info i = { 0 };
	socklen_t n = sizeof(i);

	if (is_coming(c)) {
		*ret = c->exchange->body.n;
		return true;
	}
	if (!is_sending(c) ||
	    getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &i, &n) < 0)
		return false;
	*ret = i.tcpi_bytes_acked;
	return true;
}

static void count(const struct conn *c, enum memory_reason r)
{
	server_memory(c->server)->refused[r]++;
}

static void cut_reader(struct conn *c)
{
	count(c, MEMORY_SLOW_READER);
	exchange_cut(c->exchange);
	conn_cut(c);
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

void slow_look(struct conns *cs, struct conn *c, uint64_t now_ns)
{
	struct pace *p = &c->pace;
	uint64_t n, ns;

	if (!progress(c, &n) || c->exchange->is_cut)
		return;
	if (p->since_ns == 0) {
		p->since_ns = p->window_ns = now_ns;
		p->since_n = p->window_n = n;
		return;
	}
	if (is_sending(c) && is_too_slow(cs, p, n, now_ns)) {
		cut_reader(c);
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

static bool is_slow(const struct conn *c)
{
	return (is_coming(c) || is_sending(c)) && c->pace.known &&
	       c->pace.rate < SLOW_RATE && !c->exchange->is_cut;
}

static int by_rate(const void *a, const void *b)
{
	const struct conn *x = *(struct conn *const *)a;
	const struct conn *y = *(struct conn *const *)b;

	return (x->pace.rate > y->pace.rate) - (x->pace.rate < y->pace.rate);
}

static void cut(struct conn *c)
{
	if (is_sending(c)) {
		cut_reader(c);
		return;
	}
	count(c, MEMORY_SLOW_BODY);
	conn_refuse(c, ERR_OVERLOADED,
		    STR("memory for requests is short, and this one came "
			"slowly; try again after retry_after_ms"));
}

void slow_cut(struct conns *cs, const struct conn *but, uint64_t bytes)
{
	uint64_t now_ns = clock_mono_ns(), freed = 0;
	struct conn **slow;
	size_t n = 0;

	if (now_ns - cs->cut_ns < PAUSE_NS)
		return;
	cs->cut_ns = now_ns;
	slow = xmalloc(cs->n * sizeof(struct conn *));
	LIST_FOREACH (it, &cs->all) {
		struct conn *c = list_entry(it, struct conn, node);

		if (c != but && is_slow(c))
			slow[n++] = c;
	}
	qsort(slow, n, sizeof(struct conn *), by_rate);
	for (size_t i = 0; i < n && freed < bytes; i++) {
		freed += slow[i]->exchange->held;
		cut(slow[i]);
	}
	free(slow);
}
