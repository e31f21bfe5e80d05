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

/*
 * Splits "host:port"; the host without its brackets, or empty. Nobody is asked
 * for it. -ERR_VALIDATION_ERROR with text in why.
 */
int netaddr_split(const char *text, struct str *ret_host, uint16_t *ret_port,
		  struct buf *why);

/* A numeric address that stands for all of a machine: 0.0.0.0 or ::. */
bool netaddr_is_wildcard(struct str host);

/*
 * All addresses of a host that is to be dialled, at most max, the best first.
 * Asks the name service, and may take long, unless `numeric`: then only an
 * address in digits is one. -ERR_VALIDATION_ERROR with text in why.
 */
int netaddr_resolve(const char *text, bool numeric, struct netaddr *ret,
		    size_t max, size_t *ret_n, struct buf *why);

/* "127.0.0.1:80" or "[::1]:80", of an address in numbers. */
void netaddr_put(const struct sockaddr_storage *sa, struct buf *out);

/* An empty host is every address. -ERR_VALIDATION_ERROR with text in why. */
int netaddr_parse(const char *text, struct netaddr *ret, struct buf *why);

/*
 * A listening stream socket (SO_REUSEADDR, keep-alive, non-blocking,
 * close-on-exec, large backlog). Returns the descriptor or -ERR_* with a
 * sentence that says what to do (port in use, no permission).
 */
int netaddr_listen(const struct netaddr *a, const char *text, struct buf *why);

#endif
