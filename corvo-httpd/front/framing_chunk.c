/*
 * The body of a request in chunks. See front/framing.h.
 */
#include "front/framing_parts.h"
#include "proto/err.h"
#include "proto/limits.h"

static unsigned hex_of(uint8_t c)
{
	return c <= '9' ? c - (unsigned)'0' : (c | 0x20u) - 'a' + 10;
}

ssize_t framing_on_chunk_size(struct framing *f, const uint8_t *p,
			      _unused_ size_t n)
{
	if (framing_is(*p, HEX)) {
		f->left = f->left << 4 | hex_of(*p);
		if (f->left > LIMIT_BODY_BYTES)
			return framing_refuse(f, ERR_BODY_TOO_LARGE, NULL);
		if (++f->line_n > LIMIT_CHUNK_LINE_BYTES)
			return framing_malformed(
			    f, "the line before a chunk is too "
			       "long");
		return 1;
	}
	if (f->line_n == 0)
		return framing_malformed(f, "a chunk has no size");
	if (*p != '\r' && *p != ';')
		return framing_malformed(f, "the size of a chunk is no number");
	f->state = FRAMING_CHUNK_EXT;
	return 0;
}

/* The next byte of an extension; false: it does not belong there. */
static bool is_ext(struct framing *f, uint8_t c)
{
	bool token = framing_is(c, TOKEN);

	switch (f->ext) {
	case FRAMING_EXT_NAME:
		if (c == '=')
			f->ext = FRAMING_EXT_VALUE_START;
		if (c == '=' || token)
			return true;
		break;
	case FRAMING_EXT_VALUE:
		if (token)
			return true;
		break;
	case FRAMING_EXT_NAME_START:
		f->ext = FRAMING_EXT_NAME;
		return token;
	case FRAMING_EXT_VALUE_START:
		f->ext = c == '"' ? FRAMING_EXT_QUOTED : FRAMING_EXT_VALUE;
		return c == '"' || token;
	case FRAMING_EXT_QUOTED:
		if (c == '\\')
			f->ext = FRAMING_EXT_ESCAPED;
		else if (c == '"')
			f->ext = FRAMING_EXT_UNQUOTED;
		return framing_is(c, VALUE);
	case FRAMING_EXT_ESCAPED:
		f->ext = FRAMING_EXT_QUOTED;
		return framing_is(c, VALUE);
	case FRAMING_EXT_NONE:
	case FRAMING_EXT_UNQUOTED:
		break;
	}
	f->ext = FRAMING_EXT_NAME_START;
	return c == ';';
}

static bool is_ext_over(const struct framing *f)
{
	return f->ext == FRAMING_EXT_NONE || f->ext == FRAMING_EXT_NAME ||
	       f->ext == FRAMING_EXT_VALUE || f->ext == FRAMING_EXT_UNQUOTED;
}

/* Extensions of a chunk mean nothing to us. */
ssize_t framing_on_chunk_ext(struct framing *f, const uint8_t *p,
			     _unused_ size_t n)
{
	if (*p == '\r' && is_ext_over(f)) {
		f->state = FRAMING_CHUNK_LF;
		f->ext = FRAMING_EXT_NONE;
		return 1;
	}
	if (!is_ext(f, *p))
		return framing_malformed(
		    f, "the line before a chunk is not SIZE or "
		       "SIZE;NAME=VALUE, with CR LF");
	if (++f->line_n > LIMIT_CHUNK_LINE_BYTES)
		return framing_malformed(f,
					 "the line before a chunk is too long");
	return 1;
}

ssize_t framing_on_chunk_lf(struct framing *f, const uint8_t *p,
			    _unused_ size_t n)
{
	if (*p != '\n')
		return framing_malformed(f,
					 "the line before a chunk does not end "
					 "with CR LF");
	f->line_n = 0;
	f->in_trailer = f->left == 0;
	f->state = f->left == 0 ? FRAMING_NAME_START : FRAMING_CHUNK_DATA;
	return 1;
}

ssize_t framing_on_chunk_data(struct framing *f, _unused_ const uint8_t *p,
			      size_t n)
{
	size_t taken = MIN(n, f->left);

	f->left -= taken;
	if (f->left == 0)
		f->state = FRAMING_DATA_CR;
	return (ssize_t)taken;
}

ssize_t framing_on_data_cr(struct framing *f, const uint8_t *p,
			   _unused_ size_t n)
{
	return framing_expect(f, *p, '\r', FRAMING_DATA_LF,
			      "a chunk is longer than its size");
}

ssize_t framing_on_data_lf(struct framing *f, const uint8_t *p,
			   _unused_ size_t n)
{
	return framing_expect(f, *p, '\n', FRAMING_CHUNK_SIZE,
			      "a chunk is longer than its size");
}
