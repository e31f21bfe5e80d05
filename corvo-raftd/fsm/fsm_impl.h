/*
 * Inside the state machine: the working set, and what the apply functions
 * share. Everything here is either derived from the store or belongs to the
 * entry being applied. One thread.
 *
 * Functions that return int and read the store return -ERR_* also for a
 * store that fails; f->fatal is set then and the entry is not committed.
 */
#ifndef CORVO_FSM_IMPL_H
#define CORVO_FSM_IMPL_H

#include "fsm/fsm.h"
#include "fsm/order/lane.h"
#include "fsm/order/rates.h"
#include "fsm/ties/bulk.h"
#include "fsm/ties/ties.h"
#include "proto/job.h"
#include "store/key.h"
#include "store/txn.h"
#include "util/heap.h"
#include "util/hmap.h"
#include "util/json.h"
#include "util/list.h"

#define WINDOW_JOBS_MAX       8192        /* of one window */
#define WINDOW_REFILL         1024        /* read at a time */
#define WINDOW_JOBS_MIN       64          /* when all windows hold too many */
#define WINDOW_GROUP_JOBS_MIN 2           /* the same, of a group */
#define WINDOWS_TOTAL_MAX     (1u << 20)  /* jobs in all windows together */
#define WINDOW_DOC_BYTES      4096        /* largest record kept in one */
#define WINDOWS_DOCS_MAX      (16u << 20) /* bytes of records in all */
#define WORKERS_MAX           LIMIT_WORKERS
#define WORKER_FORGET_NS      (LIMIT_WORKER_IDLE_S * NS_PER_S)
#define WORKER_REFRESH_NS     (5 * NS_PER_S)
#define LIVE_CACHE_BYTES      1024 /* largest live record kept in memory */
#define LEASE_DEFAULT_NS      (60 * NS_PER_S)
#define FETCH_BYTES_MAX       (8u << 20) /* payloads in one answer */
#define FETCH_EXPIRED_MAX     1000       /* jobs one fetch may find expired */
#define NEVER                 UINT64_MAX

struct fsm_queue {
	struct str name; /* behind the struct */
	uint64_t created_at;
	bool paused;
	/* What was set: never NULL, groups ascending by name. */
	const struct m_set_queue *set;
	struct arena set_arena; /* owns it */
	uint64_t counts[JOB_STATE_MAX];
	uint64_t failed; /* attempts */
	struct lanes lanes;
	/* No job of the kind is due before this; NEVER: there is none. */
	uint64_t scheduled_from, retrying_from;
	struct heap_node due;   /* in f->due, by the smaller of the two */
	uint64_t ended_from;    /* no ended job has ended before this */
	struct heap_node purge; /* in f->purge_own or f->purge_default */
	bool purge_is_own;
	uint64_t asked; /* new jobs of the request being checked */
	struct rates rates;
	struct list dirty; /* counts to be written with this entry */
	struct list woken;
};

/* A job in a worker's hands. */
struct fsm_active {
	struct str id; /* behind the struct, with worker */
	struct str worker;
	struct fsm_queue *q;
	struct fsm_lane *lane;
	uint8_t prio;
	uint8_t extras; /* enum job_extra */
	uint32_t max_retries;
	uint64_t expire_at; /* 0: never */
	uint64_t token;
	uint64_t granted_ns;
	uint64_t fetch_id;
	bool cancel_requested;
	struct heap_node lease;   /* key: end of the lease, tie: token */
	struct heap_node timeout; /* key: end of the attempt; perhaps none */
	char *live; /* the live record as stored; NULL: too large */
	size_t live_n, live_cap;
};

struct fsm_worker {
	struct str id, hostname, queues; /* each its own memory */
	uint64_t started_at;
	struct heap_node seen; /* key: last_heartbeat, tie: hash of the id */
};

/* Jobs that wait for jobs; see ties/deps.c. */
struct fsm_deps {
	uint64_t releases; /* dr| keys */
	/* the entry and item being applied */
	uint32_t left;                   /* children that may still be told */
	struct deps_end *first, **ended; /* jobs that ended in this item */
	struct hmap parents;             /* jobs this item's jobs wait for */
};

struct fsm {
	struct kv *kv;
	struct txn *txn;
	/* as stored under m| */
	uint64_t applied_index, last_seq, last_job_seq, first_seq;
	/* the working set */
	struct hmap queues, active, workers;
	struct heap due;      /* queues by first scheduled or retrying job */
	struct heap leases;   /* active jobs by end of lease */
	struct heap timeouts; /* those that have one, by end of the attempt */
	struct heap seen;     /* workers by last_heartbeat */
	struct heap idle;     /* lanes without jobs, by when they may go */
	struct heap looks;    /* queues by when time alone frees a job */
	/* Queues by their first ended job: those with a retention of their
	 * own, by when it goes; the others, by when it ended. */
	struct heap purge_own, purge_default;
	uint64_t batches_from, keys_from; /* first ended batch, first key */
	uint64_t open_from;               /* first open batch, by listed_at */
	uint32_t capped;                  /* queues with max_backlog */
	uint64_t expiry_from;             /* no job expires before this */
	uint64_t window_jobs;             /* in all windows */
	uint64_t window_docs;             /* bytes of records kept there */
	struct list dirty, woken, dirty_lanes;
	struct fsm_deps deps;
	struct hmap schedules, schedule_names; /* by id, by name */
	struct heap fires;                     /* schedules by next time */
	struct fsm_bulks bulks;
	struct fsm_counters counters;
	uint64_t since_ns;   /* of the first entry this process applied */
	struct hmap awaited; /* jobs whose end somebody waits for */
	struct list ended;   /* those of them that have */
	/* the entry and item being applied */
	uint64_t now_ns, seed;
	uint64_t rates_slot;    /* where it counts, see order/rates.h */
	uint64_t entry_index;   /* raft index */
	uint32_t ids_made;      /* in this entry */
	uint64_t committed_seq; /* newest event before the entry */
	uint32_t item, flags;
	int fatal;
	struct arena entry_arena, item_arena;
	struct buf why;     /* text of a refusal */
	struct buf scratch; /* a record on its way into the txn */
	struct buf data;    /* JSON of an event or a worker */
	struct buf out;     /* replies of the entry */
	struct buf events;  /* of the entry, as one record */
	size_t behind_max;  /* bytes that may gather before they are written */
};

/* --- fsm/fsm.c: store access --- */

/* Fills f->why; returns -err. */
_printf_(3, 4) int fsm_refuse(struct fsm *f, int err, const char *fmt, ...);
/* Notes that the store failed; returns r. */
int fsm_fail(struct fsm *f, int r);

/* 1 found, copied into the item's arena; 0 absent; -ERR_*. */
int fsm_get(struct fsm *f, const struct key *k, struct str *ret);
/* fsm_get, decoded. */
int fsm_read(struct fsm *f, const struct key *k, const struct msg_desc *d,
	     void *ret);
void fsm_put(struct fsm *f, const struct key *k, const struct msg_desc *d,
	     const void *m);
void fsm_delete(struct fsm *f, const struct key *k);

/* Appends to the event log: time and sequence are filled in. */
uint64_t fsm_event(struct fsm *f, struct m_event *e);
/* {"name":"text"} in f->data. */
struct str fsm_event_text(struct fsm *f, const char *name, struct str text);
struct str fsm_event_time(struct fsm *f, const char *name, uint64_t ns);
struct str fsm_event_number(struct fsm *f, const char *name, uint64_t n);
/* {"from":"text","to":"text"} */
struct str fsm_event_change(struct fsm *f, struct str from, struct str to);

/* A new id, the same on all replicas; in the item's arena. */
struct str fsm_make_id(struct fsm *f, const char *prefix);

static inline bool fsm_is_resend(const struct fsm *f)
{
	return (f->flags & FRAME_RESEND) != 0;
}

/* So long after a time, or after the entry; what cannot be told is never. */
static inline uint64_t time_after(uint64_t from, uint64_t ns)
{
	uint64_t at;

	return __builtin_add_overflow(from, ns, &at) ? NEVER - 1 : at;
}

static inline uint64_t fsm_later(const struct fsm *f, uint64_t ns)
{
	return time_after(f->now_ns, ns);
}

/* A random number of this item; draw tells several apart. */
uint64_t fsm_random(const struct fsm *f, uint32_t draw);

/* --- fsm/load.c --- */

/* Runs fn for all keys of a kind, without the kind; only while loading. */
typedef int load_fn(struct fsm *f, struct str key, struct str value);
int load_all(struct fsm *f, const char *kind, load_fn *fn);

/* --- order/queue.c --- */

bool queue_name_fits(struct str name); /* can stand in a key */
struct fsm_queue *queue_find(struct fsm *f, struct str name); /* or NULL */
/* Finds it or creates it, with record and event. */
struct fsm_queue *queue_get(struct fsm *f, struct str name);
/* Only in memory, from its record. */
struct fsm_queue *queue_add(struct fsm *f, struct str name,
			    const struct m_queue_doc *doc);
void queue_free(struct fsm_queue *q);
/* An empty one goes, from memory and store. */
void queue_remove(struct fsm *f, struct fsm_queue *q);
void queue_write_doc(struct fsm *f, const struct fsm_queue *q);
void queue_write_dirty(struct fsm *f); /* counts of touched queues */
void queue_count(struct fsm *f, struct fsm_queue *q, enum job_state s,
		 int change);
void queue_event(struct fsm *f, const struct fsm_queue *q, enum event_type type,
		 struct str data);
void queue_touch(struct fsm *f, struct fsm_queue *q);
void queue_wake(struct fsm *f, struct fsm_queue *q);

/* A job became pending: its key, its place in its lane; wakes the queue. */
void queue_add_pending(struct fsm *f, struct fsm_queue *q, struct str group,
		       uint8_t prio, const struct pending *p);
/* It is not pending any more: its key goes, the lane counts it out. */
void queue_remove_pending(struct fsm *f, struct fsm_queue *q, struct str group,
			  uint8_t prio, uint64_t seq);
/* Its window must not take it to be as it was created any more. */
void queue_forget(struct fsm *f, struct fsm_queue *q, struct str group,
		  uint8_t prio, uint64_t seq);
/* The next job to hand out and its lane, or NULL; may read the store. */
const struct window_job *queue_first(struct fsm *f, struct fsm_queue *q,
				     uint8_t prio, struct fsm_lane **ret);
/* A pending job that was as created has a live record now. */
void queue_set_changed(struct fsm *f, struct fsm_queue *q, struct str group,
		       uint8_t prio, const struct pending *p);

/* A job of that state is due at ns. */
void queue_add_due(struct fsm *f, struct fsm_queue *q, enum job_state s,
		   uint64_t ns);
void queue_set_paused(struct fsm *f, struct fsm_queue *q, bool paused);
/* After a look at the store. */
void queue_set_due(struct fsm *f, struct fsm_queue *q, uint64_t scheduled,
		   uint64_t retrying);

/* As clients are shown it; slices are the queue's own. */
void queue_show(const struct fsm_queue *q, struct m_queue *ret);

/* Room for these jobs in their queues: 0, or QUEUE_FULL. */
int queue_check_room(struct fsm *f, const struct m_enqueue *ops, size_t n);
/* The same for one new job, when another ends for it; NULL: none does. */
struct job;
int queue_check_swap(struct fsm *f, struct str name, const struct job *leaving);

/* --- order/settings.c: what is set for a queue --- */

/* Copies them into the queue's own memory; NULL: nothing is set. */
void settings_keep(struct fsm *f, struct fsm_queue *q,
		   const struct m_set_queue *s);
/*
 * What the settings become with this change, in the item's arena. 0, or
 * refused.
 */
int settings_merge(struct fsm *f, const struct m_set_queue *now,
		   const struct m_set_queue *change, struct m_set_queue *ret);

/* --- job/portion.c: jobs deleted in bounded portions --- */

/* What one entry may do. Zeroed but for max, nothing is done yet. */
struct portion {
	uint32_t jobs, max;      /* deleted, and how many may be */
	uint32_t looked_at;      /* keys, deleted or not */
	uint64_t records, bytes; /* that went with them */
};

bool portion_is_full(const struct portion *p);
/* A job was looked at; with_records: and deleted with all it has. */
void portion_count(struct portion *p, const struct job *j, bool with_records);

/*
 * Deletes the job, unless its place in the queue is after upto_seq (0: in any
 * case). 0 or -ERR_*.
 */
int portion_delete(struct fsm *f, struct portion *p, struct str id,
		   uint64_t upto_seq, enum event_type type);

/* --- core/due_scan.c: keys of a prefix, a time and an id --- */

struct due_scan {
	struct str *ids;  /* due ones, at most max */
	struct str *keys; /* NULL, or room for their keys */
	size_t n, max;
	uint64_t upto_ns; /* what is due by then; 0: now */
	uint64_t next;    /* time of the first key not taken; NEVER: none */
	struct arena *arena;
	size_t prefix_n;
};

/* Reads from `from` on, below which there is nothing. 0 or -ERR_*. */
int due_scan_run(struct fsm *f, const struct key *prefix, uint64_t from,
		 struct due_scan *s);

/* How many jobs the operation may move. */
uint32_t maintain_limit(const struct m_maintain *op);
void maintain_fill(uint32_t count, bool more, struct m_maintain_reply *ret);

/* --- ops/purge.c: what is past its retention --- */

/* Something ended or will expire then: purge is told of the first of each. */
void purge_note_job(struct fsm *f, struct fsm_queue *q, uint64_t ended_ns);
void purge_note_batch(struct fsm *f, uint64_t ended_ns);
void purge_note_key(struct fsm *f, uint64_t expires_ns);
/* Its retention is another one now. */
void purge_settings_changed(struct fsm *f, struct fsm_queue *q);
/* After a look at the store. */
void purge_set_first(struct fsm *f, struct fsm_queue *q, uint64_t ended_ns);
void purge_forget(struct fsm *f, struct fsm_queue *q); /* it is removed */

/* --- job/job.c --- */

/* What hangs on a job beside its queue; without any its end is cheap. */
enum job_extra {
	EXTRA_UNIQUE = 1, /* doc: unique_key */
	EXTRA_BATCH = 2,  /* doc: batch_id */
	EXTRA_CHAIN = 4,  /* doc: chain */
};

/*
 * A job being changed. Slices live in the item's arena. The doc is read only
 * when needed: an active job is known well enough without it.
 */
struct job {
	struct str id;
	struct fsm_queue *q;
	struct str group; /* of its lane; empty: none */
	uint8_t prio;
	uint8_t extras;  /* enum job_extra */
	bool exit_chain; /* its ack said step_status exit */
	uint32_t max_retries;
	uint64_t expire_at; /* 0: never, or no more */
	bool has_doc;
	struct m_job_doc doc;
	struct m_job_live live;
	struct fsm_active *active; /* while it is active */
	bool taken;                /* off its window already */
};

/* 1 found, 0 absent (also for an impossible id), -ERR_*. */
int job_find(struct fsm *f, struct str id, struct job *ret);
/* The same for a job known to have no live record; its doc, or empty. */
int job_find_as_created(struct fsm *f, struct str id, struct str doc,
			struct job *ret);
int job_need_doc(struct fsm *f, struct job *j); /* 0 or -ERR_* */
/* The live record a job without one would have. */
void job_live_as_created(const struct m_job_doc *d, struct m_job_live *ret);
/* Fills what follows from doc and live: queue, priority, expiry, extras. */
void job_compose(struct fsm *f, struct job *j);

/*
 * Moves the job: indexes, counts, windows, leases, expiry. Of a job that is
 * to be scheduled or retrying, live.scheduled_at is set before.
 */
void job_move(struct fsm *f, struct job *j, enum job_state to);
/*
 * Gives it another place without a change of state: queue, priority, seq. The
 * live record keeps what differs from its creation.
 */
void job_relink(struct fsm *f, struct job *j, struct fsm_queue *q, uint8_t prio,
		uint64_t seq);
/* The doc of a waiting job was changed: writes it. The caller saves. */
void job_rewrite(struct fsm *f, struct job *j);
/* Gives a scheduled job another time. The caller saves. */
void job_reschedule(struct fsm *f, struct job *j, uint64_t ns);
/*
 * Deletes it with everything that hangs on it: what waits for it is told, its
 * batch counts it, its chain ends. type: EVENT_DELETED or EVENT_PURGED.
 */
void job_delete(struct fsm *f, struct job *j, enum event_type type);
/* Writes the live record; the last step of every change. */
void job_save(struct fsm *f, struct job *j);
uint64_t job_event(struct fsm *f, struct job *j, enum event_type type,
		   struct str data);
void job_record_error(struct fsm *f, struct job *j, struct str error,
		      struct str backtrace);

/* Ends of a life that several operations share; they also save. */
void job_end_cancelled(struct fsm *f, struct job *j);
void job_end_dead(struct fsm *f, struct job *j, const char *reason);
void job_end_expired(struct fsm *f, struct job *j);
void job_back_to_pending(struct fsm *f, struct job *j);
/*
 * The attempt of an active job failed, the error is recorded: to retrying,
 * pending or, without attempts left, dead. retry_after: NULL, or the delay
 * instead of the job's own. 0 or -ERR_*.
 */
int job_retry_or_die(struct fsm *f, struct job *j, const uint64_t *retry_after,
		     const char *reason);

/*
 * Takes it out of the order until it is approved. An active job's worker loses
 * its lease.
 */
void job_hold(struct fsm *f, struct job *j, struct str reason);
/* Back to its place; one that still waits for other jobs goes on waiting. */
void job_approve(struct fsm *f, struct job *j);

/* --- ops/hand.c: what operations on one job by hand share --- */

/* 0 found; refused with `err` when absent, or -ERR_* of the store. */
int job_must_find(struct fsm *f, struct str id, int err, struct job *ret);
/* `done`: what cannot be done to it, as in "cancelled". */
int job_refuse_state(struct fsm *f, int err, const struct job *j,
		     const char *done);
/*
 * An ended or scheduled job goes to the end of its queue, with so many attempts
 * used; also saves. Refused when another job holds its unique key.
 */
int job_rerun(struct fsm *f, struct job *j, enum event_type type,
	      uint32_t attempt);

/* A job to be created: what a client may say, and what only we do. */
struct new_job {
	const struct m_enqueue *op; /* job_id is new; retry rules as wanted */
	uint32_t waiting_on; /* of op->depends_on, jobs that have not ended */
	int64_t chain_step;  /* with op->chain_id and op->chain */
	struct str schedule_id;
	uint64_t scheduled_for; /* with schedule_id */
};

/* The answer to an enqueue that made this job. */
void job_reply(struct str id, const struct m_job_doc *d,
	       struct m_enqueue_reply *ret);
/* Creates it, with record, event and indexes. Nothing is checked here. */
void job_create(struct fsm *f, const struct new_job *n,
		struct m_enqueue_reply *ret);

static inline bool job_is_expired(const struct fsm *f, const struct job *j)
{
	return j->expire_at != 0 && j->expire_at <= f->now_ns;
}

/* --- ask/scale.c: numbers for people and autoscalers --- */

static inline struct rates_slot *queue_rates(struct fsm *f, struct fsm_queue *q)
{
	return rates_now(&q->rates, f->rates_slot);
}

/* A pending job is being handed out. */
void scale_note_start(struct fsm *f, struct job *j);
/* Its attempt ended by ack or fail. */
void scale_note_run(struct fsm *f, struct job *j);

/* --- job/active.c --- */

struct fsm_active *active_find(const struct fsm *f, struct str id);
struct fsm_active *active_add(struct fsm *f, const struct job *j,
			      uint64_t lease_expires);
void active_remove(struct fsm *f, struct fsm_active *a);
void active_free(struct fsm_active *a);
/* Keeps the live record in memory, so that an ack need not read it. */
void active_keep_live(struct fsm_active *a, struct str encoded);
/* Moves the end of the lease forward, never back; true when it moved. */
bool active_extend(struct fsm *f, struct fsm_active *a, uint64_t expires);

/* Who may speak for a job: the rule of ack, fail and heartbeat. */
struct claim {
	struct str job_id;
	struct str worker; /* empty: not said */
	bool has_token;
	uint64_t token;
};

enum fsm_lease_state claim_judge(struct fsm *f, const struct claim *c,
				 struct fsm_active **ret);

/* --- ties/payload.c: payloads made of others --- */

/* Whether it is an object with that member. */
bool payload_has(struct fsm *f, struct str raw, const char *name);
/* Writes the members of an object but one; false, and nothing, of others. */
bool payload_put_members(struct fsm *f, struct json_writer *w, struct str raw,
			 const char *except);

/* --- job/log.c: lines of a job's log --- */

/* Appends and drops the oldest over the limit; the caller saves the job. */
void log_append(struct fsm *f, struct job *j, const struct str *lines,
		size_t n);
void log_delete(struct fsm *f, const struct job *j);

/* --- ask/await.c --- */

/* A job that may be awaited ended or was deleted. */
void await_note_end(struct fsm *f, struct str id);
void await_free(struct fsm *f);

/* --- ties/schedule.c --- */

int schedules_load(struct fsm *f);
void schedules_free(struct fsm *f);
bool schedule_exists(const struct fsm *f, struct str ref); /* id or name */
/* By id or name: 1 found, 0 absent, -ERR_*. */
int schedule_find(struct fsm *f, struct str ref, struct m_schedule *ret);
void schedule_save(struct fsm *f, const struct m_schedule *m);
void schedule_remove(struct fsm *f, const struct m_schedule *m);

/* What an event says beside which schedule it is about; 0, NULL: nothing. */
struct schedule_note {
	struct str job_id;
	uint64_t scheduled_for;
	const char *reason;
	uint64_t missed;
};

void schedule_event(struct fsm *f, enum event_type type,
		    const struct m_schedule *s, const struct schedule_note *n);

/* --- job/worker.c --- */

/* A worker took jobs. */
void worker_seen(struct fsm *f, const struct m_fetch *op);
/* A known worker gave a sign of life. */
void worker_touch(struct fsm *f, struct str id);
struct fsm_worker *worker_add(struct fsm *f, const struct m_worker *w);
void fsm_worker_free(struct fsm_worker *w);

/* --- apply_*.c --- */

/* 0 with *reply filled, or fsm_refuse(...) with nothing changed. */
#define OP(num, NAME, name, request, reply, who, doc)                 \
	int apply_##name(struct fsm *f, const struct m_##request *op, \
			 struct m_##reply *ret);
#include "proto/defs/ops.def"

/* fsm/dispatch.c */
int fsm_dispatch(struct fsm *f, unsigned op, const void *request, void *reply);

#endif
