/*
 * Connections, requests and answers. See client.h.
 */
#include "load/client.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "util/clock.h"

#define EVENTS_MAX       512
#define READ_BYTES       (64u << 10)
#define ANSWER_BYTES_MAX ((size_t)256 << 20)
#define SHOWN_BYTES      300 /* of an answer, in an error */

void client_fail(struct client *cl, const char *fmt, ...)
{
	va_list ap;

	cl->stop = true;
	if (client_has_failed(cl))
		return;
	va_start(ap, fmt);
	buf_vprintf(&cl->why, fmt, ap);
	va_end(ap);
}

void client_init(struct client *cl, const struct client_to *to)
{
	*cl = (struct client){ .to = *to };
	buf_puts(&cl->head, " HTTP/1.1\r\nHost: ");
	if (to->socket != NULL)
		buf_puts(&cl->head, "localhost\r\n");
	else
		buf_printf(&cl->head,
			   strchr(to->host, ':') != NULL ? "[%s]:%s\r\n"
							 : "%s:%s\r\n",
			   to->host, to->port);
	if (to->key != NULL)
		buf_printf(&cl->head, "X-API-Key: %s\r\n", to->key);
	cl->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (cl->epoll_fd < 0)
		client_fail(cl, "epoll: %s", strerror(errno));
}

void client_hang_up(struct client *cl)
{
	for (unsigned i = 0; i < cl->conns_n; i++) {
		struct conn *c = cl->conns[i];

		(void)close(c->fd);
		buf_done(&c->in);
		buf_done(&c->out);
		buf_done(&c->body);
		free(c);
	}
	cl->conns_n = 0;
	cl->busy = 0;
}

void client_done(struct client *cl)
{
	client_hang_up(cl);
	free(cl->conns);
	if (cl->epoll_fd >= 0)
		(void)close(cl->epoll_fd);
	buf_done(&cl->head);
	buf_done(&cl->why);
}

/* --- connecting --- */

static int connect_unix(struct client *cl)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	size_t n = strlen(cl->to.socket);
	int fd;

	if (n >= sizeof(sa.sun_path)) {
		client_fail(cl, "%s is too long for a socket", cl->to.socket);
		return -1;
	}
	memcpy(sa.sun_path, cl->to.socket, n);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 &&
	    connect(fd, (const struct sockaddr *)&sa, sizeof(sa)) == 0)
		return fd;
	client_fail(cl, "cannot connect to %s: %s", cl->to.socket,
		    strerror(errno));
	if (fd >= 0)
		(void)close(fd);
	return -1;
}

static int connect_tcp(struct client *cl)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *ai;
	int one = 1;
	int r = getaddrinfo(cl->to.host, cl->to.port, &hints, &ai);
	int fd;

	if (r != 0) {
		client_fail(cl, "%s:%s: %s", cl->to.host, cl->to.port,
			    gai_strerror(r));
		return -1;
	}
	fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	r = fd < 0 ? -1 : connect(fd, ai->ai_addr, ai->ai_addrlen);
	freeaddrinfo(ai);
	if (r == 0) {
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one,
				 sizeof(one));
		return fd;
	}
	client_fail(cl, "cannot connect to %s:%s: %s", cl->to.host, cl->to.port,
		    strerror(errno));
	if (fd >= 0)
		(void)close(fd);
	return -1;
}

static void watch(struct conn *c, int op, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = c };

	if (epoll_ctl(c->cl->epoll_fd, op, c->fd, &e) < 0)
		client_fail(c->cl, "epoll: %s", strerror(errno));
}

static int connect_to(struct client *cl)
{
	return cl->to.socket != NULL ? connect_unix(cl) : connect_tcp(cl);
}

static void connect_one(struct client *cl)
{
	int fd = connect_to(cl);
	struct conn *c;

	if (fd < 0)
		return;
	c = xcalloc(1, sizeof(*c));
	c->cl = cl;
	c->fd = fd;
	c->number = cl->conns_n;
	if (cl->conns_n == cl->conns_cap) {
		cl->conns_cap = MAX(64u, cl->conns_cap * 2);
		cl->conns =
		    xrealloc(cl->conns, cl->conns_cap * sizeof(struct conn *));
	}
	cl->conns[cl->conns_n++] = c;
	watch(c, EPOLL_CTL_ADD, EPOLLIN);
}

void client_connect_again(struct conn *c)
{
	CHECK(c->on_answer == NULL);
	(void)close(c->fd);
	c->fd = connect_to(c->cl);
	if (c->fd >= 0)
		watch(c, EPOLL_CTL_ADD, EPOLLIN);
}

bool client_connect(struct client *cl, unsigned n)
{
	while (cl->conns_n < n && !client_has_failed(cl))
		connect_one(cl);
	return !client_has_failed(cl);
}

/* --- sending --- */

static void flush(struct conn *c, bool was_blocked)
{
	while (c->out_sent < c->out.n) {
		ssize_t n =
		    send(c->fd, c->out.p + c->out_sent, c->out.n - c->out_sent,
			 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EAGAIN) {
			if (!was_blocked)
				watch(c, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
			return;
		}
		if (n < 0) {
			client_fail(c->cl, "cannot send a request: %s",
				    strerror(errno));
			return;
		}
		c->out_sent += (size_t)n;
	}
	if (was_blocked)
		watch(c, EPOLL_CTL_MOD, EPOLLIN);
}

void client_send(struct conn *c, const char *path, const struct buf *body,
		 answer_fn *on_answer)
{
	CHECK(c->on_answer == NULL);
	buf_clear(&c->out);
	buf_puts(&c->out, body != NULL ? "POST " : "GET ");
	buf_puts(&c->out, c->cl->to.prefix);
	buf_puts(&c->out, path);
	buf_put_str(&c->out, buf_str(&c->cl->head));
	if (body != NULL) {
		buf_puts(&c->out, "Content-Length: ");
		buf_put_u64(&c->out, body->n);
		buf_puts(&c->out, "\r\n");
	}
	buf_puts(&c->out, "\r\n");
	if (body != NULL)
		buf_put_str(&c->out, buf_str(body));
	c->out_sent = 0;
	c->on_answer = on_answer;
	c->cl->busy++;
	c->sent_ns = clock_mono_ns();
	flush(c, false);
}

/* --- receiving --- */

/* Length of the body; the head ends with an empty line. */
static size_t content_length(struct str head)
{
	static const char name[] = "\r\nContent-Length:";
	const char *at = NULL;
	size_t n = sizeof(name) - 1;

	for (size_t i = 0; i + n < head.n; i++) {
		if (head.p[i] == '\r' &&
		    strncasecmp(head.p + i, name, n) == 0) {
			at = head.p + i + n;
			break;
		}
	}
	return at != NULL ? (size_t)strtoul(at, NULL, 10) : 0;
}

/* 0: it is no HTTP. */
static int status_of(struct str head)
{
	uint64_t status;

	if (head.n < 12 || !str_starts(head, STR("HTTP/1.1 ")) ||
	    !str_parse_u64(str_of(head.p + 9, 3), &status))
		return 0;
	return (int)status;
}

/* An answer that is complete goes to its callback. */
static void take_answer(struct conn *c)
{
	struct str in = buf_str(&c->in);
	const char *end = in.n > 0 ? memmem(in.p, in.n, "\r\n\r\n", 4) : NULL;
	answer_fn *fn = c->on_answer;
	struct answer a;
	struct str head;
	size_t length;

	if (end == NULL)
		return;
	head = str_of(in.p, (size_t)(end - in.p) + 2);
	length = content_length(head);
	if (length > ANSWER_BYTES_MAX) {
		client_fail(c->cl, "an answer of %zu bytes", length);
		return;
	}
	if (in.n < head.n + 2 + length)
		return;
	a = (struct answer){
		.status = status_of(head),
		.body = str_of(end + 4, length),
		.took_ns = clock_mono_ns() - c->sent_ns,
	};
	if (a.status == 0 || fn == NULL || in.n > head.n + 2 + length) {
		client_fail(c->cl, "%s: %.*s",
			    a.status == 0 ? "the answer is no HTTP/1.1"
					  : "an answer nobody asked for",
			    (int)MIN(in.n, SHOWN_BYTES), in.p);
		return;
	}
	if (is_refused(&a))
		c->cl->refused++;
	c->on_answer = NULL;
	c->cl->busy--;
	/* The callback may send, never receive: the bytes stay. */
	fn(c, &a);
	buf_clear(&c->in);
}

static void receive(struct conn *c)
{
	char *to = buf_reserve(&c->in, READ_BYTES);
	ssize_t n = recv(c->fd, to, READ_BYTES, MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN)
		return;
	if (n == 0 && c->on_answer == NULL) {
		/* after long without a request the server has closed it */
		client_connect_again(c);
		return;
	}
	if (n <= 0) {
		client_fail(c->cl, "the server closed a connection%s%s",
			    n < 0 ? ": " : "", n < 0 ? strerror(errno) : "");
		return;
	}
	c->in.n += (size_t)n;
	take_answer(c);
}

/* --- the loop --- */

/* Time until something must be done without an event; false: never. */
static bool wait_time(const struct client *cl, uint64_t until_ns,
		      uint64_t now_ns, struct timespec *ret)
{
	uint64_t next = until_ns;

	if (cl->tick_ns != 0 && (next == 0 || cl->tick_ns < next))
		next = cl->tick_ns;
	if (next == 0)
		return false;
	next = next > now_ns ? next - now_ns : 0;
	ret->tv_sec = (time_t)(next / NS_PER_S);
	ret->tv_nsec = (long)(next % NS_PER_S);
	return true;
}

static void on_event(const struct epoll_event *e)
{
	struct conn *c = e->data.ptr;

	if (e->events & EPOLLOUT)
		flush(c, true);
	if (e->events & ~(uint32_t)EPOLLOUT)
		receive(c);
}

void client_run(struct client *cl, uint64_t until_ns)
{
	struct epoll_event events[EVENTS_MAX];

	cl->stop = client_has_failed(cl);
	while (!cl->stop) {
		uint64_t now_ns = clock_mono_ns();
		struct timespec t;
		bool timed;
		int n;

		if (cl->quit != NULL && *cl->quit)
			client_fail(cl, "interrupted");
		if (cl->stop || (until_ns != 0 && now_ns >= until_ns))
			return;
		if (cl->tick_ns != 0 && now_ns >= cl->tick_ns) {
			cl->tick_ns = 0;
			cl->on_tick(cl);
			continue;
		}
		timed = wait_time(cl, until_ns, now_ns, &t);
		n = epoll_pwait2(cl->epoll_fd, events, EVENTS_MAX,
				 timed ? &t : NULL, cl->open);
		if (n < 0 && errno != EINTR)
			client_fail(cl, "epoll: %s", strerror(errno));
		for (int i = 0; i < n && !cl->stop; i++)
			on_event(&events[i]);
	}
}

/* --- reading an answer --- */

bool answer_expect(struct conn *c, const struct answer *a, int status)
{
	if (a->status != status)
		client_fail(c->cl, "status %d instead of %d: %.*s", a->status,
			    status, (int)MIN(a->body.n, SHOWN_BYTES),
			    a->body.p);
	return a->status == status;
}

static bool find_value(struct str body, const char *name, struct str *ret)
{
	char key[64];
	int n = snprintf(key, sizeof(key), "\"%s\":", name);
	const char *at =
	    body.n > 0 ? memmem(body.p, body.n, key, (size_t)n) : NULL;

	if (at == NULL)
		return false;
	*ret = str_skip(body, (size_t)(at - body.p) + (size_t)n);
	return true;
}

bool body_text(struct str body, const char *name, struct str *ret)
{
	struct str tail, quoted;

	if (!find_value(body, name, &quoted) || quoted.n == 0 ||
	    quoted.p[0] != '"')
		return false;
	return str_split(str_skip(quoted, 1), '"', ret, &tail);
}

bool body_number(struct str body, const char *name, uint64_t *ret)
{
	struct str v;
	size_t n = 0;

	if (!find_value(body, name, &v))
		return false;
	while (n < v.n && v.p[n] >= '0' && v.p[n] <= '9')
		n++;
	return str_parse_u64(str_of(v.p, n), ret);
}
