#include "cluster.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* After the storm everything has to be well within that. */
#define QUIET_NS (60 * NS_PER_S)

static void show_members(struct cluster *c)
{
	for (unsigned i = 0; i < SIM_NODES; i++) {
		struct member *m = &c->member[i];
		struct raft *r;

		if (!member_runs(m)) {
			(void)fprintf(stderr,
				      "node %u id %" PRIu64 " is away\n", i,
				      m->host.id);
			continue;
		}
		r = &m->host.node->raft;
		(void)fprintf(stderr,
			      "node %u id %" PRIu64 " state %u term %llu last "
			      "%llu stored %llu commit %llu applied %llu "
			      "offset %llu snapshot %llu rows %zu members at "
			      "%llu (%llu):",
			      i, m->host.id, r->state, r->current_term,
			      raft_last_index(r), r->last_stored,
			      r->commit_index, r->last_applied, r->log.offset,
			      r->log.snapshot.last_index, m->store.n,
			      r->configuration_index,
			      r->configuration_uncommitted_index);
		for (unsigned k = 0; k < r->configuration.n; k++)
			(void)fprintf(stderr, " %llu/%d",
				      r->configuration.servers[k].id,
				      r->configuration.servers[k].role);
		(void)fputc('\n', stderr);
	}
}

void cluster_fail(struct cluster *c, const char *fmt, ...)
{
	va_list ap;

	if (getenv("VERBOSE") != NULL) {
		sim_show(c->sim);
		show_members(c);
	}
	va_start(ap, fmt);
	(void)vsnprintf(c->verdict, VERDICT_BYTES, fmt, ap);
	va_end(ap);
	(void)fprintf(stderr, "CORVO_TEST_SEED=%" PRIu64 ", at %.3f ms: %s\n",
		      c->sim->seed, (double)c->sim->now_ns / (double)NS_PER_MS,
		      c->verdict);
	_exit(EXIT_FAILURE);
}

void tally_add(struct tally *sum, const struct tally *t)
{
#define X(name) sum->name += t->name;
	TALLY(X)
#undef X
}

void tally_show(const struct tally *t)
{
#define X(name) printf("%s %" PRIu64 " ", #name, t->name);
	TALLY(X)
#undef X
	(void)putchar('\n');
}

static void put_members(struct cluster *c)
{
	struct raft_configuration conf;
	char address[SIM_ADDRESS];

	raft_configuration_init(&conf);
	for (unsigned i = 0; i < c->plan.voters; i++) {
		member_make(c, i);
		host_address(c->member[i].host.id, address);
		CHECK(raft_configuration_add(&conf, c->member[i].host.id,
					     address, RAFT_VOTER) == 0);
	}
	for (unsigned i = 0; i < c->plan.voters; i++)
		disk_begin(&c->member[i].host.disk, &conf);
	raft_configuration_close(&conf);
}

static void on_fail(void *ctx, const char *what)
{
	cluster_fail(ctx, "%s", what);
}

static void begin(struct cluster *c, struct sim *s, char *verdict)
{
	*c = (struct cluster){ .sim = s, .proposals_n = 1, .verdict = verdict };
	s->fail = on_fail;
	s->fail_ctx = c;
	memset(c->history.id, 7, sizeof(c->history.id));
	net_init(&c->net, s);
	storm_plan(c);
}

static void fill(struct cluster *c)
{
	put_members(c);
	/* those that may join have a place already */
	for (unsigned i = c->plan.voters; i < SIM_NODES; i++) {
		member_make(c, i);
		c->member[i].host.id = 0;
	}
	storm_begin(c);
}

void cluster_begin(struct cluster *c, struct sim *s, char *verdict)
{
	begin(c, s, verdict);
	fill(c);
	for (unsigned i = 0; i < c->plan.voters; i++)
		member_start(&c->member[i]);
}

void cluster_begin_still(struct cluster *c, struct sim *s, char *verdict,
			 unsigned voters)
{
	begin(c, s, verdict);
	c->plan.voters = voters;
	c->plan.is_loose = false;
	fill(c);
	storm_end(c);
	for (unsigned i = 0; i < voters; i++)
		sim_forget(s, &c->member[i].restart);
}

void cluster_end(struct cluster *c)
{
	sim_forget(c->sim, &c->storm);
	for (unsigned i = 0; i < SIM_NODES; i++)
		member_done(&c->member[i]);
	net_done(&c->net);
	oracle_done(&c->oracle);
	free(c->proposals);
}

/* --- quiet --- */

struct member *cluster_leader(struct cluster *c)
{
	struct member *found = NULL;

	for (unsigned i = 0; i < SIM_NODES; i++) {
		struct member *m = &c->member[i];

		if (member_runs(m) && node_is_ready(m->host.node) &&
		    (found == NULL ||
		     m->host.node->term > found->host.node->term))
			found = m;
	}
	return found;
}

static bool same_members(const struct raft_configuration *a,
			 const struct raft_configuration *b)
{
	if (a->n != b->n)
		return false;
	for (unsigned i = 0; i < a->n; i++)
		if (a->servers[i].id != b->servers[i].id ||
		    a->servers[i].role != b->servers[i].role)
			return false;
	return true;
}

/* Every member that gets the log has the last entry, and all know the same
 * members. */
static bool is_quiet(struct cluster *c, struct member *leader, uint64_t last)
{
	const struct raft_configuration *conf =
	    &leader->host.node->raft.configuration;

	for (unsigned i = 0; i < conf->n; i++) {
		struct member *m = member_of_id(c, conf->servers[i].id);
		const struct raft *r;

		if (conf->servers[i].role == RAFT_SPARE)
			continue;
		if (m == NULL || !member_runs(m) || m->store.n == 0 ||
		    m->store.rows[m->store.n - 1].index < last)
			return false;
		r = &m->host.node->raft;
		if (r->configuration_uncommitted_index != 0 ||
		    !same_members(conf, &r->configuration))
			return false;
	}
	return true;
}

/* With disks that forget a majority may be gone for good. */
static void calm_down(struct cluster *c)
{
	uint64_t end = c->sim->now_ns + QUIET_NS, number = 0;
	struct member *m;

	while (c->sim->now_ns < end && sim_step(c->sim)) {
		m = cluster_leader(c);
		if (m == NULL)
			continue;
		if (number == 0 || (c->proposals[number].outcome != DONE &&
				    c->proposals[number].outcome != PENDING)) {
			number = c->proposals_n;
			(void)member_propose(m, 8);
		}
		if (c->proposals[number].outcome == DONE &&
		    is_quiet(c, m, m->store.rows[m->store.n - 1].index))
			return;
	}
	if (c->plan.is_loose)
		return;
	cluster_fail(c, "it does not come to rest");
}

void cluster_run(struct cluster *c)
{
	uint64_t end = c->sim->now_ns + c->plan.storm_ns;

	while (c->sim->now_ns < end && sim_step(c->sim))
		;
	storm_end(c);
	calm_down(c);
	oracle_compare(c);
	for (unsigned i = 0; i < SIM_NODES; i++)
		c->tally.snapshots += c->member[i].host.disk.snapshots;
}
