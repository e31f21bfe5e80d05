/*
 * The cursor of a list: where the page before ended, as opaque text. Comes
 * back from clients, so every byte of it is checked.
 *
 * base64url of: version, order ('a' or 'd'), created_at in fixed width, id.
 */
#include "query_impl.h"
#include "timetext.h"

#define CURSOR_VERSION 1
#define CURSOR_HEAD    2
#define CURSOR_RAW_MAX (CURSOR_HEAD + TIMETEXT_LEN + LIMIT_JOB_ID_BYTES)

static const char digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static struct str encode(const uint8_t *p, size_t n, struct arena *a)
{
	char *out = arena_alloc(a, (n + 2) / 3 * 4);
	size_t len = 0;
	uint32_t bits = 0;
	unsigned have = 0;

	for (size_t i = 0; i < n; i++) {
		bits = bits << 8 | p[i];
		for (have += 8; have >= 6; have -= 6)
			out[len++] = digits[bits >> (have - 6) & 63];
	}
	if (have > 0)
		out[len++] = digits[bits << (6 - have) & 63];
	return str_of(out, len);
}

/* Decodes into ret (max bytes); false when it is not base64url or longer. */
static bool decode(struct str text, uint8_t *ret, size_t max, size_t *ret_n)
{
	uint32_t bits = 0;
	unsigned have = 0;
	size_t n = 0;

	for (size_t i = 0; i < text.n; i++) {
		const char *d =
		    text.p[i] == '\0' ? NULL : strchr(digits, text.p[i]);

		if (d == NULL)
			return false;
		bits = bits << 6 | (uint32_t)(d - digits);
		have += 6;
		if (have < 8)
			continue;
		have -= 8;
		if (n == max)
			return false;
		ret[n++] = (uint8_t)(bits >> have);
	}
	*ret_n = n;
	return true;
}

struct str cursor_format(const struct cursor *c, struct arena *a)
{
	uint8_t raw[CURSOR_RAW_MAX] = { CURSOR_VERSION,
					c->descending ? 'd' : 'a' };

	/* Rows that raftd's limits allow always fit. */
	if (c->created_at.n != TIMETEXT_LEN || c->id.n > LIMIT_JOB_ID_BYTES)
		return STR_NULL;
	memcpy(raw + CURSOR_HEAD, c->created_at.p, TIMETEXT_LEN);
	memcpy(raw + CURSOR_HEAD + TIMETEXT_LEN, c->id.p, c->id.n);
	return encode(raw, CURSOR_HEAD + TIMETEXT_LEN + c->id.n, a);
}

bool cursor_parse(struct str text, struct arena *a, struct cursor *ret)
{
	uint8_t raw[CURSOR_RAW_MAX];
	struct str copy;
	size_t n;

	if (!decode(text, raw, sizeof(raw), &n) ||
	    n <= CURSOR_HEAD + TIMETEXT_LEN || raw[0] != CURSOR_VERSION ||
	    (raw[1] != 'a' && raw[1] != 'd'))
		return false;
	copy = arena_copy(a, str_of(raw + CURSOR_HEAD, n - CURSOR_HEAD));
	ret->descending = raw[1] == 'd';
	ret->created_at = str_of(copy.p, TIMETEXT_LEN);
	ret->id = str_skip(copy, TIMETEXT_LEN);
	return timetext_parse(ret->created_at) != 0 && str_is_utf8(ret->id);
}
