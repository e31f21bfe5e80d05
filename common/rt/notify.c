/*
 * The child's end of the supervisor's socket pair, and sd_notify by hand:
 * the protocol is one datagram of text, which is not worth a library.
 */
#include "rt/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "util/clock.h"

#define NOTIFY_LINE_BYTES 240
/* Beats per watchdog period: three may be lost before it matters. */
#define NOTIFY_BEATS    4
#define BEAT            "WATCHDOG=1"
#define SYSTEMD_WAIT_MS 1000

/* Takes a number out of the environment; 0 when absent or not a number. */
static uint64_t take_env_u64(const char *name)
{
	const char *text = getenv(name);
	uint64_t v = 0;

	if (text != NULL && !str_parse_u64(str_from(text), &v))
		v = 0;
	(void)unsetenv(name);
	return v;
}

static int take_supervisor_fd(void)
{
	uint64_t fd = take_env_u64("CORVO_NOTIFY_FD");
	int flags;

	if (fd <= STDERR_FILENO || fd > INT32_MAX)
		return -1;
	flags = fcntl((int)fd, F_GETFL);
	if (flags < 0)
		return -1;
	(void)fcntl((int)fd, F_SETFL, flags | O_NONBLOCK);
	(void)fcntl((int)fd, F_SETFD, FD_CLOEXEC);
	return (int)fd;
}

static int take_systemd_fd(void)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	size_t n;
	int fd;

	if (path == NULL)
		return -1;
	n = strlen(path);
	if (n < 2 || n >= sizeof(sa.sun_path) ||
	    (path[0] != '/' && path[0] != '@'))
		return -1;
	memcpy(sa.sun_path, path, n);
	if (path[0] == '@') /* the abstract name space */
		sa.sun_path[0] = '\0';
	(void)unsetenv("NOTIFY_SOCKET");

	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	if (connect(fd, (struct sockaddr *)&sa,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)) <
	    0) {
		(void)close(fd);
		return -1;
	}
	return fd;
}

/* systemd names the process it means, because the variable is inherited. */
static uint64_t take_systemd_watchdog_ns(void)
{
	uint64_t pid = take_env_u64("WATCHDOG_PID");
	uint64_t us = take_env_u64("WATCHDOG_USEC");

	if (pid != 0 && pid != (uint64_t)getpid())
		return 0;
	return us < UINT64_MAX / NS_PER_US ? us * NS_PER_US : 0;
}

void notify_init(struct notify *n)
{
	uint64_t ms = take_env_u64("CORVO_WATCHDOG_MS");
	uint64_t node_ns = take_env_u64("CORVO_NODE_STARTED_NS");
	uint64_t now_ns = clock_mono_ns();
	uint64_t timeout_ns = 0;

	*n = (struct notify){ .supervisor_fd = take_supervisor_fd(),
			      .systemd_fd = take_systemd_fd(),
			      .settings_fd = -1 };
	if (n->supervisor_fd >= 0)
		timeout_ns = ms < UINT64_MAX / NS_PER_MS ? ms * NS_PER_MS : 0;
	else if (n->systemd_fd >= 0)
		timeout_ns = take_systemd_watchdog_ns();
	n->watchdog_ns = timeout_ns / NOTIFY_BEATS;
	n->node_started_ns = now_ns;
	if (n->supervisor_fd >= 0 && node_ns > 0 && node_ns < now_ns)
		n->node_started_ns = node_ns;
}

void notify_done(struct notify *n)
{
	if (n->supervisor_fd >= 0)
		(void)close(n->supervisor_fd);
	if (n->systemd_fd >= 0)
		(void)close(n->systemd_fd);
	*n = (struct notify){ .supervisor_fd = -1,
			      .systemd_fd = -1,
			      .settings_fd = -1 };
}

static bool send_words(int fd, const char *words)
{
	return send(fd, words, strlen(words), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

static int join(char *to, size_t room, const char *words, const char *before)
{
	return snprintf(to, room, "%s%s%s", words, *before != '\0' ? "\n" : "",
			before);
}

/* When there are too many words: they alone come again and again. */
static void drop_statuses(char *text)
{
	char *to = text;

	for (char *line = text; *line != '\0';) {
		size_t n = strcspn(line, "\n");
		bool last = line[n] == '\0';

		if (strncmp(line, "STATUS=", 7) != 0) {
			if (to > text)
				*to++ = '\n';
			memmove(to, line, n);
			to += n;
		}
		line += last ? n : n + 1;
	}
	*to = '\0';
}

void sd_notify_send(struct notify *n, const char *words)
{
	struct pollfd room = { .fd = n->systemd_fd, .events = POLLOUT };
	char all[2 * NOTIFY_UNSENT_BYTES];
	int len;

	if (n->systemd_fd < 0)
		return;
	/* The newest first: of several STATUS= systemd takes that one. */
	len = join(all, sizeof(all), words, n->unsent);
	/* Without beats there may be no next ones. */
	if (n->watchdog_ns == 0)
		(void)poll(&room, 1, SYSTEMD_WAIT_MS);
	if (send_words(n->systemd_fd, all)) {
		n->unsent[0] = '\0';
		return;
	}
	if (errno != EAGAIN || strcmp(words, BEAT) == 0)
		return;
	if (len >= (int)sizeof(n->unsent)) {
		drop_statuses(n->unsent);
		len = join(all, sizeof(all), words, n->unsent);
	}
	if (len < (int)sizeof(n->unsent))
		memcpy(n->unsent, all, (size_t)len + 1);
}

/*
 * A line that does not fit in the socket is dropped: the reader is stuck
 * then, and a process must not hang because its supervisor does.
 */
static void send_line(struct notify *n, const char *words)
{
	char line[NOTIFY_LINE_BYTES + 2];
	int len;

	sd_notify_send(n, words);
	if (n->supervisor_fd < 0)
		return;
	len = snprintf(line, sizeof(line), "%s\n", words);
	if (len > 0 && (size_t)len < sizeof(line))
		(void)send(n->supervisor_fd, line, (size_t)len,
			   MSG_NOSIGNAL | MSG_DONTWAIT);
}

void notify_ready(struct notify *n)
{
	send_line(n, "READY=1");
}

void notify_stopping(struct notify *n)
{
	send_line(n, "STOPPING=1");
}

void notify_watchdog(struct notify *n)
{
	send_line(n, BEAT);
}

void notify_status(struct notify *n, const char *fmt, ...)
{
	char words[NOTIFY_LINE_BYTES] = "STATUS=";
	size_t at = strlen(words);
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(words + at, sizeof(words) - at, fmt, ap);
	va_end(ap);
	for (char *p = words; *p != '\0'; p++)
		if (*p == '\n')
			*p = ' ';
	send_line(n, words);
}

/* Takes the next whole line out of what was received. */
static bool next_line(struct notify *n, struct str *ret_line)
{
	char *end;

	memmove(n->in, n->in + n->in_used, n->in_n - n->in_used);
	n->in_n -= n->in_used;
	n->in_used = 0;

	end = memchr(n->in, '\n', n->in_n);
	if (end == NULL)
		return false;
	*ret_line = str_of(n->in, (size_t)(end - n->in));
	n->in_used = ret_line->n + 1;
	return true;
}

static void take_settings_fd(const struct notify *n, struct msghdr *m)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(m);
	int fd;

	if (c == NULL || c->cmsg_level != SOL_SOCKET ||
	    c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(sizeof(fd)))
		return;
	memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	if (n->settings_fd >= 0)
		(void)dup3(fd, n->settings_fd, O_CLOEXEC);
	(void)close(fd);
}

static ssize_t receive(struct notify *n)
{
	struct iovec room = { n->in + n->in_n, sizeof(n->in) - n->in_n };
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr m = { .msg_iov = &room,
			    .msg_iovlen = 1,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control) };
	ssize_t got;

	do
		got = recvmsg(n->supervisor_fd, &m,
			      MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	if (got > 0)
		take_settings_fd(n, &m);
	return got;
}

int notify_receive(struct notify *n, struct str *ret_line)
{
	ssize_t got;

	if (n->supervisor_fd < 0)
		return 0;
	if (next_line(n, ret_line))
		return 1;
	/* No word of the protocol is that long; forget it. */
	if (n->in_n == sizeof(n->in))
		n->in_n = 0;

	got = receive(n);
	if (got == 0)
		return -1;
	if (got < 0)
		return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
	n->in_n += (size_t)got;
	return next_line(n, ret_line) ? 1 : 0;
}
