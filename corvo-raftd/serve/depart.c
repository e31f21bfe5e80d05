/*
 * Nodes that go: removed by name, leaving by themselves; and leadership handed
 * over. Loop thread.
 */
#include <stdio.h>
#include <stdlib.h>

#include "rt/log.h"
#include "serve/standing.h"
#include "serve/svc_impl.h"
#include "util/clock.h"

#define ANSWER_BYTES   512
#define LEAVE_NS       (5 * NS_PER_S)    /* in all */
#define LEAVE_AGAIN_NS (200 * NS_PER_MS) /* when the members change */

/* --- answers --- */

struct asked {
	struct svc *s;
	struct rpc_req req;
	bool is_again;    /* it may have been done before */
	const char *done; /* what to say then */
	const char *late; /* and when it has not come about; NULL: no more */
};

/* What is in its way may be what the same request has begun before. */
static void refuse(struct rpc_req req, int err, bool is_again)
{
	if (err == -ERR_CONFLICT && is_again)
		svc_reply_error(req, ERR_OUTCOME_UNKNOWN);
	else
		svc_refuse_change(req, err);
}

static void on_done(void *ctx, int err)
{
	struct asked *a = ctx;
	struct m_status_reply r = { 0 };

	MSG_SET(&r, status_reply, status, str_from(a->done));
	if (err == -ERR_REQUEST_TIMEOUT && a->late != NULL)
		rpc_reply(a->req, ERR_REQUEST_TIMEOUT, 0, str_from(a->late));
	else if (err < 0)
		refuse(a->req, err, a->is_again);
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
	a->is_again = s->is_again;
	a->done = done;
	return a;
}

/* Whether raft knows a node that is not written down yet. */
static bool has_nameless(struct svc *s)
{
	struct node_server all[NODE_SERVERS_MAX];
	size_t n = node_servers(s->p->node, all, ARRAY_SIZE(all));
	struct m_member m;

	for (size_t i = 0; i < n; i++)
		if (all[i].id != node_id(s->p->node) &&
		    !fsm_member_find(s->p->fsm, all[i].id, &m))
			return true;
	return false;
}

/* False: refused, and answered. */
static bool find_node(struct svc *s, struct rpc_req req, struct str name,
		      struct node_server *ret)
{
	uint64_t id = svc_id_by_name(s, name);
	char text[ANSWER_BYTES];

	if (str_is(name, s->p->d->settings.node_id))
		id = node_id(s->p->node);
	if (id != 0 && node_server_find(s->p->node, id, ret))
		return true;
	if (s->is_again) { /* perhaps it was, and is removed */
		svc_reply_error(req, ERR_OUTCOME_UNKNOWN);
		return false;
	}
	if (id == 0 && has_nameless(s)) {
		rpc_reply(req, ERR_LEADER_UNAVAILABLE, 0,
			  STR("a node that has just come has not told its name "
			      "yet; try again"));
		return false;
	}
	(void)snprintf(text, sizeof(text),
		       "no node of the cluster is named \"%.*s\"",
		       STR_ARG(name));
	rpc_reply(req, ERR_NOT_FOUND, 0, str_from(text));
	return false;
}

/* --- removing and handing over --- */

/* The leader itself: another one leads then, and removes it. */
struct going {
	struct svc *s;
	struct rpc_req req;
	struct buf body; /* of the request */
};

static void on_gone_over(void *ctx, int err)
{
	struct going *g = ctx;
	struct frame_request item = {
		.op = QUERY_CLUSTER_REMOVE,
		.body = buf_str(&g->body),
		.deadline_ns = clock_mono_ns() + LEAVE_NS,
	};

	/* who asked through another node asks the next leader by itself */
	if (err == -ERR_CONFLICT)
		svc_refuse_change(g->req, err);
	else if (err < 0)
		rpc_reply(g->req, -err, 0,
			  STR("it leads, and no other node took over in time"));
	else if (rpc_req_is_live(g->req))
		forward_submit(g->s->p->forward, g->req, &item);
	buf_done(&g->body);
	free(g);
}

/* Of those that were heard of lately, whichever has most of the log. 0:
 * whichever libraft takes, which looks at the log alone and may take one that
 * is down. */
static uint64_t successor(struct svc *s)
{
	struct node_server all[NODE_SERVERS_MAX];
	size_t n = node_servers(s->p->node, all, ARRAY_SIZE(all));
	uint64_t best = 0, has = 0;

	for (size_t i = 0; s->nodes != NULL && i < n; i++) {
		struct m_node_report m;

		if (all[i].role != NODE_VOTER ||
		    all[i].id == node_id(s->p->node) ||
		    !nodes_last_report(s->nodes, all[i].id, &m) ||
		    (best != 0 && m.applied_index <= has))
			continue;
		best = all[i].id;
		has = m.applied_index;
	}
	return best;
}

static void remove_self(struct svc *s, struct rpc_req req,
			const struct m_cluster_node_ref *m)
{
	struct going *g = xcalloc(1, sizeof(*g));
	int r;

	g->s = s;
	g->req = req;
	g->body = BUF_INIT(0);
	msg_encode(&msg_cluster_node_ref, m, &g->body);
	r = node_transfer(s->p->node, successor(s), on_gone_over, g);
	if (r < 0)
		on_gone_over(g, r);
}

bool svc_can_do_without(struct svc *s, const struct node_server *target)
{
	struct node_server all[NODE_SERVERS_MAX];
	size_t n = node_servers(s->p->node, all, ARRAY_SIZE(all));
	size_t voters = 0, alive = 0;

	if (target->role != NODE_VOTER)
		return true;
	for (size_t i = 0; i < n; i++) {
		if (all[i].role != NODE_VOTER || all[i].id == target->id)
			continue;
		voters++;
		alive += !svc_is_silent(s, all[i].id);
	}
	return alive > voters / 2;
}

void q_cluster_remove(struct svc *s, struct rpc_req req,
		      const struct m_cluster_node_ref *m)
{
	struct node_server target;
	struct asked *a;
	int r;

	if (m->node_id.n == 0) {
		rpc_reply(req, ERR_VALIDATION_ERROR, 0,
			  STR("node_id is required"));
		return;
	}
	if (!find_node(s, req, m->node_id, &target))
		return;
	if (target.role == NODE_VOTER && node_voters(s->p->node) == 1) {
		rpc_reply(
		    req, ERR_CONFLICT, 0,
		    STR("it is the only node that votes: without it there "
			"would be no cluster"));
		return;
	}
	if (!svc_can_do_without(s, &target)) {
		rpc_reply(req, ERR_CONFLICT, 0,
			  STR("too few of the other nodes answer: without it "
			      "there would be no majority; wait for them, or "
			      "remove one that is dead"));
		return;
	}
	if (target.id == node_id(s->p->node)) {
		remove_self(s, req, m);
		return;
	}
	a = asked_new(s, req, "removed");
	r = node_remove(s->p->node, target.id, on_done, a);
	if (r < 0)
		on_done(a, r);
}

bool transfer_name_term(struct svc *s, struct str *body)
{
	struct m_cluster_node_ref m;
	struct node_info i;

	arena_reset(&s->scratch);
	if (msg_decode(&msg_cluster_node_ref, *body, &s->scratch, &m) < 0)
		return false;
	if (!MSG_HAS(&m, cluster_node_ref, term)) {
		node_info(s->p->node, &i);
		MSG_SET(&m, cluster_node_ref, term, i.term);
	}
	buf_clear(&s->out);
	msg_encode(&msg_cluster_node_ref, &m, &s->out);
	*body = buf_str(&s->out);
	return true;
}

/* Another one led when it was asked for: this one may lead because of it. */
static bool is_later(struct svc *s, const struct m_cluster_node_ref *m)
{
	struct node_info i;

	node_info(s->p->node, &i);
	return s->is_again ||
	       (MSG_HAS(m, cluster_node_ref, term) && m->term < i.term);
}

/* To any other node; it may be that this one is that. */
static bool was_transferred(struct svc *s, const struct m_cluster_node_ref *m)
{
	struct node_info i;

	node_info(s->p->node, &i);
	return m->node_id.n == 0 && MSG_HAS(m, cluster_node_ref, term) &&
	       m->term < i.term;
}

void q_cluster_transfer(struct svc *s, struct rpc_req req,
			const struct m_cluster_node_ref *m)
{
	struct node_server target = { 0 };
	struct asked *a;
	int r;

	if (was_transferred(s, m)) {
		on_done(asked_new(s, req, "transferred"), 0);
		return;
	}
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
	if (target.id == node_id(s->p->node)) {
		on_done(
		    asked_new(s, req,
			      is_later(s, m) ? "transferred" : "leads already"),
		    0);
		return;
	}
	a = asked_new(s, req, "transferred");
	a->late = "the node that was to lead did not take over in time, and "
		  "nothing was changed; see whether it is alive";
	r = node_transfer(s->p->node, target.id != 0 ? target.id : successor(s),
			  on_done, a);
	if (r < 0)
		on_done(a, r);
}

/* --- leaving --- */

struct leave {
	struct svc *s;
	struct loop_timer *timer;
	uint64_t end_ns;
	svc_left_fn *fn;
	void *ctx;
};

static void leave_end(struct leave *l, int err, struct str text)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);

	if (err == 0) {
		l->s->left = true;
		log_info("this node has left the cluster");
		if (standing_set(&l->s->p->d->settings, STANDING_LEFT, &why) <
		    0)
			log_error("%.*s", STR_ARG(buf_str(&why)));
	}
	l->s->leaving = NULL;
	l->fn(l->ctx, err, text);
	loop_timer_remove(l->timer);
	free(l);
}

static void on_removed(void *ctx, const struct rpc_reply *r)
{
	struct leave *l = ctx;

	if (r->err == ERR_CONFLICT && clock_mono_ns() < l->end_ns)
		loop_timer_arm(l->timer, LEAVE_AGAIN_NS); /* others change */
	else
		leave_end(l, r->err, r->body);
}

static void ask_to_go(void *ctx)
{
	struct leave *l = ctx;
	_cleanup_(buf_done) struct buf body = BUF_INIT(0);
	struct m_cluster_node_ref m = { 0 };

	MSG_SET(&m, cluster_node_ref, node_id,
		str_from(l->s->p->d->settings.node_id));
	msg_encode(&msg_cluster_node_ref, &m, &body);
	forward_ask(l->s->p->forward, QUERY_CLUSTER_REMOVE, buf_str(&body),
		    l->end_ns, on_removed, l);
}

static void on_handed_over(void *ctx, int err)
{
	struct leave *l = ctx;

	if (err < 0)
		leave_end(l, -err,
			  STR("this node leads, and no other node took over "
			      "in time"));
	else
		loop_timer_arm(l->timer, 0);
}

/* Why it cannot leave; NULL: it can. */
static const char *cannot_leave(struct svc *s)
{
	struct node_server self;

	if (s->p->forward == NULL ||
	    !node_server_find(s->p->node, node_id(s->p->node), &self))
		return "this node is in no cluster that it could leave";
	if (self.role == NODE_VOTER && node_voters(s->p->node) == 1)
		return "it is the only node that votes: without it there would "
		       "be no cluster";
	if (s->leaving != NULL)
		return "this node is leaving already";
	return NULL;
}

const char *svc_leave(struct svc *s, svc_left_fn *fn, void *ctx)
{
	const char *why = cannot_leave(s);
	struct leave *l;
	int r;

	if (why != NULL)
		return why;
	l = xcalloc(1, sizeof(*l));
	l->s = s;
	l->fn = fn;
	l->ctx = ctx;
	l->end_ns = clock_mono_ns() + LEAVE_NS;
	l->timer = loop_timer_add(s->p->d->loop, ask_to_go, l);
	s->leaving = l;
	if (!node_is_leader(s->p->node)) {
		loop_timer_arm(l->timer, 0);
		return NULL;
	}
	r = node_transfer(s->p->node, successor(s), on_handed_over, l);
	if (r < 0)
		on_handed_over(l, r);
	return NULL;
}

static const char is_unknown[] = "this node stops; whether it has left the "
				 "cluster is not known";

void svc_end_leave(struct svc *s)
{
	if (s->leaving != NULL)
		leave_end(s->leaving, ERR_OUTCOME_UNKNOWN,
			  str_from(is_unknown));
}

static void on_left(void *ctx, int err, struct str text)
{
	struct asked *a = ctx;

	if (err != 0)
		rpc_reply(a->req, err, 0, text);
	else
		on_done(a, 0);
	if (err != 0)
		free(a);
}

/* Another node than this one is just removed. */
static void remove_other(struct svc *s, struct rpc_req req,
			 const struct m_cluster_node_ref *m)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(0);
	struct frame_request item = { .op = QUERY_CLUSTER_REMOVE };

	if (s->p->forward == NULL || node_is_ready(s->p->node)) {
		q_cluster_remove(s, req, m);
		return;
	}
	msg_encode(&msg_cluster_node_ref, m, &body);
	item.body = buf_str(&body);
	item.flags = s->is_again ? FRAME_RESEND : 0;
	item.deadline_ns = clock_mono_ns() + LEAVE_NS;
	forward_submit(s->p->forward, req, &item);
}

void q_cluster_leave(struct svc *s, struct rpc_req req,
		     const struct m_cluster_node_ref *m)
{
	struct asked *a;
	const char *why;

	if (m->node_id.n > 0 &&
	    !str_is(m->node_id, s->p->d->settings.node_id)) {
		remove_other(s, req, m);
		return;
	}
	a = asked_new(s, req, "left");
	if (s->left) {
		on_done(a, 0);
		return;
	}
	why = svc_leave(s, on_left, a);
	if (why == NULL)
		return;
	if (s->is_again) /* what is in its way may be itself */
		svc_reply_error(req, ERR_OUTCOME_UNKNOWN);
	else
		rpc_reply(req, ERR_CONFLICT, 0, str_from(why));
	free(a);
}
