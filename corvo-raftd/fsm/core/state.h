/*
 * The state machine in memory: the working set, and the entry being applied.
 * Each floor keeps its own members; all of them are either derived from the
 * store or belong to the entry. One thread.
 */
#ifndef CORVO_FSM_CORE_STATE_H
#define CORVO_FSM_CORE_STATE_H

#include "fsm/core/budget.h"
#include "fsm/core/ended.h"
#include "fsm/fsm.h"
#include "store/key.h"
#include "store/txn.h"
#include "util/arena.h"
#include "util/buf.h"
#include "util/bynum.h"
#include "util/heap.h"
#include "util/hmap.h"
#include "util/list.h"

struct deps_end;
struct job_hooks;
struct fsm_policy;

#define NEVER UINT64_MAX

#define POLICY_POINTS (POINT_CONTINUE + 1)
#define PURSE_SCOPES  (BUDGET_TAG + 1)

/* Jobs of a queue that are being deleted, with those that wait for them. */
struct fsm_sweep {
	struct str queue; /* empty: none */
	uint64_t upto;    /* by their place in the queue */
};

/* Jobs that wait for jobs; see ties/deps.c. */
struct fsm_deps {
	struct ended ends;
	struct fsm_sweep sweep; /* jobs that end now, end by it */
	/* the item being applied */
	struct deps_end *first, **ended; /* jobs that ended in this item */
	struct hmap parents;             /* jobs this item's jobs wait for */
};

/* As stored under clock|; see core/clock.h. */
struct fsm_clock {
	bool open; /* the clock was set, and not all has moved with it */
	uint64_t from_ns, to_ns;
	uint32_t kind;
	struct key after;
};

/* As stored under mb| and cluster|; see core/cluster.h. */
struct fsm_cluster {
	struct fsm_member *members[LIMIT_MEMBERS]; /* by raft id */
	size_t members_n;
	uint64_t leader_id, leader_term, leader_since; /* id 0: not known */
	size_t leader_name_n;
	char leader_name[LIMIT_NODE_NAME_BYTES];
	uint32_t level;
};

/* Bulk operations; see ties/bulk.h. */
struct fsm_bulks {
	struct hmap by_id;
	struct heap due;      /* by when the next step may come */
	struct heap ends;     /* by when it is purged, or given up */
	struct hmap canaries; /* id of a job -> its struct fsm_bulk */
};

/* Usage; see ties/usage.h. */
struct fsm_usage {
	struct m_usage_settings set; /* as stored under uc|, in the arena */
	struct arena arena;
	struct hmap prices; /* provider \0 model -> struct fsm_price */
	uint64_t from;      /* there is no sum of an hour before this */
};

/* Budgets of users; see ties/purse.h. */
struct fsm_purses {
	struct hmap by_name;     /* scope and target -> struct fsm_purse */
	size_t of[PURSE_SCOPES]; /* how many of each enum budget_scope */
	/* Names of tags that budgets are of, and of how many; own memory. In
	 * the order of names, for a job is judged in it: on a node that was
	 * started again as on one that saw them come. */
	struct purse_tag {
		struct str name;
		size_t n;
	} tags[LIMIT_BUDGET_TAGS];
	size_t tags_n;
};

/* Jobs of Scheduled-DB, as stored under sd|; see job/sdb.h. */
struct fsm_sdb {
	uint64_t bytes, jobs;      /* of those that have not ended */
	uint64_t recurring;        /* of them, recurrentes */
	uint64_t by[6];            /* unicos and runs, by enum sdb_status */
	uint64_t executed_ns;      /* the last attempt ended; 0: none has */
	struct m_sdb_settings set; /* what the queue was given last */
	bool dirty;
	struct heap ends; /* recurrentes that have ended, by when */
};

/* Webhooks; see ties/webhook.h. */
struct fsm_webhooks {
	struct hmap by_id;
	uint64_t version; /* event that changed them last */
};

/* Approval policies; see ties/policy.h. */
struct fsm_policies {
	struct fsm_policy *list[LIMIT_POLICIES]; /* as they are asked */
	size_t n;
	size_t of[POLICY_POINTS]; /* enabled ones of each enum policy_point */
	size_t tests;             /* of all of them: LIMIT_POLICY_TESTS */
};

struct answers_caller {
	uint64_t origin;
	uint64_t done; /* it has all answers below this */
	size_t uses;   /* kept entries that name it */
	uint64_t last; /* index of the last of them, which says `done` */
};

struct answers_lost {
	uint64_t origin;
	uint64_t upto; /* answers up to this may be gone */
};

/* Answers that may be asked for again; see core/answers.h. */
struct answers {
	struct list kept; /* entries, oldest first */
	size_t n, bytes;  /* of all */
	struct answers_caller *callers;
	size_t callers_n, callers_cap;
	struct answers_lost lost[LIMIT_ANSWERS_LOST];
	size_t lost_n;
	struct bynum index; /* of the entries that were searched */
};

/* Ops of the entry that failed a check; see fsm/fault.h. */
struct fsm_faults {
	void *unwind;  /* the jmp_buf of the op, or NULL */
	bool hit;      /* the entry has to begin anew */
	bool is_fresh; /* nothing is in memory but what was loaded */
	size_t n;      /* in list */
	size_t undone; /* of them */
	struct fsm_fault list[FSM_FAULTS_MAX];
};

/* Entries that are not carried out; see fsm_skip. */
struct fsm_skips {
	struct fsm_skip_mark {
		uint64_t index, term, id;
	} list[FSM_SKIPS_MAX];
	size_t n;
	bool is_on; /* of the entry being applied */
};

struct fsm {
	struct kv *kv;
	const struct job_hooks *hooks; /* job/job.h */
	struct txn *txn;
	/* as stored under m| */
	uint64_t applied_index, last_seq, last_job_seq, first_seq;
	struct entry_origin origin;
	struct entry_origin next_origin; /* of the entry to come */
	/* the working set */
	struct hmap queues, active, workers;
	struct bynum given; /* active jobs by the fetch that took them */
	uint64_t jobs[JOB_STATE_MAX]; /* the counts of all queues together */
	struct heap due;      /* queues by first scheduled or retrying job */
	struct heap leases;   /* active jobs by end of lease */
	struct heap timeouts; /* those that have one, by end of the attempt */
	struct heap seen;     /* workers by last_heartbeat */
	struct heap idle;     /* lanes without jobs, by when they may go */
	struct heap looks;    /* queues by when time alone frees a job */
	struct heap idle_queues; /* queues nobody needs, by since when */
	struct heap regroup;     /* queues whose jobs change their lanes */
	/* Queues by their first ended job: those with a retention of their
	 * own, by when it goes; the others, by when it ended. */
	struct heap purge_own, purge_default;
	uint64_t batches_from, keys_from; /* first ended batch, first key */
	uint64_t open_from;               /* first open batch, by listed_at */
	uint32_t capped;                  /* queues with max_backlog */
	struct list pushed;               /* push queues */
	uint32_t pushed_n;
	uint64_t push_version;  /* event that changed them last */
	uint64_t expiry_from;   /* no job expires before this */
	uint64_t deadline_from; /* nor has a held one a deadline before this */
	uint64_t window_jobs;   /* in all windows */
	uint64_t window_docs;   /* bytes of records kept there */
	struct list dirty, woken, dirty_lanes, crowds;
	struct list unsure; /* queues whose bounds have to be read */
	struct fsm_deps deps;
	struct {
		void (*fn)(void *ctx); /* NULL: nobody wants to know */
		void *ctx;
		uint64_t keys; /* read while loading */
	} progress;
	struct hmap schedules, schedule_names; /* by id, by name */
	struct heap fires;                     /* schedules by next time */
	struct fsm_bulks bulks;
	struct fsm_usage usage;
	struct fsm_purses purses;
	struct fsm_webhooks webhooks;
	struct fsm_policies policies;
	struct hmap inbound;   /* name -> struct fsm_hook of ties/inbound.c */
	struct hmap providers; /* by name; see ties/provider.h */
	struct fsm_sdb sdb;
	struct list dirty_providers;
	struct fsm_clock clock;
	struct fsm_cluster cluster;
	/* as stored under settings|; see core/settings.h */
	struct m_cluster_settings settings; /* without seeds */
	struct m_settings_seed seeds;
	struct answers answers;
	struct fsm_counters counters;
	uint64_t since_ns;   /* of the first entry this process applied */
	struct hmap awaited; /* jobs whose end somebody waits for */
	struct list ended;   /* those of them that have */
	struct hmap watched; /* queues, see core/watch.h */
	struct list changed; /* those of them that have */
	/* while it is loaded: where records of active jobs were found last */
	struct kv_iter *load_doc, *load_live;
	/* the entry and item being applied */
	uint64_t now_ns, seed;
	uint64_t rates_slot;    /* where it counts, see order/rates.h */
	uint64_t entry_index;   /* raft index */
	uint32_t entry_format;  /* STORED_FORMAT of who wrote it */
	uint32_t ids_made;      /* in this entry */
	uint64_t committed_seq; /* newest event before the entry */
	uint32_t item, flags;
	uint32_t draws; /* random numbers of this item so far */
	int fatal;      /* the store failed; the entry is not committed */
	bool compare;   /* an entry has asked for a digest: fsm_take_compare */
	int broken; /* what is in memory is not what was applied: no more is */
	struct fsm_faults faults;
	struct fsm_skips skips;
	struct arena entry_arena, item_arena;
	struct buf why;     /* text of a refusal */
	struct buf scratch; /* a record on its way into the txn */
	struct buf data;    /* JSON of an event or a worker */
	struct buf payload; /* of a job that is made here */
	struct buf out;     /* replies of the entry */
	struct buf events;  /* of the entry, as one record */
	struct budget budget;
	uint64_t weight;   /* of the last entry */
	const void *rest;  /* of the item: what is left of its request */
	size_t behind_max; /* bytes that may gather before they are written */
	uint64_t looked;   /* bytes, by policies for the item */
};

#endif
