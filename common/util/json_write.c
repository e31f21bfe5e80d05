/*
 * The JSON writer.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "util/json_chars.h"
#include "util/nano.h"
#include "util/timefmt.h"

static void jw_comma(struct json_writer *w)
{
	if (w->comma)
		buf_putc(w->b, ',');
	w->comma = true;
}

static void jw_open(struct json_writer *w, char c)
{
	jw_comma(w);
	buf_putc(w->b, c);
	w->comma = false;
}

static void jw_close(struct json_writer *w, char c)
{
	buf_putc(w->b, c);
	w->comma = true;
}

static void put_escape(struct buf *b, char c)
{
	static const char hex[] = "0123456789abcdef";
	static const char names[] = "\"\"\\\\\bb\ff\nn\rr\tt";

	for (const char *p = names; *p != '\0'; p += 2) {
		if (*p == c) {
			buf_putc(b, '\\');
			buf_putc(b, p[1]);
			return;
		}
	}
	buf_puts(b, "\\u00");
	buf_putc(b, hex[c >> 4 & 0xf]);
	buf_putc(b, hex[c & 0xf]);
}

static void put_string(struct buf *b, struct str s)
{
	const char *p = s.n ? s.p : "";
	const char *end = p + s.n;

	buf_putc(b, '"');
	while (p < end) {
		const char *stop = turn_piece(p, end);
		const char *q = skip_plain(p, stop);

		while (q < stop && (*q & 0x80) != 0) /* UTF-8 goes as it is */
			q = skip_plain(q + 1, stop);
		buf_append(b, p, (size_t)(q - p));
		if (q < stop) {
			put_escape(b, *q++);
			(void)turn_step();
		} else if (q < end) {
			(void)turn_bytes(TURN_PIECE_BYTES);
		}
		p = q;
	}
	buf_putc(b, '"');
}

void jw_object(struct json_writer *w)
{
	jw_open(w, '{');
}

void jw_object_end(struct json_writer *w)
{
	jw_close(w, '}');
}

void jw_array(struct json_writer *w)
{
	jw_open(w, '[');
}

void jw_array_end(struct json_writer *w)
{
	jw_close(w, ']');
}

/* ,"key": in one go: half of what the writer does is this. */
void jw_key_len(struct json_writer *w, const char *key, size_t n)
{
	char *p = buf_reserve(w->b, n + 4);

	if (p == NULL)
		return;
	if (w->comma)
		*p++ = ',';
	*p++ = '"';
	memcpy(p, key, n);
	p += n;
	*p++ = '"';
	*p++ = ':';
	w->b->n = (size_t)(p - w->b->p);
	w->comma = false;
}

void jw_key_str(struct json_writer *w, struct str key)
{
	jw_comma(w);
	put_string(w->b, key);
	buf_putc(w->b, ':');
	w->comma = false;
}

void jw_str(struct json_writer *w, struct str s)
{
	jw_comma(w);
	put_string(w->b, s);
}

void jw_cstr(struct json_writer *w, const char *s)
{
	jw_str(w, str_from(s));
}

void jw_u64(struct json_writer *w, uint64_t v)
{
	jw_comma(w);
	buf_put_u64(w->b, v);
}

void jw_i64(struct json_writer *w, int64_t v)
{
	jw_comma(w);
	buf_put_i64(w->b, v);
}

void jw_double(struct json_writer *w, double v)
{
	char text[40];
	int digits = 15;

	if (!isfinite(v)) { /* JSON has no word for it */
		jw_null(w);
		return;
	}
	do
		snprintf(text, sizeof(text), "%.*g", digits, v);
	while (digits++ < 17 && strtod(text, NULL) != v);
	jw_comma(w);
	buf_puts(w->b, text);
}

void jw_bool(struct json_writer *w, bool v)
{
	jw_comma(w);
	buf_puts(w->b, v ? "true" : "false");
}

void jw_null(struct json_writer *w)
{
	jw_comma(w);
	buf_append(w->b, "null", 4);
}

void jw_raw(struct json_writer *w, struct str json)
{
	jw_comma(w);
	buf_put_str(w->b, json);
}

void jw_time(struct json_writer *w, uint64_t ns)
{
	jw_comma(w);
	buf_putc(w->b, '"');
	time_format(w->b, ns);
	buf_putc(w->b, '"');
}

void jw_duration(struct json_writer *w, uint64_t ns)
{
	jw_comma(w);
	buf_putc(w->b, '"');
	duration_format(w->b, ns);
	buf_putc(w->b, '"');
}

void jw_nano(struct json_writer *w, uint64_t nano)
{
	jw_comma(w);
	nano_format(w->b, nano);
}
