/*
 * A leader whose disk is full refuses writes for the whole cluster, although
 * others may have room: then one of those is to lead. And a node whose raft
 * gave up, for want of room mostly, is started again when that may help. Loop
 * thread.
 */
#include <stdlib.h>

#include "rt/log.h"
#include "rt/room.h"
#include "serve/svc_impl.h"
#include "util/clock.h"

#define FULL_NS  (2 * NS_PER_S)  /* not for a moment's sake */
#define AGAIN_NS (10 * NS_PER_S) /* after a try */
#define NEAR     1000            /* entries behind, at most */

static bool can_lead(struct svc *s, const struct node_server *n)
{
	struct m_node_report m;
	struct node_info i;

	node_info(s->p->node, &i);
	return n->role == NODE_VOTER && n->id != node_id(s->p->node) &&
	       nodes_last_report(s->nodes, n->id, &m) && m.disk_ok &&
	       m.applied_index + NEAR >= i.applied_index;
}

static void on_transferred(_unused_ void *ctx, int err)
{
	if (err < 0)
		log_warn("no node with room took the lead: %s; trying again",
			 err_text(-err));
}

static void hand_over(struct svc *s)
{
	struct node_server all[NODE_SERVERS_MAX];
	size_t n = node_servers(s->p->node, all, ARRAY_SIZE(all));

	for (size_t i = 0; i < n; i++) {
		if (!can_lead(s, &all[i]))
			continue;
		log_warn("the disk of this node is full and %s has room: it is "
			 "to lead",
			 all[i].address);
		/* the vote for it has to be written down */
		room_give_back(&s->p->d->settings);
		(void)node_transfer(s->p->node, all[i].id, on_transferred, s);
		return;
	}
}

static void look_at_dead(struct svc *s)
{
	if (node_has_diverged(s->p->node)) {
		log_error("consensus was violated; stopping, and not to be "
			  "started again with this data");
		daemon_exit(s->p->d, EXIT_NO_RETRY);
		return;
	}
	if (!proposer_stats(s->p->proposer)->disk_ok) {
		if (!s->said_dead)
			log_error("the log or its term could not be written, "
				  "and the disk is full: this node takes no "
				  "part in the cluster until there is room");
		s->said_dead = true;
		return;
	}
	log_error("the log or its term could not be written; starting again");
	daemon_exit(s->p->d, EXIT_FAILURE);
}

void hand_over_look(struct svc *s)
{
	uint64_t now_ns = clock_mono_ns();

	if (node_is_dead(s->p->node)) {
		look_at_dead(s);
	} else if (!node_is_ready(s->p->node) ||
		   proposer_stats(s->p->proposer)->disk_ok) {
		s->full_ns = 0;
	} else if (s->full_ns == 0) {
		s->full_ns = now_ns;
	} else if (now_ns >= s->full_ns + FULL_NS) {
		s->full_ns = now_ns + AGAIN_NS;
		hand_over(s);
	}
}
