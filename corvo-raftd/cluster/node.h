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
#include "util/hist.h"

struct node;
struct port;

/* A snapshot, and what a log that begins with it has to say. */
struct node_install {
	struct manifest manifest;
	uint64_t term;          /* of the entry at manifest.index */
	uint64_t members_index; /* of the entry with the members */
	struct str members;     /* as the library encodes them */
	uint64_t leader;        /* raft id of who offers it; 0: nobody */
	/* It takes the place of a damaged store, and the log stays: of the rest
	 * only the manifest counts. `applied` is an entry it has at least. */
	bool store_only;
};

struct node_ops {
	/* A committed entry, in order, also those replayed after a start. tag:
	 * of node_propose; NULL: of another node, or of an earlier life.
	 * -ERR_STORAGE_ERROR: the store is damaged, and the node freezes.
	 * Other errors: the process must stop. */
	int (*apply)(void *ctx, uint64_t raft_index, const void *tag,
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
	/* Who leads, or readiness, changed, or the node has frozen. A
	 * leadership that was lost and won again is told as two changes. */
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
	bool joins; /* without a log it waits for a leader's */
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

/* Whether it needs no others, and so no port: -ERR_CONFLICT with a sentence
 * where others count on it. */
int node_stands_alone(const struct node *n, struct buf *why);

/*
 * Raft's number of this node; the data directory must be that of its name.
 * joins: it is made anew where there is none. Should it have been lost, the
 * start tells whether the log knows this one. 0 or -ERR_* with a sentence.
 */
int node_identity(const struct settings *s, bool joins, uint64_t *ret_id,
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

/* What durable=false comes to with these settings. */
const char *node_loose_text(const struct settings *s);

/*
 * Stops taking entries; `done` runs when the log is closed. Not from inside a
 * callback of this node: the library is in the middle of its work then.
 */
void node_stop(struct node *n, loop_fn *done, void *ctx);
/*
 * After `done`, or after a start that failed: then it closes the log too. A
 * stop under way is waited for, and its `done` is not called.
 */
void node_free(struct node *n);

/* At the end of each turn of the loop: whether somebody else leads. */
void node_turn(struct node *n);

/*
 * Appends one entry. *ret_tag is set before anything else, and names the entry
 * to apply. `done` runs after the entry was applied here (0), or when it is
 * unknown whether it ever will be (-ERR_OUTCOME_UNKNOWN).
 * -ERR_LEADER_UNAVAILABLE at once when this node does not lead.
 */
typedef void node_done_fn(void *ctx, int err);
int node_propose(struct node *n, struct str entry, const void **ret_tag,
		 node_done_fn *done, void *ctx);

bool node_is_leader(const struct node *n);
/* Leads, and has applied all that was in the log when it began to. */
bool node_is_ready(const struct node *n);
/*
 * Ready, and if somebody else has begun to lead, that is not longer ago than
 * node_blind_ns says. False for a while after this process stood still: the
 * others may have chosen another leader meanwhile.
 */
bool node_is_sure(const struct node *n);
/* How long the leader before this one may take itself for one yet. */
uint64_t node_blind_ns(const struct node *n);
/* Leads, and node_transfer is under way. */
bool node_is_handing_over(const struct node *n);
/* Another node leads, and is heard of. */
bool node_is_following(const struct node *n);
uint64_t node_id(const struct node *n);        /* raft's number of this node */
uint64_t node_leader_id(const struct node *n); /* 0: not known */
/*
 * An entry could not be applied: neither it nor any after it are, until the
 * next start, so it is never ready again. The log keeps them.
 */
bool node_is_frozen(const struct node *n);
/* Its store could not be written between two entries: it freezes at the next
 * one, now. */
void node_break(struct node *n);
/* That entry; 0: it has not frozen. */
uint64_t node_frozen_index(const struct node *n);
/* Whether the log has that command, and on the disk. */
bool node_has_entry(struct node *n, uint64_t index,
		    const struct entry_origin *o);
/* Entries up to there are taken, however long the log is by then. */
void node_take_upto(struct node *n, uint64_t index);
/*
 * The library gave up, since a term or an entry could not be written: this node
 * takes part in nothing until the next start.
 */
bool node_is_dead(const struct node *n);
/* As that, since it has applied other entries than the cluster has: also after
 * the next start. */
bool node_has_diverged(const struct node *n);
/* Ready, or it was when it froze: what is applied is all that was ever
 * answered, and can be read. Or it follows, and has caught up with what a
 * leader told since it was started. */
bool node_is_whole(const struct node *n);
/*
 * It can be asked: it is whole or frozen, or it follows and has applied what
 * its log knew to be committed. Questions about the state wait until it is
 * whole.
 */
bool node_is_up(const struct node *n);
/*
 * The leader of that term, which was ready, has answered that it has committed
 * so far: asked since this process was started. Or it is of a version that does
 * not say it.
 */
void node_told(struct node *n, uint64_t term, uint64_t committed);
void node_not_told(struct node *n);
bool node_wants_to_be_told(const struct node *n);

/* Of the log in memory: entries under way, since the last cut, and kept behind
 * it. */
uint64_t node_log_bytes(struct node *n);
/* How long its flushes took, by hist_short; the library's own does not say. */
void node_flush_time(const struct node *n, struct hist *ret);
/* The log is being cut, or should have been. */
bool node_cut_is_due(struct node *n);
/*
 * It should be cut, and nobody does: the library looks only after an entry.
 * True at most once a second; who asked has to propose one, also an empty one.
 */
bool node_wants_entry(struct node *n);
/* Whether the log has no such entry, so that only a snapshot helps. */
bool node_needs_snapshot(struct node *n, uint64_t index, uint64_t term);
/*
 * Somebody fetches the snapshot of that entry, or has just done so: the next
 * cuts leave the entries after it in the log, as long as these and what gathers
 * until the next cut stay under three quarters of raft_max_pending_bytes. 0:
 * nobody does.
 */
void node_keep_log(struct node *n, uint64_t index);
/* Cuts the log soon, although it need not be: who needs the last snapshot
 * cannot have it any more. */
void node_want_snapshot(struct node *n);

/* --- members --- */

#define NODE_SERVERS_MAX 64

enum node_role {
	NODE_SPARE,   /* known, and no more */
	NODE_STANDBY, /* gets the log */
	NODE_VOTER
};

struct node_server {
	uint64_t id;
	const char *address; /* when it was added; valid until the next turn */
	enum node_role role;
};

/* How many there are, at most max; none of a node that is being stopped. */
size_t node_servers(const struct node *n, struct node_server *ret, size_t max);
bool node_server_find(const struct node *n, uint64_t id,
		      struct node_server *ret);
size_t node_voters(const struct node *n);

/*
 * Changes of a leader, one at a time; `done` as for node_propose. A server is
 * added as a spare. -ERR_CONFLICT: another change is under way, or it is so
 * already; -ERR_NOT_FOUND; -ERR_LEADER_UNAVAILABLE; -ERR_REQUEST_TIMEOUT: it
 * does not catch up, or did not take over.
 */
int node_add(struct node *n, uint64_t id, const char *address,
	     node_done_fn *done, void *ctx);
int node_assign(struct node *n, uint64_t id, enum node_role role,
		node_done_fn *done, void *ctx);
int node_remove(struct node *n, uint64_t id, node_done_fn *done, void *ctx);
/* id 0: to whoever is most up to date. Neither while a change is under way, nor
 * a change meanwhile: -ERR_CONFLICT. */
int node_transfer(struct node *n, uint64_t id, node_done_fn *done, void *ctx);

/* The cluster's; none: this node is in none yet. */
const struct history *node_history(const struct node *n);
/* It has joined that cluster. False: it has a log, which is of another. */
bool node_set_history(struct node *n, const struct history *h);

struct node_info {
	const char *state; /* "Leader", "Follower", "Candidate", "Shutdown" */
	int state_number;  /* 0 follower, 1 candidate, 2 leader, 3 shutdown */
	uint64_t term;
	uint64_t applied_index;
	uint64_t commit_index;
	uint64_t snapshot_index, snapshot_term;
	unsigned cut_failures;       /* in a row: the log only grows */
	uint64_t cut_failures_total; /* since the start */
};

void node_info(const struct node *n, struct node_info *ret);

#endif
