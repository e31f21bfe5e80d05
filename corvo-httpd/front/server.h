/*
 * The HTTP server of this process: the connections of all fronts, what they
 * share, and their life. Loop thread.
 */
#ifndef CORVO_SERVER_H
#define CORVO_SERVER_H

#include "front/exchange.h"
#include "front/memory.h"
#include "rt/config.h"
#include "rt/loop.h"

struct answer_date;
struct clients;
struct door;
struct h2s;
struct late;
struct listeners;
struct rng;
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
/* Finishes what there is, and soon accepts no more: what the kernel has
 * accepted by then is served. */
void server_drain(struct server *s);
bool server_accepts(const struct server *s);
bool server_is_draining(const struct server *s);
size_t server_connections(const struct server *s);
/* What a drain waits for, in a clause. */
void server_put_left(struct server *s, struct buf *ret);
struct late *server_late(struct server *s);
struct park *server_park(struct server *s);
struct streams *server_streams(struct server *s);
struct memory *server_memory(struct server *s);
struct clients *server_clients(struct server *s);
struct conns *server_conns(struct server *s);
struct h2s *server_h2s(struct server *s);

/* --- for the files of the front --- */

/* Of the request under way, or one for a request that is refused at once. */
const char *server_request_id(struct conn *c, char room[REQUEST_ID_MADE]);
struct door *server_door(struct server *s);
struct rng *server_rng(struct server *s); /* for ids of requests */
struct answer_date *server_date(struct server *s);

const struct server_config *server_config(const struct server *s);
/* park.c ends it. */
void server_end_parked(struct exchange *x);
/* Whatever it was, it is over. */
void server_ended(struct exchange *x);
/* The descriptor of a connection is closed, or about to be: it is forgotten. */
void server_closed(struct server *s, struct conn *c);

#endif
