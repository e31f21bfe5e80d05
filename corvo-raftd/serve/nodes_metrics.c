/*
 * Numbers of a node among others. Loop thread.
 */
#include "rt/procstat.h"
#include "serve/nodes_impl.h"

static void put(struct metric_list *o, enum metric_id id, double value)
{
	metric_add(o, id, value, STR_NULL);
}

/* Of this node; 0 of one that leads, or is alone. */
static void put_own(struct metric_list *o, const struct m_cluster_node *own)
{
	put(o, METRIC_CLUSTER_LAG_ENTRIES, (double)own->lag_entries);
	put(o, METRIC_CLUSTER_LAG, (double)own->lag_ms / 1000);
	put(o, METRIC_CLUSTER_LAST_CONTACT,
	    MSG_HAS(own, cluster_node, last_contact_ms)
		? (double)own->last_contact_ms / 1000
		: METRIC_UNKNOWN);
	put(o, METRIC_CLUSTER_CLOCK_OFFSET,
	    (double)own->clock_offset_ms / 1000);
}

/* Each node by its name, as this one knows it. */
static void put_node(struct metric_list *o, const struct m_cluster_node *n)
{
	struct str label = arena_printf(o->a, "node=\"%.*s\"", STR_ARG(n->id));

	metric_add(o, METRIC_CLUSTER_NODE_UP, n->alive, label);
	metric_add(o, METRIC_CLUSTER_NODE_DISK_FREE,
		   MSG_HAS(n, cluster_node, disk_free_bytes)
		       ? (double)n->disk_free_bytes
		       : METRIC_UNKNOWN,
		   label);
	metric_add(o, METRIC_CLUSTER_NODE_DIFFERS, n->differs != 0, label);
}

static void put_snapshots(struct metric_list *o, struct svc *s)
{
	struct fetching f = { 0 };

	if (s->p->fetching != NULL)
		s->p->fetching(s->p->fetching_ctx, &f);
	put(o, METRIC_SNAPSHOT_SENT, (double)s->snapshot_sent);
	put(o, METRIC_SNAPSHOT_RECEIVED, (double)f.received);
	put(o, METRIC_SNAPSHOT_FETCH_FAILURES, (double)f.failures);
	put(o, METRIC_STORE_FROZEN, node_is_frozen(s->p->node));
	put(o, METRIC_STORE_HEALED, s->p->healed);
}

void nodes_metrics(struct svc *s, struct metric_list *o)
{
	struct m_cluster_node *rows, none = { 0 };
	const struct m_cluster_node *own = &none;
	size_t n = svc_nodes(s, &rows), up = 0;
	struct node_info i;

	node_info(s->p->node, &i);
	put(o, METRIC_RAFT_TERM, (double)i.term);
	put(o, METRIC_RAFT_ELECTIONS,
	    (double)(i.term - MIN(i.term, s->first_term)));
	for (size_t k = 0; k < n; k++) {
		if (rows[k].self)
			own = &rows[k];
		else
			up += rows[k].alive;
		if (rows[k].id.n > 0)
			put_node(o, &rows[k]);
	}
	put(o, METRIC_CLUSTER_NODES, (double)n);
	put(o, METRIC_CLUSTER_PEERS, (double)up);
	put_own(o, own);
	put(o, METRIC_CLUSTER_DIGESTS,
	    s->compare != NULL ? (double)compare_made(s) : 0);
	put(o, METRIC_FORWARDED,
	    s->p->forward != NULL ? (double)forward_passed(s->p->forward) : 0);
	put_snapshots(o, s);
}
