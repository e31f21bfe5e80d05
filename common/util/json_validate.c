/*
 * json_validate sees hostile bytes and runs on every request: one pass, no
 * recursion, no allocation.
 */
#include "util/json_chars.h"

#define DEPTH_LIMIT 128 /* depth_max is clamped to it */

/*
 * Validation. The scan functions take the place to read at and return the
 * place after what they read, or NULL after filling the error.
 */
struct scan {
	const char *start, *end;
	struct json_error *err;
	unsigned depth, depth_max;
	char closer[DEPTH_LIMIT]; /* what ends each open container */
};

static const char *scan_fail(struct scan *s, const char *p, const char *text)
{
	s->err->pos = (size_t)(p - s->start);
	s->err->text = p == s->end ? "unexpected end of input" : text;
	return NULL;
}

/* The four digits after \u; p is at the first. */
static const char *scan_hex4(struct scan *s, const char *p, unsigned *ret)
{
	unsigned v = 0;

	for (int i = 0; i < 4; i++, p++) {
		int digit = p < s->end ? hex_value(*p) : -1;

		if (digit < 0)
			return scan_fail(s, p, "expected a hex digit");
		v = v << 4 | (unsigned)digit;
	}
	*ret = v;
	return p;
}

/* p is after "\u". An escaped surrogate needs its other half as well. */
static const char *scan_unicode(struct scan *s, const char *p)
{
	const char *start = p - 2;
	unsigned v;

	p = scan_hex4(s, p, &v);
	if (p == NULL)
		return NULL;
	if (is_surrogate_low(v))
		return scan_fail(s, start, "unpaired surrogate");
	if (!is_surrogate_high(v))
		return p;
	for (const char *want = "\\u"; *want != '\0'; want++, p++)
		if (p == s->end || *p != *want)
			return scan_fail(s, p, "unpaired surrogate");
	start = p - 2;
	p = scan_hex4(s, p, &v);
	if (p != NULL && !is_surrogate_low(v))
		return scan_fail(s, start, "unpaired surrogate");
	return p;
}

/* p is at a backslash. */
static const char *scan_escape(struct scan *s, const char *p)
{
	p++;
	if (p == s->end)
		return scan_fail(s, p, NULL);
	switch (*p) {
	case '"':
	case '\\':
	case '/':
	case 'b':
	case 'f':
	case 'n':
	case 'r':
	case 't':
		return p + 1;
	case 'u':
		return scan_unicode(s, p + 1);
	default:
		return scan_fail(s, p, "unknown escape");
	}
}

/* Nobody waits for the verdict. */
static const char *scan_given_up(struct scan *s, const char *p)
{
	s->err->pos = (size_t)(p - s->start);
	s->err->text = "it was not read to its end";
	return NULL;
}

static bool is_tail(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

/* A run of bytes that are not ASCII, up to stop and the end of the character
 * that is there. Only a bad one is looked at twice. */
static const char *scan_utf8(struct scan *s, const char *p, const char *stop)
{
	const char *end = p;

	while (end < stop && (*end & 0x80) != 0)
		end++;
	if (end == stop)
		for (int i = 0; i < 3 && end < s->end && is_tail(*end); i++)
			end++;
	if (str_is_utf8(str_of(p, (size_t)(end - p))))
		return end;
	for (;;) {
		unsigned char c = (unsigned char)*p;
		size_t n = c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;

		if (n > (size_t)(end - p) || !str_is_utf8(str_of(p, n)))
			return scan_fail(s, p, "invalid UTF-8");
		p += n;
	}
}

/* p is after the opening quote. */
static const char *scan_string(struct scan *s, const char *p)
{
	const char *stop = turn_piece(p, s->end);

	for (;;) {
		p = skip_plain(p, stop);
		if (p == s->end)
			return scan_fail(s, p, NULL);
		if (p >= stop) { /* an escape may have gone beyond */
			if (turn_bytes(TURN_PIECE_BYTES))
				return scan_given_up(s, p);
			stop = turn_piece(p, s->end);
			continue;
		}
		if (*p == '"')
			return p + 1;
		if (*p == '\\')
			p = scan_escape(s, p);
		else if ((*p & 0x80) != 0)
			p = scan_utf8(s, p, stop);
		else
			return scan_fail(s, p, "control character in a string");
		if (p == NULL)
			return NULL;
	}
}

static const char *scan_digits(struct scan *s, const char *p)
{
	const char *after = skip_digits(p, s->end);

	if (after == p)
		return scan_fail(s, p, "expected a digit");
	return after;
}

static const char *scan_number(struct scan *s, const char *p)
{
	if (*p == '-')
		p++;
	if (p < s->end && *p == '0') {
		p++;
		if (p < s->end && char_is(*p, CH_DIGIT))
			return scan_fail(s, p, "number with a leading zero");
	} else {
		p = scan_digits(s, p);
	}
	if (p != NULL && p < s->end && *p == '.')
		p = scan_digits(s, p + 1);
	if (p != NULL && p < s->end && (*p | 0x20) == 'e') {
		p++;
		if (p < s->end && (*p == '+' || *p == '-'))
			p++;
		p = scan_digits(s, p);
	}
	return p;
}

static const char *scan_literal(struct scan *s, const char *p,
				const char *literal)
{
	for (; *literal != '\0'; literal++, p++)
		if (p == s->end || *p != *literal)
			return scan_fail(s, p, "unknown literal");
	return p;
}

/* A member up to its value: key, colon and the space around them. */
static const char *scan_key(struct scan *s, const char *p)
{
	if (p == s->end || *p != '"')
		return scan_fail(s, p, "expected a string as member name");
	p = scan_string(s, p + 1);
	if (p == NULL)
		return NULL;
	p = skip_space(p, s->end);
	if (p == s->end || *p != ':')
		return scan_fail(s, p, "expected ':'");
	return skip_space(p + 1, s->end);
}

/* Opens containers down to a scalar or an empty container; scans a scalar. */
static const char *scan_value(struct scan *s, const char *p)
{
	while (p != NULL && p < s->end) {
		char closer;

		switch (*p) {
		case '"':
			return scan_string(s, p + 1);
		case '-':
		case '0' ... '9':
			return scan_number(s, p);
		case 't':
			return scan_literal(s, p, "true");
		case 'f':
			return scan_literal(s, p, "false");
		case 'n':
			return scan_literal(s, p, "null");
		case '{':
		case '[':
			break;
		default:
			return scan_fail(s, p, "expected a value");
		}
		if (s->depth == s->depth_max)
			return scan_fail(s, p, "nested too deeply");
		closer = *p == '{' ? '}' : ']';
		s->closer[s->depth++] = closer;
		p = skip_space(p + 1, s->end);
		if (p < s->end && *p == closer)
			return p; /* scan_next closes it */
		if (closer == '}')
			p = scan_key(s, p);
	}
	return p == NULL ? NULL : scan_fail(s, p, NULL);
}

/* Closes what ends after a value, up to the next value or the end. */
static const char *scan_next(struct scan *s, const char *p)
{
	while (p != NULL) {
		char closer;

		p = skip_space(p, s->end);
		if (s->depth == 0)
			break;
		closer = s->closer[s->depth - 1];
		if (p < s->end && *p == ',') {
			p = skip_space(p + 1, s->end);
			return closer == '}' ? scan_key(s, p) : p;
		}
		if (p == s->end || *p != closer)
			return scan_fail(s, p,
					 closer == '}' ? "expected ',' or '}'"
						       : "expected ',' or ']'");
		p++;
		s->depth--;
	}
	return p;
}

bool json_validate(struct str text, unsigned depth_max,
		   struct json_error *ret_err)
{
	struct scan s;
	const char *p = text.n ? text.p : "";

	s.start = p;
	s.end = p + text.n;
	s.err = ret_err;
	s.depth = 0;
	s.depth_max = MIN(depth_max, (unsigned)DEPTH_LIMIT);
	p = skip_space(p, s.end);
	do
		p = turn_step() ? scan_given_up(&s, p)
				: scan_next(&s, scan_value(&s, p));
	while (p != NULL && s.depth > 0);
	if (p != NULL && p != s.end)
		p = scan_fail(&s, p, "unexpected text after the value");
	return p != NULL;
}

/*
 * Navigation of validated text. The skip functions return the place after
 * what they skip.
 */
