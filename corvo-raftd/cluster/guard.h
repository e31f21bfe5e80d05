/*
 * Guards around the raft library. Version 0.15 is what there is, and nobody
 * mends it; it keeps raft's promises only where its callers keep rules that
 * stand nowhere. Each guard says which rule it keeps, and why.
 *
 * Loop thread.
 */
#ifndef CORVO_GUARD_H
#define CORVO_GUARD_H

#include "proto/origin.h"
#include "util/buf.h"

struct node;
struct raft_append_entries;
struct raft_configuration;
struct raft_entry;
struct raft_message;
struct raft_snapshot;

enum guard_rule {
	GUARD_COMMIT = 1u << 0,
	GUARD_ANSWER = 1u << 1,
	GUARD_TERM = 1u << 2,
	GUARD_MEMBERS = 1u << 3,
	GUARD_APPLIED = 1u << 4,
	GUARD_ONCE = 1u << 5,
	/* guard_vote.c */
	GUARD_ALONE = 1u << 8,
	GUARD_ASKED = 1u << 9,
	GUARD_LATE = 1u << 10,
	GUARD_STAND = 1u << 11,
};

/* What a follower may say in answer to one message. */
struct guard_answer {
	uint64_t term;   /* of the message; 0: to none */
	uint64_t upto;   /* its entries end there */
	uint64_t commit; /* so much of them is committed, it says */
	bool is_written; /* they had to be written first */
};

/* The last members that are committed. */
struct guard_members {
	uint64_t index;   /* of the entry; 0: there are none */
	struct buf bytes; /* as the library encodes them */
	/* the change under way, while the library must not know of it */
	uint64_t hidden;
};

/* What a store ends with that the log beside it has not got yet. */
struct guard_ahead {
	uint64_t index; /* 0: the log has it, or its snapshot */
	struct entry_origin origin;
};

struct guard {
	struct guard_answer answer; /* to what the library has in hand */
	struct guard_members members;
	struct guard_ahead ahead;
	bool diverged; /* the store is not the cluster's */
};

#ifdef CORVO_FAULTS
/* For tests, which show what each one is for. Of all nodes of the process. */
extern unsigned guards_off;
#endif

static inline bool guard_is_on(enum guard_rule which)
{
#ifdef CORVO_FAULTS
	return (guards_off & which) == 0;
#else
	(void)which;
	return true;
#endif
}

/* After node_base_open and our own log: sees what is loaded and cut off. */
void guard_wire(struct node *n);
void guard_done(struct node *n);
/* The library has started. */
void guard_started(struct node *n);

/* Whether a node may be started on the log in dir: -ERR_CONFLICT with a
 * sentence. */
int guard_refuse(const char *dir, struct buf *why);
/* A message came, and the library is about to see it; it has seen it. False:
 * it must not, and the message stays the caller's. */
bool guard_receiving(struct node *n, struct raft_message *m);
void guard_received(struct node *n);
/* A message is about to leave. False: it must not. */
bool guard_sending(struct node *n, struct raft_message *m);
/* Entries are about to be written; the library is to hear that they are, and
 * has heard it. */
struct guard_answer guard_writing(const struct node *n);
void guard_writing_ends(struct node *n, const struct guard_answer *a);
void guard_writing_ended(struct node *n);
/* The library has committed that entry. False: it must not be applied. */
bool guard_applying(struct node *n, uint64_t index);
/* The library has noted who the members are, for a snapshot it will write. */
void guard_snapshot(struct node *n);

/* --- guard_members.c, for guard.c --- */

void guard_members_loaded(struct node *n, const struct raft_snapshot *s,
			  uint64_t first, const struct raft_entry *entries,
			  size_t count);
void guard_members_started(struct node *n);
/* Around what the library does with entries that came. */
void guard_members_hide(struct node *n);
void guard_members_show(struct node *n);
/* Entries from there on are being cut off. */
void guard_members_cut(struct node *n, uint64_t index);
/* Others may be committed now. */
void guard_members_look(struct node *n);
void guard_members_snapshot(struct node *n);
/* As the library encodes them; what is returned is to be closed. 0, or an error
 * of the library. */
int guard_members_decode(struct str b, struct raft_configuration *ret);

/* --- guard_note.c --- */

#define GUARD_HELPS                                                     \
	"start it with an empty --data-dir and --join=host:port, as a " \
	"node with a new disk, to get what the cluster has"

/* What guard_refuse will say from now on. */
void guard_note(const struct node *n, struct str text);

/* --- guard_applied.c, for guard.c --- */

/* Whether entries that came have what is applied in their place; else it is
 * told. */
bool guard_applied_fits(struct node *n, const struct raft_append_entries *a);
/* As that: entries from there on are to be cut off. */
bool guard_applied_stays(struct node *n, uint64_t index);
void guard_applied_started(struct node *n);

#endif
