/*
 * An HTTP client for load: many keep-alive connections on one thread, one
 * request at a time on each. The first thing that goes wrong ends the run, with
 * a sentence: an answer that was not understood would make every figure a lie.
 */
#ifndef CORVO_LOAD_CLIENT_H
#define CORVO_LOAD_CLIENT_H

#include <signal.h>

#include "util/buf.h"

struct client;
struct conn;

struct answer {
	int status;
	struct str body; /* only during the callback */
	uint64_t took_ns;
};

typedef void answer_fn(struct conn *c, const struct answer *a);
typedef void tick_fn(struct client *cl);

struct conn {
	struct client *cl;
	int fd;
	unsigned number; /* counts connections from 0 */
	struct buf out;
	size_t out_sent;
	struct buf in;
	answer_fn *on_answer; /* NULL: nothing is under way */
	uint64_t sent_ns;     /* monotonic; of the request under way */
	struct buf body;      /* for whoever sends on it */
	void *own;            /* of whoever runs it */
};

/* Where the server is, and what each request tells it. */
struct client_to {
	const char *host, *port;
	const char *socket; /* path of a UNIX socket in their place, or NULL */
	const char *prefix; /* of every path; "" when there is none */
	const char *key;    /* X-API-Key, or NULL; one line */
};

struct client {
	struct client_to to;
	struct buf head; /* what every request says after its first line */
	int epoll_fd;
	struct conn **conns;
	unsigned conns_n, conns_cap;
	unsigned busy; /* connections with a request under way */
	void *ctx;     /* of whoever runs it */
	/* Called at tick_ns (monotonic), if not 0; sets the next itself. */
	tick_fn *on_tick;
	uint64_t tick_ns;
	bool stop;        /* leave client_run */
	uint64_t refused; /* answers 429 and 503 */
	struct buf why;   /* not empty: it failed */
	/*
	 * A signal handler sets *quit, and client_run fails; signals get in
	 * only while it waits, under the mask `open`. NULL: no such thing.
	 */
	const volatile sig_atomic_t *quit;
	const sigset_t *open;
};

/* All texts are kept by their pointers. */
void client_init(struct client *cl, const struct client_to *to);
void client_done(struct client *cl); /* closes all connections */

/* Until there are n connections; false: it failed. */
bool client_connect(struct client *cl, unsigned n);
/* Another connection in the place of one on which nothing is under way. */
void client_connect_again(struct conn *c);
/* Closes all connections, whatever is under way on them. */
void client_hang_up(struct client *cl);

/* POST (or GET when body is NULL); on_answer is called once for it. */
void client_send(struct conn *c, const char *path, const struct buf *body,
		 answer_fn *on_answer);

/* Until cl->stop, a failure, or the moment (0: no such moment). */
void client_run(struct client *cl, uint64_t until_ns);

/* The run is over, for this reason; only the first one counts. */
_printf_(2, 3) void client_fail(struct client *cl, const char *fmt, ...);
static inline bool client_has_failed(const struct client *cl)
{
	return cl->why.n > 0;
}

/* For a moment only; any other error would make a figure a lie. */
static inline bool is_refused(const struct answer *a)
{
	return a->status == 429 || a->status == 503;
}

/* False, and the run failed, unless the status is as wanted. */
bool answer_expect(struct conn *c, const struct answer *a, int status);

/* Value of the first "name": in the text; false when it is not there. */
bool body_text(struct str body, const char *name, struct str *ret);
bool body_number(struct str body, const char *name, uint64_t *ret);

#endif
