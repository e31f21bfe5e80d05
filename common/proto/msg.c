/*
 * Messages as msgpack maps, driven by descriptors. Input comes from peers and
 * from disk: anything that does not fit is refused, nothing is trusted.
 *
 * Functions that follow nested messages call themselves along descriptors,
 * never along data: messages.def nests a few levels deep and has no cycles.
 */
#include "proto/msg.h"

#include "proto/err.h"
#include "proto/mpk_cursor.h"
#include "util/turn.h"

#define TAG_MAX (MSG_TAGS - 1)

const char *enum_text(const struct enum_desc *e, uint32_t number)
{
	for (size_t i = 0; i < e->n; i++)
		if (e->values[i].number == number)
			return e->values[i].text;
	return NULL;
}

bool enum_parse(const struct enum_desc *e, struct str text, uint32_t *ret)
{
	for (size_t i = 0; i < e->n; i++) {
		if (str_is(text, e->values[i].text)) {
			*ret = e->values[i].number;
			return true;
		}
	}
	return false;
}

/* --- writing --- */

static void encode_strs(const struct str *items, size_t n, struct buf *out)
{
	REQUIRE(n <= UINT32_MAX);
	mpk_array(out, (uint32_t)n);
	for (size_t i = 0; i < n; i++)
		mpk_str(out, items[i]);
}

static void encode_msgs(const struct msg_desc *d, const char *items, size_t n,
			struct buf *out)
{
	REQUIRE(n <= UINT32_MAX);
	mpk_array(out, (uint32_t)n);
	for (size_t i = 0; i < n; i++)
		msg_encode(d, items + i * d->size, out);
}

static void encode_field(const struct field_desc *f, const char *m,
			 struct buf *out)
{
	const void *p = m + f->offset;
	size_t n = 0;

	if (f->count_offset != 0)
		n = *(const size_t *)(m + f->count_offset);
	switch ((enum field_kind)f->kind) {
	case K_bool:
		mpk_bool(out, *(const bool *)p);
		break;
	case K_u32:
	case K_enum:
		mpk_u64(out, *(const uint32_t *)p);
		break;
	case K_u64:
	case K_time:
	case K_dur:
	case K_secs:
	case K_nano:
		mpk_u64(out, *(const uint64_t *)p);
		break;
	case K_i64:
		mpk_i64(out, *(const int64_t *)p);
		break;
	case K_f64:
		mpk_f64(out, *(const double *)p);
		break;
	case K_str:
		mpk_str(out, *(const struct str *)p);
		break;
	case K_raw:
		mpk_bin(out, *(const struct str *)p);
		break;
	case K_strs:
		encode_strs(*(struct str *const *)p, n, out);
		break;
	case K_msg:
		msg_encode(f->sub, *(const void *const *)p, out);
		break;
	case K_msgs:
		encode_msgs(f->sub, *(const char *const *)p, n, out);
		break;
	}
}

void msg_encode(const struct msg_desc *d, const void *m, struct buf *out)
{
	uint64_t has = *(const uint64_t *)m;

	REQUIRE(d->n == 64 || has >> d->n == 0);
	mpk_map(out, (uint32_t)__builtin_popcountll(has));
	for (; has != 0; has &= has - 1) {
		const struct field_desc *f = &d->fields[__builtin_ctzll(has)];

		buf_putc(out, (char)f->tag); /* a fixint: tags are < 128 */
		encode_field(f, m, out);
	}
}

/* --- levels --- */

static unsigned number_level(const struct enum_desc *e, uint32_t number)
{
	for (size_t i = 0; i < e->n; i++)
		if (e->values[i].number == number)
			return e->values[i].level;
	return 1; /* one that only records hold */
}

/* A text that is no word of it is refused by whoever takes the operation. */
static unsigned words_level(const struct enum_desc *e, const struct str *words,
			    size_t n)
{
	unsigned level = 1;
	uint32_t number;

	for (size_t i = 0; i < n; i++)
		if (enum_parse(e, words[i], &number))
			level = MAX(level, number_level(e, number));
	return level;
}

/* Of a member that holds named values. */
static unsigned value_level(const struct field_desc *f, const void *m)
{
	const char *p = (const char *)m + f->offset;

	if (f->kind == K_enum)
		return number_level(f->values, *(const uint32_t *)p);
	if (f->kind == K_str)
		return words_level(f->values, (const struct str *)p, 1);
	if (f->kind == K_strs)
		return words_level(
		    f->values, *(const struct str *const *)p,
		    *(const size_t *)((const char *)m + f->count_offset));
	return 1;
}

unsigned field_level(const struct field_desc *f)
{
	return (f->flags & F_LEVEL_2) != 0 ? 2 : 1;
}

unsigned msg_needs_level(const struct msg_desc *d, const void *m)
{
	unsigned level = 1;

	for (uint64_t has = *(const uint64_t *)m; has != 0; has &= has - 1) {
		const struct field_desc *f = &d->fields[__builtin_ctzll(has)];
		const char *p = (const char *)m + f->offset;
		const char *items = NULL;
		size_t n = f->kind == K_msg;

		level = MAX(level, field_level(f));
		if (f->values != NULL)
			level = MAX(level, value_level(f, m));
		if (f->kind == K_msgs)
			n = *(const size_t *)((const char *)m +
					      f->count_offset);
		if (n > 0)
			items = *(const char *const *)p;
		for (size_t i = 0; i < n; i++)
			level = MAX(
			    level,
			    msg_needs_level(f->sub, items + i * f->sub->size));
	}
	return level;
}

bool msg_lower(const struct msg_desc *d, void *m, unsigned level)
{
	uint64_t *has = m;
	bool is_changed = false;

	for (uint64_t left = *has; left != 0; left &= left - 1) {
		const struct field_desc *f = &d->fields[__builtin_ctzll(left)];
		char *p = (char *)m + f->offset;
		size_t n = f->kind == K_msg;

		if ((f->flags & F_MAY_LACK) != 0 && field_level(f) > level) {
			*has &= ~(left & -left);
			is_changed = true;
			continue;
		}
		if (f->kind == K_msgs)
			n = *(const size_t *)((char *)m + f->count_offset);
		for (size_t i = 0; i < n; i++)
			is_changed |= msg_lower(
			    f->sub, *(char **)p + i * f->sub->size, level);
	}
	return is_changed;
}

/* --- durations as given --- */

const struct field_desc *msg_numbers(const struct msg_desc *d)
{
	for (size_t i = 0; i < d->n; i++)
		if ((d->fields[i].flags & F_NUMBERS) != 0)
			return &d->fields[i];
	return NULL;
}

/* --- reading --- */

static int decode_map(const struct msg_desc *d, struct mpk_cursor *c,
		      struct arena *a, void *ret);

/* The next value, which must be of that type. */
static inline bool take(struct mpk_cursor *c, enum mpk_type type,
			struct mpk_value *ret)
{
	return mpk_take(c, ret) && ret->type == type;
}

static int decode_strs(struct mpk_cursor *c, struct arena *a, struct str **ret,
		       size_t *ret_n)
{
	struct mpk_value v, item;
	struct str *items;

	if (!take(c, MPK_ARRAY, &v))
		return -ERR_BAD_MESSAGE;
	items = arena_alloc(a, v.n * sizeof(*items));
	for (uint32_t i = 0; i < v.n; i++) {
		if (!take(c, MPK_STR, &item))
			return -ERR_BAD_MESSAGE;
		items[i] = str_of(item.p, item.n);
	}
	mpk_leave(c);
	*ret = items;
	*ret_n = v.n;
	return 0;
}

static int decode_msgs(const struct msg_desc *d, struct mpk_cursor *c,
		       struct arena *a, void **ret, size_t *ret_n)
{
	struct mpk_value v;
	char *items;

	if (!take(c, MPK_ARRAY, &v))
		return -ERR_BAD_MESSAGE;
	items = arena_alloc(a, v.n * d->size);
	for (uint32_t i = 0; i < v.n; i++) {
		int r = decode_map(d, c, a, items + i * d->size);

		if (r < 0)
			return r;
	}
	mpk_leave(c);
	*ret = items;
	*ret_n = v.n;
	return 0;
}

static bool enum_has(const struct enum_desc *e, uint32_t number)
{
	return enum_text(e, number) != NULL ||
	       (number != 0 && number == e->inner);
}

static int decode_u32(const struct field_desc *f, struct mpk_cursor *c,
		      uint32_t *ret)
{
	struct mpk_value v;

	if (!take(c, MPK_UINT, &v) || v.u64 > UINT32_MAX)
		return -ERR_BAD_MESSAGE;
	/* Tables are indexed by these, so no unknown number gets in. */
	if (f->kind == K_enum && !enum_has(f->values, (uint32_t)v.u64))
		return -ERR_BAD_MESSAGE;
	*ret = (uint32_t)v.u64;
	return 0;
}

static int decode_i64(struct mpk_cursor *c, int64_t *ret)
{
	struct mpk_value v;

	if (!mpk_take(c, &v) ||
	    (v.type != MPK_INT && (v.type != MPK_UINT || v.u64 > INT64_MAX)))
		return -ERR_BAD_MESSAGE;
	*ret = v.i64;
	return 0;
}

/* Kinds whose value is one of one type; p is the member. */
static int decode_plain(struct mpk_cursor *c, enum mpk_type type, void *p)
{
	struct mpk_value v;

	if (!take(c, type, &v))
		return -ERR_BAD_MESSAGE;
	if (type == MPK_UINT)
		*(uint64_t *)p = v.u64;
	else if (type == MPK_STR)
		*(struct str *)p = str_of(v.p, v.n);
	else if (type == MPK_BOOL)
		*(bool *)p = v.boolean;
	else
		*(double *)p = v.f64;
	return 0;
}

static int decode_field(const struct field_desc *f, struct mpk_cursor *c,
			struct arena *a, char *m)
{
	void *p = m + f->offset;
	size_t *n = (size_t *)(m + f->count_offset);

	switch ((enum field_kind)f->kind) {
	case K_bool:
		return decode_plain(c, MPK_BOOL, p);
	case K_u32:
	case K_enum:
		return decode_u32(f, c, p);
	case K_u64:
	case K_time:
	case K_dur:
	case K_secs:
	case K_nano:
		return decode_plain(c, MPK_UINT, p);
	case K_i64:
		return decode_i64(c, p);
	case K_f64:
		return decode_plain(c, MPK_FLOAT, p);
	case K_str:
	case K_raw:
		return decode_plain(c, MPK_STR, p);
	case K_strs:
		return decode_strs(c, a, p, n);
	case K_msg:
		*(void **)p = arena_alloc(a, f->sub->size);
		return decode_map(f->sub, c, a, *(void **)p);
	case K_msgs:
		return decode_msgs(f->sub, c, a, p, n);
	}
	return -ERR_BAD_MESSAGE;
}

static int decode_map(const struct msg_desc *d, struct mpk_cursor *c,
		      struct arena *a, void *ret)
{
	/* by tag, so that unknown ones count as well */
	uint64_t seen[MSG_TAGS / 64] = { 0 };
	uint64_t has = 0;
	struct mpk_value v, tag;

	turn_step();
	if (!take(c, MPK_MAP, &v))
		return -ERR_BAD_MESSAGE;
	memset(ret, 0, d->size);
	for (uint32_t i = 0; i < v.n; i++) {
		unsigned index;
		int r;

		if (!take(c, MPK_UINT, &tag) || tag.u64 > TAG_MAX ||
		    (seen[tag.u64 / 64] >> tag.u64 % 64 & 1) != 0)
			return -ERR_BAD_MESSAGE;
		seen[tag.u64 / 64] |= 1ULL << tag.u64 % 64;
		index = d->by_tag[tag.u64];
		if (index == 0) {
			if (!mpk_skip(c))
				return -ERR_BAD_MESSAGE;
			continue;
		}
		r = decode_field(&d->fields[index - 1], c, a, ret);
		if (r < 0)
			return r;
		has |= 1ULL << (index - 1);
	}
	mpk_leave(c);
	*(uint64_t *)ret = has;
	return 0;
}

int msg_decode(const struct msg_desc *d, struct str in, struct arena *a,
	       void *ret)
{
	struct mpk_cursor c;
	int r;

	mpk_cursor_init(&c, in);
	r = decode_map(d, &c, a, ret);
	if (r == 0 && c.p != c.end)
		r = -ERR_BAD_MESSAGE;
	return r;
}
