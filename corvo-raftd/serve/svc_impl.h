/*
 * Inside raftd's services: what their files share. Loop thread.
 */
#ifndef CORVO_SVC_IMPL_H
#define CORVO_SVC_IMPL_H

#include "serve/svc.h"
#include "store/digest.h"
#include "util/hmap.h"
#include "util/list.h"

/* Kinds of work of sched that metrics tell apart. */
enum {
	SCHED_PROMOTES,
	SCHED_RECLAIMS,
	SCHED_EXPIRES,
	SCHED_PURGES,
	SCHED_TASKS
};

#define SVC_WORKER_STATES 3 /* active, idle, lost */

struct compare;
struct digest_ask;
struct drains;
struct leave;
struct line;
struct metric_list;
struct svc_cluster;
struct svc_events;
struct svc_nodes;
struct svc_snapshots;
struct svc_waits;

/* What sched has told of push queues, see serve/push.c. */
struct push_told {
	struct list waits;
	struct hmap states; /* queue -> struct m_push_state, in the arena */
	struct arena arena;
	uint32_t pid;
	uint64_t told_calls, told_failures;
	uint64_t calls, failures; /* of all processes so far */
	uint64_t open, breakers;
};

/* A kind of question that this process is asked. */
enum svc_kind {
#define PROC_IS_RAFTD_RAFTD(x) x
#define PROC_IS_RAFTD_VIEWD(x)
#define SVC_KIND(NAME) SVC_KIND_##NAME,
#define QUERY(num, NAME, name, proc, asked, does, req_type, reply, doc) \
	PROC_IS_RAFTD_##proc(SVC_KIND(NAME))
#include "proto/defs/queries.def"
	SVC_KINDS
};

struct svc {
	struct parts *p;
	struct line *line;
	struct tail *tail;
	struct svc_waits *waits;
	struct svc_events *events;
	struct svc_snapshots *snapshots;
	struct svc_cluster *cluster; /* NULL: there are no other nodes */
	struct svc_nodes *nodes;     /* the same */
	uint64_t full_ns;            /* serve/handover.c: since then; 0: no */
	bool said_dead;              /* the same */
	uint64_t snapshot_sent;      /* bytes, to other nodes */
	uint64_t first_term;         /* that this process has seen; 0: none */
	struct list invites;         /* serve/admit.c */
	size_t invites_n;
	struct leave *leaving; /* serve/depart.c; NULL: it is not */
	bool left;             /* the cluster */
	struct list dues;      /* serve/due.c */
	struct drains *drains;
	struct list holds; /* serve/hold.c */
	size_t holds_n;
	bool was_whole; /* the same: the store has the end of the log */
	struct digest_ask *digest; /* serve/digest.c; there is one at a time */
	struct loop_timer *digest_timer;
	struct compare *compare; /* serve/compare.c; NULL: no other nodes */
	/* What sched last told of itself, and its failures in all. */
	uint32_t sched_pid, viewd_pid; /* 0: not told yet */
	uint64_t viewd_seq;            /* last event it has said to have */
	struct m_rebuild_status viewd_rebuild; /* as it has said last */
	char viewd_rebuild_error[LIMIT_REBUILD_ERROR_BYTES];
	uint64_t sched_told[SCHED_TASKS], sched_errors[SCHED_TASKS];
	struct push_told push;
	bool draining;     /* nothing begins to wait any more */
	bool ended;        /* workers are gone: nothing is answered any more */
	size_t reads;      /* under way in serve/read.c and serve/jobs.c */
	size_t usage_asks; /* under way in serve/usage.c */
	size_t at_asks;    /* under way in serve/webhooks.c */
	/* Queues that have metrics of their own, where there are too many. */
	struct arena chosen_arena;
	struct str *chosen;
	size_t chosen_n;
	uint64_t chosen_ns; /* 0: not yet */
	/* What each of several httpd processes last told of itself. */
	struct buf httpd_metrics[LIMIT_HTTPD_PROCESSES];
	struct arena scratch; /* for the query being answered */
	uint64_t deadline_ns; /* of it */
	bool is_again;        /* and it may have been answered before */
	struct buf out;
	bool replied; /* the answer made last is in out */
	/* serve/workers.c: what was counted last */
	uint64_t workers_n[SVC_WORKER_STATES];
	uint64_t workers_until_ns; /* and is believed till then */
};

void svc_reply_error(struct rpc_req req, int err);
/* Of a change of who is a member, or leads; err: -ERR_*. */
void svc_refuse_change(struct rpc_req req, int err);
void svc_reply(struct svc *s, struct rpc_req req, const struct msg_desc *d,
	       const void *m);

/* The same again, to another one. */
void svc_reply_again(struct svc *s, struct rpc_req req);
/* The newest event of what was acknowledged through this node, which it may
 * have yet to hear of itself. */
uint64_t svc_newest_seq(const struct svc *s);

/* Sees to it that a question is answered: now, as soon as the store has what it
 * needs, or by the leader. ready: it has. */
void svc_question(struct svc *s, struct rpc_req req,
		  const struct frame_request *item, bool ready);

/* --- serve/line.c: questions that wait for their turn --- */

struct question {
	struct list node;
	struct rpc_req req;
	struct frame_request item; /* its slices point behind the struct */
	uint64_t since_ns;         /* monotonic; it came */
	uint64_t seq;              /* serve/hold.c: the store must have it */
	bool ready;                /* serve/line.c: it has that */
};

struct question *question_new(struct rpc_req req,
			      const struct frame_request *item);
void question_free(struct question *q); /* out of the list it is in */
bool question_is_late(const struct question *q, uint64_t now_ns);

struct line *line_new(struct svc *s);
void line_free(struct line *l);
/* It is answered when it is its turn, perhaps now; ready: as svc_question. */
void line_take(struct line *l, struct rpc_req req,
	       const struct frame_request *item, bool ready);
void line_look(struct line *l); /* a peer has room again */
void line_turn_end(struct line *l);
void line_cancel(struct line *l, struct rpc_req req);

/* --- serve/cluster.c: the members --- */

struct svc_cluster *svc_cluster_new(struct svc *s);
void svc_cluster_free(struct svc_cluster *c);
/* Of a node, as it is written down; 0: no such node. */
uint64_t svc_id_by_name(struct svc *s, struct str name);

/* --- serve/handover.c: a node without room --- */

/* Now and then: lets a node lead that has room, if this one has none, and ends
 * this process when only a start can help. */
void hand_over_look(struct svc *s);

/* --- serve/nodes.c: what is known of the nodes --- */

struct svc_nodes *svc_nodes_new(struct svc *s);
void svc_nodes_free(struct svc_nodes *n);
/* Twice a second: the leader is told of this node. */
void nodes_look(struct svc_nodes *n);
/* It was heard of in the last three seconds; of a leader. */
#define NODE_ALIVE_NS (3 * NS_PER_S) /* after its last report */
bool nodes_is_alive(struct svc_nodes *n, uint64_t raft_id);
/* What it said then, without its texts; false: it is not. */
bool nodes_last_report(struct svc_nodes *n, uint64_t raft_id,
		       struct m_node_report *ret);
/* When it was last heard of; clock_mono_ns; 0: never. */
uint64_t nodes_heard_ns(struct svc_nodes *n, uint64_t raft_id);
/* Nothing was heard of it for a while, since this node leads and knows it. */
bool svc_is_silent(struct svc *s, uint64_t raft_id);
/* Since when that is, and how long nothing was heard of it. Of a node that
 * does not lead, or knows nothing of it yet: UINT64_MAX, and 0. */
uint64_t svc_seen_ns(struct svc *s, uint64_t raft_id);
uint64_t svc_silence_ns(struct svc *s, uint64_t raft_id);
/* Of a leader: writes a node down that has not told of itself yet. */
void nodes_write_down(struct svc *s, const struct m_node_report *r);
/* Of a leader: an entry at which all nodes make a digest. */
void nodes_mark(struct svc *s);
void nodes_metrics(struct svc *s, struct metric_list *o);
/* All nodes; in s->scratch. */
size_t svc_nodes(struct svc *s, struct m_cluster_node **ret);
/* Empty: nobody leads, as far as is known. */
struct str svc_leader_name(struct svc *s);

/* --- serve/admit.c: nodes that are invited --- */

void invites_init(struct svc *s);
void invites_turn_end(struct svc *s);

/* --- serve/depart.c: nodes that go --- */

/* Of a leader: those that are left and answer are enough to go on. */
bool svc_can_do_without(struct svc *s, const struct node_server *target);
/*
 * Before a transfer is passed on to the leader: names the leadership that is to
 * end in its body, which is in s->out then. Then it does no more when it is
 * asked again. False: it cannot be read.
 */
bool transfer_name_term(struct svc *s, struct str *body);

/* --- serve/gather.c: a node without a cluster --- */

/* Why this node is in none, in a clause; empty: it is in one. */
struct str svc_membership(const struct svc *s);

/* --- serve/hold.c: questions that wait for this node's store --- */

void holds_init(struct svc *s);
void holds_done(struct svc *s);
/* True: it waits, or was refused. */
bool holds_take(struct svc *s, struct rpc_req req,
		const struct frame_request *item);
void holds_cancel(struct svc *s, struct rpc_req req);
void holds_turn_end(struct svc *s);

/* --- serve/job.c: questions that wait for a job's end --- */

struct svc_waits *svc_waits_new(struct svc *s);
void svc_waits_free(struct svc_waits *w);
void svc_waits_turn_end(struct svc_waits *w);
void svc_waits_look(struct svc_waits *w); /* a peer has room again */
size_t svc_waits_count(const struct svc_waits *w);
/* Answers all of them now. */
void svc_waits_drain(struct svc_waits *w);
void svc_waits_cancel(struct svc_waits *w, struct rpc_req req);
void svc_waits_peer_down(struct svc_waits *w, const struct rpc_peer *peer);

/* --- serve/drain.c: who waits for a queue to drain --- */

struct drains *drains_new(struct svc *s);
void drains_free(struct drains *d);
void drains_cancel(struct drains *d, struct rpc_req req);
void drains_peer_down(struct drains *d, const struct rpc_peer *peer);
void drains_turn_end(struct drains *d);
void drains_end(struct drains *d); /* answers all of them now */

/* --- serve/due.c: sched waits for the next moment --- */

void dues_done(struct svc *s);
void dues_cancel(struct svc *s, struct rpc_req req);
void dues_turn_end(struct svc *s);
/* The work sched comes for is done or gone by now. */
bool dues_is_nothing(struct svc *s, uint32_t op);

/* --- serve/push.c: push queues, and sched that waits for them --- */

void push_init(struct svc *s);
void push_done(struct svc *s);
void push_cancel(struct svc *s, struct rpc_req req);
void push_turn_end(struct svc *s);
void push_metrics(struct svc *s, struct metric_list *o);
void webhook_metrics(struct svc *s, struct metric_list *o);
/* An fsm_push_fn of the service. */
const struct m_push_state *push_state(void *ctx, struct str queue);

/* --- serve/scheddb.c --- */

/* Cumulative buckets with their bound, then the sum and the count. */
void svc_put_hist(struct metric_list *o, enum metric_id id,
		  const struct hist *h, const struct hist_scale *s);
void scheddb_metrics(struct svc *s, struct metric_list *o);

/* --- serve/digest.c: a digest of the store --- */

void digest_ask_init(struct svc *s);
void digest_ask_done(struct svc *s); /* the worker has ended */
void digest_ask_turn_end(struct svc *s);
void digest_ask_cancel(struct svc *s, struct rpc_req req);

/* --- serve/compare.c: digests of one entry, on all nodes --- */

struct compare_result {
	uint64_t index;                 /* entry; 0: there is none yet */
	char text[DIGEST_TEXT_LEN + 1]; /* digest of the store at it */
};

struct compare *compare_new(struct svc *s);
void compare_free(struct compare *c); /* the worker has ended */
/* Twice a second, of a leader: puts a mark into the log when it is time. */
void compare_lead(struct svc *s);
void compare_follow(struct svc *s); /* the same of others: puts none */
const struct compare_result *compare_last(const struct svc *s);
uint64_t compare_made(const struct svc *s); /* digests, since start */

/* --- serve/events.c: pages of the event log --- */

struct svc_events *svc_events_new(struct svc *s);
void svc_events_free(struct svc_events *e); /* the worker has ended */
void svc_events_turn_end(struct svc_events *e);
void svc_events_cancel(struct svc_events *e, struct rpc_req req);
void svc_events_peer_down(struct svc_events *e, const struct rpc_peer *peer);

/* --- serve/snapshot.c: files of snapshots, for followers --- */

struct svc_snapshots *svc_snapshots_new(struct svc *s);
void svc_snapshots_free(struct svc_snapshots *o); /* the worker has ended */
void svc_snapshots_turn_end(struct svc_snapshots *o);

/* "queue ... not found" */
void svc_reply_no_queue(struct svc *s, struct rpc_req req, struct str queue);
/* "job ... not found" */
/* Of an active job, as heartbeats have extended it; 0: nothing is known. */
void svc_show_lease(struct m_job *job, uint64_t end_ns);
void svc_reply_no_job(struct svc *s, struct rpc_req req, struct str id);

/* --- serve/workers.c --- */

void workers_metrics(struct svc *s, struct metric_list *o); /* by state */

/* One function per query of this process; without it, it does not link. */
#define QUERY_DECL(name, req_type)                       \
	void q_##name(struct svc *s, struct rpc_req req, \
		      const struct m_##req_type *m);
#define QUERY(num, NAME, name, proc, asked, does, req_type, reply, doc) \
	PROC_IS_RAFTD_##proc(QUERY_DECL(name, req_type))
#include "proto/defs/queries.def"

#endif
