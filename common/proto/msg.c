/*
 * Messages as msgpack maps, driven by descriptors. Input comes from peers and
 * from disk: anything that does not fit is refused, nothing is trusted.
 *
 * Functions that follow nested messages call themselves along descriptors,
 * never along data: messages.def nests a few levels deep and has no cycles.
 */
#include "proto/msg.h"

#include "proto/err.h"
#include "proto/mpk.h"

#define TAG_MAX 63

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
	CHECK(n <= UINT32_MAX);
	mpk_array(out, (uint32_t)n);
	for (size_t i = 0; i < n; i++)
		mpk_str(out, items[i]);
}

static void encode_msgs(const struct msg_desc *d, const char *items, size_t n,
			struct buf *out)
{
	CHECK(n <= UINT32_MAX);
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

	CHECK(d->n == 64 || has >> d->n == 0);
	mpk_map(out, (uint32_t)__builtin_popcountll(has));
	for (; has != 0; has &= has - 1) {
		const struct field_desc *f = &d->fields[__builtin_ctzll(has)];

		buf_putc(out, (char)f->tag); /* a fixint: tags are < 128 */
		encode_field(f, m, out);
	}
}

/* --- reading --- */

static int decode_node(const struct msg_desc *d, const struct mpk_node *v,
		       struct arena *a, void *ret);

static int decode_strs(const struct mpk_node *v, struct arena *a,
		       struct str **ret, size_t *ret_n)
{
	uint32_t n;
	struct str *items;

	if (mpk_type_of(v) != MPK_ARRAY)
		return -ERR_BAD_MESSAGE;
	n = mpk_count(v);
	items = arena_alloc(a, n * sizeof(*items));
	for (uint32_t i = 0; i < n; i++) {
		const struct mpk_node *item = mpk_item(v, i);

		if (mpk_type_of(item) != MPK_STR)
			return -ERR_BAD_MESSAGE;
		items[i] = mpk_get_str(item);
	}
	*ret = items;
	*ret_n = n;
	return 0;
}

static int decode_msgs(const struct msg_desc *d, const struct mpk_node *v,
		       struct arena *a, void **ret, size_t *ret_n)
{
	uint32_t n;
	char *items;

	if (mpk_type_of(v) != MPK_ARRAY)
		return -ERR_BAD_MESSAGE;
	n = mpk_count(v);
	items = arena_alloc(a, n * d->size);
	for (uint32_t i = 0; i < n; i++) {
		int r = decode_node(d, mpk_item(v, i), a, items + i * d->size);

		if (r < 0)
			return r;
	}
	*ret = items;
	*ret_n = n;
	return 0;
}

static bool enum_has(const struct enum_desc *e, uint32_t number)
{
	return enum_text(e, number) != NULL ||
	       (number != 0 && number == e->inner);
}

static int decode_u32(const struct field_desc *f, const struct mpk_node *v,
		      uint32_t *ret)
{
	uint64_t number;

	if (mpk_type_of(v) != MPK_UINT)
		return -ERR_BAD_MESSAGE;
	number = mpk_get_u64(v);
	if (number > UINT32_MAX)
		return -ERR_BAD_MESSAGE;
	/* Tables are indexed by these, so no unknown number gets in. */
	if (f->kind == K_enum && !enum_has(f->values, (uint32_t)number))
		return -ERR_BAD_MESSAGE;
	*ret = (uint32_t)number;
	return 0;
}

static int decode_i64(const struct mpk_node *v, int64_t *ret)
{
	if (mpk_type_of(v) != MPK_INT &&
	    (mpk_type_of(v) != MPK_UINT || mpk_get_u64(v) > INT64_MAX))
		return -ERR_BAD_MESSAGE;
	*ret = mpk_get_i64(v);
	return 0;
}

/* Kinds whose value is one node of one type; p is the member. */
static int decode_plain(const struct field_desc *f, const struct mpk_node *v,
			enum mpk_type type, void *p)
{
	if (mpk_type_of(v) != type)
		return -ERR_BAD_MESSAGE;
	if (type == MPK_UINT)
		*(uint64_t *)p = mpk_get_u64(v);
	else if (type == MPK_STR)
		*(struct str *)p = mpk_get_str(v);
	else if (type == MPK_BOOL)
		*(bool *)p = mpk_get_bool(v);
	else if (f->kind == K_f64)
		*(double *)p = mpk_get_f64(v);
	return 0;
}

static int decode_field(const struct field_desc *f, const struct mpk_node *v,
			struct arena *a, char *m)
{
	void *p = m + f->offset;
	size_t *n = (size_t *)(m + f->count_offset);

	switch ((enum field_kind)f->kind) {
	case K_bool:
		return decode_plain(f, v, MPK_BOOL, p);
	case K_u32:
	case K_enum:
		return decode_u32(f, v, p);
	case K_u64:
	case K_time:
	case K_dur:
	case K_secs:
		return decode_plain(f, v, MPK_UINT, p);
	case K_i64:
		return decode_i64(v, p);
	case K_f64:
		return decode_plain(f, v, MPK_FLOAT, p);
	case K_str:
	case K_raw:
		return decode_plain(f, v, MPK_STR, p);
	case K_strs:
		return decode_strs(v, a, p, n);
	case K_msg:
		*(void **)p = arena_alloc(a, f->sub->size);
		return decode_node(f->sub, v, a, *(void **)p);
	case K_msgs:
		return decode_msgs(f->sub, v, a, p, n);
	}
	return -ERR_BAD_MESSAGE;
}

static int decode_node(const struct msg_desc *d, const struct mpk_node *v,
		       struct arena *a, void *ret)
{
	uint64_t seen = 0; /* by tag, so that unknown ones count as well */
	uint64_t has = 0;

	if (mpk_type_of(v) != MPK_MAP)
		return -ERR_BAD_MESSAGE;
	memset(ret, 0, d->size);
	for (uint32_t i = 0, n = mpk_count(v); i < n; i++) {
		const struct mpk_node *key = mpk_key(v, i);
		uint64_t tag;
		unsigned index;
		int r;

		if (mpk_type_of(key) != MPK_UINT)
			return -ERR_BAD_MESSAGE;
		tag = mpk_get_u64(key);
		if (tag > TAG_MAX || (seen >> tag & 1) != 0)
			return -ERR_BAD_MESSAGE;
		seen |= 1ULL << tag;
		index = d->by_tag[tag];
		if (index == 0)
			continue;
		r = decode_field(&d->fields[index - 1], mpk_value(v, i), a,
				 ret);
		if (r < 0)
			return r;
		has |= 1ULL << (index - 1);
	}
	*(uint64_t *)ret = has;
	return 0;
}

int msg_decode(const struct msg_desc *d, struct str in, struct arena *a,
	       void *ret)
{
	const struct mpk_node *root = mpk_parse(mpk_reader_get(), in);

	if (root == NULL)
		return -ERR_BAD_MESSAGE;
	return decode_node(d, root, a, ret);
}
