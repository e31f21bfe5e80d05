/*
 * Messages as the JSON of proto3: names in lowerCamelCase, numbers of 64 bits
 * as texts, bytes in base64, defaults left out. See rpc/pb/pb.h.
 */
#include "rpc/pb/show.h"
#include "util/base64.h"

void pb_json_name(const char *name, char ret[PB_NAME_BYTES])
{
	size_t n = 0;

	for (; *name != '\0' && n + 1 < PB_NAME_BYTES; name++)
		if (name[0] == '_' && name[1] >= 'a' && name[1] <= 'z')
			ret[n++] = (char)(*++name - 'a' + 'A');
		else
			ret[n++] = *name;
	ret[n] = '\0';
}

static void put_key(struct json_writer *w, const struct pb_field *f)
{
	char name[PB_NAME_BYTES];

	pb_json_name(f->name, name);
	jw_key(w, name);
}

static void put_wide(struct json_writer *w, uint64_t v, bool is_signed)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(32);

	if (is_signed)
		buf_put_i64(&text, (int64_t)v);
	else
		buf_put_u64(&text, v);
	jw_str(w, buf_str(&text));
}

static void put_bytes(struct json_writer *w, struct str bytes)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);

	base64_write(&text, bytes, true);
	jw_str(w, buf_str(&text));
}

static void put_text(struct json_writer *w, const struct pb_field *f,
		     struct str text)
{
	if (f->type == PB_bytes)
		put_bytes(w, text);
	else
		jw_str(w, text);
}

/* A number; false: it is none. */
static bool put_number(struct json_writer *w, const struct pb_field *f,
		       const struct field_desc *member, uint64_t v)
{
	switch ((enum pb_type)f->type) {
	case PB_bool:
		jw_bool(w, v != 0);
		return true;
	case PB_int32:
	case PB_secs:
		jw_i64(w, (int64_t)v);
		return true;
	case PB_uint32:
		jw_u64(w, v);
		return true;
	case PB_int64:
	case PB_ms:
		put_wide(w, v, true);
		return true;
	case PB_uint64:
	case PB_ns:
		put_wide(w, v, false);
		return true;
	case PB_enum:
		jw_cstr(w, enum_text(member->values, (uint32_t)v));
		return true;
	case PB_double:
	case PB_string:
	case PB_bytes:
	case PB_json:
	case PB_dur:
	case PB_word:
	case PB_time:
	case PB_message:
		break;
	}
	return false;
}

static bool is_text(const struct pb_field *f)
{
	return f->type == PB_string || f->type == PB_bytes ||
	       f->type == PB_json || f->type == PB_dur || f->type == PB_word;
}

static void put_value(struct json_writer *w, const struct pb_field *f,
		      const struct field_desc *member, const void *p)
{
	bool with_zero = (f->flags & (PB_OPTIONAL | PB_ONEOF)) != 0;
	struct str text;
	uint64_t v;

	if (f->type == PB_time) {
		put_key(w, f);
		jw_time(w, *(const uint64_t *)p);
	} else if (f->type == PB_double) {
		if (!with_zero && pb_double(member, p) == 0)
			return;
		put_key(w, f);
		jw_double(w, pb_double(member, p));
	} else if (is_text(f)) {
		text = pb_text(f, member, p);
		if (!with_zero && text.n == 0)
			return;
		put_key(w, f);
		put_text(w, f, text);
	} else {
		v = pb_number(f, member, p);
		if (!with_zero && v == 0)
			return;
		put_key(w, f);
		REQUIRE(put_number(w, f, member, v));
	}
}

static void put_list(struct json_writer *w, const struct pb_field *f,
		     const struct field_desc *member, const char *m)
{
	size_t n = *(const size_t *)(m + member->count_offset);
	const char *items = *(const char *const *)(m + member->offset);

	if (n == 0)
		return;
	put_key(w, f);
	jw_array(w);
	for (size_t i = 0; i < n; i++)
		if (f->type == PB_message)
			pb_write_json(f->sub, items + i * f->sub->msg->size, w);
		else
			put_text(w, f, ((const struct str *)items)[i]);
	jw_array_end(w);
}

static void put_map(struct json_writer *w, const struct pb_field *f,
		    const struct field_desc *member, const char *m)
{
	size_t n = *(const size_t *)(m + member->count_offset);
	const char *items = *(const char *const *)(m + member->offset);
	const struct msg_desc *d = f->sub->msg;

	if (n == 0)
		return;
	put_key(w, f);
	jw_object(w);
	for (size_t i = 0; i < n; i++) {
		const char *item = items + i * d->size;

		jw_key_str(
		    w, *(const struct str *)(item + d->fields[f->key].offset));
		pb_write_json(f->sub, item, w);
	}
	jw_object_end(w);
}

void pb_write_json(const struct pb_desc *d, const void *m,
		   struct json_writer *w)
{
	uint64_t has = *(const uint64_t *)m;

	jw_object(w);
	for (size_t i = 0; i < d->n; i++) {
		const struct pb_field *f = &d->fields[i];
		const struct field_desc *member;
		const char *p;

		if ((f->flags & PB_FOUND) != 0 && has != 0) {
			put_key(w, f);
			jw_bool(w, true);
		}
		if (!pb_is_shown(d, f, has))
			continue;
		member = pb_member(d, f);
		p = (const char *)m + member->offset;
		if (f->flags & PB_MAP) {
			put_map(w, f, member, m);
		} else if (f->flags & PB_REPEATED) {
			put_list(w, f, member, m);
		} else if (f->type == PB_message) {
			put_key(w, f);
			pb_write_json(f->sub, *(const char *const *)p, w);
		} else {
			put_value(w, f, member, p);
		}
	}
	jw_object_end(w);
}
