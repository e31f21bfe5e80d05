/*
 * A small HTTP client for load: many keep-alive connections on one thread,
 * one request at a time on each. The server is ours; what it sends is still
 * checked, and anything unexpected ends the program with a message.
 */
#ifndef CORVO_LOAD_HTTP_H
#define CORVO_LOAD_HTTP_H

#include "util/buf.h"

struct hconn;
struct http;

struct answer {
	int status;
	struct str body; /* only during the callback */
	uint64_t took_ns;
};

typedef void answer_fn(struct hconn *c, const struct answer *a);
typedef void tick_fn(struct http *h);

struct hconn {
	struct http *h;
	int fd;
	unsigned number; /* counts connections from 0 */
	struct buf out;
	size_t out_sent;
	struct buf in;
	answer_fn *on_answer;
	uint64_t sent_ns; /* monotonic; of the request under way */
	/* the mode's own */
	uint64_t n;
	char job_id[64];
	struct buf body;
	bool waits;
};

struct http {
	const char *host;
	const char *port;
	int epoll_fd;
	struct hconn **conns;
	unsigned conns_n, conns_cap;
	void *ctx; /* the mode's own */
	/* Called at tick_ns (monotonic), if not 0; sets the next itself. */
	tick_fn *on_tick;
	uint64_t tick_ns;
	bool stop;        /* leave http_run */
	uint64_t refused; /* answers 429 and 503 */
};

void http_init(struct http *h, const char *host, const char *port);
void http_done(struct http *h);

struct hconn *http_connect(struct http *h);

/* POST (or GET when body is NULL); on_answer is called once for it. */
void http_send(struct hconn *c, const char *path, const struct buf *body,
	       answer_fn *on_answer);

/* Until h->stop or the moment comes (0: no such moment). */
void http_run(struct http *h, uint64_t until_ns);

/* Ends the program unless the status is as wanted. */
void answer_expect(const struct answer *a, int status);

/* Value of the first "name": in the body; false when it is not there. */
bool answer_text(const struct answer *a, const char *name, struct str *ret);
bool answer_number(const struct answer *a, const char *name, uint64_t *ret);

_noreturn_ _printf_(1, 2) void die(const char *fmt, ...);

#endif
