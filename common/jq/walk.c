/*
 * Walks a document that nobody has looked at yet. Of JSON it gives the members
 * and items as they are; of anything else it gives some bytes of the text, or
 * ends: whoever believes what it says validates the document then. So the many
 * documents that do not match are read once, and only as far as is asked.
 *
 * The text is hostile; nothing outside of it is read, and nothing is copied.
 */
#include "jq/jq_impl.h"
#include "util/turn.h"

static const char *skip_space(const char *p, const char *end)
{
	const char *start = p;

	while (p < end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r'))
		turn_at((size_t)(p++ - start));
	return p;
}

/* p: after the opening quote; returns what is after the closing one, or NULL.
 */
static const char *skip_text(const char *p, const char *end)
{
	const char *start = p, *quote;

	while (p < end) {
		size_t slashes = 0;

		quote = memchr(p, '"', (size_t)(end - p));
		if (quote == NULL)
			return NULL;
		(void)turn_bytes((size_t)(quote - p));
		while (quote - slashes > start &&
		       *(quote - slashes - 1) == '\\')
			slashes++;
		if (slashes % 2 == 0)
			return quote + 1;
		p = quote + 1;
	}
	return NULL;
}

/* An object or array: to where as many are closed as were opened. */
static const char *skip_container(const char *p, const char *end)
{
	const char *stop = turn_piece(p, end);
	size_t depth = 0;

	while (p != NULL && p < end) {
		char c = *p++;

		if (p >= stop) {
			(void)turn_bytes(TURN_PIECE_BYTES);
			stop = turn_piece(p, end);
		}
		if (c == '"')
			p = skip_text(p, end);
		else if (c == '{' || c == '[')
			depth++;
		else if ((c == '}' || c == ']') && --depth == 0)
			return p;
	}
	return NULL;
}

/* A number or word. */
static const char *skip_word(const char *p, const char *end)
{
	const char *start = p;

	for (; p < end; p++) {
		switch (*p) {
		case ',':
		case '}':
		case ']':
		case ' ':
		case '\n':
		case '\t':
		case '\r':
			return p;
		default:
			turn_at((size_t)(p - start));
		}
	}
	return p;
}

static const char *skip_value(const char *p, const char *end)
{
	if (*p == '"')
		return skip_text(p + 1, end);
	if (*p == '{' || *p == '[')
		return skip_container(p, end);
	return skip_word(p, end);
}

struct jq_iter jq_iter(struct json v)
{
	const char *p = v.raw.p;

	if (v.raw.n < 2)
		return (struct jq_iter){ .p = p, .end = p };
	return (struct jq_iter){ .p = p + 1, .end = p + v.raw.n - 1 };
}

bool jq_iter_skip(struct jq_iter *it, struct json *ret)
{
	const char *start = it->p;

	it->p = start < it->end ? skip_value(start, it->end) : NULL;
	if (it->p == NULL || it->p == start) {
		it->p = it->end;
		return false;
	}
	ret->raw = str_of(start, (size_t)(it->p - start));
	(void)turn_step();
	return true;
}

bool jq_iter_item(struct jq_iter *it)
{
	it->p = skip_space(it->p, it->end);
	if (it->p < it->end && *it->p == ',')
		it->p = skip_space(it->p + 1, it->end);
	return it->p < it->end && *it->p != '}' && *it->p != ']';
}

bool jq_iter_member(struct jq_iter *it, struct json *ret_key)
{
	if (!jq_iter_item(it) || *it->p != '"' || !jq_iter_skip(it, ret_key))
		return false;
	it->p = skip_space(it->p, it->end);
	if (it->p == it->end || *it->p != ':')
		return false;
	it->p = skip_space(it->p + 1, it->end);
	return it->p < it->end;
}

bool jq_next_item(struct jq_iter *it, struct json *ret)
{
	return jq_iter_item(it) && jq_iter_skip(it, ret);
}

bool jq_next_member(struct jq_iter *it, struct json *ret_key, struct json *ret)
{
	return jq_iter_member(it, ret_key) && jq_iter_skip(it, ret);
}
