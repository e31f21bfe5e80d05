/*
 * The control socket's server: a few clients at a time, one line each, all
 * non-blocking. A client that is slow or silent is dropped after a while. It
 * knows nothing of the requests; common/rt/ctl.h lists them.
 *
 * Hostile input: any process of our user may connect.
 */
#ifndef CORVO_CTL_SERVER_H
#define CORVO_CTL_SERVER_H

#include <poll.h>

#include "util/buf.h"

#define CTL_CLIENTS_MAX   16
#define CTL_REQUEST_BYTES 256
#define CTL_POLL_FDS      (CTL_CLIENTS_MAX + 1)

struct ctl_client {
	int fd; /* -1: free */
	char in[CTL_REQUEST_BYTES];
	size_t in_n;
	bool asked; /* the request line was complete */
	struct buf out;
	size_t out_sent;
	const void *waits_for; /* answered when this happens; NULL: nothing */
	uint64_t deadline_ns;  /* dropped then */
};

typedef void ctl_request_fn(void *ctx, struct ctl_client *c, struct str line);

struct ctl_server {
	int fd;
	char path[128];
	struct ctl_client clients[CTL_CLIENTS_MAX];
	ctl_request_fn *on_request;
	void *ctx;
};

/* Listens on <run_dir>/control.sock; -ERR_* with text in why. */
int ctl_server_open(struct ctl_server *s, const char *run_dir,
		    ctl_request_fn *on_request, void *ctx, struct buf *why);
void ctl_server_close(struct ctl_server *s); /* also removes the socket */

/* Fills at most CTL_POLL_FDS entries, returns how many. */
size_t ctl_server_poll(const struct ctl_server *s, struct pollfd *fds);
/* The same entries after poll(2). */
void ctl_server_on_poll(struct ctl_server *s, const struct pollfd *fds,
			size_t n);

/* Answers now; from on_request or later. */
void ctl_reply(struct ctl_client *c, struct str json);
void ctl_reply_error(struct ctl_client *c, int err, const char *text);

/* Instead of an answer: keep the client until ctl_server_wake(what). */
void ctl_wait(struct ctl_client *c, const void *what, uint64_t timeout_ns);
/* Answers all who wait for it: with json, or with an error when err != 0. */
void ctl_server_wake(struct ctl_server *s, const void *what, int err,
		     const char *text);

void ctl_server_tick(struct ctl_server *s, uint64_t now_ns);
uint64_t ctl_server_next_ns(const struct ctl_server *s);

#endif
