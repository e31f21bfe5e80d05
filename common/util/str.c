#include "util/str.h"

#include "util/turn.h"

#define HIGH_BITS 0x8080808080808080ULL

int str_cmp(struct str a, struct str b)
{
	size_t n = MIN(a.n, b.n);
	int r = n ? memcmp(a.p, b.p, n) : 0;

	if (r != 0)
		return r < 0 ? -1 : 1;
	return (a.n > b.n) - (a.n < b.n);
}

bool str_starts(struct str s, struct str prefix)
{
	return s.n >= prefix.n && str_eq(str_of(s.p, prefix.n), prefix);
}

bool str_has(struct str s, struct str part)
{
	const char *p = s.p, *end = p + s.n;

	while (p < end) {
		const char *stop = turn_piece(p, end);
		/* it may begin in this piece and end in the next */
		size_t n = MIN((size_t)(end - p), (size_t)(stop - p) + part.n);

		if (memmem(p, n, part.p, part.n) != NULL)
			return true;
		if (turn_bytes((size_t)(stop - p)))
			break;
		p = stop;
	}
	return false;
}

struct str str_skip(struct str s, size_t n)
{
	n = MIN(n, s.n);
	if (n == 0) /* s.p may be NULL: no arithmetic on it */
		return s;
	return str_of(s.p + n, s.n - n);
}

static bool is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

struct str str_trim(struct str s)
{
	while (s.n > 0 && is_space(s.p[0]))
		s = str_skip(s, 1);
	while (s.n > 0 && is_space(s.p[s.n - 1]))
		s.n--;
	return s;
}

bool str_split(struct str s, char sep, struct str *ret_head,
	       struct str *ret_tail)
{
	const char *at = s.n ? memchr(s.p, sep, s.n) : NULL;

	if (at == NULL) {
		*ret_head = s;
		*ret_tail = STR_NULL;
		return false;
	}
	*ret_head = str_of(s.p, (size_t)(at - s.p));
	*ret_tail = str_skip(s, ret_head->n + 1);
	return true;
}

bool str_parse_u64(struct str s, uint64_t *ret)
{
	uint64_t v = 0;

	if (s.n == 0)
		return false;
	for (size_t i = 0; i < s.n; i++) {
		unsigned digit = (unsigned char)s.p[i] - (unsigned)'0';

		if (digit > 9 || __builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, digit, &v))
			return false;
	}
	*ret = v;
	return true;
}

bool str_parse_i64(struct str s, int64_t *ret)
{
	bool negative = s.n > 0 && s.p[0] == '-';
	uint64_t limit = (uint64_t)INT64_MAX + negative;
	uint64_t v;

	if (!str_parse_u64(str_skip(s, negative), &v) || v > limit)
		return false;
	*ret = (int64_t)(negative ? 0 - v : v);
	return true;
}

static bool is_tail(unsigned char c)
{
	return (c & 0xc0) == 0x80;
}

/*
 * Length of the well-formed sequence at p, or 0. The bounds on the second
 * byte are those of table 3-7 of the Unicode standard: they keep out
 * overlongs, surrogates and code points past U+10FFFF.
 */
static size_t utf8_len(const unsigned char *p, size_t n)
{
	unsigned char c = p[0];

	if (c < 0x80)
		return 1;
	if (c < 0xc2)
		return 0;
	if (c < 0xe0)
		return n >= 2 && is_tail(p[1]) ? 2 : 0;
	if (c < 0xf0) {
		if (n < 3 || !is_tail(p[1]) || !is_tail(p[2]))
			return 0;
		if ((c == 0xe0 && p[1] < 0xa0) || (c == 0xed && p[1] > 0x9f))
			return 0;
		return 3;
	}
	if (c > 0xf4 || n < 4 || !is_tail(p[1]) || !is_tail(p[2]) ||
	    !is_tail(p[3]))
		return 0;
	if ((c == 0xf0 && p[1] < 0x90) || (c == 0xf4 && p[1] > 0x8f))
		return 0;
	return 4;
}

size_t str_utf8_len(struct str s)
{
	return utf8_len((const unsigned char *)s.p, s.n);
}

uint32_t str_utf8_code(struct str s, size_t len)
{
	unsigned char first = (unsigned char)s.p[0];
	uint32_t code = len == 1 ? first : first & (0x7fu >> len);

	for (size_t i = 1; i < len; i++)
		code = code << 6 | ((unsigned char)s.p[i] & 0x3fu);
	return code;
}

bool str_is_order(uint32_t code)
{
	return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x61c ||
	       code == 0x200e || code == 0x200f ||
	       (code >= 0x2028 && code <= 0x202e) ||
	       (code >= 0x2066 && code <= 0x2069);
}

bool str_is_name(struct str s, size_t max)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
		      (c >= '0' && c <= '9') || c == '.' || c == '_' ||
		      c == '-'))
			return false;
	}
	return s.n > 0 && s.n <= max;
}

bool str_is_utf8(struct str s)
{
	const unsigned char *p = (const unsigned char *)s.p;
	size_t left = s.n;
	size_t stop = left > TURN_PIECE_BYTES ? left - TURN_PIECE_BYTES : 0;

	while (left > 0) {
		uint64_t word;
		size_t len;

		if (left <= stop) {
			(void)turn_bytes(TURN_PIECE_BYTES);
			stop -= MIN(stop, (size_t)TURN_PIECE_BYTES);
		}
		/* Most text is ASCII: eight bytes at a time where it is. */
		if (p[0] < 0x80 && left >= sizeof(word)) {
			memcpy(&word, p, sizeof(word));
			len = (word & HIGH_BITS) == 0 ? sizeof(word) : 1;
		} else {
			len = utf8_len(p, left);
		}
		if (len == 0)
			return false;
		p += len;
		left -= len;
	}
	return true;
}

struct str str_cut(struct str s, size_t max)
{
	if (s.n <= max)
		return s;
	s.n = max;
	while (s.n > 0 && ((unsigned char)s.p[s.n] & 0xc0) == 0x80)
		s.n--;
	return s;
}

struct str str_dup(struct str s)
{
	char *p = xmalloc(s.n);

	if (s.n > 0)
		memcpy(p, s.p, s.n);
	return str_of(p, s.n);
}
