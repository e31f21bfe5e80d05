/*
 * RPC services of raftd. See serve/svc.h. Loop thread; what takes long (the
 * feed, checkpoints) runs on the worker and comes back.
 */
#include "serve/svc.h"

#include <inttypes.h>
#include <stdlib.h>

#include "rt/file.h"
#include "rt/log.h"
#include "serve/svc_impl.h"
#include "serve/tail.h"
#include "store/record.h"
#include "util/clock.h"
#include "util/list.h"

/* sched, waiting for the next moment to change. */
struct due_wait {
	struct list node;
	struct rpc_req req;
	uint64_t known_ns;
};

struct svc *svc_new(struct raftd *r)
{
	struct svc *s = xcalloc(1, sizeof(*s));

	s->r = r;
	s->tail = tail_new(r);
	s->waits = svc_waits_new(s);
	s->events = svc_events_new(s);
	list_init(&s->dues);
	drains_init(s);
	return s;
}

void svc_free(struct svc *s)
{
	if (s == NULL)
		return;
	tail_free(s->tail);
	svc_waits_free(s->waits);
	svc_events_free(s->events);
	LIST_FOREACH_SAFE (it, &s->dues)
		free(list_entry(it, struct due_wait, node));
	drains_done(s);
	for (size_t i = 0; i < ARRAY_SIZE(s->httpd_metrics); i++)
		buf_done(&s->httpd_metrics[i]);
	arena_done(&s->scratch);
	buf_done(&s->out);
	free(s);
}

void svc_reply_error(struct rpc_req req, int err)
{
	rpc_reply(req, err, 0, str_from(err_text(err)));
}

void svc_reply(struct svc *s, struct rpc_req req, const struct msg_desc *d,
	       const void *m)
{
	buf_clear(&s->out);
	msg_encode(d, m, &s->out);
	rpc_reply(req, 0, fsm_last_seq(s->r->fsm), buf_str(&s->out));
}

/* --- queries --- */

void q_tail(struct svc *s, struct rpc_req req, const struct m_tail *m)
{
	tail_ask(s->tail, req, m);
}

struct checkpoint_job {
	struct rpc_req req;
	struct raftd *r;
	struct m_checkpoint_ref ref;
	struct buf path;
	struct buf why;
	int err;
};

static void checkpoint_work(void *ctx)
{
	struct checkpoint_job *j = ctx;
	struct record_meta meta;
	int r = -j->err;

	if (r == 0)
		r = record_meta_read(j->r->kv, &meta);
	if (r == 0) {
		MSG_SET(&j->ref, checkpoint_ref, seq, meta.last_seq);
		dir_remove(j->path.p);
		r = kv_checkpoint(j->r->kv, j->path.p, &j->why);
	}
	j->err = r < 0 ? -r : 0;
}

static void checkpoint_done(void *ctx)
{
	struct checkpoint_job *j = ctx;

	if (j->err != 0) {
		log_error("checkpoint for the view: %.*s",
			  STR_ARG(buf_str(&j->why)));
		svc_reply_error(j->req, j->err);
	} else {
		MSG_SET(&j->ref, checkpoint_ref, path, str_from(j->path.p));
		svc_reply(j->r->svc, j->req, &msg_checkpoint_ref, &j->ref);
	}
	buf_done(&j->path);
	buf_done(&j->why);
	free(j);
}

static void checkpoint_path(struct raftd *r, struct buf *ret)
{
	buf_printf(ret, "%s/checkpoints/view", r->d->settings.data_dir);
	buf_putc(ret, '\0');
}

void q_checkpoint(struct svc *s, struct rpc_req req, const struct m_nothing *m)
{
	struct checkpoint_job *j = xcalloc(1, sizeof(*j));

	(void)m;
	j->req = req;
	j->r = s->r;
	checkpoint_path(s->r, &j->path);
	j->err = -fsm_flush(s->r->fsm);
	worker_run(s->r->worker, checkpoint_work, checkpoint_done, j);
}

void q_checkpoint_done(struct svc *s, struct rpc_req req,
		       const struct m_checkpoint_ref *m)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	struct m_nothing nothing = { 0 };
	int r;

	(void)m; /* there is only one such checkpoint, and we know where */
	checkpoint_path(s->r, &path);
	r = dir_remove(path.p);
	if (r < 0)
		log_warn("cannot remove %s: %s", path.p, strerror(-r));
	svc_reply(s, req, &msg_nothing, &nothing);
}

static uint64_t first_due(const struct m_due_reply *d)
{
	uint64_t all[] = { d->promote_ns, d->reclaim_ns, d->expire_ns,
			   d->release_ns, d->fire_ns,    d->purge_ns,
			   d->bulk_ns };
	uint64_t first = 0;

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		first = min_nonzero(first, all[i]);
	return first;
}

/* First moments of everything sched does. */
static void due_moments(struct svc *s, struct m_due_reply *ret)
{
	fsm_due(s->r->fsm, ret);
	MSG_SET(ret, due_reply, purge_ns,
		fsm_purge_due(s->r->fsm, s->r->d->settings.retention));
}

static void due_now(struct svc *s, struct m_due_reply *ret)
{
	uint64_t last = fsm_last_seq(s->r->fsm);
	uint64_t kept = last + 1 - fsm_first_seq(s->r->fsm);
	uint64_t keep = s->r->d->settings.event_retention;

	*ret = (struct m_due_reply){ 0 };
	MSG_SET(ret, due_reply, leader, node_is_ready(s->r->node));
	if (!ret->leader)
		return;
	due_moments(s, ret);
	/* a tenth of slack, so that one trim removes many */
	if (kept > keep + keep / 10)
		MSG_SET(ret, due_reply, trim_seq, last - keep);
}

/* A sched that was started again counts from 0; our numbers only grow. */
static void note_sched(struct svc *s, const struct m_due *m)
{
	uint64_t now[SCHED_TASKS] = { m->promote_errors, m->reclaim_errors,
				      m->expire_errors, m->purge_errors };

	if (s->sched_pid != m->pid)
		memset(s->sched_told, 0, sizeof(s->sched_told));
	s->sched_pid = m->pid;
	for (int i = 0; i < SCHED_TASKS; i++) {
		if (now[i] > s->sched_told[i])
			s->sched_errors[i] += now[i] - s->sched_told[i];
		s->sched_told[i] = now[i];
	}
}

void q_due(struct svc *s, struct rpc_req req, const struct m_due *m)
{
	struct due_wait *w = xcalloc(1, sizeof(*w));

	note_sched(s, m);
	w->req = req;
	w->known_ns = m->known_ns;
	list_push_back(&s->dues, &w->node); /* svc_turn_end looks at it */
}

void q_node_status(struct svc *s, struct rpc_req req, const struct m_nothing *m)
{
	struct raftd *r = s->r;
	const struct settings *set = &r->d->settings;
	const struct proposer_stats *p = proposer_stats(r->proposer);
	struct m_node_status st = { 0 };
	struct node_info i;

	(void)m;
	node_info(r->node, &i);
	MSG_SET(&st, node_status, node_id, str_from(set->node_id));
	MSG_SET(&st, node_status, state, str_from(i.state));
	MSG_SET(&st, node_status, leader, node_is_leader(r->node));
	if (st.leader)
		MSG_SET(&st, node_status, leader_id, str_from(set->node_id));
	MSG_SET(&st, node_status, term, i.term);
	MSG_SET(&st, node_status, applied_index, i.applied_index);
	MSG_SET(&st, node_status, commit_index, i.commit_index);
	MSG_SET(&st, node_status, snapshot_index, i.snapshot_index);
	MSG_SET(&st, node_status, last_seq, fsm_last_seq(r->fsm));
	MSG_SET(&st, node_status, first_seq, fsm_first_seq(r->fsm));
	MSG_SET(&st, node_status, apply_pending_now, p->pending);
	MSG_SET(&st, node_status, parked_fetches, p->parked);
	MSG_SET(&st, node_status, disk_ok, p->disk_ok);
	MSG_SET(&st, node_status, raft_store, str_from(set->raft_store));
	MSG_SET(&st, node_status, ready, node_is_ready(r->node));
	MSG_SET(&st, node_status, uptime_seconds,
		(clock_mono_ns() - r->started_ns) / NS_PER_S);
	svc_reply(s, req, &msg_node_status, &st);
}

/* --- dispatch --- */

/* One thunk per query of this process. */

#define QUERY_THUNK(name, req_type)                                 \
	static void thunk_##name(struct svc *s, struct rpc_req req, \
				 const void *m)                     \
	{                                                           \
		q_##name(s, req, (const struct m_##req_type *)m);   \
	}
#define QUERY(num, NAME, name, proc, req_type, reply, doc) \
	PROC_IS_RAFTD_##proc(QUERY_THUNK(name, req_type))
#include "proto/defs/queries.def"

static const struct {
	unsigned id;
	void (*fn)(struct svc *s, struct rpc_req req, const void *m);
} queries[] = {
#define QUERY_ROW(NAME, name) { QUERY_##NAME, thunk_##name },
#define QUERY(num, NAME, name, proc, req_type, reply, doc) \
	PROC_IS_RAFTD_##proc(QUERY_ROW(NAME, name))
#include "proto/defs/queries.def"
};

union any_query {
#define QUERY(num, NAME, name, proc, req_type, reply, doc) \
	PROC_IS_RAFTD_##proc(struct m_##req_type name;)
#include "proto/defs/queries.def"
};

static void on_query(struct svc *s, struct rpc_req req,
		     const struct frame_request *item)
{
	union any_query m;

	for (size_t i = 0; i < ARRAY_SIZE(queries); i++) {
		if (queries[i].id != item->op)
			continue;
		arena_reset(&s->scratch);
		if (msg_decode(query_info(item->op)->request, item->body,
			       &s->scratch, &m) < 0)
			break;
		queries[i].fn(s, req, &m);
		return;
	}
	svc_reply_error(req, ERR_BAD_MESSAGE);
}

/*
 * sched may come for work that is done or gone by now: that is answered here,
 * so that an idle node writes nothing.
 */
static bool nothing_is_due(struct svc *s, uint32_t op)
{
	struct m_due_reply now = { 0 };
	uint64_t moment;

	if (!node_is_ready(s->r->node))
		return false;
	due_moments(s, &now);
	switch (op) {
	case OP_PROMOTE:
		moment = now.promote_ns;
		break;
	case OP_RECLAIM:
		moment = now.reclaim_ns;
		break;
	case OP_EXPIRE:
		moment = now.expire_ns;
		break;
	case OP_RELEASE:
		moment = now.release_ns;
		break;
	case OP_PURGE:
		moment = now.purge_ns;
		break;
	default:
		return false;
	}
	return moment == 0 || moment > clock_wall_ns();
}

static void on_request(void *ctx, struct rpc_req req,
		       const struct frame_request *item)
{
	struct svc *s = ctx;

	if (op_info(item->op) == NULL) {
		on_query(s, req, item);
	} else if (item->op == OP_HEARTBEAT && node_is_ready(s->r->node) &&
		   leases_heartbeat(s->r->leases, req, item)) {
		return;
	} else if ((op_info(item->op)->who & OP_SERVER) != 0 &&
		   nothing_is_due(s, item->op)) {
		struct m_maintain_reply none = { 0 };

		svc_reply(s, req, &msg_maintain_reply, &none);
	} else {
		proposer_submit(s->r->proposer, req, item);
	}
}

/* An asker that is gone is noticed when there is something to answer. */
static void dues_cancel(struct svc *s, struct rpc_req req)
{
	LIST_FOREACH_SAFE (it, &s->dues) {
		struct due_wait *w = list_entry(it, struct due_wait, node);

		if (!rpc_req_is(w->req, req))
			continue;
		list_remove(it);
		free(w);
	}
}

static void on_cancel(void *ctx, struct rpc_req req)
{
	struct svc *s = ctx;

	dues_cancel(s, req);
	proposer_cancel(s->r->proposer, req);
	svc_waits_cancel(s->waits, req);
	svc_events_cancel(s->events, req);
	drains_cancel(s, req);
}

static void on_peer_down(void *ctx, struct rpc_peer *peer)
{
	struct svc *s = ctx;

	proposer_peer_down(s->r->proposer, peer);
	svc_waits_peer_down(s->waits, peer);
	svc_events_peer_down(s->events, peer);
}

const struct rpc_server_ops svc_ops = {
	.on_request = on_request,
	.on_cancel = on_cancel,
	.on_peer_down = on_peer_down,
};

/* --- waiting queries --- */

/*
 * An earlier moment is news at once. A later one is not until the known one
 * has come: under load the first lease that ends is another one all the time.
 */
static bool due_is_news(const struct m_due_reply *now, uint64_t known_ns)
{
	uint64_t first = first_due(now);

	if (now->trim_seq != 0)
		return true;
	if (first == known_ns)
		return false;
	if (known_ns == 0 || (first != 0 && first < known_ns))
		return true;
	return known_ns <= clock_wall_ns();
}

static void dues_turn_end(struct svc *s)
{
	struct m_due_reply now;

	if (list_empty(&s->dues))
		return;
	due_now(s, &now);
	LIST_FOREACH_SAFE (it, &s->dues) {
		struct due_wait *w = list_entry(it, struct due_wait, node);

		if (rpc_req_is_live(w->req) && !due_is_news(&now, w->known_ns))
			continue;
		svc_reply(s, w->req, &msg_due_reply, &now);
		list_remove(it);
		free(w);
	}
}

void svc_turn_end(struct svc *s)
{
	tail_turn_end(s->tail);
	dues_turn_end(s);
	svc_waits_turn_end(s->waits);
	svc_events_turn_end(s->events);
	drains_turn_end(s);
}

size_t svc_waiting(const struct svc *s)
{
	return svc_waits_count(s->waits);
}

void svc_drain(struct svc *s)
{
	svc_waits_drain(s->waits);
	drains_end(s);
}
