/*
 * Shared by proposer.c (entries), admission.c (what is taken) and fetch.c.
 */
#ifndef CORVO_PROPOSER_IMPL_H
#define CORVO_PROPOSER_IMPL_H

#include "propose/lot.h"
#include "propose/presence.h"
#include "propose/proposer.h"
#include "propose/viewlag.h"
#include "propose/wallclock.h"
#include "rt/room.h"
#include "util/rng.h"

/* One operation on its way through the log. */
struct op {
	struct list node;           /* in proposer.pending or batch.ops */
	struct rpc_req req;         /* peer NULL: our own, nobody is answered */
	uint32_t id;                /* enum op_id */
	uint32_t flags;             /* FRAME_ */
	struct entry_caller caller; /* with FRAME_KEEP: whose request it is */
	uint64_t number;            /* and which of it */
	uint64_t arrived_ns;
	uint64_t deadline_ns; /* not proposed after that; 0: whenever */
	bool cancelled;       /* whoever asked is gone */
	bool again;           /* an entry had no room left for it */
	char *rest;           /* owned: the body, once a part of it is done */
	struct fetch *fetch;  /* OP_FETCH: the rest of it */
	struct str key;       /* both point behind the struct */
	struct str body;
};

/* What only a fetch has. */
struct fetch {
	struct waiter waiter;
	struct op *op;
	struct present *worker; /* NULL: not known */
	uint64_t id;            /* stays the same when it is sent again */
	struct lot_place places[];
};

/*
 * How much goes into an entry: no more than can be applied in a moment, as
 * nobody is heard meanwhile. What an operation weighs is its bytes and
 * something for itself; how long that takes is what it took before.
 */
struct weight {
	double ns;   /* for each of it; 0: not known */
	size_t most; /* in an entry */
};

void weight_begin(struct weight *w);
/* An entry of that weight was applied in so long. */
void weight_took(struct weight *w, size_t weight, uint64_t ns);

/* One entry under way. */
struct batch {
	struct list node; /* in proposer.inflight, in order of index */
	struct proposer *p;
	const void *tag; /* of the entry, for the node */
	uint64_t proposed_ns;
	struct list ops; /* in the order of the entry */
	size_t n;
	uint64_t bytes; /* of their bodies */
	size_t weight;
	bool applied;
	bool has_clock;     /* a clock_set is its first op */
	bool reclaims;      /* leases that have ended by */
	uint64_t now_ns;    /* the time it carries */
	struct list fences; /* those it answers */
};

struct proposer {
	struct proposer_config c;
	struct node *node;
	struct list pending; /* in the order they came */
	struct list fences;  /* that wait for an entry */
	size_t fences_n;     /* with those in one */
	size_t ops_max; /* in an entry, while entries have no room for all */
	struct weight weight;
	struct list inflight;
	size_t inflight_n;
	struct lot lot;
	struct presence presence;
	struct viewlag view;
	struct hmap fetches; /* struct rpc_req -> struct op, all fetches */
	bool unsure;         /* some were parked before we were ready */
	struct loop_timer *deadline; /* first end of a wait */
	struct loop_timer *look;     /* time may have freed a job */
	struct loop_timer *min_wait; /* the pump looks again */
	struct loop_timer *late;     /* looks for ops past their deadline */
	struct loop_timer *clock_look;
	struct wallclock clock;
	struct wallclock_step step; /* the next entry is the first after it */
	bool step_due, step_sent;
	bool clock_inflight; /* an entry with a clock_set is under way */
	bool late_armed;
	uint64_t deadline_armed_ns;
	uint64_t look_armed_ns; /* UNIX time; 0: not armed */
	uint64_t disk_checked_ns;
	enum room room; /* on the disk, as of then */
	bool renew_due; /* the next entry has to carry renewals */
	bool draining;
	struct rng rng;
	struct buf entry;             /* reused for every entry */
	struct buf no_jobs;           /* the answer to a fetch without any */
	struct entry_caller *callers; /* of the entry being made */
	size_t callers_n, callers_cap;
	struct arena scratch;
	struct proposer_stats stats;
};

/* --- propose/proposer.c --- */
void op_reply(struct op *op, int err, uint64_t seq, struct str body);
void op_free(struct proposer *p, struct op *op);
/*
 * Answers that it was not taken, and frees it. What an earlier try of it may
 * have done is not known then.
 */
void op_refuse(struct proposer *p, struct op *op, int err, const char *text);
void proposer_enqueue(struct proposer *p, struct op *op);
/* An op that waited for an entry goes into none. */
void pending_drop(struct proposer *p, struct op *op);
/* An op that goes into an entry without having waited for one. */
void proposer_count(struct proposer *p, const struct op *op);

/* Its own, into an entry that is being made. */
void put_own(struct proposer *p, uint32_t id, struct str body,
	     struct list *into, size_t *n);

/* --- propose/take.c --- */

static inline void list_move_all(struct list *from, struct list *to)
{
	LIST_FOREACH_SAFE (it, from) {
		list_remove(it);
		list_push_back(to, it);
	}
}

/* Moves ops from pending into b->ops until the entry is full; there may be
 * none. */
void entry_take(struct proposer *p, struct batch *b, uint64_t now_ns);

/* --- propose/pass.c --- */

/* False: nobody else can do it, and it is still there. err: as far as it got
 * here. */
bool pass_on(struct proposer *p, struct op *op, int err);

/* --- propose/fence.c --- */

/* Before an entry is made. True: there is one to be made for them. */
bool fences_want(struct proposer *p);
/* The entry is applied here. */
void fences_answer(struct proposer *p, struct list *of);
/* Whoever leads next may answer them; or else they are refused. */
void fences_pass_on(struct proposer *p, struct list *of, int err);
void fences_free(struct list *of);

/* --- propose/encode.c --- */

/* Into p->entry. */
void entry_encode(struct proposer *p, struct batch *b, uint64_t now_ns);

/* --- propose/admission.c --- */

/* 0: the op is taken, without members that are to come later; or ERR_* with a
 * sentence. */
int admission_judge(struct proposer *p, struct op *op, const char **ret_text);
static inline bool admission_is_late(const struct op *op, uint64_t now_ns)
{
	return op->deadline_ns != 0 && op->deadline_ns <= now_ns;
}

/* Refuses one that waits. */
void admission_withdraw(struct proposer *p, struct op *op);
/* All that are late. */
void admission_on_late(void *ctx);
/* Whether there is room on the disk, at most ten times a second. */
void admission_look_at_disk(struct proposer *p);
/* False: nothing can be written, and who waits for that has been told. The
 * server's own ops and those that are done in part wait on, but for a drain. */
bool admission_has_room(struct proposer *p);
/* The store, or the view, has enough to do with what was applied; asks again
 * soon. */
bool admission_must_wait(struct proposer *p);
/* The node has frozen: whoever waits is told. */
void admission_end(struct proposer *p);
/* An entry of another node was applied, with so many events. */
void admission_note_foreign(struct proposer *p, uint64_t events);

/* --- propose/time.c --- */

void time_new(struct proposer *p);
void time_free(struct proposer *p);
/* Whether we lead: time goes on from that of the last entry. */
void time_lead(struct proposer *p, bool leads);
/* The next entry has to carry a clock_set. */
bool time_is_due(const struct proposer *p);
/* True: it was a reclaim, which finds nothing now, and was answered. */
bool time_holds_back(struct proposer *p, struct op *op);
/* Its body, when it has to. */
bool time_take(struct proposer *p, struct buf *body);
/* The log refused that entry: the next one has to. */
void time_not_taken(struct proposer *p);

/* --- propose/fetch.c --- */

/* Decodes a new fetch and parks, answers or enqueues it. */
void fetch_submit(struct proposer *p, struct op *op);
/* An entry with this op is being built: calls waiting fetches into it. */
void fetch_ride_along(struct proposer *p, const struct op *op,
		      struct list *into, size_t *n);
void fetch_init(struct proposer *p);
/* What the state machine answered a fetch. */
void fetch_applied(struct proposer *p, struct op *op, int err, uint64_t seq,
		   struct str body);
/* Ready: those that were parked before and hold jobs go and ask for them. */
void fetch_look_again(struct proposer *p);
/* After an entry: fetches that can be served now leave the lot. */
void fetch_wake(struct proposer *p, struct str queue);
void fetch_free(struct proposer *p, struct op *op);
void fetch_drain(struct proposer *p);
void fetch_on_deadline(void *ctx);
/* When a rate may free jobs for fetches that wait: wakes them then. */
void fetch_arm_look(struct proposer *p);
void fetch_on_look(void *ctx);

#endif
