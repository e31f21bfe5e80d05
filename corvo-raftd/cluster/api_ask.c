#include "cluster/api_ask.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/err.h"
#include "rt/netaddr.h"
#include "util/clock.h"
#include "util/json.h"

#define ASK_NS       (3 * NS_PER_S) /* in all */
#define ANSWER_BYTES (1u << 20)
#define READ_BYTES   (16u << 10)
#define DEPTH_MAX    16
#define PATH         "/api/v1/cluster/status"

struct str api_authority(struct str url)
{
	if (!str_starts(url, STR("http://")))
		return STR_NULL;
	url = str_skip(url, strlen("http://"));
	if (url.n > 0 && url.p[url.n - 1] == '/')
		url.n--;
	return memchr(url.p, '/', url.n) == NULL ? url : STR_NULL;
}

static int refuse(struct str authority, const char *what, struct buf *why)
{
	buf_printf(why, "http://%.*s %s", STR_ARG(authority), what);
	return -ERR_NOT_FOUND;
}

/* --- the answer --- */

static int read_rows(struct str authority, struct json nodes, struct found *ret,
		     struct buf *why)
{
	struct json_iter it = json_iter(nodes);
	struct arena a = ARENA_INIT;
	size_t before = ret->n;
	struct json row, address;

	while (json_next_item(&it, &row))
		if (json_type_of(row) == JSON_OBJECT &&
		    json_member(row, "address", &a, &address) &&
		    json_type_of(address) == JSON_STRING)
			found_add(ret, json_string(address, &a));
	arena_done(&a);
	return ret->n > before
		   ? 0
		   : refuse(authority, "is a node that knows no others", why);
}

static int read_body(struct str authority, struct str body, struct found *ret,
		     struct buf *why)
{
	struct arena a = ARENA_INIT;
	struct json_error bad;
	struct json nodes;
	int r;

	if (json_validate(body, DEPTH_MAX, &bad) &&
	    json_type_of(json_root(body)) == JSON_OBJECT &&
	    json_member(json_root(body), "nodes", &a, &nodes) &&
	    json_type_of(nodes) == JSON_ARRAY)
		r = read_rows(authority, nodes, ret, why);
	else
		r = refuse(authority, "does not answer as a node does", why);
	arena_done(&a);
	return r;
}

int api_read_nodes(struct str authority, struct str answer, struct found *ret,
		   struct buf *why)
{
	const char *end = memmem(answer.p, answer.n, "\r\n\r\n", 4);
	char status[64];

	if (end == NULL || answer.n < 12 ||
	    !str_starts(answer, STR("HTTP/1.")) || answer.p[8] != ' ')
		return refuse(authority, "does not answer as a node does", why);
	if (memcmp(answer.p + 9, "200", 3) != 0) {
		(void)snprintf(status, sizeof(status),
			       "answers %.3s, not as a node that can be asked",
			       answer.p + 9);
		return refuse(authority, status, why);
	}
	end += 4;
	return read_body(authority,
			 str_of(end, answer.n - (size_t)(end - answer.p)), ret,
			 why);
}

/* --- the way there --- */

/* Waits for the socket; false: time is up. */
static bool wait_for(int fd, short events, uint64_t end_ns)
{
	struct pollfd p = { .fd = fd, .events = events };
	uint64_t now = clock_mono_ns();

	return now < end_ns &&
	       poll(&p, 1, (int)((end_ns - now) / NS_PER_MS) + 1) > 0;
}

/* A connected descriptor, or -errno. */
static int connect_to(const struct netaddr *a, uint64_t end_ns)
{
	int fd = socket(a->sa.ss_family,
			SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int err = 0;
	socklen_t n = sizeof(err);

	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)&a->sa, a->len) == 0)
		return fd;
	if (errno != EINPROGRESS)
		err = errno;
	else if (!wait_for(fd, POLLOUT, end_ns))
		err = ETIMEDOUT;
	else
		(void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &n);
	if (err == 0)
		return fd;
	(void)close(fd);
	return -err;
}

/* Any of its addresses. */
static int dial(struct str authority, uint64_t end_ns, struct buf *why)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	struct netaddr all[LIMIT_PEER_ADDRESSES];
	size_t n;
	int fd = -ECONNREFUSED;

	buf_put_str(&text, authority);
	buf_putc(&text, '\0');
	if (netaddr_resolve(text.p, false, all, ARRAY_SIZE(all), &n, why) < 0)
		return -ERR_NOT_FOUND;
	for (size_t i = 0; i < n && fd < 0; i++)
		fd = connect_to(&all[i], end_ns);
	if (fd >= 0)
		return fd;
	buf_printf(why, "http://%s cannot be asked: %s", text.p, strerror(-fd));
	return -ERR_NOT_FOUND;
}

/* What can be sent at once is little enough to be taken. */
static bool send_question(int fd, struct str authority)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	buf_printf(&b,
		   "GET " PATH " HTTP/1.1\r\nHost: %.*s\r\n"
		   "Accept: application/json\r\nConnection: close\r\n\r\n",
		   STR_ARG(authority));
	return send(fd, b.p, b.n, MSG_NOSIGNAL) == (ssize_t)b.n;
}

/* All of it, to the end of the connection; false: too late, or too much. */
static bool receive(int fd, uint64_t end_ns, struct buf *ret)
{
	char bytes[READ_BYTES];

	for (;;) {
		ssize_t n = recv(fd, bytes, sizeof(bytes), 0);

		if (n == 0)
			return !ret->full;
		if (n > 0)
			buf_append(ret, bytes, (size_t)n);
		else if (errno != EAGAIN && errno != EINTR)
			return false;
		if (ret->full || (n < 0 && !wait_for(fd, POLLIN, end_ns)) ||
		    clock_mono_ns() >= end_ns)
			return false;
	}
}

int api_ask_nodes(struct str authority, struct found *ret, struct buf *why)
{
	_cleanup_(buf_done) struct buf answer = BUF_INIT(ANSWER_BYTES);
	uint64_t end_ns = clock_mono_ns() + ASK_NS;
	int fd = dial(authority, end_ns, why);
	bool whole;

	if (fd < 0)
		return fd;
	whole = send_question(fd, authority) && receive(fd, end_ns, &answer);
	(void)close(fd);
	if (!whole)
		return refuse(authority,
			      "gives too much of an answer, or too late", why);
	return api_read_nodes(authority, buf_str(&answer), ret, why);
}
