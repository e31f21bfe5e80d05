/*
 * What happens to a cluster, by chance: all kinds of trouble, several at once.
 * Each seed leaves out some kinds, so that what is left comes more often.
 */
#include <string.h>

#include "cluster.h"

#define BETWEEN_MIN_NS  (2 * NS_PER_MS)
#define BETWEEN_MAX_NS  (400 * NS_PER_MS)
#define AWAY_MAX_NS     (2 * NS_PER_S)
#define DEPOSE_MIN_NS   (500 * NS_PER_MS)
#define BACK_MAX_NS     (100 * NS_PER_MS)
#define LEAVE_MAX_NS    NS_PER_S
#define BURST_MAX       12
#define WRITING_PERCENT 50 /* of crashes, while something is written */

enum deed {
	PROPOSE,
	PROPOSE_LARGE,
	CUT_ONE,
	CUT_OFF,
	CUT_HALF,
	MEND,
	CRASH,
	STOP,
	STAND_STILL,
	TRANSFER,
	JOIN,
	ASSIGN,
	REMOVE,
	SNAPSHOT,
	WEATHER,
	DEPOSE,
	DEEDS
};

/* --- whom it happens to --- */

static struct member *any(struct cluster *c, bool (*fits)(struct member *m))
{
	struct member *found[SIM_NODES];
	unsigned n = 0;

	for (unsigned i = 0; i < SIM_NODES; i++)
		if (fits(&c->member[i]))
			found[n++] = &c->member[i];
	return n > 0 ? found[sim_below(c->sim, n)] : NULL;
}

static bool runs(struct member *m)
{
	return member_runs(m);
}

/* By its own account: there may be several. */
static bool leads(struct member *m)
{
	return member_runs(m) && node_is_leader(m->host.node);
}

static bool is_free(struct member *m)
{
	return m->host.id == 0;
}

static struct member *leader_or_any(struct cluster *c)
{
	struct member *m = sim_chance(c->sim, 60) ? any(c, leads) : NULL;

	return m != NULL ? m : any(c, runs);
}

/* --- what happens --- */

static void propose(struct cluster *c, size_t max)
{
	struct member *m = any(c, leads);
	unsigned n = (unsigned)sim_between(c->sim, 1, BURST_MAX);

	for (unsigned i = 0; m != NULL && i < n; i++)
		if (!member_propose(m, sim_between(c->sim, 8, max)))
			break;
}

static enum cut any_cut(struct cluster *c)
{
	static const enum cut kinds[] = { CUT_LOSES, CUT_REFUSES, CUT_HOLDS };

	return kinds[sim_below(c->sim, ARRAY_SIZE(kinds))];
}

static void cut_one(struct cluster *c)
{
	unsigned from = (unsigned)sim_below(c->sim, SIM_NODES);
	unsigned to = (unsigned)sim_below(c->sim, SIM_NODES);

	sim_note(c->sim, "cut one", from, to, 0, 0, 0);
	net_cut(&c->net, from, to, any_cut(c));
}

/* Those of the set and the others hear nothing of each other. */
static void cut_set(struct cluster *c, unsigned set)
{
	enum cut there = any_cut(c), back = any_cut(c);

	sim_note(c->sim, "cut set", set, there, back, 0, 0);
	for (unsigned i = 0; i < SIM_NODES; i++)
		for (unsigned k = 0; k < SIM_NODES; k++)
			if ((set >> i & 1) != (set >> k & 1))
				net_cut(&c->net, i, k,
					set >> i & 1 ? there : back);
}

static void cut_off(struct cluster *c)
{
	struct member *m = leader_or_any(c);

	if (m != NULL)
		cut_set(c, 1u << m->host.number);
}

static void cut_half(struct cluster *c)
{
	cut_set(c, (unsigned)sim_below(c->sim, 1u << SIM_NODES));
}

static void mend_some(struct cluster *c, bool all)
{
	sim_note(c->sim, "mend", all, 0, 0, 0, 0);
	for (unsigned i = 0; i < SIM_NODES; i++)
		for (unsigned k = 0; k < SIM_NODES; k++)
			if (all || sim_chance(c->sim, 30))
				net_cut(&c->net, i, k, CUT_NONE);
}

static void mend(struct cluster *c)
{
	mend_some(c, sim_chance(c->sim, 60));
}

static void on_back(void *ctx)
{
	mend_some(ctx, true);
}

/* A leader that others do without for a while, and entries on both sides. */
static void depose(struct cluster *c)
{
	struct member *m = any(c, leads);

	if (m == NULL || sim_is_due(&c->back))
		return;
	cut_set(c, 1u << m->host.number);
	for (unsigned i = 0; i < BURST_MAX; i++)
		(void)member_propose(m,
				     sim_between(c->sim, 8, c->plan.large_max));
	sim_after(c->sim, &c->back, NULL,
		  sim_between(c->sim, DEPOSE_MIN_NS, AWAY_MAX_NS), on_back, c);
}

static void end_member(struct member *m, bool is_crash)
{
	if (is_crash)
		member_crash(m);
	else
		member_stop(m);
	member_restart_after(m, sim_skewed(m->c->sim, NS_PER_MS, AWAY_MAX_NS));
}

static void on_failure(void *ctx)
{
	struct member *m = ctx;

	if (member_runs(m))
		end_member(m, true);
}

static void end_one(struct cluster *c, bool is_crash)
{
	struct member *m = leader_or_any(c);

	if (m == NULL)
		return;
	if (is_crash && sim_chance(c->sim, WRITING_PERCENT))
		disk_fail_writing(&m->host.disk, on_failure, m);
	else
		end_member(m, is_crash);
}

/* A power failure: all of them. Those whose disks forget are back first, and
 * do not know what they miss. */
static void end_all(struct cluster *c)
{
	for (unsigned i = 0; i < SIM_NODES; i++) {
		struct member *m = &c->member[i];
		uint64_t max = m->host.lost_max > 0 ? BACK_MAX_NS : AWAY_MAX_NS;

		if (!member_runs(m))
			continue;
		member_crash(m);
		member_restart_after(m, sim_between(c->sim, NS_PER_MS, max));
	}
}

static void crash(struct cluster *c)
{
	if (sim_chance(c->sim, c->plan.is_loose ? 50 : 10))
		end_all(c);
	else
		end_one(c, true);
}

static void stand_still(struct cluster *c)
{
	struct member *m = leader_or_any(c);
	uint64_t ns = sim_skewed(c->sim, NS_PER_MS, c->plan.pause_max_ns);

	if (m == NULL)
		return;
	sim_note(c->sim, "still", m->host.number, ns / NS_PER_MS, 0, 0, 0);
	m->host.loop.still_ns = c->sim->now_ns + ns;
}

static void on_done(void *ctx, int err)
{
	struct cluster *c = ctx;

	c->tally.changes += err == 0;
}

static void on_transferred(void *ctx, int err)
{
	struct cluster *c = ctx;

	c->tally.transfers += err == 0;
}

static void transfer(struct cluster *c)
{
	struct member *m = any(c, leads), *to = any(c, runs);
	uint64_t id = to != NULL && sim_chance(c->sim, 50) ? to->host.id : 0;
	int r;

	if (m == NULL)
		return;
	r = node_transfer(m->host.node, id, on_transferred, c);
	sim_note(c->sim, "transfer", m->host.number, id, (uint64_t)-r, 0, 0);
}

static void join(struct cluster *c)
{
	struct member *m = any(c, leads), *who = any(c, is_free);
	char address[SIM_ADDRESS];
	int r;

	if (m == NULL || who == NULL)
		return;
	member_make(c, who->host.number);
	who->joins = true;
	member_start(who);
	host_address(who->host.id, address);
	r = node_add(m->host.node, who->host.id, address, on_done, c);
	sim_note(c->sim, "join", m->host.number, who->host.number, who->host.id,
		 (uint64_t)-r, 0);
}

/* Of the members the leader knows, or of those that want to be. */
static uint64_t any_server(struct cluster *c, struct member *m)
{
	struct node_server all[SIM_NODES * 4];
	size_t n = node_servers(m->host.node, all, ARRAY_SIZE(all));

	return n > 0 ? all[sim_below(c->sim, n)].id : 0;
}

/* A node whose joining came to nothing asks again. */
static bool join_again(struct cluster *c, struct member *m)
{
	struct member *who = any(c, runs);
	struct node_server s;
	char address[SIM_ADDRESS];
	int r;

	if (who == NULL || sim_is_due(&who->leave) ||
	    node_server_find(m->host.node, who->host.id, &s))
		return false;
	host_address(who->host.id, address);
	r = node_add(m->host.node, who->host.id, address, on_done, c);
	sim_note(c->sim, "join again", m->host.number, who->host.number,
		 who->host.id, (uint64_t)-r, 0);
	return true;
}

/* As the service above it: a leader hands over before it goes. */
static bool can_do_without(const struct member *m, uint64_t id)
{
	return id != m->host.id;
}

static void assign(struct cluster *c)
{
	static const enum node_role roles[] = { NODE_VOTER, NODE_VOTER,
						NODE_VOTER, NODE_STANDBY,
						NODE_SPARE };
	enum node_role role = roles[sim_below(c->sim, ARRAY_SIZE(roles))];
	struct member *m = any(c, leads);
	uint64_t id;
	int r;

	if (m == NULL || join_again(c, m))
		return;
	id = any_server(c, m);
	if (role != NODE_VOTER && !can_do_without(m, id))
		return;
	r = node_assign(m->host.node, id, role, on_done, c);
	sim_note(c->sim, "assign", m->host.number, id, role, (uint64_t)-r, 0);
}

static void on_removed(void *ctx, int err)
{
	struct member *who = ctx;

	who->c->tally.changes += err == 0;
	if (err == 0)
		member_leave_after(who,
				   sim_skewed(who->c->sim, 0, LEAVE_MAX_NS));
}

static void remove_one(struct cluster *c)
{
	struct member *m = any(c, leads), *who;
	int r;

	if (m == NULL)
		return;
	who = member_of_id(c, any_server(c, m));
	if (who == NULL || sim_is_due(&who->leave) ||
	    !can_do_without(m, who->host.id))
		return;
	r = node_remove(m->host.node, who->host.id, on_removed, who);
	sim_note(c->sim, "remove", m->host.number, who->host.number,
		 who->host.id, (uint64_t)-r, 0);
}

static void snapshot(struct cluster *c)
{
	struct member *m = leader_or_any(c);

	if (m == NULL)
		return;
	node_want_snapshot(m->host.node);
	if (node_wants_entry(m->host.node) && leads(m))
		(void)member_propose(m, 8);
}

/* What the links are like, from now on. */
static void weather(struct cluster *c)
{
	struct sim_net *n = &c->net;
	bool bad = sim_chance(c->sim, 50);

	n->loss = bad ? (unsigned)sim_below(c->sim, 30) : 0;
	n->twice = bad ? (unsigned)sim_below(c->sim, 30) : 0;
	n->refuse = bad ? (unsigned)sim_below(c->sim, 20) : 0;
	n->delay_min_ns = sim_between(c->sim, 20, 2000) * NS_PER_US;
	n->delay_max_ns =
	    n->delay_min_ns + sim_skewed(c->sim, NS_PER_MS, 400 * NS_PER_MS);
	sim_note(c->sim, "weather", n->loss, n->twice, n->refuse,
		 n->delay_min_ns, n->delay_max_ns);
}

static void act(struct cluster *c, enum deed d)
{
	switch (d) {
	case PROPOSE:
		propose(c, c->plan.small_max);
		break;
	case PROPOSE_LARGE:
		propose(c, c->plan.large_max);
		break;
	case CUT_ONE:
		cut_one(c);
		break;
	case CUT_OFF:
		cut_off(c);
		break;
	case CUT_HALF:
		cut_half(c);
		break;
	case MEND:
		mend(c);
		break;
	case CRASH:
		crash(c);
		break;
	case STOP:
		end_one(c, false);
		break;
	case STAND_STILL:
		stand_still(c);
		break;
	case TRANSFER:
		transfer(c);
		break;
	case JOIN:
		join(c);
		break;
	case ASSIGN:
		assign(c);
		break;
	case REMOVE:
		remove_one(c);
		break;
	case SNAPSHOT:
		snapshot(c);
		break;
	case WEATHER:
		weather(c);
		break;
	case DEPOSE:
		depose(c);
		break;
	case DEEDS:
		break;
	}
}

static enum deed choose(struct cluster *c)
{
	unsigned sum = 0, at;

	for (unsigned i = 0; i < DEEDS; i++)
		sum += c->plan.weight[i];
	at = (unsigned)sim_below(c->sim, sum);
	for (unsigned i = 0; i < DEEDS; i++) {
		if (at < c->plan.weight[i])
			return (enum deed)i;
		at -= c->plan.weight[i];
	}
	return PROPOSE;
}

static void on_storm(void *ctx)
{
	struct cluster *c = ctx;

	act(c, choose(c));
	/* a leader that has entries to lose is more worth while */
	if (sim_chance(c->sim, 40))
		propose(c, c->plan.small_max);
	sim_after(c->sim, &c->storm, NULL,
		  sim_skewed(c->sim, BETWEEN_MIN_NS, BETWEEN_MAX_NS), on_storm,
		  c);
}

/* --- the whole --- */

void storm_plan(struct cluster *c)
{
	static const unsigned usual[DEEDS] = {
		[PROPOSE] = 20, [PROPOSE_LARGE] = 10, [CUT_ONE] = 6,
		[CUT_OFF] = 8,  [CUT_HALF] = 4,       [MEND] = 14,
		[CRASH] = 6,    [STOP] = 2,           [STAND_STILL] = 5,
		[TRANSFER] = 3, [JOIN] = 4,           [ASSIGN] = 8,
		[REMOVE] = 3,   [SNAPSHOT] = 5,       [WEATHER] = 4,
		[DEPOSE] = 8,
	};
	static const unsigned voters[] = { 1, 3, 3, 3, 3, 4, 5, 5 };
	struct plan *p = &c->plan;
	struct sim *s = c->sim;

	p->voters = voters[sim_below(s, ARRAY_SIZE(voters))];
	for (unsigned i = 0; i < DEEDS; i++)
		p->weight[i] = i == PROPOSE || i == MEND || sim_chance(s, 65)
				   ? usual[i]
				   : 0;
	/* cuts that last long enough for others to be chosen */
	p->weight[MEND] = (unsigned)sim_between(s, 2, 20);
	p->is_loose = sim_chance(s, 25);
	if (p->is_loose) /* else it is as any other */
		p->weight[CRASH] = usual[CRASH];
	p->storm_ns = sim_between(s, 1500, 8000) * NS_PER_MS;
	p->pause_max_ns = sim_between(s, 20, 2500) * NS_PER_MS;
	p->snapshot_bytes = sim_between(s, 1, 16) << 10;
	p->part_bytes = sim_between(s, 200, 4000);
	p->small_max = sim_between(s, 16, 100);
	p->large_max = sim_between(s, 100, 1200);
	c->net.is_stream = sim_chance(s, 50);
	sim_pieces(s);
	weather(c);
}

void storm_begin(struct cluster *c)
{
	for (unsigned i = 0; i < SIM_NODES; i++) {
		struct sim_host *h = &c->member[i].host;

		h->disk.flush_max_ns =
		    sim_skewed(c->sim, NS_PER_MS, 200 * NS_PER_MS);
		h->work_max_ns =
		    sim_skewed(c->sim, 2 * NS_PER_MS, 500 * NS_PER_MS);
		h->early = sim_chance(c->sim, 50) ? 20 : 0;
		h->lost_max = c->plan.is_loose && sim_chance(c->sim, 70)
				  ? sim_below(c->sim, 25)
				  : 0;
	}
	sim_after(c->sim, &c->storm, NULL, BETWEEN_MAX_NS, on_storm, c);
}

void storm_end(struct cluster *c)
{
	sim_forget(c->sim, &c->storm);
	sim_forget(c->sim, &c->back);
	net_heal(&c->net);
	c->net.delay_min_ns = NS_PER_MS / 10;
	c->net.delay_max_ns = 2 * NS_PER_MS;
	for (unsigned i = 0; i < SIM_NODES; i++) {
		struct member *m = &c->member[i];

		disk_forget_failure(&m->host.disk);
		m->host.disk.flush_max_ns = 2 * NS_PER_MS;
		m->host.work_max_ns = 5 * NS_PER_MS;
		m->host.lost_max = 0;
		m->host.loop.still_ns = 0;
		if (m->host.id != 0 && m->host.node == NULL && !m->is_refused)
			member_restart_after(m, 0);
	}
}
