/*
 * RPC services of raftd. See serve/svc.h. Loop thread; what takes long (the
 * feed, checkpoints) runs on the worker and comes back.
 */
#include "serve/svc.h"

#include <inttypes.h>
#include <stdlib.h>

#include "rt/log.h"
#include "serve/keep.h"
#include "serve/svc_impl.h"
#include "serve/tail.h"
#include "util/clock.h"
#include "util/list.h"

struct svc *svc_new(struct parts *p)
{
	struct svc *s = xcalloc(1, sizeof(*s));

	s->p = p;
	s->tail = tail_new(p);
	s->line = line_new(s);
	s->waits = svc_waits_new(s);
	s->drains = drains_new(s);
	s->events = svc_events_new(s);
	s->snapshots = svc_snapshots_new(s);
	list_init(&s->dues);
	digest_ask_init(s);
	holds_init(s);
	push_init(s);
	invites_init(s);
	if (p->address != NULL) {
		s->nodes = svc_nodes_new(s);
		s->compare = compare_new(s);
		s->cluster = svc_cluster_new(s);
	}
	return s;
}

void svc_free(struct svc *s)
{
	if (s == NULL)
		return;
	tail_free(s->tail);
	line_free(s->line);
	svc_waits_free(s->waits);
	drains_free(s->drains);
	svc_events_free(s->events);
	svc_snapshots_free(s->snapshots);
	dues_done(s);
	digest_ask_done(s);
	compare_free(s->compare);
	holds_done(s);
	push_done(s);
	svc_cluster_free(s->cluster);
	svc_nodes_free(s->nodes);
	for (size_t i = 0; i < ARRAY_SIZE(s->httpd_metrics); i++)
		buf_done(&s->httpd_metrics[i]);
	arena_done(&s->chosen_arena);
	arena_done(&s->scratch);
	buf_done(&s->out);
	free(s);
}

void svc_reply_error(struct rpc_req req, int err)
{
	rpc_reply(req, err, 0, str_from(err_text(err)));
}

uint64_t svc_newest_seq(const struct svc *s)
{
	uint64_t own = fsm_last_seq(s->p->fsm);

	return s->p->forward != NULL ? MAX(own, forward_seq(s->p->forward))
				     : own;
}

void svc_reply(struct svc *s, struct rpc_req req, const struct msg_desc *d,
	       const void *m)
{
	buf_clear(&s->out);
	msg_encode(d, m, &s->out);
	s->replied = true;
	svc_reply_again(s, req);
}

void svc_reply_again(struct svc *s, struct rpc_req req)
{
	rpc_reply(req, 0, svc_newest_seq(s), buf_str(&s->out));
}

/* --- queries --- */

static void note_rebuild(struct svc *s, const struct m_rebuild_status *m)
{
	static const struct m_rebuild_status none;
	struct m_rebuild_status *to = &s->viewd_rebuild;

	*to = m != NULL ? *m : none;
	to->last_error.n =
	    MIN(to->last_error.n, sizeof(s->viewd_rebuild_error));
	if (to->last_error.n > 0)
		memcpy(s->viewd_rebuild_error, to->last_error.p,
		       to->last_error.n);
	to->last_error.p = s->viewd_rebuild_error;
}

void q_tail(struct svc *s, struct rpc_req req, const struct m_tail *m)
{
	s->viewd_pid = m->pid;
	s->viewd_seq = m->after_seq;
	note_rebuild(s, m->rebuild);
	proposer_note_view(s->p->proposer, m->after_seq);
	tail_ask(s->tail, req, m);
}

static void fill_hist(struct svc *s, const struct hist *h,
		      struct m_time_hist *ret)
{
	struct m_hist_bucket *b =
	    arena_zalloc(&s->scratch, HIST_BOUNDS * sizeof(*b));
	uint64_t below = 0;

	for (size_t i = 0; i < HIST_BOUNDS; i++) {
		below += h->count[i];
		MSG_SET(&b[i], hist_bucket, le,
			(double)hist_short.ns[i] / (double)NS_PER_S);
		MSG_SET(&b[i], hist_bucket, count, below);
	}
	MSG_SET(ret, time_hist, count, h->total);
	MSG_SET(ret, time_hist, avg,
		h->total > 0 ? h->sum_s / (double)h->total : 0);
	MSG_SET(ret, time_hist, p50, hist_quantile(h, &hist_short, 0.5));
	MSG_SET(ret, time_hist, p90, hist_quantile(h, &hist_short, 0.9));
	MSG_SET(ret, time_hist, p99, hist_quantile(h, &hist_short, 0.99));
	MSG_SET_LIST(ret, time_hist, buckets, b, HIST_BOUNDS);
}

static void fill_mirror(const struct svc *s, struct m_mirror_status *ret)
{
	uint64_t newest = fsm_last_seq(s->p->fsm);
	uint64_t lag = newest - MIN(s->viewd_seq, newest);

	MSG_SET(ret, mirror_status, async, true);
	MSG_SET(ret, mirror_status, dropped, 0);
	MSG_SET(ret, mirror_status, queued, newest);
	MSG_SET(ret, mirror_status, applied, newest - lag);
	MSG_SET(ret, mirror_status, lag, lag);
	MSG_SET(ret, mirror_status, queue_depth, lag);
	MSG_SET(ret, mirror_status, queue_capacity,
		fsm_settings(s->p->fsm)->event_retention);
}

static void fill_recent(const struct parts *p, struct m_node_recent *ret)
{
	uint64_t now = proposer_now(p->proposer);
	uint64_t up = clock_mono_ns() - p->started_ns;

	throughput_recent(&p->throughput, now, now - MIN(now, up), ret);
}

static void fill_snapshot(struct svc *s, const struct node_info *i,
			  struct m_snapshot_status *ret)
{
	uint64_t index = i->snapshot_index;

	MSG_SET(ret, snapshot_status, count, index > 0);
	MSG_SET(ret, snapshot_status, latest_index, index);
	MSG_SET(ret, snapshot_status, latest_term, i->snapshot_term);
	MSG_SET(ret, snapshot_status, latest_size,
		keep_bytes(s->p->keep, index));
	if (index > 0)
		MSG_SET(ret, snapshot_status, latest_id,
			arena_printf(&s->scratch, "%llu",
				     (unsigned long long)index));
}

/* What clients of 0.3 look at: how the node is set up, and what it has done. */
static void fill_03(const struct svc *s, const struct m_cluster_node *nodes,
		    size_t n, struct m_node_status *ret)
{
	const struct settings *set = &s->p->d->settings;
	const struct proposer_stats *p = proposer_stats(s->p->proposer);

	for (size_t i = 0; i < n; i++)
		if (str_is(nodes[i].role, "leader"))
			MSG_SET(ret, node_status, leader_addr,
				nodes[i].address);
	MSG_SET(ret, node_status, raft_nosync, false);
	MSG_SET(ret, node_status, pebble_nosync, true);
	MSG_SET(ret, node_status, sqlite_mirror_async, true);
	MSG_SET(ret, node_status, lifecycle_events, true);
	MSG_SET(ret, node_status, snapshot_threshold, set->snapshot_bytes);
	MSG_SET(ret, node_status, apply_max_pending, set->raft_max_pending);
	MSG_SET(ret, node_status, apply_max_fetch_queue_inflight,
		set->raft_max_fetch_inflight);
	MSG_SET(ret, node_status, apply_batch_max, set->apply_batch_max);
	MSG_SET(ret, node_status, apply_batch_min_wait,
		set->apply_batch_min_wait);
	MSG_SET(ret, node_status, overload_total, p->overload);
	MSG_SET(ret, node_status, fetch_overload_total, p->fetch_overload);
	MSG_SET(ret, node_status, applied_total, p->ops);
}

/* Alone, a node uses all it knows as soon as it leads; until that is in the
 * log, what needs it is refused. */
static bool is_raising_level(const struct parts *p)
{
	return node_voters(p->node) == 1 && fsm_level(p->fsm) < FEATURE_LEVEL &&
	       proposer_stats(p->proposer)->disk_ok;
}

static bool is_ready(const struct parts *p)
{
	if (node_is_ready(p->node))
		return !is_raising_level(p);
	return node_is_whole(p->node) && p->forward != NULL &&
	       forward_is_up(p->forward);
}

void q_node_status(struct svc *s, struct rpc_req req, const struct m_nothing *m)
{
	const struct parts *parts = s->p;
	const struct settings *set = &parts->d->settings;
	const struct proposer_stats *p = proposer_stats(parts->proposer);
	_cleanup_(buf_done) struct buf history = BUF_INIT(0);
	struct m_node_status st = { 0 };
	struct m_time_hist queue_time = { 0 }, apply_time = { 0 };
	struct m_mirror_status mirror = { 0 };
	struct m_node_recent recent;
	struct m_snapshot_status snapshot = { 0 };
	struct m_cluster_node *nodes;
	struct node_info i;
	size_t n = svc_nodes(s, &nodes);

	(void)m;
	MSG_SET_LIST(&st, node_status, nodes, nodes, n);
	history_put(&history, &fsm_origin(parts->fsm)->history);
	MSG_SET(&st, node_status, history, buf_str(&history));
	node_info(parts->node, &i);
	MSG_SET(&st, node_status, node_id, str_from(set->node_id));
	MSG_SET(&st, node_status, state, str_from(i.state));
	MSG_SET(&st, node_status, leader, node_is_leader(parts->node));
	if (node_leader_id(parts->node) != 0)
		MSG_SET(&st, node_status, leader_id, svc_leader_name(s));
	MSG_SET(&st, node_status, term, i.term);
	MSG_SET(&st, node_status, applied_index, i.applied_index);
	MSG_SET(&st, node_status, commit_index, i.commit_index);
	MSG_SET(&st, node_status, snapshot_index, i.snapshot_index);
	fill_snapshot(s, &i, &snapshot);
	MSG_SET(&st, node_status, snapshot, &snapshot);
	fill_03(s, nodes, n, &st);
	MSG_SET(&st, node_status, snapshot_failures, i.cut_failures);
	MSG_SET(&st, node_status, last_seq, fsm_last_seq(parts->fsm));
	MSG_SET(&st, node_status, first_seq, fsm_first_seq(parts->fsm));
	MSG_SET(&st, node_status, apply_pending_now, p->pending);
	MSG_SET(&st, node_status, parked_fetches, p->parked);
	MSG_SET(&st, node_status, disk_ok, p->disk_ok);
	MSG_SET(&st, node_status, raft_store, str_from(set->raft_store));
	MSG_SET(&st, node_status, ready, is_ready(parts));
	MSG_SET(&st, node_status, damage, buf_str(&parts->damage));
	if (fsm_skips_n(parts->fsm) > 0)
		MSG_SET(&st, node_status, entries_skipped,
			fsm_skips_n(parts->fsm));
	MSG_SET(&st, node_status, membership, svc_membership(s));
	MSG_SET(&st, node_status, uptime_seconds,
		(clock_mono_ns() - parts->d->notify.node_started_ns) /
		    NS_PER_S);
	fill_hist(s, &p->queue_time, &queue_time);
	fill_hist(s, &p->apply_time, &apply_time);
	fill_mirror(s, &mirror);
	fill_recent(parts, &recent);
	MSG_SET(&st, node_status, queue_time_hist, &queue_time);
	MSG_SET(&st, node_status, apply_time_hist, &apply_time);
	MSG_SET(&st, node_status, sqlite_mirror, &mirror);
	MSG_SET(&st, node_status, sqlite_rebuild, &s->viewd_rebuild);
	MSG_SET(&st, node_status, recent, &recent);
	svc_reply(s, req, &msg_node_status, &st);
}

void q_get_settings(struct svc *s, struct rpc_req req,
		    const struct m_nothing *m)
{
	(void)m;
	svc_reply(s, req, &msg_cluster_settings, fsm_settings(s->p->fsm));
}

void q_fence(struct svc *s, struct rpc_req req, const struct m_nothing *m)
{
	(void)m;
	proposer_fence(s->p->proposer, req, s->deadline_ns);
}

/* It has it: hold.c has seen to that. */
void q_reach(struct svc *s, struct rpc_req req, const struct m_reach *m)
{
	struct m_nothing nothing = { 0 };

	(void)m;
	svc_reply(s, req, &msg_nothing, &nothing);
}

/* --- dispatch --- */

/* One thunk per query of this process. */

#define QUERY_THUNK(name, req_type)                                 \
	static void thunk_##name(struct svc *s, struct rpc_req req, \
				 const void *m)                     \
	{                                                           \
		q_##name(s, req, (const struct m_##req_type *)m);   \
	}
#define QUERY(num, NAME, name, proc, asked, does, req_type, reply, doc) \
	PROC_IS_RAFTD_##proc(QUERY_THUNK(name, req_type))
#include "proto/defs/queries.def"

static const struct {
	unsigned id;
	void (*fn)(struct svc *s, struct rpc_req req, const void *m);
} queries[] = {
#define QUERY_ROW(NAME, name) { QUERY_##NAME, thunk_##name },
#define QUERY(num, NAME, name, proc, asked, does, req_type, reply, doc) \
	PROC_IS_RAFTD_##proc(QUERY_ROW(NAME, name))
#include "proto/defs/queries.def"
};

union any_query {
#define QUERY(num, NAME, name, proc, asked, does, req_type, reply, doc) \
	PROC_IS_RAFTD_##proc(struct m_##req_type name;)
#include "proto/defs/queries.def"
};

/* What can be read is not what was applied. */
static bool has_less(const struct svc *s)
{
	return fsm_is_broken(s->p->fsm) ||
	       (node_is_frozen(s->p->node) && !node_is_whole(s->p->node));
}

static void ask(struct svc *s, struct rpc_req req,
		const struct frame_request *item)
{
	union any_query m;

	if (has_less(s) && item->op != QUERY_NODE_STATUS) {
		svc_reply_error(req, frame_refusal(item, ERR_STORAGE_ERROR));
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(queries); i++) {
		if (queries[i].id != item->op)
			continue;
		arena_reset(&s->scratch);
		s->deadline_ns = item->deadline_ns;
		s->is_again = (item->flags & FRAME_RESEND) != 0;
		if (msg_decode(query_info(item->op)->request, item->body,
			       &s->scratch, &m) < 0)
			break;
		queries[i].fn(s, req, &m);
		return;
	}
	svc_reply_error(req, ERR_BAD_MESSAGE);
}

/* Changes are made, and some things are known, by the leader only. */
static bool is_for_leader(uint32_t id)
{
	const struct call_info *query = query_info(id);

	return query != NULL ? query->asked == ASKED_LEADER
			     : op_info(id) != NULL;
}

static bool is_elsewhere(const struct svc *s, uint32_t id)
{
	return s->p->forward != NULL && !node_is_ready(s->p->node) &&
	       is_for_leader(id);
}

/* To whoever leads. */
static void pass_on(struct svc *s, struct rpc_req req,
		    const struct frame_request *item)
{
	struct frame_request named = *item;

	if (item->op == QUERY_CLUSTER_TRANSFER &&
	    transfer_name_term(s, &named.body))
		forward_submit(s->p->forward, req, &named);
	else
		forward_submit(s->p->forward, req, item);
}

void svc_question(struct svc *s, struct rpc_req req,
		  const struct frame_request *item, bool ready)
{
	if (is_elsewhere(s, item->op))
		pass_on(s, req, item);
	else if (ready || !holds_take(s, req, item))
		ask(s, req, item);
}

static void refuse_new(struct svc *s, struct rpc_req req, unsigned level)
{
	buf_clear(&s->out);
	fsm_level_why(s->p->fsm, level, &s->out);
	rpc_reply(req, ERR_UNSUPPORTED, 0, buf_str(&s->out));
}

/*
 * A leader of an older version could not even read what is newer. One that
 * comes again may have been done before this node has heard of the level.
 */
static void pass_on_change(struct svc *s, struct rpc_req req,
			   const struct frame_request *item)
{
	unsigned known = fsm_level(s->p->fsm), level = 0;
	struct frame_request told = *item;

	if (known < FEATURE_LEVEL) {
		arena_reset(&s->scratch);
		buf_clear(&s->out);
		level = op_level(op_info(item->op), known, &told.body,
				 &s->scratch, &s->out);
	}
	if (level > known && (item->flags & FRAME_RESEND) == 0)
		refuse_new(s, req, level);
	else
		forward_submit(s->p->forward, req, &told);
}

static void on_request(void *ctx, struct rpc_req req,
		       const struct frame_request *item)
{
	struct svc *s = ctx;

	if (op_info(item->op) == NULL) {
		line_take(s->line, req, item, false);
	} else if (is_elsewhere(s, item->op)) {
		pass_on_change(s, req, item);
	} else if (item->op == OP_HEARTBEAT && node_is_sure(s->p->node) &&
		   leases_heartbeat(s->p->leases, req, item)) {
		return;
	} else if ((op_info(item->op)->who & OP_SERVER) != 0 &&
		   dues_is_nothing(s, item->op)) {
		struct m_maintain_reply none = { 0 };

		svc_reply(s, req, &msg_maintain_reply, &none);
	} else {
		proposer_submit(s->p->proposer, req, item);
	}
}

static void on_cancel(void *ctx, struct rpc_req req)
{
	struct svc *s = ctx;

	if (s->p->forward != NULL)
		forward_cancel(s->p->forward, req);
	line_cancel(s->line, req);
	tail_cancel(s->tail, req);
	holds_cancel(s, req);
	dues_cancel(s, req);
	push_cancel(s, req);
	proposer_cancel(s->p->proposer, req);
	svc_waits_cancel(s->waits, req);
	svc_events_cancel(s->events, req);
	drains_cancel(s->drains, req);
	digest_ask_cancel(s, req);
}

static void on_peer_down(void *ctx, struct rpc_peer *peer)
{
	struct svc *s = ctx;

	if (s->p->forward != NULL)
		forward_peer_down(s->p->forward, peer);
	proposer_peer_down(s->p->proposer, peer);
	svc_waits_peer_down(s->waits, peer);
	svc_events_peer_down(s->events, peer);
	drains_peer_down(s->drains, peer);
}

static void on_room(void *ctx)
{
	struct svc *s = ctx;

	svc_waits_look(s->waits);
	line_look(s->line);
}

const struct rpc_server_ops svc_ops = {
	.on_request = on_request,
	.on_cancel = on_cancel,
	.on_peer_down = on_peer_down,
	.on_room = on_room,
};

static void on_aside(void *ctx, struct rpc_req req,
		     const struct frame_request *item)
{
	if (item->op == QUERY_CLUSTER_JOIN || item->op == QUERY_CLUSTER_PROBE ||
	    item->op == QUERY_CLUSTER_INVITE ||
	    item->op == QUERY_SNAPSHOT_FILES ||
	    item->op == QUERY_SNAPSHOT_CHUNK ||
	    item->op == QUERY_SNAPSHOT_NEWEST)
		on_request(ctx, req, item);
	else
		svc_reply_error(req, ERR_BAD_MESSAGE);
}

const struct rpc_server_ops svc_aside_ops = {
	.on_request = on_aside,
	.on_cancel = on_cancel,
	.on_peer_down = on_peer_down,
	.on_room = on_room,
};

/* Every election has a term of its own. */
static void note_term(struct svc *s)
{
	struct node_info i;

	node_info(s->p->node, &i);
	s->first_term = i.term;
}

void svc_turn_end(struct svc *s)
{
	if (s->first_term == 0)
		note_term(s);
	tail_turn_end(s->tail);
	holds_turn_end(s);
	dues_turn_end(s);
	push_turn_end(s);
	svc_waits_turn_end(s->waits);
	svc_events_turn_end(s->events);
	svc_snapshots_turn_end(s->snapshots);
	drains_turn_end(s->drains);
	line_turn_end(s->line);
	digest_ask_turn_end(s);
	invites_turn_end(s);
}

size_t svc_waiting(const struct svc *s)
{
	return svc_waits_count(s->waits);
}

void svc_end_work(struct svc *s)
{
	s->draining = true;
	s->ended = true;
}

void svc_drain(struct svc *s)
{
	s->draining = true;
	svc_waits_drain(s->waits);
	drains_end(s->drains);
}
