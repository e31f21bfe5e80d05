/*
 * Checked reading, and heads that are written here. See front/wire.h.
 */
#include "front/wire.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "front/conn.h"
#include "front/framing.h"
#include "proto/limits.h"
#include "util/str.h"

/* What a refused client sends is thrown away; one that sends more than any
 * body may be long is cut off. */
#define BIN_BYTES       (64u << 10)
#define THROWN_AWAY_MAX (2 * (size_t)LIMIT_BODY_BYTES)

/* Many bodies at once are read in turns, so that others are served between
 * them: so much of them in one. */
#define TURN_BYTES (32u << 10)
static size_t turn_n;

/* The library knows a connection by its descriptor, so this is by that. */
static struct conn **by_fd;
static size_t by_fd_n;

static struct conn *conn_of(int fd)
{
	return (size_t)fd < by_fd_n ? by_fd[fd] : NULL;
}

void wire_begin_turn(void)
{
	turn_n = 0;
}

void wire_add(struct conn *c)
{
	size_t i = (size_t)c->fd;

	if (i >= by_fd_n) {
		size_t n = MAX(i + 1, by_fd_n * 2);

		by_fd = xrealloc(by_fd, n * sizeof(struct conn *));
		memset(by_fd + by_fd_n, 0,
		       (n - by_fd_n) * sizeof(struct conn *));
		by_fd_n = n;
	}
	CHECK(by_fd[i] == NULL);
	by_fd[i] = c;
}

void wire_remove(struct conn *c)
{
	CHECK(by_fd[c->fd] == c);
	by_fd[c->fd] = NULL;
}

void wire_done(void)
{
	free(by_fd);
	by_fd = NULL;
	by_fd_n = 0;
}

static void refuse(struct conn *c)
{
	conn_refuse(c, -c->bad, str_from(c->framing.why));
}

/* The library comes again without waiting for more to come. */
static ssize_t not_now(void)
{
	errno = EINTR;
	return -1;
}

static ssize_t nothing_yet(void)
{
	errno = EAGAIN;
	return -1;
}

/*
 * The answer has been sent; the client can read it only as long as nothing of
 * what it sends meets a closed socket.
 */
static ssize_t throw_away(struct conn *c)
{
	static char bin[BIN_BYTES];
	/* MSG_TRUNC: of TCP nothing is even copied */
	ssize_t n = recv(c->fd, bin, sizeof(bin), MSG_DONTWAIT | MSG_TRUNC);

	if (n <= 0)
		return n;
	turn_n += (size_t)n;
	c->thrown_away_n += (size_t)n;
	if (c->thrown_away_n <= THROWN_AWAY_MAX)
		return not_now();
	errno = ECONNRESET;
	return -1;
}

/*
 * The requests before a bad one are served. Bytes of the bad one that the
 * library has seen are part of a head or of a body, never all of it: so it is
 * refused as soon as it is the next. A head that is good comes to whoever
 * refuses it for its length (front/intake.c).
 */
static ssize_t take_good(struct conn *c, size_t good)
{
	if (good > 0)
		return (ssize_t)good;
	if (c->answered_n == c->framing.whole)
		refuse(c);
	return nothing_yet();
}

ssize_t wire_recv(int fd, void *to, size_t n, int flags)
{
	struct conn *c = conn_of(fd);
	size_t good;
	ssize_t got;

	if (c == NULL)
		return recv(fd, to, n, flags);
	/* Bodies wait for their turn, heads do not. */
	if ((c->phase == CONN_BODY || c->phase == CONN_LINGER) &&
	    turn_n >= TURN_BYTES)
		return not_now();
	if (c->phase == CONN_LINGER)
		return throw_away(c);
	if (c->bad != 0)
		return nothing_yet();
	got = recv(fd, to, n, flags);
	if (got <= 0)
		return got;
	turn_n += (size_t)got;
	c->bad = framing_feed(&c->framing, to, (size_t)got, &good);
	return c->bad == 0 ? got : take_good(c, good);
}

/* --- writing --- */

#define CRLF_BYTES 2 /* the empty line that ends a head */
#define PIECES_MAX 2 /* the library writes a head, and a body */

static bool has_headers(const struct conn *c)
{
	return c != NULL && c->headers_sent < c->headers.n;
}

/*
 * The first piece is the head, or what is left of it: at least the empty line,
 * because the headers before that are not sent.
 */
static ssize_t send_with_headers(struct conn *c, const struct iovec *v,
				 size_t n, int flags)
{
	size_t head = v[0].iov_len - CRLF_BYTES;
	char *empty_line = (char *)v[0].iov_base + head;
	size_t left = c->headers.n - c->headers_sent;
	struct iovec all[PIECES_MAX + 2] = {
		{ v[0].iov_base, head },
		{ c->headers.p + c->headers_sent, left },
		{ empty_line, CRLF_BYTES },
	};
	struct msghdr m = { .msg_iov = all, .msg_iovlen = n + 2 };
	size_t ours;
	ssize_t got;

	CHECK(n <= PIECES_MAX && v[0].iov_len >= CRLF_BYTES);
	CHECK(memcmp(empty_line, "\r\n", CRLF_BYTES) == 0);
	if (n > 1)
		all[3] = v[1];
	got = sendmsg(c->fd, &m, flags);
	if (got <= (ssize_t)head)
		return got;
	ours = MIN((size_t)got - head, left);
	c->headers_sent += ours;
	got -= (ssize_t)ours;
	/* the library shall not take it for the end of the connection */
	return got > 0 ? got : nothing_yet();
}

ssize_t wire_send(int fd, const void *p, size_t n, int flags)
{
	struct conn *c = conn_of(fd);
	struct iovec v = { (void *)p, n };

	return has_headers(c) ? send_with_headers(c, &v, 1, flags)
			      : send(fd, p, n, flags);
}

ssize_t wire_sendmsg(int fd, const struct msghdr *m, int flags)
{
	struct conn *c = conn_of(fd);

	return has_headers(c)
		   ? send_with_headers(c, m->msg_iov, m->msg_iovlen, flags)
		   : sendmsg(fd, m, flags);
}

void wire_answered(struct conn *c)
{
	c->answered_n++;
	if (c->bad != 0 && !c->framing.is_head_good &&
	    c->answered_n == c->framing.whole)
		refuse(c);
}
