/*
 * cluster/port.h and cluster/peer_link.h in a world. The handshake is one look
 * at the other side: its address, its number, whether both are of one cluster,
 * and whether it takes us for a member. What hello.h does to the bytes of one
 * has tests of its own.
 */
#include "cluster/port.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/peer_link.h"
#include "wire.h"

#define HEARD           64
#define DIAL_MAX_NS     (20 * NS_PER_MS)
#define DIAL_TIMEOUT_NS (3 * NS_PER_S)
#define RETRY_MIN_NS    (50 * NS_PER_MS)
#define RETRY_MAX_NS    NS_PER_S

struct port {
	struct loop *loop;
	struct hello_id me;
	bool (*is_member)(void *ctx, uint64_t raft_id, const char *name);
	void *ctx;
	struct {
		port_accept_fn *fn;
		void *ctx;
	} serve[PURPOSE_END];
	struct list node; /* in ports */
	struct list dials, coming;
	struct port_peer heard[HEARD];
	size_t heard_n;
	enum hello_code code;
};

struct sim_conn {
	struct port_conn c;
	struct wire *wire; /* NULL: a link has it */
	unsigned side;
	struct sim_event accepted; /* of one that came in */
};

struct port_dial {
	struct list node;
	struct port *port;
	enum port_purpose purpose;
	uint64_t raft_id;
	char *address;
	port_dial_fn *fn;
	void *ctx;
	struct sim_event event;
};

static struct list ports = { &ports, &ports };

/* --- connections --- */

static struct sim_conn *conn_of(struct port_conn *c)
{
	return container_of(c, struct sim_conn, c);
}

static struct sim_conn *conn_new(struct port *at, const struct port *from,
				 enum port_purpose purpose, struct wire *w,
				 unsigned side)
{
	struct sim_conn *x = xcalloc(1, sizeof(*x));

	x->c.fd = -1;
	x->c.port = at;
	x->c.purpose = purpose;
	x->c.inbound = side == 1;
	x->c.peer.raft_id = from->me.raft_id;
	x->c.peer.cluster = from->me.cluster;
	x->c.peer.version = HELLO_VERSION;
	(void)snprintf(x->c.peer.name, sizeof(x->c.peer.name), "%s",
		       from->me.name);
	(void)snprintf(x->c.peer.address, sizeof(x->c.peer.address), "%s",
		       from->me.address);
	list_init(&x->c.node);
	x->wire = w;
	x->side = side;
	return x;
}

void port_conn_free(struct port_conn *c)
{
	struct sim_conn *x;

	if (c == NULL)
		return;
	x = conn_of(c);
	list_remove(&c->node);
	if (c->port != NULL)
		sim_forget(c->port->loop->sim, &x->accepted);
	if (x->wire != NULL)
		wire_refuse(x->wire, x->side);
	free(x);
}

/* --- the port --- */

int port_open(const struct port_config *c, struct port **ret, struct buf *why)
{
	struct port *p = xcalloc(1, sizeof(*p));

	(void)why;
	p->loop = c->loop;
	p->me = c->me;
	p->is_member = c->is_member;
	p->ctx = c->ctx;
	list_init(&p->dials);
	list_init(&p->coming);
	list_push_back(&ports, &p->node);
	*ret = p;
	return 0;
}

void port_free(struct port *p)
{
	if (p == NULL)
		return;
	list_remove(&p->node);
	LIST_FOREACH_SAFE (it, &p->dials)
		port_dial_cancel(list_entry(it, struct port_dial, node));
	LIST_FOREACH_SAFE (it, &p->coming)
		port_conn_free(list_entry(it, struct port_conn, node));
	free(p);
}

void port_abandon(struct loop *l)
{
	LIST_FOREACH_SAFE (it, &ports) {
		struct port *p = list_entry(it, struct port, node);

		if (p->loop == l)
			list_remove(&p->node);
	}
}

struct loop *port_loop(const struct port *p)
{
	return p->loop;
}

const char *port_bound(const struct port *p)
{
	return p->me.address;
}

void port_set_cluster(struct port *p, const struct history *cluster)
{
	p->me.cluster = *cluster;
}

const char *port_heard(const struct port *p, uint64_t raft_id)
{
	for (size_t i = 0; i < p->heard_n; i++)
		if (p->heard[i].raft_id == raft_id)
			return p->heard[i].address;
	return NULL;
}

static void hear(struct port *p, const struct port_peer *peer)
{
	if (peer->raft_id == 0 || port_heard(p, peer->raft_id) != NULL ||
	    p->heard_n == HEARD)
		return;
	p->heard[p->heard_n++] = *peer;
}

void port_serve(struct port *p, enum port_purpose purpose, port_accept_fn *fn,
		void *ctx)
{
	p->serve[purpose].fn = fn;
	p->serve[purpose].ctx = ctx;
}

enum hello_code port_dial_code(const struct port *p)
{
	return p->code;
}

const char *port_dial_why(const struct port *p)
{
	(void)p;
	return "refused in the simulation";
}

/* --- dialling --- */

static struct port *find(const char *address)
{
	LIST_FOREACH (it, &ports) {
		struct port *p = list_entry(it, struct port, node);

		if (strcmp(p->me.address, address) == 0)
			return p;
	}
	return NULL;
}

static bool is_none(const struct history *h)
{
	static const struct history none;

	return memcmp(h, &none, sizeof(none)) == 0;
}

static bool is_open(const struct port *from, const struct port *to)
{
	const struct sim_host *a = from->loop->host, *b = to->loop->host;
	const struct sim_net *net = a->net;

	return net->cut[a->number][b->number] == CUT_NONE &&
	       net->cut[b->number][a->number] == CUT_NONE;
}

/* 0: they shake hands. */
static enum hello_code judge(const struct port_dial *d, const struct port *to)
{
	const struct hello_id *me = &d->port->me;

	if (to == d->port || to->me.raft_id == me->raft_id)
		return HELLO_SAME_NODE;
	if (d->raft_id != 0 && d->raft_id != to->me.raft_id)
		return HELLO_OTHER_NODE;
	if (!is_none(&me->cluster) && !is_none(&to->me.cluster) &&
	    memcmp(&me->cluster, &to->me.cluster, sizeof(me->cluster)) != 0)
		return HELLO_CLUSTER;
	if (to->serve[d->purpose].fn == NULL)
		return HELLO_BAD_PURPOSE;
	if (d->purpose != PURPOSE_JOIN && to->is_member != NULL &&
	    !to->is_member(to->ctx, me->raft_id, me->name))
		return HELLO_NO_MEMBER;
	return 0;
}

static void on_accepted(void *ctx)
{
	struct sim_conn *x = ctx;
	struct port *p = x->c.port;

	list_remove(&x->c.node);
	list_init(&x->c.node);
	hear(p, &x->c.peer);
	if (p->serve[x->c.purpose].fn == NULL)
		port_conn_free(&x->c);
	else
		p->serve[x->c.purpose].fn(p->serve[x->c.purpose].ctx, &x->c);
}

static void end_dial(struct port_dial *d, struct port_conn *c,
		     enum hello_code code)
{
	struct port *p = d->port;
	port_dial_fn *fn = d->fn;
	void *ctx = d->ctx;

	list_remove(&d->node);
	free(d->address);
	free(d);
	p->code = code;
	fn(ctx, c);
}

static void on_timeout(void *ctx)
{
	end_dial(ctx, NULL, 0);
}

static void on_dial(void *ctx)
{
	struct port_dial *d = ctx;
	struct port *p = d->port, *to = find(d->address);
	struct sim *s = p->loop->sim;
	enum hello_code code;
	struct sim_conn *there;
	struct wire *w;

	if (to == NULL) {
		end_dial(d, NULL, 0);
		return;
	}
	if (!is_open(p, to)) {
		sim_after(s, &d->event, p->loop, DIAL_TIMEOUT_NS, on_timeout,
			  d);
		return;
	}
	code = judge(d, to);
	if (code != 0) {
		end_dial(d, NULL, code);
		return;
	}
	w = wire_new(p->loop, to->loop);
	there = conn_new(to, p, d->purpose, w, 1);
	list_push_back(&to->coming, &there->c.node);
	sim_after(s, &there->accepted, to->loop, sim_skewed(s, 0, DIAL_MAX_NS),
		  on_accepted, there);
	end_dial(d, &conn_new(p, to, d->purpose, w, 0)->c, 0);
}

struct port_dial *port_dial(struct port *p, enum port_purpose purpose,
			    const struct port_target *t, port_dial_fn *fn,
			    void *ctx)
{
	struct port_dial *d = xcalloc(1, sizeof(*d));

	d->port = p;
	d->purpose = purpose;
	d->raft_id = t->raft_id;
	d->address = xstrdup(t->address);
	d->fn = fn;
	d->ctx = ctx;
	list_push_back(&p->dials, &d->node);
	sim_after(p->loop->sim, &d->event, p->loop,
		  sim_skewed(p->loop->sim, 0, DIAL_MAX_NS), on_dial, d);
	return d;
}

void port_dial_cancel(struct port_dial *d)
{
	list_remove(&d->node);
	sim_forget(d->port->loop->sim, &d->event);
	free(d->address);
	free(d);
}

/* --- links --- */

struct peer_link {
	struct sim_link l;
	struct port *port; /* of one that dials */
	enum port_purpose purpose;
	uint64_t target_id;
	char *target; /* NULL: none */
	struct port_dial *dial;
	struct sim_event retry;
	uint64_t retry_ns;
	struct port_peer peer;
};

static struct peer_link *of(struct sim_link *l)
{
	return container_of(l, struct peer_link, l);
}

static void gain(struct peer_link *p, struct port_conn *c)
{
	struct sim_conn *x = conn_of(c);
	struct wire *w = x->wire;
	unsigned side = x->side;

	p->peer = c->peer;
	p->retry_ns = RETRY_MIN_NS;
	x->wire = NULL;
	port_conn_free(c);
	wire_attach(w, side, &p->l);
}

static void on_retry(void *ctx);

static void dial_later(struct peer_link *p)
{
	struct sim *s = p->l.loop->sim;

	sim_forget(s, &p->retry);
	sim_after(s, &p->retry, p->l.loop,
		  sim_between(s, p->retry_ns / 2, p->retry_ns), on_retry, p);
	p->retry_ns = MIN(2 * p->retry_ns, RETRY_MAX_NS);
}

static void on_dialled(void *ctx, struct port_conn *c)
{
	struct peer_link *p = ctx;

	p->dial = NULL;
	if (c == NULL)
		dial_later(p);
	else
		gain(p, c);
}

static void on_retry(void *ctx)
{
	struct peer_link *p = ctx;
	struct port_target t = { p->target_id, p->target };

	p->dial = port_dial(p->port, p->purpose, &t, on_dialled, p);
}

static void on_lost(struct sim_link *l)
{
	struct peer_link *p = of(l);

	if (p->target != NULL && p->dial == NULL && l->wire == NULL)
		dial_later(p);
}

static void end_dialling(struct peer_link *p)
{
	sim_forget(p->l.loop->sim, &p->retry);
	if (p->dial != NULL)
		port_dial_cancel(p->dial);
	p->dial = NULL;
	free(p->target);
	p->target = NULL;
}

static void on_close(struct sim_link *l)
{
	end_dialling(of(l));
}

static struct peer_link *make(struct loop *loop, const struct link_ops *ops,
			      void *ctx)
{
	struct peer_link *p = xcalloc(1, sizeof(*p));

	wire_link_init(&p->l, loop, ops, ctx);
	p->l.on_lost = on_lost;
	p->l.on_close = on_close;
	p->retry_ns = RETRY_MIN_NS;
	return p;
}

struct link *peer_link_new(struct port *port, enum port_purpose purpose,
			   const struct link_ops *ops, void *ctx)
{
	struct peer_link *p = make(port->loop, ops, ctx);

	p->port = port;
	p->purpose = purpose;
	return &p->l.link;
}

/* Which loop it is on is known with its first connection. */
struct link *peer_link_inbound(const struct link_ops *ops, void *ctx)
{
	return &make(sim_here(), ops, ctx)->l.link;
}

void peer_link_target(struct link *link, const struct port_target *t)
{
	struct peer_link *p = of(sim_link_of(link));
	bool was_up = p->l.wire != NULL;

	if (t == NULL ? p->target == NULL
		      : p->target != NULL && p->target_id == t->raft_id &&
			    strcmp(p->target, t->address) == 0)
		return;
	end_dialling(p);
	p->retry_ns = RETRY_MIN_NS;
	if (t != NULL) {
		p->target = xstrdup(t->address);
		p->target_id = t->raft_id;
		sim_after(p->l.loop->sim, &p->retry, p->l.loop, 0, on_retry, p);
	}
	if (!was_up)
		return;
	wire_let_go(&p->l);
	p->l.ops->on_down(p->l.ctx);
}

void peer_link_attach(struct link *link, struct port_conn *c)
{
	struct peer_link *p = of(sim_link_of(link));

	if (p->l.wire != NULL) {
		wire_let_go(&p->l);
		p->l.ops->on_down(p->l.ctx);
	}
	gain(p, c);
}

const struct port_peer *peer_link_peer(const struct link *link)
{
	const struct peer_link *p = of(sim_link_of((struct link *)link));

	return p->l.wire != NULL ? &p->peer : NULL;
}
