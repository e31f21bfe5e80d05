/*
 * What load says to a server, and what it reads from the answers. Whoever runs
 * it knows of jobs and not of HTTP or JSON: another protocol is another file
 * with these functions.
 *
 * Jobs can be numbered: the number travels in the payload, so that the one who
 * gets a job knows which it is.
 */
#ifndef CORVO_LOAD_REQUEST_H
#define CORVO_LOAD_REQUEST_H

#include "load/client.h"
#include "util/id.h"

#define PATH_ENQUEUE       "/api/v1/enqueue"
#define PATH_ENQUEUE_BATCH "/api/v1/enqueue/batch"
#define PATH_FETCH         "/api/v1/fetch"
#define PATH_FETCH_BATCH   "/api/v1/fetch/batch"
#define PATH_ACK           "/api/v1/ack/"
#define PATH_ACK_BATCH     "/api/v1/ack/batch"
#define PATH_JOB           "/api/v1/jobs/"
#define PATH_METRICS       "/api/v1/metrics"

#define PAYLOAD_LEAST 40 /* bytes, of one that is numbered */

/* The jobs, all of one kind, and how they are taken. */
struct job_kind {
	const char *queue; /* needs no escaping in JSON */
	const char *worker;
	unsigned payload; /* bytes */
	bool numbered;
	unsigned groups;   /* jobs are of so many groups in turn; 0: of none */
	bool words;        /* payloads of words, no two jobs the same */
	bool usage;        /* acks say what was used, each something else */
	uint64_t lease_ns; /* of those who take them */
	unsigned
	    delay_s; /* jobs are for then, scattered over a month; 0: now */
};

/* A job in somebody's hands. */
struct held {
	char id[ID_LEN_MAX];
	uint64_t token;
	uint64_t number; /* 0 when jobs have none */
};

/* n jobs, of which the first has this number; alone when `batch` is false. */
void send_enqueue(struct conn *c, const struct job_kind *k, uint64_t number,
		  unsigned n, bool batch, answer_fn *fn);

/*
 * The ids of an answer to that, in order: ids_of says where to begin, and
 * next_id takes one. False: no more.
 */
struct str ids_of(const struct answer *a, bool batch);
bool next_id(struct str *rest, struct str *ret);

/* Takes up to n jobs, and waits so long for the first. */
void send_fetch(struct conn *c, const struct job_kind *k, unsigned n,
		bool batch, unsigned wait_s, answer_fn *fn);

/*
 * The jobs of an answer to that. False: no more, or the run has failed, for
 * the answer was not understood.
 */
bool next_held(struct conn *c, const struct job_kind *k, struct str *rest,
	       struct held *ret);

/* Completes jobs; one alone when `batch` is false. */
void send_ack(struct conn *c, const struct job_kind *k, const struct held *jobs,
	      unsigned n, bool batch, answer_fn *fn);
/* All of these n are completed; otherwise the run has failed. */
bool check_acked(struct conn *c, const struct answer *a, unsigned n,
		 bool batch);

#endif
