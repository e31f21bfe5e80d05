#include "peers.h"

#include <stdio.h>
#include <stdlib.h>

#include "apart.h"
#include "cluster/peer_link.h"
#include "heal.h"
#include "join.h"
#include "lost.h"
#include "propose/leases.h"
#include "rt/log.h"
#include "rt/secret.h"
#include "serve/standing.h"
#include "serve/svc.h"

/* A node that asks us; its place stays when its connection goes. */
struct caller {
	struct list node; /* in peers.callers */
	uint64_t raft_id;
	enum port_purpose purpose;
	struct link *link;
};

struct peers {
	struct parts *p;
	struct svc *svc;
	struct port *port;
	struct link *leader;      /* below p->forward */
	uint64_t leader_id;       /* it leads there */
	struct rpc_server *led;   /* what a leader does for others */
	struct rpc_server *aside; /* what any node does for others */
	bool leads;               /* `led` serves */
	struct list callers;
	size_t callers_n[PURPOSE_END];
	struct join *join;   /* NULL: it is in a cluster */
	struct lost *lost;   /* NULL: not started */
	struct apart *apart; /* NULL: it joins, or nothing to join is set */
	struct follow *follow;
	struct heal *heal;
	struct rpc_client *files; /* the link of these; NULL: none */
	struct link *files_link;
};

bool peers_joins(const struct settings *s)
{
	bool alone =
	    !settings_is_cluster(s) ||
	    (s->bootstrap && s->join[0] == '\0' && s->bootstrap_expect == 0 &&
	     settings_discover(s) != DISCOVER_KUBERNETES);

	return !alone && !standing_is(s, STANDING_FOUNDER);
}

/* --- those who ask --- */

static struct link *open_inbound(void *ctx, const struct link_ops *ops,
				 void *ops_ctx)
{
	struct caller *c = ctx;

	c->link = peer_link_inbound(ops, ops_ctx);
	return c->link;
}

/* A node has one connection for a purpose, and a new one takes its place; but
 * one that looks for others may come by several addresses at a time. */
static struct caller *find_caller(struct peers *n, uint64_t raft_id,
				  enum port_purpose purpose)
{
	LIST_FOREACH (it, &n->callers) {
		struct caller *c = list_entry(it, struct caller, node);

		if (c->raft_id == raft_id && c->purpose == purpose &&
		    (purpose != PURPOSE_JOIN || !link_is_up(c->link)))
			return c;
	}
	return NULL;
}

/* The place of one that is not connected goes to another. */
static struct caller *reuse_caller(struct peers *n, enum port_purpose purpose)
{
	LIST_FOREACH (it, &n->callers) {
		struct caller *c = list_entry(it, struct caller, node);

		if (c->purpose == purpose && !link_is_up(c->link))
			return c;
	}
	return NULL;
}

static struct caller *add_caller(struct peers *n, enum port_purpose purpose,
				 const char *name)
{
	struct rpc_server *s = purpose == PURPOSE_RPC ? n->led : n->aside;
	struct caller *c = xcalloc(1, sizeof(*c));

	c->purpose = purpose;
	list_push_back(&n->callers, &c->node);
	n->callers_n[purpose]++;
	(void)rpc_server_add_node(s, name, open_inbound, c);
	return c;
}

/* The other side of apart.h. */
static bool is_of_other_cluster(const struct peers *n,
				const struct port_conn *conn)
{
	const struct history *own = node_history(n->p->node);

	return !history_is_none(own) && !history_is_none(&conn->peer.cluster) &&
	       !history_eq(own, &conn->peer.cluster);
}

/*
 * Who wants to join comes once, and another one comes in its place. Those that
 * belong here have places of their own, whoever else was there before.
 */
static struct caller *place_caller(struct peers *n, enum port_purpose purpose,
				   const char *name)
{
	bool full = n->callers_n[purpose] == LIMIT_PEER_CALLERS;
	struct caller *c = NULL;

	if (full || purpose == PURPOSE_JOIN)
		c = reuse_caller(n, purpose);
	return c != NULL || full ? c : add_caller(n, purpose, name);
}

static void on_caller(void *ctx, struct port_conn *conn)
{
	struct peers *n = ctx;
	struct caller *c;

	if (is_of_other_cluster(n, conn)) {
		log_warn("node %s at %s has data of another cluster than this "
			 "node; neither joins the other",
			 conn->peer.name, conn->peer.address);
		port_conn_free(conn);
		return;
	}
	c = find_caller(n, conn->peer.raft_id, conn->purpose);
	if (c == NULL)
		c = place_caller(n, conn->purpose, conn->peer.name);
	if (c == NULL) {
		log_warn("node %s is not served: there are too many",
			 conn->peer.name);
		port_conn_free(conn);
		return;
	}
	c->raft_id = conn->peer.raft_id;
	peer_link_attach(c->link, conn);
}

/* --- where others are --- */

void peers_find(struct peers *n, uint64_t raft_id, const char *configured,
		struct buf *ret)
{
	const char *heard = port_heard(n->port, raft_id);
	struct m_member m;

	if (heard != NULL)
		buf_puts(ret, heard);
	else if (fsm_member_find(n->p->fsm, raft_id, &m) && m.address.n > 0)
		buf_put_str(ret, m.address);
	else
		buf_puts(ret, configured);
}

/* Whoever it is, at the address it has now. */
static void aim(struct peers *n, struct link *l, const struct node_server *s)
{
	_cleanup_(buf_done) struct buf address = BUF_INIT(0);
	struct port_target t = { .raft_id = s->id };

	peers_find(n, s->id, s->address, &address);
	buf_putc(&address, '\0');
	t.address = address.p;
	peer_link_target(l, &t);
}

void peers_voters(void *ctx, struct lead_voters *ret)
{
	const struct parts *p = ctx;
	struct node_server all[NODE_SERVERS_MAX];
	size_t n = node_servers(p->node, all, ARRAY_SIZE(all));

	ret->self = node_id(p->node);
	for (size_t i = 0; i < n && ret->n < ARRAY_SIZE(ret->ids); i++)
		if (all[i].role == NODE_VOTER)
			ret->ids[ret->n++] = all[i].id;
}

/* --- whoever leads --- */

static struct link *open_leader(void *ctx, const struct link_ops *ops,
				void *ops_ctx)
{
	struct peers *n = ctx;

	n->leader = peer_link_new(n->port, PURPOSE_RPC, ops, ops_ctx);
	return n->leader;
}

static void follow(struct peers *n, uint64_t leader_id)
{
	struct node_server s;

	/* A node that joins hears of the leader before it knows the members. */
	if (leader_id != 0 && !node_server_find(n->p->node, leader_id, &s))
		leader_id = 0;
	if (leader_id == n->leader_id)
		return;
	n->leader_id = leader_id;
	if (leader_id == 0)
		peer_link_target(n->leader, NULL);
	else
		aim(n, n->leader, &s);
}

/* Questions are among them, too, and jobs that were to be given back. */
static void take_back(void *ctx, struct rpc_req req,
		      const struct frame_request *item)
{
	struct peers *n = ctx;

	if (req.peer != NULL)
		svc_ops.on_request(n->svc, req, item);
	else
		proposer_submit_own(n->p->proposer, item->op, item->body);
}

static void begin_to_lead(struct peers *n)
{
	n->leads = true;
	follow(n, 0);
	forward_take_back(n->p->forward, take_back, n);
	rpc_server_resume(n->led);
}

static void lead_no_more(struct peers *n)
{
	n->leads = false;
	rpc_server_pause(n->led);
	proposer_step_down(n->p->proposer);
}

static void follow_leader(struct peers *n)
{
	bool follows = node_is_following(n->p->node);

	follow(n, follows ? node_leader_id(n->p->node) : 0);
}

void peers_on_change(struct peers *n)
{
	bool ready = node_is_ready(n->p->node);

	if (n->leads && !ready)
		lead_no_more(n);
	if (!n->leads && ready)
		begin_to_lead(n);
}

/* --- a node that is too far behind --- */

static struct link *open_files(void *ctx, const struct link_ops *ops,
			       void *ops_ctx)
{
	struct peers *n = ctx;

	n->files_link = peer_link_new(n->port, PURPOSE_FILES, ops, ops_ctx);
	return n->files_link;
}

static struct rpc_client *open_client(void *ctx, uint64_t raft_id)
{
	struct peers *n = ctx;
	struct node_server s = { .id = raft_id, .address = "" };

	/* A node that joins knows no members yet, but who dialled it. */
	if (n->files != NULL || (!node_server_find(n->p->node, raft_id, &s) &&
				 port_heard(n->port, raft_id) == NULL))
		return NULL;
	n->files =
	    rpc_client_to_node(n->p->d->loop, "the leader", open_files, n);
	aim(n, n->files_link, &s);
	return n->files;
}

static void close_client(void *ctx, struct rpc_client *c)
{
	struct peers *n = ctx;

	CHECK(c == n->files);
	rpc_client_free(c);
	n->files = NULL;
}

static bool is_needed(void *ctx, const struct node_install *i)
{
	struct peers *n = ctx;

	if (i->store_only)
		return node_is_frozen(n->p->node);
	return node_needs_snapshot(n->p->node, i->manifest.index, i->term);
}

static bool has_entry(void *ctx, uint64_t index, const struct entry_origin *o)
{
	struct peers *n = ctx;

	node_take_upto(n->p->node, index);
	return node_has_entry(n->p->node, index, o);
}

static bool is_to_heal(void *ctx, uint64_t *ret_index, uint64_t *ret_leader,
		       struct history *ret_history)
{
	const struct peers *n = ctx;
	const struct node *node = n->p->node;

	if (node == NULL || !node_is_frozen(node) || !node_is_following(node))
		return false;
	*ret_index = node_frozen_index(node);
	*ret_leader = node_leader_id(node);
	*ret_history = *node_history(node);
	return true;
}

/* A short one would be over before the leader hears of it by and by. */
static void on_fetch(void *ctx)
{
	struct peers *n = ctx;

	svc_tell_leader(n->svc);
}

static void fetching(void *ctx, struct fetching *ret)
{
	struct peers *n = ctx;
	struct follow_status s;

	follow_status(n->follow, &s);
	*ret = (struct fetching){
		.index = s.active || s.problem.n > 0 ? s.index : 0,
		.done = s.done,
		.total = s.total,
		.received = s.received,
		.failures = s.failures,
		.problem = s.problem,
	};
}

/* The next start puts it in the place of what is there. */
static void on_snapshot_ready(void *ctx)
{
	struct peers *n = ctx;

	log_info("the leader's snapshot is here; starting again with it");
	daemon_exit(n->p->d, EXIT_SUCCESS);
}

void peers_on_install(struct peers *n, const struct node_install *i)
{
	follow_offer(n->follow, i);
}

/* --- start and end --- */

/*
 * Only a leader knows for certain who is no member any more; to others a new
 * one may be news.
 */
static bool is_member(void *ctx, uint64_t raft_id, _unused_ const char *name)
{
	const struct peers *n = ctx;
	struct node_server s;

	return n->p->node == NULL || !node_is_ready(n->p->node) ||
	       node_server_find(n->p->node, raft_id, &s);
}

static int open_port(struct peers *n, struct buf *why)
{
	const struct settings *s = &n->p->d->settings;
	struct port_config c = { .loop = n->p->d->loop, .bind = s->raft_bind };
	_cleanup_(buf_done) struct buf secret = BUF_INIT(0);
	int r = 0;

	if (s->cluster_secret_file[0] != '\0')
		r = secret_read(s->cluster_secret_file, &secret, why);
	if (r == 0)
		r = node_identity(s, peers_joins(s), &c.me.raft_id, why);
	if (r < 0)
		return r;
	c.secret = buf_str(&secret);
	(void)snprintf(c.me.name, sizeof(c.me.name), "%s", s->node_id);
	(void)snprintf(c.me.address, sizeof(c.me.address), "%s",
		       settings_advertise(s));
	c.is_member = is_member;
	c.ctx = n;
	r = port_open(&c, &n->port, why);
	n->p->port = r == 0 ? n->port : NULL;
	return r;
}

static void on_beat(void *ctx, struct str reply)
{
	const struct peers *n = ctx;

	leases_told(n->p->leases, reply);
}

int peers_open(struct parts *p, struct svc *svc, struct peers **ret,
	       struct buf *why)
{
	struct peers *n = xcalloc(1, sizeof(*n));
	int r;

	n->p = p;
	n->svc = svc;
	list_init(&n->callers);
	*ret = n;
	r = open_port(n, why);
	if (r < 0)
		return r;
	n->led = rpc_server_new(p->d->ipc, PROC_RAFTD, &svc_ops, svc);
	rpc_server_pause(n->led);
	n->aside = rpc_server_new(p->d->ipc, PROC_RAFTD, &svc_aside_ops, svc);
	port_serve(n->port, PURPOSE_RPC, on_caller, n);
	port_serve(n->port, PURPOSE_FILES, on_caller, n);
	port_serve(n->port, PURPOSE_JOIN, on_caller, n);
	p->forward = forward_new(p->d->loop, open_leader, n);
	forward_on_beat(p->forward, on_beat, n);
	n->follow = follow_new(&(struct follow_config){
	    .loop = p->d->loop,
	    .settings = &p->d->settings,
	    .open = open_client,
	    .close = close_client,
	    .is_needed = is_needed,
	    .has_entry = has_entry,
	    .on_begin = on_fetch,
	    .on_ready = on_snapshot_ready,
	    .ctx = n,
	});
	n->heal = heal_new(&(struct heal_config){
	    .loop = p->d->loop,
	    .follow = n->follow,
	    .open = open_client,
	    .close = close_client,
	    .wanted = is_to_heal,
	    .ctx = n,
	});
	p->fetching = fetching;
	p->fetching_ctx = n;
	return 0;
}

struct port *peers_port(struct peers *n)
{
	return n->port;
}

static bool on_joined(void *ctx, const struct history *cluster)
{
	struct peers *n = ctx;

	if (!node_set_history(n->p->node, cluster))
		return false;
	port_set_cluster(n->port, cluster);
	return true;
}

/* The next start makes it: a log is begun before the library has opened it. */
static void on_chosen(void *ctx)
{
	struct peers *n = ctx;
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);

	if (standing_set(&n->p->d->settings, STANDING_FOUNDER, &why) < 0) {
		log_error("%.*s", STR_ARG(buf_str(&why)));
		daemon_exit(n->p->d, EXIT_FAILURE);
		return;
	}
	log_info("all expected nodes are here and new; this one makes the "
		 "cluster");
	daemon_exit(n->p->d, EXIT_SUCCESS);
}

static const struct join_ops join_ops = { .on_joined = on_joined,
					  .on_chosen = on_chosen };

static void find_peer(void *ctx, uint64_t raft_id, const char *configured,
		      struct buf *ret)
{
	peers_find(ctx, raft_id, configured, ret);
}

void peers_start(struct peers *n)
{
	port_set_cluster(n->port, node_history(n->p->node));
	n->lost = lost_new(n->p, n->port, find_peer, n);
	if (node_voters(n->p->node) > 0) {
		standing_clear(&n->p->d->settings, STANDING_FOUNDER);
		n->apart =
		    apart_new(n->p->d, n->port, node_history(n->p->node));
		return;
	}
	n->join = join_new(n->p, n->port, &join_ops, n);
	/* it may be for long; others can be asked what it waits for */
	daemon_ready(n->p->d);
}

void peers_free(struct peers *n)
{
	if (n == NULL)
		return;
	join_free(n->join);
	lost_free(n->lost);
	apart_free(n->apart);
	svc_end_invites(n->svc);
	heal_free(n->heal);
	follow_free(n->follow);
	forward_free(n->p->forward);
	n->p->forward = NULL;
	svc_end_leave(n->svc); /* while who asked can be answered */
	rpc_server_free(n->led);
	rpc_server_free(n->aside);
	LIST_FOREACH_SAFE (it, &n->callers)
		free(list_entry(it, struct caller, node));
	port_free(n->port);
	n->p->port = NULL;
	free(n);
}

void peers_turn_end(struct peers *n)
{
	if (!n->leads)
		follow_leader(n);
	forward_flush(n->p->forward);
	rpc_server_flush(n->led);
	rpc_server_flush(n->aside);
	if (n->files != NULL)
		rpc_client_flush(n->files);
	if (n->join != NULL)
		join_turn_end(n->join);
}

/* --- going --- */

struct going {
	node_done_fn *fn;
	void *ctx;
};

static void on_left(void *ctx, int err, struct str text)
{
	struct going *g = ctx;

	if (err != 0)
		log_warn("this node stops without having left the cluster: "
			 "%.*s",
			 STR_ARG(text));
	g->fn(g->ctx, 0);
	free(g);
}

static bool leave(struct peers *n, node_done_fn *fn, void *ctx)
{
	struct going *g = xcalloc(1, sizeof(*g));
	const char *why;

	g->fn = fn;
	g->ctx = ctx;
	why = svc_leave(n->svc, on_left, g);
	if (why == NULL)
		return true;
	log_warn("leave_on_term: %s", why);
	free(g);
	return false;
}

bool peers_hand_over(struct peers *n, node_done_fn *fn, void *ctx)
{
	if (n->p->d->settings.leave_on_term && leave(n, fn, ctx))
		return true;
	return node_is_leader(n->p->node) && node_voters(n->p->node) > 1 &&
	       node_transfer(n->p->node, 0, fn, ctx) == 0;
}
