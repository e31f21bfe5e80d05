/*
 * The open connections, and how long each may take. libmicrohttpd times out
 * silence; a client that drips one byte at a time is never silent, so every
 * phase of a request has a limit of its own here, checked by one sweep.
 *
 * Their number is bounded. When all places are taken, the one that is idle for
 * longest makes room for a newcomer, then the one that has been silent for
 * longest since it came, then the one whose body has been coming for longest;
 * only if all are at work newcomers are extra, of which there are a few: enough
 * to be told that, and to ask how the node is.
 */
#ifndef CORVO_CONN_H
#define CORVO_CONN_H

#include "front/framing.h"
#include "rt/config.h"
#include "rt/ip.h"
#include "rt/listen.h"
#include "rt/loop.h"
#include "util/buf.h"
#include "util/list.h"
#include "util/str.h"

struct client;
struct exchange;
struct front;
struct h1_daemon;
struct h2;
struct memory;
struct server;

/* Of HTTP/2: NEW, then WORK while there are requests, else IDLE. */
enum conn_phase {
	CONN_NEW,    /* accepted; no request line yet */
	CONN_IDLE,   /* answered before; waits for the next request */
	CONN_HEAD,   /* the request line is here, the head is not complete */
	CONN_BODY,   /* the head is complete */
	CONN_WORK,   /* the request is complete and is being answered */
	CONN_LINGER, /* refused early; what still comes is thrown away */
};

/* Those of a kind, the longest in it first. */
enum conn_list {
	CONNS_NEW,
	CONNS_IDLE,
	CONNS_COMING, /* a body, of HTTP/1 */
	CONNS_BUSY,
	CONNS_LISTS,
};

struct conn {
	struct list node;
	enum conn_list list;
	struct server *server;
	const struct front *front; /* NULL: not known yet, it is at the door */
	int fd;
	struct ip peer;
	bool check_host;       /* a browser may reach it by any name */
	enum listen_part part; /* what is served on it */
	struct client *client; /* it counts for; NULL: for none */
	bool told;             /* it is refused as one too many */
	bool is_extra;         /* there was no place for it */
	bool is_shed;          /* it makes room, and is as good as closed */
	bool has_asked;        /* a head has come on it */
	enum conn_phase phase;
	uint64_t since_ns; /* of the phase; BODY: of HEAD */

	struct h2 *h2; /* NULL: it is not of HTTP/2 */

	/* of HTTP/1 */
	struct h1_daemon *daemon;
	void *handle;              /* the server library's */
	struct exchange *exchange; /* NULL: none under way */
	struct framing framing;    /* of what has been read */
	int bad;                   /* -ERR_: so the next request is refused */
	uint64_t answered_n;       /* requests */
	struct buf headers;        /* of the answer, see front/wire.h */
	size_t headers_sent;       /* bytes of them */
	size_t thrown_away_n;      /* bytes that came after it was refused */
};

struct conns {
	struct list lists[CONNS_LISTS];
	size_t n;
	size_t max;
	size_t told_n, extra_n, shed_n; /* of n */
	struct loop_timer *timer;
	uint64_t sweep_ns; /* between two sweeps */
	struct {
		struct list *next; /* to be looked at; NULL: none is */
		int list;          /* that it is in, or the end of */
	} sweep;
	uint64_t request_timeout_ns;
	uint64_t idle_timeout_ns;
	uint64_t answer_timeout_ns;
	uint64_t cut_ns;    /* slow ones were cut for others */
	uint64_t shed_sum;  /* that made room, ever */
	uint64_t extra_sum; /* for which there was none */
	struct memory *memory;
	bool armed;
};

void conns_init(struct conns *cs, struct loop *l, const struct settings *set,
		size_t max, struct memory *memory);
void conns_done(struct conns *cs);

/* Whether another one may be taken, be it for a moment. */
bool conns_have_room(const struct conns *cs);
/* Nothing is known of it yet. It may take the place of another. NULL: there is
 * no room after all. */
struct conn *conn_open(struct conns *cs, struct server *s, int fd);
void conn_close(struct conns *cs, struct conn *c); /* frees it */
void conn_enter(struct conn *c, enum conn_phase phase, uint64_t now_ns);
void conn_cut(struct conn *c); /* its front notices it */

/* One that is extra gets a place, if there is one now. */
bool conns_admit(struct conns *cs, struct conn *c);

typedef void conn_fn(void *ctx, struct conn *c);
typedef void conn_exchange_fn(void *ctx, struct exchange *x);

/* None may be closed meanwhile. */
void conns_each(struct conns *cs, conn_fn *fn, void *ctx);
void conns_each_exchange(struct conns *cs, conn_exchange_fn *fn, void *ctx);

/* Its client has closed, or at least says that it sends nothing more. */
bool conn_is_left(const struct conn *c);
/* Bytes its client has, of all that were sent; false: it does not tell, as it
 * is none of TCP. */
bool conn_acked(const struct conn *c, uint64_t *ret);

/*
 * Of HTTP/1, or nobody's yet: answers the request that is under way, or coming,
 * at once with an error, although it has not arrived completely, and lingers:
 * the client can read the answer while it is still sending, where a plain close
 * would throw the answer away with a reset.
 */
void conn_refuse(struct conn *c, int err, struct str text);

/* What had not come completely when it was refused. */
struct conns_refused {
	size_t heads, bodies, streams;
};

/* The server stops: closes connections that wait for a request and have sent
 * nothing of it, and refuses what has had time to come and has not. */
void conns_end_incomplete(struct conns *cs, struct conns_refused *ret);
/* What a stop waits for, in a clause. */
void conns_put_left(struct conns *cs, struct buf *ret);

#endif
