/*
 * The headers of an answer, from what the request knows about it.
 */
#ifndef CORVO_ANSWER_H
#define CORVO_ANSWER_H

#include "front/exchange.h"
#include "util/rng.h"

/* Where they go; name and value last only for the call. */
struct answer_to {
	void (*add)(void *ctx, const char *name, const char *value);
	void *ctx;
};

/* The header of that name, made once a second. Zeroed: none yet. */
struct answer_date {
	uint64_t unix_s;
	uint64_t looked_ns; /* clock_mono_ns */
	char text[32];
};

void answer_headers(const struct answer_to *to, const struct exchange *x,
		    struct answer_date *date);

/* Takes the client's X-Request-Id, if it can be one, or makes one. */
void answer_name_request(struct exchange *x, struct rng *rng);
const char *answer_make_id(char id[REQUEST_ID_MADE], struct rng *rng);

/* {"error":text,"code":CODE}; an empty text: that of errors.def. */
void answer_error_body(struct buf *out, int err, struct str text,
		       unsigned retry_after_s);
unsigned answer_retry_after(int err); /* seconds; 0: no header */

#endif
