/*
 * From requests to raft entries and back: admission, group commit, and the
 * fetches that wait for work.
 *
 * Every op that waits when the raft pipeline has room goes into one entry;
 * nothing is timed, so an idle node adds no delay and a loaded one batches
 * deeply. Inside an entry acks run first and fetches last, so that a freed slot
 * is used at once. A fetch that finds nothing waits here, outside the log, and
 * travels in the entry of the enqueue that wakes it.
 *
 * Loop thread only.
 */
#ifndef CORVO_PROPOSER_H
#define CORVO_PROPOSER_H

#include "cluster/node.h"
#include "fsm/fsm.h"
#include "rt/rpc.h"
#include "util/hist.h"

struct proposer;
struct presence;

struct proposer_config {
	struct loop *loop;
	const struct settings *settings;
	struct fsm *fsm;
	/* Leases that heartbeats extended and the log does not know yet, as
	 * the body of an OP_RENEW; false: none. Asked for when an entry is
	 * built: they go in front of every reclaim, or it would take jobs from
	 * workers that live. *more: another op of them is left. */
	bool (*take_renewals)(void *ctx, struct buf *body, bool *more);
	/* This node leads no more: the request is another's to do, see
	 * forward_submit. NULL: there is no other, it waits here. */
	void (*pass_on)(void *ctx, struct rpc_req req,
			const struct frame_request *item);
	void *ctx;
};

struct proposer *proposer_new(const struct proposer_config *c);
void proposer_free(struct proposer *p); /* unanswered requests are dropped */
void proposer_set_node(struct proposer *p, struct node *n);

/* Takes a request; it is answered through rpc_reply, maybe at once. */
void proposer_submit(struct proposer *p, struct rpc_req req,
		     const struct frame_request *item);
/* An op of the server's own; nobody is answered. The body is copied. */
void proposer_submit_own(struct proposer *p, uint32_t op, struct str body);

/*
 * Answers with the newest event there is, once it is certain that no other node
 * led when this was asked: when an entry that was made after that is committed.
 */
void proposer_fence(struct proposer *p, struct rpc_req req,
		    uint64_t deadline_ns);
/* The same for ourselves: fn runs once, perhaps at once, unless the proposer is
 * freed before. err: 0, or why it is not certain. */
typedef void proposer_fenced_fn(void *ctx, int err, uint64_t seq);
void proposer_fence_own(struct proposer *p, proposer_fenced_fn *fn, void *ctx);

/* The next entry carries renewals, also when there is nothing else. */
void proposer_renew(struct proposer *p);

/*
 * The time the next entry would carry: the wall clock's, but for some seconds
 * after that was set.
 */
uint64_t proposer_now(const struct proposer *p);
/*
 * The monotonic moment of an entry's time, to a millisecond, or a later one.
 * Only of those since this node leads; 0: it does not.
 */
uint64_t proposer_mono_of(const struct proposer *p, uint64_t at_ns);
/*
 * Leases that end by then may be taken back by an entry that is on its way,
 * whatever is said of them from now on; 0: there is none.
 */
uint64_t proposer_reclaims_upto(const struct proposer *p);
/*
 * False: this node was away and has just begun to lead; its clock may yet turn
 * out to be wrong. Nothing should be deleted by it.
 */
bool proposer_time_is_settled(const struct proposer *p);

/* A fetch that names this queue waits, or is on its way through the log. */
bool proposer_is_asked_for(struct proposer *p, struct str queue);

/* A sign of life of a worker that is no fetch. */
void proposer_heard(struct proposer *p, struct str worker);
/* Who is there, without those that were silent too long. */
const struct presence *proposer_presence(struct proposer *p);

void proposer_cancel(struct proposer *p, struct rpc_req req);
void proposer_peer_down(struct proposer *p, struct rpc_peer *peer);

/* End of a loop turn: fills the pipeline with what has gathered. */
void proposer_pump(struct proposer *p);
/* The last event that the view of this node has said to have. */
void proposer_note_view(struct proposer *p, uint64_t seq);

/* A committed entry; answers those of its ops that came from here. */
int proposer_apply(struct proposer *p, uint64_t raft_index, const void *tag,
		   struct str entry);

/* This node leads no more: whatever waits for an entry, or for a job, is passed
 * on. What is under way in the log follows when its fate is known here. */
void proposer_step_down(struct proposer *p);

/* Refuses everything new; parked fetches are answered empty. */
void proposer_drain(struct proposer *p);
bool proposer_is_idle(const struct proposer *p); /* nothing under way */

struct proposer_stats {
	uint64_t pending;       /* ops waiting for an entry or in one */
	uint64_t pending_bytes; /* of their bodies */
	uint64_t parked;        /* fetches waiting for a job */
	uint64_t entries;       /* proposed since start */
	uint64_t ops;           /* in them */
	uint64_t crowded; /* entries proposed while many ops were pending */
	uint64_t foreign; /* entries of other nodes, applied here */
	uint64_t foreign_crowded; /* of those, with many events each */
	uint64_t overload;        /* ops refused */
	uint64_t fetch_overload;
	uint64_t clock_forward, clock_back; /* times the clock was set */
	bool disk_ok;
	struct hist queue_time;
	struct hist apply_time;
};

/* As of now; also looks at the disk. */
const struct proposer_stats *proposer_stats(struct proposer *p);

#endif
