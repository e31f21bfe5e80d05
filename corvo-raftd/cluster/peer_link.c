/*
 * See cluster/peer_link.h. The bytes come from a node that knows the secret,
 * but may be anything: lengths are checked, room is made only as bytes arrive,
 * and nothing else of a message is looked at.
 *
 * Callbacks may do anything to the link, even while a message of it is being
 * read. So a connection has a number, `epoch`, by which the reader notices that
 * its own is gone; and what was closed, or read into, is freed when the last
 * callback has returned.
 */
#include "cluster/peer_link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "proto/err.h"
#include "proto/limits.h"
#include "rt/ipc_head.h"
#include "rt/log.h"
#include "util/rng.h"

#define READ_BYTES   (64u << 10)  /* room for what comes, at first */
#define TURN_BYTES   (256u << 10) /* read in one turn, at most */
#define RETRY_MIN_NS (50 * NS_PER_MS)
#define RETRY_MAX_NS NS_PER_S

struct peer_link {
	struct link link;
	const struct link_ops *ops;
	void *ctx;
	unsigned busy; /* callbacks it is in */
	bool closed;   /* by its owner */
	bool reading;  /* in on_message */
	bool bad;      /* the last thing the peer sent could not be read */

	/* of one that dials */
	struct port *port;
	enum port_purpose purpose;
	uint64_t target_id;
	char *target; /* NULL: none */
	struct port_dial *dial;
	struct loop_timer *retry;
	uint64_t retry_ns;
	struct rng rng;

	struct port_conn *conn; /* NULL: down */
	uint64_t epoch;         /* of the connections: which one */
	struct loop_fd *watch;
	char *rx;
	size_t rx_n;
	size_t rx_cap;
	size_t rx_need; /* bytes of the message that has begun; 0: unknown */
	char *tx;       /* what has yet to be written; NULL: nothing */
	size_t tx_at;
	size_t tx_n;
};

static struct peer_link *of(struct link *l)
{
	return container_of(l, struct peer_link, link);
}

static void enter(struct peer_link *l)
{
	l->busy++;
}

/* Nothing may be done to the link afterwards: it may be gone. */
static void leave(struct peer_link *l)
{
	if (--l->busy > 0)
		return;
	if (l->conn == NULL) {
		free(l->rx);
		l->rx = NULL;
		l->rx_cap = 0;
	}
	if (l->closed)
		free(l);
}

/* --- connections --- */

static void drop_conn(struct peer_link *l)
{
	if (l->conn == NULL)
		return;
	loop_fd_remove(l->watch);
	port_conn_free(l->conn);
	l->conn = NULL;
	l->epoch++;
	l->rx_n = 0; /* the bytes stay, for a callback that looks at them */
	free(l->tx);
	l->tx = NULL;
	l->link.is_up = l->link.is_sending = false;
}

static void dial_later(struct peer_link *l)
{
	uint64_t half = l->retry_ns / 2;

	/* by chance, so that nodes that lost each other do not meet in step */
	loop_timer_arm(l->retry, half + rng_below(&l->rng, half));
	l->retry_ns = MIN(l->retry_ns * 2, RETRY_MAX_NS);
}

/* The connection has ended. */
static void lose(struct peer_link *l)
{
	enter(l);
	drop_conn(l);
	l->ops->on_down(l->ctx);
	/* the callback may have closed it, or given it another target */
	if (!l->closed && l->target != NULL && l->dial == NULL &&
	    l->conn == NULL)
		dial_later(l);
	leave(l);
}

static void on_ready(void *ctx, int fd, int events);

static void gain(struct peer_link *l, struct port_conn *c)
{
	CHECK(l->conn == NULL && c->port != NULL);
	enter(l);
	l->conn = c;
	l->epoch++;
	l->rx_n = l->rx_need = 0;
	l->watch =
	    loop_fd_add(port_loop(c->port), c->fd, LOOP_READ, on_ready, l);
	if (!l->bad)
		l->retry_ns = RETRY_MIN_NS;
	l->link.is_up = true;
	l->ops->on_up(l->ctx);
	leave(l);
}

static void on_dialled(void *ctx, struct port_conn *c)
{
	struct peer_link *l = ctx;

	l->dial = NULL;
	if (c == NULL)
		dial_later(l);
	else
		gain(l, c);
}

static void on_retry(void *ctx)
{
	struct peer_link *l = ctx;
	struct port_target t = { l->target_id, l->target };

	l->dial = port_dial(l->port, l->purpose, &t, on_dialled, l);
}

/* --- receiving --- */

/*
 * Room for more of the message that has begun: as much again as has come, so
 * that a length alone costs nothing. What a large one took goes back after it.
 */
static void fit_rx(struct peer_link *l)
{
	size_t cap = l->rx_cap;

	if (l->rx_need <= READ_BYTES)
		cap = READ_BYTES;
	else if (l->rx_n == l->rx_cap)
		cap = MIN(l->rx_need, 2 * l->rx_cap);
	if (cap == l->rx_cap)
		return;
	l->rx = xrealloc(l->rx, cap);
	l->rx_cap = cap;
}

/*
 * Hands out every whole message. False: the stream is no stream of messages,
 * or they mean nothing to whoever takes them (link_drop).
 */
static bool hand_out(struct peer_link *l)
{
	const size_t head = sizeof(struct ipc_head);
	uint64_t epoch = l->epoch;
	size_t at = 0, len;

	l->rx_need = 0;
	while (l->rx_n - at >= head) {
		l->bad = !ipc_head_read(l->rx + at, &len);
		if (l->bad)
			return false;
		if (l->rx_n - at - head < len) {
			l->rx_need = head + len;
			break;
		}
		l->reading = true;
		l->ops->on_message(l->ctx, l->rx + at + head, len);
		l->reading = false;
		if (l->epoch != epoch)
			return true;
		if (l->bad)
			return false;
		at += head + len;
	}
	l->rx_n -= at;
	if (l->rx_n > 0 && at > 0)
		memmove(l->rx, l->rx + at, l->rx_n);
	return true;
}

static void cut_off(struct peer_link *l)
{
	log_error("%s at %s sends messages that cannot be read; the "
		  "connection is closed",
		  l->conn->peer.name, l->conn->peer.address);
	lose(l);
}

static void read_some(struct peer_link *l)
{
	uint64_t epoch = l->epoch;
	size_t left = TURN_BYTES;

	while (left > 0) {
		size_t room;
		ssize_t n;

		fit_rx(l);
		room = MIN(l->rx_cap - l->rx_n, left);
		n = recv(l->conn->fd, l->rx + l->rx_n, room, 0);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) {
			lose(l);
			return;
		}
		l->rx_n += (size_t)n;
		left -= (size_t)n;
		if (!hand_out(l)) {
			cut_off(l);
			return;
		}
		/* gone, or nothing more is there */
		if (l->epoch != epoch || (size_t)n < room)
			return;
	}
}

/* --- sending --- */

static ssize_t write_out(struct peer_link *l, struct iovec *iov, size_t n)
{
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = n };
	ssize_t put = sendmsg(l->conn->fd, &m, MSG_NOSIGNAL);

	if (put >= 0)
		return put;
	return errno == EAGAIN || errno == EINTR ? 0 : -errno;
}

static void write_rest(struct peer_link *l)
{
	struct iovec iov = { l->tx + l->tx_at, l->tx_n - l->tx_at };
	ssize_t n = write_out(l, &iov, 1);

	if (n < 0) {
		lose(l);
		return;
	}
	l->tx_at += (size_t)n;
	if (l->tx_at < l->tx_n)
		return;
	free(l->tx);
	l->tx = NULL;
	l->link.is_sending = false;
	loop_fd_watch(l->watch, LOOP_READ);
	l->ops->on_sent(l->ctx);
}

/* Keeps what could not be written, from byte `from` of head and data on. */
static void keep_rest(struct peer_link *l, const struct ipc_head *h,
		      const void *data, size_t n, size_t from)
{
	l->tx_at = 0;
	l->tx_n = sizeof(*h) + n - from;
	l->tx = xmalloc(l->tx_n);
	ipc_head_copy(l->tx, h, data, n, from);
	l->link.is_sending = true;
	loop_fd_watch(l->watch, LOOP_READ | LOOP_WRITE);
}

static int peer_send(struct link *link, const void *data, size_t n)
{
	struct peer_link *l = of(link);
	struct ipc_head h = ipc_head_of(n);
	struct iovec iov[2] = { { &h, sizeof(h) }, { (void *)data, n } };
	ssize_t done;

	CHECK(!link->is_sending);
	if (n > LIMIT_MESSAGE_BYTES)
		return -ERR_BODY_TOO_LARGE;
	if (l->conn == NULL)
		return -ERR_LEADER_UNAVAILABLE;
	done = write_out(l, iov, 2);
	/* the end of a dead connection shows where it is read */
	if (done < 0)
		return -ERR_LEADER_UNAVAILABLE;
	if ((size_t)done < sizeof(h) + n)
		keep_rest(l, &h, data, n, (size_t)done);
	return 0;
}

static void on_ready(void *ctx, int fd, int events)
{
	struct peer_link *l = ctx;
	uint64_t epoch = l->epoch;

	(void)fd;
	enter(l);
	if ((events & LOOP_WRITE) != 0 && l->tx != NULL)
		write_rest(l);
	if ((events & LOOP_READ) != 0 && l->epoch == epoch)
		read_some(l);
	leave(l);
}

/* --- the link --- */

static void peer_drop(struct link *link)
{
	struct peer_link *l = of(link);

	CHECK(l->reading);
	l->bad = true;
}

static void end_dialling(struct peer_link *l)
{
	if (l->dial != NULL)
		port_dial_cancel(l->dial);
	l->dial = NULL;
	free(l->target);
	l->target = NULL;
}

static void peer_close(struct link *link)
{
	struct peer_link *l = of(link);

	CHECK(!l->closed);
	enter(l);
	l->closed = true;
	drop_conn(l);
	end_dialling(l);
	loop_timer_remove(l->retry);
	leave(l);
}

static const struct link_kind peer_kind = { .close = peer_close,
					    .drop = peer_drop,
					    .send = peer_send };

struct link *peer_link_inbound(const struct link_ops *ops, void *ctx)
{
	struct peer_link *l = xcalloc(1, sizeof(*l));

	l->link.kind = &peer_kind;
	l->ops = ops;
	l->ctx = ctx;
	return &l->link;
}

struct link *peer_link_new(struct port *p, enum port_purpose purpose,
			   const struct link_ops *ops, void *ctx)
{
	struct peer_link *l = of(peer_link_inbound(ops, ctx));
	uint64_t seed;

	l->port = p;
	l->purpose = purpose;
	l->retry = loop_timer_add(port_loop(p), on_retry, l);
	rng_system(&seed, sizeof(seed));
	rng_seed(&l->rng, seed);
	return &l->link;
}

static bool is_target(const struct peer_link *l, const struct port_target *t)
{
	if (t == NULL || l->target == NULL)
		return t == NULL && l->target == NULL;
	return t->raft_id == l->target_id && strcmp(t->address, l->target) == 0;
}

void peer_link_target(struct link *link, const struct port_target *t)
{
	struct peer_link *l = of(link);

	CHECK(l->port != NULL && !l->closed);
	if (is_target(l, t))
		return;
	enter(l);
	end_dialling(l);
	loop_timer_disarm(l->retry);
	l->retry_ns = RETRY_MIN_NS;
	l->bad = false;
	if (t != NULL) {
		l->target = xstrdup(t->address);
		l->target_id = t->raft_id;
		loop_timer_arm(l->retry, 0);
	}
	if (l->conn != NULL) {
		drop_conn(l);
		l->ops->on_down(l->ctx);
	}
	leave(l);
}

void peer_link_attach(struct link *link, struct port_conn *c)
{
	struct peer_link *l = of(link);

	CHECK(l->port == NULL && !l->closed);
	enter(l);
	if (l->conn != NULL) {
		drop_conn(l);
		l->ops->on_down(l->ctx);
	}
	if (l->closed || l->conn != NULL)
		port_conn_free(c); /* the callback has done something else */
	else
		gain(l, c);
	leave(l);
}

const struct port_peer *peer_link_peer(const struct link *link)
{
	const struct peer_link *l =
	    container_of((struct link *)link, struct peer_link, link);

	return l->conn != NULL ? &l->conn->peer : NULL;
}
