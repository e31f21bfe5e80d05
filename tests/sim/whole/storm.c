/*
 * What happens to a cluster, by chance: several kinds of trouble at once. Each
 * seed leaves out some kinds, so that what is left comes more often.
 */
#include <stdlib.h>

#include "proto/proto.h"
#include "util/clock.h"
#include "whole.h"
#include "wire.h"

#define BETWEEN_MIN_NS   (20 * NS_PER_MS)
#define BETWEEN_MAX_NS   (2 * NS_PER_S)
#define AWAY_MAX_NS      (20 * NS_PER_S)
#define STEP_MAX_NS      (3 * NS_PER_S)
#define FAR_STEP_NS      (100 * NS_PER_S)
#define FAR_PERCENT      15 /* of the times a clock is set */
#define LULL_PERCENT     50 /* of these: a while without deeds */
#define LULL_MIN_NS      (6 * NS_PER_S)
#define LULL_MAX_NS      (9 * NS_PER_S)
#define SLOW_MAX_NS      (3 * NS_PER_S)
#define DRIFT_PPM        20000
#define TRANSFER_NS      (5 * NS_PER_S)
#define WRITES_MAX       40
#define START_WRITES_MAX 4
#define WRITING_PERCENT  75 /* of crashes, while something is written */
#define STORM_MIN_S      18 /* 2,000 operations take about 10 */
#define STORM_MAX_S      (WHOLE_STORM_MAX_MS / 1000)
#define CALM_BEGIN_NS    (3 * NS_PER_S) /* until all have joined */
#define OLD_PERCENT      20 /* of clusters that begin with an old store */

static struct machine *any(struct whole *w)
{
	struct machine *m = &w->machine[sim_below(w->sim, w->plan.machines)];

	return m->host.node != NULL ? m : NULL;
}

static struct machine *leader_or_any(struct whole *w)
{
	struct machine *m = sim_chance(w->sim, 60) ? whole_leader(w) : NULL;

	return m != NULL ? m : any(w);
}

static bool weather(struct whole *w)
{
	struct sim_net *n = &w->net;
	bool bad = sim_chance(w->sim, 50);

	n->loss = bad ? (unsigned)sim_below(w->sim, 20) : 0;
	n->twice = bad ? (unsigned)sim_below(w->sim, 20) : 0;
	n->refuse = bad ? (unsigned)sim_below(w->sim, 20) : 0;
	n->delay_min_ns = sim_between(w->sim, 20, 1000) * NS_PER_US;
	n->delay_max_ns =
	    n->delay_min_ns + sim_skewed(w->sim, NS_PER_MS, 300 * NS_PER_MS);
	return bad;
}

static void cut(struct whole *w, unsigned a, unsigned b)
{
	static const enum cut kinds[] = { CUT_LOSES, CUT_REFUSES, CUT_HOLDS };

	net_cut(&w->net, a, b, kinds[sim_below(w->sim, ARRAY_SIZE(kinds))]);
}

static bool cut_one(struct whole *w)
{
	unsigned from = (unsigned)sim_below(w->sim, w->plan.machines);
	unsigned to = (unsigned)sim_below(w->sim, w->plan.machines);

	cut(w, from, to);
	return from != to;
}

/* Of five at times two, who hear each other. */
static bool cut_off(struct whole *w)
{
	struct machine *m = leader_or_any(w);
	unsigned n = w->plan.machines, set;

	if (m == NULL)
		return false;
	set = 1u << m->host.number;
	if (n > 3 && sim_chance(w->sim, 50))
		set |= 1u << sim_below(w->sim, n);
	for (unsigned a = 0; a < n; a++)
		for (unsigned b = 0; b < n; b++)
			if ((set >> a & 1) != (set >> b & 1))
				cut(w, a, b);
	return true;
}

static bool mend(struct whole *w)
{
	for (unsigned a = 0; a < SIM_NODES; a++)
		for (unsigned b = 0; b < SIM_NODES; b++)
			net_cut(&w->net, a, b, CUT_NONE);
	return true;
}

/* All between machines and processes, of those some. */
static bool break_links(struct whole *w)
{
	wire_break_some(w->sim, 30);
	return true;
}

static void crash_machine(struct machine *m)
{
	struct sim *s = m->w->sim;

	machine_crash(m);
	/* at times for so long that the log has no more what it missed */
	machine_start_after(m, sim_chance(s, 20)
				   ? sim_between(s, 0, AWAY_MAX_NS)
				   : sim_skewed(s, 0, AWAY_MAX_NS));
}

static void on_failure(void *ctx)
{
	struct machine *m = ctx;

	if (m->host.node != NULL && !change_is_of(m->w->change, m))
		crash_machine(m);
}

static bool crash(struct whole *w)
{
	struct machine *m = leader_or_any(w);

	if (m == NULL || change_is_of(w->change, m))
		return false;
	if (sim_chance(w->sim, WRITING_PERCENT))
		disk_fail_writing(&m->host.disk, on_failure, m);
	else
		crash_machine(m);
	return true;
}

static bool stop(struct whole *w)
{
	struct machine *m = leader_or_any(w);

	if (m != NULL)
		machine_drain(m);
	return m != NULL;
}

static bool stand_still(struct whole *w)
{
	struct machine *m = leader_or_any(w);

	if (m != NULL)
		m->host.loop.still_ns =
		    w->sim->now_ns +
		    sim_skewed(w->sim, NS_PER_MS, w->plan.pause_max_ns);
	return m != NULL;
}

static bool set_clock(struct whole *w)
{
	struct machine *m = leader_or_any(w);
	uint64_t most =
	    sim_chance(w->sim, FAR_PERCENT) ? FAR_STEP_NS : STEP_MAX_NS;
	int64_t by = (int64_t)sim_below(w->sim, 2 * most) - (int64_t)most;

	if (m == NULL)
		return false;
	m->host.wall_off_ns = by;
	w->is_time_moved = true;
	/* one that leads on for so long follows its clock */
	if (sim_chance(w->sim, LULL_PERCENT))
		w->lull_ns = sim_between(w->sim, LULL_MIN_NS, LULL_MAX_NS);
	return true;
}

static bool fill_disk(struct whole *w)
{
	struct machine *m = leader_or_any(w);

	if (m == NULL)
		return false;
	if (m->room != ROOM_OK && sim_chance(w->sim, 70))
		m->room = ROOM_OK;
	else
		m->room = sim_chance(w->sim, 50) ? ROOM_LOW : ROOM_NONE;
	return m->room != ROOM_OK;
}

/* To some node, or to any. */
static bool transfer(struct whole *w)
{
	struct machine *m = any(w);
	struct m_cluster_node_ref ref = { 0 };
	struct buf b = BUF_INIT(0);

	if (m != NULL && sim_chance(w->sim, 50))
		MSG_SET(&ref, cluster_node_ref, node_id, str_from(m->name));
	msg_encode(&msg_cluster_node_ref, &ref, &b);
	(void)desk_ask(desk_any(w), QUERY_CLUSTER_TRANSFER, buf_str(&b),
		       clock_mono_ns() + TRANSFER_NS, NULL, NULL);
	buf_done(&b);
	return true;
}

static bool snapshot(struct whole *w)
{
	struct machine *m = leader_or_any(w);

	if (m != NULL)
		node_want_snapshot(m->host.node);
	return m != NULL;
}

/* A disk, for a while. */
static bool slow_down(struct whole *w)
{
	struct machine *m = leader_or_any(w);

	if (m != NULL)
		m->host.disk.flush_max_ns =
		    sim_chance(w->sim, 50)
			? 2 * NS_PER_MS
			: sim_skewed(w->sim, NS_PER_MS, SLOW_MAX_NS);
	return m != NULL;
}

static bool drift(struct whole *w)
{
	struct machine *m = leader_or_any(w);

	if (m == NULL)
		return false;
	m->host.wall_ppm =
	    (int64_t)sim_below(w->sim, 2 * DRIFT_PPM) - DRIFT_PPM;
	w->is_time_moved = true;
	return true;
}

static bool replace(struct whole *w)
{
	struct machine *m = &w->machine[sim_below(w->sim, w->plan.machines)];

	return change_begin(w->change, m);
}

/* A record of the store has lost its sum, or one cannot be written, or no
 * snapshot can. Somebody starts the node again. */
static void on_mended(void *ctx)
{
	struct machine *m = ctx;

	m->read_fails = m->write_fails = 0;
	m->host.disk.puts_fail = 0;
	if (m->host.node == NULL || change_is_of(m->w->change, m))
		return;
	machine_crash(m);
	machine_start_after(m, 0);
}

static bool break_store(struct whole *w)
{
	struct machine *m = leader_or_any(w);

	if (m == NULL || sim_is_due(&m->mended))
		return false;
	switch (sim_below(w->sim, 3)) {
	case 0:
		m->read_fails = 1;
		break;
	case 1:
		m->write_fails = 1;
		break;
	default:
		m->host.disk.puts_fail = 1;
	}
	sim_after(w->sim, &m->mended, NULL, sim_between(w->sim, 0, AWAY_MAX_NS),
		  on_mended, m);
	return true;
}

/* In the middle of what it writes. */
static bool die(struct whole *w)
{
	struct machine *m = leader_or_any(w);

	if (m != NULL)
		m->host.dies_in = 1 + (unsigned)sim_below(w->sim, WRITES_MAX);
	return m != NULL;
}

/* The same, of what it writes when it is started the next time. */
static bool die_again(struct whole *w)
{
	struct machine *m = leader_or_any(w);

	if (m == NULL || change_is_of(w->change, m))
		return false;
	m->dies_at_start = 1 + (unsigned)sim_below(w->sim, START_WRITES_MAX);
	crash_machine(m);
	return true;
}

static bool break_log(struct whole *w)
{
	struct machine *m = leader_or_any(w);

	if (m != NULL)
		m->host.disk.is_to_fail = true;
	return m != NULL;
}

/* How often each comes, beside the others, in a seed that has it. By number:
 * see `deed` in a trace, and struct whole_cut. */
static const struct {
	const char *name;
	bool (*fn)(struct whole *w); /* false: there was nobody to do it to */
	unsigned usual;
} deeds[] = {
	{ "crash", crash, 6 },
	{ "stop", stop, 4 },
	{ "pause", stand_still, 8 },
	{ "cut", cut_one, 6 },
	{ "cut off", cut_off, 8 },
	{ "mend", mend, 16 },
	{ "links lost", break_links, 6 },
	{ "bad links", weather, 6 },
	{ "clock set", set_clock, 6 },
	{ "disk full", fill_disk, 3 },
	{ "transfer", transfer, 4 },
	{ "snapshot", snapshot, 8 },
	{ "slow disk", slow_down, 4 },
	{ "clock drifts", drift, 2 },
	{ "replaced", replace, 6 },
	{ "store fails", break_store, 2 },
	{ "dies writing", die, 6 },
	{ "log fails", break_log, 3 },
	{ "dies starting", die_again, 4 },
};

enum { DEEDS = ARRAY_SIZE(deeds), MEND = 5, SET_CLOCK = 8, DRIFT = 13 };

const char *whole_deed(unsigned d)
{
	return d < DEEDS ? deeds[d].name : NULL;
}

const char *whole_part(unsigned p)
{
	if (p == WHOLE_DEEDS)
		return "strangers";
	if (p == WHOLE_DEEDS + 1)
		return "old nodes";
	return p == MEND ? NULL : whole_deed(p);
}

static void act(struct whole *w, unsigned d)
{
	sim_note(w->sim, "deed", d, 0, 0, 0, 0);
	w->deeds[d] += deeds[d].fn(w);
}

static void on_storm(void *ctx)
{
	struct whole *w = ctx;
	uint64_t at = 0, sum = 0;
	unsigned d = 0;

	for (unsigned i = 0; i < DEEDS; i++)
		sum += w->plan.weight[i];
	at = sim_below(w->sim, sum);
	while (at >= w->plan.weight[d])
		at -= w->plan.weight[d++];
	w->lull_ns = 0;
	act(w, d);
	sim_after(w->sim, &w->storm, NULL,
		  w->lull_ns +
		      sim_skewed(w->sim, BETWEEN_MIN_NS, BETWEEN_MAX_NS),
		  on_storm, w);
}

static void read_cut(struct whole_cut *ret)
{
	const char *text = getenv("CORVO_TEST_CUT");
	char *rest;

	if (text == NULL)
		return;
	ret->without = (unsigned)strtoul(text, &rest, 10);
	if (*rest == ',')
		ret->storm_ms = strtoull(rest + 1, NULL, 10);
}

void whole_plan_make(struct whole *w)
{
	static const unsigned machines[] = { 1, 3, 3, 3, 3, 5 };
	struct whole_plan *p = &w->plan;
	struct sim *s = w->sim;

	read_cut(&p->cut);
	p->machines = machines[sim_below(s, ARRAY_SIZE(machines))];
	for (unsigned i = 0; i < DEEDS; i++)
		p->weight[i] =
		    i == MEND || sim_chance(s, 65) ? deeds[i].usual : 0;
	/* some things can be told only as long as all clocks are right */
	if (sim_chance(s, 50))
		p->weight[SET_CLOCK] = p->weight[DRIFT] = 0;
	for (unsigned i = 0; i < DEEDS; i++)
		if (p->cut.without & 1u << i && i != MEND)
			p->weight[i] = 0;
	p->storm_ns = sim_between(s, STORM_MIN_S, STORM_MAX_S) * NS_PER_S;
	p->pause_max_ns = sim_between(s, 20, 6000) * NS_PER_MS;
	p->snapshot_bytes = sim_between(s, 64, 512) << 10;
	p->event_retention = sim_chance(s, 40) ? sim_between(s, 500, 5000) : 0;
	p->old_ns =
	    sim_chance(s, 50) ? 0 : s->now_ns + sim_below(s, p->storm_ns);
	if (p->cut.without & WHOLE_OLD)
		p->old_ns = 0;
	w->net.is_stream = sim_chance(s, 50);
	p->is_upgraded = sim_chance(s, OLD_PERCENT);
	/* after all that is drawn: what it does until then is the same */
	if (p->cut.storm_ms != 0)
		p->storm_ns = MIN(p->storm_ns, p->cut.storm_ms * NS_PER_MS);
	sim_pieces(s);
}

static void set_links(struct whole *w)
{
	w->net.delay_min_ns = NS_PER_MS / 10;
	w->net.delay_max_ns = 2 * NS_PER_MS;
}

void whole_storm_begin(struct whole *w)
{
	set_links(w);
	for (unsigned i = 0; i < w->plan.machines; i++) {
		struct sim_host *h = &w->machine[i].host;

		h->disk.flush_max_ns =
		    sim_skewed(w->sim, NS_PER_MS, 100 * NS_PER_MS);
		h->work_max_ns =
		    sim_skewed(w->sim, 2 * NS_PER_MS, 300 * NS_PER_MS);
	}
	sim_after(w->sim, &w->storm, NULL, CALM_BEGIN_NS, on_storm, w);
}

void whole_storm_end(struct whole *w)
{
	sim_forget(w->sim, &w->storm);
	net_heal(&w->net);
	set_links(w);
	for (unsigned i = 0; i < w->plan.machines; i++) {
		struct machine *m = &w->machine[i];

		disk_forget_failure(&m->host.disk);
		m->host.disk.flush_max_ns = 2 * NS_PER_MS;
		m->host.work_max_ns = 5 * NS_PER_MS;
		m->host.loop.still_ns = 0;
		m->room = ROOM_OK;
		m->read_fails = m->write_fails = 0;
		m->host.disk.puts_fail = 0;
		m->host.dies_in = m->dies_at_start = 0;
		m->host.disk.is_to_fail = false;
		m->host.wall_ppm = 0;
		if (!m->runs && !change_is_of(w->change, m))
			machine_start_after(m, 0);
	}
}
