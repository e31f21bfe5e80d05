/*
 * The raft node inside: what node.c and the node_*.c share. The only files that
 * know libraft.
 */
#ifndef CORVO_NODE_IMPL_H
#define CORVO_NODE_IMPL_H

#include "cluster/guard.h"
#include "cluster/guard_vote.h"
#include "cluster/manifest.h"
#include "cluster/node.h"
#include "cluster/node_mark.h"
#include "util/list.h"
#include "util/rng.h"

#include <raft.h>

#define SNAPSHOT_NEVER (1u << 30) /* entries: not by count */

/* Entries kept behind a snapshot: so many, and of snapshot_bytes a part. */
#define SNAPSHOT_TRAILING 64
#define TRAILING_PART     16
#define CUT_RETRY_NS      NS_PER_S /* between entries asked for a cut */

/* How it went to cut the log. A pool thread writes err and why in between. */
struct node_cut {
	int err;
	struct buf why;
	bool wanted;       /* by node_want_snapshot */
	uint64_t index;    /* of the snapshot being taken */
	uint64_t upto;     /* entries it lets go */
	uint64_t bytes;    /* bytes_since when it began */
	unsigned failures; /* in a row */
	uint64_t failures_total;
	uint64_t retry_ns; /* clock_mono_ns: not before; 0: at once */
	/* the library's own, which ours stands before */
	int (*put)(struct raft_io *io, unsigned trailing,
		   struct raft_io_snapshot_put *req,
		   const struct raft_snapshot *snapshot,
		   raft_io_snapshot_put_cb cb);
	raft_io_snapshot_put_cb put_cb;
};

/* Sums over the log in memory, and what they are sums of. */
struct node_weight {
	uint64_t bytes; /* of all entries */
	uint64_t uncut; /* of those the last snapshot does not cover */
	uint64_t offset;
	uint64_t last;
	uint64_t snapshot;
};

/* Entries on their way to other nodes; see node_send.c. */
struct node_sends {
	struct list peers;   /* struct send_peer */
	uint64_t part_bytes; /* of entries in one message, or one entry */
	/* the library's own, which ours stands before */
	int (*send)(struct raft_io *io, struct raft_io_send *req,
		    const struct raft_message *message, raft_io_send_cb cb);
};

/* The library's own, which ours stand before: node_install.c. */
struct node_receiver {
	int (*start)(struct raft_io *io, unsigned msecs, raft_io_tick_cb tick,
		     raft_io_recv_cb recv);
	raft_io_recv_cb recv;
	raft_io_tick_cb tick;
};

/* What a follower has said of its log: node_hint.c. */
struct node_hint {
	raft_id id;
	bool heard;
	raft_index last;    /* entry it has */
	raft_index refused; /* entry it has not got; 0: not known */
};

struct node_hints {
	raft_term term; /* in which they were given */
	unsigned n;
	struct node_hint of[NODE_SERVERS_MAX];
};

/* What a leader has told of since the start: node_sync.c. */
struct node_sync {
	bool done;        /* all of it is applied: for good */
	bool asked;       /* it was asked */
	bool by_messages; /* it does not say when it is asked */
	uint64_t term;    /* the leader's */
	uint64_t told;    /* committed, and to be applied here; 0: not heard */
	uint64_t newest;  /* by its last message */
};

/* What a follower has said last of its log. */
struct node_said {
	uint64_t id;
	struct raft_append_entries_result result;
};

/* Committed entries that are yet to be applied: node_pieces.c. */
struct node_pieces {
	struct loop_timer *go_on; /* NULL: all are applied at once */
	uint64_t turn;            /* of the loop, that it belongs to */
	uint64_t began_ns;        /* with its first entry */
	unsigned entries;         /* applied in it */
	struct list written; /* struct write: the library hears of it later */
	uint64_t hidden;     /* its commit index, while that is hidden */
	uint64_t upto;       /* committed, not as the library knows; or 0 */
	unsigned writes;     /* of a leader, under way */
	struct node_said said[NODE_SERVERS_MAX]; /* and is yet to be heard */
	unsigned said_n;
	bool is_armed; /* a piece has ended */
	bool is_own;   /* the message in hand is of this node */
};

/* The library's own, which ours stand before: guard.c. */
struct guard_io {
	int (*load)(struct raft_io *io, raft_term *term, raft_id *voted_for,
		    struct raft_snapshot **snapshot, raft_index *start_index,
		    struct raft_entry *entries[], size_t *n_entries);
	int (*truncate)(struct raft_io *io, raft_index index);
};

struct node {
	struct loop *loop;
	const struct node_ops *ops;
	void *ctx;
	const char *data_dir;
	uint64_t election_ns; /* setting election_timeout */
	struct raft raft;
	struct raft_io io;
	struct node_base *base; /* of io, below all that stands before it */
	struct port *port;      /* NULL: there is nobody to talk to */
	struct {
		uint64_t id, at_ns;
	} stranger; /* the last one who asked and is no member here */
	struct node_sends sends;
	struct node_hints hints;
	struct node_log *log; /* our own; NULL: the library's */
	struct raft_fsm fsm;
	struct loop_timer *watch; /* notices changes of leadership */
	struct history history;   /* of all entries from now on */
	struct rng rng;           /* ids of entries */
	struct node_mark mark;
	uint64_t applied;           /* last command given to apply */
	struct entry_origin origin; /* of that */
	uint64_t snapshot_bytes;    /* setting */
	uint64_t trailing_bytes;    /* kept behind a snapshot for others */
	uint64_t kept_bytes;        /* and for who fetches one, so many */
	uint64_t kept_index;        /* from it on; 0: nobody does */
	uint64_t grown_ns;    /* when the log was last seen to have grown */
	uint64_t bytes_since; /* entries applied since the last snapshot */
	struct node_weight weight;
	struct node_cut cut;
	struct node_receiver receive;
	struct node_pieces pieces;
	struct guard guard;
	struct guard_vote vote;
	struct guard_io guard_io;
	/* the library's own, which ours stands before: node_append.c */
	int (*append)(struct raft_io *io, struct raft_io_append *req,
		      const struct raft_entry entries[], unsigned n,
		      raft_io_append_cb cb);
	struct list writes; /* struct write: those under way */
	bool log_failed;    /* nothing is written any more */
	/* the library's own, which ours stand before: node_term.c */
	int (*set_term)(struct raft_io *io, raft_term term);
	int (*set_vote)(struct raft_io *io, raft_id server_id);
	uint64_t cut_asked_ns;     /* node_wants_entry was true */
	struct raft_barrier fence; /* its entry is the last before our own */
	bool fencing;              /* it is under way */
	uint64_t fenced_term;      /* the last one that it was written in */
	uint64_t alone_index; /* without others: ready when it is applied */
	bool opened;          /* raft_init done */
	/* as last reported */
	bool leader;
	uint64_t term; /* of that */
	bool ready;
	uint64_t leader_id;
	uint64_t turned_ns; /* the end of the last turn */
	uint64_t doubt_ns;  /* until then somebody else may lead */
	struct node_sync sync;
	bool followed; /* it did once, with all that was committed here */
	bool frozen;
	uint64_t frozen_index; /* the entry that could not be applied */
	uint64_t taken_upto;   /* by node_take_upto */
	bool whole;            /* while frozen */
	uint64_t heard_ns;     /* a leader was */
	uint64_t yield_ns;     /* frozen: it hands over, not before */
	unsigned yields;       /* tries to */
	bool changing;         /* the members */
	struct raft_transfer transfer;
	node_done_fn *transfer_done; /* NULL: none is under way */
	void *transfer_ctx;
	uint64_t transfer_late_ns; /* given up by the library; until then */
	bool stopping;
	loop_fn *stop_done;
	void *stop_ctx;
	/* the library's own, which ours stands before, and who hears of it */
	void (*close)(struct raft_io *io, raft_io_close_cb cb);
	raft_io_close_cb closed;
	struct loop_timer *settle;
};

/* After node_base_open: the library says once that it is closed. */
void node_wire_close(struct node *n);

/* The library has committed a command. */
int node_apply(struct raft_fsm *fsm, const struct raft_buffer *buf,
	       void **result);

/* What is known to be committed: the library may know of less. */
uint64_t node_committed(const struct node *n);
/* Of a node with others, before the library starts, and when it stops. */
void node_pieces_start(struct node *n);
void node_pieces_stop(struct node *n);
/* Before and after an entry is applied. */
void node_piece_begins(struct node *n);
void node_piece_applied(struct node *n, uint64_t index);
/*
 * What the library hears of may make it apply an entry more, also when this
 * turn has had its piece. So a message, and a write of a follower that has
 * ended, say that no more is committed, which is remembered here; and writes of
 * a leader that have ended wait for the next turn, in their order, as does what
 * the others say they have.
 */
void node_piece_receiving(struct node *n, struct raft_append_entries *a);
bool node_piece_holds(struct node *n, struct list *written);
bool node_piece_keeps(struct node *n, const struct raft_message *m);
bool node_piece_hides(struct node *n);
void node_piece_shows(struct node *n, const struct guard_answer *a);
/* What it has not applied yet weighs as much as it may: no more is taken. */
bool node_is_far_behind(struct node *n);
/* The library closes: it hears of all writes. */
void node_pieces_close(struct node *n);
#ifdef CORVO_FAULTS
/* For tests: entries in a piece; 0: as many as there is time for. Of all nodes
 * of the process. */
extern unsigned node_piece_most;
#endif

/* The library hears what another node says of its log. */
void node_receive_result(struct node *n, struct raft_message *m);

/* Tells the library that a write has ended that waited for it. */
void node_written(struct list *written);
/* Entries from there on are being cut off. */
void node_writes_cut(struct node *n, uint64_t index);
/* The message does not bring back what was cut off and is being written yet. */
void node_writes_wait(struct node *n, struct raft_append_entries *a);

/* Entries of a message from that one on, counted from 0, are given back. With
 * none left it is a heartbeat. */
void node_leave_out_entries(struct raft_append_entries *a, unsigned from);

/* Looks whether leadership or readiness changed, now and from now on. */
void node_watch(struct node *n);

/* Whether one the library has given up came about. */
void node_look_at_transfer(struct node *n);

/* The store could not apply the entry `index`. */
void node_freeze(struct node *n, uint64_t index);

/* Of a node of several that has frozen: node_frozen.c. It hands over, if it
 * leads; at a tick of the library: it does not want to; and whether the library
 * is to hear of a message, of which the entries may be gone. */
void node_yield(struct node *n);
void node_stay_follower(struct node *n);
bool node_frozen_takes(struct node *n, struct raft_message *m);
/* Of a follower: as one that has heard of none. */
void node_forget_leader(struct node *n);

/* The library's words about what just failed; -ERR_*. */
int node_raft_failed(struct node *n, int rv, const char *what, struct buf *why);

/* The folder <data-dir>/raft, made if need be, with a NUL. 0 or -ERR_*. */
int node_folder(const struct settings *s, struct buf *ret, struct buf *why);
/* After raft_start: the log knows the number that node_identity gave. 0 or
 * -ERR_*. */
int node_confirm(struct node *n, const struct settings *s, struct buf *why);

/* A message came from there. */
void node_note_sender(struct node *n, uint64_t id);
/*
 * The library goes on to dial nodes that were removed, for ever. But who asks
 * is answered, also when this node has yet to hear that it is a member.
 */
bool node_may_dial(const struct node *n, uint64_t id);
/* After node_base_open: what is sent at a time is bounded. */
void node_wire_sends(struct node *n);
void node_sends_done(struct node *n);
/* A follower has answered: how far its log is. */
void node_sends_heard(struct node *n, const struct raft_message *m);
/* Up to where it was sent entries of this leader in its term. */
uint64_t node_sent(struct node *n, uint64_t id);
/* The library has dealt with an answer of a follower. */
void node_hint_heard(struct node *n, uint64_t id,
		     const struct raft_append_entries_result *r);
/* A message was lost, and the library has dealt with it. */
void node_hint_lost(struct node *n, uint64_t id);
/* It has answered since, or is nobody whom this node leads. */
bool node_hint_is_heard(struct node *n, uint64_t id);
/* Of a leader, at the end of each turn: followers hear what is committed. */
void node_tell_commit(struct node *n);
/* NULL: the log has none there. */
const struct raft_entry *node_entry(struct node *n, uint64_t index);
/* The term of an entry the log or its snapshot has; 0: neither has it. */
uint64_t node_term_of(struct node *n, uint64_t index);
void node_wire_snapshots(struct node *n);
/* After node_base_open: also what becomes of a snapshot's file is heard of. */
void node_watch_snapshots(struct node *n);
/* After node_base_open: snapshots of others do not reach the library. */
void node_watch_installs(struct node *n);
/*
 * After node_base_open, of a node with others: also a follower hears of entries
 * that cannot be written. One that is alone has only proposals of its own.
 */
void node_watch_appends(struct node *n);
/* After node_base_open: a candidate that cannot keep its term ends cleanly. */
void node_watch_terms(struct node *n);
/* Says so, once. */
void node_log_failed(struct node *n, int status);
/* A leader says how far it has committed. */
void node_sync_heard(struct node *n, const struct raft_append_entries *a);
/* At the end of each turn: whether this node has all of that. */
void node_look_at_sync(struct node *n);
/* What came from another node, on its way to the library. */
void node_receive(struct raft_io *io, struct raft_message *m);
/* The last try to cut the log failed a moment ago. */
bool node_cut_must_wait(const struct node *n);
/* Cuts the log as soon as enough bytes were applied since the last cut. */
void node_snapshot_by_bytes(struct node *n, size_t len);

/*
 * How many entries a snapshot of what is applied now leaves in the log: by
 * their number and weight, and at least one, since 0 has another meaning to
 * the library.
 */
unsigned node_trailing(const struct node *n);

#endif
