/*
 * Walks text that json_validate has passed, and only makes sure to stay inside
 * the slice.
 */
#include <math.h>
#include <stdlib.h>

#include "util/json_chars.h"

/* p is after the opening quote. */
static const char *skip_string(const char *p, const char *end)
{
	const char *stop = turn_piece(p, end);

	for (;;) {
		p = skip_plain(p, stop);
		REQUIRE(p < end);
		if (p >= stop) { /* an escape may have gone beyond */
			(void)turn_bytes(TURN_PIECE_BYTES);
			stop = turn_piece(p, end);
			continue;
		}
		if (*p == '"')
			return p + 1;
		p += *p == '\\' ? 2 : 1;
	}
}

/* After the value that is open at p has been closed. */
static const char *skip_container(const char *p, const char *end)
{
	const char *stop = p;
	size_t depth = 0;

	do {
		REQUIRE(p < end);
		if (p >= stop) {
			(void)turn_bytes(TURN_PIECE_BYTES);
			stop = turn_piece(p, end);
		}
		switch (*p++) {
		case '"':
			p = skip_string(p, end);
			(void)turn_step();
			break;
		case ',':
			(void)turn_step();
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

static const char *skip_value(const char *p, const char *end)
{
	const char *start = p;

	REQUIRE(p < end);
	if (*p == '{' || *p == '[')
		return skip_container(p, end);
	if (*p == '"')
		return skip_string(p + 1, end);
	p = skip_kinds(p, end, CH_SCALAR);
	REQUIRE(p > start);
	return p;
}

static struct str slice(const char *p, const char *end)
{
	return str_of(p, (size_t)(end - p));
}

struct json json_root(struct str validated)
{
	struct str s = str_trim(validated);

	REQUIRE(s.n > 0);
	return (struct json){ s };
}

enum json_type json_type_of(struct json v)
{
	REQUIRE(v.raw.n > 0);
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

	REQUIRE((size_t)t < ARRAY_SIZE(names));
	return names[t];
}

struct json_iter json_iter(struct json v)
{
	const char *p = v.raw.p;

	REQUIRE(v.raw.n >= 2 && (p[0] == '{' || p[0] == '['));
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
	(void)turn_step();
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
	REQUIRE(it->p < it->end && *it->p == ':');
	it->p = skip_space(it->p + 1, it->end);
	REQUIRE(json_next_item(it, ret_v));
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

	REQUIRE(v.raw.n >= 2 && p[0] == '"' && p[v.raw.n - 1] == '"');
	end = p + v.raw.n - 1;
	p++;
	if (memchr(p, '\\', (size_t)(end - p)) == NULL)
		return slice(p, end);

	/* An escape is never shorter than what it stands for. */
	start = to = arena_alloc(a, (size_t)(end - p));
	for (const char *stop = turn_piece(p, end); p < end;) {
		if (p >= stop) {
			(void)turn_bytes(TURN_PIECE_BYTES);
			stop = turn_piece(p, end);
		}
		if (*p != '\\') {
			*to++ = *p++;
			continue;
		}
		p++;
		to = decode_escape(to, &p);
	}
	REQUIRE(p == end);
	return slice(start, to);
}

/* Four hexadecimal digits at p, before end; false when they are not there. */
static bool scan_hex4(const char *p, const char *end, unsigned *ret)
{
	if (end - p < 4)
		return false;
	for (int i = 0; i < 4; i++)
		if (hex_value(p[i]) < 0)
			return false;
	*ret = decode_hex4(p);
	return true;
}

/* Whether an escape is whole; p is the byte after the backslash. */
static bool is_escape(const char *p, const char *end)
{
	unsigned v;

	if (p == end || *p != 'u')
		return p < end;
	if (!scan_hex4(p + 1, end, &v) || is_surrogate_low(v))
		return false;
	return !is_surrogate_high(v) ||
	       (end - p > 7 && p[5] == '\\' && p[6] == 'u' &&
		scan_hex4(p + 7, end, &v) && is_surrogate_low(v));
}

size_t json_unescape(struct str text, char *ret)
{
	const char *p = text.p, *end = text.p + text.n;
	char *to = ret;

	while (p < end) {
		bool escape = *p == '\\' && is_escape(p + 1, end);

		if (!escape) {
			*to++ = *p++;
			continue;
		}
		p++;
		to = decode_escape(to, &p);
	}
	return (size_t)(to - ret);
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
