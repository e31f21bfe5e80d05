/*
 * The HTTP client. One request at a time.
 */
#ifndef CORVO_CLI_API_H
#define CORVO_CLI_API_H

#include "util/arena.h"
#include "util/buf.h"

struct api {
	const char *server; /* "http://host:port", a path below it is kept; or
			     * several, with commas between them: the next is
			     * asked when one cannot be reached or says 503 */
	const char *key;    /* NULL: none */
	const char *idempotency_key; /* NULL: none */
	const char *last_event_id;   /* of a stream; NULL: none */
	long timeout_s;              /* 0: as long as any answer may take */
	uint64_t *ret_lag_ms; /* NULL, or how far a list is behind, if it is */
};

/*
 * Sends the request and puts the reply, which is valid JSON, in the place of
 * what ret_reply has. -ERR_* with a sentence in `why`: the server's own error
 * text, or why it could not be asked. -ERR_OUTCOME_UNKNOWN: it may have been
 * carried out; -ERR_NOT_FOUND: there is no such thing. An empty body sends
 * none.
 */
int api_call(const struct api *api, const char *method, const char *path,
	     struct str body, struct buf *ret_reply, struct buf *why);

/* What it has not is empty; all of it in a sign of life. */
struct api_event {
	struct str id, type, data;
};

/*
 * GET of a stream of server-sent events: fn is given each, until it returns
 * false or the server ends it; both are 0. One that breaks off counts for
 * nothing. Errors as above, also of a server that fell silent;
 * -ERR_VALIDATION_ERROR when it makes no sense to try again.
 */
typedef bool api_event_fn(void *ctx, const struct api_event *e);
int api_stream(const struct api *api, const char *path, api_event_fn *fn,
	       void *ctx, struct buf *why);

/* The first of several, in memory of `a`. */
const char *api_first_server(const char *servers, struct arena *a);

/*
 * The parts of "http://host:port/prefix", in memory of `a`: a host without
 * brackets, a port in digits, and a prefix that is empty or has no slash at its
 * end. False when it is no such address.
 */
bool api_split(const char *server, struct arena *a, const char **ret_host,
	       const char **ret_port, const char **ret_prefix);

/* Appends one segment of a path, percent-encoded. */
void api_put_segment(struct buf *path, const char *text);

#endif
