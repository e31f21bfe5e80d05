/*
 * See proto/mpk_cursor.h. Heads of msgpack by their first byte, as the
 * specification lists them.
 */
#include "proto/mpk_cursor.h"

#include <endian.h>

void mpk_cursor_init(struct mpk_cursor *c, struct str in)
{
	*c = (struct mpk_cursor){
		.p = (const unsigned char *)in.p,
		.end = (const unsigned char *)in.p + in.n,
		.budget = in.n > 0 ? in.n - 1 : 0, /* a head is no item */
	};
}

static inline size_t rest(const struct mpk_cursor *c)
{
	return (size_t)(c->end - c->p);
}

/* A number of 1, 2, 4 or 8 bytes. */
static inline bool take_be(struct mpk_cursor *c, unsigned bytes, uint64_t *ret)
{
	uint64_t v = 0;

	if (rest(c) < bytes)
		return false;
	memcpy((char *)&v + sizeof(v) - bytes, c->p, bytes);
	*ret = be64toh(v);
	c->p += bytes;
	return true;
}

static inline bool take_signed(struct mpk_cursor *c, unsigned bytes,
			       struct mpk_value *ret)
{
	unsigned shift = 64 - 8 * bytes;

	if (!take_be(c, bytes, &ret->u64))
		return false;
	ret->i64 = (int64_t)(ret->u64 << shift) >> shift;
	ret->type = ret->i64 >= 0 ? MPK_UINT : MPK_INT;
	return true;
}

static inline bool take_bytes(struct mpk_cursor *c, uint64_t n,
			      struct mpk_value *ret)
{
	if (n > rest(c))
		return false;
	ret->type = MPK_STR;
	ret->n = (uint32_t)n;
	ret->p = n > 0 ? (const char *)c->p : "";
	c->p += n;
	return true;
}

/* A byte says what it is; nobody here knows any. */
static inline bool take_other(struct mpk_cursor *c, uint64_t n,
			      struct mpk_value *ret)
{
	if (n >= rest(c))
		return false;
	ret->type = MPK_OTHER;
	c->p += n + 1;
	return true;
}

static inline bool enter(struct mpk_cursor *c, enum mpk_type type, uint64_t n,
			 struct mpk_value *ret)
{
	uint64_t items = type == MPK_MAP ? 2 * n : n;

	if (items > c->budget || c->depth == MPK_DEPTH)
		return false;
	c->budget -= items;
	c->depth++;
	ret->type = type;
	ret->n = (uint32_t)n;
	return true;
}

static bool take_float(struct mpk_cursor *c, unsigned bytes,
		       struct mpk_value *ret)
{
	uint32_t narrow;
	float f;

	ret->type = MPK_FLOAT;
	if (!take_be(c, bytes, &ret->u64)) /* the bits of f64 */
		return false;
	if (bytes == sizeof(f)) {
		narrow = (uint32_t)ret->u64;
		memcpy(&f, &narrow, sizeof(f));
		ret->f64 = (double)f;
	}
	return true;
}

/* Heads from 0xc0 to 0xdf. */
static bool take_long(struct mpk_cursor *c, unsigned head,
		      struct mpk_value *ret)
{
	uint64_t n;

	switch (head) {
	case 0xc0:
		ret->type = MPK_NIL;
		return true;
	case 0xc2:
	case 0xc3:
		ret->type = MPK_BOOL;
		ret->boolean = head == 0xc3;
		return true;
	case 0xc4:
	case 0xc5:
	case 0xc6: /* bin */
		return take_be(c, 1u << (head - 0xc4), &n) &&
		       take_bytes(c, n, ret);
	case 0xc7:
	case 0xc8:
	case 0xc9: /* ext */
		return take_be(c, 1u << (head - 0xc7), &n) &&
		       take_other(c, n, ret);
	case 0xca:
	case 0xcb:
		return take_float(c, 4u << (head - 0xca), ret);
	case 0xcc:
	case 0xcd:
	case 0xce:
	case 0xcf:
		ret->type = MPK_UINT;
		return take_be(c, 1u << (head - 0xcc), &ret->u64);
	case 0xd0:
	case 0xd1:
	case 0xd2:
	case 0xd3:
		return take_signed(c, 1u << (head - 0xd0), ret);
	case 0xd4:
	case 0xd5:
	case 0xd6:
	case 0xd7:
	case 0xd8: /* ext of 1 to 16 bytes */
		return take_other(c, 1u << (head - 0xd4), ret);
	case 0xd9:
	case 0xda:
	case 0xdb: /* str */
		return take_be(c, 1u << (head - 0xd9), &n) &&
		       take_bytes(c, n, ret);
	case 0xdc:
	case 0xdd:
		return take_be(c, 2u << (head - 0xdc), &n) &&
		       enter(c, MPK_ARRAY, n, ret);
	case 0xde:
	case 0xdf:
		return take_be(c, 2u << (head - 0xde), &n) &&
		       enter(c, MPK_MAP, n, ret);
	default:
		return false;
	}
}

bool mpk_take(struct mpk_cursor *c, struct mpk_value *ret)
{
	unsigned head;

	if (c->p == c->end)
		return false;
	head = *c->p++;
	if (head < 0x80 || head >= 0xe0) {
		ret->type = head < 0x80 ? MPK_UINT : MPK_INT;
		ret->i64 = head < 0x80 ? (int64_t)head : (int64_t)head - 0x100;
		return true;
	}
	if (head >= 0xc0)
		return take_long(c, head, ret);
	if (head >= 0xa0)
		return take_bytes(c, head & 0x1f, ret);
	return enter(c, head < 0x90 ? MPK_MAP : MPK_ARRAY, head & 0x0f, ret);
}

void mpk_leave(struct mpk_cursor *c)
{
	REQUIRE(c->depth > 0);
	c->depth--;
}

bool mpk_skip(struct mpk_cursor *c)
{
	struct mpk_value v = { 0 };
	uint64_t items;

	if (!mpk_take(c, &v))
		return false;
	if (v.type != MPK_ARRAY && v.type != MPK_MAP)
		return true;
	items = v.type == MPK_MAP ? 2 * (uint64_t)v.n : v.n;
	for (; items > 0; items--)
		if (!mpk_skip(c)) /* as deep as MPK_DEPTH */
			return false;
	mpk_leave(c);
	return true;
}
