/*
 * The members of the cluster: taking nodes in, making them voters, removing
 * them, handing leadership over. What is known of them: serve/nodes.c. Loop
 * thread.
 *
 * A node that joins is a spare first, which costs nobody anything; then it is
 * sent the log; when it has caught up it votes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "rt/log.h"
#include "rt/room.h"
#include "serve/svc_impl.h"
#include "util/clock.h"

#define LOOK_NS      (500 * NS_PER_MS)
#define CAUGHT_UP    1000 /* entries behind, at most */
#define ANSWER_BYTES 512

struct svc_cluster {
	struct svc *s;
	struct loop_timer *look;
	bool changing; /* a server is being made more of */
};

/* --- growing --- */

static void on_grown(void *ctx, int err)
{
	struct svc_cluster *c = ctx;

	c->changing = false;
	if (err < 0 && err != -ERR_REQUEST_TIMEOUT)
		log_warn("a member could not be changed: %s", err_text(-err));
}

static bool has_caught_up(struct svc_cluster *c, uint64_t raft_id)
{
	struct m_node_report m;
	struct node_info i;

	node_info(c->s->p->node, &i);
	return nodes_last_report(c->s->nodes, raft_id, &m) &&
	       m.applied_index + CAUGHT_UP >= i.applied_index;
}

static void grow(struct svc_cluster *c, const struct node_server *s)
{
	enum node_role next;

	if (s->role == NODE_VOTER || c->changing)
		return;
	next = s->role == NODE_SPARE ? NODE_STANDBY : NODE_VOTER;
	if (next == NODE_VOTER && !has_caught_up(c, s->id))
		return;
	c->changing = node_assign(c->s->p->node, s->id, next, on_grown, c) == 0;
	if (c->changing)
		log_info("%s %s", s->address,
			 next == NODE_VOTER ? "has caught up and is to vote"
					    : "is sent the log");
}

struct stale {
	struct svc_cluster *c;
	uint64_t raft_id; /* 0: none */
};

static void look_for_stale(void *ctx, const struct m_member *m)
{
	struct stale *s = ctx;
	struct node_server server;

	if (!node_server_find(s->c->s->p->node, m->raft_id, &server))
		s->raft_id = m->raft_id;
}

/* Records of nodes that raft does not know any more. */
static void forget_stale(struct svc_cluster *c)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(0);
	struct stale s = { .c = c };
	struct m_member_ref m = { 0 };

	fsm_members(c->s->p->fsm, look_for_stale, &s);
	if (s.raft_id == 0)
		return;
	MSG_SET(&m, member_ref, raft_id, s.raft_id);
	msg_encode(&msg_member_ref, &m, &body);
	proposer_submit_own(c->s->p->proposer, OP_FORGET_MEMBER,
			    buf_str(&body));
}

static void keep_house(struct svc_cluster *c)
{
	struct node_server all[NODE_SERVERS_MAX];
	size_t n = node_servers(c->s->p->node, all, ARRAY_SIZE(all));

	for (size_t i = 0; i < n; i++)
		grow(c, &all[i]);
	if (!c->changing)
		forget_stale(c);
}

static void on_look(void *ctx)
{
	struct svc_cluster *c = ctx;

	nodes_look(c->s->nodes);
	if (node_is_ready(c->s->p->node))
		keep_house(c);
	hand_over_look(c->s);
	loop_timer_arm(c->look, LOOK_NS);
}

/* --- taking in --- */

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
	char text[ANSWER_BYTES];

	(void)snprintf(text, sizeof(text),
		       err == -ERR_CONFLICT
			   ? "another change of the members is under way; try "
			     "again"
			   : "%s",
		       err_text(-err));
	rpc_reply(j->req, -err, 0, str_from(text));
	joining_free(j);
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

struct by_name {
	struct str name;
	uint64_t raft_id; /* 0: none */
};

static void look_at_name(void *ctx, const struct m_member *m)
{
	struct by_name *b = ctx;

	if (str_eq(m->name, b->name))
		b->raft_id = m->raft_id;
}

static uint64_t id_by_name(struct svc *s, struct str name)
{
	struct by_name b = { .name = name };

	fsm_members(s->p->fsm, look_at_name, &b);
	return b.raft_id;
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

void q_cluster_join(struct svc *s, struct rpc_req req,
		    const struct m_cluster_join *m)
{
	uint64_t old_id = id_by_name(s, m->name);
	struct node_server known;
	struct joining *j;

	if (!node_is_ready(s->p->node)) {
		svc_reply_error(req, ERR_LEADER_UNAVAILABLE);
		return;
	}
	if (s->cluster == NULL || m->name.n == 0 || m->address.n == 0 ||
	    m->raft_id == 0) {
		svc_reply_error(req, ERR_BAD_MESSAGE);
		return;
	}
	if (node_server_find(s->p->node, m->raft_id, &known)) {
		say_joined(s, req, false);
		return;
	}
	if (old_id != 0 && nodes_is_alive(s->nodes, old_id)) {
		rpc_reply(req, ERR_CONFLICT, 0,
			  STR("a node of that name is in the cluster and "
			      "answers; start with another --node-id"));
		return;
	}
	j = xcalloc(1, sizeof(*j));
	j->s = s;
	j->req = req;
	MSG_SET(&j->m, cluster_join, raft_id, m->raft_id);
	MSG_SET(&j->m, cluster_join, name, arena_copy(&j->a, m->name));
	MSG_SET(&j->m, cluster_join, address, arena_copy(&j->a, m->address));
	if (old_id != 0)
		replace(j, old_id);
	else
		add(j);
}

/* --- removing and handing over --- */

struct asked {
	struct svc *s;
	struct rpc_req req;
	const char *done; /* what to say then */
};

static void on_done(void *ctx, int err)
{
	struct asked *a = ctx;
	struct m_status_reply r = { 0 };

	MSG_SET(&r, status_reply, status, str_from(a->done));
	if (err < 0)
		svc_reply_error(a->req, -err);
	else
		svc_reply(a->s, a->req, &msg_status_reply, &r);
	free(a);
}

static struct asked *asked_new(struct svc *s, struct rpc_req req,
			       const char *done)
{
	struct asked *a = xcalloc(1, sizeof(*a));

	a->s = s;
	a->req = req;
	a->done = done;
	return a;
}

/* False: refused, and answered. */
static bool find_node(struct svc *s, struct rpc_req req, struct str name,
		      struct node_server *ret)
{
	uint64_t id = id_by_name(s, name);
	char text[ANSWER_BYTES];

	if (id != 0 && node_server_find(s->p->node, id, ret))
		return true;
	(void)snprintf(text, sizeof(text),
		       "no node of the cluster is named \"%.*s\"",
		       STR_ARG(name));
	rpc_reply(req, ERR_NOT_FOUND, 0, str_from(text));
	return false;
}

void q_cluster_remove(struct svc *s, struct rpc_req req,
		      const struct m_cluster_node_ref *m)
{
	struct node_server target;
	struct asked *a;
	int r;

	if (!find_node(s, req, m->node_id, &target))
		return;
	if (target.role == NODE_VOTER && node_voters(s->p->node) == 1) {
		rpc_reply(
		    req, ERR_CONFLICT, 0,
		    STR("it is the only node that votes: without it there "
			"would be no cluster"));
		return;
	}
	a = asked_new(s, req, "removed");
	r = node_remove(s->p->node, target.id, on_done, a);
	if (r < 0)
		on_done(a, r);
}

void q_cluster_transfer(struct svc *s, struct rpc_req req,
			const struct m_cluster_node_ref *m)
{
	struct node_server target = { 0 };
	struct asked *a;
	int r;

	if (m->node_id.n > 0 && !find_node(s, req, m->node_id, &target))
		return;
	if (target.id != 0 && target.role != NODE_VOTER) {
		rpc_reply(req, ERR_CONFLICT, 0,
			  STR("that node does not vote yet, so it cannot lead; "
			      "wait until it has caught up"));
		return;
	}
	if (node_voters(s->p->node) < 2) {
		rpc_reply(req, ERR_CONFLICT, 0,
			  STR("there is no other node that could lead"));
		return;
	}
	a = asked_new(s, req, "transferred");
	r = node_transfer(s->p->node, target.id, on_done, a);
	if (r < 0)
		on_done(a, r);
}

/* --- life --- */

struct svc_cluster *svc_cluster_new(struct svc *s)
{
	struct svc_cluster *c = xcalloc(1, sizeof(*c));

	c->s = s;
	c->look = loop_timer_add(s->p->d->loop, on_look, c);
	loop_timer_arm(c->look, LOOK_NS);
	return c;
}

void svc_cluster_free(struct svc_cluster *c)
{
	if (c == NULL)
		return;
	loop_timer_remove(c->look);
	free(c);
}
