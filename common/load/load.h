/*
 * The load: jobs put in, taken out and completed, over many connections, and
 * how long that took. `corvo bench` and the programs of bench/ run it.
 *
 * One after the other (load_enqueue, load_fetch, load_ack) or all at once
 * (load_lives). Each ends when nothing of it is under way any more, or when
 * the client has failed.
 */
#ifndef CORVO_LOAD_LOAD_H
#define CORVO_LOAD_LOAD_H

#include "load/ledger.h"
#include "load/request.h"
#include "load/times.h"

/* What was measured. */
struct figures {
	uint64_t done;    /* jobs */
	uint64_t took_ns; /* until the end of the time, or the last answer */
	struct rates rates;
	struct times enqueue, fetch, ack; /* of requests */
	struct times start; /* from an enqueue to a worker; with a ledger */
	struct times burst; /* until a burst was worked off */
};

struct load {
	struct client *cl;
	const struct job_kind *kind;
	struct ledger *ledger; /* NULL: nobody asks what became of a job */

	/* What load_fetch took and load_ack has not completed. */
	struct held *held;
	uint64_t held_n, held_cap;

	/* Of the run under way. */
	struct run *run;
};

void load_done(struct load *l);

/* One step for all jobs. */
struct load_step {
	unsigned connections;
	unsigned batch;   /* jobs per request; 0: one, by the route for one */
	unsigned wait_s;  /* of a fetch that finds nothing */
	uint64_t count;   /* jobs; 0: as many as it gets in the time */
	uint64_t time_ns; /* 0: until count */
	struct figures *ret; /* NULL: not measured */
};

void load_enqueue(struct load *l, const struct load_step *s);
/* Up to count jobs; fewer when a fetch finds nothing any more. */
void load_fetch(struct load *l, const struct load_step *s);
/* All of l->held, unless count or time_ns comes first. */
void load_ack(struct load *l, const struct load_step *s);

/* Whole lifecycles. */
struct load_lives {
	unsigned producers, workers;
	unsigned batch;
	unsigned wait_s;
	unsigned backlog; /* producers wait while so many are not done */
	unsigned rate;    /* begun in a second at most; 0: any */
	unsigned burst;   /* not 0: so many at once, each second, rate unused */
	uint64_t count, time_ns; /* as above */
	struct figures *ret;     /* never NULL */
};

/*
 * With a ledger, all jobs are worked off after the time. Connections are hung
 * up in the end, for workers may be waiting on them.
 */
void load_lives(struct load *l, const struct load_lives *s);

#endif
