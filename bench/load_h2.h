/*
 * A small client of gRPC streams for load: connections of HTTP/2 on one thread,
 * several streams on each, messages both ways. What gathers in a turn for a
 * connection leaves in one write. Anything unexpected ends the program with a
 * message.
 */
#ifndef CORVO_LOAD_H2_H
#define CORVO_LOAD_H2_H

#include "load/client.h"

struct h2_load;
struct h2_link; /* a connection */
struct h2_call; /* a stream of messages */

/* One message; its bytes last for the call. It may send. */
typedef void message_fn(struct h2_call *c, struct str message);

struct h2_call {
	struct h2_link *link;
	struct h2_load *h;
	int32_t id;
	unsigned number; /* counts streams from 0 */
	struct buf out;  /* envelopes the library has not taken */
	size_t taken;    /* of out */
	bool deferred;   /* the library waits to hear of more */
	struct buf in;   /* a message that has not come completely */
	message_fn *on_message;
	void *ctx; /* the mode's own */
};

struct h2_load {
	int epoll_fd;
	struct h2_link **links;
	unsigned links_n;
	struct h2_call **calls;
	unsigned calls_n, calls_cap;
	bool stop; /* leave h2_run */
};

/* So many connections, which are those of the client. */
void h2_load_init(struct h2_load *l, struct client *cl, unsigned links);
void h2_load_done(struct h2_load *l); /* before client_done */

/* The streams are spread over the connections. */
struct h2_call *h2_open(struct h2_load *l, const char *path, message_fn *fn,
			void *ctx);
/* The message goes between the two, behind *out. */
struct buf *h2_message_begin(struct h2_call *c, size_t *start);
void h2_message_end(struct h2_call *c, size_t start);

/* Until l->stop or the moment comes (0: no such moment). */
void h2_run(struct h2_load *l, uint64_t until_ns);

#endif
