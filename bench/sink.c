/*
 * A receiver of calls for push.py and exact.py: answers each POST with 204 on
 * many addresses at once, and writes down when each came. A third of a core
 * takes what a node can send, which no server in Python does.
 *
 *   sink PORT HOSTS [SILENT] [LATE]
 *
 * listens on PORT of HOSTS addresses from 127.0.1.1 on. The address of number
 * SILENT never answers, that of LATE answers after ten seconds; -1: none. "t"
 * in a body is a moment in nanoseconds. When standard input ends it prints a
 * line per call, "arrived host t id", and ends.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/base.h"
#include "util/buf.h"
#include "util/clock.h"
#include "util/list.h"

#define LATE_NS   (10 * NS_PER_S)
#define ID_BYTES  72
#define READ_MAX  65536
#define HOSTS_MAX 4096

struct conn {
	struct list late; /* answers that wait, oldest first */
	int fd;
	int host;
	bool listens;
	uint64_t due_ns; /* monotonic: of the answer that waits */
	struct buf in;
};

static int epoll_fd, silent = -1, late = -1;
static struct list waiting;
static struct buf lines;

static const char answer[] = "HTTP/1.1 204 No Content\r\n\r\n";

static void add(int fd, int host, bool listens)
{
	struct conn *c = xcalloc(1, sizeof(*c));
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = c };

	c->fd = fd;
	c->host = host;
	c->listens = listens;
	list_init(&c->late);
	CHECK(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e) == 0);
}

static void drop(struct conn *c)
{
	list_remove(&c->late);
	close(c->fd);
	buf_done(&c->in);
	free(c);
}

static void listen_on(int host, uint16_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;

	a.sin_addr.s_addr = htonl(0x7f000101u + (uint32_t)(host / 200) * 256 +
				  (uint32_t)(host % 200));
	CHECK(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    listen(fd, 1024) < 0) {
		perror("sink");
		exit(1);
	}
	add(fd, host, true);
}

/* --- requests --- */

static struct str header(struct str head, const char *name)
{
	const char *at = head.p, *end = head.p + head.n, *line;
	size_t n = strlen(name);

	while (at < end && (line = memchr(at, '\n', (size_t)(end - at)))) {
		if ((size_t)(line - at) > n + 1 &&
		    strncasecmp(at, name, n) == 0 && at[n] == ':')
			return str_trim(
			    str_of(at + n + 1, (size_t)(line - at) - n - 1));
		at = line + 1;
	}
	return STR_NULL;
}

static void note(const struct conn *c, struct str head, struct str body)
{
	struct str id = header(head, "webhook-id");
	const char *t = memmem(body.p, body.n, "\"t\":", 4);
	unsigned long long moment = 0;

	if (t != NULL)
		moment = strtoull(t + 4, NULL, 10);
	buf_printf(&lines, "%llu %d %llu %.*s\n",
		   (unsigned long long)clock_wall_ns(), c->host, moment,
		   (int)MIN(id.n, (size_t)ID_BYTES), id.p);
}

static bool reply(struct conn *c)
{
	return write(c->fd, answer, sizeof(answer) - 1) ==
	       (ssize_t)sizeof(answer) - 1;
}

/* One request off the front: 1, 0: it is not whole yet, -1: no more of it. */
static int take_request(struct conn *c)
{
	char *end =
	    c->in.n > 3 ? memmem(c->in.p, c->in.n, "\r\n\r\n", 4) : NULL;
	struct str head, length;
	uint64_t n = 0;
	size_t all;

	if (end == NULL)
		return c->in.n > READ_MAX ? -1 : 0;
	head = str_of(c->in.p, (size_t)(end - c->in.p) + 2);
	length = header(head, "content-length");
	if (length.n > 0 && !str_parse_u64(length, &n))
		return -1;
	all = head.n + 2 + n;
	if (c->in.n < all)
		return 0;
	note(c, head, str_of(c->in.p + head.n + 2, n));
	memmove(c->in.p, c->in.p + all, c->in.n - all);
	c->in.n -= all;
	if (c->host == silent)
		return 1;
	if (c->host == late) {
		c->due_ns = clock_mono_ns() + LATE_NS;
		list_remove(&c->late);
		list_push_back(&waiting, &c->late);
		return 1;
	}
	return reply(c) ? 1 : -1;
}

static void on_readable(struct conn *c)
{
	char bytes[READ_MAX];
	ssize_t n = read(c->fd, bytes, sizeof(bytes));
	int r = 1;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		drop(c);
		return;
	}
	buf_append(&c->in, bytes, (size_t)n);
	while (r > 0)
		r = take_request(c);
	if (r < 0)
		drop(c);
}

static void on_newcomer(const struct conn *c)
{
	int fd;

	while ((fd = accept4(c->fd, NULL, NULL, SOCK_NONBLOCK)) >= 0)
		add(fd, c->host, false);
}

/* --- all of it --- */

static int answer_late(void)
{
	while (!list_empty(&waiting)) {
		struct conn *c = list_entry(waiting.next, struct conn, late);
		uint64_t now_ns = clock_mono_ns();

		if (c->due_ns > now_ns)
			return (int)((c->due_ns - now_ns) / NS_PER_MS) + 1;
		list_remove(&c->late);
		(void)reply(c);
	}
	return -1;
}

static void serve(void)
{
	struct epoll_event events[256], e = { .events = EPOLLIN };

	CHECK(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, STDIN_FILENO, &e) == 0);
	for (;;) {
		int n = epoll_wait(epoll_fd, events, 256, answer_late());

		for (int i = 0; i < n; i++) {
			struct conn *c = events[i].data.ptr;

			if (c == NULL)
				return; /* standard input has ended */
			if (c->listens)
				on_newcomer(c);
			else
				on_readable(c);
		}
	}
}

static int number(const char *text)
{
	uint64_t n;

	if (strcmp(text, "-1") == 0)
		return -1;
	if (!str_parse_u64(str_from(text), &n) || n > UINT16_MAX) {
		fprintf(stderr, "sink: %s is no such number\n", text);
		exit(2);
	}
	return (int)n;
}

int main(int argc, char **argv)
{
	struct rlimit files;
	int hosts;

	if (argc < 3 || (hosts = number(argv[2])) < 1 || hosts > HOSTS_MAX) {
		fprintf(stderr, "sink PORT HOSTS [SILENT] [LATE]\n");
		return 2;
	}
	if (argc > 3)
		silent = number(argv[3]);
	if (argc > 4)
		late = number(argv[4]);
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	list_init(&waiting);
	epoll_fd = epoll_create1(0);
	for (int i = 0; i < hosts; i++)
		listen_on(i, (uint16_t)number(argv[1]));
	printf("ready\n");
	fflush(stdout);
	serve();
	fwrite(lines.p, 1, lines.n, stdout);
	fflush(stdout); /* a sanitizer may end us before the library does */
	buf_done(&lines);
	return 0;
}
