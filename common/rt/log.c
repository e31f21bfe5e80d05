/*
 * Log lines. The only state is the level, the form, the two names and where
 * lines go, all set at start; lines are built on the caller's side and leave
 * by one write(2).
 */
#include "rt/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "util/buf.h"
#include "util/clock.h"
#include "util/json.h"

/* A line on a pipe stays whole, and is taken whole or not at all, up to
 * PIPE_BUF (4096) bytes. */
#define LOG_LINE_BYTES    PIPE_BUF
#define LOG_MESSAGE_BYTES 3500
#define LOG_NAME_BYTES    80

/*
 * How a line is written without ever waiting. O_NONBLOCK belongs to the open
 * file, which a terminal and a pipe share with our parent and others: it is
 * never set on the one we were given.
 */
enum sink {
	SINK_POLL,   /* write when poll says so: the last resort, see below */
	SINK_FILE,   /* writes of a file do not wait for a reader */
	SINK_OWN,    /* the pipe or terminal, opened again for us alone */
	SINK_SOCKET, /* the journal of systemd: a flag of each send */
	SINK_NOWAIT, /* a flag of each write, for pipes since Linux 6.4 */
};

static struct {
	atomic_int level;
	atomic_bool json;
	char proc[LOG_NAME_BYTES];
	char node[LOG_NAME_BYTES];
	enum sink sink;
	int fd;
	atomic_bool torn;              /* the last line was cut */
	atomic_uint_least64_t unsaid;  /* lines dropped, not told yet */
	atomic_uint_least64_t dropped; /* in all */
} state = {
	.level = LOG_INFO, .proc = "corvo", .node = "-", .fd = STDERR_FILENO
};

static const char *const level_names[] = {
	[LOG_DEBUG] = "debug",
	[LOG_INFO] = "info",
	[LOG_WARN] = "warn",
	[LOG_ERROR] = "error",
};

/* --- where lines go --- */

/*
 * Opened anew, a pipe or terminal is ours alone. That is refused when another
 * user made it: somebody who gave up rights after it was made.
 */
static int open_again(void)
{
	return open("/proc/self/fd/2",
		    O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

static enum sink find_sink(int *ret_fd)
{
	struct stat st;

	*ret_fd = STDERR_FILENO;
	if (fstat(STDERR_FILENO, &st) < 0)
		return SINK_POLL;
	if (S_ISSOCK(st.st_mode))
		return SINK_SOCKET;
	if (!S_ISFIFO(st.st_mode) && !isatty(STDERR_FILENO))
		return SINK_FILE;
	*ret_fd = open_again();
	if (*ret_fd >= 0)
		return SINK_OWN;
	*ret_fd = STDERR_FILENO;
	return S_ISFIFO(st.st_mode) ? SINK_NOWAIT : SINK_POLL;
}

void log_init(const char *proc, const char *node)
{
	(void)snprintf(state.proc, sizeof(state.proc), "%s", proc);
	(void)snprintf(state.node, sizeof(state.node), "%s", node);
	if (state.sink == SINK_OWN)
		(void)close(state.fd);
	state.sink = find_sink(&state.fd);
}

int log_fd(void)
{
	return state.fd;
}

/*
 * Between poll and write another process may take the room: then we wait for
 * the reader after all. Only where nothing better works.
 */
static ssize_t write_polled(struct str s)
{
	struct pollfd p = { .fd = state.fd, .events = POLLOUT };

	if (poll(&p, 1, 0) <= 0 || (p.revents & POLLOUT) == 0) {
		errno = EAGAIN;
		return -1;
	}
	return write(state.fd, s.p, s.n);
}

static ssize_t write_nowait(struct str s)
{
	struct iovec iov = { (void *)s.p, s.n };
	ssize_t n = pwritev2(state.fd, &iov, 1, -1, RWF_NOWAIT);

	return n < 0 && errno == EOPNOTSUPP ? write_polled(s) : n;
}

static ssize_t write_once(struct str s)
{
	switch (state.sink) {
	case SINK_FILE:
	case SINK_OWN:
		return write(state.fd, s.p, s.n);
	case SINK_SOCKET:
		return send(state.fd, s.p, s.n, MSG_DONTWAIT | MSG_NOSIGNAL);
	case SINK_NOWAIT:
		return write_nowait(s);
	case SINK_POLL:
		break;
	}
	return write_polled(s);
}

/* False when the line was not taken, or not whole. */
static bool put_line(struct str line)
{
	ssize_t n;

	/* Terminals and sockets take parts; what follows begins anew. */
	if (atomic_load_explicit(&state.torn, memory_order_relaxed)) {
		if (write_once(STR("\n")) != 1)
			return false;
		atomic_store_explicit(&state.torn, false, memory_order_relaxed);
	}
	do
		n = write_once(line);
	while (n < 0 && errno == EINTR);
	if (n > 0 && (size_t)n < line.n)
		atomic_store_explicit(&state.torn, true, memory_order_relaxed);
	return n == (ssize_t)line.n;
}

void log_set_level(enum log_level l)
{
	atomic_store_explicit(&state.level, (int)l, memory_order_relaxed);
}

enum log_level log_get_level(void)
{
	return (enum log_level)atomic_load_explicit(&state.level,
						    memory_order_relaxed);
}

void log_set_json(bool json)
{
	atomic_store_explicit(&state.json, json, memory_order_relaxed);
}

bool log_level_parse(struct str s, enum log_level *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(level_names); i++) {
		if (str_is(s, level_names[i])) {
			*ret = (enum log_level)i;
			return true;
		}
	}
	return false;
}

const char *log_level_name(enum log_level l)
{
	CHECK((size_t)l < ARRAY_SIZE(level_names));
	return level_names[l];
}

static void put_time(struct buf *b)
{
	uint64_t ns = clock_wall_ns();
	time_t s = (time_t)(ns / NS_PER_S);
	struct tm tm;

	/* Always three digits of the second, so that columns line up. */
	(void)gmtime_r(&s, &tm);
	buf_printf(b, "%04d-%02d-%02dT%02d:%02d:%02d.%03uZ", tm.tm_year + 1900,
		   tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
		   (unsigned)(ns % NS_PER_S / NS_PER_MS));
}

/*
 * Messages quote outside data: a control byte must neither end the line nor
 * reach a terminal.
 */
static void put_text_message(struct buf *b, struct str msg)
{
	struct str line;

	while (str_split(msg, '\n', &line, &msg)) {
		buf_put_clean(b, line, "");
		buf_puts(b, "\\n");
	}
	buf_put_clean(b, line, "");
}

static void put_text(struct buf *b, enum log_level l, struct str msg)
{
	put_time(b);
	buf_printf(b, " %s %s %s ", log_level_name(l), state.proc, state.node);
	put_text_message(b, msg);
}

static void put_json(struct buf *b, enum log_level l, struct str msg)
{
	struct json_writer w = JSON_WRITER(b);
	_cleanup_(buf_done) struct buf when = BUF_INIT(64);

	put_time(&when);
	jw_object(&w);
	jw_key(&w, "time");
	jw_str(&w, buf_str(&when));
	jw_key(&w, "level");
	jw_cstr(&w, log_level_name(l));
	jw_key(&w, "proc");
	jw_cstr(&w, state.proc);
	jw_key(&w, "node");
	jw_cstr(&w, state.node);
	jw_key(&w, "msg");
	jw_str(&w, msg);
	jw_object_end(&w);
}

/* JSON must be UTF-8; a message may quote bytes that are not, or be cut. */
static void force_utf8(char *p, size_t n)
{
	if (str_is_utf8(str_of(p, n)))
		return;
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)p[i] >= 0x80)
			p[i] = '?';
}

static void build(struct buf *line, enum log_level l, char *msg, size_t n)
{
	if (atomic_load_explicit(&state.json, memory_order_relaxed)) {
		force_utf8(msg, n);
		put_json(line, l, str_of(msg, n));
	} else {
		put_text(line, l, str_of(msg, n));
	}
	buf_putc(line, '\n');
}

static bool put_message(enum log_level l, char *msg, size_t n)
{
	_cleanup_(buf_done) struct buf line = BUF_INIT(0);

	/* Escapes make a line longer than its message. */
	for (;; n /= 2) {
		buf_clear(&line);
		build(&line, l, msg, n);
		if (line.n <= LOG_LINE_BYTES)
			return put_line(buf_str(&line));
	}
}

void log_settle(void)
{
	uint64_t n = atomic_exchange(&state.unsaid, 0);
	int saved_errno = errno;
	char msg[80];
	int len;

	if (n == 0)
		return;
	len = snprintf(msg, sizeof(msg),
		       "log lines were dropped, nobody read them: %llu",
		       (unsigned long long)n);
	if (!put_message(LOG_WARN, msg, (size_t)len))
		(void)atomic_fetch_add(&state.unsaid, n);
	errno = saved_errno;
}

uint64_t log_dropped(void)
{
	return atomic_load(&state.dropped);
}

void log_write(enum log_level l, const char *fmt, ...)
{
	char msg[LOG_MESSAGE_BYTES];
	int saved_errno = errno;
	va_list ap;
	int n;

	if (l < log_get_level())
		return;

	va_start(ap, fmt);
	n = vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	if (n < 0)
		n = 0;
	if ((size_t)n >= sizeof(msg))
		n = (int)sizeof(msg) - 1;

	/* Lines stay in order: first what is missing before this one. */
	log_settle();
	if (atomic_load(&state.unsaid) > 0 || !put_message(l, msg, (size_t)n)) {
		(void)atomic_fetch_add(&state.unsaid, 1);
		(void)atomic_fetch_add(&state.dropped, 1);
	}
	errno = saved_errno;
}

void log_plain(const char *fmt, ...)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	_cleanup_(buf_done) struct buf line = BUF_INIT(0);
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	buf_put_clean(&line, buf_str(&text), "\n\t");
	line.n = MIN(line.n, (size_t)LOG_LINE_BYTES - 1);
	buf_putc(&line, '\n');
	(void)put_line(buf_str(&line));
}
