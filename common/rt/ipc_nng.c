/*
 * Links over nng's ipc:// streams, the only file that knows nng. Bytes may be
 * anything: lengths are checked and nothing else of a message is looked at. On
 * the stream a message follows its head (ipc_head.h).
 *
 * Threads: on_opened, on_readable and on_written run on nng's threads and
 * only leave a note in the link's mail and wake the loop; all else is the
 * loop thread's.
 *
 * Reads and writes are tried at once on the loop thread, with an aio without
 * callback: cancelled right after its start, it has moved bytes or not. When
 * there is no room to write, and to read where no descriptor is found
 * (ipc_fd.h), a second aio waits, at the cost of wake-ups in nng's threads.
 *
 * Not nng's pair sockets: in nng 1.5 a message handed to a pipe that is just
 * being closed is lost, and its aio never ends, after which no socket of the
 * process is closed any more. On a stream too: see tx_lock.
 */
#include <errno.h>
#include <nng/nng.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "proto/err.h"
#include "rt/ipc.h"
#include "rt/ipc_bytes.h"
#include "rt/ipc_door.h"
#include "rt/ipc_fd.h"
#include "rt/ipc_head.h"
#include "rt/log.h"
#include "util/list.h"

#define IPC_SOCKET_MODE  0600
#define IPC_RETRY_MIN_NS (5 * NS_PER_MS)
#define IPC_RETRY_MAX_NS (50 * NS_PER_MS)
#define IPC_RETRY_BAD_NS NS_PER_S /* most, of a peer that sends nonsense */

/* What waits in a link's mail; the results are in the aio. */
#define MAIL_OPEN  1u
#define MAIL_READ  2u
#define MAIL_WRITE 4u

struct ipc {
	struct loop *loop;
	struct loop_fd *watch;
	struct loop_timer *again; /* reads of links without descriptor */
	int wake_fd;              /* eventfd */
	atomic_bool woken;        /* the loop will look at all mail */
	struct list links;
	bool busy; /* inside callbacks: links are freed afterwards */
};

struct ipc_link {
	struct link link;
	struct ipc *ipc;
	struct list node;
	const struct link_ops *ops;
	void *ctx;
	char *path;
	bool closed;               /* by its owner */
	nng_stream_dialer *dialer; /* one of these two */
	nng_stream_listener *listener;
	nng_aio *open;
	struct loop_timer *retry;
	uint64_t retry_ns;
	struct ipc_door door;
	bool bad; /* the last thing the peer sent could not be read */

	atomic_uint mail;
	nng_stream *stream; /* NULL: not connected */
	int fd;             /* a copy of the stream's, or -1 */
	ino_t inode;
	struct loop_fd *watch; /* of fd; NULL: there is none */
	nng_aio *rx_now;
	nng_aio *rx_late; /* these three without it: */
	bool eager;       /* read again in the next turn */
	bool rx_over; /* rx_late failed: what is left is read, then the end */
	struct ipc_rx rx;
	nng_aio *tx_now;
	nng_aio *tx_late;
	struct ipc_tx tx; /* what tx_late has to write */
	pthread_mutex_t tx_lock;
	bool tx_closing; /* under tx_lock: no more writes */
};

/* --- nng's threads --- */

static void post(struct ipc_link *l, unsigned mail)
{
	struct ipc *i = l->ipc;
	uint64_t one = 1;

	(void)atomic_fetch_or(&l->mail, mail);
	if (!atomic_exchange(&i->woken, true))
		CHECK(write(i->wake_fd, &one, sizeof(one)) == sizeof(one));
}

static void on_opened(void *link)
{
	post(link, MAIL_OPEN);
}

static void on_readable(void *link)
{
	post(link, MAIL_READ);
}

static void write_late(struct ipc_link *l)
{
	nng_iov iov = { .iov_buf = l->tx.p + l->tx.at,
			.iov_len = l->tx.n - l->tx.at };

	CHECK(nng_aio_set_iov(l->tx_late, 1, &iov) == 0);
	nng_stream_send(l->stream, l->tx_late);
}

/* A stream may take a part only; the rest follows from here. */
static void on_written(void *arg)
{
	struct ipc_link *l = arg;
	bool more = false;

	if (nng_aio_result(l->tx_late) == 0) {
		l->tx.at += nng_aio_count(l->tx_late);
		pthread_mutex_lock(&l->tx_lock);
		more = l->tx.at < l->tx.n && !l->tx_closing;
		if (more)
			write_late(l);
		pthread_mutex_unlock(&l->tx_lock);
	}
	if (!more)
		post(l, MAIL_WRITE);
}

/* --- connecting --- */

static void start_open(void *ctx)
{
	struct ipc_link *l = ctx;

	if (l->dialer != NULL)
		nng_stream_dialer_dial(l->dialer, l->open);
	else
		nng_stream_listener_accept(l->listener, l->open);
}

/* A listener takes the next peer only when it has lost the one before: who
 * comes too early waits in the socket's queue (rt/ipc_door.h). */
static void open_later(struct ipc_link *l)
{
	uint64_t max_ns = l->bad ? IPC_RETRY_BAD_NS : IPC_RETRY_MAX_NS;

	loop_timer_arm(l->retry, l->retry_ns);
	l->retry_ns = MIN(l->retry_ns * 2, max_ns);
}

/* When it returns no aio of the connection is under way. */
static void drop_stream(struct ipc_link *l)
{
	ipc_door_heard(&l->door);
	if (l->stream == NULL)
		return;
	if (l->watch != NULL) {
		loop_fd_remove(l->watch);
		(void)close(l->fd);
		l->watch = NULL;
	}
	pthread_mutex_lock(&l->tx_lock);
	l->tx_closing = true;
	nng_stream_close(l->stream);
	pthread_mutex_unlock(&l->tx_lock);
	nng_aio_wait(l->rx_late);
	nng_aio_wait(l->tx_late);
	nng_stream_free(l->stream);
	l->stream = NULL;
	l->link.is_up = false;
	(void)atomic_fetch_and(&l->mail, ~(MAIL_READ | MAIL_WRITE));
	l->eager = false;
	ipc_rx_clear(&l->rx);
	l->link.is_sending = false;
}

static void lose(struct ipc_link *l)
{
	drop_stream(l);
	l->ops->on_down(l->ctx);
	if (l->closed)
		return;
	if (l->listener != NULL && (!l->bad || ipc_door_is_wanted(&l->door)))
		start_open(l);
	else
		open_later(l);
}

static void read_soon(struct ipc_link *l)
{
	l->eager = true;
	loop_timer_arm(l->ipc->again, 0);
}

/* --- receiving --- */

/* False: these are no messages, or mean nothing to who takes them (drop). */
static bool hand_out(struct ipc_link *l)
{
	struct str m;
	int r = ipc_rx_next(&l->rx, &m);

	while (r > 0) {
		l->bad = false;
		ipc_door_heard(&l->door);
		l->ops->on_message(l->ctx, m.p, m.n);
		if (l->closed || l->bad)
			return l->closed;
		r = ipc_rx_next(&l->rx, &m);
	}
	l->bad = l->bad || r < 0;
	return r == 0;
}

static void received(struct ipc_link *l, size_t n)
{
	bool was_bad = l->bad;

	l->rx.n += n;
	if (!hand_out(l)) {
		if (!was_bad)
			log_error("%s: what came cannot be read", l->path);
		lose(l);
		return;
	}
	if (l->closed)
		return;
	ipc_rx_settle(&l->rx);
	if (l->watch == NULL)
		read_soon(l);
}

static void start_read(struct ipc_link *l, nng_aio *aio)
{
	nng_iov iov = { .iov_buf = l->rx.p + l->rx.n,
			.iov_len = l->rx.cap - l->rx.n };

	CHECK(nng_aio_set_iov(aio, 1, &iov) == 0);
	nng_stream_recv(l->stream, aio);
}

static void read_now(struct ipc_link *l)
{
	int rv;

	l->eager = false;
	start_read(l, l->rx_now);
	nng_aio_cancel(l->rx_now);
	nng_aio_wait(l->rx_now);
	rv = nng_aio_result(l->rx_now);
	if (rv == 0)
		received(l, nng_aio_count(l->rx_now));
	else if (rv != NNG_ECANCELED || l->rx_over)
		lose(l);
	else if (l->watch == NULL)
		start_read(l, l->rx_late);
}

/* --- the loop's side --- */

static void free_link(struct ipc_link *l)
{
	list_remove(&l->node);
	(void)pthread_mutex_destroy(&l->tx_lock);
	ipc_rx_done(&l->rx);
	free(l->tx.p);
	free(l->path);
	free(l);
}

/* Links that were closed in callbacks go. */
static void end_callbacks(struct ipc *i)
{
	i->busy = false;
	LIST_FOREACH_SAFE (it, &i->links) {
		struct ipc_link *l = list_entry(it, struct ipc_link, node);

		if (l->closed)
			free_link(l);
	}
}

/* One read per link and turn, so that a busy peer cannot hold the loop. */
static void on_bytes(void *ctx, _unused_ int fd, _unused_ int events)
{
	struct ipc_link *l = ctx;
	struct ipc *i = l->ipc;

	i->busy = true;
	read_now(l);
	end_callbacks(i);
}

static bool is_known(void *ctx, ino_t inode)
{
	struct ipc *i = ctx;

	LIST_FOREACH (it, &i->links) {
		struct ipc_link *l = list_entry(it, struct ipc_link, node);

		if (l->watch != NULL && l->inode == inode)
			return true;
	}
	return false;
}

static void watch(struct ipc_link *l)
{
	l->fd = ipc_fd_find(l->path, l->listener != NULL, is_known, l->ipc,
			    &l->inode);
	if (l->fd >= 0)
		l->watch =
		    loop_fd_add(l->ipc->loop, l->fd, LOOP_READ, on_bytes, l);
	else
		read_soon(l);
}

static void opened(struct ipc_link *l)
{
	if (nng_aio_result(l->open) != 0) {
		open_later(l);
		return;
	}
	l->stream = nng_aio_get_output(l->open, 0);
	l->link.is_up = true;
	if (!l->bad)
		l->retry_ns = IPC_RETRY_MIN_NS;
	l->tx_closing = false;
	l->rx_over = false;
	ipc_door_await(&l->door);
	watch(l);
	l->ops->on_up(l->ctx);
}

static void on_silent(void *link)
{
	struct ipc *i = ((struct ipc_link *)link)->ipc;

	i->busy = true;
	lose(link);
	end_callbacks(i);
}

static void take_mail(struct ipc_link *l)
{
	unsigned mail = atomic_exchange(&l->mail, 0);

	if ((mail & MAIL_OPEN) != 0 && !l->closed)
		opened(l);
	if ((mail & MAIL_WRITE) != 0 && l->stream != NULL) {
		l->link.is_sending = false;
		l->ops->on_sent(l->ctx);
	}
	if ((mail & MAIL_READ) == 0 || l->stream == NULL)
		return;
	/* A waiting read fails as soon as the peer has closed, although there
	 * may be bytes left. The end is where a read at once finds it. */
	l->rx_over = nng_aio_result(l->rx_late) != 0;
	if (l->rx_over)
		read_soon(l);
	else
		received(l, nng_aio_count(l->rx_late));
}

static void on_wake(void *ctx, int fd, _unused_ int events)
{
	struct ipc *i = ctx;
	uint64_t count;

	/* First this, then the mail: nothing is missed in between. */
	(void)!read(fd, &count, sizeof(count));
	atomic_store(&i->woken, false);
	i->busy = true;
	LIST_FOREACH (it, &i->links)
		take_mail(list_entry(it, struct ipc_link, node));
	end_callbacks(i);
}

static void on_again(void *ctx)
{
	struct ipc *i = ctx;

	i->busy = true;
	LIST_FOREACH (it, &i->links) {
		struct ipc_link *l = list_entry(it, struct ipc_link, node);

		if (l->eager)
			read_now(l);
	}
	end_callbacks(i);
}

/* --- as a link --- */

/* Ends dialling or accepting, also a connection nobody has seen yet. */
static void close_open(struct ipc_link *l)
{
	if (l->dialer != NULL)
		nng_stream_dialer_close(l->dialer);
	if (l->listener != NULL)
		nng_stream_listener_close(l->listener);
	nng_aio_wait(l->open);
	if ((atomic_exchange(&l->mail, 0) & MAIL_OPEN) != 0 &&
	    nng_aio_result(l->open) == 0)
		nng_stream_free(nng_aio_get_output(l->open, 0));
	nng_stream_dialer_free(l->dialer);
	nng_stream_listener_free(l->listener);
}

static void kind_close(struct link *link)
{
	struct ipc_link *l = container_of(link, struct ipc_link, link);

	CHECK(!l->closed);
	l->closed = true;
	drop_stream(l);
	close_open(l);
	loop_timer_remove(l->retry);
	ipc_door_done(&l->door);
	nng_aio_free(l->open);
	nng_aio_free(l->rx_now);
	nng_aio_free(l->rx_late);
	nng_aio_free(l->tx_now);
	nng_aio_free(l->tx_late);
	if (!l->ipc->busy)
		free_link(l);
}

static void kind_drop(struct link *link)
{
	struct ipc_link *l = container_of(link, struct ipc_link, link);

	CHECK(l->ipc->busy);
	l->bad = true;
}

static int kind_send(struct link *link, const void *data, size_t n)
{
	struct ipc_link *l = container_of(link, struct ipc_link, link);
	struct ipc_head h = ipc_head_of(n);
	nng_iov iov[2] = { { &h, sizeof(h) }, { (void *)data, n } };
	size_t done;
	int rv;

	CHECK(!l->link.is_sending);
	if (n > LIMIT_MESSAGE_BYTES)
		return -ERR_BODY_TOO_LARGE;
	if (l->stream == NULL)
		return -ERR_LEADER_UNAVAILABLE;
	CHECK(nng_aio_set_iov(l->tx_now, 2, iov) == 0);
	nng_stream_send(l->stream, l->tx_now);
	nng_aio_cancel(l->tx_now);
	nng_aio_wait(l->tx_now);
	rv = nng_aio_result(l->tx_now);
	/* A dead connection shows when it is read to its end, too. */
	if (rv != 0 && rv != NNG_ECANCELED)
		return -ERR_LEADER_UNAVAILABLE;
	done = rv == 0 ? nng_aio_count(l->tx_now) : 0;
	l->link.is_sending = done < sizeof(h) + n;
	if (l->link.is_sending) {
		ipc_tx_keep(&l->tx, &h, data, n, done);
		write_late(l);
	}
	return 0;
}

static const struct link_kind ipc_kind = {
	.close = kind_close,
	.drop = kind_drop,
	.send = kind_send,
};

struct ipc *ipc_new(struct loop *l)
{
	struct ipc *i = xcalloc(1, sizeof(*i));

	i->loop = l;
	list_init(&i->links);
	i->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	CHECK(i->wake_fd >= 0);
	i->watch = loop_fd_add(l, i->wake_fd, LOOP_READ, on_wake, i);
	i->again = loop_timer_add(l, on_again, i);
	return i;
}

void ipc_free(struct ipc *i)
{
	if (i == NULL)
		return;
	CHECK(!i->busy);
	while (!list_empty(&i->links))
		link_close(
		    &list_entry(i->links.next, struct ipc_link, node)->link);
	loop_timer_remove(i->again);
	loop_fd_remove(i->watch);
	(void)close(i->wake_fd);
	free(i);
}

struct loop *ipc_loop(struct ipc *i)
{
	return i->loop;
}

void ipc_exit(void)
{
	nng_fini();
}

/* --- making links --- */

static struct ipc_link *new_link(struct ipc *i, const char *path,
				 const struct link_ops *ops, void *ctx)
{
	struct ipc_link *l = xcalloc(1, sizeof(*l));

	l->link.kind = &ipc_kind;
	l->ipc = i;
	l->ops = ops;
	l->ctx = ctx;
	l->path = xstrdup(path);
	l->retry_ns = IPC_RETRY_MIN_NS;
	l->retry = loop_timer_add(i->loop, start_open, l);
	ipc_door_init(&l->door, i->loop, on_silent, l);
	CHECK(pthread_mutex_init(&l->tx_lock, NULL) == 0);
	/* These fail for want of memory or threads only. */
	CHECK(nng_aio_alloc(&l->open, on_opened, l) == 0);
	CHECK(nng_aio_alloc(&l->rx_now, NULL, NULL) == 0);
	CHECK(nng_aio_alloc(&l->rx_late, on_readable, l) == 0);
	CHECK(nng_aio_alloc(&l->tx_now, NULL, NULL) == 0);
	CHECK(nng_aio_alloc(&l->tx_late, on_written, l) == 0);
	ipc_rx_init(&l->rx);
	list_push_back(&i->links, &l->node);
	return l;
}

static int listen_at(struct ipc_link *l, const char *url)
{
	int rv;

	/* A killed process leaves its socket file behind. */
	if (unlink(l->path) < 0 && errno != ENOENT)
		return NNG_EADDRINUSE;
	rv = nng_stream_listener_alloc(&l->listener, url);
	if (rv == 0)
		rv = nng_stream_listener_set_int(
		    l->listener, NNG_OPT_IPC_PERMISSIONS, IPC_SOCKET_MODE);
	if (rv == 0)
		rv = nng_stream_listener_listen(l->listener);
	if (rv == 0)
		ipc_door_open(&l->door, l->path);
	return rv;
}

static int make_link(struct ipc *i, const char *path, bool listen,
		     const struct link_ops *ops, void *ctx, struct link **ret,
		     struct buf *why)
{
	_cleanup_(buf_done) struct buf url = BUF_INIT(0);
	struct ipc_link *l;
	int rv;

	if (ipc_door_url(path, &url, why) < 0)
		return -ERR_INTERNAL_ERROR;
	l = new_link(i, path, ops, ctx);
	rv = listen ? listen_at(l, url.p)
		    : nng_stream_dialer_alloc(&l->dialer, url.p);
	if (rv != 0) {
		buf_printf(why, "cannot %s %s: %s",
			   listen ? "listen on" : "dial", path,
			   nng_strerror(rv));
		link_close(&l->link);
		return -ERR_INTERNAL_ERROR;
	}
	start_open(l);
	*ret = &l->link;
	return 0;
}

int ipc_listen(struct ipc *i, const char *path, const struct link_ops *ops,
	       void *ctx, struct link **ret, struct buf *why)
{
	return make_link(i, path, true, ops, ctx, ret, why);
}

int ipc_dial(struct ipc *i, const char *path, const struct link_ops *ops,
	     void *ctx, struct link **ret, struct buf *why)
{
	return make_link(i, path, false, ops, ctx, ret, why);
}
