/*
 * Questions to the view, answered from one reading connection: each row of
 * queries.def for viewd has one function in one of the query_*.c.
 *
 * A struct query belongs to one thread at a time; only query_begin and
 * query_interrupt may be called from another. Requests come from httpd and
 * carry what clients wrote: texts are only ever bound as parameters.
 */
#ifndef CORVO_QUERY_H
#define CORVO_QUERY_H

#include "proto/proto.h"
#include "util/buf.h"

struct query;

/* What the rest of the process knows, for query_metrics. */
struct query_facts {
	uint64_t position;
	uint64_t head_seq;
	uint64_t rebuilds;
	uint64_t lag_ns;                     /* see view_lag_ns */
	uint64_t text_lag_ns;                /* see view_text_lag_ns */
	uint64_t long_running, long_waiting; /* searches */
	const char *data_dir; /* whose files are measured; NULL: none */
};

struct query_ask {
	unsigned id;          /* QUERY_* */
	const void *request;  /* its message */
	uint64_t lag_ns;      /* goes into the answer; 0: it is current */
	uint64_t deadline_ns; /* clock_mono_ns; 0: none */
	/* The same: until then or not at all, whatever its own budget; 0: none.
	 * -ERR_REQUEST_TIMEOUT. */
	uint64_t slice_ns;
	struct query_facts facts;
};

/* What it costs does not grow with the number of jobs. */
bool query_is_quick(unsigned id);

/* It finds jobs by their words. request: its message. */
bool query_uses_text(unsigned id, const void *request);

/* path: of the file, which exists. 0 or -ERR_* with a sentence in why. */
int query_open(const char *path, struct query **ret, struct buf *why);
void query_close(struct query *q); /* NULL: fine */

/* Appends the encoded reply to out. 0, -ERR_VALIDATION_ERROR with a sentence
 * for the client in query_why, or -ERR_* as in db/db.h. */
int query_run(struct query *q, const struct query_ask *ask, struct buf *out);
/*
 * The question under way, or the one that was begun and is about to run, ends
 * soon with -ERR_REQUEST_TIMEOUT. Both on the thread that hands questions out,
 * which may be another than that of query_run.
 */
void query_begin(struct query *q);
void query_interrupt(struct query *q);
const char *query_why(const struct query *q); /* of the last failure */

/* The answer to QUERY_VIEWD_METRICS, which needs no database. */
void query_facts_encode(const struct query_facts *f, struct buf *out);

#endif
