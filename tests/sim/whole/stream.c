#include "stream.h"

#include <inttypes.h>
#include <stdlib.h>

#include "proto/proto.h"
#include "util/clock.h"
#include "whole.h"

#define PAGE_MAX    100
#define WAIT_MAX_NS (2 * NS_PER_S)
#define ASK_NS      (5 * NS_PER_S)
#define REST_MAX_NS (300 * NS_PER_MS)

struct stream {
	struct whole *w;
	uint64_t seq; /* the last event it has */
	struct ask *ask;
	struct sim_event next;
};

static void look(struct stream *t, const struct m_events_reply *m)
{
	struct whole *w = t->w;
	uint64_t seq = t->seq;

	if (m->lost && seq + 1 >= witness_first_seq(w->witness))
		whole_fail(w,
			   "the event log does not go on after event %" PRIu64
			   ", which is kept",
			   seq);
	for (size_t i = 0; i < m->events_n; i++) {
		if (m->events[i].seq != seq + 1 && !(m->lost && i == 0))
			whole_fail(w,
				   "event %" PRIu64 " comes after event "
				   "%" PRIu64,
				   m->events[i].seq, seq);
		seq = m->events[i].seq;
	}
	if (m->events_n > 0)
		witness_look_at_events(w->witness, m->events[0].seq - 1, m);
	if (m->next != (m->events_n > 0 || !m->lost ? seq : m->next))
		whole_fail(w,
			   "the event log goes on after %" PRIu64
			   ", and the last event was %" PRIu64,
			   m->next, seq);
	w->tally.events += m->events_n;
	t->seq = m->next;
}

static void on_page(void *ctx, const struct rpc_reply *r)
{
	struct stream *t = ctx;
	struct arena a = ARENA_INIT;
	struct m_events_reply m;

	t->ask = NULL;
	if (r->err == 0) {
		CHECK(msg_decode(&msg_events_reply, r->body, &a, &m) == 0);
		look(t, &m);
	}
	arena_done(&a);
}

static void on_next(void *ctx)
{
	struct stream *t = ctx;
	struct sim *s = t->w->sim;
	struct m_events_ask m = { 0 };
	struct buf b = BUF_INIT(0);
	uint64_t wait_ns = 0;

	sim_after(s, &t->next, NULL, sim_skewed(s, 0, REST_MAX_NS), on_next, t);
	if (t->ask != NULL)
		return;
	if (sim_chance(s, 50))
		wait_ns = sim_below(s, WAIT_MAX_NS);
	MSG_SET(&m, events_ask, after_seq, t->seq);
	MSG_SET(&m, events_ask, limit, (uint32_t)sim_between(s, 1, PAGE_MAX));
	MSG_SET(&m, events_ask, wait_ns, wait_ns);
	msg_encode(&msg_events_ask, &m, &b);
	t->ask = desk_ask(desk_any(t->w), QUERY_EVENTS, buf_str(&b),
			  clock_mono_ns() + wait_ns + ASK_NS, on_page, t);
	buf_done(&b);
}

struct stream *stream_new(struct whole *w)
{
	struct stream *t = xcalloc(1, sizeof(*t));

	t->w = w;
	sim_after(w->sim, &t->next, NULL, NS_PER_S, on_next, t);
	return t;
}

bool stream_is_done(const struct stream *t)
{
	return t->seq == witness_seq(t->w->witness);
}

void stream_free(struct stream *t)
{
	if (t == NULL)
		return;
	sim_forget(t->w->sim, &t->next);
	free(t);
}
