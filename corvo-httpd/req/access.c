/*
 * The access log. See req/access.h.
 */
#include "req/access.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "rt/log.h"
#include "util/clock.h"

#define GATHERED_MAX (1u << 20)
#define STATUS_LEFT  499 /* the client left before it was answered */
#define ACCESS_MODE  0640

struct access {
	const struct settings *set;
	int fd; /* -1: none */
	bool to_log, json;
	struct buf lines;
	uint64_t lines_n;
	uint64_t dropped; /* lines, since that was told last */
	bool failing;
};

static int open_file(const char *path)
{
	return open(path,
		    O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
		    ACCESS_MODE);
}

struct access *access_new(const struct settings *set, struct buf *why)
{
	struct access *a = xcalloc(1, sizeof(*a));
	struct str where = str_from(set->access_log);

	a->set = set;
	a->fd = -1;
	a->json = str_is(str_from(set->access_log_format), "json");
	a->to_log = str_is(where, "log");
	a->lines.max = GATHERED_MAX;
	if (where.n == 0 || a->to_log)
		return a;
	a->fd = open_file(set->access_log);
	if (a->fd >= 0)
		return a;
	buf_printf(why, "access_log: cannot write %s: %s", set->access_log,
		   strerror(errno));
	free(a);
	return NULL;
}

void access_free(struct access *a)
{
	if (a == NULL)
		return;
	access_flush(a);
	if (a->fd >= 0)
		(void)close(a->fd);
	buf_done(&a->lines);
	free(a);
}

void access_reopen(struct access *a)
{
	int fd;

	if (a->fd < 0)
		return;
	access_flush(a);
	fd = open_file(a->set->access_log);
	if (fd < 0) {
		log_error("access_log: cannot open %s anew, the file that is "
			  "open goes on: %m",
			  a->set->access_log);
		return;
	}
	(void)close(a->fd);
	a->fd = fd;
}

/* --- a line --- */

struct line {
	char caller[IP_TEXT_BYTES];
	const char *method, *request_id, *protocol;
	struct str path;
	int status;
	size_t bytes;
	uint64_t us;
};

static void line_of(const struct req *r, struct line *ret)
{
	const struct exchange *x = &r->x;

	if (ip_is_none(&x->client))
		memcpy(ret->caller, "unix", sizeof("unix"));
	else
		ip_format(&x->client, ret->caller);
	ret->method = x->method != NULL ? x->method : "-";
	ret->request_id = x->request_id != NULL ? x->request_id : "-";
	ret->protocol = x->front->name;
	ret->path = x->path.n > 0 ? x->path : STR("-");
	ret->status = x->status != 0 ? x->status : STATUS_LEFT;
	ret->bytes = x->out.n;
	ret->us = (clock_mono_ns() - x->start_ns) / NS_PER_US;
}

/* RFC-like quoting of what a client wrote: nothing ends the line early. */
static void put_quoted(struct buf *b, struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if (c == '"' || c == '\\' || c < ' ' || c >= 0x7f)
			buf_printf(b, "\\x%02x", c);
		else
			buf_putc(b, (char)c);
	}
}

static void put_common(struct buf *b, const struct line *l)
{
	time_t now = (time_t)(clock_wall_ns() / NS_PER_S);
	char when[64];
	struct tm tm;

	CHECK(gmtime_r(&now, &tm) != NULL);
	CHECK(strftime(when, sizeof(when), "%d/%b/%Y:%H:%M:%S +0000", &tm) > 0);
	buf_printf(b, "%s - - [%s] \"", l->caller, when);
	put_quoted(b, str_from(l->method));
	buf_putc(b, ' ');
	put_quoted(b, l->path);
	buf_printf(b, " %s\" %d %zu\n", l->protocol, l->status, l->bytes);
}

static void put_json(struct buf *b, const struct line *l)
{
	struct json_writer w = JSON_WRITER(b);

	jw_object(&w);
	jw_key(&w, "time");
	jw_time(&w, clock_wall_ns());
	jw_key(&w, "caller");
	jw_cstr(&w, l->caller);
	jw_key(&w, "method");
	jw_cstr(&w, l->method);
	jw_key(&w, "path");
	jw_str(&w, l->path);
	jw_key(&w, "protocol");
	jw_cstr(&w, l->protocol);
	jw_key(&w, "status");
	jw_u64(&w, (uint64_t)l->status);
	jw_key(&w, "bytes");
	jw_u64(&w, l->bytes);
	jw_key(&w, "us");
	jw_u64(&w, l->us);
	jw_key(&w, "request_id");
	jw_cstr(&w, l->request_id);
	jw_object_end(&w);
	buf_putc(b, '\n');
}

static void put_line(struct access *a, const struct line *l)
{
	size_t before = a->lines.n;

	if (a->json)
		put_json(&a->lines, l);
	else
		put_common(&a->lines, l);
	if (!a->lines.full) {
		a->lines_n++;
		return;
	}
	a->lines.n = before;
	a->lines.full = false;
	a->dropped++;
}

void access_note(struct access *a, const struct req *r)
{
	bool debug = log_get_level() <= LOG_DEBUG;
	struct line l;

	if (a->fd < 0 && !a->to_log && !debug)
		return;
	line_of(r, &l);
	if (a->fd >= 0)
		put_line(a, &l);
	if (a->to_log || debug)
		log_write(a->to_log ? LOG_INFO : LOG_DEBUG,
			  "request method=%s path=%.*s status=%d us=%" PRIu64
			  " request_id=%s caller=%s",
			  l.method, STR_ARG(l.path), l.status, l.us,
			  l.request_id, l.caller);
}

void access_flush(struct access *a)
{
	ssize_t n;

	if (a->lines.n == 0)
		return;
	n = write(a->fd, a->lines.p, a->lines.n);
	if (n != (ssize_t)a->lines.n && !a->failing)
		log_warn("access_log: %s takes no more; lines are left out: %s",
			 a->set->access_log,
			 n < 0 ? strerror(errno) : "a part was written");
	a->failing = n != (ssize_t)a->lines.n;
	if (a->failing)
		a->dropped += a->lines_n;
	a->lines_n = 0;
	if (!a->failing && a->dropped > 0) {
		log_warn("access_log: %" PRIu64 " lines were left out",
			 a->dropped);
		a->dropped = 0;
	}
	buf_clear(&a->lines);
}
