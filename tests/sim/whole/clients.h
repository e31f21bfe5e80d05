/*
 * Clients of a cluster: producers, workers and people, each of which asks by
 * the desk of some machine, which is its corvo-httpd. They write down what they
 * were told, and what must be true of it is checked as it comes.
 *
 *   producers.c   jobs, with unique keys, dependencies, chains, batches
 *   workers.c     fetch, heartbeats, acks; agents; what was used
 *   people.c      queues that are paused, schedules, budgets, bulk operations
 */
#ifndef CORVO_SIM_CLIENTS_H
#define CORVO_SIM_CLIENTS_H

#include "rt/ipc.h"
#include "rt/rpc.h"
#include "sim/host.h"
#include "util/arena.h"

struct whole;
struct machine;

/* The way of requests into a machine; it does not die with corvo-raftd. */
struct desk {
	struct machine *m;
	struct loop loop;
	struct ipc *ipc;
	struct rpc_client *raftd;
	struct list asks; /* struct ask, without an answer yet */
};

struct ask;

#define OP_TIMEOUT_NS (5 * NS_PER_S) /* of nodes, too */
#define QUERY_FIRST   1000           /* ops have numbers below */

struct desk *desk_new(struct machine *m);
void desk_free(struct desk *d);
struct desk *desk_any(struct whole *w);
/* An op or a question, with its deadline (clock_mono_ns; 0: none). fn may be
 * NULL; it runs once, unless the request is withdrawn before. */
struct ask *desk_ask(struct desk *d, unsigned op, struct str body,
		     uint64_t until_ns, rpc_reply_fn *fn, void *ctx);
/* Its client goes away. */
void desk_withdraw(struct ask *a);
/* Fails when a request is there that should have had an answer long ago. */
void desk_check(const struct desk *d);

enum known {
	JOB_ASKED,   /* no answer yet */
	JOB_ACKED,   /* it exists */
	JOB_REFUSED, /* it never will */
	JOB_UNKNOWN, /* nobody knows */
	JOB_FOLLOWS, /* it will, when others have ended */
};

/* Jobs that have consecutive numbers. */
struct job_range {
	uint64_t from, n;
};

/* Of jobs the server makes. */
enum job_made {
	MADE_BY_CLIENT,
	MADE_BY_CHAIN, /* when the one before has completed */
	MADE_BY_BATCH, /* when all of it have ended */
};

#define JOB_AFTER 2

/* A job, by the number in its payload. */
struct job_known {
	enum known enqueue;
	enum job_made made;
	bool is_done;        /* an ack was answered so, */
	uint64_t done_ns;    /* then, */
	uint64_t done_token; /* under that token */
	bool may_be_done;    /* nobody knows of one */
	uint64_t times;      /* that it was given to a worker */
	uint64_t acks;       /* that were sent for it */
	uint64_t ended_ns;   /* its ack or cancel was answered; 0: none was */
	uint64_t acked_ns;   /* its enqueue was; 0: it was not, */
	unsigned acked_by;   /* by the machine of that number */
	struct job_range after[JOB_AFTER]; /* it comes when these have ended */
	uint64_t not_before_ns;            /* it is not due before */
	uint64_t id;    /* a hash of its id; 0: nobody has seen it */
	unsigned key;   /* its unique key; 0: none */
	unsigned queue; /* it was put into */
	unsigned again; /* requests for it under its Idempotency-Key; 0: none */
	bool is_meddled; /* somebody has asked to cancel it or run it again */
	bool is_again;   /* the latter */
	bool is_aside;   /* it may have to wait for ever */
	bool is_many;    /* of a schedule: many jobs have this number */
	/* of an agent's: iterations it is to have, the first not counted; those
	 * a worker has asked for, and those it was told of */
	unsigned turns, turns_asked, turns_told;
	uint64_t last_token; /* the greatest it was given under, */
	uint64_t given_ns;   /* then */
	/* who has it, as far as is known; token 0: nobody */
	uint64_t token;
	uint64_t until_ns; /* nobody else may get it before */
};

struct worker_sim;
struct report;
struct people;
struct pushed;

struct clients {
	struct whole *w;
	struct job_known *jobs; /* by their number; the first one is not used */
	size_t jobs_n;
	struct worker_sim *workers;
	size_t workers_n;
	struct sim_event produce, meddle;
	bool is_quiet;          /* no more new jobs */
	size_t open_at;         /* a job that is not done */
	struct list open;       /* calls without an answer */
	struct report *reports; /* of usage */
	size_t reports_n;
	uint64_t spent; /* by those that were counted for sure */
	struct people *people;
	struct pushed *pushed;
};

void clients_begin(struct clients *c, struct whole *w);
/* No new jobs from now on; those that are there are worked off. */
void clients_calm(struct clients *c);
/* Every job that was acknowledged is done, and every request answered. */
bool clients_are_done(struct clients *c);
/* What must be true when they are. */
void clients_check(struct clients *c);
/* The number of some job that was acknowledged, and whether its end was; 0:
 * none was found. */
uint64_t clients_some_job(const struct clients *c, bool *ret_ended);
struct str clients_job_id(const struct clients *c, uint64_t number,
			  struct arena *a);
/* That job was acknowledged by this machine. */
bool clients_were_told_by(const struct clients *c, uint64_t number,
			  const struct machine *m);
/* Nobody has done anything that could end it. */
bool clients_have_not_ended(const struct clients *c, uint64_t number);
/* What is missing, in a sentence. */
void clients_tell(const struct clients *c, struct buf *ret);
void clients_end(struct clients *c);

#endif
