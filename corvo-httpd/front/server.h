/*
 * The seam to libmicrohttpd: connections, heads, bodies, answers. No other
 * file knows that library. It runs on our loop: its descriptor is watched,
 * and server_run, called at the end of each turn, does what is to be done.
 */
#ifndef CORVO_SERVER_H
#define CORVO_SERVER_H

#include "front/exchange.h"
#include "front/memory.h"
#include "rt/config.h"
#include "rt/loop.h"

struct clients;
struct listeners;
struct conn;
struct conns;
struct park;
struct streams;

/* What those who may ask from another origin may send. */
#define CORS_METHODS "GET, POST, PUT, PATCH, DELETE, OPTIONS"
#define CORS_HEADERS                                                   \
	"Content-Type, Authorization, X-API-Key, X-Corvo-Namespace, "  \
	"X-Corvo-Min-Index, X-Corvo-Compat, Idempotency-Key, "         \
	"Last-Event-ID, Prefer, X-Corvo-Strict, X-Request-Id, "        \
	"Connect-Protocol-Version, Connect-Timeout-Ms, Grpc-Timeout, " \
	"X-Grpc-Web, X-User-Agent"

/*
 * Serves the listening sockets, which stay the caller's. NULL with a sentence
 * in `why` when that cannot be done.
 */
struct server_config {
	struct loop *loop;
	const struct settings *settings;
	const struct front_ops *ops;
	void *ctx;
};

struct server *server_new(const struct server_config *c,
			  const struct listeners *ls, struct buf *why);
/* Closes every connection, whatever it is doing. */
void server_free(struct server *s);

void server_run(struct server *s);    /* end of a turn */
void server_reload(struct server *s); /* the settings have changed */
void server_drain(struct server *s);  /* accept no more, finish the rest */
bool server_is_draining(const struct server *s);
size_t server_connections(const struct server *s);
struct late *server_late(struct server *s);
struct park *server_park(struct server *s);
struct streams *server_streams(struct server *s);
struct memory *server_memory(struct server *s);
struct clients *server_clients(struct server *s);

/* A request that waited has its answer now. */
void server_resume(struct exchange *x);

/*
 * Looks at the socket of a request that is not answered yet. True: its client
 * has left, and the request has ended without an answer; front_ops.end comes.
 */
bool server_if_left(struct exchange *x);

/* --- for the files of the front --- */

/* Of the request under way, or one for a request that is refused at once. */
const char *server_request_id(struct conn *c, char room[REQUEST_ID_MADE]);
struct conns *server_conns(struct server *s);

const struct server_config *server_config(const struct server *s);
/* park.c saw its client leave. */
void server_left(struct exchange *x);
/* park.c ends it. */
void server_end_parked(struct exchange *x);

/* A stream that had nothing to send has something, or ends; or a body that
 * waited is read on. */
void server_wake(struct exchange *x);

#endif
