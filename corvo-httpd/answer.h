/*
 * The headers of an answer, from what the request knows about it. With
 * server.c the only file that knows libmicrohttpd.
 */
#ifndef CORVO_ANSWER_H
#define CORVO_ANSWER_H

#include <stdint.h>

struct MHD_Response;
struct req;

/* The header of that name, made once a second. Zeroed: none yet. */
struct answer_date {
	uint64_t unix_s;
	char text[32];
};

void answer_headers(struct MHD_Response *resp, const struct req *r,
		    struct answer_date *date);

#endif
