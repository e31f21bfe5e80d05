/*
 * The nodes as they are shown: by raft's members, with what they said of
 * themselves; a node that does not lead adds what the leader told it. Loop
 * thread.
 */
#include "serve/nodes_impl.h"

static const char *role_of(const struct svc *s, const struct node_server *n)
{
	if (n->role != NODE_VOTER)
		return n->role == NODE_STANDBY ? "catching_up" : "joining";
	return n->id == node_leader_id(s->p->node) ? "leader" : "follower";
}

static void fill_reported(const struct m_node_report *m,
			  struct m_cluster_node *ret)
{
	MSG_SET(ret, cluster_node, disk_ok, m->disk_ok);
	if (MSG_HAS(m, node_report, disk_free)) {
		MSG_SET(ret, cluster_node, disk_free_bytes, m->disk_free);
		MSG_SET(ret, cluster_node, disk_used_bytes, m->disk_used);
	}
	if (m->snapshot != NULL)
		MSG_SET(ret, cluster_node, snapshot, m->snapshot);
}

static void fill_clock(int64_t offset_ms, bool ok, struct m_cluster_node *ret)
{
	MSG_SET(ret, cluster_node, clock_offset_ms, offset_ms);
	MSG_SET(ret, cluster_node, clock_ok, ok);
}

static void fill_lag(uint64_t entries, uint64_t ms, struct m_cluster_node *ret)
{
	MSG_SET(ret, cluster_node, lag_entries, entries);
	MSG_SET(ret, cluster_node, lag_ms, ms);
}

static void fill_heard(const struct heard *h, struct m_cluster_node *ret)
{
	MSG_SET(ret, cluster_node, last_contact_ms,
		(clock_mono_ns() - h->at_ns) / NS_PER_MS);
	fill_lag(h->lag_entries, h->lag_ms, ret);
	fill_clock(h->offset_ms, !h->clock_off, ret);
	fill_reported(&h->m, ret);
}

/*
 * What it said to this node when that led before is nothing of now: the time
 * since is counted from when this node leads again.
 */
static void fill_by_leader(struct svc *s, const struct heard *h,
			   uint64_t raft_id, struct m_cluster_node *ret)
{
	if (h != NULL && h->at_ns >= svc_seen_ns(s, raft_id))
		fill_heard(h, ret);
	else if (svc_is_silent(s, raft_id))
		MSG_SET(ret, cluster_node, last_contact_ms,
			svc_silence_ns(s, raft_id) / NS_PER_MS);
}

/* The leader's own times are those the others are compared with. */
static void fill_self(struct svc *s, struct m_cluster_node *ret)
{
	struct m_snapshot_progress *p = arena_zalloc(&s->scratch, sizeof(*p));
	struct m_node_report own;

	MSG_SET(ret, cluster_node, self, true);
	MSG_SET(ret, cluster_node, version, str_from(corvo_version));
	MSG_SET(ret, cluster_node, feature_level, FEATURE_LEVEL);
	nodes_fill_report(s, p, &own);
	fill_reported(&own, ret);
	if (node_is_leader(s->p->node)) {
		MSG_SET(ret, cluster_node, last_contact_ms, 0);
		fill_lag(0, 0, ret);
		fill_clock(0, true, ret);
	}
}

/* What the leader told last; false: nothing. */
static bool read_told(struct svc *s, struct m_node_told *ret)
{
	if (s->nodes->told.n == 0)
		return false;
	/* it could be read when it came */
	CHECK(msg_decode(&msg_node_told, buf_str(&s->nodes->told), &s->scratch,
			 ret) == 0);
	return true;
}

/* The leader before this one did not hear of it any more. */
static bool was_dead(struct svc *s, struct str name)
{
	struct m_node_told t;

	if (!read_told(s, &t))
		return false;
	for (size_t k = 0; k < t.nodes_n; k++)
		if (str_eq(name, t.nodes[k].id))
			return !t.nodes[k].alive;
	return false;
}

/* A leader that has just come could not have heard of the others yet. */
static bool is_alive(struct svc *s, uint64_t raft_id, struct str name)
{
	if (raft_id == node_id(s->p->node))
		return true;
	if (s->nodes == NULL)
		return false;
	return nodes_is_alive(s->nodes, raft_id) ||
	       (node_is_leader(s->p->node) && !svc_is_silent(s, raft_id) &&
		!was_dead(s, name));
}

static void fill_node(struct svc *s, const struct node_server *n,
		      struct m_cluster_node *ret)
{
	struct m_member m = { 0 };
	bool known = fsm_member_find(s->p->fsm, n->id, &m);
	const struct heard *h =
	    s->nodes != NULL ? nodes_heard(s->nodes, n->id) : NULL;
	bool self = n->id == node_id(s->p->node);

	*ret = (struct m_cluster_node){ 0 };
	MSG_SET(ret, cluster_node, address,
		known ? m.address : str_from(n->address));
	MSG_SET(ret, cluster_node, voter, n->role == NODE_VOTER);
	MSG_SET(ret, cluster_node, role, str_from(role_of(s, n)));
	MSG_SET(ret, cluster_node, alive, is_alive(s, n->id, m.name));
	if (known) {
		MSG_SET(ret, cluster_node, id, m.name);
		MSG_SET(ret, cluster_node, version, m.version);
		MSG_SET(ret, cluster_node, feature_level, m.level_max);
		MSG_SET(ret, cluster_node, http, m.http);
		if (m.differs != 0)
			MSG_SET(ret, cluster_node, differs, m.differs);
	} else if (self) {
		MSG_SET(ret, cluster_node, id,
			str_from(s->p->d->settings.node_id));
	}
	if (self)
		fill_self(s, ret);
	else if (s->nodes != NULL && node_is_leader(s->p->node))
		fill_by_leader(s, h, n->id, ret);
}

/* Of another node, or of this one: what only the leader can tell. */
static void fill_told(const struct svc_nodes *n, const struct m_cluster_node *t,
		      struct m_cluster_node *ret)
{
	uint64_t age_ns = clock_mono_ns() - n->told_ns;

	if (MSG_HAS(t, cluster_node, last_contact_ms))
		MSG_SET(ret, cluster_node, last_contact_ms,
			(ret->self ? 0 : t->last_contact_ms) +
			    age_ns / NS_PER_MS);
	if (MSG_HAS(t, cluster_node, lag_entries))
		fill_lag(t->lag_entries, t->lag_ms, ret);
	if (MSG_HAS(t, cluster_node, clock_offset_ms))
		fill_clock(t->clock_offset_ms, t->clock_ok, ret);
	if (ret->self)
		return;
	MSG_SET(ret, cluster_node, alive, t->alive && age_ns < NODE_ALIVE_NS);
	if (MSG_HAS(t, cluster_node, disk_ok))
		MSG_SET(ret, cluster_node, disk_ok, t->disk_ok);
	if (MSG_HAS(t, cluster_node, disk_free_bytes)) {
		MSG_SET(ret, cluster_node, disk_free_bytes, t->disk_free_bytes);
		MSG_SET(ret, cluster_node, disk_used_bytes, t->disk_used_bytes);
	}
	if (t->snapshot != NULL)
		MSG_SET(ret, cluster_node, snapshot, t->snapshot);
}

static void fill_all_told(struct svc *s, struct m_cluster_node *rows, size_t n)
{
	struct m_node_told t;

	if (!read_told(s, &t))
		return;
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < t.nodes_n; k++)
			if (rows[i].id.n > 0 &&
			    str_eq(rows[i].id, t.nodes[k].id))
				fill_told(s->nodes, &t.nodes[k], &rows[i]);
}

size_t svc_nodes(struct svc *s, struct m_cluster_node **ret)
{
	struct node_server all[NODE_SERVERS_MAX];
	size_t n = node_servers(s->p->node, all, ARRAY_SIZE(all));

	*ret = arena_zalloc(&s->scratch, (n + 1) * sizeof(**ret));
	for (size_t i = 0; i < n; i++)
		fill_node(s, &all[i], &(*ret)[i]);
	if (s->nodes != NULL && s->nodes->told_ns != 0 &&
	    !node_is_leader(s->p->node))
		fill_all_told(s, *ret, n);
	return n;
}

struct str svc_leader_name(struct svc *s)
{
	uint64_t id = node_leader_id(s->p->node);
	struct m_member m;

	if (id == node_id(s->p->node))
		return str_from(s->p->d->settings.node_id);
	return id != 0 && fsm_member_find(s->p->fsm, id, &m) ? m.name
							     : STR_NULL;
}

void q_cluster_nodes(struct svc *s, struct rpc_req req,
		     _unused_ const struct m_nothing *m)
{
	struct m_cluster_nodes r = { 0 };
	struct m_cluster_node *nodes;
	size_t n = svc_nodes(s, &nodes);

	MSG_SET_LIST(&r, cluster_nodes, nodes, nodes, n);
	svc_reply(s, req, &msg_cluster_nodes, &r);
}
