/*
 * Who belongs to the cluster, as raft knows it. See cluster/node.h.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "cluster/node_base.h"
#include "proto/err.h"
#include "rt/log.h"
#include "util/clock.h"

/* The library waits for an election timeout. What it gave up may come about
 * yet: the other node has been asked to lead. */
#define TRANSFER_LATE 3 /* election timeouts */

#define STRANGER_NS (10 * NS_PER_S) /* answered since it last asked */

struct change {
	struct raft_change req;
	struct node *node;
	node_done_fn *done;
	void *ctx;
};

static int change_err(int rv)
{
	switch (rv) {
	case 0:
		return 0;
	case RAFT_NOTLEADER:
	case RAFT_LEADERSHIPLOST:
	case RAFT_SHUTDOWN:
	case RAFT_CANCELED:
		return -ERR_LEADER_UNAVAILABLE;
	case RAFT_BADID:
	case RAFT_NOTFOUND:
		return -ERR_NOT_FOUND;
	case RAFT_NOCONNECTION:
		return -ERR_REQUEST_TIMEOUT; /* it does not catch up */
	default: /* another change is under way, or it is so already */
		return -ERR_CONFLICT;
	}
}

static void on_changed(struct raft_change *req, int status)
{
	struct change *c = container_of(req, struct change, req);

	c->node->changing = false;
	c->done(c->ctx, change_err(status));
	free(c);
}

static struct change *change_new(struct node *n, node_done_fn *done, void *ctx)
{
	struct change *c = xcalloc(1, sizeof(*c));

	c->node = n;
	c->done = done;
	c->ctx = ctx;
	n->changing = true;
	return c;
}

static int change_begun(struct change *c, int rv)
{
	if (rv == 0)
		return 0;
	c->node->changing = false;
	free(c);
	return change_err(rv);
}

/*
 * One thing at a time. Who is handed the lead while a change is under way may
 * not know of it yet, and begin another; and a change needs a leader who stays.
 */
static bool may_change(const struct node *n)
{
	return !n->changing && n->transfer_done == NULL;
}

int node_add(struct node *n, uint64_t id, const char *address,
	     node_done_fn *done, void *ctx)
{
	struct change *c;

	if (!may_change(n))
		return -ERR_CONFLICT;
	c = change_new(n, done, ctx);
	return change_begun(
	    c, raft_add(&n->raft, &c->req, id, address, on_changed));
}

int node_assign(struct node *n, uint64_t id, enum node_role role,
		node_done_fn *done, void *ctx)
{
	static const int roles[] = { [NODE_SPARE] = RAFT_SPARE,
				     [NODE_STANDBY] = RAFT_STANDBY,
				     [NODE_VOTER] = RAFT_VOTER };
	struct change *c;

	if (!may_change(n))
		return -ERR_CONFLICT;
	c = change_new(n, done, ctx);
	return change_begun(
	    c, raft_assign(&n->raft, &c->req, id, roles[role], on_changed));
}

int node_remove(struct node *n, uint64_t id, node_done_fn *done, void *ctx)
{
	struct change *c;

	if (!may_change(n))
		return -ERR_CONFLICT;
	c = change_new(n, done, ctx);
	return change_begun(c, raft_remove(&n->raft, &c->req, id, on_changed));
}

/* --- leadership handed over --- */

static void transfer_end(struct node *n, int err)
{
	node_done_fn *done = n->transfer_done;

	n->transfer_done = NULL;
	n->transfer_late_ns = 0;
	/* a node that stops gives up its lead by itself, which says nothing */
	done(n->transfer_ctx, n->stopping ? -ERR_OUTCOME_UNKNOWN : err);
}

static void on_transferred(struct raft_transfer *req)
{
	struct node *n = req->data;

	if (raft_state(&n->raft) == RAFT_LEADER && !n->stopping)
		n->transfer_late_ns =
		    clock_mono_ns() + TRANSFER_LATE * n->election_ns;
	else
		transfer_end(n, 0);
}

void node_look_at_transfer(struct node *n)
{
	if (n->transfer_late_ns == 0)
		return;
	if (!n->leader)
		transfer_end(n, 0);
	else if (clock_mono_ns() >= n->transfer_late_ns)
		transfer_end(n, -ERR_REQUEST_TIMEOUT);
}

int node_transfer(struct node *n, uint64_t id, node_done_fn *done, void *ctx)
{
	int rv;

	if (!may_change(n) || n->raft.configuration_uncommitted_index != 0)
		return -ERR_CONFLICT;
	n->transfer.data = n;
	n->transfer_done = done;
	n->transfer_ctx = ctx;
	rv = raft_transfer(&n->raft, &n->transfer, id, on_transferred);
	if (rv != 0)
		n->transfer_done = NULL;
	return change_err(rv);
}

/* --- looking --- */

static enum node_role role_of(int raft_role)
{
	if (raft_role == RAFT_VOTER)
		return NODE_VOTER;
	return raft_role == RAFT_STANDBY ? NODE_STANDBY : NODE_SPARE;
}

size_t node_servers(const struct node *n, struct node_server *ret, size_t max)
{
	const struct raft_configuration *c = &n->raft.configuration;
	/* the library gives it back while it is being closed */
	size_t count = n->stopping ? 0 : MIN((size_t)c->n, max);

	for (size_t i = 0; i < count; i++)
		ret[i] = (struct node_server){
			.id = c->servers[i].id,
			.address = c->servers[i].address,
			.role = role_of(c->servers[i].role),
		};
	return count;
}

bool node_server_find(const struct node *n, uint64_t id,
		      struct node_server *ret)
{
	struct node_server all[NODE_SERVERS_MAX];
	size_t count = node_servers(n, all, ARRAY_SIZE(all));

	for (size_t i = 0; i < count; i++)
		if (all[i].id == id) {
			*ret = all[i];
			return true;
		}
	return false;
}

size_t node_voters(const struct node *n)
{
	struct node_server all[NODE_SERVERS_MAX];
	size_t count = node_servers(n, all, ARRAY_SIZE(all)), voters = 0;

	for (size_t i = 0; i < count; i++)
		voters += all[i].role == NODE_VOTER;
	return voters;
}

const struct history *node_history(const struct node *n)
{
	return &n->history;
}

bool node_set_history(struct node *n, const struct history *h)
{
	if (n->raft.configuration.n > 0 && !history_is_none(&n->history) &&
	    !history_eq(&n->history, h))
		return false;
	n->history = *h;
	if (!n->stopping)
		node_base_let_in(n);
	return true;
}

/* --- who is talked to --- */

void node_note_sender(struct node *n, uint64_t id)
{
	struct node_server s;

	if (node_server_find(n, id, &s))
		return;
	n->stranger.id = id;
	n->stranger.at_ns = clock_mono_ns();
}

bool node_may_dial(const struct node *n, uint64_t id)
{
	struct node_server s;

	return node_server_find(n, id, &s) ||
	       (id == n->stranger.id &&
		clock_mono_ns() - n->stranger.at_ns < STRANGER_NS);
}
