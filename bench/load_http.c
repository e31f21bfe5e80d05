/*
 * Connections, requests and answers. See load_http.h.
 */
#include "load_http.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/clock.h"

#define EVENTS_MAX 512
#define READ_BYTES (64u << 10)

void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("load: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(1);
}

void http_init(struct http *h, const char *host, const char *port)
{
	*h = (struct http){ .host = host, .port = port };
	h->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (h->epoll_fd < 0)
		die("epoll: %s", strerror(errno));
}

void http_done(struct http *h)
{
	for (unsigned i = 0; i < h->conns_n; i++) {
		struct hconn *c = h->conns[i];

		(void)close(c->fd);
		buf_done(&c->in);
		buf_done(&c->out);
		buf_done(&c->body);
		free(c);
	}
	free(h->conns);
	(void)close(h->epoll_fd);
}

/* --- connecting --- */

static int connect_fd(const struct http *h)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *ai;
	int one = 1;
	int r = getaddrinfo(h->host, h->port, &hints, &ai);
	int fd;

	if (r != 0)
		die("%s:%s: %s", h->host, h->port, gai_strerror(r));
	fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, ai->ai_addr, ai->ai_addrlen) < 0)
		die("cannot connect to %s:%s: %s", h->host, h->port,
		    strerror(errno));
	freeaddrinfo(ai);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

static void watch(struct hconn *c, int op, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = c };

	if (epoll_ctl(c->h->epoll_fd, op, c->fd, &e) < 0)
		die("epoll: %s", strerror(errno));
}

struct hconn *http_connect(struct http *h)
{
	struct hconn *c = xcalloc(1, sizeof(*c));

	c->h = h;
	c->fd = connect_fd(h);
	c->number = h->conns_n;
	if (h->conns_n == h->conns_cap) {
		h->conns_cap = MAX(64u, h->conns_cap * 2);
		h->conns =
		    xrealloc(h->conns, h->conns_cap * sizeof(struct hconn *));
	}
	h->conns[h->conns_n++] = c;
	watch(c, EPOLL_CTL_ADD, EPOLLIN);
	return c;
}

/* --- sending --- */

static void flush(struct hconn *c, bool was_blocked)
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
		if (n < 0)
			die("send: %s", strerror(errno));
		c->out_sent += (size_t)n;
	}
	if (was_blocked)
		watch(c, EPOLL_CTL_MOD, EPOLLIN);
}

void http_send(struct hconn *c, const char *path, const struct buf *body,
	       answer_fn *on_answer)
{
	CHECK(c->on_answer == NULL);
	buf_clear(&c->out);
	buf_puts(&c->out, body != NULL ? "POST " : "GET ");
	buf_puts(&c->out, path);
	buf_puts(&c->out, " HTTP/1.1\r\nHost: localhost\r\n");
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

static int status_of(struct str head)
{
	if (head.n < 12 || memcmp(head.p, "HTTP/1.1 ", 9) != 0)
		die("not HTTP: %.*s", STR_ARG(head));
	return (head.p[9] - '0') * 100 + (head.p[10] - '0') * 10 +
	       (head.p[11] - '0');
}

/* An answer that is complete goes to its callback. */
static void take_answer(struct hconn *c)
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
	if (in.n < head.n + 2 + length)
		return;
	if (fn == NULL || in.n > head.n + 2 + length)
		die("an answer nobody asked for: %.*s", STR_ARG(in));
	a = (struct answer){
		.status = status_of(head),
		.body = str_of(end + 4, length),
		.took_ns = clock_mono_ns() - c->sent_ns,
	};
	if (a.status == 429 || a.status == 503)
		c->h->refused++;
	c->on_answer = NULL;
	/* The callback may send, never receive: the bytes stay. */
	fn(c, &a);
	buf_clear(&c->in);
}

static void receive(struct hconn *c)
{
	char *to = buf_reserve(&c->in, READ_BYTES);
	ssize_t n = recv(c->fd, to, READ_BYTES, MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0)
		die("connection %u was closed by the server%s%s", c->number,
		    n < 0 ? ": " : "", n < 0 ? strerror(errno) : "");
	c->in.n += (size_t)n;
	take_answer(c);
}

/* --- the loop --- */

/* Time until something must be done without an event; false: never. */
static bool wait_time(const struct http *h, uint64_t until_ns, uint64_t now_ns,
		      struct timespec *ret)
{
	uint64_t next = until_ns;

	if (h->tick_ns != 0 && (next == 0 || h->tick_ns < next))
		next = h->tick_ns;
	if (next == 0)
		return false;
	next = next > now_ns ? next - now_ns : 0;
	ret->tv_sec = (time_t)(next / NS_PER_S);
	ret->tv_nsec = (long)(next % NS_PER_S);
	return true;
}

void http_run(struct http *h, uint64_t until_ns)
{
	struct epoll_event events[EVENTS_MAX];

	h->stop = false;
	while (!h->stop) {
		uint64_t now_ns = clock_mono_ns();
		struct timespec t;
		bool timed;
		int n;

		if (until_ns != 0 && now_ns >= until_ns)
			return;
		if (h->tick_ns != 0 && now_ns >= h->tick_ns) {
			h->tick_ns = 0;
			h->on_tick(h);
			continue;
		}
		timed = wait_time(h, until_ns, now_ns, &t);
		n = epoll_pwait2(h->epoll_fd, events, EVENTS_MAX,
				 timed ? &t : NULL, NULL);
		if (n < 0 && errno != EINTR)
			die("epoll: %s", strerror(errno));
		for (int i = 0; i < n && !h->stop; i++) {
			struct hconn *c = events[i].data.ptr;

			if (events[i].events & EPOLLOUT)
				flush(c, true);
			if (events[i].events & ~(uint32_t)EPOLLOUT)
				receive(c);
		}
	}
}

/* --- reading an answer --- */

void answer_expect(const struct answer *a, int status)
{
	if (a->status != status)
		die("status %d instead of %d: %.*s", a->status, status,
		    STR_ARG(a->body));
}

static bool find_value(const struct answer *a, const char *name,
		       struct str *ret)
{
	char key[64];
	int n = snprintf(key, sizeof(key), "\"%s\":", name);
	const char *at = memmem(a->body.p, a->body.n, key, (size_t)n);

	if (at == NULL)
		return false;
	*ret = str_skip(a->body, (size_t)(at - a->body.p) + (size_t)n);
	return true;
}

bool answer_text(const struct answer *a, const char *name, struct str *ret)
{
	struct str tail, quoted;

	if (!find_value(a, name, &quoted) || quoted.n == 0 ||
	    quoted.p[0] != '"')
		return false;
	return str_split(str_skip(quoted, 1), '"', ret, &tail);
}

bool answer_number(const struct answer *a, const char *name, uint64_t *ret)
{
	struct str v;
	size_t n = 0;

	if (!find_value(a, name, &v))
		return false;
	while (n < v.n && v.p[n] >= '0' && v.p[n] <= '9')
		n++;
	return str_parse_u64(str_of(v.p, n), ret);
}
