/*
 * Slices of bytes: a pointer and a length, never owning, never terminated.
 */
#ifndef CORVO_STR_H
#define CORVO_STR_H

#include <string.h>

#include "util/base.h"

struct str {
	const char *p;
	size_t n;
};

#define STR_NULL   ((struct str){ NULL, 0 })
#define STR(lit)   ((struct str){ (lit), sizeof(lit) - 1 })
#define STR_ARG(s) (int)(s).n, (s).p /* for "%.*s" */

static inline struct str str_from(const char *s)
{
	return (struct str){ s, s ? strlen(s) : 0 };
}

static inline struct str str_of(const void *p, size_t n)
{
	return (struct str){ p, n };
}

static inline bool str_eq(struct str a, struct str b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static inline bool str_is(struct str a, const char *cstr)
{
	return str_eq(a, str_from(cstr));
}

/* Byte order, shorter first among equals: the order of keys in a store. */
int str_cmp(struct str a, struct str b);

bool str_starts(struct str s, struct str prefix);
/* False, too, when nobody wants to know any more (util/turn.h). */
bool str_has(struct str s, struct str part);
struct str str_skip(struct str s, size_t n);
struct str str_trim(struct str s); /* ASCII white space at both ends */

/* Splits at the first `sep`; false when `sep` is absent (head = s, tail empty).
 */
bool str_split(struct str s, char sep, struct str *ret_head,
	       struct str *ret_tail);

/* Strict decimal: no sign (u64), no spaces, no overflow. */
bool str_parse_u64(struct str s, uint64_t *ret);
bool str_parse_i64(struct str s, int64_t *ret);

/* 1 to max letters, digits, dots, dashes and underscores of ASCII. */
bool str_is_name(struct str s, size_t max);

/* True when the bytes are well-formed UTF-8 (no surrogates, no overlongs). */
bool str_is_utf8(struct str s);
/* Bytes of the character that s, which is not empty, begins with; 0: UTF-8 has
 * none such. */
size_t str_utf8_len(struct str s);
/* The code point of that character, which has len bytes. */
uint32_t str_utf8_code(struct str s, size_t len);
/* Whether a terminal takes the character for an order: those below a space,
 * DEL, U+0080 to U+009F, what ends a line, and what turns the direction of the
 * text around it. */
bool str_is_order(uint32_t code);
/* A copy of all its bytes, in memory that is the caller's to free. */
struct str str_dup(struct str s);
/* The whole characters of UTF-8 in its first max bytes. */
struct str str_cut(struct str s, size_t max);

#endif
