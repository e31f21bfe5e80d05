/*
 * The seam to libsmartcols, which aligns columns by their width on screen. It
 * knows fewer characters than we do that a terminal must not have, so cells are
 * cleaned here. Its only failure is running out of memory, which ends the
 * program as it does everywhere.
 */
#include "out.h"

#include <inttypes.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <libsmartcols.h>

#define INDENT      2
#define BRIEF_BYTES 200

#define KIB 1024u

#define MINUTE      60u
#define HOUR        (60 * MINUTE)
#define DAY         (24 * HOUR)
#define MAX_SECONDS 1e15 /* what a uint64_t surely holds */

/*
 * Names are UTF-8 whatever language is set, and in a cron job none is. The
 * library goes on for ever about bytes that are no text in that language.
 * What is parsed stays in C. C.UTF-8 is part of the C library.
 */
void out_open(void)
{
	(void)setlocale(LC_CTYPE, "");
	if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
		CHECK(setlocale(LC_CTYPE, "C.UTF-8") != NULL);
}

static bool member_of(struct json object, const char *name, struct arena *a,
		      struct json *ret)
{
	return json_type_of(object) == JSON_OBJECT &&
	       json_member(object, name, a, ret) &&
	       json_type_of(*ret) != JSON_NULL;
}

void out_text(struct buf *b, struct json object, const char *member)
{
	struct arena a = ARENA_INIT;
	struct json v;

	if (member_of(object, member, &a, &v))
		buf_put_str(b, json_type_of(v) == JSON_STRING
				   ? json_string(v, &a)
				   : v.raw);
	arena_done(&a);
}

void out_brief(struct buf *b, struct json object, const char *member)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	struct str line, rest;
	bool cut;

	out_text(&text, object, member);
	cut = str_split(str_trim(buf_str(&text)), '\n', &line, &rest);
	if (line.n > BRIEF_BYTES) {
		cut = true;
		line.n = BRIEF_BYTES;
		/* not inside a character */
		while (line.n > 0 && (line.p[line.n] & 0xc0) == 0x80)
			line.n--;
	}
	buf_put_str(b, str_trim(line));
	buf_puts(b, cut ? "..." : "");
}

/* Seconds are enough in a list: "2026-02-11T10:00:00Z". */
void out_time(struct buf *b, struct json object, const char *member)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	struct str head, fraction;

	out_text(&text, object, member);
	if (str_split(buf_str(&text), '.', &head, &fraction) &&
	    fraction.n > 0 && fraction.p[fraction.n - 1] == 'Z') {
		buf_put_str(b, head);
		buf_putc(b, 'Z');
		return;
	}
	buf_put_str(b, buf_str(&text));
}

void out_put_bytes(struct buf *b, uint64_t bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	double v = (double)bytes;
	size_t unit = 0;

	while (v >= KIB && unit + 1 < ARRAY_SIZE(units)) {
		v /= KIB;
		unit++;
	}
	buf_printf(b, unit == 0 ? "%.0f %s" : "%.1f %s", v, units[unit]);
}

void out_bytes(struct buf *b, struct json object, const char *member)
{
	struct arena a = ARENA_INIT;
	struct json v;
	uint64_t bytes;

	if (member_of(object, member, &a, &v) && json_u64(v, &bytes))
		out_put_bytes(b, bytes);
	arena_done(&a);
}

void out_put_seconds(struct buf *b, double s)
{
	uint64_t whole = (uint64_t)s;

	if (whole >= DAY)
		buf_printf(b, "%" PRIu64 "d%02" PRIu64 "h", whole / DAY,
			   whole % DAY / HOUR);
	else if (whole >= HOUR)
		buf_printf(b, "%" PRIu64 "h%02" PRIu64 "m", whole / HOUR,
			   whole % HOUR / MINUTE);
	else
		buf_printf(b, "%.1fs", s);
}

void out_seconds(struct buf *b, struct json object, const char *member)
{
	struct arena a = ARENA_INIT;
	struct json v;
	double s;

	if (member_of(object, member, &a, &v) && json_double(v, &s) && s >= 0 &&
	    s < MAX_SECONDS)
		out_put_seconds(b, s);
	arena_done(&a);
}

/* --- tables --- */

static void put_cell(struct libscols_line *line, size_t at,
		     const struct out_column *c, struct json object)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	_cleanup_(buf_done) struct buf clean = BUF_INIT(0);

	(c->cell != NULL ? c->cell : out_text)(&text, object, c->member);
	buf_put_clean(&clean, buf_str(&text), "");
	buf_putc(&clean, '\0');
	CHECK(scols_line_set_data(line, at, clean.p) == 0);
}

void out_table(struct json array, const struct out_column *columns, size_t n)
{
	struct libscols_table *t = scols_new_table();
	struct json_iter it = json_iter(array);
	struct json object;

	CHECK(t != NULL && scols_table_enable_noencoding(t, 1) == 0);
	for (size_t i = 0; i < n; i++)
		CHECK(scols_table_new_column(t, columns[i].title, 0,
					     columns[i].right ? SCOLS_FL_RIGHT
							      : 0) != NULL);
	while (json_next_item(&it, &object)) {
		struct libscols_line *line;

		if (json_type_of(object) != JSON_OBJECT)
			continue;
		line = scols_table_new_line(t, NULL);
		CHECK(line != NULL);
		for (size_t i = 0; i < n; i++)
			put_cell(line, i, &columns[i], object);
	}
	(void)scols_print_table(t); /* out_close sees a failed write */
	scols_unref_table(t);
}

/* --- JSON --- */

static void put_line(struct buf *b, size_t depth)
{
	buf_putc(b, '\n');
	for (size_t i = 0; i < depth * INDENT; i++)
		buf_putc(b, ' ');
}

/*
 * Copies a part of valid JSON. Below a space there are only those between its
 * tokens; all others may stand in a string as they are, and escaped they mean
 * the same.
 */
static void put_string(struct buf *b, struct str s)
{
	struct str plain = str_of(s.p, 0);

	while (s.n > 0) {
		size_t len = MAX(str_utf8_len(s), (size_t)1);
		uint32_t code = str_utf8_code(s, len);

		s = str_skip(s, len);
		if (code < ' ' || !str_is_order(code)) {
			plain.n += len;
			continue;
		}
		buf_put_str(b, plain);
		buf_printf(b, "\\u%04x", code);
		plain = str_of(s.p, 0);
	}
	buf_put_str(b, plain);
}

/* The end of the string that starts at p; the text is valid. */
static const char *string_end(const char *p, const char *end)
{
	for (p++; p < end && *p != '"'; p++)
		if (*p == '\\')
			p++;
	return MIN(p + 1, end);
}

static const char *skip_space(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r'))
		p++;
	return p;
}

/* Copies the token at p with the white space it wants; returns what follows. */
static const char *put_token(struct buf *b, const char *p, const char *end,
			     size_t *depth)
{
	const char *next;

	switch (*p) {
	case '"':
		next = string_end(p, end);
		put_string(b, str_of(p, (size_t)(next - p)));
		return next;
	case '{':
	case '[':
		buf_putc(b, *p);
		next = skip_space(p + 1, end);
		if (next < end && (*next == '}' || *next == ']')) {
			buf_putc(b, *next);
			return next + 1;
		}
		put_line(b, ++*depth);
		return next;
	case '}':
	case ']':
		put_line(b, --*depth);
		buf_putc(b, *p);
		return p + 1;
	case ',':
		buf_putc(b, ',');
		put_line(b, *depth);
		return p + 1;
	case ':':
		buf_puts(b, ": ");
		return p + 1;
	default:
		buf_putc(b, *p);
		return p + 1;
	}
}

void out_json(struct str json)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	const char *p = json.p, *end = json.p + json.n;
	size_t depth = 0;

	while ((p = skip_space(p, end)) < end)
		p = put_token(&b, p, end, &depth);
	buf_putc(&b, '\n');
	(void)fwrite(b.p, 1, b.n, stdout); /* out_close sees a failure */
}

void out_raw_json(struct str json)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	put_string(&b, json);
	(void)fwrite(b.p, 1, b.n, stdout);
}

/* --- lines --- */

void out_put_clean(struct buf *b, struct str text)
{
	buf_put_clean(b, text, "\t");
}

void out_line(struct str text)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	out_put_clean(&b, text);
	buf_putc(&b, '\n');
	(void)fwrite(b.p, 1, b.n, stdout);
}

void out_linef(const char *fmt, ...)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(&b, fmt, ap);
	va_end(ap);
	out_line(buf_str(&b));
}

bool out_close(void)
{
	return fflush(stdout) == 0 && !ferror(stdout);
}

bool out_is_unread(void)
{
	struct pollfd out = { .fd = STDOUT_FILENO };

	return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

void out_new_job(const char *what, struct json reply)
{
	_cleanup_(buf_done) struct buf id = BUF_INIT(0);
	_cleanup_(buf_done) struct buf status = BUF_INIT(0);

	out_text(&id, reply, "job_id");
	out_text(&status, reply, "status");
	out_linef("%s: %.*s (status: %.*s)", what, STR_ARG(buf_str(&id)),
		  STR_ARG(buf_str(&status)));
}
