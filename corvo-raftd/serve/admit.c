/*
 * Taking nodes in. One that looks for a cluster asks for it; one that waits is
 * invited to ask, when somebody has told us to (POST /cluster/join).
 * Loop thread.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "cluster/peer_link.h"
#include "rt/log.h"
#include "rt/netaddr.h"
#include "serve/svc_impl.h"
#include "util/clock.h"

#define ANSWER_BYTES   768
#define INVITE_ASK_NS  (2 * NS_PER_S)    /* for an answer */
#define INVITE_NS      (15 * NS_PER_S)   /* until it has asked, too */
#define INVITE_LOOK_NS (100 * NS_PER_MS) /* whether it has */

/* --- a node that asks --- */

/* A node that asks to be taken in, while raft is being told. */
struct joining {
	struct svc *s;
	struct rpc_req req;
	struct arena a;
	struct m_cluster_join m;
};

static void joining_free(struct joining *j)
{
	arena_done(&j->a);
	free(j);
}

static void say_joined(struct svc *s, struct rpc_req req, bool added)
{
	_cleanup_(buf_done) struct buf cluster = BUF_INIT(0);
	struct m_cluster_join_reply r = { 0 };

	history_put(&cluster, node_history(s->p->node));
	MSG_SET(&r, cluster_join_reply, cluster, buf_str(&cluster));
	MSG_SET(&r, cluster_join_reply, added, added);
	svc_reply(s, req, &msg_cluster_join_reply, &r);
}

static void join_failed(struct joining *j, int err)
{
	svc_refuse_change(j->req, err);
	joining_free(j);
}

/* By its name it can be asked for from now on, before it reports itself. */
static void write_down(struct joining *j)
{
	struct m_node_report m = { 0 };

	if (j->m.level_max == 0) /* it does not tell, being older */
		return;
	MSG_SET(&m, node_report, raft_id, j->m.raft_id);
	MSG_SET(&m, node_report, name, j->m.name);
	MSG_SET(&m, node_report, address, j->m.address);
	MSG_SET(&m, node_report, http, j->m.http);
	MSG_SET(&m, node_report, version, j->m.version);
	MSG_SET(&m, node_report, level_min, j->m.level_min);
	MSG_SET(&m, node_report, level_max, j->m.level_max);
	nodes_write_down(j->s, &m);
}

static void on_added(void *ctx, int err)
{
	struct joining *j = ctx;

	if (err < 0) {
		join_failed(j, err);
		return;
	}
	log_info("node %.*s at %.*s is taken in", STR_ARG(j->m.name),
		 STR_ARG(j->m.address));
	write_down(j);
	say_joined(j->s, j->req, true);
	joining_free(j);
}

static void add(struct joining *j)
{
	const char *address = arena_cstr(&j->a, j->m.address);
	int r = node_add(j->s->p->node, j->m.raft_id, address, on_added, j);

	if (r < 0)
		join_failed(j, r);
}

static void on_old_removed(void *ctx, int err)
{
	struct joining *j = ctx;

	if (err < 0)
		join_failed(j, err);
	else
		add(j);
}

/*
 * The same name with another number: the disk of that node was replaced. The
 * number it had before goes first, with the votes it gave.
 */
static void replace(struct joining *j, uint64_t old_id)
{
	int r = node_remove(j->s->p->node, old_id, on_old_removed, j);

	log_info("node %.*s comes with an empty data directory; what it was "
		 "before is removed",
		 STR_ARG(j->m.name));
	if (r == -ERR_NOT_FOUND)
		add(j);
	else if (r < 0)
		join_failed(j, r);
}

/*
 * It has not heard that it was taken in. But one that votes had a log, and has
 * confirmed entries and given votes that it does not know of any more.
 */
static void join_again(struct svc *s, struct rpc_req req,
		       const struct node_server *known)
{
	if (known->role == NODE_VOTER)
		rpc_reply(req, ERR_CONFLICT, 0,
			  STR("it is a member that votes, and has lost its log "
			      "and its votes; start it with an empty "
			      "--data-dir, also without the file node"));
	else
		say_joined(s, req, false);
}

/* Of one more than the state has room for, nothing could be written down. */
static const char *why_full(struct svc *s)
{
	struct node_server all[NODE_SERVERS_MAX];
	size_t n = node_servers(s->p->node, all, ARRAY_SIZE(all));

	return n < LIMIT_MEMBERS ? NULL
				 : "the cluster has as many nodes as it may "
				   "have; remove one first";
}

/*
 * Why the node that has the name already stays; NULL: it may be replaced. Who
 * has just come to lead could not have heard of it yet, so it counts as silent
 * only after a while.
 */
static const char *why_it_stays(struct svc *s, uint64_t old_id)
{
	struct node_server old;

	if (nodes_is_alive(s->nodes, old_id))
		return "a node of that name is in the cluster and answers; "
		       "start with another --node-id";
	if (!node_server_find(s->p->node, old_id, &old))
		return why_full(s);
	if (!svc_is_silent(s, old_id))
		return "a node of that name is in the cluster, and whether it "
		       "answers is not known yet";
	if (!svc_can_do_without(s, &old))
		return "a node of that name is in the cluster, and without it "
		       "too few of the others answer";
	return NULL;
}

void q_cluster_join(struct svc *s, struct rpc_req req,
		    const struct m_cluster_join *m)
{
	uint64_t old_id = svc_id_by_name(s, m->name);
	struct node_server known;
	const char *why;
	struct joining *j;

	if (!node_is_ready(s->p->node)) {
		svc_reply_error(req, ERR_LEADER_UNAVAILABLE);
		return;
	}
	if (s->cluster == NULL || m->name.n == 0 || m->address.n == 0 ||
	    m->address.n > LIMIT_ADDRESS_BYTES || m->raft_id == 0) {
		svc_reply_error(req, ERR_BAD_MESSAGE);
		return;
	}
	if (node_server_find(s->p->node, m->raft_id, &known)) {
		join_again(s, req, &known);
		return;
	}
	/* who it is could not be written down, and nobody could remove it */
	if (!proposer_stats(s->p->proposer)->disk_ok) {
		svc_reply_error(req, ERR_STORAGE_FULL);
		return;
	}
	why = old_id != 0 ? why_it_stays(s, old_id) : why_full(s);
	if (why != NULL) {
		rpc_reply(req, ERR_CONFLICT, 0, str_from(why));
		return;
	}
	j = xcalloc(1, sizeof(*j));
	j->s = s;
	j->req = req;
	MSG_SET(&j->m, cluster_join, raft_id, m->raft_id);
	MSG_SET(&j->m, cluster_join, name, arena_copy(&j->a, m->name));
	MSG_SET(&j->m, cluster_join, address, arena_copy(&j->a, m->address));
	MSG_SET(&j->m, cluster_join, version, arena_copy(&j->a, m->version));
	MSG_SET(&j->m, cluster_join, http, arena_copy(&j->a, m->http));
	MSG_SET(&j->m, cluster_join, level_min, m->level_min);
	MSG_SET(&j->m, cluster_join, level_max, m->level_max);
	if (old_id != 0)
		replace(j, old_id);
	else
		add(j);
}

/* --- a node that is invited --- */

/* It is dialled, told where we are, and then asks by itself. */
struct invite {
	struct list node; /* in svc.invites */
	struct svc *s;
	struct rpc_req req;
	char address[LIMIT_ADDRESS_BYTES + 1];
	char wanted[LIMIT_NODE_NAME_BYTES + 1]; /* its name; empty: any */
	char name[HELLO_NAME_BYTES + 1];
	uint64_t raft_id;
	uint64_t end_ns;
	struct port_dial *dial;
	struct rpc_client *client;
	struct link *link; /* below it */
	struct loop_timer *timer;
};

static void invite_free(struct invite *v)
{
	list_remove(&v->node);
	v->s->invites_n--;
	if (v->dial != NULL)
		port_dial_cancel(v->dial);
	rpc_client_free(v->client);
	loop_timer_remove(v->timer);
	free(v);
}

_printf_(3, 4) static void invite_refuse(struct invite *v, int err,
					 const char *fmt, ...)
{
	char text[ANSWER_BYTES];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	rpc_reply(v->req, err, 0, str_from(text));
	invite_free(v);
}

static void invite_done(struct invite *v, bool added)
{
	struct m_cluster_add_reply r = { 0 };

	MSG_SET(&r, cluster_add_reply, status, STR("ok"));
	MSG_SET(&r, cluster_add_reply, added, added);
	MSG_SET(&r, cluster_add_reply, node_id, str_from(v->name));
	MSG_SET(&r, cluster_add_reply, addr, str_from(v->address));
	svc_reply(v->s, v->req, &msg_cluster_add_reply, &r);
	invite_free(v);
}

/* Whether it has been taken in, on its own request. */
static void on_invite_timer(void *ctx)
{
	struct invite *v = ctx;
	struct node_server known;

	if (node_server_find(v->s->p->node, v->raft_id, &known))
		invite_done(v, true);
	else if (!node_is_ready(v->s->p->node)) /* the next one may do it */
		invite_refuse(v, ERR_OUTCOME_UNKNOWN, "%s",
			      err_text(ERR_OUTCOME_UNKNOWN));
	else if (clock_mono_ns() >= v->end_ns)
		invite_refuse(v, ERR_JOIN_ERROR,
			      "node %s at %s was invited and has not come; its "
			      "log says why",
			      v->name, v->address);
	else
		loop_timer_arm(v->timer, INVITE_LOOK_NS);
}

static void on_invited(void *ctx, const struct rpc_reply *r)
{
	struct invite *v = ctx;

	/* the end of it is the timer's, as this is inside its client */
	if (r->err != 0)
		v->end_ns = 0;
	loop_timer_arm(v->timer, 0);
}

static struct link *open_invite(void *ctx, const struct link_ops *ops,
				void *ops_ctx)
{
	struct invite *v = ctx;

	v->link = peer_link_inbound(ops, ops_ctx);
	return v->link;
}

static void invite(struct invite *v, struct port_conn *c)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(0);
	struct m_cluster_invite m = { 0 };
	struct frame_request item = { .op = QUERY_CLUSTER_INVITE };

	v->client =
	    rpc_client_to_node(v->s->p->d->loop, "a node", open_invite, v);
	MSG_SET(&m, cluster_invite, address, str_from(v->s->p->address));
	msg_encode(&msg_cluster_invite, &m, &body);
	item.body = buf_str(&body);
	item.deadline_ns = clock_mono_ns() + INVITE_ASK_NS;
	(void)rpc_forward(v->client, &item, ERR_LEADER_UNAVAILABLE, on_invited,
			  v);
	peer_link_attach(v->link, c);
}

/* What it is, it has said in the handshake. */
static void judge_invited(struct invite *v, struct port_conn *c)
{
	const struct port_peer *peer = &c->peer;
	bool ours = history_eq(&peer->cluster, node_history(v->s->p->node));
	struct node_server known;

	v->raft_id = peer->raft_id;
	(void)snprintf(v->name, sizeof(v->name), "%s", peer->name);
	if (v->wanted[0] != '\0' && strcmp(v->wanted, v->name) != 0) {
		invite_refuse(v, ERR_CONFLICT, "the node at %s is named %s",
			      v->address, v->name);
	} else if (node_server_find(v->s->p->node, v->raft_id, &known)) {
		invite_done(v, false);
	} else if (!history_is_none(&peer->cluster)) {
		invite_refuse(v, ERR_CONFLICT,
			      ours ? "node %s at %s was removed from this "
				     "cluster; it can come back with an empty "
				     "data directory"
				   : "node %s at %s has data of another "
				     "cluster; it can join with an empty data "
				     "directory",
			      v->name, v->address);
	} else {
		invite(v, c);
		return;
	}
	port_conn_free(c);
}

static void on_invite_dialled(void *ctx, struct port_conn *c)
{
	struct invite *v = ctx;

	v->dial = NULL;
	if (c != NULL) {
		judge_invited(v, c);
	} else if (port_dial_code(v->s->p->port) == HELLO_SAME_NODE) {
		(void)snprintf(v->name, sizeof(v->name), "%s",
			       v->s->p->d->settings.node_id);
		invite_done(v, false);
	} else {
		invite_refuse(v, ERR_JOIN_ERROR,
			      "the node at %s cannot be asked: %s", v->address,
			      port_dial_why(v->s->p->port));
	}
}

static bool is_address(struct str text)
{
	_cleanup_(buf_done) struct buf address = BUF_INIT(0);
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct str host;
	uint16_t port;

	buf_put_str(&address, text);
	buf_putc(&address, '\0');
	return hello_address_ok(text) &&
	       netaddr_split(address.p, &host, &port, &why) == 0 &&
	       host.n > 0 && port != 0;
}

void q_cluster_add(struct svc *s, struct rpc_req req,
		   const struct m_cluster_add *m)
{
	struct port_target t = { 0 };
	struct invite *v;

	if (s->p->port == NULL) {
		rpc_reply(req, ERR_CONFLICT, 0,
			  STR("this node has no port for other nodes; start "
			      "it with --cluster"));
		return;
	}
	if (!is_address(m->addr)) {
		rpc_reply(req, ERR_VALIDATION_ERROR, 0,
			  STR("addr is host:port of the node's raft_bind"));
		return;
	}
	if (s->invites_n == LIMIT_INVITES) {
		rpc_reply(req, ERR_CONFLICT, 0,
			  STR("too many nodes are being invited; try again"));
		return;
	}
	v = xcalloc(1, sizeof(*v));
	v->s = s;
	v->req = req;
	v->end_ns = clock_mono_ns() + INVITE_NS;
	(void)snprintf(v->address, sizeof(v->address), "%.*s",
		       STR_ARG(m->addr));
	(void)snprintf(v->wanted, sizeof(v->wanted), "%.*s",
		       STR_ARG(m->node_id));
	v->timer = loop_timer_add(s->p->d->loop, on_invite_timer, v);
	list_push_back(&s->invites, &v->node);
	s->invites_n++;
	t.address = v->address;
	v->dial = port_dial(s->p->port, PURPOSE_JOIN, &t, on_invite_dialled, v);
}

void invites_init(struct svc *s)
{
	list_init(&s->invites);
}

void svc_end_invites(struct svc *s)
{
	LIST_FOREACH_SAFE (it, &s->invites)
		invite_free(list_entry(it, struct invite, node));
}

void invites_turn_end(struct svc *s)
{
	LIST_FOREACH (it, &s->invites) {
		struct invite *v = list_entry(it, struct invite, node);

		if (v->client != NULL)
			rpc_client_flush(v->client);
	}
}
