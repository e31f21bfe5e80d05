/*
 * What the steps of load.h share: a run, and what each connection is about.
 */
#ifndef CORVO_LOAD_RUN_H
#define CORVO_LOAD_RUN_H

#include "load/load.h"

/* What a connection has under way. */
struct lane {
	uint64_t number; /* of the first of n jobs */
	unsigned n;
	struct held *held; /* of a worker: room for a whole batch */
	bool waits;        /* a producer that may not begin yet */
};

struct run {
	struct load *l;
	unsigned batch; /* jobs per request, at least 1 */
	bool batched;   /* by the routes for several */
	unsigned wait_s;
	uint64_t count; /* jobs at most */
	uint64_t begun; /* jobs asked for or sent */
	uint64_t start_ns;
	bool closing; /* nothing new; what is answered now does not count */
	struct figures *ret;
	struct lane *lanes;
	const struct load_lives *lives; /* see lives.c */
	uint64_t sent, acked, allowed, burst_ns;
	unsigned turn;    /* which producer that waits goes on next */
	uint64_t over_ns; /* since then no job can come any more; 0: not yet */
};

/* False: the client has failed. Connections have their lanes. */
bool run_begin(struct run *r, struct load *l, unsigned connections,
	       unsigned batch, uint64_t count);
void run_end(struct run *r);

static inline struct run *run_of(const struct conn *c)
{
	return ((struct load *)c->cl->ctx)->run;
}

/* So many jobs were done now. */
void run_count(struct run *r, uint64_t jobs);
/* How long a request took, if that is measured: t is in r->ret. */
void run_time(struct run *r, struct times *t, uint64_t ns);

/* The next jobs of a producer are sent: the lane's n. */
void run_send_jobs(struct conn *c, answer_fn *fn);
/*
 * The server has answered a producer. False: not now, or the client has
 * failed.
 */
bool run_jobs_known(struct conn *c, const struct answer *a);
/*
 * The server has answered a worker: the jobs are in the ledger, and in `to`,
 * which has room for `most`. Returns how many.
 */
unsigned run_jobs_taken(struct conn *c, const struct answer *a, struct held *to,
			unsigned most);
/*
 * The server has answered an ack. False: not now, or the client has failed.
 */
bool run_jobs_acked(struct conn *c, const struct answer *a,
		    const struct held *jobs, unsigned n);

#endif
