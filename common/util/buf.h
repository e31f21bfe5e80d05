/*
 * Growable bytes with a maximum given at init. Appending past the maximum
 * sets `full`, appends nothing, and every later append is refused too, so a
 * writer may append many pieces and test once.
 */
#ifndef CORVO_BUF_H
#define CORVO_BUF_H

#include <stdarg.h>

#include "util/str.h"

struct buf {
	char *p;
	size_t n;
	size_t cap;
	size_t max; /* 0: no limit */
	bool full;  /* an append was refused */
};

#define BUF_INIT(max_bytes) ((struct buf){ .max = (max_bytes) })

void buf_done(struct buf *b);  /* frees; leaves it empty and usable */
void buf_clear(struct buf *b); /* keeps the memory, forgets `full` */
/* Empties it; memory of more than `keep` bytes goes back. */
void buf_shrink(struct buf *b, size_t keep);

/* Gives back what is behind its bytes, if that is more than `keep`. */
void buf_fit(struct buf *b, size_t keep);

/* Room for n more bytes at b->p + b->n; NULL when that passes the maximum. */
char *buf_reserve(struct buf *b, size_t n);
void buf_append_slow(struct buf *b, const void *p, size_t n); /* may grow */
void buf_put_u64(struct buf *b, uint64_t v);                  /* decimal */
void buf_put_i64(struct buf *b, int64_t v);                   /* decimal */
/* As a segment of a path or an argument of a URL has it: %20. */
void buf_put_percent(struct buf *b, struct str s);
/* As a terminal may have it: what is an order to it (str_is_order) and not in
 * `keep`, and bytes that are not UTF-8, become \xNN, or \uNNNN from U+0100. */
void buf_put_clean(struct buf *b, struct str s, const char *keep);
_printf_(2, 3) void buf_printf(struct buf *b, const char *fmt, ...);
void buf_vprintf(struct buf *b, const char *fmt, va_list ap);

/* The writers of messages and JSON live on these two: no calls in them. */
static inline bool buf_fits(const struct buf *b, size_t n)
{
	return n <= b->cap - b->n && !b->full &&
	       (b->max == 0 || n <= b->max - b->n);
}

static inline void buf_append(struct buf *b, const void *p, size_t n)
{
	if (LIKELY(buf_fits(b, n) && n > 0)) {
		memcpy(b->p + b->n, p, n);
		b->n += n;
	} else {
		buf_append_slow(b, p, n);
	}
}

static inline void buf_putc(struct buf *b, char c)
{
	if (LIKELY(buf_fits(b, 1)))
		b->p[b->n++] = c;
	else
		buf_append_slow(b, &c, 1);
}

static inline void buf_puts(struct buf *b, const char *cstr)
{
	buf_append(b, cstr, strlen(cstr));
}

static inline void buf_put_str(struct buf *b, struct str s)
{
	buf_append(b, s.p, s.n);
}

static inline struct str buf_str(const struct buf *b)
{
	return (struct str){ b->p, b->n };
}

#endif
