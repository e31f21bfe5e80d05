#include "join.h"

#include <stdlib.h>

#include "cluster/peer_link.h"
#include "rt/log.h"
#include "serve/gather.h"
#include "util/clock.h"

#define ASK_NS   (5 * NS_PER_S)  /* for an answer */
#define PAUSE_NS (1 * NS_PER_S)  /* before the next one is asked */
#define LOG_NS   (30 * NS_PER_S) /* for the leader's log, then asked again */
#define TELL_NS  (10 * NS_PER_S) /* between lines about the same */

struct join {
	struct parts *p;
	struct port *port;
	const struct join_ops *ops;
	void *ctx;
	struct gather *gather; /* finds those to ask */
	struct loop_timer *timer;
	struct link *link; /* below the client */
	struct rpc_client *client;
	struct rpc_call *call;
	struct found members; /* to be asked, and which is next */
	size_t next;
	struct buf address; /* of the one being asked */
	struct buf told;    /* last line */
	uint64_t told_ns;
};

static struct link *open_link(void *ctx, const struct link_ops *ops,
			      void *ops_ctx)
{
	struct join *j = ctx;

	j->link = peer_link_new(j->port, PURPOSE_JOIN, ops, ops_ctx);
	return j->link;
}

/* The same line again and again helps nobody. */
static void tell(struct join *j, struct str why)
{
	uint64_t now = clock_mono_ns();

	if (str_eq(buf_str(&j->told), why) && now - j->told_ns < TELL_NS)
		return;
	buf_clear(&j->told);
	buf_put_str(&j->told, why);
	j->told_ns = now;
	log_warn("%s does not take this node in: %.*s; trying on", j->address.p,
		 STR_ARG(why));
}

/* Why this node is not in the cluster that was answered; NULL: it is. */
static const char *take_answer(struct join *j, struct str body)
{
	struct arena a = ARENA_INIT;
	struct m_cluster_join_reply m;
	struct history cluster = { 0 };
	bool ok = msg_decode(&msg_cluster_join_reply, body, &a, &m) == 0 &&
		  history_parse(m.cluster, &cluster);

	arena_done(&a);
	if (!ok)
		return "its answer cannot be read";
	if (history_is_none(&cluster))
		return "it does not know the id of its cluster";
	if (!j->ops->on_joined(j->ctx, &cluster))
		return "it is in another cluster than the log that came";
	return NULL;
}

static void on_answer(void *ctx, const struct rpc_reply *r)
{
	struct join *j = ctx;
	const char *why;

	j->call = NULL;
	if (r->err != 0) {
		tell(j, r->body);
		loop_timer_arm(j->timer, PAUSE_NS);
		return;
	}
	why = take_answer(j, r->body);
	if (why == NULL) {
		log_info("taken in by %s; waiting for the log", j->address.p);
		loop_timer_arm(j->timer, LOG_NS);
	} else {
		tell(j, str_from(why));
		loop_timer_arm(j->timer, PAUSE_NS);
	}
}

static void choose(struct join *j)
{
	struct port_target t = { 0 };

	buf_clear(&j->address);
	buf_puts(&j->address, j->members.at[j->next++]);
	buf_putc(&j->address, '\0');
	t.address = j->address.p;
	peer_link_target(j->link, &t);
}

static void ask(struct join *j)
{
	const struct settings *s = &j->p->d->settings;
	_cleanup_(buf_done) struct buf body = BUF_INIT(0);
	struct m_cluster_join m = { 0 };
	struct frame_request item = { .op = QUERY_CLUSTER_JOIN };

	choose(j);
	MSG_SET(&m, cluster_join, name, str_from(s->node_id));
	MSG_SET(&m, cluster_join, raft_id, node_id(j->p->node));
	MSG_SET(&m, cluster_join, address, str_from(settings_advertise(s)));
	MSG_SET(&m, cluster_join, version, str_from(corvo_version));
	MSG_SET(&m, cluster_join, http, str_from(s->bind));
	MSG_SET(&m, cluster_join, level_min, 1);
	MSG_SET(&m, cluster_join, level_max, FEATURE_LEVEL);
	msg_encode(&msg_cluster_join, &m, &body);
	item.body = buf_str(&body);
	item.deadline_ns = clock_mono_ns() + ASK_NS;
	j->call =
	    rpc_forward(j->client, &item, ERR_LEADER_UNAVAILABLE, on_answer, j);
}

/* A leader has told this node that it belongs to its cluster. */
static bool is_in(const struct join *j)
{
	struct node_server s;

	return node_server_find(j->p->node, node_id(j->p->node), &s);
}

/* The cluster that took it in and never sent its log may be there no more: then
 * another one is as good. */
static void say_whose(struct join *j, bool in)
{
	static const struct history none;

	port_set_cluster(j->port, in ? node_history(j->p->node) : &none);
}

static void on_timer(void *ctx)
{
	struct join *j = ctx;
	bool in = is_in(j);

	if (in || j->next == j->members.n)
		peer_link_target(j->link, NULL);
	if (in || j->call == NULL)
		say_whose(j, in);
	if (in || j->call != NULL)
		return;
	if (j->next < j->members.n)
		ask(j);
	else
		gather_go(j->gather);
}

static void on_members(void *ctx, const struct found *members)
{
	struct join *j = ctx;

	j->members = *members;
	j->next = 0;
	loop_timer_arm(j->timer, 0);
}

static void on_chosen(void *ctx)
{
	struct join *j = ctx;

	j->ops->on_chosen(j->ctx);
}

static const struct gather_ops gather_ops = { .on_members = on_members,
					      .on_chosen = on_chosen };

struct join *join_new(struct parts *p, struct port *port,
		      const struct join_ops *ops, void *ctx)
{
	struct join *j = xcalloc(1, sizeof(*j));

	j->p = p;
	j->port = port;
	j->ops = ops;
	j->ctx = ctx;
	j->client = rpc_client_to_node(p->d->loop, "a cluster", open_link, j);
	j->timer = loop_timer_add(p->d->loop, on_timer, j);
	j->gather = p->gather = gather_new(p, port, &gather_ops, j);
	loop_timer_arm(j->timer, 0);
	return j;
}

void join_free(struct join *j)
{
	if (j == NULL)
		return;
	j->p->gather = NULL;
	gather_free(j->gather);
	rpc_client_free(j->client);
	loop_timer_remove(j->timer);
	buf_done(&j->address);
	buf_done(&j->told);
	free(j);
}

void join_turn_end(struct join *j)
{
	gather_turn_end(j->gather);
	rpc_client_flush(j->client);
}
