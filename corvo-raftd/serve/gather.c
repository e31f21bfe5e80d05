#include "serve/gather.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cluster/discover.h"
#include "cluster/peer_link.h"
#include "rt/log.h"
#include "serve/svc_impl.h"
#include "util/clock.h"

#define ROUND_NS   (500 * NS_PER_MS) /* between rounds */
#define ASK_NS     (2 * NS_PER_S)    /* for an answer */
#define TOLD_NS    (10 * NS_PER_S)   /* an address that nobody tells goes */
#define PROMISE_NS (30 * NS_PER_S)   /* nobody else is named meanwhile */
#define REMIND_NS  (30 * NS_PER_S)   /* between lines about the same */
#define TELL_NS    NS_PER_S          /* between any two lines */

enum peer_state {
	PEER_ASKED,  /* no answer yet */
	PEER_AWAY,   /* it cannot be asked */
	PEER_SELF,   /* the address is that of this node */
	PEER_EMPTY,  /* in no cluster */
	PEER_MEMBER, /* of a cluster */
};

/* Somebody who may be there, in one round. */
struct peer {
	struct gather *g;
	const char *address;
	enum peer_state state;
	struct port_dial *dial;    /* NULL: it is over */
	struct rpc_client *client; /* NULL: there is nothing to ask */
	struct link *link;         /* below it */
	uint64_t raft_id;
	char name[HELLO_NAME_BYTES + 1];
	char says[HELLO_ADDRESS_BYTES + 1]; /* where it says it is */
	uint32_t expect, seen;
	char first[HELLO_NAME_BYTES + 1];
};

struct told {
	char address[HELLO_ADDRESS_BYTES + 1];
	uint64_t at_ns; /* clock_mono_ns; 0: a free place */
};

struct gather {
	struct parts *p;
	struct port *port;
	const struct gather_ops *ops;
	void *ctx;
	struct discover *discover;
	struct loop_timer *timer;
	struct told told[LIMIT_FOUND];
	/* the round */
	struct found asked;
	struct peer peers[LIMIT_FOUND];
	size_t left; /* not answered yet */
	bool asking;
	struct buf unknown; /* what could not be looked up */
	/* what came out of the last one */
	struct found
	    near; /* nodes without a cluster, where they say they are */
	uint32_t seen;
	char first[HELLO_NAME_BYTES + 1]; /* promised, at */
	uint64_t promised_ns;
	bool agrees; /* `first` was named in that round */
	struct buf waits;
	struct buf said;
	uint64_t said_ns;
};

static const char *own_name(const struct gather *g)
{
	return g->p->d->settings.node_id;
}

static const char *own_address(const struct gather *g)
{
	return settings_advertise(&g->p->d->settings);
}

static uint32_t expected(const struct gather *g)
{
	return (uint32_t)g->p->d->settings.bootstrap_expect;
}

static void copy_name(char ret[HELLO_NAME_BYTES + 1], struct str name)
{
	(void)snprintf(ret, HELLO_NAME_BYTES + 1, "%.*s", STR_ARG(name));
}

/* --- addresses others tell --- */

static void hear(struct gather *g, struct str address)
{
	struct told *oldest = &g->told[0];

	if (!hello_address_ok(address) || str_is(address, own_address(g)))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(g->told); i++) {
		struct told *t = &g->told[i];

		if (str_is(address, t->address)) {
			oldest = t;
			break;
		}
		if (t->at_ns < oldest->at_ns)
			oldest = t;
	}
	(void)snprintf(oldest->address, sizeof(oldest->address), "%.*s",
		       STR_ARG(address));
	oldest->at_ns = clock_mono_ns();
}

/* --- one of them --- */

static void end_peer(struct peer *e)
{
	if (e->dial != NULL)
		port_dial_cancel(e->dial);
	rpc_client_free(e->client);
	e->dial = NULL;
	e->client = NULL;
}

static void answered(struct peer *e, enum peer_state state)
{
	CHECK(e->state == PEER_ASKED && e->g->left > 0);
	e->state = state;
	if (--e->g->left == 0)
		loop_timer_arm(e->g->timer, 0); /* not inside its client */
}

static void on_answer(void *ctx, const struct rpc_reply *r)
{
	struct peer *e = ctx;
	struct arena a = ARENA_INIT;
	struct m_cluster_probe_reply m;

	if (r->err != 0 ||
	    msg_decode(&msg_cluster_probe_reply, r->body, &a, &m) < 0) {
		answered(e, PEER_AWAY);
	} else if (m.cluster.n > 0) {
		answered(e, PEER_MEMBER);
	} else {
		e->expect = m.expect;
		e->seen = m.seen;
		copy_name(e->first, m.first);
		for (size_t i = 0; i < m.peers_n; i++)
			hear(e->g, m.peers[i]);
		answered(e, PEER_EMPTY);
	}
	arena_done(&a);
}

static struct link *open_link(void *ctx, const struct link_ops *ops,
			      void *ops_ctx)
{
	struct peer *e = ctx;

	e->link = peer_link_inbound(ops, ops_ctx);
	return e->link;
}

static void ask(struct peer *e, struct port_conn *c)
{
	struct gather *g = e->g;
	_cleanup_(buf_done) struct buf body = BUF_INIT(0);
	struct m_cluster_probe m = { 0 };
	struct frame_request item = { .op = QUERY_CLUSTER_PROBE };

	e->client = rpc_client_to_node(g->p->d->loop, "a node", open_link, e);
	MSG_SET(&m, cluster_probe, name, str_from(own_name(g)));
	MSG_SET(&m, cluster_probe, raft_id, node_id(g->p->node));
	MSG_SET(&m, cluster_probe, address, str_from(own_address(g)));
	msg_encode(&msg_cluster_probe, &m, &body);
	item.body = buf_str(&body);
	item.deadline_ns = clock_mono_ns() + ASK_NS;
	(void)rpc_forward(e->client, &item, ERR_LEADER_UNAVAILABLE, on_answer,
			  e);
	peer_link_attach(e->link, c);
}

static void on_dialled(void *ctx, struct port_conn *c)
{
	struct peer *e = ctx;

	e->dial = NULL;
	if (c == NULL) {
		answered(e, port_dial_code(e->g->port) == HELLO_SAME_NODE
				? PEER_SELF
				: PEER_AWAY);
		return;
	}
	e->raft_id = c->peer.raft_id;
	memcpy(e->name, c->peer.name, sizeof(e->name));
	memcpy(e->says, c->peer.address, sizeof(e->says));
	if (history_is_none(&c->peer.cluster)) {
		ask(e, c);
		return;
	}
	port_conn_free(c);
	answered(e, PEER_MEMBER);
}

/* --- a round --- */

static void on_looked(void *ctx, const struct found *f, struct str why)
{
	struct gather *g = ctx;
	uint64_t now = clock_mono_ns();

	g->asking = true;
	buf_clear(&g->unknown);
	buf_put_str(&g->unknown, why);
	g->asked.n = 0;
	for (size_t i = 0; i < f->n; i++)
		if (strcmp(f->at[i], own_address(g)) != 0)
			found_add(&g->asked, str_from(f->at[i]));
	for (size_t i = 0; i < ARRAY_SIZE(g->told); i++)
		if (g->told[i].at_ns != 0 && now - g->told[i].at_ns < TOLD_NS)
			found_add(&g->asked, str_from(g->told[i].address));
	g->left = g->asked.n;
	if (g->left == 0)
		loop_timer_arm(g->timer, 0);
	for (size_t i = 0; i < g->asked.n; i++) {
		struct port_target t = { .address = g->asked.at[i] };
		struct peer *e = &g->peers[i];

		*e = (struct peer){ .g = g, .address = g->asked.at[i] };
		e->dial = port_dial(g->port, PURPOSE_JOIN, &t, on_dialled, e);
	}
}

static void begin_round(struct gather *g)
{
	discover_look(g->discover, on_looked, g);
}

/* --- what came out of it --- */

/* The same line again and again helps nobody. */
static void say(struct gather *g)
{
	uint64_t now = clock_mono_ns();
	bool same = str_eq(buf_str(&g->waits), buf_str(&g->said));

	if (g->said_ns != 0 && now - g->said_ns < (same ? REMIND_NS : TELL_NS))
		return;
	g->said_ns = now;
	buf_clear(&g->said);
	buf_put_str(&g->said, buf_str(&g->waits));
	log_info("no data here, and no cluster found; %.*s",
		 STR_ARG(buf_str(&g->waits)));
}

/* Who cannot be asked; false: nobody. */
static bool put_away(const struct gather *g, struct buf *ret)
{
	const char *before = "waits for ";
	bool any = false;

	for (size_t i = 0; i < g->asked.n; i++) {
		if (g->peers[i].state != PEER_AWAY)
			continue;
		buf_printf(ret, "%s%s", before, g->peers[i].address);
		before = ", ";
		any = true;
	}
	return any;
}

/* Two addresses may lead to one node. */
static bool is_again(const struct gather *g, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (g->peers[k].state == PEER_EMPTY &&
		    g->peers[k].raft_id == g->peers[i].raft_id)
			return true;
	return false;
}

/* Nodes without a cluster that expect another number; NULL: none. */
static const struct peer *find_other(const struct gather *g)
{
	for (size_t i = 0; i < g->asked.n; i++)
		if (g->peers[i].state == PEER_EMPTY &&
		    g->peers[i].expect != expected(g))
			return &g->peers[i];
	return NULL;
}

/* One of two nodes with the same name; NULL: there are none. */
static const char *find_double(const struct gather *g)
{
	for (size_t i = 0; i < g->asked.n; i++) {
		const struct peer *e = &g->peers[i];

		if (e->state != PEER_EMPTY || is_again(g, i))
			continue;
		if (strcmp(e->name, own_name(g)) == 0)
			return e->name;
		for (size_t k = 0; k < i; k++)
			if (g->peers[k].state == PEER_EMPTY &&
			    g->peers[k].raft_id != e->raft_id &&
			    strcmp(g->peers[k].name, e->name) == 0)
				return e->name;
	}
	return NULL;
}

/* Counts the nodes there are, and finds the one with the smallest name. */
static const char *find_first(struct gather *g)
{
	const char *first = own_name(g);

	g->seen = 1;
	g->near.n = 0;
	for (size_t i = 0; i < g->asked.n; i++) {
		const struct peer *e = &g->peers[i];

		if (e->state != PEER_EMPTY)
			continue;
		found_add(&g->near, str_from(e->says));
		if (is_again(g, i))
			continue;
		g->seen++;
		if (strcmp(e->name, first) < 0)
			first = e->name;
	}
	return first;
}

/* Whether nothing speaks against a new cluster of those who are there. */
static bool is_complete(struct gather *g)
{
	const struct peer *other = find_other(g);
	const char *twice = find_double(g);
	struct buf *w = &g->waits;

	if (g->unknown.n > 0)
		buf_put_str(w, buf_str(&g->unknown));
	else if (twice != NULL)
		buf_printf(w,
			   "two nodes are named %s: start them with different "
			   "--node-id",
			   twice);
	else if (other != NULL)
		buf_printf(w,
			   "%s at %s expects %u nodes and this one %u: start "
			   "them with the same --bootstrap-expect",
			   other->name, other->address, other->expect,
			   expected(g));
	else if (g->seen > expected(g))
		buf_printf(w,
			   "%u nodes are here and %u are expected: set "
			   "bootstrap_expect to their number",
			   g->seen, expected(g));
	else if (!put_away(g, w) && g->seen == expected(g))
		return true;
	else if (g->seen < expected(g))
		buf_printf(w, "%s%u of %u nodes are here",
			   w->n > 0 ? "; " : "waits for more: ", g->seen,
			   expected(g));
	return false;
}

/* Names it to all who ask, unless another one was just named. */
static void promise(struct gather *g, const char *first)
{
	uint64_t now = clock_mono_ns();

	g->agrees = g->first[0] == '\0' || strcmp(g->first, first) == 0 ||
		    now - g->promised_ns >= PROMISE_NS;
	if (!g->agrees)
		return;
	copy_name(g->first, str_from(first));
	g->promised_ns = now;
}

static bool all_name_this(const struct gather *g)
{
	for (size_t i = 0; i < g->asked.n; i++) {
		const struct peer *e = &g->peers[i];

		if (e->state == PEER_EMPTY &&
		    (e->seen != expected(g) ||
		     strcmp(e->first, own_name(g)) != 0))
			return false;
	}
	return true;
}

/* True: this node makes the cluster. */
static bool judge_new(struct gather *g)
{
	const char *first = find_first(g);

	g->agrees = false;
	if (!is_complete(g))
		return false;
	promise(g, first);
	if (g->agrees && strcmp(first, own_name(g)) == 0 && all_name_this(g))
		return true;
	buf_printf(&g->waits, "waits for %s to make the cluster of %u nodes",
		   first, g->seen);
	return false;
}

static void put_nobody(struct gather *g)
{
	(void)find_first(g);
	if (g->unknown.n > 0) {
		buf_put_str(&g->waits, buf_str(&g->unknown));
	} else if (g->asked.n > 0) {
		buf_puts(&g->waits, "no node of a cluster answers at ");
		for (size_t i = 0; i < g->asked.n; i++)
			buf_printf(&g->waits, "%s%s", i > 0 ? ", " : "",
				   g->asked.at[i]);
	} else {
		buf_puts(&g->waits, "waits to be taken into one");
	}
}

static void conclude(struct gather *g)
{
	struct found members = { 0 };

	for (size_t i = 0; i < g->asked.n; i++)
		if (g->peers[i].state == PEER_MEMBER)
			found_add(&members, str_from(g->peers[i].address));
	buf_clear(&g->waits);
	if (members.n > 0) {
		g->ops->on_members(g->ctx, &members);
		return;
	}
	if (expected(g) == 0) {
		put_nobody(g);
	} else if (judge_new(g)) {
		g->ops->on_chosen(g->ctx);
		return;
	}
	say(g);
	loop_timer_arm(g->timer, ROUND_NS);
}

/* All have answered, or the next round is to begin. */
static void on_timer(void *ctx)
{
	struct gather *g = ctx;

	CHECK(g->left == 0);
	if (!g->asking) {
		begin_round(g);
		return;
	}
	g->asking = false;
	for (size_t i = 0; i < g->asked.n; i++)
		end_peer(&g->peers[i]);
	conclude(g);
}

/* --- those who ask --- */

void q_cluster_probe(struct svc *s, struct rpc_req req,
		     const struct m_cluster_probe *m)
{
	_cleanup_(buf_done) struct buf cluster = BUF_INIT(0);
	struct m_cluster_probe_reply r = { 0 };
	struct gather *g = s->p->gather;

	history_put(&cluster, node_history(s->p->node));
	MSG_SET(&r, cluster_probe_reply, cluster, buf_str(&cluster));
	if (g != NULL) {
		struct str *peers =
		    arena_zalloc(&s->scratch, (g->near.n + 1) * sizeof(*peers));

		hear(g, m->address);
		for (size_t i = 0; i < g->near.n; i++)
			peers[i] = str_from(g->near.at[i]);
		MSG_SET(&r, cluster_probe_reply, expect, expected(g));
		MSG_SET(&r, cluster_probe_reply, seen, g->seen);
		if (g->agrees)
			MSG_SET(&r, cluster_probe_reply, first,
				str_from(g->first));
		MSG_SET_LIST(&r, cluster_probe_reply, peers, peers, g->near.n);
	}
	svc_reply(s, req, &msg_cluster_probe_reply, &r);
}

/* There is a cluster: the next round finds it. */
void q_cluster_invite(struct svc *s, struct rpc_req req,
		      const struct m_cluster_invite *m)
{
	struct m_nothing nothing = { 0 };

	if (s->p->gather == NULL || node_voters(s->p->node) > 0) {
		rpc_reply(req, ERR_CONFLICT, 0,
			  STR("this node is in a cluster already"));
		return;
	}
	hear(s->p->gather, m->address);
	svc_reply(s, req, &msg_nothing, &nothing);
}

struct str svc_membership(const struct svc *s)
{
	if (s->left)
		return STR("it has left");
	if (s->p->removed)
		return STR("it was removed");
	return s->p->gather != NULL && node_voters(s->p->node) == 0
		   ? gather_waits(s->p->gather)
		   : STR_NULL;
}

/* --- life --- */

struct gather *gather_new(struct parts *p, struct port *port,
			  const struct gather_ops *ops, void *ctx)
{
	struct gather *g = xcalloc(1, sizeof(*g));

	g->p = p;
	g->port = port;
	g->ops = ops;
	g->ctx = ctx;
	g->unknown = g->waits = g->said = BUF_INIT(0);
	g->discover = discover_new(p->d->loop, &p->d->settings);
	g->timer = loop_timer_add(p->d->loop, on_timer, g);
	return g;
}

void gather_free(struct gather *g)
{
	if (g == NULL)
		return;
	for (size_t i = 0; i < g->asked.n; i++)
		end_peer(&g->peers[i]);
	discover_free(g->discover);
	loop_timer_remove(g->timer);
	buf_done(&g->unknown);
	buf_done(&g->waits);
	buf_done(&g->said);
	free(g);
}

void gather_go(struct gather *g)
{
	CHECK(!g->asking);
	loop_timer_arm(g->timer, 0);
}

struct str gather_waits(const struct gather *g)
{
	return buf_str(&g->waits);
}

void gather_turn_end(struct gather *g)
{
	for (size_t i = 0; i < g->asked.n; i++)
		if (g->peers[i].client != NULL)
			rpc_client_flush(g->peers[i].client);
}
