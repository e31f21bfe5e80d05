/*
 * What is known of the nodes of the cluster. Each tells the leader of itself,
 * once a second; the leader answers with what it knows of all of them, so that
 * every node can show that. Loop thread.
 *
 * How long a node is behind: the leader remembers when it had applied what, and
 * looks up when that was what the node has now.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "rt/file.h"
#include "rt/log.h"
#include "serve/nodes_impl.h"
#include "util/clock.h"

#define REPORT_NS NS_PER_S
/* A clock that is further off is told of, until it is nearer again. */
#define CLOCK_OFF_MS   500
#define CLOCK_RIGHT_MS 400
/* An answer that took longer says little about a clock. */
#define CLOCK_WAY_NS (250 * NS_PER_MS)

/* --- how far behind --- */

/* The older half becomes coarser each time: it reaches back as far as need be.
 */
static void add_sample(struct svc_nodes *n, uint64_t index)
{
	size_t k = 0;

	if (n->samples_n > 0 && n->samples[n->samples_n - 1].index >= index)
		return;
	if (n->samples_n == SAMPLES) {
		for (size_t i = 0; i < SAMPLES; i += i < SAMPLES / 2 ? 2 : 1)
			n->samples[k++] = n->samples[i];
		n->samples_n = k;
	}
	n->samples[n->samples_n++] = (struct sample){ index, clock_mono_ns() };
}

/* When the leader had applied so much, and no more; between two samples it is
 * taken to have gone on evenly. */
static uint64_t when_applied(const struct svc_nodes *n, uint64_t index,
			     struct sample now)
{
	struct sample a = now, b = now;

	for (size_t i = n->samples_n; i-- > 0;) {
		b = a;
		a = n->samples[i];
		if (a.index <= index)
			break;
	}
	if (a.index > index || a.index >= b.index)
		return a.at_ns; /* at least so long ago */
	return a.at_ns + (uint64_t)((double)(b.at_ns - a.at_ns) *
				    (double)(index - a.index) /
				    (double)(b.index - a.index));
}

static void note_lag(struct svc_nodes *n, struct heard *h)
{
	struct node_info i;
	struct sample now = { .at_ns = clock_mono_ns() };

	node_info(n->s->p->node, &i);
	now.index = i.applied_index;
	h->lag_entries = now.index - MIN(now.index, h->m.applied_index);
	h->lag_ms = 0;
	if (h->lag_entries > 0)
		h->lag_ms =
		    (now.at_ns - when_applied(n, h->m.applied_index, now)) /
		    NS_PER_MS;
}

/* --- who is there --- */

struct heard *nodes_heard(struct svc_nodes *n, uint64_t raft_id)
{
	for (size_t i = 0; i < ARRAY_SIZE(n->heard); i++)
		if (n->heard[i].raft_id == raft_id)
			return &n->heard[i];
	return NULL;
}

bool nodes_is_alive(struct svc_nodes *n, uint64_t raft_id)
{
	const struct heard *h = nodes_heard(n, raft_id);

	return raft_id == node_id(n->s->p->node) ||
	       (h != NULL && clock_mono_ns() - h->at_ns < NODE_ALIVE_NS);
}

uint64_t nodes_heard_ns(struct svc_nodes *n, uint64_t raft_id)
{
	const struct heard *h = nodes_heard(n, raft_id);

	return h != NULL ? h->at_ns : 0;
}

bool nodes_last_report(struct svc_nodes *n, uint64_t raft_id,
		       struct m_node_report *ret)
{
	const struct heard *h = nodes_heard(n, raft_id);

	if (h == NULL || !nodes_is_alive(n, raft_id))
		return false;
	*ret = h->m;
	return true;
}

/* --- what the leader writes down --- */

static struct m_member member_of(const struct m_node_report *r, bool clock_off,
				 uint64_t differs)
{
	struct m_member m = { 0 };

	MSG_SET(&m, member, raft_id, r->raft_id);
	MSG_SET(&m, member, name, r->name);
	MSG_SET(&m, member, address, r->address);
	MSG_SET(&m, member, http, r->http);
	MSG_SET(&m, member, version, r->version);
	MSG_SET(&m, member, level_min, r->level_min);
	MSG_SET(&m, member, level_max, r->level_max);
	if (r->snapshot != NULL)
		MSG_SET(&m, member, fetching, r->snapshot->index);
	if (r->installed != 0)
		MSG_SET(&m, member, installed, r->installed);
	if (clock_off)
		MSG_SET(&m, member, clock_off, true);
	if (differs != 0)
		MSG_SET(&m, member, differs, differs);
	return m;
}

static bool is_same(const struct m_member *a, const struct m_member *b)
{
	return str_eq(a->name, b->name) && str_eq(a->address, b->address) &&
	       str_eq(a->http, b->http) && str_eq(a->version, b->version) &&
	       a->level_min == b->level_min && a->level_max == b->level_max &&
	       a->fetching == b->fetching && a->clock_off == b->clock_off &&
	       a->differs == b->differs &&
	       (b->installed == 0 || a->installed == b->installed);
}

/* Since when its store differs: what is written down holds until this process
 * knows better. */
static uint64_t differs_since(const struct store_verdict *v, uint64_t written)
{
	if (v == NULL || !v->known)
		return written;
	return v->differs != 0 && written != 0 ? written : v->differs;
}

/* What a member says of itself is written down when it is news. */
static void keep_member(struct svc *s, const struct m_node_report *r,
			bool clock_off, const struct store_verdict *v)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(0);
	struct m_member old = { 0 }, m;
	bool known = fsm_member_find(s->p->fsm, r->raft_id, &old);
	struct node_server server;

	m = member_of(r, clock_off, differs_since(v, old.differs));
	if (!proposer_stats(s->p->proposer)->disk_ok ||
	    !node_server_find(s->p->node, r->raft_id, &server) ||
	    (known && is_same(&old, &m)))
		return;
	msg_encode(&msg_member, &m, &body);
	proposer_submit_own(s->p->proposer, OP_SET_MEMBER, buf_str(&body));
}

void nodes_write_down(struct svc *s, const struct m_node_report *r)
{
	keep_member(s, r, false, NULL);
}

void nodes_mark(struct svc *s)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(0);
	struct m_snapshot_progress p;
	struct m_node_report own;
	struct m_member old, m;

	nodes_fill_report(s, &p, &own);
	if (!fsm_member_find(s->p->fsm, own.raft_id, &old))
		return; /* it will be, in a moment */
	m = member_of(&own, old.clock_off, old.differs);
	MSG_SET(&m, member, compare, true);
	msg_encode(&msg_member, &m, &body);
	proposer_submit_own(s->p->proposer, OP_SET_MEMBER, buf_str(&body));
}

/* --- reports --- */

static void fill_snapshot(struct svc_nodes *n, struct m_snapshot_progress *p,
			  struct m_node_report *ret)
{
	struct fetching f = { 0 };

	if (n == NULL || n->s->p->fetching == NULL)
		return;
	n->s->p->fetching(n->s->p->fetching_ctx, &f);
	if (f.index == 0)
		return;
	*p = (struct m_snapshot_progress){ 0 };
	MSG_SET(p, snapshot_progress, index, f.index);
	MSG_SET(p, snapshot_progress, bytes_done, f.done);
	MSG_SET(p, snapshot_progress, bytes_total, f.total);
	MSG_SET(p, snapshot_progress, bytes_per_second, n->fetch_rate);
	if (f.problem.n > 0)
		MSG_SET(p, snapshot_progress, problem,
			str_of(f.problem.p,
			       MIN(f.problem.n, (size_t)PROBLEM_BYTES)));
	MSG_SET(ret, node_report, snapshot, p);
}

void nodes_fill_report(struct svc *s, struct m_snapshot_progress *p,
		       struct m_node_report *ret)
{
	const struct settings *set = &s->p->d->settings;
	uint64_t disk_free, disk_used;
	struct node_info i;

	node_info(s->p->node, &i);
	*ret = (struct m_node_report){ 0 };
	MSG_SET(ret, node_report, raft_id, node_id(s->p->node));
	MSG_SET(ret, node_report, name, str_from(set->node_id));
	if (s->p->address != NULL)
		MSG_SET(ret, node_report, address, str_from(s->p->address));
	MSG_SET(ret, node_report, http, str_from(set->bind));
	MSG_SET(ret, node_report, version, str_from(corvo_version));
	MSG_SET(ret, node_report, level_min, 1);
	MSG_SET(ret, node_report, level_max, FEATURE_LEVEL);
	MSG_SET(ret, node_report, applied_index, i.applied_index);
	MSG_SET(ret, node_report, last_seq, fsm_last_seq(s->p->fsm));
	MSG_SET(ret, node_report, now_ns, clock_wall_ns());
	MSG_SET(ret, node_report, disk_ok,
		proposer_stats(s->p->proposer)->disk_ok);
	if (dir_space(set->data_dir, &disk_free, &disk_used) == 0) {
		MSG_SET(ret, node_report, disk_free, disk_free);
		MSG_SET(ret, node_report, disk_used, disk_used);
	}
	if (s->nodes != NULL && s->nodes->has_offset)
		MSG_SET(ret, node_report, clock_offset_ms, s->nodes->offset_ms);
	if (s->p->installed != 0)
		MSG_SET(ret, node_report, installed, s->p->installed);
	if (s->compare != NULL && compare_last(s)->index != 0) {
		MSG_SET(ret, node_report, digest_index, compare_last(s)->index);
		MSG_SET(ret, node_report, digest,
			str_from(compare_last(s)->text));
	}
	fill_snapshot(s->nodes, p, ret);
}

static void tell_leader(struct svc_nodes *n)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(0);
	struct m_snapshot_progress p;
	struct m_node_report m;

	if (!forward_is_up(n->s->p->forward))
		return;
	n->asked_ns = clock_mono_ns();
	n->asked++;
	nodes_fill_report(n->s, &p, &m);
	msg_encode(&msg_node_report, &m, &body);
	forward_tell(n->s->p->forward, QUERY_NODE_REPORT, buf_str(&body));
}

void svc_tell_leader(struct svc *s)
{
	if (s->nodes != NULL && s->p->node != NULL &&
	    !node_is_ready(s->p->node))
		tell_leader(s->nodes);
}

/* The leader's clock said so in the middle of the way there and back. */
static void note_clock(struct svc_nodes *n, uint64_t leader_ns)
{
	uint64_t way_ns = clock_mono_ns() - n->asked_ns;
	int64_t own = (int64_t)(clock_wall_ns() - way_ns / 2);

	if (n->asked != 1 || way_ns > CLOCK_WAY_NS || leader_ns == 0)
		return;
	n->offset_ms = (own - (int64_t)leader_ns) / (int64_t)NS_PER_MS;
	n->has_offset = true;
}

static void note_committed(struct svc_nodes *n, const struct m_node_told *m)
{
	if (MSG_HAS(m, node_told, committed))
		node_told(n->s->p->node, m->term, m->committed);
	else
		node_not_told(n->s->p->node);
}

static void on_told(void *ctx, uint32_t id, const struct rpc_reply *r)
{
	struct svc_nodes *n = ctx;
	struct m_node_told m;

	if (id != QUERY_NODE_REPORT)
		return;
	arena_reset(&n->s->scratch);
	if (r->err == 0 &&
	    msg_decode(&msg_node_told, r->body, &n->s->scratch, &m) == 0) {
		note_clock(n, m.now_ns);
		note_committed(n, &m);
		buf_clear(&n->told);
		buf_put_str(&n->told, r->body);
		n->told_ns = clock_mono_ns();
	}
	n->asked -= MIN(n->asked, 1u);
}

/* --- the leader hears --- */

/* In one line, when it changes. */
static void judge_clock(struct svc_nodes *n, struct heard *h, struct str name)
{
	int64_t off = h->offset_ms < 0 ? -h->offset_ms : h->offset_ms;
	bool was = h->clock_off;
	struct m_member old;

	if (h->at_ns == 0 && fsm_member_find(n->s->p->fsm, h->raft_id, &old))
		was = old.clock_off;
	h->clock_off = off > (was ? CLOCK_RIGHT_MS : CLOCK_OFF_MS);
	if (h->clock_off == was)
		return;
	if (h->clock_off)
		log_warn("the clock of node %.*s is %" PRId64
			 " ms off this one's, which leads; set it right, or "
			 "times will jump when that node leads",
			 STR_ARG(name), h->offset_ms);
	else
		log_info("the clock of node %.*s is right again",
			 STR_ARG(name));
}

static void keep_digest(struct heard *h, const struct m_node_report *m)
{
	struct compare_result *d = &h->digest;

	if (m->digest.n != sizeof(d->text) - 1)
		return;
	d->index = m->digest_index;
	memcpy(d->text, m->digest.p, m->digest.n);
	d->text[m->digest.n] = '\0';
}

static void keep_report(struct heard *h, const struct m_node_report *m)
{
	keep_digest(h, m);
	h->m = *m;
	h->m.digest = STR_NULL;
	h->m.name = h->m.address = h->m.http = h->m.version = STR_NULL;
	h->m.snapshot = NULL;
	if (m->snapshot == NULL)
		return;
	h->snapshot = *m->snapshot;
	h->snapshot.problem.n = MIN(h->snapshot.problem.n, sizeof(h->problem));
	if (h->snapshot.problem.n > 0)
		memcpy(h->problem, h->snapshot.problem.p,
		       h->snapshot.problem.n);
	h->snapshot.problem.p = h->problem;
	h->m.snapshot = &h->snapshot;
}

/* One that nobody has, or that of who has been silent longest: a disk that is
 * replaced is another node, so there are more in time than at any. */
static struct heard *free_place(struct svc_nodes *n)
{
	struct heard *ret = &n->heard[0];

	for (size_t i = 0; i < ARRAY_SIZE(n->heard); i++) {
		if (n->heard[i].raft_id == 0)
			return &n->heard[i];
		if (n->heard[i].at_ns < ret->at_ns)
			ret = &n->heard[i];
	}
	return ret;
}

static void hear(struct svc_nodes *n, const struct m_node_report *m)
{
	struct heard *h = nodes_heard(n, m->raft_id);

	if (h == NULL) {
		h = free_place(n);
		*h = (struct heard){ .raft_id = m->raft_id };
	}
	h->offset_ms = MSG_HAS(m, node_report, clock_offset_ms)
			   ? m->clock_offset_ms
			   : ((int64_t)m->now_ns - (int64_t)clock_wall_ns()) /
				 (int64_t)NS_PER_MS;
	judge_clock(n, h, m->name);
	h->at_ns = clock_mono_ns();
	keep_report(h, m);
	note_lag(n, h);
	keep_member(n->s, m, h->clock_off, &h->verdict);
}

void q_node_report(struct svc *s, struct rpc_req req,
		   const struct m_node_report *m)
{
	struct m_node_told r = { 0 };
	struct m_cluster_node *rows;
	struct node_info i;
	size_t n;

	if (s->nodes != NULL && m->raft_id != 0)
		hear(s->nodes, m);
	n = svc_nodes(s, &rows);
	MSG_SET(&r, node_told, now_ns, clock_wall_ns());
	MSG_SET_LIST(&r, node_told, nodes, rows, n);
	node_info(s->p->node, &i);
	MSG_SET(&r, node_told, term, i.term);
	MSG_SET(&r, node_told, committed, i.commit_index);
	svc_reply(s, req, &msg_node_told, &r);
}

/* --- life --- */

static void look_at_fetch(struct svc_nodes *n)
{
	uint64_t now_ns = clock_mono_ns(), rate;
	struct fetching f = { 0 };

	if (n->s->p->fetching != NULL)
		n->s->p->fetching(n->s->p->fetching_ctx, &f);
	if (f.index == 0 || f.received < n->fetch_done || n->fetch_ns == 0) {
		n->fetch_rate = 0;
	} else {
		rate = (f.received - n->fetch_done) * NS_PER_S /
		       MAX(now_ns - n->fetch_ns, (uint64_t)1);
		n->fetch_rate = (n->fetch_rate + rate) / 2;
	}
	n->fetch_done = f.received;
	n->fetch_ns = now_ns;
}

static void look_as_leader(struct svc_nodes *n)
{
	struct m_snapshot_progress p;
	struct m_node_report own;
	struct node_info i;

	node_info(n->s->p->node, &i);
	add_sample(n, i.applied_index);
	n->has_offset = false;
	if (n->told_ns != 0)
		n->led_ns = clock_mono_ns();
	if (clock_mono_ns() - n->led_ns >= NODE_ALIVE_NS)
		buf_clear(&n->told);
	n->told_ns = 0;
	nodes_judge(n);
	nodes_fill_report(n->s, &p, &own);
	keep_member(n->s, &own, false, &n->own);
	compare_lead(n->s);
}

/* The next leader judges by itself, and what it finds is written down. */
static void forget_verdicts(struct svc_nodes *n)
{
	n->own.known = false;
	for (size_t i = 0; i < ARRAY_SIZE(n->heard); i++)
		n->heard[i].verdict.known = false;
}

void nodes_look(struct svc_nodes *n)
{
	look_at_fetch(n);
	if (node_is_ready(n->s->p->node)) {
		look_as_leader(n);
		return;
	}
	n->samples_n = 0;
	forget_verdicts(n);
	compare_follow(n->s);
	forward_on_told(n->s->p->forward, on_told, n);
	if (node_wants_to_be_told(n->s->p->node) ||
	    clock_mono_ns() - n->asked_ns >= REPORT_NS)
		tell_leader(n);
}

struct svc_nodes *svc_nodes_new(struct svc *s)
{
	struct svc_nodes *n = xcalloc(1, sizeof(*n));

	n->s = s;
	return n;
}

void svc_nodes_free(struct svc_nodes *n)
{
	if (n == NULL)
		return;
	buf_done(&n->told);
	free(n);
}
