/*
 * The cursor of a list: where the page before ended, as opaque text. Comes
 * back from clients, so every byte of it is checked.
 *
 * base64url of: version, sort, order ('a' or 'd'), whether there is an
 * `after`, seen, filter, from, to, and after (whether it has a key, its key in
 * 8 bytes, its text with its length before it, its spot). A spot: two lengths
 * and the bytes.
 */
#include "query/search.h"

#define CURSOR_VERSION 3
#define SPOT_MAX       (2 + TIMETEXT_LEN + LIMIT_JOB_ID_BYTES)
#define HIT_MAX        (1 + 8 + 1 + LIMIT_MODEL_BYTES + SPOT_MAX)
#define CURSOR_RAW_MAX (4 + 4 + 4 + 2 * SPOT_MAX + HIT_MAX)

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

/* --- the bytes --- */

static void put_number(struct buf *b, uint64_t v, unsigned bytes)
{
	while (bytes-- > 0)
		buf_putc(b, (char)(v >> bytes * 8));
}

static void put_spot(struct buf *b, const struct spot *s)
{
	buf_putc(b, (char)s->created_n);
	buf_putc(b, (char)s->id_n);
	buf_put_str(b, spot_created(s));
	buf_put_str(b, spot_id(s));
}

struct str cursor_format(const struct cursor *c, struct arena *a)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(CURSOR_RAW_MAX);

	put_number(&b, CURSOR_VERSION, 1);
	put_number(&b, c->sort, 1);
	buf_putc(&b, c->descending ? 'd' : 'a');
	put_number(&b, c->has_after, 1);
	put_number(&b, c->seen, 4);
	put_number(&b, c->filter, 4);
	put_spot(&b, &c->from);
	put_spot(&b, &c->to);
	if (c->has_after) {
		put_number(&b, c->after.none, 1);
		put_number(&b, c->after.key, 8);
		put_number(&b, c->after.text_n, 1);
		buf_put_str(&b, hit_text(&c->after));
		put_spot(&b, &c->after.spot);
	}
	return encode((const uint8_t *)b.p, b.n, a);
}

struct reader {
	const uint8_t *p, *end;
	bool bad;
};

static uint64_t get_number(struct reader *r, unsigned bytes)
{
	uint64_t v = 0;

	if ((size_t)(r->end - r->p) < bytes) {
		r->bad = true;
		return 0;
	}
	while (bytes-- > 0)
		v = v << 8 | *r->p++;
	return v;
}

/* must: it may not be none. */
static void get_spot(struct reader *r, bool must, struct spot *ret)
{
	size_t created_n = get_number(r, 1), id_n = get_number(r, 1);
	bool none = created_n == 0 && id_n == 0 && !must;

	if (r->bad || (size_t)(r->end - r->p) < created_n + id_n) {
		r->bad = true;
		return;
	}
	spot_set(ret, str_of(r->p, created_n), str_of(r->p + created_n, id_n));
	r->p += created_n + id_n;
	if (!none && (timetext_parse(spot_created(ret)) == 0 ||
		      !str_is_utf8(spot_id(ret))))
		r->bad = true;
}

static void get_text(struct reader *r, struct hit *ret)
{
	size_t n = get_number(r, 1);

	if (r->bad || (size_t)(r->end - r->p) < n || n > sizeof(ret->text)) {
		r->bad = true;
		return;
	}
	hit_set_text(ret, str_of(r->p, n));
	r->p += n;
}

static bool get_head(struct reader *r, struct cursor *ret)
{
	uint64_t version = get_number(r, 1), sort = get_number(r, 1);
	uint64_t order = get_number(r, 1), has_after = get_number(r, 1);

	if (version != CURSOR_VERSION || sort >= SORTS || has_after > 1 ||
	    (order != 'a' && order != 'd'))
		return false;
	ret->sort = (enum search_sort)sort;
	ret->descending = order == 'd';
	ret->has_after = has_after == 1;
	ret->seen = (uint32_t)get_number(r, 4);
	ret->filter = (uint32_t)get_number(r, 4);
	return true;
}

bool cursor_parse(struct str text, struct cursor *ret)
{
	uint8_t raw[CURSOR_RAW_MAX];
	struct reader r = { .p = raw };
	size_t n;

	*ret = (struct cursor){ 0 };
	if (!decode(text, raw, sizeof(raw), &n))
		return false;
	r.end = raw + n;
	if (!get_head(&r, ret))
		return false;
	get_spot(&r, false, &ret->from);
	get_spot(&r, false, &ret->to);
	if (ret->has_after) {
		ret->after.none = get_number(&r, 1) != 0;
		ret->after.key = get_number(&r, 8);
		get_text(&r, &ret->after);
		get_spot(&r, true, &ret->after.spot);
	}
	return !r.bad && r.p == r.end;
}
