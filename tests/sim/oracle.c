/*
 * What has to be true of a cluster at every moment, and is looked at there.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cluster.h"

static void *grown(void *p, size_t *n, size_t want, size_t size)
{
	if (want < *n)
		return p;
	want = MAX(2 * want, (size_t)64);
	p = xrealloc(p, want * size);
	memset((char *)p + *n * size, 0, (want - *n) * size);
	*n = want;
	return p;
}

static struct seen *seen_at(struct oracle *o, uint64_t index)
{
	o->seen = grown(o->seen, &o->seen_n, index, sizeof(*o->seen));
	return &o->seen[index];
}

static struct term *term_at(struct oracle *o, uint64_t term)
{
	o->terms = grown(o->terms, &o->terms_n, term, sizeof(*o->terms));
	return &o->terms[term];
}

void oracle_done(struct oracle *o)
{
	free(o->seen);
	free(o->terms);
}

/* --- entries --- */

static bool is_same(const struct seen *s, const struct row *r)
{
	return s->number == r->number && s->term == r->origin.term &&
	       s->id == r->origin.id;
}

void oracle_applied(struct member *m, const struct row *r, uint64_t prev)
{
	struct cluster *c = m->c;
	struct seen *s = seen_at(&c->oracle, r->index);
	struct proposal *p = &c->proposals[r->number];

	if (p->outcome == REFUSED)
		cluster_fail(c, "entry %" PRIu64 " of %" PRIu64 " was refused",
			     r->index, r->number);
	if (c->plan.is_loose)
		return;
	if (s->number == 0)
		*s = (struct seen){ r->number, r->origin.term, r->origin.id,
				    prev };
	if (!is_same(s, r))
		cluster_fail(c,
			     "node %u applies entry %" PRIu64
			     " of term %" PRIu64 " (%" PRIu64
			     "), another one applied one of term %" PRIu64
			     " (%" PRIu64 ")",
			     m->host.number, r->index, r->origin.term,
			     r->number, s->term, s->number);
	if (s->prev != prev)
		cluster_fail(c,
			     "node %u applies entry %" PRIu64 " after %" PRIu64
			     ", another one after %" PRIu64,
			     m->host.number, r->index, prev, s->prev);
	if (p->index != 0 && p->index != r->index)
		cluster_fail(c,
			     "proposal %" PRIu64 " is applied as %" PRIu64
			     " and as %" PRIu64,
			     r->number, p->index, r->index);
	p->index = r->index;
}

/* Whose disks have it, of the voters among these. */
static unsigned count_those_with(struct cluster *c,
				 const struct raft_configuration *conf,
				 uint64_t index, unsigned *ret_voters)
{
	uint64_t term = c->oracle.seen[index].term;
	unsigned voters = 0, have = 0;

	for (unsigned i = 0; i < conf->n; i++) {
		const struct member *m;

		if (conf->servers[i].role != RAFT_VOTER)
			continue;
		voters++;
		m = member_of_id(c, conf->servers[i].id);
		have += m != NULL && disk_keeps(&m->host.disk, index, term);
	}
	*ret_voters = voters;
	return have;
}

/* By the leader's members, or by those before a change that is behind the entry
 * in the log. */
static void check_majority(struct cluster *c, struct member *leader,
			   uint64_t index)
{
	struct node *n = leader->host.node;
	struct str before = buf_str(&n->guard.members.bytes);
	struct raft_configuration conf;
	unsigned voters, have;

	have = count_those_with(c, &n->raft.configuration, index, &voters);
	if (have > voters / 2)
		return;
	if (n->raft.configuration_uncommitted_index > index &&
	    guard_members_decode(before, &conf) == 0) {
		have = count_those_with(c, &conf, index, &voters);
		raft_configuration_close(&conf);
	}
	if (have <= voters / 2)
		cluster_fail(c,
			     "entry %" PRIu64 " of term %" PRIu64
			     " is acknowledged, and %u of %u voters have it",
			     index, c->oracle.seen[index].term, have, voters);
}

void oracle_answered(struct cluster *c, uint64_t number, int err)
{
	struct proposal *p = &c->proposals[number];
	struct node *n = p->at->host.node;
	struct term *t;

	if (p->outcome != PENDING)
		cluster_fail(c, "proposal %" PRIu64 " is answered twice",
			     number);
	p->outcome = err == 0 ? DONE : UNKNOWN;
	if (err != 0) {
		c->oracle.unknown++;
		return;
	}
	c->oracle.done++;
	if (c->plan.is_loose)
		return;
	if (p->index == 0)
		cluster_fail(c, "proposal %" PRIu64 " is done, not applied",
			     number);
	check_majority(c, p->at, p->index);
	t = term_at(&c->oracle, n->raft.current_term);
	t->acked = MAX(t->acked, p->index);
}

/* --- leaders --- */

/* The last entry that was acknowledged in terms before. */
static uint64_t acked_before(const struct oracle *o, uint64_t term)
{
	uint64_t acked = 0;

	for (uint64_t t = 0; t < term && t < o->terms_n; t++)
		acked = MAX(acked, o->terms[t].acked);
	return acked;
}

/* Whoever is chosen has all that was acknowledged before. */
static void check_log(struct member *m, uint64_t term)
{
	struct oracle *o = &m->c->oracle;
	struct node *n = m->host.node;
	uint64_t acked = acked_before(o, term), has;

	if (acked == 0 || acked <= n->raft.log.snapshot.last_index)
		return;
	has = node_term_of(n, acked);
	if (has != o->seen[acked].term)
		cluster_fail(
		    m->c,
		    "node %u leads term %" PRIu64 " and has not got "
		    "entry %" PRIu64 " of term %" PRIu64
		    ", which was acknowledged (there: term %" PRIu64 ")",
		    m->host.number, term, acked, o->seen[acked].term, has);
}

/* And has applied it when it says that it is ready. */
static void check_ready(struct member *m, uint64_t term)
{
	uint64_t acked = acked_before(&m->c->oracle, term);
	uint64_t last =
	    m->store.n > 0 ? m->store.rows[m->store.n - 1].index : 0;

	if (last < acked)
		cluster_fail(m->c,
			     "node %u is ready in term %" PRIu64
			     " with entry %" PRIu64 ", and %" PRIu64
			     " was acknowledged",
			     m->host.number, term, last, acked);
}

static void look_at_leader(struct member *m, uint64_t term)
{
	struct node *n = m->host.node;
	struct term *t = term_at(&m->c->oracle, term);

	m->term = term;
	m->was_ready = false;
	m->c->tally.leaders++;
	sim_note(m->c->sim, "leads", m->host.number, term,
		 raft_last_index(&n->raft), n->raft.commit_index, 0);
	if (t->leader != 0 && t->leader != m->host.id)
		cluster_fail(m->c, "two nodes lead term %" PRIu64, term);
	if (t->leader != 0 && t->life != m->host.life)
		cluster_fail(m->c, "node %u leads term %" PRIu64 " again",
			     m->host.number, term);
	t->leader = m->host.id;
	t->life = m->host.life;
	if (!m->c->plan.is_loose)
		check_log(m, term);
}

void oracle_look(struct member *m)
{
	struct node *n = m->host.node;
	uint64_t term = n->raft.current_term;

	if (node_is_dead(n)) {
		if (!m->c->plan.is_loose)
			cluster_fail(m->c, "node %u has given up: %s",
				     m->host.number, raft_errmsg(&n->raft));
		if (!sim_is_due(&m->restart))
			member_restart_after(m, 0);
		return;
	}
	if (raft_state(&n->raft) != RAFT_LEADER)
		return;
	if (m->term != term)
		look_at_leader(m, term);
	if (m->was_ready || !node_is_ready(n))
		return;
	m->was_ready = true;
	if (!m->c->plan.is_loose)
		check_ready(m, term);
}

/* --- at the end --- */

static void compare(struct cluster *c, const struct member *a,
		    const struct member *b)
{
	size_t n = MIN(a->store.n, b->store.n);

	for (size_t i = 0; i < n; i++) {
		const struct row *x = &a->store.rows[i];
		const struct row *y = &b->store.rows[i];

		if (x->index != y->index || x->number != y->number)
			cluster_fail(c,
				     "nodes %u and %u go on with other stores: "
				     "entry %" PRIu64 " is %" PRIu64
				     ", and entry %" PRIu64 " is %" PRIu64,
				     a->host.number, b->host.number, x->index,
				     x->number, y->index, y->number);
	}
}

/* A spare gets no log, and never hears of what disks have forgotten. */
static bool hears_nothing(struct cluster *c, const struct member *m)
{
	const struct member *leader = cluster_leader(c);
	struct node_server s;

	return c->plan.is_loose && leader != NULL &&
	       node_server_find(leader->host.node, m->host.id, &s) &&
	       s.role == NODE_SPARE;
}

/* A store that came with a snapshot may be ahead of the log beside it: what it
 * has is only known when the log is there. */
static bool is_known(struct cluster *c, const struct member *m)
{
	return member_runs(m) && m->store.n > 0 && !hears_nothing(c, m) &&
	       m->host.node->raft.last_applied >=
		   m->store.rows[m->store.n - 1].index;
}

void oracle_compare(struct cluster *c)
{
	const struct member *first = NULL;

	for (unsigned i = 0; i < SIM_NODES; i++) {
		const struct member *m = &c->member[i];

		if (!is_known(c, m))
			continue;
		if (first != NULL)
			compare(c, first, m);
		first = m;
	}
}
