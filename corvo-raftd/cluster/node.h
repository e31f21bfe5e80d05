/*
 * This node's raft instance: the only file that knows libraft, so that the
 * library, its log and its transport can each be replaced behind it.
 *
 * Runs on the loop thread. A one-node cluster has no peers and needs no port.
 */
#ifndef CORVO_NODE_H
#define CORVO_NODE_H

#include "cluster/manifest.h"
#include "rt/config.h"
#include "rt/loop.h"

struct node;
struct port;

/* A snapshot, and what a log that begins with it has to say. */
struct node_install {
	struct manifest manifest;
	uint64_t term;          /* of the entry at manifest.index */
	uint64_t members_index; /* of the entry with the members */
	struct str members;     /* as the library encodes them */
	uint64_t leader;        /* raft id of who offers it; 0: nobody */
};

struct node_ops {
	/* A committed entry, in order, also those replayed after a start.
	 * -ERR_STORAGE_ERROR: the store is damaged, and the node freezes.
	 * Other errors: the process must stop. */
	int (*apply)(void *ctx, uint64_t raft_index,
		     const struct entry_origin *o, struct str entry);
	/* The log is to be cut behind what is applied now: on the loop, before
	 * make_durable. Non-zero: not now. */
	int (*before_snapshot)(void *ctx);
	/* On a pool thread: make everything applied so far, which is at least
	 * up to that index, survive a crash. 0 lets the log be cut; anything
	 * else keeps it, says why, and is tried again after a pause that
	 * grows. */
	int (*make_durable)(void *ctx, uint64_t index, struct buf *why);
	/* The node has frozen: undoes what apply did by half. Entries after
	 * *ret_index are applied again, up to the one that failed. 0 or
	 * -ERR_*. */
	int (*rewind)(void *ctx, uint64_t *ret_index);
	/* Leadership or readiness changed, or the node has frozen. */
	void (*on_change)(void *ctx);
	/*
	 * The address of another node's port, as it is now: appends it to ret.
	 * `configured` is what it was when the node joined. NULL: it is that.
	 */
	void (*address_of)(void *ctx, uint64_t raft_id, const char *configured,
			   struct buf *ret);
	/* The leader's log begins after what we have: only its snapshot helps.
	 * Told again about every two seconds; what it points to is valid
	 * during the call. NULL: nothing is done about it. */
	void (*on_install)(void *ctx, const struct node_install *i);
};

struct node_config {
	const struct settings *settings;
	/* What the store says of the last entry that was applied to it; index
	 * 0: the store is empty. */
	uint64_t store_index;
	struct entry_origin store_origin;
	/* To talk to other nodes by; must outlive the node. NULL: there are
	 * none. */
	struct port *port;
};

/*
 * Opens the log in <data-dir>/raft, bootstraps it when it is empty, and starts.
 * A log that is damaged, or is not the one the store was made from, is refused
 * before anything is changed: -ERR_CONFLICT. 0 or -ERR_* with a sentence in
 * `why`.
 */
int node_start(struct loop *l, const struct node_config *c,
	       const struct node_ops *ops, void *ctx, struct node **ret,
	       struct buf *why);

/*
 * Makes, in an empty folder, the log of a node whose store has applied the
 * entry `index`, and nothing more. 0 or -ERR_* with a sentence in `why`.
 */
int node_make_log(const struct settings *s, const char *dir, uint64_t index,
		  const struct entry_origin *o, struct buf *why);
/* The parts of it: a snapshot with nothing after it, in a folder that has no
 * segments; and the file with the term, without a vote. */
int node_make_snapshot(const char *dir, const struct node_install *i,
		       struct buf *why);
int node_make_term(const char *dir, uint64_t term, struct buf *why);

/*
 * Stops taking entries; `done` runs when the log is closed. Not from inside a
 * callback of this node: the library is in the middle of its work then.
 */
void node_stop(struct node *n, loop_fn *done, void *ctx);
/* After `done`, or after a start that failed: then it closes the log too. */
void node_free(struct node *n);

/*
 * Appends one entry. `done` runs after the entry was applied here (0), or
 * when it is unknown whether it ever will be (-ERR_OUTCOME_UNKNOWN).
 * -ERR_LEADER_UNAVAILABLE at once when this node does not lead.
 */
typedef void node_done_fn(void *ctx, int err);
int node_propose(struct node *n, struct str entry, uint64_t *ret_index,
		 node_done_fn *done, void *ctx);

bool node_is_leader(const struct node *n);
bool node_is_ready(const struct node *n); /* leads, and the log is applied */
/*
 * An entry could not be applied: neither it nor any after it are, until the
 * next start, so it is never ready again. The log keeps them.
 */
bool node_is_frozen(const struct node *n);
/* Ready, or it was when it froze: what is applied is all that was ever
 * answered, and can be read. */
bool node_is_whole(const struct node *n);

/* Of the log in memory: entries under way, since the last cut, and kept behind
 * it. */
uint64_t node_log_bytes(struct node *n);
/* The log is being cut, or should have been. */
bool node_cut_is_due(struct node *n);
/*
 * It should be cut, and nobody does: the library looks only after an entry.
 * True at most once a second; who asked has to propose one, also an empty one.
 */
bool node_wants_entry(struct node *n);
/* Cuts the log soon, although it need not be: who needs the last snapshot
 * cannot have it any more. */
void node_want_snapshot(struct node *n);

struct node_info {
	const char *state; /* "Leader", "Follower", "Candidate", "Shutdown" */
	int state_number;  /* 0 follower, 1 candidate, 2 leader, 3 shutdown */
	uint64_t term;
	uint64_t applied_index;
	uint64_t commit_index;
	uint64_t snapshot_index;
	unsigned cut_failures;       /* in a row: the log only grows */
	uint64_t cut_failures_total; /* since the start */
};

void node_info(const struct node *n, struct node_info *ret);

#endif
