/*
 * The headers of an answer, from what the request knows about it.
 */
#ifndef CORVO_ANSWER_H
#define CORVO_ANSWER_H

#include <stdint.h>

struct req;

/* Where they go; name and value last only for the call. */
struct answer_to {
	void (*add)(void *ctx, const char *name, const char *value);
	void *ctx;
};

/* The header of that name, made once a second. Zeroed: none yet. */
struct answer_date {
	uint64_t unix_s;
	char text[32];
};

void answer_headers(const struct answer_to *to, const struct req *r,
		    struct answer_date *date);

#endif
