/*
 * "host:port" addresses: ":8080", "127.0.0.1:8080", "[::1]:8080", "name:80".
 */
#ifndef CORVO_NETADDR_H
#define CORVO_NETADDR_H

#include <sys/socket.h>

#include "util/buf.h"

struct netaddr {
	struct sockaddr_storage sa;
	socklen_t len;
	bool loopback; /* no other machine can reach it */
};

/*
 * True when no other machine can reach the socket; a UNIX socket is such a
 * one. -errno when the descriptor is none.
 */
int netaddr_fd_is_local(int fd);

/* Whether the text is a numeric address no other machine can reach. */
bool netaddr_is_loopback(struct str host);

/* An empty host is every address. -ERR_VALIDATION_ERROR with text in why. */
int netaddr_parse(const char *text, struct netaddr *ret, struct buf *why);

/*
 * A listening stream socket (SO_REUSEADDR, keep-alive, non-blocking,
 * close-on-exec, large backlog). Returns the descriptor or -ERR_* with a
 * sentence that says what to do (port in use, no permission).
 */
int netaddr_listen(const struct netaddr *a, const char *text, struct buf *why);

#endif
