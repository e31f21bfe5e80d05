/*
 * What load can do; one function per mode.
 */
#ifndef CORVO_LOAD_MODES_H
#define CORVO_LOAD_MODES_H

#include "load/load.h"

struct options {
	const char *host;
	const char *port;
	const char *queue;
	unsigned connections;
	unsigned producers;
	unsigned workers;
	unsigned batch;
	unsigned depth;   /* frames of a stream that are not answered yet */
	unsigned backlog; /* producers wait while so many jobs are not done */
	unsigned payload; /* bytes */
	unsigned groups;  /* jobs are of so many groups in turn; 0: of none */
	unsigned words;   /* not 0: payloads of words, no two jobs the same */
	unsigned usage;   /* not 0: acks say what was used */
	unsigned delay;   /* s from now jobs are for, about; 0: at once */
	unsigned rate;    /* lifecycles begun in a second at most; 0: any */
	uint64_t count;   /* jobs */
	uint64_t total;   /* lifecycles after which to end; 0: after time */
	uint64_t time_ns; /* how long to measure */
	uint64_t gap_ns;  /* of mode wake and polite: pauses */
	uint64_t lease_ns;
};

void mode_enqueue(struct client *cl, const struct options *o);
void mode_fill(struct client *cl, const struct options *o);
void mode_fetch(struct client *cl, const struct options *o);
void mode_ack(struct client *cl, const struct options *o);
void mode_lifecycle(struct client *cl, const struct options *o);
void mode_lifecycle_batch(struct client *cl, const struct options *o);
void mode_wake(struct client *cl, const struct options *o);
void mode_park(struct client *cl, const struct options *o);
void mode_schedule(struct client *cl, const struct options *o);
void mode_lease(struct client *cl, const struct options *o);
void mode_polite(struct client *cl, const struct options *o);
void mode_stream_enqueue(struct client *cl, const struct options *o);
void mode_stream_lifecycle(struct client *cl, const struct options *o);

#define WAIT_S 60 /* of a parked fetch */

struct job_kind kind_of(const struct options *o);

_noreturn_ _printf_(1, 2) void die(const char *fmt, ...);

/* Lines "<name>_p50_us 123", also p90, p99, max, min and how many. */
void print_times(const struct times *t, const char *name);

#endif
