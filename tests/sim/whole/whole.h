/*
 * A cluster of whole corvo-raftds, each with its clients, in one thread: what
 * happens to it, and what has to be true of it. A seed decides all.
 */
#ifndef CORVO_SIM_WHOLE_H
#define CORVO_SIM_WHOLE_H

#include "change.h"
#include "clients.h"
#include "machine.h"
#include "strangers.h"
#include "stream.h"
#include "witness.h"

#define WHOLE_VERDICT_BYTES 1024
#define WHOLE_DIR_BYTES     48
#define WHOLE_DETAILS       "; now: " /* begins what two such ends differ in */
#define WHOLE_STREAMS       2

/* What is left out of a storm, to find what a failure needs. */
struct whole_cut {
	unsigned without;  /* a bit for each deed; see WHOLE_PARTS */
	uint64_t storm_ms; /* it lasts no longer; 0: as by its seed */
};

/* Parts of it: deeds of storm.c, strangers, old nodes. */
#define WHOLE_DEEDS        20
#define WHOLE_STRANGERS    (1u << WHOLE_DEEDS)
#define WHOLE_OLD          (1u << (WHOLE_DEEDS + 1))
#define WHOLE_PARTS        (WHOLE_DEEDS + 2)
#define WHOLE_STORM_MAX_MS 60000

/* What happens, and how often: by the seed. */
struct whole_plan {
	unsigned machines;
	unsigned weight[WHOLE_DEEDS]; /* of deeds in storm.c */
	uint64_t storm_ns, pause_max_ns;
	uint64_t snapshot_bytes;
	uint64_t event_retention; /* 0: as usual */
	struct whole_cut cut;
	uint64_t old_ns;  /* until then not all know the newest level */
	bool is_upgraded; /* it begins with the store of an older release */
};

#define WHOLE_TALLY(X)   \
	X(crashes)       \
	X(deaths)        \
	X(exits)         \
	X(installs)      \
	X(requests)      \
	X(wild)          \
	X(events)        \
	X(called)        \
	X(agreed)        \
	X(reads)         \
	X(rebuilt)       \
	X(replaced)      \
	X(emptied)       \
	X(heap_kib)      \
	X(start_deaths)  \
	X(worker_deaths) \
	X(given_back) X(done) X(refused) X(unknown) X(given) X(entries)

struct whole_tally {
#define X(name) uint64_t name;
	WHOLE_TALLY(X)
#undef X
};

/* What became of one kind of request: an op in the log, a question by an
 * answer. */
struct whole_count {
	uint64_t done, refused;
};

#define WHOLE_OPS     256 /* ops have numbers below */
#define WHOLE_QUERIES 128 /* questions have so many from QUERY_FIRST on */
#define WHOLE_CALLS   (WHOLE_OPS + WHOLE_QUERIES)

/* The state machine as somebody had it first behind an entry. */
struct state_at {
	uint64_t seq, now_ns, id; /* all 0: nobody was seen there */
};

struct whole {
	struct sim *sim;
	struct sim_net net;
	struct machine machine[SIM_NODES];
	struct whole_plan plan;
	struct whole_tally tally;
	uint64_t deeds[WHOLE_DEEDS]; /* that were done, of each */
	struct whole_count counts[WHOLE_CALLS];
	struct clients clients;
	struct strangers *strangers;
	struct witness *witness;
	struct stream *stream[WHOLE_STREAMS];
	struct change *change;
	uint64_t acked;          /* the newest event that an answer has named */
	bool is_time_moved;      /* some clock was set, or goes wrong */
	struct state_at *states; /* by index */
	size_t states_n;
	uint64_t last_id;
	char dir[WHOLE_DIR_BYTES]; /* of its files */
	struct sim_event storm;
	uint64_t lull_ns; /* until the next deed, and more */
	char *verdict;
};

/* Prints the seed and a sentence, and what led to it, and ends the process. */
_noreturn_ _printf_(2, 3) void whole_fail(struct whole *w, const char *fmt,
					  ...);

/* verdict, dir: WHOLE_VERDICT_BYTES and WHOLE_DIR_BYTES that outlive the
 * process. The folder of that name goes with whole_end, or else is left. */
void whole_begin(struct whole *w, struct sim *s, char *verdict, char *dir);
/* A storm, then quiet; fails when anything is not as it has to be. */
void whole_run(struct whole *w);
void whole_end(struct whole *w);

/* After each turn of a corvo-raftd. */
void whole_look(struct machine *m);
struct machine *whole_of_id(struct whole *w, uint64_t id);
bool whole_is_open(const struct machine *from, const struct machine *to);
/* The latest one that is ready; NULL: there is none. */
struct machine *whole_leader(struct whole *w);

/* What became of a request of that number; err 0: it was done. */
void whole_count(struct whole *w, unsigned call, int err);
/* Of the number of a count; NULL: there is none. */
const char *whole_call(unsigned place);

/* --- probe.c --- */

void probe_run(struct whole *w);

/* --- storm.c --- */

/* What it is called; NULL: there is none of that number. */
const char *whole_deed(unsigned d);
/* The same of WHOLE_PARTS: a bit of whole_cut.without. */
const char *whole_part(unsigned p);
void whole_plan_make(struct whole *w);
void whole_storm_begin(struct whole *w);
void whole_storm_end(struct whole *w);

#endif
