#include "wire.h"

#include <stdlib.h>
#include <string.h>

#include "proto/err.h"
#include "proto/limits.h"

#define LOCAL_MAX_NS NS_PER_MS        /* between processes of a machine */
#define CUT_LOOK_NS  (20 * NS_PER_MS) /* whether the way is open again */
#define BUSY_PERCENT 20               /* of sends that leave later */

struct wire_message {
	struct list node;
	struct sim_event arrival;
	struct wire *wire;
	unsigned to;
	bool is_end;
	size_t n;
	char bytes[];
};

struct wire_end {
	struct loop *loop;
	struct sim_link *link;
	bool is_over;      /* it had one, or never will */
	uint64_t last_ns;  /* arrivals are not before */
	struct list queue; /* of messages to it */
};

struct wire {
	struct list node; /* in wires */
	struct wire_end end[2];
};

static struct list wires = { &wires, &wires };

/* --- connections --- */

struct wire *wire_new(struct loop *a, struct loop *b)
{
	struct wire *w = xcalloc(1, sizeof(*w));

	w->end[0].loop = a;
	w->end[1].loop = b;
	for (unsigned i = 0; i < 2; i++)
		list_init(&w->end[i].queue);
	list_push_back(&wires, &w->node);
	return w;
}

static void message_free(struct wire_message *m)
{
	list_remove(&m->node);
	sim_forget(m->wire->end[0].loop->sim, &m->arrival);
	free(m);
}

static void drop_queue(struct wire_end *e)
{
	LIST_FOREACH_SAFE (it, &e->queue)
		message_free(list_entry(it, struct wire_message, node));
}

static void free_when_over(struct wire *w)
{
	if (!w->end[0].is_over || !w->end[1].is_over)
		return;
	drop_queue(&w->end[0]);
	drop_queue(&w->end[1]);
	list_remove(&w->node);
	free(w);
}

static bool is_cut(const struct wire *w, unsigned to)
{
	const struct sim_host *from = w->end[!to].loop->host;
	const struct sim_host *there = w->end[to].loop->host;

	return from != there &&
	       (from->net->cut[from->number][there->number] != CUT_NONE ||
		there->net->cut[there->number][from->number] != CUT_NONE);
}

static void on_arrival(void *ctx);

static void send_bytes(struct wire *w, unsigned to, const void *data, size_t n,
		       bool is_end)
{
	struct wire_message *m = xcalloc(1, sizeof(*m) + n);
	struct wire_end *e = &w->end[to];
	struct sim *s = e->loop->sim;
	const struct sim_net *net = e->loop->host->net;
	bool is_local = w->end[0].loop->host == w->end[1].loop->host;
	uint64_t wait =
	    is_local ? sim_skewed(s, 0, LOCAL_MAX_NS)
		     : sim_skewed(s, net->delay_min_ns, net->delay_max_ns);

	m->wire = w;
	m->to = to;
	m->is_end = is_end;
	m->n = n;
	if (n > 0)
		memcpy(m->bytes, data, n);
	e->last_ns = MAX(e->last_ns + 1, s->now_ns + wait);
	list_push_back(&e->queue, &m->node);
	sim_after(s, &m->arrival, e->loop, e->last_ns - s->now_ns, on_arrival,
		  m);
}

/* --- links --- */

static void enter(struct sim_link *l)
{
	l->busy++;
}

static void leave(struct sim_link *l)
{
	if (--l->busy == 0 && l->closed)
		free(l);
}

void wire_let_go(struct sim_link *l)
{
	struct wire *w = l->wire;

	if (w == NULL)
		return;
	l->wire = NULL;
	l->link.is_up = l->link.is_sending = false;
	sim_forget(l->loop->sim, &l->sent);
	w->end[l->side].link = NULL;
	w->end[l->side].is_over = true;
	drop_queue(&w->end[l->side]);
	if (!w->end[!l->side].is_over)
		send_bytes(w, !l->side, NULL, 0, true);
	free_when_over(w);
}

void wire_refuse(struct wire *w, unsigned side)
{
	w->end[side].is_over = true;
	if (!w->end[!side].is_over)
		send_bytes(w, !side, NULL, 0, true);
	free_when_over(w);
}

static void lose(struct sim_link *l)
{
	enter(l);
	wire_let_go(l);
	l->ops->on_down(l->ctx);
	if (!l->closed && l->on_lost != NULL)
		l->on_lost(l);
	leave(l);
}

static void on_arrival(void *ctx)
{
	struct wire_message *m = ctx;
	struct wire_end *e = &m->wire->end[m->to];
	struct sim_link *l = e->link;

	/* nothing overtakes what waits */
	if (l == NULL || is_cut(m->wire, m->to) || e->queue.next != &m->node) {
		e->last_ns = e->loop->sim->now_ns;
		sim_after(e->loop->sim, &m->arrival, e->loop, CUT_LOOK_NS,
			  on_arrival, m);
		return;
	}
	if (m->is_end) {
		message_free(m);
		lose(l);
		return;
	}
	list_remove(&m->node);
	list_init(&m->node);
	enter(l);
	l->ops->on_message(l->ctx, m->bytes, m->n);
	leave(l);
	free(m);
}

void wire_attach(struct wire *w, unsigned side, struct sim_link *l)
{
	CHECK(l->wire == NULL && w->end[side].link == NULL);
	w->end[side].link = l;
	l->wire = w;
	l->side = side;
	l->link.is_up = true;
	enter(l);
	l->ops->on_up(l->ctx);
	leave(l);
}

static void on_sent(void *ctx)
{
	struct sim_link *l = ctx;

	l->link.is_sending = false;
	enter(l);
	l->ops->on_sent(l->ctx);
	leave(l);
}

static int kind_send(struct link *link, const void *data, size_t n)
{
	struct sim_link *l = sim_link_of(link);
	struct sim *s = l->loop->sim;

	CHECK(!link->is_sending);
	if (n > LIMIT_MESSAGE_BYTES)
		return -ERR_BODY_TOO_LARGE;
	if (l->wire == NULL)
		return -ERR_LEADER_UNAVAILABLE;
	if (!l->wire->end[!l->side].is_over)
		send_bytes(l->wire, !l->side, data, n, false);
	if (sim_chance(s, BUSY_PERCENT)) {
		link->is_sending = true;
		sim_after(s, &l->sent, l->loop, sim_skewed(s, 0, LOCAL_MAX_NS),
			  on_sent, l);
	}
	return 0;
}

static void kind_close(struct link *link)
{
	struct sim_link *l = sim_link_of(link);

	CHECK(!l->closed);
	enter(l);
	wire_let_go(l);
	if (l->on_close != NULL)
		l->on_close(l);
	l->closed = true;
	leave(l);
}

/* What cannot be read is never sent here. */
static void kind_drop(struct link *link)
{
	(void)link;
	CHECK(false);
}

static const struct link_kind kind = { .close = kind_close,
				       .drop = kind_drop,
				       .send = kind_send };

void wire_link_init(struct sim_link *l, struct loop *loop,
		    const struct link_ops *ops, void *ctx)
{
	l->link.kind = &kind;
	l->loop = loop;
	l->ops = ops;
	l->ctx = ctx;
}

void wire_abandon(struct loop *l)
{
	LIST_FOREACH_SAFE (it, &wires) {
		struct wire *w = list_entry(it, struct wire, node);

		for (unsigned i = 0; i < 2; i++) {
			if (w->end[i].loop != l || w->end[i].is_over)
				continue;
			w->end[i].link = NULL;
			drop_queue(&w->end[i]);
			wire_refuse(w, i);
			break; /* it may be gone; nobody talks to himself */
		}
	}
}

void wire_break_some(struct sim *s, unsigned percent)
{
	LIST_FOREACH_SAFE (it, &wires) {
		struct wire *w = list_entry(it, struct wire, node);

		if (w->end[0].link == NULL || w->end[1].link == NULL ||
		    !sim_chance(s, percent))
			continue;
		for (unsigned i = 0; i < 2; i++) {
			drop_queue(&w->end[i]);
			send_bytes(w, i, NULL, 0, true);
		}
	}
}
