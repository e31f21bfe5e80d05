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

/* Within its object or array only a comma or space ends a number or word. */
static const char *skip_value(const char *p, const char *end)
{
	if (*p == '"')
		return skip_text(p + 1, end);
	if (*p == '{' || *p == '[')
		return skip_container(p, end);
	while (p < end && *p != ',' && skip_space(p, p + 1) == p)
		p++;
	return p;
}

struct jq_iter jq_iter(struct json v)
{
	const char *p = v.raw.p;

	if (v.raw.n < 2)
		return (struct jq_iter){ .p = p, .end = p };
	return (struct jq_iter){ .p = p + 1, .end = p + v.raw.n - 1 };
}

bool jq_next_item(struct jq_iter *it, struct json *ret)
{
	const char *start = skip_space(it->p, it->end);

	if (start < it->end && *start == ',')
		start = skip_space(start + 1, it->end);
	if (start == it->end)
		return false;
	it->p = skip_value(start, it->end);
	if (it->p == NULL || it->p == start) {
		it->p = it->end;
		return false;
	}
	ret->raw = str_of(start, (size_t)(it->p - start));
	(void)turn_step();
	return true;
}

bool jq_next_member(struct jq_iter *it, struct json *ret_key, struct json *ret)
{
	if (!jq_next_item(it, ret_key) || ret_key->raw.p[0] != '"')
		return false;
	it->p = skip_space(it->p, it->end);
	if (it->p == it->end || *it->p != ':')
		return false;
	it->p++;
	return jq_next_item(it, ret);
}
