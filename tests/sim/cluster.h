/*
 * Some nodes, what their stores have, and an oracle that knows what has to be
 * true of them.
 */
#ifndef CORVO_SIM_CLUSTER_H
#define CORVO_SIM_CLUSTER_H

#include "cluster/node_impl.h"
#include "net.h"

#define VERDICT_BYTES 256

/* A command that a store has applied. */
struct row {
	uint64_t index;
	uint64_t number; /* of the proposal */
	struct entry_origin origin;
};

/* What apply has made of it: its rows, of which the first are on the disk. */
struct store {
	struct row *rows;
	size_t n, room;
	size_t durable;
};

struct cluster;

/* rt's port has nothing to do here; a node only looks whether it has one. */
struct port {
	int unused;
};

struct member {
	struct cluster *c;
	struct sim_host host;
	struct port port;
	struct settings settings;
	char name[24], dir[24];
	struct store store;
	bool joins;      /* it has no log of its own yet */
	bool is_refused; /* its last start was */
	uint64_t given;  /* index of the last entry it got since its start */
	uint64_t term;   /* in which it was last seen to lead */
	bool was_ready;  /* in that */
	/* a snapshot that is being fetched */
	struct disk_snapshot offer;
	uint64_t offer_leader; /* 0: none */
	struct sim_event fetch, restart, leave;
};

enum outcome { PENDING, DONE, UNKNOWN, REFUSED };

struct proposal {
	struct member *at;
	enum outcome outcome;
	uint64_t index; /* where it was applied; 0: nowhere */
};

/* What one member applied at an index, the first one that did. */
struct seen {
	uint64_t number; /* 0: no command is known there */
	uint64_t term, id;
	uint64_t prev; /* index of the command before it */
};

/* By its number. */
struct term {
	uint64_t leader;
	unsigned life;  /* of that, see sim_host */
	uint64_t acked; /* last index that was acknowledged in it */
};

struct oracle {
	struct seen *seen;
	size_t seen_n;
	struct term *terms;
	size_t terms_n;
	uint64_t done, unknown, refused; /* proposals */
};

/* What happens, and how often: by the seed. */
struct plan {
	unsigned voters;     /* to begin with */
	unsigned weight[16]; /* of enum deed */
	uint64_t storm_ns, pause_max_ns;
	bool is_loose; /* disks forget: only what runs has to agree */
	uint64_t snapshot_bytes, part_bytes;
	size_t small_max, large_max; /* bytes of entries */
};

/* What came of it all. */
#define TALLY(X)   \
	X(leaders) \
	X(crashes) X(installs) X(snapshots) X(changes) X(transfers) X(refusals)

struct tally {
#define X(name) uint64_t name;
	TALLY(X)
#undef X
};

void tally_add(struct tally *sum, const struct tally *t);
void tally_show(const struct tally *t);

struct cluster {
	struct sim *sim;
	struct sim_net net;
	struct member member[SIM_NODES];
	struct plan plan;
	struct oracle oracle;
	struct proposal *proposals; /* by their number */
	uint64_t proposals_n;       /* and one: numbers begin with 1 */
	uint64_t last_id;           /* raft's, given to a node */
	struct history history;
	struct tally tally;
	struct sim_event storm, back;
	char *verdict; /* what cluster_fail had to say */
};

/* --- one run --- */

/* Prints the seed and a sentence, and what led to it, and ends the process. */
_noreturn_ _printf_(2, 3) void cluster_fail(struct cluster *c, const char *fmt,
					    ...);

/* verdict: VERDICT_BYTES that outlive the process. */
void cluster_begin(struct cluster *c, struct sim *s, char *verdict);
/* The same without a storm, on links without faults, and with nodes that are
 * yet to be started. */
void cluster_begin_still(struct cluster *c, struct sim *s, char *verdict,
			 unsigned voters);
void cluster_end(struct cluster *c);
/* The latest one that is ready; NULL: there is none. */
struct member *cluster_leader(struct cluster *c);
/* A storm, then quiet; fails when anything is not as it has to be. */
void cluster_run(struct cluster *c);

/* --- members: member.c --- */

/* A node that never was: it gets a number. */
void member_make(struct cluster *c, unsigned number);
void member_done(struct member *m);
void member_start(struct member *m);
/* Ends now; it starts again after a while, unless it is told to stay away. */
void member_crash(struct member *m);
void member_stop(struct member *m);
void member_restart_after(struct member *m, uint64_t ns);
/* It was removed: gives up what it has, after a while. */
void member_leave_after(struct member *m, uint64_t ns);
bool member_runs(const struct member *m);
struct member *member_of_id(struct cluster *c, uint64_t id);

/* Proposes an entry of so many bytes. False: it does not lead. */
bool member_propose(struct member *m, size_t bytes);

/* --- the oracle: oracle.c --- */

void oracle_done(struct oracle *o);
/* A member applies a command; prev: the index of the one before. */
void oracle_applied(struct member *m, const struct row *r, uint64_t prev);
void oracle_answered(struct cluster *c, uint64_t number, int err);
/* After each turn. */
void oracle_look(struct member *m);
/* Of all that runs: the same rows. */
void oracle_compare(struct cluster *c);

/* --- storms: storm.c --- */

void storm_plan(struct cluster *c);
void storm_begin(struct cluster *c);
void storm_end(struct cluster *c);

#endif
