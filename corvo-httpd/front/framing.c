/*
 * The framing of requests. See front/framing.h.
 *
 * A function per state takes one byte or a run of equals; those of headers and
 * of chunks are in files of their own.
 */
#include "front/framing_parts.h"

#include <string.h>

#include "proto/err.h"
#include "proto/limits.h"

/* clang-format off */
const uint8_t FRAMING_CLASSES[256] = {
	['\t'] = VALUE, [' '] = VALUE,
	['!'] = TOKEN | TARGET | VALUE | HOST, ['"'] = TARGET | VALUE,
	['#'] = TOKEN | VALUE, ['$'] = TOKEN | TARGET | VALUE | HOST,
	['%'] = TOKEN | TARGET | VALUE | HOST,
	['&'] = TOKEN | TARGET | VALUE | HOST,
	['\''] = TOKEN | TARGET | VALUE | HOST, ['('] = TARGET | VALUE | HOST,
	[')'] = TARGET | VALUE | HOST, ['*'] = TOKEN | TARGET | VALUE | HOST,
	['+'] = TOKEN | TARGET | VALUE | HOST, [','] = TARGET | VALUE | HOST,
	['-'] = TOKEN | TARGET | VALUE | HOST,
	['.'] = TOKEN | TARGET | VALUE | HOST, ['/'] = TARGET | VALUE,
	['0' ... '9'] = ALNUM | HEX | DIGIT, [':'] = TARGET | VALUE | HOST,
	[';'] = TARGET | VALUE | HOST, ['<'] = TARGET | VALUE,
	['='] = TARGET | VALUE | HOST, ['>'] = TARGET | VALUE,
	['?'] = TARGET | VALUE, ['@'] = TARGET | VALUE,
	['A' ... 'F'] = ALNUM | HEX, ['G' ... 'Z'] = ALNUM,
	['['] = TARGET | VALUE | HOST, ['\\'] = TARGET | VALUE,
	[']'] = TARGET | VALUE | HOST, ['^'] = TOKEN | TARGET | VALUE,
	['_'] = TOKEN | TARGET | VALUE | HOST, ['`'] = TOKEN | TARGET | VALUE,
	['a' ... 'f'] = ALNUM | HEX, ['g' ... 'z'] = ALNUM,
	['{'] = TARGET | VALUE, ['|'] = TOKEN | TARGET | VALUE,
	['}'] = TARGET | VALUE, ['~'] = TOKEN | TARGET | VALUE | HOST,
	[0x80 ... 0xff] = VALUE,
};
/* clang-format on */

int framing_refuse(struct framing *f, int err, const char *why)
{
	f->why = why;
	return -err;
}

int framing_malformed(struct framing *f, const char *why)
{
	return framing_refuse(f, ERR_BAD_REQUEST, why);
}

int framing_expect(struct framing *f, uint8_t byte, char c,
		   enum framing_state next, const char *why)
{
	if (byte != (uint8_t)c)
		return framing_malformed(f, why);
	f->state = next;
	return 1;
}

int framing_count(struct framing *f, size_t n)
{
	f->head_n += n;
	if (f->head_n > LIMIT_HEAD_BYTES)
		return framing_refuse(f, ERR_HEAD_TOO_LARGE, NULL);
	return 0;
}

/* --- the request line --- */

static ssize_t on_start(struct framing *f, const uint8_t *p, _unused_ size_t n)
{
	f->state = *p == '\r' ? FRAMING_START_LF : FRAMING_METHOD;
	return *p == '\r' ? 1 : 0;
}

static ssize_t on_start_lf(struct framing *f, const uint8_t *p,
			   _unused_ size_t n)
{
	if (*p != '\n')
		return framing_malformed(
		    f, "a CR without LF before the request line");
	if (++f->empty_n > LIMIT_EMPTY_LINES)
		return framing_malformed(
		    f, "too many empty lines before a request");
	f->state = FRAMING_START;
	return 1;
}

static ssize_t on_method(struct framing *f, const uint8_t *p, size_t n)
{
	size_t run = framing_run(p, n, TOKEN);

	f->line_n += run;
	if (f->line_n > LIMIT_METHOD_BYTES)
		return framing_malformed(f, "the method is too long");
	if (run == n)
		return (ssize_t)run;
	if (p[run] != ' ' || f->line_n == 0)
		return framing_malformed(f, "the request line must be: "
					    "METHOD /path HTTP/1.1");
	f->state = FRAMING_TARGET;
	return (ssize_t)run + 1;
}

/* An argument is an entry in the server library's memory, as a header is. */
static int count_arguments(struct framing *f, const uint8_t *p, size_t n)
{
	size_t entries = 0;

	for (size_t i = 0; i < n; i++) {
		bool first = p[i] == '?' && !f->has_query;

		f->has_query |= first;
		if (first || (p[i] == '&' && f->has_query))
			entries++;
	}
	return framing_count(f, entries * LIMIT_HEAD_ENTRY_BYTES);
}

/* Whether it is a path, *, or http://host/path as proxies are sent it. */
static bool is_target(struct framing *f, const uint8_t *p, size_t n)
{
	static const char scheme[] = "http://";

	for (size_t i = 0; i < n; i++) {
		size_t at = f->target_n + i;

		if (at == 0 && *p != '/')
			f->target = *p == '*' ? FRAMING_STAR : FRAMING_SCHEME;
		if (f->target == FRAMING_PATH)
			return true;
		if (f->target == FRAMING_STAR && at > 0)
			return false;
		if (f->target == FRAMING_SCHEME && at == sizeof(scheme) - 1)
			f->target = FRAMING_AUTHORITY;
		if (f->target == FRAMING_SCHEME && p[i] != (uint8_t)scheme[at])
			return false;
		if (f->target != FRAMING_AUTHORITY)
			continue;
		if (framing_is(p[i], HOST))
			continue;
		if (p[i] != '/' || at == sizeof(scheme) - 1)
			return false;
		f->target = FRAMING_PATH;
	}
	return true;
}

static ssize_t on_target(struct framing *f, const uint8_t *p, size_t n)
{
	size_t run = framing_run(p, n, TARGET);
	int r;

	if (!is_target(f, p, run))
		return framing_malformed(f, "the path must begin with /");
	f->target_n += run;
	if (f->target_n > LIMIT_URI_BYTES)
		return framing_refuse(f, ERR_URI_TOO_LONG, NULL);
	r = count_arguments(f, p, run);
	if (r < 0)
		return r;
	if (run == n)
		return (ssize_t)run;
	if (p[run] != ' ' || f->target_n == 0)
		return framing_malformed(f, "the path has a byte that must be "
					    "percent-encoded");
	if (f->target == FRAMING_SCHEME || f->target == FRAMING_AUTHORITY)
		return framing_malformed(f, "a URL without a path");
	f->state = FRAMING_VERSION;
	f->line_n = 0;
	return (ssize_t)run + 1;
}

static ssize_t on_version(struct framing *f, const uint8_t *p, size_t n)
{
	static const char usual[] = "HTTP/1.1\r";
	static const char form[] = "HTTP/d.d";
	char want = form[f->line_n];
	bool fits = want == 'd' ? *p >= '0' && *p <= '9' : *p == (uint8_t)want;

	/* All of it at once where it has come at once; else by the byte. */
	if (f->line_n == 0 && n >= sizeof(usual) - 1 &&
	    memcmp(p, usual, sizeof(usual) - 1) == 0) {
		f->state = FRAMING_LINE_LF;
		return sizeof(usual) - 1;
	}
	if (f->line_n == sizeof(form) - 1) {
		if (*p != '\r')
			return framing_malformed(
			    f, "the request line does not end "
			       "with HTTP/1.1 and CR LF");
		f->state = FRAMING_LINE_LF;
		return 1;
	}
	if (!fits)
		return framing_malformed(f,
					 "the request line does not end with "
					 "HTTP/1.1");
	if ((f->line_n == 5 && *p != '1') || (f->line_n == 7 && *p > '1'))
		return framing_refuse(f, ERR_HTTP_VERSION, NULL);
	if (f->line_n == 7)
		f->is_1_0 = *p == '0';
	f->line_n++;
	return 1;
}

static ssize_t on_line_lf(struct framing *f, const uint8_t *p,
			  _unused_ size_t n)
{
	return framing_expect(f, *p, '\n', FRAMING_NAME_START,
			      "a CR without LF in the head");
}

/* --- bodies --- */

/* The request has come; what follows is the next one, counted anew. */
static void end_request(struct framing *f)
{
	*f = (struct framing){ .whole = f->whole + 1 };
}

static ssize_t on_head_lf(struct framing *f, const uint8_t *p,
			  _unused_ size_t n)
{
	int r = framing_count(f, 1);

	if (r < 0)
		return r;
	if (*p != '\n')
		return framing_malformed(f, "a CR without LF in the head");
	if (!f->has_host && !f->is_1_0)
		return framing_malformed(f, "Host: is missing");
	if (f->has_length && f->is_chunked)
		return framing_malformed(
		    f, "Content-Length or Transfer-Encoding: one "
		       "of them");
	if (f->left > LIMIT_BODY_BYTES) {
		f->is_head_good = true;
		return framing_refuse(f, ERR_BODY_TOO_LARGE, NULL);
	}
	f->line_n = 0;
	if (f->is_chunked && !f->in_trailer)
		f->state = FRAMING_CHUNK_SIZE;
	else if (f->left > 0)
		f->state = FRAMING_BODY;
	else
		end_request(f);
	return 1;
}

static ssize_t on_body(struct framing *f, _unused_ const uint8_t *p, size_t n)
{
	size_t taken = MIN(n, f->left);

	f->left -= taken;
	if (f->left == 0)
		end_request(f);
	return (ssize_t)taken;
}

static ssize_t (*const STEPS[FRAMING_STATES])(struct framing *f,
					      const uint8_t *p, size_t n) = {
	[FRAMING_START] = on_start,
	[FRAMING_START_LF] = on_start_lf,
	[FRAMING_METHOD] = on_method,
	[FRAMING_TARGET] = on_target,
	[FRAMING_VERSION] = on_version,
	[FRAMING_LINE_LF] = on_line_lf,
	[FRAMING_NAME_START] = framing_on_name_start,
	[FRAMING_NAME] = framing_on_name,
	[FRAMING_VALUE] = framing_on_value,
	[FRAMING_VALUE_LF] = framing_on_value_lf,
	[FRAMING_HEAD_LF] = on_head_lf,
	[FRAMING_BODY] = on_body,
	[FRAMING_CHUNK_SIZE] = framing_on_chunk_size,
	[FRAMING_CHUNK_EXT] = framing_on_chunk_ext,
	[FRAMING_CHUNK_LF] = framing_on_chunk_lf,
	[FRAMING_CHUNK_DATA] = framing_on_chunk_data,
	[FRAMING_DATA_CR] = framing_on_data_cr,
	[FRAMING_DATA_LF] = framing_on_data_lf,
};

/* The last byte of a head counts itself: it may end the request. */
static bool is_in_head(const struct framing *f)
{
	return f->state >= FRAMING_METHOD && f->state < FRAMING_HEAD_LF;
}

int framing_feed(struct framing *f, const void *bytes, size_t n,
		 size_t *ret_good)
{
	const uint8_t *p = bytes;
	uint64_t whole = f->whole;
	size_t i = 0;

	*ret_good = 0;
	while (i < n) {
		bool in_head = is_in_head(f);
		ssize_t taken = STEPS[f->state](f, p + i, n - i);
		int r = taken < 0 || !in_head ? (int)MIN(taken, 0)
					      : framing_count(f, (size_t)taken);

		if (f->is_head_good)
			*ret_good = i + 1;
		if (r < 0)
			return r;
		i += (size_t)taken;
		if (f->whole == whole)
			continue;
		whole = f->whole;
		*ret_good = i;
	}
	return 0;
}
