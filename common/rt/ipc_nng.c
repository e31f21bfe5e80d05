/*
 * Links over nng, the only file that knows it. The bytes of a message come
 * from another process of ours, but may be anything: this file bounds their
 * size and number and looks at nothing else.
 *
 * Threads: on_pipe, on_received and on_send_done run on nng's threads and
 * only append to the queue of struct ipc, which the loop thread drains; all
 * else is the loop thread's.
 *
 * Which connection a message belongs to, by the facts of nng 1.5:
 * - ADD_PRE of a pipe comes before anything else of it. A pipe may still be
 *   refused then, because the socket has a peer already.
 * - Its first message may overtake ADD_POST, its last one REM_POST. So pipes
 *   between ADD_PRE and REM_POST are remembered; a message of one of these is
 *   proof of a connection, a message of any other pipe is too late.
 * - pair1 keeps a send that has not reached a pipe for the next one. REM_POST
 *   returns before the next pipe can start, so a send aborted there never
 *   reaches another peer; tx_lock closes the gap between test and send.
 */
#include <errno.h>
#include <nng/nng.h>
#include <nng/protocol/pair1/pair.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/err.h"
#include "proto/limits.h"
#include "rt/ipc.h"
#include "util/list.h"

/* What may wait for the loop per link; then nng reads no further. */
#define IPC_QUEUE_MESSAGES 64
#define IPC_QUEUE_BYTES    (64u << 20)
/* pair1 adds a header of 4 bytes to a message. */
#define IPC_HEADER_BYTES     64
#define IPC_RECONNECT_MIN_MS 5
#define IPC_RECONNECT_MAX_MS 50
#define IPC_SOCKET_MODE      0600

enum event_kind { EV_UP, EV_MESSAGE, EV_DOWN, EV_SENT };

struct event {
	struct ipc_link *link;
	enum event_kind kind;
	uint64_t gen; /* EV_UP: number of the connection */
	nng_msg *msg; /* EV_MESSAGE: owned */
};

struct queue {
	struct event *p;
	size_t n;
	size_t cap;
};

struct ipc {
	struct loop *loop;
	struct loop_fd *watch;
	int wake_fd;       /* eventfd, readable while signalled */
	struct list links; /* struct ipc_link, also closed ones in a drain */
	bool draining;
	struct queue work; /* being drained */

	pthread_mutex_t lock; /* over all below and every link's rx_ */
	struct queue in;
	bool signalled; /* the loop will look at `in` */
};

struct ipc_link {
	struct ipc *ipc;
	struct list node;
	const struct ipc_ops *ops;
	void *ctx;
	nng_socket sock;
	bool closed;
	bool up;         /* as the owner was told */
	bool sending;    /* tx_late is under way */
	uint64_t up_gen; /* connection of the last EV_UP */
	size_t seen_n;   /* messages and bytes delivered in this drain */
	size_t seen_bytes;

	nng_aio *rx;
	nng_pipe *rx_pipes; /* between ADD_PRE and REM_POST */
	size_t rx_pipes_n;
	int rx_pipe; /* id of the connected one, 0: none */
	uint64_t rx_gen;
	size_t rx_n; /* messages and bytes in the queue */
	size_t rx_bytes;
	bool rx_paused; /* rx is not armed */

	nng_aio *tx_now;  /* no callback, never waits */
	nng_aio *tx_late; /* waits for room, then calls back */
	pthread_mutex_t tx_lock;
	uint64_t tx_dead_gen; /* connections up to this one are gone */
};

/* --- from nng's threads to the queue --------------------------------- */

/* Under the lock. Returns whether the caller must signal after it. */
static bool push(struct ipc_link *l, struct event ev)
{
	struct ipc *i = l->ipc;
	struct queue *q = &i->in;
	bool wake = !i->signalled;

	if (q->n == q->cap) {
		q->cap = MAX(q->cap * 2, 64);
		q->p = xrealloc(q->p, q->cap * sizeof(*q->p));
	}
	ev.link = l;
	q->p[q->n++] = ev;
	i->signalled = true;
	return wake;
}

static void signal_loop(struct ipc *i)
{
	uint64_t one = 1;

	CHECK(write(i->wake_fd, &one, sizeof(one)) == sizeof(one));
}

static size_t find_pipe(const struct ipc_link *l, int id)
{
	size_t n = 0;

	while (n < l->rx_pipes_n && nng_pipe_id(l->rx_pipes[n]) != id)
		n++;
	return n;
}

/* Makes the pipe the connected one. Under the lock; returns as push. */
static bool connect_pipe(struct ipc_link *l, int id)
{
	bool wake = false;

	if (l->rx_pipe == id)
		return false;
	if (l->rx_pipe != 0)
		wake = push(l, (struct event){ .kind = EV_DOWN });
	l->rx_pipe = id;
	l->rx_gen++;
	if (push(l, (struct event){ .kind = EV_UP, .gen = l->rx_gen }))
		wake = true;
	return wake;
}

/* Under the lock; returns as push. */
static bool add_pipe(struct ipc_link *l, nng_pipe p)
{
	l->rx_pipes =
	    xrealloc(l->rx_pipes, (l->rx_pipes_n + 1) * sizeof(*l->rx_pipes));
	l->rx_pipes[l->rx_pipes_n++] = p;
	return false;
}

/* Under the lock; returns as push. */
static bool remove_pipe(struct ipc_link *l, int id, uint64_t *ret_gen)
{
	size_t at = find_pipe(l, id);

	if (at < l->rx_pipes_n)
		l->rx_pipes[at] = l->rx_pipes[--l->rx_pipes_n];
	if (l->rx_pipe != id)
		return false;
	l->rx_pipe = 0;
	*ret_gen = l->rx_gen;
	return push(l, (struct event){ .kind = EV_DOWN });
}

static void on_pipe(nng_pipe p, nng_pipe_ev ev, void *arg)
{
	struct ipc_link *l = arg;
	int id = nng_pipe_id(p);
	uint64_t dead_gen = 0;
	bool wake = false;

	pthread_mutex_lock(&l->ipc->lock);
	if (ev == NNG_PIPE_EV_ADD_PRE)
		wake = add_pipe(l, p);
	else if (ev == NNG_PIPE_EV_REM_POST)
		wake = remove_pipe(l, id, &dead_gen);
	else if (find_pipe(l, id) < l->rx_pipes_n)
		wake = connect_pipe(l, id);
	pthread_mutex_unlock(&l->ipc->lock);

	if (dead_gen != 0) {
		pthread_mutex_lock(&l->tx_lock);
		l->tx_dead_gen = dead_gen;
		pthread_mutex_unlock(&l->tx_lock);
		nng_aio_abort(l->tx_late, NNG_ECONNRESET);
	}
	if (wake)
		signal_loop(l->ipc);
}

static bool has_room(const struct ipc_link *l)
{
	return l->rx_n < IPC_QUEUE_MESSAGES && l->rx_bytes < IPC_QUEUE_BYTES;
}

static void on_received(void *arg)
{
	struct ipc_link *l = arg;
	bool wake = false, more = true;
	nng_msg *msg;
	int id;

	if (nng_aio_result(l->rx) != 0)
		return; /* the socket is closed: pair1 has no other error */
	msg = nng_aio_get_msg(l->rx);
	nng_aio_set_msg(l->rx, NULL);
	id = nng_pipe_id(nng_msg_get_pipe(msg));

	pthread_mutex_lock(&l->ipc->lock);
	if (find_pipe(l, id) < l->rx_pipes_n) {
		wake = connect_pipe(l, id);
		l->rx_n++;
		l->rx_bytes += nng_msg_len(msg);
		if (push(l, (struct event){ .kind = EV_MESSAGE, .msg = msg }))
			wake = true;
		msg = NULL;
		more = has_room(l);
		l->rx_paused = !more;
	}
	pthread_mutex_unlock(&l->ipc->lock);

	if (wake)
		signal_loop(l->ipc);
	nng_msg_free(msg);
	if (more)
		nng_recv_aio(l->sock, l->rx);
}

static void on_send_done(void *arg)
{
	struct ipc_link *l = arg;
	bool wake;

	if (nng_aio_result(l->tx_late) != 0) {
		nng_msg_free(nng_aio_get_msg(l->tx_late));
		nng_aio_set_msg(l->tx_late, NULL);
	}
	pthread_mutex_lock(&l->ipc->lock);
	wake = push(l, (struct event){ .kind = EV_SENT });
	pthread_mutex_unlock(&l->ipc->lock);
	if (wake)
		signal_loop(l->ipc);
}

/* --- from the queue to the owners ------------------------------------ */

static void deliver(struct ipc_link *l, const struct event *ev)
{
	switch (ev->kind) {
	case EV_UP:
		l->up = true;
		l->up_gen = ev->gen;
		l->ops->on_up(l->ctx);
		break;
	case EV_MESSAGE:
		l->seen_n++;
		l->seen_bytes += nng_msg_len(ev->msg);
		l->ops->on_message(l->ctx, nng_msg_body(ev->msg),
				   nng_msg_len(ev->msg));
		break;
	case EV_DOWN:
		l->up = false;
		l->ops->on_down(l->ctx);
		break;
	case EV_SENT:
		l->sending = false;
		l->ops->on_sent(l->ctx);
		break;
	}
}

static void free_link(struct ipc_link *l)
{
	list_remove(&l->node);
	(void)pthread_mutex_destroy(&l->tx_lock);
	free(l->rx_pipes);
	free(l);
}

/* Takes what was delivered off the link's account; lets nng read on. */
static void settle(struct ipc_link *l)
{
	bool resume = false;

	if (l->seen_n == 0)
		return;
	pthread_mutex_lock(&l->ipc->lock);
	l->rx_n -= l->seen_n;
	l->rx_bytes -= l->seen_bytes;
	if (l->rx_paused && has_room(l)) {
		l->rx_paused = false;
		resume = true;
	}
	pthread_mutex_unlock(&l->ipc->lock);
	l->seen_n = 0;
	l->seen_bytes = 0;
	if (resume)
		nng_recv_aio(l->sock, l->rx);
}

/* One round per turn, so that a busy peer cannot hold the loop. */
static void on_wake(void *ctx, int fd, int events)
{
	struct ipc *i = ctx;
	struct queue full;
	uint64_t count;

	(void)events;
	pthread_mutex_lock(&i->lock);
	full = i->in;
	i->in = i->work;
	i->work = full;
	pthread_mutex_unlock(&i->lock);

	i->draining = true;
	for (size_t n = 0; n < i->work.n; n++) {
		struct event *ev = &i->work.p[n];

		if (!ev->link->closed)
			deliver(ev->link, ev);
		nng_msg_free(ev->msg);
	}
	i->work.n = 0;
	i->draining = false;

	LIST_FOREACH_SAFE (it, &i->links) {
		struct ipc_link *l = list_entry(it, struct ipc_link, node);

		if (l->closed)
			free_link(l);
		else
			settle(l);
	}

	/* The descriptor stays readable while there is more. */
	pthread_mutex_lock(&i->lock);
	if (i->in.n == 0) {
		CHECK(read(fd, &count, sizeof(count)) == sizeof(count));
		i->signalled = false;
	}
	pthread_mutex_unlock(&i->lock);
}

/* --- making and closing links ---------------------------------------- */

struct ipc *ipc_new(struct loop *l)
{
	struct ipc *i = xcalloc(1, sizeof(*i));

	i->loop = l;
	list_init(&i->links);
	CHECK(pthread_mutex_init(&i->lock, NULL) == 0);
	i->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	CHECK(i->wake_fd >= 0);
	i->watch = loop_fd_add(l, i->wake_fd, LOOP_READ, on_wake, i);
	return i;
}

struct loop *ipc_loop(struct ipc *i)
{
	return i->loop;
}

static int refuse(struct buf *why, const char *what, const char *path, int rv)
{
	buf_printf(why, "cannot %s %s: %s", what, path, nng_strerror(rv));
	return -ERR_INTERNAL_ERROR;
}

static int set_options(struct ipc_link *l)
{
	int rv;

	rv = nng_socket_set_size(l->sock, NNG_OPT_RECVMAXSZ,
				 LIMIT_MESSAGE_BYTES + IPC_HEADER_BYTES);
	if (rv == 0)
		rv = nng_socket_set_int(l->sock, NNG_OPT_SENDBUF, 0);
	if (rv == 0)
		rv = nng_socket_set_int(l->sock, NNG_OPT_RECVBUF, 0);
	if (rv == 0)
		rv = nng_socket_set_ms(l->sock, NNG_OPT_RECONNMINT,
				       IPC_RECONNECT_MIN_MS);
	if (rv == 0)
		rv = nng_socket_set_ms(l->sock, NNG_OPT_RECONNMAXT,
				       IPC_RECONNECT_MAX_MS);
	if (rv == 0)
		rv = nng_pipe_notify(l->sock, NNG_PIPE_EV_ADD_PRE, on_pipe, l);
	if (rv == 0)
		rv = nng_pipe_notify(l->sock, NNG_PIPE_EV_ADD_POST, on_pipe, l);
	if (rv == 0)
		rv = nng_pipe_notify(l->sock, NNG_PIPE_EV_REM_POST, on_pipe, l);
	return rv;
}

static struct ipc_link *new_link(struct ipc *i, const struct ipc_ops *ops,
				 void *ctx)
{
	struct ipc_link *l = xcalloc(1, sizeof(*l));

	l->ipc = i;
	l->ops = ops;
	l->ctx = ctx;
	CHECK(pthread_mutex_init(&l->tx_lock, NULL) == 0);
	/* These fail for want of memory or threads only. */
	CHECK(nng_pair1_open(&l->sock) == 0);
	CHECK(nng_aio_alloc(&l->rx, on_received, l) == 0);
	CHECK(nng_aio_alloc(&l->tx_now, NULL, NULL) == 0);
	CHECK(nng_aio_alloc(&l->tx_late, on_send_done, l) == 0);
	CHECK(set_options(l) == 0);
	nng_aio_set_timeout(l->tx_now, NNG_DURATION_ZERO);
	list_push_back(&i->links, &l->node);
	nng_recv_aio(l->sock, l->rx);
	return l;
}

static int start_listener(struct ipc_link *l, const char *url)
{
	nng_listener listener;
	int rv;

	rv = nng_listener_create(&listener, l->sock, url);
	if (rv == 0)
		rv = nng_listener_set_int(listener, NNG_OPT_IPC_PERMISSIONS,
					  IPC_SOCKET_MODE);
	if (rv == 0)
		rv = nng_listener_start(listener, 0);
	return rv;
}

static int make_url(const char *path, struct buf *url, struct buf *why)
{
	struct sockaddr_un sa;

	if (strlen(path) >= sizeof(sa.sun_path)) {
		buf_printf(why,
			   "%s: a socket's path has at most %zu bytes; give "
			   "a shorter --run-dir",
			   path, sizeof(sa.sun_path) - 1);
		return -ERR_INTERNAL_ERROR;
	}
	buf_printf(url, "ipc://%s", path);
	buf_putc(url, '\0');
	return 0;
}

int ipc_listen(struct ipc *i, const char *path, const struct ipc_ops *ops,
	       void *ctx, struct ipc_link **ret, struct buf *why)
{
	_cleanup_(buf_done) struct buf url = BUF_INIT(0);
	struct ipc_link *l;
	int r;

	r = make_url(path, &url, why);
	if (r < 0)
		return r;
	/* A killed process leaves its socket file behind. */
	if (unlink(path) < 0 && errno != ENOENT) {
		buf_printf(why, "cannot remove %s: %s", path, strerror(errno));
		return -ERR_INTERNAL_ERROR;
	}
	l = new_link(i, ops, ctx);
	r = start_listener(l, url.p);
	if (r != 0) {
		ipc_close(l);
		return refuse(why, "listen on", path, r);
	}
	*ret = l;
	return 0;
}

int ipc_dial(struct ipc *i, const char *path, const struct ipc_ops *ops,
	     void *ctx, struct ipc_link **ret, struct buf *why)
{
	_cleanup_(buf_done) struct buf url = BUF_INIT(0);
	struct ipc_link *l;
	int r;

	r = make_url(path, &url, why);
	if (r < 0)
		return r;
	l = new_link(i, ops, ctx);
	r = nng_dial(l->sock, url.p, NULL, NNG_FLAG_NONBLOCK);
	if (r != 0) {
		ipc_close(l);
		return refuse(why, "dial", path, r);
	}
	*ret = l;
	return 0;
}

/* Drops the events of a closed link that nobody drains any more. */
static void purge(struct ipc *i, const struct ipc_link *l)
{
	size_t kept = 0;

	pthread_mutex_lock(&i->lock);
	for (size_t n = 0; n < i->in.n; n++) {
		if (i->in.p[n].link == l)
			nng_msg_free(i->in.p[n].msg);
		else
			i->in.p[kept++] = i->in.p[n];
	}
	i->in.n = kept;
	pthread_mutex_unlock(&i->lock);
}

void ipc_close(struct ipc_link *l)
{
	if (l == NULL)
		return;
	CHECK(!l->closed);
	l->closed = true;
	l->up = false;
	/* From here on no callback of nng runs. */
	(void)nng_close(l->sock);
	nng_aio_free(l->rx);
	nng_aio_free(l->tx_now);
	nng_aio_free(l->tx_late);
	purge(l->ipc, l);
	if (!l->ipc->draining)
		free_link(l);
}

void ipc_free(struct ipc *i)
{
	if (i == NULL)
		return;
	CHECK(!i->draining);
	while (!list_empty(&i->links))
		ipc_close(list_entry(i->links.next, struct ipc_link, node));
	loop_fd_remove(i->watch);
	(void)close(i->wake_fd);
	(void)pthread_mutex_destroy(&i->lock);
	free(i->in.p);
	free(i->work.p);
	free(i);
}

void ipc_exit(void)
{
	nng_fini();
}

/* --- sending --------------------------------------------------------- */

bool ipc_is_up(const struct ipc_link *l)
{
	return l->up;
}

bool ipc_is_sending(const struct ipc_link *l)
{
	return l->sending;
}

/*
 * pair1 takes a message at once when the pipe is idle and then writes it
 * here and now. A plain send would report that through one of nng's threads
 * and the loop; the one without callback spares both, and only a send that
 * has to wait goes the long way.
 */
int ipc_send(struct ipc_link *l, const void *data, size_t n)
{
	nng_msg *msg;
	int r = 0;

	CHECK(!l->sending);
	if (n > LIMIT_MESSAGE_BYTES)
		return -ERR_BODY_TOO_LARGE;
	if (!l->up)
		return -ERR_LEADER_UNAVAILABLE;
	CHECK(nng_msg_alloc(&msg, n) == 0);
	memcpy(nng_msg_body(msg), data, n);

	pthread_mutex_lock(&l->tx_lock);
	if (l->tx_dead_gen >= l->up_gen) {
		nng_msg_free(msg);
		r = -ERR_LEADER_UNAVAILABLE;
	} else {
		nng_aio_set_msg(l->tx_now, msg);
		nng_send_aio(l->sock, l->tx_now);
		nng_aio_wait(l->tx_now);
		if (nng_aio_result(l->tx_now) != 0) {
			nng_aio_set_msg(l->tx_now, NULL);
			l->sending = true;
			nng_aio_set_msg(l->tx_late, msg);
			nng_send_aio(l->sock, l->tx_late);
		}
	}
	pthread_mutex_unlock(&l->tx_lock);
	return r;
}
