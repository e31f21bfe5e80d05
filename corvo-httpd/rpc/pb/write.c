/*
 * Messages as protobuf. See rpc/pb/pb.h.
 */
#include "rpc/pb/show.h"
#include "rpc/pb/wire.h"
#include "util/nano.h"
#include "util/timefmt.h"

static void put_double(struct buf *out, uint32_t number, double v)
{
	wire_put_tag(out, number, WIRE_64);
	buf_append(out, &v, sizeof(v)); /* little-endian, as we are */
}

static void put_time(struct buf *out, uint32_t number, uint64_t ns)
{
	size_t start = wire_open(out, number);

	if (ns >= NS_PER_S)
		wire_put_number(out, 1, ns / NS_PER_S);
	if (ns % NS_PER_S != 0)
		wire_put_number(out, 2, ns % NS_PER_S);
	wire_close(out, start);
}

uint64_t pb_number(const struct pb_field *f, const struct field_desc *member,
		   const void *p)
{
	uint64_t v;

	if (member->kind == K_u32 || member->kind == K_enum)
		return *(const uint32_t *)p;
	if (member->kind == K_bool)
		return *(const bool *)p;
	v = *(const uint64_t *)p; /* of a K_i64 the same bits */
	if (f->type == PB_ms)
		return v / NS_PER_MS;
	/* 0 would be none */
	if (f->type == PB_secs)
		return v == 0 ? 0 : MAX(v / NS_PER_S, UINT64_C(1));
	return v;
}

double pb_double(const struct field_desc *member, const void *p)
{
	if (member->kind == K_nano)
		return (double)*(const uint64_t *)p / (double)NANO_PER_UNIT;
	return *(const double *)p;
}

/* It lasts until the next one is asked for: each is written at once. */
static struct str duration_text(uint64_t ns)
{
	static _Thread_local char text[64];
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	duration_format(&b, ns);
	REQUIRE(b.n <= sizeof(text));
	memcpy(text, b.p, b.n);
	return str_of(text, b.n);
}

struct str pb_text(const struct pb_field *f, const struct field_desc *member,
		   const void *p)
{
	if (f->type == PB_dur)
		return duration_text(*(const uint64_t *)p);
	if (f->type == PB_word)
		return str_from(
		    enum_text(member->values, *(const uint32_t *)p));
	return *(const struct str *)p;
}

static void put_value(const struct pb_field *f, const struct field_desc *member,
		      const void *p, bool with_zero, struct buf *out)
{
	struct str text;
	uint64_t v;

	switch ((enum pb_type)f->type) {
	case PB_double:
		if (with_zero || pb_double(member, p) != 0)
			put_double(out, f->number, pb_double(member, p));
		return;
	case PB_time:
		put_time(out, f->number, *(const uint64_t *)p);
		return;
	case PB_string:
	case PB_bytes:
	case PB_json:
	case PB_dur:
	case PB_word:
		text = pb_text(f, member, p);
		if (with_zero || text.n > 0)
			wire_put_bytes(out, f->number, text);
		return;
	case PB_int32:
	case PB_int64:
	case PB_uint32:
	case PB_uint64:
	case PB_bool:
	case PB_ms:
	case PB_secs:
	case PB_ns:
	case PB_enum:
		v = pb_number(f, member, p);
		if (with_zero || v != 0)
			wire_put_number(out, f->number, v);
		return;
	case PB_message:
		break;
	}
	REQUIRE(!"messages are no values");
}

static void put_message(const struct pb_field *f, const char *item,
			struct buf *out)
{
	size_t entry = wire_open(out, f->number), value;
	const struct msg_desc *d = f->sub->msg;

	if ((f->flags & PB_MAP) == 0) {
		pb_write(f->sub, item, out);
		wire_close(out, entry);
		return;
	}
	wire_put_bytes(out, 1,
		       *(const struct str *)(item + d->fields[f->key].offset));
	value = wire_open(out, 2);
	pb_write(f->sub, item, out);
	wire_close(out, value);
	wire_close(out, entry);
}

static void put_list(const struct pb_field *f, const struct field_desc *member,
		     const char *m, struct buf *out)
{
	size_t n = *(const size_t *)(m + member->count_offset);
	const char *items = *(const char *const *)(m + member->offset);

	for (size_t i = 0; i < n; i++)
		if (f->type == PB_message)
			put_message(f, items + i * f->sub->msg->size, out);
		else
			wire_put_bytes(out, f->number,
				       ((const struct str *)items)[i]);
}

void pb_write(const struct pb_desc *d, const void *m, struct buf *out)
{
	uint64_t has = *(const uint64_t *)m;

	for (size_t i = 0; i < d->n; i++) {
		const struct pb_field *f = &d->fields[i];
		const struct field_desc *member;
		const char *p;

		if ((f->flags & PB_FOUND) != 0 && has != 0)
			wire_put_number(out, f->number, 1);
		if (!pb_is_shown(d, f, has))
			continue;
		member = pb_member(d, f);
		p = (const char *)m + member->offset;
		if (f->flags & PB_REPEATED)
			put_list(f, member, m, out);
		else if (f->type == PB_message)
			put_message(f, *(const char *const *)p, out);
		else
			put_value(f, member, p,
				  (f->flags & (PB_OPTIONAL | PB_ONEOF)) != 0,
				  out);
	}
}
