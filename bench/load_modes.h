/*
 * What load can do; one function per mode.
 */
#ifndef CORVO_LOAD_MODES_H
#define CORVO_LOAD_MODES_H

#include "load_http.h"

struct options {
	const char *host;
	const char *port;
	const char *queue;
	unsigned connections;
	unsigned producers;
	unsigned workers;
	unsigned batch;
	unsigned backlog; /* producers wait while so many jobs are not done */
	unsigned payload; /* bytes */
	unsigned groups;  /* jobs are of so many groups in turn; 0: of none */
	unsigned words;   /* not 0: payloads of words, no two jobs the same */
	unsigned rate;    /* lifecycles begun in a second at most; 0: any */
	uint64_t count;   /* jobs */
	uint64_t total;   /* lifecycles after which to end; 0: after time */
	uint64_t time_ns; /* how long to measure */
	uint64_t gap_ns;  /* between two enqueues of mode wake */
	uint64_t lease_ns;
};

void mode_enqueue(struct http *h, const struct options *o);
void mode_fill(struct http *h, const struct options *o);
void mode_fetch(struct http *h, const struct options *o);
void mode_lifecycle(struct http *h, const struct options *o);
void mode_lifecycle_batch(struct http *h, const struct options *o);
void mode_wake(struct http *h, const struct options *o);
void mode_park(struct http *h, const struct options *o);
void mode_schedule(struct http *h, const struct options *o);
void mode_lease(struct http *h, const struct options *o);

#define PATH_ENQUEUE       "/api/v1/enqueue"
#define PATH_ENQUEUE_BATCH "/api/v1/enqueue/batch"
#define PATH_FETCH         "/api/v1/fetch"
#define PATH_FETCH_BATCH   "/api/v1/fetch/batch"
#define PATH_ACK           "/api/v1/ack/"
#define PATH_ACK_BATCH     "/api/v1/ack/batch"
#define PATH_JOB           "/api/v1/jobs/"

#define WAIT_S 60 /* of a parked fetch */

/* Request bodies; each clears the buffer first. */
void body_job(struct buf *b, const struct options *o);
void body_jobs(struct buf *b, const struct options *o, unsigned n);
void body_fetch(struct buf *b, const struct options *o, unsigned wait_s);
void body_fetch_batch(struct buf *b, const struct options *o, unsigned wait_s);

/* Acks the one job of an answer to fetch, on the same connection. */
void send_ack(struct hconn *c, const struct answer *fetched, answer_fn *fn);
/*
 * Acks all jobs of an answer to fetch/batch; returns how many. None: nothing
 * is sent.
 */
unsigned send_acks(struct hconn *c, const struct answer *fetched,
		   answer_fn *fn);

#endif
