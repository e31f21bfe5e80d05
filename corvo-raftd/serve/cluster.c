/*
 * The members of the cluster: making voters of those that were taken in
 * (serve/admit.c), letting go of those that are dead. What is known of them:
 * serve/nodes.c. Loop thread.
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

#define LOOK_NS (500 * NS_PER_MS)
/* Until it has asked the leader how far that is: who reads here waits. */
#define FIRST_LOOK_NS (50 * NS_PER_MS)
#define CAUGHT_UP     1000 /* entries behind, at most */

#define DEAD_VOTERS_MIN 3 /* dead or not, so many are left */

/* When a leader first saw a member. */
struct seen {
	uint64_t raft_id; /* 0: a free place */
	uint64_t at_ns;   /* clock_mono_ns */
};

struct svc_cluster {
	struct svc *s;
	struct loop_timer *look;
	bool changing;                      /* a server is being made more of */
	struct seen seen[NODE_SERVERS_MAX]; /* while this node leads */
};

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

uint64_t svc_id_by_name(struct svc *s, struct str name)
{
	struct by_name b = { .name = name };

	fsm_members(s->p->fsm, look_at_name, &b);
	return b.raft_id;
}

void svc_refuse_change(struct rpc_req req, int err)
{
	if (err == -ERR_CONFLICT)
		rpc_reply(req, -err, 0,
			  STR("another change of who is a member, or leads, is "
			      "under way; try again"));
	else
		svc_reply_error(req, -err);
}

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

/* --- those that are dead --- */

static size_t alive_voters(struct svc_cluster *c, const struct node_server *all,
			   size_t n)
{
	size_t alive = 0;

	for (size_t i = 0; i < n; i++)
		alive += all[i].role == NODE_VOTER &&
			 nodes_is_alive(c->s->nodes, all[i].id);
	return alive;
}

static struct seen *seen_of(struct svc_cluster *c, uint64_t raft_id)
{
	for (size_t i = 0; i < ARRAY_SIZE(c->seen); i++)
		if (c->seen[i].raft_id == raft_id)
			return &c->seen[i];
	return NULL;
}

/* Since when this leader knows each of them: one that has just come, or a
 * leader that has, could not have heard anything. */
static void note_seen(struct svc_cluster *c, const struct node_server *all,
		      size_t n)
{
	struct node_server known;

	for (size_t i = 0; i < ARRAY_SIZE(c->seen); i++)
		if (!node_server_find(c->s->p->node, c->seen[i].raft_id,
				      &known))
			c->seen[i].raft_id = 0;
	for (size_t i = 0; i < n; i++) {
		struct seen *place = seen_of(c, 0);

		if (seen_of(c, all[i].id) == NULL && place != NULL)
			*place = (struct seen){ all[i].id, clock_mono_ns() };
	}
}

/* How long nothing was heard of it, as far as this leader can tell. */
static uint64_t silence_ns(struct svc_cluster *c, uint64_t raft_id)
{
	const struct seen *seen = seen_of(c, raft_id);
	uint64_t heard = nodes_heard_ns(c->s->nodes, raft_id);

	return seen == NULL ? 0 : clock_mono_ns() - MAX(seen->at_ns, heard);
}

uint64_t svc_seen_ns(struct svc *s, uint64_t raft_id)
{
	const struct seen *seen = seen_of(s->cluster, raft_id);

	return seen == NULL ? UINT64_MAX : seen->at_ns;
}

uint64_t svc_silence_ns(struct svc *s, uint64_t raft_id)
{
	return silence_ns(s->cluster, raft_id);
}

bool svc_is_silent(struct svc *s, uint64_t raft_id)
{
	return !nodes_is_alive(s->nodes, raft_id) &&
	       silence_ns(s->cluster, raft_id) >= NODE_ALIVE_NS;
}

/*
 * Whether it may go without being asked for. Three voters stay: with fewer the
 * next loss would be the end, and the dead one may yet come back.
 */
static bool is_to_go(struct svc_cluster *c, const struct node_server *s,
		     size_t voters, size_t alive)
{
	uint64_t after_ns = c->s->p->d->settings.remove_dead_after;

	if (after_ns == 0 || nodes_is_alive(c->s->nodes, s->id) ||
	    silence_ns(c, s->id) < after_ns)
		return false;
	if (s->role != NODE_VOTER)
		return true;
	return voters > DEAD_VOTERS_MIN && alive > voters / 2;
}

static void remove_dead(struct svc_cluster *c, const struct node_server *all,
			size_t n)
{
	size_t voters = node_voters(c->s->p->node);
	size_t alive = alive_voters(c, all, n);

	for (size_t i = 0; i < n && !c->changing; i++) {
		struct m_member m = { 0 };

		if (!is_to_go(c, &all[i], voters, alive))
			continue;
		(void)fsm_member_find(c->s->p->fsm, all[i].id, &m);
		log_warn("node %.*s at %s was not heard of for longer than "
			 "remove_dead_after: it is removed",
			 STR_ARG(m.name), all[i].address);
		c->changing =
		    node_remove(c->s->p->node, all[i].id, on_grown, c) == 0;
	}
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
	note_seen(c, all, n);
	remove_dead(c, all, n);
	if (!c->changing)
		forget_stale(c);
}

/*
 * The log of a follower is cut after an entry, too, and when that fails it is
 * tried again after another one. Where nothing is written the leader makes one
 * for whoever asks it whether it leads.
 */
static void ask_for_entry(struct svc_cluster *c)
{
	static const struct m_nothing nothing;
	const struct parts *p = c->s->p;

	if (!node_is_following(p->node) ||
	    !proposer_stats(p->proposer)->disk_ok || !node_wants_entry(p->node))
		return;
	buf_clear(&c->s->out);
	msg_encode(&msg_nothing, &nothing, &c->s->out);
	forward_tell(p->forward, QUERY_FENCE, buf_str(&c->s->out));
}

static void follow(struct svc_cluster *c)
{
	memset(c->seen, 0, sizeof(c->seen));
	ask_for_entry(c);
}

static void on_look(void *ctx)
{
	struct svc_cluster *c = ctx;

	nodes_look(c->s->nodes);
	if (node_is_ready(c->s->p->node))
		keep_house(c);
	else
		follow(c);
	hand_over_look(c->s);
	loop_timer_arm(c->look,
		       node_is_whole(c->s->p->node) ? LOOK_NS : FIRST_LOOK_NS);
}

/* --- life --- */

struct svc_cluster *svc_cluster_new(struct svc *s)
{
	struct svc_cluster *c = xcalloc(1, sizeof(*c));

	c->s = s;
	c->look = loop_timer_add(s->p->d->loop, on_look, c);
	loop_timer_arm(c->look, FIRST_LOOK_NS);
	return c;
}

void svc_cluster_free(struct svc_cluster *c)
{
	if (c == NULL)
		return;
	loop_timer_remove(c->look);
	free(c);
}
