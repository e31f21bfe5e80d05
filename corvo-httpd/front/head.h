/*
 * What the head of the request that is under way says.
 */
#ifndef CORVO_HEAD_H
#define CORVO_HEAD_H

#include "util/buf.h"

struct exchange;

/* The headers that mean something here, each declared once. */
#define HEAD_NAMES(X)                                           \
	X(ACCEPT_ENCODING, "Accept-Encoding")                   \
	X(AUTHORIZATION, "Authorization")                       \
	X(CONNECT_ACCEPT_ENCODING, "Connect-Accept-Encoding")   \
	X(CONNECT_CONTENT_ENCODING, "Connect-Content-Encoding") \
	X(CONNECT_TIMEOUT_MS, "Connect-Timeout-Ms")             \
	X(CONTENT_ENCODING, "Content-Encoding")                 \
	X(CONTENT_LENGTH, "Content-Length")                     \
	X(CONTENT_TYPE, "Content-Type")                         \
	X(GRPC_ACCEPT_ENCODING, "Grpc-Accept-Encoding")         \
	X(GRPC_ENCODING, "Grpc-Encoding")                       \
	X(GRPC_TIMEOUT, "Grpc-Timeout")                         \
	X(CORVO_REDIRECT, "Corvo-Redirect")                     \
	X(HOST, "Host")                                         \
	X(IDEMPOTENCY_KEY, "Idempotency-Key")                   \
	X(LAST_EVENT_ID, "Last-Event-ID")                       \
	X(ORIGIN, "Origin")                                     \
	X(PREFER, "Prefer")                                     \
	X(TRANSFER_ENCODING, "Transfer-Encoding")               \
	X(COMPAT, "X-Corvo-Compat")                             \
	X(MIN_INDEX, "X-Corvo-Min-Index")                       \
	X(STRICT, "X-Corvo-Strict")                             \
	X(REQUEST_ID, "X-Request-Id")

enum head_name {
#define X(name, text) HEAD_##name,
	HEAD_NAMES(X)
#undef X
	    HEAD_NAMES_MAX,
};

/* Of each the first that came; NULL: none did. The front's memory. */
struct head {
	const char *value[HEAD_NAMES_MAX];
	bool has_arguments;
};

typedef void head_header_fn(void *ctx, const char *name, const char *value);
typedef void head_name_fn(void *ctx, const char *name);

/* One header more of it. */
void head_note(struct head *h, struct str name, const char *value);

/* All headers in their order; case means nothing in their names. */
void head_each(const struct exchange *x, head_header_fn *fn, void *ctx);
/* All headers of that name in their order, joined by commas. */
void head_values(const struct exchange *x, const char *name, struct buf *out);

/* Of the query string, as it came (percent-encoded); NULL when absent. */
const char *head_argument(const struct exchange *x, const char *name);
/* Their names in their order, as they came. */
void head_each_argument(const struct exchange *x, head_name_fn *fn, void *ctx);

#endif
