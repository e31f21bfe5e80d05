/*
 * Classes of bytes in JSON text, shared by the three json_*.c files. The table
 * is small and each of them needs only a part of it, so it is private to each.
 */
#ifndef CORVO_JSON_CHARS_H
#define CORVO_JSON_CHARS_H

#include <endian.h>

#include "util/json.h"
#include "util/turn.h"

#define EACH_BYTE(c) (0x0101010101010101ULL * (c))

/* What a byte may be part of. */
enum {
	CH_SPACE = 1 << 0,  /* between tokens */
	CH_PLAIN = 1 << 1,  /* ASCII in a string that stands for itself */
	CH_DIGIT = 1 << 2,  /* 0 to 9 */
	CH_SCALAR = 1 << 3, /* a number or a literal */
};

static const unsigned char chars[256] = {
	['\t'] = CH_SPACE,
	['\n'] = CH_SPACE,
	['\r'] = CH_SPACE,
	[' '] = CH_SPACE | CH_PLAIN,
	['!'] = CH_PLAIN,
	['#' ... '*'] = CH_PLAIN,
	['+'] = CH_PLAIN | CH_SCALAR,
	[','] = CH_PLAIN,
	['-'] = CH_PLAIN | CH_SCALAR,
	['.'] = CH_PLAIN | CH_SCALAR,
	['/'] = CH_PLAIN,
	['0' ... '9'] = CH_PLAIN | CH_DIGIT | CH_SCALAR,
	[':' ... 'D'] = CH_PLAIN,
	['E'] = CH_PLAIN | CH_SCALAR,
	['F' ... '['] = CH_PLAIN,
	[']' ... '`'] = CH_PLAIN,
	['a' ... 'z'] = CH_PLAIN | CH_SCALAR,
	['{' ... 0x7f] = CH_PLAIN,
};

static inline bool char_is(char c, unsigned kind)
{
	return chars[(unsigned char)c] & kind;
}

/* The first byte that is of none of these kinds. */
static inline const char *skip_kinds(const char *p, const char *end,
				     unsigned kinds)
{
	const char *stop;

	if (p >= end || !char_is(*p, kinds)) /* mostly */
		return p;
	stop = turn_piece(p, end);
	while (p < end && char_is(*p, kinds)) {
		if (++p == stop && p < end) {
			(void)turn_bytes(TURN_PIECE_BYTES);
			stop = turn_piece(p, end);
		}
	}
	return p;
}

static inline const char *skip_space(const char *p, const char *end)
{
	return skip_kinds(p, end, CH_SPACE);
}

static inline const char *skip_digits(const char *p, const char *end)
{
	return skip_kinds(p, end, CH_DIGIT);
}

/*
 * The first byte in [p, end) that is not CH_PLAIN. Eight bytes at a time: a
 * byte's high bit is set in `odd` when it is a quote, a backslash, below
 * 0x20 or not ASCII. Borrows can set bits only above the first true one,
 * and only the first one is used.
 */
static inline const char *skip_plain(const char *p, const char *end)
{
	while (end - p >= 8) {
		uint64_t v, quote, slash, odd;

		memcpy(&v, p, sizeof(v));
		v = le64toh(v);
		quote = v ^ EACH_BYTE('"');
		slash = v ^ EACH_BYTE('\\');
		odd = ((quote - EACH_BYTE(1)) & ~quote) |
		      ((slash - EACH_BYTE(1)) & ~slash) |
		      ((v - EACH_BYTE(0x20)) & ~v) | v;
		odd &= EACH_BYTE(0x80);
		if (odd != 0)
			return p + __builtin_ctzll(odd) / 8;
		p += 8;
	}
	while (p < end && char_is(*p, CH_PLAIN))
		p++;
	return p;
}

/* 0 to 15, or -1. */
static inline int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static inline bool is_surrogate_high(unsigned v)
{
	return v >= 0xd800 && v <= 0xdbff;
}

static inline bool is_surrogate_low(unsigned v)
{
	return v >= 0xdc00 && v <= 0xdfff;
}

#endif
