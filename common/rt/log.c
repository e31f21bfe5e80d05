/*
 * Log lines. The only state is the level, the form and the two names, all set
 * at start; lines are built on the caller's side and leave by one write(2).
 */
#include "rt/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "util/buf.h"
#include "util/clock.h"
#include "util/json.h"

/* A line on a pipe stays whole up to PIPE_BUF (4096) bytes. */
#define LOG_MESSAGE_BYTES 3500
#define LOG_NAME_BYTES    80

static struct {
	atomic_int level;
	atomic_bool json;
	char proc[LOG_NAME_BYTES];
	char node[LOG_NAME_BYTES];
} state = { .level = LOG_INFO, .proc = "corvo", .node = "-" };

static const char *const level_names[] = {
	[LOG_DEBUG] = "debug",
	[LOG_INFO] = "info",
	[LOG_WARN] = "warn",
	[LOG_ERROR] = "error",
};

void log_init(const char *proc, const char *node)
{
	(void)snprintf(state.proc, sizeof(state.proc), "%s", proc);
	(void)snprintf(state.node, sizeof(state.node), "%s", node);
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
	for (size_t i = 0; i < msg.n; i++) {
		unsigned char c = (unsigned char)msg.p[i];

		if (c == '\n')
			buf_puts(b, "\\n");
		else if (c < 0x20 || c == 0x7f)
			buf_printf(b, "\\x%02x", c);
		else
			buf_putc(b, (char)c);
	}
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

void log_write(enum log_level l, const char *fmt, ...)
{
	_cleanup_(buf_done) struct buf line = BUF_INIT(0);
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

	if (atomic_load_explicit(&state.json, memory_order_relaxed)) {
		force_utf8(msg, (size_t)n);
		put_json(&line, l, str_of(msg, (size_t)n));
	} else {
		put_text(&line, l, str_of(msg, (size_t)n));
	}
	buf_putc(&line, '\n');

	/* A line that cannot be written is lost: logging never stops work. */
	while (write(STDERR_FILENO, line.p, line.n) < 0 && errno == EINTR)
		;
	errno = saved_errno;
}
