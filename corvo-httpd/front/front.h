/*
 * What a protocol does for the exchanges on its connections: one table each,
 * so that requests, streams and limits serve all of them without knowing.
 * Floors above read the first members, and call what exchange.h, head.h and
 * stream.h have.
 */
#ifndef CORVO_FRONT_H
#define CORVO_FRONT_H

#include "front/head.h"
#include "util/str.h"

struct exchange;

struct front {
	const char *name; /* for logs */
	/* Answers may begin while a body still comes, and have trailers. */
	bool duplex;
	/* It always reads its connections, and so notices who leaves. */
	bool notices;

	/* The head; see front/head.h. */
	void (*each_header)(const struct exchange *x, head_header_fn *fn,
			    void *ctx);
	const char *(*argument)(const struct exchange *x, const char *name);
	void (*each_argument)(const struct exchange *x, head_name_fn *fn,
			      void *ctx);

	/* One that waits has its answer, or is abandoned. */
	void (*resume)(struct exchange *x);
	/* A stream that had nothing to send has something, or ends; or a body
	 * that waited is read on. */
	void (*wake)(struct exchange *x);
	/* So many bytes of a body that comes in pieces are done with. */
	void (*took)(struct exchange *x, size_t n);
	/* It is answered with an error before it has come completely. */
	void (*refuse)(struct exchange *x, int err, struct str text);
	/* It is ended without a further word. */
	void (*cut)(struct exchange *x);
	/* Nobody waits for its answer; NULL: only its socket tells. */
	bool (*is_gone)(const struct exchange *x);
	/* How many bytes of its answer the client has taken, counted from
	 * anywhere; false: that cannot be known. */
	bool (*progress)(const struct exchange *x, uint64_t *ret);

	/* Of one that is duplex: a place in what its connection sends, behind
	 * all that was taken of the exchange so far; and whether the kernel
	 * has everything before a place. */
	uint64_t (*place)(const struct exchange *x);
	bool (*is_past)(const struct exchange *x, uint64_t place);
};

#endif
