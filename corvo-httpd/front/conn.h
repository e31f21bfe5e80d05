/*
 * The open connections, and how long each may take. libmicrohttpd times out
 * silence; a client that drips one byte at a time is never silent, so every
 * phase of a request has a limit of its own here, checked by one sweep.
 *
 * Works on descriptors only: a connection is ended by shutting its socket
 * down, which the server library notices by itself.
 */
#ifndef CORVO_CONN_H
#define CORVO_CONN_H

#include "front/framing.h"
#include "front/slow.h"
#include "rt/config.h"
#include "rt/ip.h"
#include "rt/loop.h"
#include "util/list.h"
#include "util/str.h"

struct client;
struct exchange;
struct memory;
struct server;

enum conn_phase {
	CONN_NEW,    /* accepted; no request line yet */
	CONN_IDLE,   /* answered before; waits for the next request */
	CONN_HEAD,   /* the request line is here, the head is not complete */
	CONN_BODY,   /* the head is complete */
	CONN_WORK,   /* the request is complete and is being answered */
	CONN_LINGER, /* refused early; what still comes is thrown away */
};

struct conn {
	struct list node;
	struct server *server;
	void *handle; /* the server library's */
	int fd;
	struct ip peer;
	bool check_host;       /* a browser may reach it by any name */
	struct client *client; /* it counts for; NULL: for none */
	bool told;             /* it is refused as one too many */
	bool has_asked;        /* a head has come on it */
	enum conn_phase phase;
	uint64_t since_ns;         /* of the phase; BODY: of HEAD */
	struct exchange *exchange; /* NULL: none under way */
	struct framing framing;    /* of what has been read */
	struct pace pace;          /* of the body, or of the answer */
	int bad;                   /* -ERR_: so the next request is refused */
	uint64_t answered_n;       /* requests */
	size_t thrown_away_n;      /* bytes that came after it was refused */
};

struct conns {
	struct list all;
	size_t n;
	size_t told_n; /* of them told */
	struct loop_timer *timer;
	uint64_t sweep_ns;
	uint64_t request_timeout_ns;
	uint64_t idle_timeout_ns;
	uint64_t answer_timeout_ns;
	uint64_t cut_ns; /* slow ones were cut for others */
	struct memory *memory;
	bool armed;
};

void conns_init(struct conns *cs, struct loop *l, const struct settings *set,
		struct memory *memory);
void conns_done(struct conns *cs);

struct conn *conn_open(struct conns *cs, struct server *s, void *handle,
		       int fd);
void conn_close(struct conns *cs, struct conn *c); /* frees it */
void conn_enter(struct conn *c, enum conn_phase phase, uint64_t now_ns);
void conn_cut(struct conn *c); /* the server library notices it */
/* Its client has closed, or at least says that it sends nothing more. */
bool conn_is_left(const struct conn *c);

/*
 * Answers the request that is under way, or coming, at once with an error,
 * although it has not arrived completely, and lingers: the client can read the
 * answer while it is still sending, where a plain close would throw the answer
 * away with a reset.
 */
void conn_refuse(struct conn *c, int err, struct str text);

/* Closes connections that wait for a request and have sent nothing of it. */
void conns_close_idle(struct conns *cs);

#endif
