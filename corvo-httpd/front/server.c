/*
 * libmicrohttpd on our loop. See front/server.h.
 *
 * The library calls on_request at least twice per request: when the head is
 * complete, for each piece of the body, and once more when it has arrived.
 * A request that cannot be answered there and then suspends its connection;
 * when the answer is known the connection is resumed and on_request is called
 * once more, to take the answer. All of that is on the loop thread.
 */
#include "front/server.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <strings.h>

#include "front/acceptor.h"
#include "front/answer.h"
#include "front/clients.h"
#include "front/conn.h"
#include "front/intake.h"
#include "front/late.h"
#include "front/park.h"
#include "front/stream.h"
#include "front/wire.h"
#include "proto/err.h"
#include "proto/limits.h"
#include "rt/fds.h"
#include "rt/log.h"
#include "util/clock.h"

/*
 * Memory of one connection: the request's head, an entry for each header and
 * argument of it, and the answer's head must fit; the framing counts them. All
 * of it is cleared for each request, so more of it is slower.
 */
#define ANSWER_HEAD_BYTES (2u << 10)
#define CONNECTION_BYTES  (LIMIT_HEAD_BYTES + ANSWER_HEAD_BYTES)

/*
 * A drain closes connections after their next answer; those that ask nothing
 * for so long are closed without one. Clients at work thus notice no cut.
 */
#define DRAIN_GRACE_NS (200 * NS_PER_MS)

#define HELD_MAX    256 /* waiting connections that are not suspended */
#define HOLD_NS     (5 * NS_PER_MS)
#define HELD_RUN_NS (1 * NS_PER_MS)

struct server {
	struct server_config c;
	bool draining;
	struct MHD_Daemon *mhd;
	struct loop_fd *poll;
	struct loop_timer *timer; /* moment the library wants to run */
	struct conns conns;
	struct memory memory;
	struct clients clients;
	struct acceptor *acceptor;
	unsigned max_connections;
	bool check_host; /* of the connection that is being taken */
	struct late *late;
	struct park *park;
	struct streams *streams;
	size_t held_n; /* requests that wait without being suspended */
	struct answer_date date;
	struct rng rng;  /* for ids of requests */
	uint64_t now_ns; /* when this run began: good enough for limits */
	bool run;        /* something happened: run at the end of the turn */
	bool queued;     /* this run queued an answer but did not send it */
	struct loop_timer *grace; /* armed by a drain */
	bool grace_over;
};

/* --- answers --- */

/* The library wants more of a stream, because all before has been sent. */
static ssize_t on_stream(void *cls, _unused_ uint64_t pos, char *to, size_t max)
{
	struct exchange *x = cls;
	ssize_t n = stream_take(x->stream, to, max);

	x->server->queued = true;
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

void server_wake(struct exchange *x)
{
	MHD_resume_connection(x->conn->handle);
	x->server->run = true;
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

static void add_header(void *resp, const char *name, const char *value)
{
	/* Fails only without memory; names and values are our own. */
	CHECK(MHD_add_response_header(resp, name, value) == MHD_YES);
}

static enum MHD_Result send_answer(struct MHD_Connection *mc,
				   struct exchange *x)
{
	struct MHD_Response *resp = make_answer(x);
	const struct answer_to to = { add_header, resp };
	enum MHD_Result ok;

	if (resp == NULL)
		return MHD_NO;
	answer_headers(&to, x, x->server->draining, &x->server->date);
	ok = MHD_queue_response(mc, (unsigned)x->status, resp);
	MHD_destroy_response(resp);
	buf_shrink(&x->body, LIMIT_SMALL_BYTES); /* what it was made of */
	exchange_count(x);
	intake_answer(x);
	return ok;
}

void server_resume(struct exchange *x)
{
	struct server *s = x->server;

	CHECK(x->waiting);
	x->waiting = false;
	if (x->suspended)
		MHD_resume_connection(x->conn->handle);
	else
		s->held_n--;
	x->suspended = false;
	s->run = true;
}

/*
 * To suspend a connection and resume it costs two system calls, a tenth of
 * what a short request costs. One that is not suspended is offered again at
 * every run: cheap for a few and for as long as an operation takes, so only
 * those beyond are suspended.
 */
static void hold_or_suspend(struct server *s, struct MHD_Connection *mc,
			    struct exchange *x)
{
	bool fits = (x->waiting || s->held_n < HELD_MAX) && !x->outlives;

	if (!x->waiting)
		s->held_n++;
	x->waiting = true;
	if (fits && (int64_t)(s->now_ns - x->start_ns) < (int64_t)HOLD_NS)
		return;
	s->held_n--;
	x->suspended = true;
	MHD_suspend_connection(mc);
}

/* The client of a waiting request has gone: close without an answer. */
static void abandon(struct exchange *x)
{
	x->abandoned = true;
	if (x->waiting) /* else it is just being begun */
		server_resume(x);
}

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
	head_read(c, &x->head);
	answer_name_request(x, &c->server->rng);
	c->exchange = x;
	conn_enter(c, CONN_BODY, c->server->now_ns);
	exchange_count(x);
	intake_head(c);
}

/* The request is complete. */
static enum MHD_Result on_whole(struct MHD_Connection *mc, struct conn *c)
{
	struct exchange *x = c->exchange;

	conn_enter(c, CONN_WORK, c->server->now_ns);
	if (!intake_refuses(c))
		x->server->c.ops->complete(x);
	if (x->abandoned)
		return MHD_NO; /* closes */
	if (x->answered)
		return send_answer(mc, x);
	hold_or_suspend(x->server, mc, x);
	return MHD_YES;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *mc,
				  const char *url, const char *method,
				  _unused_ const char *version,
				  const char *data, size_t *data_n, void **ctx)
{
	struct server *s = cls;
	struct conn *c = *ctx;

	if (c == NULL) {
		c = conn_of(mc);
		*ctx = c;
		on_head(c, url, method);
		return MHD_YES;
	}
	if (*data_n > 0) {
		intake_body(c, data, *data_n);
		*data_n = 0;
		if (intake_must_wait(c)) {
			late_read(c->exchange);
			MHD_suspend_connection(mc);
		}
		return MHD_YES;
	}
	if (c->phase == CONN_LINGER || c->exchange->abandoned)
		return MHD_NO; /* closes */
	if (c->exchange->answered) {
		s->queued = true;
		return send_answer(mc, c->exchange);
	}
	if (!c->exchange->waiting)
		return on_whole(mc, c);
	hold_or_suspend(s, mc, c->exchange);
	return MHD_YES;
}

/* The request line has arrived: the only sign of a head that never ends. */
static void *on_uri(void *cls, _unused_ const char *uri,
		    struct MHD_Connection *mc)
{
	const struct server *s = cls;

	conn_enter(conn_of(mc), CONN_HEAD, s->now_ns);
	return NULL;
}

static void end_exchange(struct conn *c)
{
	struct exchange *x = c->exchange;

	if (x->waiting && !x->suspended)
		x->server->held_n--; /* closed before its answer */
	if (x->stream != NULL)
		stream_free(x->stream);
	memory_hold(&x->server->memory, &x->held, 0);
	x->server->c.ops->end(x);
	c->exchange = NULL;
}

/* The answer has left, or the connection is closed. */
static void on_completed(void *cls, _unused_ struct MHD_Connection *mc,
			 void **ctx, enum MHD_RequestTerminationCode code)
{
	const struct server *s = cls;
	bool sent = code == MHD_REQUEST_TERMINATED_COMPLETED_OK;
	struct conn *c = *ctx;

	if (c == NULL)
		return;
	*ctx = NULL;
	if (c->exchange != NULL) {
		c->exchange->sent = sent;
		end_exchange(c);
	}
	conn_enter(c, CONN_IDLE, s->now_ns);
	if (sent)
		wire_answered(c);
}

static void on_connection(void *cls, struct MHD_Connection *mc, void **ctx,
			  enum MHD_ConnectionNotificationCode code)
{
	struct server *s = cls;
	const union MHD_ConnectionInfo *i;
	struct conn *c;

	if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
		intake_closed(*ctx);
		conn_close(&s->conns, *ctx);
		acceptor_resume(s->acceptor);
		return;
	}
	i = MHD_get_connection_info(mc, MHD_CONNECTION_INFO_CONNECTION_FD);
	c = conn_open(&s->conns, s, mc, i->connect_fd);
	*ctx = c;
	i = MHD_get_connection_info(mc, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	c->peer = ip_of(i->client_addr);
	c->check_host = s->check_host;
	intake_connection(c);
}

static bool has_room(void *ctx)
{
	const struct server *s = ctx;

	return s->conns.n < s->max_connections;
}

/* on_connection comes inside of it. */
static void on_accepted(void *ctx, int fd, const struct sockaddr *sa,
			socklen_t len, bool check_host)
{
	struct server *s = ctx;

	if (!intake_admits(s, sa)) {
		late_close(s->late, fd);
		return;
	}
	s->check_host = check_host;
	/* It closes what it cannot take. */
	(void)MHD_add_connection(s->mhd, fd, sa, len);
	s->run = true;
}

static const struct acceptor_ops acceptor_ops = { has_room, on_accepted };

/* Paths stay as they came: an encoded slash is part of a name. */
static size_t keep_escapes(_unused_ void *cls,
			   _unused_ struct MHD_Connection *c, char *s)
{
	return strlen(s);
}

/* --- the loop --- */

static void on_ready(void *ctx, _unused_ int fd, _unused_ int events)
{
	struct server *s = ctx;

	s->run = true;
}

static void on_timer(void *ctx)
{
	struct server *s = ctx;

	s->run = true;
}

static void on_grace_over(void *ctx)
{
	struct server *s = ctx;

	s->grace_over = true;
	s->run = true;
}

void server_run(struct server *s)
{
	MHD_UNSIGNED_LONG_LONG ms;

	if (!s->run)
		return;
	s->run = false;
	s->queued = false;
	wire_begin_turn();
	s->now_ns = clock_mono_ns();
	(void)MHD_run(s->mhd);
	/* It sends at once only what it answers right after reading. */
	if (s->queued)
		(void)MHD_run(s->mhd);
	if (s->grace_over) {
		streams_cut_all(s->streams);
		conns_close_idle(&s->conns);
	}
	if (s->run)
		loop_timer_arm(s->timer, 0);
	else if (s->held_n > 0) /* for which the library would run at once */
		loop_timer_arm(s->timer, HELD_RUN_NS);
	else if (MHD_get_timeout(s->mhd, &ms) == MHD_YES)
		loop_timer_arm(s->timer, ms * NS_PER_MS);
	else
		loop_timer_disarm(s->timer);
}

void server_drain(struct server *s)
{
	acceptor_stop(s->acceptor);
	s->draining = true;
	s->run = true;
	park_end_all(s->park);
	streams_end_all(s->streams);
	loop_timer_arm(s->grace, DRAIN_GRACE_NS);
}

bool server_is_draining(const struct server *s)
{
	return s->draining;
}

size_t server_connections(const struct server *s)
{
	return s->conns.n;
}

struct late *server_late(struct server *s)
{
	return s->late;
}

struct park *server_park(struct server *s)
{
	return s->park;
}

struct streams *server_streams(struct server *s)
{
	return s->streams;
}

struct memory *server_memory(struct server *s)
{
	return &s->memory;
}

struct conns *server_conns(struct server *s)
{
	return &s->conns;
}

const struct server_config *server_config(const struct server *s)
{
	return &s->c;
}

struct clients *server_clients(struct server *s)
{
	return &s->clients;
}

void server_reload(struct server *s)
{
	clients_set(&s->clients, s->c.settings);
	intake_recount(s);
}

static struct MHD_Daemon *start(struct server *s)
{
	const struct settings *set = s->c.settings;
	unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME |
			 MHD_USE_TURBO | MHD_USE_NO_LISTEN_SOCKET |
			 MHD_USE_SUPPRESS_DATE_NO_CLOCK;
	unsigned idle_s =
	    (unsigned)((set->idle_timeout + NS_PER_S - 1) / NS_PER_S);

	return MHD_start_daemon(
	    flags, 0, NULL, NULL, on_request, s, MHD_OPTION_CONNECTION_LIMIT,
	    s->max_connections, MHD_OPTION_CONNECTION_TIMEOUT, idle_s,
	    MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
	    MHD_OPTION_NOTIFY_COMPLETED, on_completed, s,
	    MHD_OPTION_NOTIFY_CONNECTION, on_connection, s,
	    MHD_OPTION_URI_LOG_CALLBACK, on_uri, s,
	    MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL, MHD_OPTION_END);
}

struct server *server_new(const struct server_config *c,
			  const struct listeners *ls, struct buf *why)
{
	struct server *s = xcalloc(1, sizeof(*s));
	const union MHD_DaemonInfo *i;
	uint64_t seed;

	s->c = *c;
	s->max_connections =
	    (unsigned)fds_room_for(c->settings->max_connections);
	rng_system(&seed, sizeof(seed));
	rng_seed(&s->rng, seed);
	s->late = late_new(c->loop);
	s->park = park_new(c->loop);
	s->streams = streams_new(c->loop);
	if (s->park != NULL && s->streams != NULL)
		s->mhd = start(s);
	if (s->mhd == NULL) {
		buf_printf(why, "cannot start the HTTP server: %s",
			   strerror(errno));
		late_free(s->late);
		park_free(s->park);
		streams_free(s->streams);
		free(s);
		return NULL;
	}
	conns_init(&s->conns, c->loop, c->settings, &s->memory);
	clients_init(&s->clients, LIMIT_CLIENTS);
	clients_set(&s->clients, c->settings);
	memory_init(&s->memory, c->settings->http_max_memory,
		    c->settings->httpd_processes);
	i = MHD_get_daemon_info(s->mhd, MHD_DAEMON_INFO_EPOLL_FD);
	CHECK(i != NULL);
	s->poll = loop_fd_add(c->loop, i->epoll_fd, LOOP_READ, on_ready, s);
	s->timer = loop_timer_add(c->loop, on_timer, s);
	s->grace = loop_timer_add(c->loop, on_grace_over, s);
	s->acceptor = acceptor_new(c->loop, ls, &acceptor_ops, s);
	s->run = true;
	return s;
}

static void abandon_all(struct server *s)
{
	LIST_FOREACH (it, &s->conns.all) {
		struct exchange *x =
		    list_entry(it, struct conn, node)->exchange;

		if (x == NULL)
			continue;
		if (x->late_ns != 0 && x->reads_on)
			server_wake(x);
		late_remove(x);
		if (!x->waiting)
			continue;
		park_remove(x);
		s->c.ops->left(x);
		abandon(x);
	}
}

void server_free(struct server *s)
{
	if (s == NULL)
		return;
	abandon_all(s);
	streams_cut_all(s->streams);
	acceptor_stop(s->acceptor);
	loop_fd_remove(s->poll);
	loop_timer_remove(s->timer);
	loop_timer_remove(s->grace);
	MHD_stop_daemon(s->mhd);
	acceptor_free(s->acceptor);
	late_free(s->late);
	park_free(s->park);
	streams_free(s->streams);
	conns_done(&s->conns);
	clients_done(&s->clients);
	memory_done(&s->memory);
	free(s);
}

const char *server_request_id(struct conn *c, char room[REQUEST_ID_MADE])
{
	return c->exchange != NULL ? c->exchange->request_id
				   : answer_make_id(room, &c->server->rng);
}

void server_left(struct exchange *x)
{
	x->server->c.ops->left(x);
	abandon(x);
}

bool server_if_left(struct exchange *x)
{
	CHECK(!x->answered && !x->abandoned);
	if (!conn_is_left(x->conn))
		return false;
	server_left(x);
	return true;
}

void server_end_parked(struct exchange *x)
{
	x->server->c.ops->end_parked(x);
}
