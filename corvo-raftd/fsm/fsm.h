/*
 * The state machine: raft entries in, changes to the store and replies out.
 *
 * Deterministic: time, randomness and ids come with the entry; it does no I/O
 * but through kv. Beside the store it keeps the working set in memory (queue
 * windows, active leases, due times), derived from the store and rebuilt by
 * fsm_load. One thread; the leader's reads below run on the same thread.
 */
#ifndef CORVO_FSM_H
#define CORVO_FSM_H

#include "proto/frame.h"
#include "proto/origin.h"
#include "store/kv.h"
#include "util/hist.h"

struct fsm;

struct fsm *fsm_new(struct kv *kv);
/* The store does not keep up with what was applied: it is time for less. */
bool fsm_is_behind(struct fsm *f);
void fsm_free(struct fsm *f); /* does not close the store */
int fsm_load(struct fsm *f);  /* rebuilds the working set; 0 or -ERR_* */
/*
 * After fsm_apply or fsm_flush failed: forgets what is not in the store. It is
 * as after a start then; entries since fsm_applied_index may be applied again.
 * 0 or -ERR_*.
 */
int fsm_rewind(struct fsm *f);

/*
 * Applies one entry. Entries at or below the applied index found in the store
 * are skipped (they are replayed after a restart). `fn`, if given, runs once
 * per item in order, after all changes of the entry are made. Returns 0, also
 * when items were refused (that is in their reply), or -ERR_* when the node
 * must stop: a store error, an entry that cannot be read, or ERR_UNSUPPORTED:
 * one with an op this version does not know or cannot read, or the cluster does
 * not use yet; fsm_stop_text says which.
 */
typedef void fsm_reply_fn(void *ctx, size_t item, int err, uint64_t seq,
			  struct str body);

/*
 * In the place of an error: the entry had done what one entry may before it
 * got to the item, or to its end. The body is the request of what is left of
 * it, to be proposed again.
 */
#define FSM_AGAIN (-1)

int fsm_apply(struct fsm *f, uint64_t raft_index, struct str entry,
	      fsm_reply_fn *fn, void *ctx);
/* After ERR_UNSUPPORTED: what is wrong with the entry, and what to do. */
struct str fsm_stop_text(const struct fsm *f);
/* Where the next entry comes from; it is written to the store with it. */
void fsm_set_origin(struct fsm *f, const struct entry_origin *o);
/* Of the last entry applied. */
const struct entry_origin *fsm_origin(const struct fsm *f);

/*
 * An op of the last entry failed a check of ours. It was tried once more with
 * everything loaded anew from the store; if it failed again it was undone and
 * answered ERR_INTERNAL_ERROR, as on every other replica.
 */
struct fsm_fault {
	uint64_t raft_index;
	unsigned op;      /* enum op_id */
	uint32_t item;    /* of the entry */
	const char *file; /* the check */
	int line;
	const char *what;
	bool is_undone; /* false: the second time it did not fail */
};

#define FSM_FAULTS_MAX                                        \
	11 /* of one entry; what is left goes to the next one \
	    */
typedef void fsm_fault_fn(void *ctx, const struct fsm_fault *fault);
void fsm_each_fault(const struct fsm *f, fsm_fault_fn *fn, void *ctx);

/*
 * The last way out: nothing of this entry is carried out. Each of its ops is
 * answered ERR_INTERNAL_ERROR, and an event tells of it. All replicas must do
 * so alike, or they are different from then on. False: there are too many.
 */
#define FSM_SKIPS_MAX 16
bool fsm_skip(struct fsm *f, uint64_t raft_index,
	      const struct entry_origin *origin);
size_t fsm_skips_n(const struct fsm *f);

/*
 * Lets the changes of several entries gather, up to so many bytes, before they
 * go to the store as one batch. What came and went meanwhile (a job's place in
 * the queue, its lease) is then not written at all. The raft log has it all:
 * after a crash the entries since the last batch are applied again. 0, as at
 * first: each entry is written by itself.
 */
void fsm_write_behind(struct fsm *f, size_t bytes);

/* Called every so often while memory is made from the store: at a start, and
 * anew after an op was undone. */
void fsm_on_progress(struct fsm *f, void (*fn)(void *ctx), void *ctx);

/*
 * Everything applied so far is in the store, for others to read. 0 or -ERR_*:
 * it is not, nor will it be; nothing more is applied.
 */
int fsm_flush(struct fsm *f);
/* A flush has failed: what is in memory is ahead of what can be read. */
bool fsm_is_broken(const struct fsm *f);

/*
 * Bytes one entry may read, write and answer before the rest has to wait;
 * LIMIT_ENTRY_BYTES where nothing is said. Part of what all replicas must have
 * in common: only tests set it.
 */
void fsm_set_budget(struct fsm *f, uint64_t bytes);
/* What the last entry has weighed. */
uint64_t fsm_entry_weight(const struct fsm *f);

uint64_t fsm_applied_index(const struct fsm *f);
uint64_t fsm_last_seq(const struct fsm *f);
uint64_t fsm_first_seq(const struct fsm *f);

/* --- what the leader asks --- */

/*
 * Jobs a fetch could take from this queue at that moment: 0 when it is paused
 * or at a limit. May be too few where groups have limits; fetches that find
 * more are told by fsm_take_woken.
 */
uint64_t fsm_queue_takeable(struct fsm *f, struct str queue, uint64_t now_ns);
/* False when it is paused or at a limit of its own, whatever comes in. */
bool fsm_queue_is_open(struct fsm *f, struct str queue, uint64_t now_ns);

/*
 * The first moment (UNIX ns; 0: none) at which a queue may be able to hand out
 * more only because time has passed; and those queues, each once until it is
 * touched again. fn may not apply.
 */
uint64_t fsm_look_ns(const struct fsm *f);
void fsm_take_looks(struct fsm *f, uint64_t now_ns,
		    void (*fn)(void *ctx, struct str queue), void *ctx);
/* Queues with jobs whose time has come by then, the first few, in order: a
 * promote makes them pending. fn may not apply. */
void fsm_each_due_queue(struct fsm *f, uint64_t now_ns,
			void (*fn)(void *ctx, struct str queue), void *ctx);

/*
 * The queue as clients see it; false: there is none. What it points to is the
 * state machine's, good until the next entry.
 */
bool fsm_queue(struct fsm *f, struct str name, struct m_queue *ret);

/*
 * Queues that may have gained takeable jobs since the last call, each once.
 * fn may not apply.
 */
void fsm_take_woken(struct fsm *f, void (*fn)(void *ctx, struct str queue),
		    void *ctx);

/*
 * Somebody waits for the job's end. fn hears of those that ended or were
 * deleted since the last call, each once; nobody waits for them then.
 */
void fsm_await(struct fsm *f, struct str id);
void fsm_unawait(struct fsm *f, struct str id);
void fsm_take_ended(struct fsm *f, void (*fn)(void *ctx, struct str id),
		    void *ctx);

/*
 * Somebody waits for a change of the queue. fn hears of those that may have
 * changed since the last call, each once; they are watched on. fn may unwatch
 * it; the name is gone then.
 */
void fsm_watch_queue(struct fsm *f, struct str queue);
void fsm_unwatch_queue(struct fsm *f, struct str queue);
void fsm_take_changed(struct fsm *f, void (*fn)(void *ctx, struct str queue),
		      void *ctx);

/* 0: all of the job can be read, or there is none; or -ERR_*. */
int fsm_job_check(struct fsm *f, struct str id);

/* A job is in the hands of whoever sent this fetch. */
bool fsm_fetch_holds(const struct fsm *f, uint64_t fetch_id);

enum fsm_lease_state {
	FSM_LEASE_OK,      /* held by the caller */
	FSM_LEASE_CANCEL,  /* held, and cancellation was asked for */
	FSM_LEASE_LOST,    /* held by another, or under another token */
	FSM_LEASE_ENDED,   /* the job exists and is not active */
	FSM_LEASE_UNKNOWN, /* no such job, or the store failed */
};

struct fsm_lease {
	uint64_t token;
	uint64_t granted_ns; /* length a heartbeat extends by */
	uint64_t expires_ns; /* as replicated */
};

/* Judges one heartbeat entry without changing anything. 0 or -ERR_*: there may
 * be such a job, and it cannot be read. */
int fsm_lease_check(struct fsm *f, const struct m_beat *b, struct str worker_id,
		    enum fsm_lease_state *ret_state, struct fsm_lease *ret);

/* The lease of a job, from memory; false: it is not active. */
bool fsm_lease_find(struct fsm *f, struct str job_id, struct fsm_lease *ret);

/* What a renewal of that lease may have to write besides, once in an entry: the
 * record of its worker, which has all its queues. In bytes, with its id, which
 * is valid until the next entry; 0: nothing. */
size_t fsm_renewal_bytes(const struct fsm *f, struct str job_id,
			 struct str *ret_worker);

/* Active jobs whose leases end by then, in no particular order. */
typedef void fsm_lease_fn(void *ctx, struct str job_id,
			  const struct fsm_lease *lease);
void fsm_each_lease_upto(const struct fsm *f, uint64_t expires_ns,
			 fsm_lease_fn *fn, void *ctx);

/* First due moments (UNIX ns; 0: none), without trim_seq and leader. */
void fsm_due(struct fsm *f, struct m_due_reply *ret);
/*
 * When a purge has something to do, with this retention, and when it forgets
 * queues idle for so long; 0: nothing.
 */
uint64_t fsm_purge_due(const struct fsm *f, uint64_t retention_ns,
		       uint64_t idle_ns);

/* As the state has it; 0: any number. */
uint64_t fsm_max_queues(const struct fsm *f);
/*
 * The settings all nodes share, without seeds. A member that is absent was
 * never set: the first leader does that, from its flags, before it serves.
 */
const struct m_cluster_settings *fsm_settings(const struct fsm *f);
/* What the flags said that were taken over last. */
const struct m_settings_seed *fsm_seeds(const struct fsm *f);

/*
 * One batch; slices are valid until the state machine is called again. 1
 * found, 0 absent, -ERR_*.
 */
int fsm_batch(struct fsm *f, struct str id, struct m_batch *ret);

#define FSM_DUE_SCHEDULES 256 /* most in one answer */

/* A schedule by id or name, decoded into `a`: 1, 0 absent, or -ERR_*. */
int fsm_schedule(struct fsm *f, struct str ref, struct arena *a,
		 struct m_schedule *ret);
/* Ids of those whose time has come, first those due first; until the next
 * entry. At most max, which is at most FSM_DUE_SCHEDULES. */
size_t fsm_due_schedules(struct fsm *f, uint64_t now_ns, struct str *ids,
			 size_t max);

#define FSM_DUE_BULKS 64 /* most in one answer */

/* A bulk operation, decoded into `a`: 1, 0 absent, or -ERR_*. */
int fsm_bulk(struct fsm *f, struct str id, struct arena *a, struct m_bulk *ret);
/* As fsm_due_schedules: ids of those a step can do something for. */
size_t fsm_due_bulks(struct fsm *f, uint64_t now_ns, struct str *ids,
		     size_t max);
/* Records in the order of their ids, until fn returns false. 0 or -ERR_*. */
typedef bool fsm_bulk_fn(void *ctx, struct str key, struct str value);
int fsm_each_bulk(struct fsm *f, fsm_bulk_fn *fn, void *ctx);

/* Somebody is asking for jobs of that queue at the moment. */
typedef bool fsm_fetched_fn(void *ctx, struct str queue);

/* What keeps calls of a push queue back; NULL: nothing that is known. */
typedef const struct m_push_state *fsm_push_fn(void *ctx, struct str queue);

struct fsm_why {
	struct str job_id;
	uint64_t now_ns;
	fsm_fetched_fn *is_fetched;
	fsm_push_fn *push_state;
	void *ctx;
};

/*
 * Why a job is waiting: 1 with *ret in the arena, 0: no such job, -ERR_*.
 * Reads a bounded part of the store; best after fsm_flush.
 */
int fsm_why(struct fsm *f, const struct fsm_why *ask, struct arena *a,
	    struct m_why_reply *ret);

/* How usage is summed up; slices as of fsm_queue. */
const struct m_usage_settings *fsm_usage_settings(const struct fsm *f);
/* All budgets by scope and target, and how far they are used; in the arena,
 * slices as of fsm_queue. */
void fsm_budgets(struct fsm *f, uint64_t now_ns, struct arena *a,
		 struct m_budget_list *ret);
size_t fsm_budgets_n(const struct fsm *f);
/* All approval policies, as they are asked; in the arena, slices are ours. */
void fsm_policies(const struct fsm *f, struct arena *a,
		  struct m_policy_list *ret);
/* By id or name; NULL: there is none. As long as nothing is applied. */
const struct m_policy *fsm_policy(const struct fsm *f, struct str ref);
size_t fsm_policies_n(const struct fsm *f);
/* What a signed link is about: 0 with *ret in the arena, or -ERR_* and why. */
int fsm_link(struct fsm *f, struct str token, uint64_t now_ns, struct arena *a,
	     struct m_link_view *ret, struct str *ret_why);
/* An inbound webhook, with its secrets; NULL: there is none. As long as nothing
 * is applied. */
const struct m_hook *fsm_hook(const struct fsm *f, struct str name);
/* All of them by name, without; in the arena, slices are ours. */
void fsm_hooks(const struct fsm *f, struct arena *a, struct m_hook_list *ret);

/* All providers by name, and how they do; as fsm_budgets. */
void fsm_providers(const struct fsm *f, uint64_t now_ns, struct arena *a,
		   struct m_provider_list *ret);

/* How many jobs of Scheduled-DB there are; without settings. */
void fsm_sdb(const struct fsm *f, struct m_sdb_numbers *ret);

/* The price list by provider and model, in the arena; slices as well. */
void fsm_prices(const struct fsm *f, struct arena *a, struct m_price_list *ret);
/* Since this process started; what it applied again counts too. */
struct fsm_counters {
	uint64_t ops, enqueued, completed, failed;
	uint64_t undone, reloads; /* after a check failed */
	uint64_t promoted, reclaimed, expired, purged;
	uint64_t usage_reports, usage_unpriced;
	uint64_t usage_input, usage_output; /* tokens */
	uint64_t usage_cache_creation, usage_cache_read;
	uint64_t usage_cost; /* billionths of a usd */
	uint64_t budgets_exceeded;
	uint64_t scores;
	uint64_t webhooks_ok, webhooks_failed; /* tries */
	uint64_t policy_holds, approved, rejected, escalated;
	uint64_t provider_failures;
	uint64_t sdb_no_memory, sdb_no_place; /* refused for want of it */
	uint64_t sdb_ended[6];                /* attempts, by enum sdb_status */
	uint64_t sdb_created[2], sdb_deleted; /* by enum sdb_type; by clients */
	uint64_t sdb_failures[6];             /* by enum sdb_fault */
	/* times of the last such operation (UNIX ns; 0: none) */
	uint64_t promote_ns, reclaim_ns, expire_ns, purge_ns;
	struct hist start_latency, run_time, sdb_time; /* hist_long */
};

const struct fsm_counters *fsm_counters(const struct fsm *f);
uint64_t fsm_now_ns(const struct fsm *f); /* of the last entry; 0: none */
/* The clock was set, and a clock_set is needed to go on moving what is left. */
bool fsm_clock_is_moving(const struct fsm *f);

/* Of all queues together. */
struct fsm_totals {
	uint64_t jobs[JOB_STATE_MAX]; /* by state, as clients are shown it */
	uint64_t queues;
	uint64_t workers, workers_active; /* active: seen since then */
};

void fsm_totals(struct fsm *f, uint64_t active_since_ns,
		struct fsm_totals *ret);

/*
 * What an autoscaler wants to know of a queue: 1, 0: there is no such queue,
 * -ERR_*. Who waits longest may have to be read from the store, once after a
 * start; *fills counts down the windows that may be. At 0 it is left out while
 * it is not known. Slices as of fsm_queue.
 */
#define FSM_SCALE_FILLS 192 /* a few milliseconds */
int fsm_scale(struct fsm *f, struct str queue, uint64_t now_ns, unsigned *fills,
	      struct m_scale *ret);
/*
 * Names of at most max queues by name: all, or those with most waiting and
 * active jobs, of equals always the same. Memory from `a`, the texts as of
 * fsm_queue.
 */
size_t fsm_busiest(struct fsm *f, size_t max, struct arena *a,
		   struct str **ret);

/* --- the cluster --- */

/* Its nodes by raft id, at most LIMIT_MEMBERS. Slices as of fsm_queue. */
typedef void fsm_member_fn(void *ctx, const struct m_member *m);
void fsm_members(const struct fsm *f, fsm_member_fn *fn, void *ctx);
bool fsm_member_find(const struct fsm *f, uint64_t raft_id,
		     struct m_member *ret);
/* Who led last, as far as it was written down; false: nobody. Slices as of
 * fsm_queue. */
bool fsm_leader(const struct fsm *f, struct m_leader *ret);

/* The entry applied last asks for a digest of the store at it; once. */
bool fsm_take_compare(struct fsm *f);

/* The feature level that is used: ops up to it may be proposed. */
uint32_t fsm_level(const struct fsm *f);
/*
 * The one that could be, with these voters by raft id: the highest that all of
 * them know, never below fsm_level. A voter without a record knows none; self
 * is this program.
 */
uint32_t fsm_level_for(const struct fsm *f, const uint64_t *voters, size_t n,
		       uint64_t self);
/* Why an op of that level cannot be used yet, and what to do. */
void fsm_level_why(const struct fsm *f, uint32_t level, struct buf *ret);

/* Workers that took a job, in no order. Slices as of fsm_queue. */
typedef void fsm_worker_fn(void *ctx, const struct m_worker *w);
void fsm_each_worker(const struct fsm *f, fsm_worker_fn *fn, void *ctx);
/* Jobs in the hands of workers with a name, in no order; looks at no more than
 * max jobs. */
typedef void fsm_held_fn(void *ctx, struct str job_id, struct str worker);
void fsm_each_held(const struct fsm *f, size_t max, fsm_held_fn *fn, void *ctx);

/* --- webhooks --- */

struct fsm_webhook; /* ties/webhook.h */

#define DELIVERIES_PAGE 100 /* lines of a log, where nothing else is asked */

/* Another number whenever one of them is changed, added or removed. */
uint64_t fsm_webhooks_version(const struct fsm *f);
/* One of them, without secrets; slices as of fsm_queue. */
bool fsm_webhook(const struct fsm *f, struct str id, struct m_webhook *ret);
void fsm_webhook_show(const struct fsm *f, const struct fsm_webhook *w,
		      struct m_webhook *ret);
/* All of them by id; in the arena, slices as of fsm_queue. */
void fsm_webhooks(const struct fsm *f, struct arena *a,
		  struct m_webhook_list *ret);
/* The same with their secrets, and what waits for another try. */
void fsm_webhook_work(const struct fsm *f, struct arena *a,
		      struct m_webhook_work_list *ret);
/* Lines of the log of one, in the arena: 1, 0: there is none, -ERR_*. What was
 * applied has to be in the store. */
int fsm_deliveries(const struct fsm *f, const struct m_deliveries_ask *m,
		   struct arena *a, struct m_delivery_list *ret);

struct fsm_webhook_totals {
	uint64_t n, pending;
	uint64_t lag; /* of the enabled one that is furthest behind */
};

void fsm_webhook_totals(const struct fsm *f, struct fsm_webhook_totals *ret);

/* --- push queues --- */

/* Another number whenever one of them is changed, added or removed. */
uint64_t fsm_push_version(const struct fsm *f);
size_t fsm_push_n(const struct fsm *f);
/* Those after that name, at most max, in the arena; slices as of fsm_queue. */
size_t fsm_push_queues(const struct fsm *f, struct str after, size_t max,
		       struct arena *a, struct m_push_queue **ret);
/* Jobs that the worker was given, but for those whose receiver ends them: id
 * and token. */
size_t fsm_push_held(const struct fsm *f, struct str worker, size_t max,
		     struct arena *a, struct m_fetched **ret);

#endif
