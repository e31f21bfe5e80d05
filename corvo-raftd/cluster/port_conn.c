/*
 * The handshake on a socket, of either end. See cluster/port.h.
 */
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cluster/port_impl.h"
#include "rt/log.h"
#include "util/rng.h"

/* A peer that has gone without a word is noticed after so long. */
#define KEEPALIVE_IDLE_S  2
#define KEEPALIVE_EVERY_S 1
#define USER_TIMEOUT_MS   5000

struct handshake {
	struct hello h;
	struct loop_fd *watch;
	struct loop_timer *limit;
	struct port_dial *dial; /* NULL: it came in */
	size_t sent;            /* of h.out */
	enum hello_verdict verdict;
	bool connecting;
};

/* --- bytes --- */

/*
 * The two places where a handshake reads and writes: TLS would begin its work
 * here, before the first of them, and hand on one end of a socket pair in the
 * place of the socket, so that whoever serves a purpose still has a stream.
 */
static ssize_t conn_read(struct port_conn *c, void *to, size_t n)
{
	ssize_t got = recv(c->fd, to, n, 0);

	return got < 0 ? -errno : got;
}

static ssize_t conn_write(struct port_conn *c, const void *from, size_t n)
{
	ssize_t put = send(c->fd, from, n, MSG_NOSIGNAL);

	return put < 0 ? -errno : put;
}

static bool is_later(ssize_t r)
{
	return r == -EAGAIN || r == -EWOULDBLOCK || r == -EINTR;
}

static void set_int(int fd, int level, int option, int value)
{
	/* without it all works, only a dead peer is noticed later */
	(void)setsockopt(fd, level, option, &value, sizeof(value));
}

static void set_options(int fd)
{
	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
	set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_EVERY_S);
	set_int(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, USER_TIMEOUT_MS);
}

/* --- the end --- */

static void end_handshake(struct port_conn *c)
{
	struct handshake *hs = c->hs;

	if (hs == NULL)
		return;
	loop_fd_remove(hs->watch);
	loop_timer_remove(hs->limit);
	free(hs);
	c->hs = NULL;
}

int port_conn_take_fd(struct port_conn *c)
{
	int fd = c->fd;

	CHECK(c->hs == NULL);
	list_remove(&c->node);
	free(c);
	return fd;
}

void port_conn_free(struct port_conn *c)
{
	if (c == NULL)
		return;
	end_handshake(c);
	(void)close(port_conn_take_fd(c));
}

static void succeed(struct port_conn *c)
{
	struct port *p = c->port;
	struct handshake *hs = c->hs;
	struct port_dial *d = hs->dial;
	const struct hello_id *id = &hs->h.peer;

	c->purpose = hs->h.purpose;
	c->peer.cluster = id->cluster;
	c->peer.raft_id = id->raft_id;
	c->peer.version = hs->h.version;
	memcpy(c->peer.name, id->name, sizeof(id->name));
	memcpy(c->peer.address, id->address, sizeof(id->address));
	end_handshake(c);
	if (d != NULL) {
		port_said_forget(p, dial_address(d));
		dial_connected(d, c);
		return;
	}
	port_hear(p, &c->peer);
	p->serve[c->purpose].fn(p->serve[c->purpose].ctx, c);
}

/* Logs why, in one line, what ends here. */
static void say_inbound(struct port_conn *c, const char *verb, const char *why)
{
	const struct hello *h = &c->hs->h;
	char from[IP_TEXT_BYTES];

	ip_format(&c->peer.ip, from);
	if (port_may_say(c->port, from, PORT_SAY_NS))
		log_warn("%s a connection of %s%s%s%s: %s", verb,
			 h->peer.name[0] != '\0' ? h->peer.name : from,
			 h->peer.name[0] != '\0' ? " at " : "",
			 h->peer.name[0] != '\0' ? from : "",
			 h->purpose == PURPOSE_JOIN ? ", which wants to join"
						    : "",
			 why);
}

static void say_dialled(struct port_conn *c, const char *verb, const char *why)
{
	const char *address = dial_address(c->hs->dial);

	if (port_may_say(c->port, address, PORT_SAY_NS))
		log_warn("%s the connection to %s: %s", verb, address, why);
}

/* Ends it; said: it has been logged why. */
static void fail(struct port_conn *c, enum hello_code code, const char *why,
		 bool said)
{
	struct port_dial *d = c->hs->dial;

	port_conn_free(c);
	if (d != NULL)
		dial_failed(d, code, why, said);
}

/* A node that looks for others finds itself among them, which is no news. */
static bool is_own(const struct port_conn *c)
{
	const struct hello *h = &c->hs->h;

	return h->purpose == PURPOSE_JOIN && h->code == HELLO_SAME_NODE &&
	       (!c->inbound || strcmp(h->peer.name, h->me.name) == 0);
}

static void fail_refused(struct port_conn *c)
{
	struct hello *h = &c->hs->h;
	const char *verb;
	char why[PORT_WHY_BYTES];

	(void)snprintf(why, sizeof(why), "%s", h->why);
	if (is_own(c)) {
		fail(c, h->code, why, true);
		return;
	}
	if (c->inbound) {
		verb = h->by_peer ? "the other side ended" : "refused";
		say_inbound(c, verb, why);
	} else {
		verb = h->by_peer ? "the other side refused" : "ended";
		say_dialled(c, verb, why);
	}
	fail(c, h->code, why, true);
}

static void fail_garbage(struct port_conn *c)
{
	static const char why[] = "it does not speak the protocol between "
				  "nodes";

	if (c->inbound)
		say_inbound(c, "closed", why);
	else
		say_dialled(c, "closed", why);
	fail(c, 0, why, true);
}

/* The socket has ended, or time is up. */
static void fail_broken(struct port_conn *c, const char *why)
{
	/* who connects and leaves is no news; it may be a health check */
	if (c->inbound && c->hs->h.peer.name[0] != '\0')
		say_inbound(c, "lost", why);
	fail(c, 0, why, false);
}

static void conclude(struct port_conn *c)
{
	if (c->hs->verdict == HELLO_DONE)
		succeed(c);
	else if (c->hs->verdict == HELLO_REFUSED)
		fail_refused(c);
	else
		fail_garbage(c);
}

/* --- the handshake --- */

/* The peer has proven who it is: do we want it? */
static enum hello_verdict decide(struct port_conn *c)
{
	struct port *p = c->port;
	struct hello *h = &c->hs->h;
	struct port_dial *d = c->hs->dial;

	if (d != NULL && dial_raft_id(d) != 0 &&
	    dial_raft_id(d) != h->peer.raft_id)
		return hello_refuse(
		    h, HELLO_OTHER_NODE,
		    "%s expected the node with raft id %" PRIu64 " at %s and "
		    "found %s with raft id %" PRIu64 "; the address is that of "
		    "another node, or the node's data was replaced",
		    h->me.name, dial_raft_id(d), dial_address(d), h->peer.name,
		    h->peer.raft_id);
	if (d != NULL)
		return hello_accept(h);
	if (p->serve[h->purpose].fn == NULL)
		return hello_refuse(h, HELLO_BAD_PURPOSE,
				    "%s takes no connections for %s now",
				    h->me.name, purpose_name(h->purpose));
	if (h->purpose != PURPOSE_JOIN && p->is_member != NULL &&
	    !p->is_member(p->ctx, h->peer.raft_id, h->peer.name))
		return hello_refuse(
		    h, HELLO_NO_MEMBER,
		    "%s with raft id %" PRIu64 " is not a member of the "
		    "cluster of %s; it was removed, or has yet to join",
		    h->peer.name, h->peer.raft_id, h->me.name);
	return hello_accept(h);
}

/* Sends what there is to send. 0, or -errno; -EAGAIN: later. */
static ssize_t flush(struct port_conn *c)
{
	struct handshake *hs = c->hs;

	while (hs->sent < hs->h.out_n) {
		ssize_t n =
		    conn_write(c, hs->h.out + hs->sent, hs->h.out_n - hs->sent);

		if (n < 0)
			return n;
		hs->sent += (size_t)n;
	}
	hs->sent = hs->h.out_n = 0;
	return 0;
}

/* Reads what may be read. Bytes that came, or -errno; -EAGAIN: later. */
static ssize_t listen_to(struct port_conn *c)
{
	struct handshake *hs = c->hs;
	unsigned char bytes[HELLO_BYTES];
	ssize_t n = conn_read(c, bytes, hello_want(&hs->h));

	if (n <= 0)
		return n == 0 ? -ECONNRESET : n;
	hs->verdict = hello_feed(&hs->h, bytes, (size_t)n);
	if (hs->verdict == HELLO_PROVEN)
		hs->verdict = decide(c);
	return n;
}

static void run(struct port_conn *c)
{
	struct handshake *hs = c->hs;

	for (;;) {
		int events = LOOP_WRITE;
		ssize_t r = flush(c);

		if (r == 0 && hs->verdict != HELLO_GOES_ON) {
			conclude(c);
			return;
		}
		if (r == 0) {
			events = LOOP_READ;
			r = listen_to(c);
		}
		if (is_later(r)) {
			loop_fd_watch(hs->watch, events);
			return;
		}
		if (r < 0) {
			fail_broken(c, r == -ECONNRESET
					   ? "it was closed during the "
					     "handshake"
					   : strerror((int)-r));
			return;
		}
	}
}

/* Whether the connection of a dial has come about. */
static void connected(struct port_conn *c)
{
	int err = 0;
	socklen_t n = sizeof(err);

	if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &n) < 0)
		err = errno;
	if (err != 0) {
		fail_broken(c, strerror(err));
		return;
	}
	c->hs->connecting = false;
	run(c);
}

static void on_ready(void *ctx, int fd, int events)
{
	struct port_conn *c = ctx;

	(void)fd;
	(void)events;
	if (c->hs->connecting)
		connected(c);
	else
		run(c);
}

static void on_limit(void *ctx)
{
	struct port_conn *c = ctx;

	fail_broken(c, c->hs->connecting ? "there was no answer in time"
					 : "it did not finish the handshake "
					   "in time");
}

static struct port_conn *conn_new(struct port *p, int fd, int events)
{
	struct port_conn *c = xcalloc(1, sizeof(*c));

	c->port = p;
	c->fd = fd;
	c->hs = xcalloc(1, sizeof(*c->hs));
	c->hs->verdict = HELLO_GOES_ON;
	set_options(fd);
	c->hs->watch = loop_fd_add(p->loop, fd, events, on_ready, c);
	c->hs->limit = loop_timer_add(p->loop, on_limit, c);
	loop_timer_arm(c->hs->limit, PORT_HELLO_NS);
	return c;
}

void conn_accept(struct port *p, int fd, const struct ip *from)
{
	struct port_conn *c = conn_new(p, fd, LOOP_READ);
	unsigned char nonce[HELLO_NONCE_BYTES];

	c->inbound = true;
	c->peer.ip = *from;
	list_push_back(&p->conns, &c->node);
	rng_system(nonce, sizeof(nonce));
	hello_listen(&c->hs->h, &p->me, buf_str(&p->secret), nonce);
}

struct port_conn *conn_dial(struct port_dial *d, int fd)
{
	struct port *p = dial_port(d);
	struct port_conn *c = conn_new(p, fd, LOOP_WRITE);
	unsigned char nonce[HELLO_NONCE_BYTES];

	c->hs->dial = d;
	c->hs->connecting = true;
	rng_system(nonce, sizeof(nonce));
	hello_dial(&c->hs->h, &p->me, buf_str(&p->secret), nonce,
		   dial_purpose(d));
	return c;
}
