/*
 * json_validate sees hostile bytes and runs on every request: one pass, no
 * recursion, no allocation. All that follows it walks text it has passed, and
 * only makes sure to stay inside the slice.
 */
#include "util/json.h"

#include <endian.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "util/timefmt.h"

#define DEPTH_LIMIT 128 /* depth_max is clamped to it */

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

static inline const char *skip_space(const char *p, const char *end)
{
	while (p < end && char_is(*p, CH_SPACE))
		p++;
	return p;
}

static inline const char *skip_digits(const char *p, const char *end)
{
	while (p < end && char_is(*p, CH_DIGIT))
		p++;
	return p;
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
static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

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

static bool is_surrogate_high(unsigned v)
{
	return v >= 0xd800 && v <= 0xdbff;
}

static bool is_surrogate_low(unsigned v)
{
	return v >= 0xdc00 && v <= 0xdfff;
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

/* A run of bytes that are not ASCII. Only a bad one is looked at twice. */
static const char *scan_utf8(struct scan *s, const char *p)
{
	const char *end = p;

	while (end < s->end && (*end & 0x80) != 0)
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
	for (;;) {
		p = skip_plain(p, s->end);
		if (p == s->end)
			return scan_fail(s, p, NULL);
		if (*p == '"')
			return p + 1;
		if (*p == '\\')
			p = scan_escape(s, p);
		else if ((*p & 0x80) != 0)
			p = scan_utf8(s, p);
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
		p = scan_next(&s, scan_value(&s, p));
	while (p != NULL && s.depth > 0);
	if (p != NULL && p != s.end)
		p = scan_fail(&s, p, "unexpected text after the value");
	return p != NULL;
}

/*
 * Navigation of validated text. The skip functions return the place after
 * what they skip.
 */

/* p is after the opening quote. */
static const char *skip_string(const char *p, const char *end)
{
	for (;;) {
		p = skip_plain(p, end);
		CHECK(p < end);
		if (*p == '"')
			return p + 1;
		p += *p == '\\' ? 2 : 1;
	}
}

static const char *skip_value(const char *p, const char *end)
{
	const char *start = p;
	size_t depth = 0;

	CHECK(p < end);
	if (*p != '{' && *p != '[') {
		if (*p == '"')
			return skip_string(p + 1, end);
		while (p < end && char_is(*p, CH_SCALAR))
			p++;
		CHECK(p > start);
		return p;
	}
	do {
		CHECK(p < end);
		switch (*p++) {
		case '"':
			p = skip_string(p, end);
			break;
		case '{':
		case '[':
			depth++;
			break;
		case '}':
		case ']':
			depth--;
			break;
		default:
			break;
		}
	} while (depth > 0);
	return p;
}

static struct str slice(const char *p, const char *end)
{
	return str_of(p, (size_t)(end - p));
}

struct json json_root(struct str validated)
{
	struct str s = str_trim(validated);

	CHECK(s.n > 0);
	return (struct json){ s };
}

enum json_type json_type_of(struct json v)
{
	CHECK(v.raw.n > 0);
	switch (v.raw.p[0]) {
	case 'n':
		return JSON_NULL;
	case 't':
	case 'f':
		return JSON_BOOL;
	case '"':
		return JSON_STRING;
	case '[':
		return JSON_ARRAY;
	case '{':
		return JSON_OBJECT;
	default:
		return JSON_NUMBER;
	}
}

const char *json_type_name(enum json_type t)
{
	static const char *const names[] = {
		[JSON_NULL] = "null",       [JSON_BOOL] = "a boolean",
		[JSON_NUMBER] = "a number", [JSON_STRING] = "a string",
		[JSON_ARRAY] = "an array",  [JSON_OBJECT] = "an object",
	};

	CHECK((size_t)t < ARRAY_SIZE(names));
	return names[t];
}

struct json_iter json_iter(struct json v)
{
	const char *p = v.raw.p;

	CHECK(v.raw.n >= 2 && (p[0] == '{' || p[0] == '['));
	return (struct json_iter){ p + 1, p + v.raw.n - 1 };
}

/* False at the end; otherwise it->p is at the next member or item. */
static bool iter_more(struct json_iter *it)
{
	it->p = skip_space(it->p, it->end);
	if (it->p < it->end && *it->p == ',')
		it->p = skip_space(it->p + 1, it->end);
	return it->p < it->end;
}

bool json_next_item(struct json_iter *it, struct json *ret_v)
{
	const char *start;

	if (!iter_more(it))
		return false;
	start = it->p;
	it->p = skip_value(start, it->end);
	ret_v->raw = slice(start, it->p);
	return true;
}

/* The key as a JSON string with its quotes. */
static bool next_raw_member(struct json_iter *it, struct json *ret_key,
			    struct json *ret_v)
{
	if (!json_next_item(it, ret_key))
		return false;
	it->p = skip_space(it->p, it->end);
	CHECK(it->p < it->end && *it->p == ':');
	it->p = skip_space(it->p + 1, it->end);
	CHECK(json_next_item(it, ret_v));
	return true;
}

bool json_next_member(struct json_iter *it, struct arena *a,
		      struct str *ret_key, struct json *ret_v)
{
	struct json key;

	if (!next_raw_member(it, &key, ret_v))
		return false;
	*ret_key = json_string(key, a);
	return true;
}

size_t json_count(struct json v)
{
	struct json_iter it = json_iter(v);
	bool object = v.raw.p[0] == '{';
	struct json key, value;
	size_t n = 0;

	while (object ? next_raw_member(&it, &key, &value)
		      : json_next_item(&it, &value))
		n++;
	return n;
}

bool json_member(struct json v, const char *name, struct arena *a,
		 struct json *ret)
{
	struct json_iter it = json_iter(v);
	struct str want = str_from(name);
	struct str key;
	struct json value;

	while (json_next_member(&it, a, &key, &value)) {
		if (str_eq(key, want)) {
			*ret = value;
			return true;
		}
	}
	return false;
}

static unsigned decode_hex4(const char *p)
{
	unsigned v = 0;

	for (int i = 0; i < 4; i++)
		v = v << 4 | (unsigned)hex_value(p[i]);
	return v;
}

static char *put_utf8(char *to, unsigned v)
{
	if (v < 0x80) {
		*to++ = (char)v;
		return to;
	}
	if (v < 0x800) {
		*to++ = (char)(0xc0 | v >> 6);
	} else {
		if (v < 0x10000) {
			*to++ = (char)(0xe0 | v >> 12);
		} else {
			*to++ = (char)(0xf0 | v >> 18);
			*to++ = (char)(0x80 | (v >> 12 & 0x3f));
		}
		*to++ = (char)(0x80 | (v >> 6 & 0x3f));
	}
	*to++ = (char)(0x80 | (v & 0x3f));
	return to;
}

/* Decodes the escape at *from, which is the byte after the backslash. */
static char *decode_escape(char *to, const char **from)
{
	static const char names[] = "bfnrt", bytes[] = "\b\f\n\r\t";
	const char *p = *from;
	const char *name;
	unsigned v;

	if (*p != 'u') {
		name = strchr(names, *p);
		*to = name ? bytes[name - names] : *p;
		*from = p + 1;
		return to + 1;
	}
	v = decode_hex4(p + 1);
	p += 5;
	if (is_surrogate_high(v)) { /* "\uXXXX" with the low half follows */
		v = 0x10000 +
		    ((v - 0xd800) << 10 | (decode_hex4(p + 2) - 0xdc00));
		p += 6;
	}
	*from = p;
	return put_utf8(to, v);
}

struct str json_string(struct json v, struct arena *a)
{
	const char *p = v.raw.p, *end;
	char *start, *to;

	CHECK(v.raw.n >= 2 && p[0] == '"' && p[v.raw.n - 1] == '"');
	end = p + v.raw.n - 1;
	p++;
	if (memchr(p, '\\', (size_t)(end - p)) == NULL)
		return slice(p, end);

	/* An escape is never shorter than what it stands for. */
	start = to = arena_alloc(a, (size_t)(end - p));
	while (p < end) {
		if (*p != '\\') {
			*to++ = *p++;
			continue;
		}
		p++;
		to = decode_escape(to, &p);
	}
	CHECK(p == end);
	return slice(start, to);
}

bool json_u64(struct json v, uint64_t *ret)
{
	return str_parse_u64(v.raw, ret);
}

bool json_i64(struct json v, int64_t *ret)
{
	return str_parse_i64(v.raw, ret);
}

bool json_double(struct json v, double *ret)
{
	char small[64];
	char *text = small;
	double d;

	if (json_type_of(v) != JSON_NUMBER)
		return false;
	/* strtod wants a NUL, which a slice does not have. */
	if (v.raw.n >= sizeof(small))
		text = xmalloc(v.raw.n + 1);
	memcpy(text, v.raw.p, v.raw.n);
	text[v.raw.n] = '\0';
	d = strtod(text, NULL);
	if (text != small)
		free(text);
	if (!isfinite(d))
		return false;
	*ret = d;
	return true;
}

bool json_bool(struct json v, bool *ret)
{
	if (json_type_of(v) != JSON_BOOL)
		return false;
	*ret = v.raw.p[0] == 't';
	return true;
}

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
		const char *q = skip_plain(p, end);

		while (q < end && (*q & 0x80) != 0) /* UTF-8 goes as it is */
			q = skip_plain(q + 1, end);
		buf_append(b, p, (size_t)(q - p));
		if (q < end)
			put_escape(b, *q++);
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

void jw_key(struct json_writer *w, const char *key)
{
	jw_comma(w);
	buf_putc(w->b, '"');
	buf_puts(w->b, key);
	buf_append(w->b, "\":", 2);
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
