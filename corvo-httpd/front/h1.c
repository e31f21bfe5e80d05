/*
 * libmicrohttpd on our loop. See front/h1.h.
 *
 * The library calls on_request at least twice per request: when the head is
 * complete, for each piece of the body, and once more when it has arrived.
 * A request that cannot be answered there and then suspends its connection;
 * when the answer is known the connection is resumed and on_request is called
 * once more, to take the answer. All of that is on the loop thread.
 */
#include "front/h1.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "front/answer.h"
#include "front/conn.h"
#include "front/door.h"
#include "front/exchange.h"
#include "front/h1_head.h"
#include "front/intake.h"
#include "front/server.h"
#include "front/stream.h"
#include "front/wire.h"
#include "proto/limits.h"
#include "util/clock.h"

/*
 * Memory of one connection: the request's head, an entry for each header and
 * argument of it, and the answer's head must fit; the framing counts them. All
 * of it is cleared for each request, so more of it is slower.
 */
#define ANSWER_HEAD_BYTES 512u /* without its headers, see front/wire.h */
#define CONNECTION_BYTES  (LIMIT_HEAD_BYTES + ANSWER_HEAD_BYTES)
#define HEADERS_KEPT      512u /* of a connection, from answer to answer */

#define HELD_MAX    1024 /* waiting connections that are not suspended */
#define HOLD_NS     (25 * NS_PER_MS)
#define HELD_RUN_NS (1 * NS_PER_MS)
#define FEW_ANSWERS 4 /* at once: their order is worth some calls */

/* Connections of a daemon, and how many daemons there are at most: each has
 * two descriptors. */
#define DAEMON_CONNS 512u
#define DAEMONS_MAX  20u

struct h1_daemon {
	struct h1 *h1;
	struct MHD_Daemon *mhd;
	struct loop_fd *poll;
	size_t conns_n;
	size_t held_n;   /* requests that wait without being suspended */
	size_t woken_n;  /* answers since the last run, to suspended ones */
	size_t ready_n;  /* and to others that waited */
	bool run;        /* something happened: run at the end of the turn */
	bool only_woken; /* others are answered in the next run */
	bool queued;     /* this run queued an answer but did not send it */
	uint64_t due_ns; /* moment the library wants to run; UINT64_MAX: none */
};

struct h1 {
	struct server *server;
	struct h1_daemon *daemons[DAEMONS_MAX];
	size_t n;
	size_t daemon_conns; /* most of each */
	size_t held_n;       /* of all daemons */
	struct loop_timer *timer;
	struct conn *adding; /* the library has not told of it yet */
	uint64_t now_ns;     /* when this run began: good enough for limits */
	bool run;            /* of any daemon */
};

static void want_run(struct h1_daemon *d)
{
	d->run = true;
	d->h1->run = true;
}

/* --- answers --- */

/* The library wants more of a stream, because all before has been sent. */
static ssize_t on_stream(void *cls, _unused_ uint64_t pos, char *to, size_t max)
{
	struct exchange *x = cls;
	ssize_t n = stream_take(x->stream, to, max);

	x->conn->daemon->queued = true;
	switch (n) {
	case STREAM_NOTHING:
		MHD_suspend_connection(x->conn->handle);
		return 0;
	case STREAM_OVER:
		return MHD_CONTENT_READER_END_OF_STREAM;
	case STREAM_BROKEN:
		return MHD_CONTENT_READER_END_WITH_ERROR;
	default:
		return n;
	}
}

static void h1_wake(struct exchange *x)
{
	MHD_resume_connection(x->conn->handle);
	want_run(x->conn->daemon);
}

/* The bytes stay the request's, which lives until on_completed. */
static struct MHD_Response *make_answer(struct exchange *x)
{
	/* The library sends the last chunk of one even after a HEAD. */
	if (x->stream != NULL && strcmp(x->method, "HEAD") != 0)
		return MHD_create_response_from_callback(
		    MHD_SIZE_UNKNOWN, CONNECTION_BYTES, on_stream, x, NULL);
	return MHD_create_response_from_buffer(
	    x->out.n, x->out.n > 0 ? x->out.p : "", MHD_RESPMEM_PERSISTENT);
}

static void add_header(void *headers, const char *name, const char *value)
{
	size_t n = strlen(value);

	/* our own, or checked: another line would be another header */
	CHECK(memchr(value, '\r', n) == NULL && memchr(value, '\n', n) == NULL);
	buf_puts(headers, name);
	buf_append(headers, ": ", 2);
	buf_append(headers, value, n);
	buf_append(headers, "\r\n", 2);
}

/* The library looks at this one, and closes then. */
static void close_after(struct MHD_Response *resp)
{
	/* fails only without memory */
	CHECK(MHD_add_response_header(resp, "Connection", "close") == MHD_YES);
}

static enum MHD_Result send_answer(struct MHD_Connection *mc,
				   struct exchange *x)
{
	struct MHD_Response *resp = make_answer(x);
	struct conn *c = x->conn;
	const struct answer_to to = { add_header, &c->headers };
	enum MHD_Result ok;

	if (resp == NULL)
		return MHD_NO;
	buf_shrink(&c->headers, HEADERS_KEPT);
	c->headers_sent = 0;
	answer_headers(&to, x, server_date(x->server));
	if (server_is_draining(x->server) || c->is_extra)
		close_after(resp);
	ok = MHD_queue_response(mc, (unsigned)x->status, resp);
	MHD_destroy_response(resp);
	buf_shrink(&x->body, LIMIT_SMALL_BYTES); /* what it was made of */
	exchange_count(x);
	intake_answer(x);
	return ok;
}

static void h1_resume(struct exchange *x)
{
	struct h1_daemon *d = x->conn->daemon;

	CHECK(x->waiting);
	x->waiting = false;
	x->woken = x->suspended;
	if (x->suspended) {
		d->woken_n++;
		MHD_resume_connection(x->conn->handle);
	} else {
		d->ready_n++;
		d->held_n--;
		d->h1->held_n--;
	}
	x->suspended = false;
	want_run(d);
}

/*
 * To suspend a connection and resume it costs two system calls, a tenth of
 * what a short request costs. One that is not suspended is offered again at
 * every run: cheap for a few and for as long as an operation takes, so only
 * those beyond are suspended.
 */
static void hold_or_suspend(struct MHD_Connection *mc, struct exchange *x)
{
	struct h1_daemon *d = x->conn->daemon;
	struct h1 *h = d->h1;
	bool fits = (x->waiting || h->held_n < HELD_MAX) && !x->outlives &&
		    !x->in_turns;

	if (!x->waiting) {
		h->held_n++;
		d->held_n++;
	}
	x->waiting = true;
	if (fits && (int64_t)(h->now_ns - x->start_ns) < (int64_t)HOLD_NS)
		return;
	h->held_n--;
	d->held_n--;
	x->suspended = true;
	MHD_suspend_connection(mc);
}

static void h1_refuse(struct exchange *x, int err, struct str text)
{
	conn_refuse(x->conn, err, text);
}

static void h1_cut(struct exchange *x)
{
	conn_cut(x->conn);
}

/* What the kernel has of an answer is not taken. */
static bool h1_progress(const struct exchange *x, uint64_t *ret)
{
	return x->conn->phase == CONN_WORK && conn_acked(x->conn, ret);
}

/* There was one piece, and all of it has come. */
static void h1_took(_unused_ struct exchange *x, _unused_ size_t n)
{
}

const struct front h1_front = {
	.name = "HTTP/1.1",
	.each_header = h1_each_header,
	.argument = h1_argument,
	.each_argument = h1_each_argument,
	.resume = h1_resume,
	.wake = h1_wake,
	.took = h1_took,
	.refuse = h1_refuse,
	.cut = h1_cut,
	.progress = h1_progress,
};

/* --- requests --- */

static struct conn *conn_of(struct MHD_Connection *mc)
{
	const union MHD_ConnectionInfo *i =
	    MHD_get_connection_info(mc, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	CHECK(i != NULL && i->socket_context != NULL);
	return i->socket_context;
}

static void on_head(struct conn *c, const char *url, const char *method)
{
	struct exchange *x = exchange_begin(c);

	x->method = method;
	x->path = str_from(url);
	h1_head_read(x, &x->head);
	answer_name_request(x, server_rng(c->server));
	c->exchange = x;
	x->coming = true;
	conn_enter(c, CONN_BODY, c->daemon->h1->now_ns);
	exchange_count(x);
	intake_head(x);
}

/* The request is complete. */
static enum MHD_Result on_whole(struct MHD_Connection *mc, struct conn *c)
{
	struct exchange *x = c->exchange;

	conn_enter(c, CONN_WORK, c->daemon->h1->now_ns);
	exchange_whole(x);
	if (x->abandoned)
		return MHD_NO; /* closes */
	if (x->answered)
		return send_answer(mc, x);
	hold_or_suspend(mc, x);
	return MHD_YES;
}

static enum MHD_Result on_request(_unused_ void *cls, struct MHD_Connection *mc,
				  const char *url, const char *method,
				  _unused_ const char *version,
				  const char *data, size_t *data_n, void **ctx)
{
	struct conn *c = *ctx;

	if (c == NULL) {
		c = conn_of(mc);
		*ctx = c;
		on_head(c, url, method);
		return MHD_YES;
	}
	if (*data_n > 0) {
		if (intake_offer(c->exchange, data, data_n))
			MHD_suspend_connection(mc);
		return MHD_YES;
	}
	if (c->phase == CONN_LINGER || c->exchange->abandoned)
		return MHD_NO; /* closes */
	if (c->exchange->answered) {
		if (c->daemon->only_woken && !c->exchange->woken)
			return MHD_YES;
		c->daemon->queued = true;
		return send_answer(mc, c->exchange);
	}
	if (c->exchange->late_ns != 0 && c->exchange->reads_on)
		return MHD_YES; /* it is suspended */
	if (!c->exchange->waiting)
		return on_whole(mc, c);
	hold_or_suspend(mc, c->exchange);
	return MHD_YES;
}

/* The request line has arrived: the only sign of a head that never ends. */
static void *on_uri(void *cls, _unused_ const char *uri,
		    struct MHD_Connection *mc)
{
	const struct h1_daemon *d = cls;

	conn_enter(conn_of(mc), CONN_HEAD, d->h1->now_ns);
	return NULL;
}

static void end_exchange(struct conn *c)
{
	struct exchange *x = c->exchange;

	if (x->waiting && !x->suspended) { /* closed before its answer */
		c->daemon->held_n--;
		c->daemon->h1->held_n--;
	}
	x->waiting = false;
	exchange_end(x);
	c->exchange = NULL;
}

/* The answer has left, or the connection is closed. */
static void on_completed(void *cls, _unused_ struct MHD_Connection *mc,
			 void **ctx, enum MHD_RequestTerminationCode code)
{
	const struct h1_daemon *d = cls;
	bool sent = code == MHD_REQUEST_TERMINATED_COMPLETED_OK;
	struct conn *c = *ctx;

	if (c == NULL)
		return;
	*ctx = NULL;
	if (c->exchange != NULL) {
		c->exchange->sent = sent;
		end_exchange(c);
	}
	conn_enter(c, CONN_IDLE, d->h1->now_ns);
	if (!sent)
		return;
	CHECK(c->headers_sent == c->headers.n);
	wire_answered(c);
}

static void on_connection(void *cls, struct MHD_Connection *mc, void **ctx,
			  enum MHD_ConnectionNotificationCode code)
{
	struct h1_daemon *d = cls;
	struct conn *c = *ctx;

	if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
		d->conns_n--;
		server_closed(d->h1->server, c);
		return;
	}
	c = d->h1->adding;
	d->h1->adding = NULL;
	*ctx = c;
	c->handle = mc;
	d->conns_n++;
}

/* --- daemons --- */

/* Paths stay as they came: an encoded slash is part of a name. */
static size_t keep_escapes(_unused_ void *cls,
			   _unused_ struct MHD_Connection *c, char *s)
{
	return strlen(s);
}

static void on_ready(void *ctx, _unused_ int fd, _unused_ int events)
{
	want_run(ctx);
}

static struct MHD_Daemon *start(struct h1_daemon *d)
{
	const struct settings *set = server_config(d->h1->server)->settings;
	unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME |
			 MHD_USE_TURBO | MHD_USE_NO_LISTEN_SOCKET |
			 MHD_USE_SUPPRESS_DATE_NO_CLOCK;
	unsigned idle_s =
	    (unsigned)((set->idle_timeout + NS_PER_S - 1) / NS_PER_S);

	return MHD_start_daemon(
	    flags, 0, NULL, NULL, on_request, d, MHD_OPTION_CONNECTION_LIMIT,
	    (unsigned)d->h1->daemon_conns, MHD_OPTION_CONNECTION_TIMEOUT,
	    idle_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
	    (size_t)CONNECTION_BYTES, MHD_OPTION_NOTIFY_COMPLETED, on_completed,
	    d, MHD_OPTION_NOTIFY_CONNECTION, on_connection, d,
	    MHD_OPTION_URI_LOG_CALLBACK, on_uri, d,
	    MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL, MHD_OPTION_END);
}

static struct h1_daemon *daemon_new(struct h1 *h)
{
	struct h1_daemon *d = xcalloc(1, sizeof(*d));
	const union MHD_DaemonInfo *i;

	d->h1 = h;
	d->due_ns = UINT64_MAX;
	d->mhd = start(d);
	if (d->mhd == NULL) {
		free(d);
		return NULL;
	}
	i = MHD_get_daemon_info(d->mhd, MHD_DAEMON_INFO_EPOLL_FD);
	CHECK(i != NULL);
	d->poll = loop_fd_add(server_config(h->server)->loop, i->epoll_fd,
			      LOOP_READ, on_ready, d);
	h->daemons[h->n++] = d;
	return d;
}

/* The first that has room; NULL: none has, and there can be no more. */
static struct h1_daemon *choose(struct h1 *h)
{
	for (size_t i = 0; i < h->n; i++)
		if (h->daemons[i]->conns_n < h->daemon_conns)
			return h->daemons[i];
	return h->n < DAEMONS_MAX ? daemon_new(h) : NULL;
}

bool h1_add(struct h1 *h, struct conn *c)
{
	struct sockaddr_storage sa = { 0 };
	socklen_t len = sizeof(sa);
	struct h1_daemon *d = choose(h);

	/* one that has left already has no name */
	if (d == NULL || getpeername(c->fd, (struct sockaddr *)&sa, &len) < 0) {
		door_close(c);
		return false;
	}
	c->front = &h1_front;
	c->daemon = d;
	h->adding = c;
	want_run(d);
	/* It closes what it cannot take; on_connection comes inside of it. */
	if (MHD_add_connection(d->mhd, c->fd, (struct sockaddr *)&sa, len) ==
	    MHD_YES)
		return true;
	if (h->adding != NULL)
		server_closed(h->server, c);
	h->adding = NULL;
	return false;
}

/* --- the loop --- */

static uint64_t due_of(const struct h1_daemon *d)
{
	MHD_UNSIGNED_LONG_LONG ms;

	if (d->run)
		return 0;
	if (d->held_n > 0) /* for which the library would run at once */
		return d->h1->now_ns + HELD_RUN_NS;
	if (MHD_get_timeout(d->mhd, &ms) == MHD_YES)
		return d->h1->now_ns + ms * NS_PER_MS;
	return UINT64_MAX;
}

/*
 * Who has waited for long is answered first: the worker, before whoever put its
 * job in, where both hear of it at once. The library would send that last. It
 * takes two runs, one to take the answer and one to send it.
 */
static void run_woken(struct h1_daemon *d)
{
	bool worth = d->woken_n > 0 && d->ready_n > 0 &&
		     d->woken_n + d->ready_n <= FEW_ANSWERS;

	d->woken_n = d->ready_n = 0;
	if (!worth)
		return;
	d->only_woken = true;
	(void)MHD_run(d->mhd);
	(void)MHD_run(d->mhd);
	d->only_woken = false;
}

static void run_one(struct h1_daemon *d)
{
	d->run = false;
	run_woken(d);
	d->queued = false;
	(void)MHD_run(d->mhd);
	/* It sends at once only what it answers right after reading. */
	if (d->queued)
		(void)MHD_run(d->mhd);
	d->due_ns = due_of(d);
}

static void arm(struct h1 *h)
{
	uint64_t due_ns = UINT64_MAX;

	for (size_t i = 0; i < h->n; i++)
		due_ns = MIN(due_ns, h->daemons[i]->due_ns);
	if (due_ns == UINT64_MAX)
		loop_timer_disarm(h->timer);
	else
		loop_timer_arm(h->timer,
			       due_ns > h->now_ns ? due_ns - h->now_ns : 0);
}

void h1_run(struct h1 *h)
{
	if (!h->run)
		return;
	h->run = false;
	wire_begin_turn();
	h->now_ns = clock_mono_ns();
	for (size_t i = 0; i < h->n; i++)
		if (h->daemons[i]->run)
			run_one(h->daemons[i]);
	for (size_t i = 0; i < h->n; i++)
		if (h->daemons[i]->run) /* another one has woken it */
			h->daemons[i]->due_ns = 0;
	arm(h);
}

void h1_run_all(struct h1 *h)
{
	for (size_t i = 0; i < h->n; i++)
		want_run(h->daemons[i]);
}

static void on_timer(void *ctx)
{
	struct h1 *h = ctx;

	h->now_ns = clock_mono_ns();
	for (size_t i = 0; i < h->n; i++)
		if (h->daemons[i]->due_ns <= h->now_ns)
			want_run(h->daemons[i]);
	if (!h->run) /* it fired a little early */
		arm(h);
}

struct h1 *h1_new(struct server *s, size_t max_connections, struct buf *why)
{
	struct h1 *h = xcalloc(1, sizeof(*h));
	size_t each = max_connections / DAEMONS_MAX + 1;

	h->server = s;
	h->daemon_conns = MAX((size_t)DAEMON_CONNS, each);
	h->timer = loop_timer_add(server_config(s)->loop, on_timer, h);
	if (daemon_new(h) != NULL)
		return h;
	buf_printf(why, "cannot start the HTTP server: %s", strerror(errno));
	h1_free(h);
	return NULL;
}

void h1_free(struct h1 *h)
{
	if (h == NULL)
		return;
	for (size_t i = 0; i < h->n; i++) {
		struct h1_daemon *d = h->daemons[i];

		loop_fd_remove(d->poll);
		MHD_stop_daemon(d->mhd);
		free(d);
	}
	loop_timer_remove(h->timer);
	free(h);
}
