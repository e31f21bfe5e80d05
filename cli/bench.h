/*
 * `corvo bench`: what was asked for, what came out, and how it is shown. The
 * load itself is common/load.
 */
#ifndef CORVO_CLI_BENCH_H
#define CORVO_CLI_BENCH_H

#include "cmd.h"
#include "load/load.h"

enum bench_mode {
	BENCH_ENQUEUE,
	BENCH_FETCH,
	BENCH_ACK,
	BENCH_COMBINED,
	BENCH_BURST,
};

extern const char bench_modes[]; /* their names, in this order */

struct bench_options {
	enum bench_mode mode;
	const char *mode_name;
	const char *protocol; /* "http" or "batch" */
	unsigned connections;
	unsigned batch; /* jobs per request; 0: one, by the route for one */
	unsigned payload;
	unsigned burst;   /* 0 when it is another mode */
	uint64_t count;   /* 0: none given */
	uint64_t time_ns; /* 0: none */
};

/* What the processes of a node have used so far, as it tells itself. */
#define BENCH_PROCS_MAX 80
struct bench_use {
	struct {
		char name[32];
		double cpu_s;
		double memory; /* bytes, resident */
	} proc[BENCH_PROCS_MAX];
	size_t n; /* 0: it tells nothing */
};

/* Both looks, and the jobs that passed between them. */
struct bench_cost {
	struct bench_use before, after;
	uint64_t jobs;
	double client_cpu_s;
};

/* A look at a node's processes, over the first connection. */
void bench_look(struct client *cl, struct bench_use *ret);
/* Processor time of this program so far. */
double bench_own_cpu_s(void);

/* The member "machine": what this program runs on. */
void bench_put_machine(struct json_writer *w);

/* All of a run as one JSON object; server: the reply to GET /info. */
void bench_document(const struct bench_options *o, const char *url,
		    struct str server, const struct figures *f,
		    uint64_t refused, const struct bench_cost *cost,
		    struct buf *ret);

/* Reads such a document from a file; CLI_OK, or what is wrong was said. */
int bench_read(const char *path, struct buf *ret);

/* Shows one for people; and two of them beside each other. */
void bench_show(struct str document);
void bench_show_both(struct str first, struct str second);

#endif
