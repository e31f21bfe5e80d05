/*
 * Headers and trailers of a request. See front/framing.h.
 */
#include "front/framing_parts.h"

#include <strings.h>

#include "proto/err.h"
#include "proto/limits.h"
#include "util/str.h"

ssize_t framing_on_name_start(struct framing *f, const uint8_t *p,
			      _unused_ size_t n)
{
	if (*p == '\r') {
		f->state = FRAMING_HEAD_LF;
		return 1;
	}
	if (*p == ' ' || *p == '\t')
		return framing_malformed(f,
					 "a header is folded over two lines");
	f->state = FRAMING_NAME;
	f->name_n = f->value_n = 0;
	f->value_over = false;
	return framing_count(f, LIMIT_HEAD_ENTRY_BYTES);
}

static bool is_name(struct str name, struct str known)
{
	return name.n == known.n && strncasecmp(name.p, known.p, name.n) == 0;
}

static enum framing_header header_of(struct str name)
{
	if (is_name(name, STR("host")))
		return FRAMING_HOST;
	if (is_name(name, STR("content-length")))
		return FRAMING_LENGTH;
	if (is_name(name, STR("transfer-encoding")))
		return FRAMING_CODING;
	if (is_name(name, STR("cookie")))
		return FRAMING_COOKIE;
	return FRAMING_OTHER;
}

/* The names that matter are short; of longer ones it need only be known. */
static void keep_name(struct framing *f, const uint8_t *p, size_t n)
{
	size_t taken = MIN(n, FRAMING_NAME_MAX - f->name_n);

	memcpy(f->name + f->name_n, p, taken);
	f->name_n += taken;
}

ssize_t framing_on_name(struct framing *f, const uint8_t *p, size_t n)
{
	size_t run = framing_run(p, n, TOKEN);

	keep_name(f, p, run);
	if (run == n)
		return (ssize_t)run;
	if (p[run] == ' ' || p[run] == '\t')
		return framing_malformed(
		    f, "white space in the name of a header or "
		       "before its colon");
	if (p[run] != ':' || f->name_n == 0)
		return framing_malformed(
		    f, "a line of the head is no \"Name: value\"");
	f->header = header_of(str_of(f->name, f->name_n));
	f->state = FRAMING_VALUE;
	return (ssize_t)run + 1;
}

/* Without the white space around it. False: it does not fit. */
static bool keep_value(struct framing *f, const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (p[i] == ' ' || p[i] == '\t') {
			f->value_over = f->value_n > 0;
			continue;
		}
		if (f->value_over || f->value_n == FRAMING_VALUE_MAX)
			return false;
		f->value[f->value_n++] = (char)p[i];
	}
	return true;
}

static bool is_host(struct framing *f, const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (p[i] == ' ' || p[i] == '\t') {
			f->value_over = f->value_n > 0;
			continue;
		}
		if (f->value_over || !framing_is(p[i], HOST))
			return false;
		f->value_n = 1;
	}
	return true;
}

/* The server library keeps a copy of it, and an entry for each cookie. */
static int count_cookies(struct framing *f, const uint8_t *p, size_t n)
{
	size_t entries = f->value_n == 0 && n > 0 ? 1 : 0;

	f->value_n = n > 0 ? 1 : f->value_n;
	for (size_t i = 0; i < n; i++)
		entries += p[i] == ';' || p[i] == ',';
	return framing_count(f, n + entries * LIMIT_HEAD_ENTRY_BYTES);
}

static int look_at_value(struct framing *f, const uint8_t *p, size_t n)
{
	switch (f->header) {
	case FRAMING_HOST:
		if (!is_host(f, p, n))
			return framing_malformed(
			    f, "Host: must be a name or address, "
			       "with a port or without");
		return 0;
	case FRAMING_LENGTH:
		if (!keep_value(f, p, n))
			return framing_malformed(
			    f, "Content-Length: must be a number");
		return 0;
	case FRAMING_CODING:
		/* a tab is white space to some and part of it to others */
		if (memchr(p, '\t', n) != NULL || !keep_value(f, p, n))
			return framing_malformed(f,
						 "Transfer-Encoding: must be "
						 "chunked");
		return 0;
	case FRAMING_COOKIE:
		return count_cookies(f, p, n);
	case FRAMING_OTHER:
		break;
	}
	return 0;
}

ssize_t framing_on_value(struct framing *f, const uint8_t *p, size_t n)
{
	size_t run = framing_run(p, n, VALUE);
	int r = look_at_value(f, p, run);

	if (r < 0)
		return r;
	if (run == n)
		return (ssize_t)run;
	if (p[run] == '\n')
		return framing_malformed(f,
					 "a line of the head ends without CR");
	if (p[run] != '\r')
		return framing_malformed(
		    f, "a control character in the value of a "
		       "header");
	f->state = FRAMING_VALUE_LF;
	return (ssize_t)run + 1;
}

static int end_length(struct framing *f)
{
	struct str v = str_of(f->value, f->value_n);

	if (f->has_length)
		return framing_malformed(f,
					 "Content-Length: it is there twice");
	f->has_length = true;
	if (v.n == 0 || framing_run((const uint8_t *)v.p, v.n, DIGIT) != v.n)
		return framing_malformed(f, "Content-Length: must be a number");
	/* the library does not read such a number; others see the next head */
	if (!str_parse_u64(v, &f->left) || f->left > INT64_MAX)
		return framing_refuse(f, ERR_BODY_TOO_LARGE, NULL);
	return 0;
}

static bool value_is(const struct framing *f, const char *word)
{
	if (f->value_n != strlen(word))
		return false;
	for (size_t i = 0; i < f->value_n; i++)
		if ((f->value[i] | 0x20) != word[i])
			return false;
	return true;
}

static int end_coding(struct framing *f)
{
	if (f->is_chunked)
		return framing_malformed(
		    f, "Transfer-Encoding: it is there twice");
	if (f->is_1_0)
		return framing_malformed(f,
					 "Transfer-Encoding: not in HTTP/1.0");
	if (!value_is(f, "chunked"))
		return framing_malformed(f,
					 "Transfer-Encoding: must be chunked");
	f->is_chunked = true;
	return 0;
}

/* A header is complete. */
static int end_header(struct framing *f)
{
	bool frames = f->header == FRAMING_HOST ||
		      f->header == FRAMING_LENGTH ||
		      f->header == FRAMING_CODING;

	if (f->in_trailer)
		return frames ? framing_malformed(
				    f, "a trailer must not be about the "
				       "framing or the routing")
			      : 0;
	switch (f->header) {
	case FRAMING_HOST:
		if (f->has_host)
			return framing_malformed(f, "Host: it is there twice");
		f->has_host = true;
		return 0;
	case FRAMING_LENGTH:
		return end_length(f);
	case FRAMING_CODING:
		return end_coding(f);
	case FRAMING_COOKIE:
	case FRAMING_OTHER:
		break;
	}
	return 0;
}

ssize_t framing_on_value_lf(struct framing *f, const uint8_t *p,
			    _unused_ size_t n)
{
	int r;

	if (*p != '\n')
		return framing_malformed(f, "a CR without LF in the head");
	r = end_header(f);
	if (r < 0)
		return r;
	f->state = FRAMING_NAME_START;
	return 1;
}
