/*
 * A node and its process: its store, its starts and ends, its proposals.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cluster.h"
#include "proto/err.h"
#include "util/le.h"

#define FETCH_MIN_NS (5 * NS_PER_MS)
#define FETCH_MAX_NS (800 * NS_PER_MS)
#define NUMBER_BYTES 8

/* --- the store --- */

static uint64_t last_row(const struct store *s)
{
	return s->n > 0 ? s->rows[s->n - 1].index : 0;
}

static void store_add(struct store *s, const struct row *r)
{
	if (s->n == s->room) {
		s->room = MAX(2 * s->room, (size_t)256);
		s->rows = xrealloc(s->rows, s->room * sizeof(*s->rows));
	}
	s->rows[s->n++] = *r;
}

static const struct row *store_find(const struct store *s, uint64_t index)
{
	size_t low = 0, high = s->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (s->rows[mid].index < index)
			low = mid + 1;
		else
			high = mid;
	}
	return low < s->n && s->rows[low].index == index ? &s->rows[low] : NULL;
}

/* What a crash leaves: what was made durable, and by chance some more, often
 * all. A disk that forgets does not keep that. */
static void store_crash(struct member *m)
{
	struct store *s = &m->store;
	size_t more = m->host.lost_max == 0 ? s->n - s->durable : 0;

	if (more == 0 || sim_chance(m->c->sim, 50))
		more = sim_below(m->c->sim, more + 1);
	s->n = s->durable + more;
	s->durable = s->n;
}

/* --- what a node asks of its process --- */

/* An entry is its number, again and again. */
static uint64_t number_in(struct cluster *c, struct str entry)
{
	uint64_t n = entry.n >= NUMBER_BYTES ? get_le64(entry.p) : 0;

	for (size_t at = 0; at + NUMBER_BYTES <= entry.n; at += NUMBER_BYTES)
		if (get_le64(entry.p + at) != n)
			n = 0;
	if (n == 0 || n >= c->proposals_n)
		cluster_fail(c, "an entry holds what nobody proposed");
	return n;
}

static int on_apply(void *ctx, uint64_t index, const void *tag,
		    const struct entry_origin *o, struct str entry)
{
	struct member *m = ctx;
	struct row r = { .index = index,
			 .number = number_in(m->c, entry),
			 .origin = *o };
	const struct row *old;

	(void)tag;
	if (index <= m->given)
		cluster_fail(
		    m->c, "node %u is given entry %" PRIu64 " after %" PRIu64,
		    m->host.number, index, m->given);
	m->given = index;
	if (index > last_row(&m->store)) {
		oracle_applied(m, &r, last_row(&m->store));
		store_add(&m->store, &r);
		sim_note(m->c->sim, "apply", m->host.number, index, r.number,
			 o->term, 0);
		return 0;
	}
	old = store_find(&m->store, index);
	if (m->c->plan.is_loose) /* only what comes of it counts */
		return 0;
	if (old == NULL || old->number != r.number || old->origin.id != o->id)
		cluster_fail(m->c,
			     "node %u is given entry %" PRIu64
			     " again, and it is another one",
			     m->host.number, index);
	return 0;
}

static int on_before_snapshot(void *ctx)
{
	(void)ctx;
	return 0;
}

static int on_make_durable(void *ctx, uint64_t index, struct buf *why)
{
	struct member *m = ctx;

	(void)index;
	(void)why;
	m->store.durable = m->store.n;
	return 0;
}

static int on_rewind(void *ctx, uint64_t *ret_index)
{
	(void)ctx;
	(void)ret_index;
	return -ERR_STORAGE_ERROR;
}

static void on_change(void *ctx)
{
	(void)ctx;
}

/* --- a snapshot of the leader --- */

/* As follow.c and install.c do: the store is the leader's as it is now. */
static void install(struct member *m, const struct member *leader)
{
	struct manifest x;
	uint64_t last = last_row(&leader->store);

	CHECK(manifest_parse(buf_str(&m->offer.data), &x));
	if (last < x.applied)
		return;
	if (last > x.applied) {
		x.store = last;
		x.store_origin = leader->store.rows[leader->store.n - 1].origin;
	}
	buf_clear(&m->offer.data);
	manifest_put(&m->offer.data, &x);
	disk_install(&m->host.disk, &m->offer);
	m->store.n = 0;
	for (size_t i = 0; i < leader->store.n; i++)
		store_add(&m->store, &leader->store.rows[i]);
	m->store.durable = m->store.n;
	m->joins = false;
	m->c->tally.installs++;
	sim_note(m->c->sim, "install", m->host.number, m->offer.index, last, 0,
		 0);
}

/* The log got beyond it by itself: see judge_log in install.c. */
static bool is_beyond(const struct member *m)
{
	const struct sim_disk *d = &m->host.disk;
	const struct logdir_rec *e = logdir_at(&d->log, m->offer.index);

	return (e != NULL && e->term == m->offer.term) ||
	       d->snapshot.index >= m->offer.index;
}

static void on_fetched(void *ctx)
{
	struct member *m = ctx;
	struct member *leader = member_of_id(m->c, m->offer_leader);
	bool is_there =
	    leader != NULL && leader->host.node != NULL && m->host.node != NULL;

	m->offer_leader = 0;
	if (!is_there)
		return;
	member_stop(m);
	if (!is_beyond(m))
		install(m, leader);
	member_restart_after(m, sim_skewed(m->c->sim, 0, FETCH_MAX_NS));
}

static void on_install(void *ctx, const struct node_install *i)
{
	struct member *m = ctx;

	if (m->offer_leader != 0)
		return;
	m->offer.index = i->manifest.index;
	m->offer.term = i->term;
	m->offer.members_index = i->members_index;
	buf_clear(&m->offer.members);
	buf_put_str(&m->offer.members, i->members);
	buf_clear(&m->offer.data);
	manifest_put(&m->offer.data, &i->manifest);
	m->offer_leader = i->leader;
	/* it happens to the world: a node does not end inside of its turn */
	sim_after(m->c->sim, &m->fetch, NULL,
		  sim_between(m->c->sim, FETCH_MIN_NS, FETCH_MAX_NS),
		  on_fetched, m);
}

static const struct node_ops ops = {
	.apply = on_apply,
	.before_snapshot = on_before_snapshot,
	.make_durable = on_make_durable,
	.rewind = on_rewind,
	.on_change = on_change,
	.on_install = on_install,
};

/* --- start and end --- */

static void on_turn_end(void *ctx)
{
	struct member *m = ctx;

	if (m->host.node == NULL)
		return;
	node_turn(m->host.node);
	oracle_look(m);
}

void member_make(struct cluster *c, unsigned number)
{
	struct member *m = &c->member[number];
	struct sim_host *h = &m->host;

	m->c = c;
	h->sim = c->sim;
	h->number = number;
	h->net = &c->net;
	h->loop.sim = c->sim;
	h->loop.host = h;
	c->net.host[number] = h;
	if (h->disk.sim == NULL)
		disk_init(&h->disk, c->sim, &h->loop);
	h->id = ++c->last_id;
	loop_on_turn_end(&h->loop, on_turn_end, m);
	(void)snprintf(m->name, sizeof(m->name), "%" PRIu64, h->id);
	(void)snprintf(m->dir, sizeof(m->dir), "%p", (void *)h);
	m->settings = (struct settings){
		.data_dir = m->dir,
		.node_id = m->name,
		.cluster = true,
		.raft_advertise = "here",
		.election_timeout = 300 * NS_PER_MS,
		.snapshot_bytes = c->plan.snapshot_bytes,
		.raft_max_pending_bytes = 4 * c->plan.snapshot_bytes,
	};
}

static void wipe(struct member *m)
{
	disk_wipe(&m->host.disk);
	m->store.n = m->store.durable = 0;
	m->is_refused = false;
	m->joins = true;
}

void member_start(struct member *m)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct store *s = &m->store;
	struct node_config c = { .settings = &m->settings,
				 .joins = m->joins,
				 .port = &m->port };
	struct loop *before;
	struct node *n = NULL;
	int r;

	CHECK(m->host.node == NULL);
	sim_forget(m->c->sim, &m->restart);
	c.store_origin.history = m->c->history;
	if (s->n > 0) {
		c.store_index = s->rows[s->n - 1].index;
		c.store_origin = s->rows[s->n - 1].origin;
	}
	m->host.life++;
	m->term = m->given = 0;
	before = sim_enter(&m->host.loop);
	r = node_start(&m->host.loop, &c, &ops, m, &n, &why);
	(void)sim_enter(before);
	sim_note(m->c->sim, "start", m->host.number, m->host.id, c.store_index,
		 m->host.disk.next, (uint64_t)-r);
	if (r == 0) {
		m->host.node = n;
		n->sends.part_bytes = m->c->plan.part_bytes;
		return;
	}
	node_free(n);
	m->is_refused = true;
	m->c->tally.refusals++;
	if (!m->c->plan.is_loose)
		cluster_fail(m->c, "node %u does not start: %.*s",
			     m->host.number, STR_ARG(buf_str(&why)));
}

static void end(struct member *m, bool is_crash)
{
	struct node *n = m->host.node;

	sim_note(m->c->sim, is_crash ? "crash" : "stop", m->host.number,
		 n->raft.current_term, n->raft.last_stored,
		 n->raft.commit_index, n->raft.last_applied);
	m->host.is_crash = is_crash;
	m->host.node = NULL;
	m->host.loop.still_ns = 0;
	node_free(n);
	sim_forget(m->c->sim, &m->fetch);
	sim_work_end(&m->host.loop, is_crash);
	m->offer_leader = 0;
	if (is_crash)
		store_crash(m);
	else
		m->store.durable = m->store.n;
	m->c->tally.crashes += is_crash;
}

void member_crash(struct member *m)
{
	end(m, true);
}

void member_stop(struct member *m)
{
	end(m, false);
}

static void on_restart(void *ctx)
{
	struct member *m = ctx;

	if (m->host.node != NULL && node_is_dead(m->host.node))
		member_crash(m);
	if (m->host.node == NULL && m->host.id != 0)
		member_start(m);
}

void member_restart_after(struct member *m, uint64_t ns)
{
	sim_forget(m->c->sim, &m->restart);
	sim_after(m->c->sim, &m->restart, NULL, ns, on_restart, m);
}

static void on_leave(void *ctx)
{
	struct member *m = ctx;

	if (m->host.node != NULL)
		member_stop(m);
	sim_forget(m->c->sim, &m->restart);
	wipe(m);
	m->host.id = 0;
	sim_note(m->c->sim, "left", m->host.number, 0, 0, 0, 0);
}

void member_leave_after(struct member *m, uint64_t ns)
{
	sim_forget(m->c->sim, &m->leave);
	sim_after(m->c->sim, &m->leave, NULL, ns, on_leave, m);
}

bool member_runs(const struct member *m)
{
	return m->host.node != NULL;
}

struct member *member_of_id(struct cluster *c, uint64_t id)
{
	for (unsigned i = 0; i < SIM_NODES; i++)
		if (id != 0 && c->member[i].host.id == id)
			return &c->member[i];
	return NULL;
}

void member_done(struct member *m)
{
	sim_forget(m->c->sim, &m->restart);
	sim_forget(m->c->sim, &m->leave);
	if (m->host.node != NULL)
		member_stop(m);
	disk_done(&m->host.disk);
	free(m->store.rows);
	buf_done(&m->offer.members);
	buf_done(&m->offer.data);
}

/* --- proposals --- */

struct asked {
	struct cluster *c;
	uint64_t number;
};

static void on_answer(void *ctx, int err)
{
	struct asked *a = ctx;

	oracle_answered(a->c, a->number, err);
	free(a);
}

bool member_propose(struct member *m, size_t bytes)
{
	struct cluster *c = m->c;
	uint64_t number = c->proposals_n;
	struct asked *a;
	const void *tag;
	char *entry;
	int r;

	bytes = MAX(bytes / NUMBER_BYTES, (size_t)1) * NUMBER_BYTES;
	c->proposals =
	    xrealloc(c->proposals, (number + 1) * sizeof(*c->proposals));
	c->proposals[number] = (struct proposal){ .at = m };
	c->proposals_n++;
	entry = xmalloc(bytes);
	for (size_t at = 0; at < bytes; at += NUMBER_BYTES)
		(void)put_le64(entry + at, number);
	a = xcalloc(1, sizeof(*a));
	*a = (struct asked){ .c = c, .number = number };
	r = node_propose(m->host.node, str_of(entry, bytes), &tag, on_answer,
			 a);
	free(entry);
	if (r == 0)
		return true;
	free(a);
	c->proposals[number].outcome = REFUSED;
	c->oracle.refused++;
	return false;
}
