/*
 * The seam to libmicrohttpd: connections, heads, bodies, answers. No other
 * file knows that library. It runs on our loop: its descriptor is watched,
 * and server_run, called at the end of each turn, does what is to be done.
 */
#ifndef CORVO_SERVER_H
#define CORVO_SERVER_H

#include "httpd.h"

struct conn;
struct park;
struct req;
struct streams;

/* Cross-origin headers of every answer, as one text for raw answers. */
#define CORS_ORIGIN  "*"
#define CORS_METHODS "GET, POST, PUT, PATCH, DELETE, OPTIONS"
#define CORS_HEADERS                                                  \
	"Content-Type, Authorization, X-API-Key, X-Corvo-Namespace, " \
	"X-Corvo-Min-Index, X-Corvo-Compat, Idempotency-Key, "        \
	"Last-Event-ID, Prefer"
#define SERVER_CORS_TEXT                                     \
	"Access-Control-Allow-Origin: " CORS_ORIGIN "\r\n"   \
	"Access-Control-Allow-Methods: " CORS_METHODS "\r\n" \
	"Access-Control-Allow-Headers: " CORS_HEADERS "\r\n"

/*
 * Serves the listening socket, which it takes over. NULL with a sentence in
 * `why` when that cannot be done.
 */
struct server *server_new(struct httpd *h, int listen_fd, struct buf *why);
/* Closes every connection, whatever it is doing. */
void server_free(struct server *s);

void server_run(struct server *s);   /* end of a turn */
void server_drain(struct server *s); /* accept no more, finish the rest */
size_t server_connections(const struct server *s);
struct park *server_park(struct server *s);
struct streams *server_streams(struct server *s);

/* A request that waited has its answer now. */
void server_resume(struct req *r);
/* The client of a waiting request has gone: close without an answer. */
void server_abandon(struct req *r);

/* A stream that had nothing to send has something, or ends. */
void server_wake_stream(struct req *r);

/* Of the query string, as it came (percent-encoded); NULL when absent. */
const char *server_argument(const struct conn *c, const char *name);
/* A header of the request that is under way, or NULL. */
const char *server_header(const struct conn *c, const char *name);

#endif
