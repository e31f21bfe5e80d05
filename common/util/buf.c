#include "util/buf.h"

#include <stdio.h>
#include <stdlib.h>

#define CAP_MIN 64

void buf_done(struct buf *b)
{
	free(b->p);
	*b = BUF_INIT(b->max);
}

void buf_clear(struct buf *b)
{
	b->n = 0;
	b->full = false;
}

void buf_shrink(struct buf *b, size_t keep)
{
	if (b->cap > keep)
		buf_done(b);
	else
		buf_clear(b);
}

void buf_fit(struct buf *b, size_t keep)
{
	if (b->n == 0 || b->cap - b->n <= keep)
		return;
	b->p = xrealloc(b->p, b->n);
	b->cap = b->n;
}

/*
 * Memory for n more bytes, whatever the maximum says: printing needs one
 * byte for a NUL that never counts.
 */
static void buf_grow(struct buf *b, size_t n)
{
	size_t want, cap;

	CHECK(!__builtin_add_overflow(b->n, n, &want));
	if (want <= b->cap && b->p != NULL)
		return;
	cap = MAX(b->cap * 2, (size_t)CAP_MIN);
	if (b->max != 0)
		cap = MIN(cap, b->max);
	b->cap = MAX(cap, want);
	b->p = xrealloc(b->p, b->cap);
}

/* Also refuses everything after a refusal: no holes in the bytes. */
static bool buf_has_room(struct buf *b, size_t n)
{
	if (b->max != 0 && n > b->max - b->n)
		b->full = true;
	return !b->full;
}

char *buf_reserve(struct buf *b, size_t n)
{
	if (!buf_has_room(b, n))
		return NULL;
	buf_grow(b, n);
	return b->p + b->n;
}

void buf_append_slow(struct buf *b, const void *p, size_t n)
{
	char *to;

	if (n == 0)
		return;
	to = buf_reserve(b, n);
	if (to == NULL)
		return;
	memcpy(to, p, n);
	b->n += n;
}

/* Writes the digits so that they end before `end`; returns their start. */
static char *format_u64(char *end, uint64_t v)
{
	do {
		*--end = (char)('0' + v % 10);
		v /= 10;
	} while (v != 0);
	return end;
}

void buf_put_u64(struct buf *b, uint64_t v)
{
	char digits[20];
	char *end = digits + sizeof(digits);
	char *p = format_u64(end, v);

	buf_append(b, p, (size_t)(end - p));
}

void buf_put_i64(struct buf *b, int64_t v)
{
	char digits[21];
	char *end = digits + sizeof(digits);
	char *p = format_u64(end, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);

	if (v < 0)
		*--p = '-';
	buf_append(b, p, (size_t)(end - p));
}

void buf_put_percent(struct buf *b, struct str s)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "abcdefghijklmnopqrstuvwxyz"
				    "0123456789-._~";

	for (size_t i = 0; i < s.n; i++) {
		if (memchr(plain, s.p[i], sizeof(plain) - 1) != NULL)
			buf_putc(b, s.p[i]);
		else
			buf_printf(b, "%%%02X", (unsigned char)s.p[i]);
	}
}

void buf_put_clean(struct buf *b, struct str s, const char *keep)
{
	while (s.n > 0) {
		size_t len = str_utf8_len(s);
		uint32_t code =
		    len == 0 ? (unsigned char)s.p[0] : str_utf8_code(s, len);

		if ((len > 0 && !str_is_order(code)) ||
		    (s.p[0] != '\0' && strchr(keep, s.p[0]) != NULL))
			buf_append(b, s.p, len);
		else
			buf_printf(b, code < 0x100 ? "\\x%02x" : "\\u%04x",
				   code);
		s = str_skip(s, MAX(len, (size_t)1));
	}
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(b, fmt, ap);
	va_end(ap);
}

_printf_(2, 0) void buf_vprintf(struct buf *b, const char *fmt, va_list ap)
{
	va_list again;
	size_t room, n;
	int len;

	if (b->full)
		return;
	buf_grow(b, 1);
	room = b->cap - b->n;
	va_copy(again, ap);
	len = vsnprintf(b->p + b->n, room, fmt, again);
	va_end(again);
	CHECK(len >= 0);
	n = (size_t)len;

	if (!buf_has_room(b, n))
		return;
	if (n >= room) {
		buf_grow(b, n + 1);
		(void)vsnprintf(b->p + b->n, n + 1, fmt, ap);
	}
	b->n += n;
}
