/*
 * Calls of HTTP receivers, many at a time, on the daemon's loop. Connections
 * are kept and used again, HTTP/2 where the receiver has it. An address is
 * looked at when a socket is opened to it, after its name was resolved, so
 * that what a name means next does not matter. Redirects are not followed, and
 * proxies of the environment are not used. What receivers say is hostile: it
 * is bounded in bytes and time.
 *
 * The only one that knows libcurl.
 */
#ifndef CORVO_PUSH_CALLER_H
#define CORVO_PUSH_CALLER_H

#include "rt/loop.h"
#include "rt/reach.h"
#include "util/arena.h"

struct caller;
struct call;

/* Texts have to live until the call has ended. */
struct call_request {
	const char *url; /* without credentials */
	struct str host;
	const char *credentials; /* user:password, or NULL */
	const char *method;
	const char *const *headers; /* "Name: value" */
	size_t headers_n;
	struct str body;
	uint64_t timeout_ns;
	uint64_t connect_timeout_ns;
	size_t body_max; /* bytes of the answer that are of interest */
};

enum call_class {
	CALL_ANSWERED,
	CALL_TIMEOUT,
	CALL_CANCELLED,
	CALL_CONNECTION,
	CALL_DNS,
	CALL_TLS,
	CALL_HTTP, /* an answer that is no success; for those who judge it */
};

struct call_answer {
	enum call_class class;
	unsigned status;
	struct str body;      /* the first body_max bytes */
	bool cut;             /* there was more */
	const char *error;    /* unless it answered */
	const char *location; /* of a redirect, an absolute URL; or NULL */
	uint64_t total_ns, connect_ns, first_byte_ns;
};

/* Once for each call, never inside of call_start; the answer is valid during
 * it, and so is call_header. */
typedef void call_fn(void *ctx, struct call *c, const struct call_answer *a);

struct caller *caller_new(struct loop *l, const struct reach *reach,
			  const char *ca_file, struct buf *why);
void caller_free(struct caller *c); /* no fn runs */

struct call *call_start(struct caller *c, const struct call_request *r,
			call_fn *fn, void *ctx);
/* A header of the answer, or NULL. */
const char *call_header(struct call *c, const char *name);
void call_cancel(struct call *c); /* fn does not run */

#endif
