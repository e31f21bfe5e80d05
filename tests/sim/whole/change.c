#include "change.h"

#include <stdlib.h>

#include "proto/proto.h"
#include "util/clock.h"
#include "whole.h"

#define ASK_NS       (3 * NS_PER_S)
#define AGAIN_NS     (200 * NS_PER_MS)
#define NEW_MAX_NS   (2 * NS_PER_S)
#define DOWN_PERCENT 50 /* of those that go: they do not run any more */
#define DISK_PERCENT 40 /* of all: only the disk is another one */

struct change {
	struct whole *w;
	struct machine *m; /* NULL: none */
	bool is_gone;      /* its node is; the next one has not joined yet */
	bool leaves;       /* it is asked to, as long as it runs */
	struct sim_event again;
};

static void on_again(void *ctx);

static void later(struct change *c)
{
	sim_after(c->w->sim, &c->again, NULL, AGAIN_NS, on_again, c);
}

static void replace(struct change *c, bool is_renamed)
{
	struct machine *m = c->m;

	if (m->runs)
		machine_crash(m);
	machine_wipe(m, is_renamed);
	c->is_gone = true;
	if (is_renamed)
		c->w->tally.replaced++;
	else
		c->w->tally.emptied++;
	machine_start_after(m, sim_below(c->w->sim, NEW_MAX_NS));
	later(c);
}

static void on_removed(void *ctx, const struct rpc_reply *r)
{
	struct change *c = ctx;

	if (r->err == 0 || r->err == ERR_NOT_FOUND) {
		replace(c, true);
		return;
	}
	c->leaves = c->leaves && sim_chance(c->w->sim, 50);
	later(c);
}

static struct desk *desk_of_another(struct change *c)
{
	struct whole *w = c->w;
	unsigned n = (unsigned)sim_below(w->sim, w->plan.machines);

	if (&w->machine[n] == c->m)
		n = (n + 1) % w->plan.machines;
	return w->machine[n].desk;
}

/* One that runs may as well leave by itself. */
static void ask(struct change *c)
{
	struct m_cluster_node_ref m = { 0 };
	struct buf b = BUF_INIT(0);
	bool leaves = c->m->runs && c->leaves;

	MSG_SET(&m, cluster_node_ref, node_id, str_from(c->m->name));
	msg_encode(&msg_cluster_node_ref, &m, &b);
	(void)desk_ask(leaves ? c->m->desk : desk_of_another(c),
		       leaves ? QUERY_CLUSTER_LEAVE : QUERY_CLUSTER_REMOVE,
		       buf_str(&b), clock_mono_ns() + ASK_NS, on_removed, c);
	buf_done(&b);
}

/* The new one has all there was. */
static void on_again(void *ctx)
{
	struct change *c = ctx;

	if (!c->is_gone)
		ask(c);
	else if (!c->m->runs || c->m->host.node == NULL ||
		 !node_is_up(c->m->host.node) || c->m->applied == 0)
		later(c);
	else
		c->m = NULL;
}

/* Whoever gives a node up looks whether there is a majority without it. */
static bool do_all_vote(struct whole *w)
{
	const struct machine *leader = whole_leader(w);

	return leader != NULL &&
	       node_voters(leader->host.node) == w->plan.machines;
}

bool change_begin(struct change *c, struct machine *m)
{
	if (c->m != NULL || c->w->plan.machines < 3 || !do_all_vote(c->w))
		return false;
	c->m = m;
	c->is_gone = false;
	c->leaves = sim_chance(c->w->sim, 50);
	sim_note(c->w->sim, "give up", m->host.number, m->host.id, 0, 0, 0);
	sim_forget(c->w->sim, &m->restart);
	if (sim_chance(c->w->sim, DISK_PERCENT)) {
		replace(c, false);
		return true;
	}
	if (m->runs && sim_chance(c->w->sim, DOWN_PERCENT))
		machine_crash(m);
	ask(c);
	return true;
}

bool change_is_of(const struct change *c, const struct machine *m)
{
	return c->m == m && !c->is_gone;
}

struct change *change_new(struct whole *w)
{
	struct change *c = xcalloc(1, sizeof(*c));

	c->w = w;
	return c;
}

void change_free(struct change *c)
{
	if (c == NULL)
		return;
	sim_forget(c->w->sim, &c->again);
	free(c);
}
