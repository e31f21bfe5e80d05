/*
 * What clients.c, producers.c, workers.c and people.c have in common.
 */
#ifndef CORVO_SIM_CLIENTS_IMPL_H
#define CORVO_SIM_CLIENTS_IMPL_H

#include "clients.h"
#include "proto/proto.h"
#include "whole.h"

#define ATTEMPTS     1000 /* so that no job dies */
#define JOB_ID_BYTES 48

/* Queues of clients; their names are no stranger's. */
enum {
	QUEUE_PLAIN = 3, /* the first ones */
	QUEUE_COSTLY = QUEUE_PLAIN,
	QUEUE_TIMERS,
	QUEUES,                /* that workers ask for */
	QUEUE_PARKED = QUEUES, /* nobody asks for these */
	QUEUE_PUSHED,
};

struct str queue_name(unsigned queue);

struct held;
struct call;
typedef void call_fn(struct call *x, const struct rpc_reply *r);

/* A request and what its answer concerns. */
struct call {
	struct list node; /* in c->open */
	struct clients *c;
	call_fn *fn;
	unsigned op;
	struct worker_sim *worker; /* NULL: none of theirs */
	void *of;
	uint64_t number; /* of the job it is about, the first */
	uint64_t n;      /* how many */
	uint64_t token, lease_ns, asked_ns;
	unsigned by;   /* the number of the machine that is asked */
	size_t report; /* of usage; 0: none */
	bool is_turn;  /* an ack that is not the last */
	struct ask *ask;
};

/* By any desk. Valid until its fn is called. */
struct call *call(struct clients *c, struct call how, const struct msg_desc *d,
		  const void *m, uint64_t wait_ns);
/* Nobody waits for it any more: its fn is not called. */
void call_withdraw(struct call *x);
/* A refusal that says that nothing was done. */
bool is_refusal(int err);
bool is_unsure(int err);

struct job_known *job(struct clients *c, uint64_t number);
uint64_t new_job(struct clients *c);
/* 0: it is not one of ours. */
uint64_t number_of_id(struct str id);
/* A job that is to be asked for, or 0. */
uint64_t some_job(struct clients *c);

/* --- producers.c --- */

void produce_begin(struct clients *c);
/* So many plain jobs for that queue, all or none. */
uint64_t produce_into(struct clients *c, unsigned queue, uint64_t n,
		      call_fn *fn, void *of);
/* What the answer to an enqueue says of its jobs. */
void note_enqueued(struct call *x, const struct rpc_reply *r);

/* --- workers.c --- */

void workers_begin(struct clients *c);
void workers_end(struct clients *c);

/* --- reports.c --- */

void reports_begin(struct clients *c);
/* One of what was used, into u. Some say the last one once more: its answer may
 * have been lost. It must not come after the next one, so that has to wait
 * until it is answered. last: 0: there was none. */
size_t report_next(struct clients *c, size_t last, struct m_usage *u,
		   struct arena *a);
/* It was sent so many times more. 0 is none. */
void report_sent(struct clients *c, size_t report, int times);
/* The answer to who said it. */
void report_heard(const struct call *x, int err, bool is_counted);
/* By reports that were counted for sure, and by all that may have been. */
void reports_sum(const struct clients *c, uint64_t *least, uint64_t *most);

/* --- people.c --- */

struct people *people_new(struct clients *c);
void people_free(struct people *p);
void people_calm(struct people *p);
bool people_are_done(const struct people *p);
void people_check(struct people *p);
/* The queues have the settings that jobs of batches need. */
bool people_have_set_queues(const struct people *p);
bool people_have_set_budget(const struct people *p);
/* A worker that asked then is given a job of that queue; returns which it is.
 */
unsigned people_look_at(struct people *p, struct str queue, uint64_t asked_ns);
/* The job is one of a schedule. */
void people_look_at_timer(struct people *p, const struct m_fetched *m);
/* More was counted. */
void people_note_spent(struct people *p);

#endif
