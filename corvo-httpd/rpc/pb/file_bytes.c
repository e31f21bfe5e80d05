/*
 * A file of rpc.def as google.protobuf.FileDescriptorProto, which reflection
 * hands out. See rpc/pb/pb.h. The numbers are those of descriptor.proto.
 */
#include "rpc/pb/pb.h"
#include "rpc/pb/wire.h"

enum {
	LABEL_OPTIONAL = 1,
	LABEL_REPEATED = 3,
	TYPE_STRING = 9,
	TYPE_MESSAGE = 11,
	TYPE_ENUM = 14,
};

static const uint8_t types[] = {
	[PB_double] = 1,
	[PB_int64] = 3,
	[PB_ms] = 3,
	[PB_uint64] = 4,
	[PB_ns] = 4,
	[PB_int32] = 5,
	[PB_secs] = 5,
	[PB_bool] = 8,
	[PB_string] = TYPE_STRING,
	[PB_json] = TYPE_STRING,
	[PB_dur] = TYPE_STRING,
	[PB_word] = TYPE_STRING,
	[PB_time] = TYPE_MESSAGE,
	[PB_message] = TYPE_MESSAGE,
	[PB_bytes] = 12,
	[PB_uint32] = 13,
	[PB_enum] = TYPE_ENUM,
};

/* The file that is written, under the name it is asked for. */
struct target {
	const struct pb_file *f, *as;
	struct buf *out;
};

static void put_cstr(struct buf *out, uint32_t number, const char *text)
{
	wire_put_bytes(out, number, str_from(text));
}

/* "jobs" is the field of the messages JobsEntry, and serving_status the enum
 * ServingStatus. */
static void put_camel(struct buf *out, const char *name)
{
	bool up = true;

	for (; *name != '\0'; name++) {
		if (*name == '_') {
			up = true;
			continue;
		}
		buf_putc(out, up && *name >= 'a' && *name <= 'z'
				  ? (char)(*name - 'a' + 'A')
				  : *name);
		up = false;
	}
}

static const char *package_of(const struct target *t, const struct pb_file *f)
{
	return f == t->f ? t->as->package : f->package;
}

static void put_type_name(const struct target *t, uint32_t number,
			  const struct pb_desc *d)
{
	size_t start = wire_open(t->out, number);

	buf_printf(t->out, ".%s.%s", package_of(t, d->file), d->name);
	wire_close(t->out, start);
}

/* Of a field: the message, the entry of a map, or the enum. */
static void put_field_type(const struct target *t, const struct pb_desc *d,
			   const struct pb_field *f)
{
	size_t start;

	if (f->type == PB_time) {
		put_type_name(t, 6, &pb_Timestamp);
		return;
	}
	if (f->type == PB_message && (f->flags & PB_MAP) == 0) {
		put_type_name(t, 6, f->sub);
		return;
	}
	if (f->type != PB_message && f->type != PB_enum)
		return;
	start = wire_open(t->out, 6);
	buf_printf(t->out, ".%s.%s.", package_of(t, d->file), d->name);
	if (f->type == PB_enum) {
		put_camel(t->out, pb_member(d, f)->values->name);
	} else {
		put_camel(t->out, f->name);
		buf_puts(t->out, "Entry");
	}
	wire_close(t->out, start);
}

/* oneofs: those before it, of fields that are optional. */
static void put_field(const struct target *t, const struct pb_desc *d,
		      const struct pb_field *f, size_t oneofs)
{
	size_t start = wire_open(t->out, 2);
	char json[PB_NAME_BYTES];

	put_cstr(t->out, 1, f->name);
	wire_put_number(t->out, 3, f->number);
	wire_put_number(t->out, 4,
			f->flags & PB_REPEATED ? LABEL_REPEATED
					       : LABEL_OPTIONAL);
	wire_put_number(t->out, 5, types[f->type]);
	put_field_type(t, d, f);
	if (f->flags & PB_ONEOF)
		wire_put_number(t->out, 9, 0);
	if (f->flags & PB_OPTIONAL)
		wire_put_number(t->out, 9, oneofs);
	pb_json_name(f->name, json);
	put_cstr(t->out, 10, json);
	if (f->flags & PB_OPTIONAL)
		wire_put_number(t->out, 17, 1);
	wire_close(t->out, start);
}

static void put_entry_field(const struct target *t, const char *name,
			    uint32_t number, const struct pb_desc *type)
{
	size_t start = wire_open(t->out, 2);

	put_cstr(t->out, 1, name);
	wire_put_number(t->out, 3, number);
	wire_put_number(t->out, 4, LABEL_OPTIONAL);
	wire_put_number(t->out, 5, type == NULL ? TYPE_STRING : TYPE_MESSAGE);
	if (type != NULL)
		put_type_name(t, 6, type);
	put_cstr(t->out, 10, name);
	wire_close(t->out, start);
}

/* The message that an entry of a map is. */
static void put_entry(const struct target *t, const struct pb_field *f)
{
	size_t start = wire_open(t->out, 3), inner = wire_open(t->out, 1);

	put_camel(t->out, f->name);
	buf_puts(t->out, "Entry");
	wire_close(t->out, inner);
	put_entry_field(t, "key", 1, NULL);
	put_entry_field(t, "value", 2, f->sub);
	inner = wire_open(t->out, 7);
	wire_put_number(t->out, 7, 1); /* map_entry */
	wire_close(t->out, inner);
	wire_close(t->out, start);
}

static void put_enum(const struct target *t, const struct enum_desc *e)
{
	size_t start = wire_open(t->out, 4), inner = wire_open(t->out, 1);

	put_camel(t->out, e->name);
	wire_close(t->out, inner);
	for (size_t i = 0; i < e->n; i++) {
		inner = wire_open(t->out, 2);
		put_cstr(t->out, 1, e->values[i].text);
		wire_put_number(t->out, 2, e->values[i].number);
		wire_close(t->out, inner);
	}
	wire_close(t->out, start);
}

static void put_oneof(const struct target *t, const char *prefix,
		      const char *name)
{
	size_t start = wire_open(t->out, 8), inner = wire_open(t->out, 1);

	buf_printf(t->out, "%s%s", prefix, name);
	wire_close(t->out, inner);
	wire_close(t->out, start);
}

static void put_message(const struct target *t, const struct pb_desc *d)
{
	size_t start = wire_open(t->out, 4), oneofs = d->oneof != NULL;

	put_cstr(t->out, 1, d->name);
	for (size_t i = 0; i < d->n; i++) {
		put_field(t, d, &d->fields[i], oneofs);
		oneofs += (d->fields[i].flags & PB_OPTIONAL) != 0;
	}
	for (size_t i = 0; i < d->n; i++)
		if (d->fields[i].flags & PB_MAP)
			put_entry(t, &d->fields[i]);
	for (size_t i = 0; i < d->n; i++)
		if (d->fields[i].type == PB_enum)
			put_enum(t, pb_member(d, &d->fields[i])->values);
	if (d->oneof != NULL)
		put_oneof(t, "", d->oneof);
	for (size_t i = 0; i < d->n; i++)
		if (d->fields[i].flags & PB_OPTIONAL)
			put_oneof(t, "_", d->fields[i].name);
	wire_close(t->out, start);
}

static void put_method(const struct target *t, const struct pb_method *m)
{
	size_t start = wire_open(t->out, 2);

	put_cstr(t->out, 1, m->name);
	put_type_name(t, 2, m->request);
	put_type_name(t, 3, m->reply);
	if (m->kind == RPC_BIDI)
		wire_put_number(t->out, 5, 1);
	if (m->kind != RPC_UNARY)
		wire_put_number(t->out, 6, 1);
	wire_close(t->out, start);
}

/* A file has one service at most. */
static void put_service(const struct target *t)
{
	const struct pb_method *m;
	size_t start = 0;

	for (size_t i = 0; (m = pb_method_at(i)) != NULL; i++) {
		if (m->file != t->f)
			continue;
		if (start == 0) {
			start = wire_open(t->out, 6);
			put_cstr(t->out, 1, m->service);
		}
		put_method(t, m);
	}
	if (start != 0)
		wire_close(t->out, start);
}

static bool uses_time(const struct pb_file *f)
{
	const struct pb_desc *d;

	for (size_t i = 0; (d = pb_desc_at(i)) != NULL; i++)
		for (size_t k = 0; d->file == f && k < d->n; k++)
			if (d->fields[k].type == PB_time)
				return true;
	return false;
}

void pb_file_bytes(const struct pb_file *f, const struct pb_file *as,
		   struct buf *out)
{
	struct target t = { f, as, out };
	const struct pb_desc *d;

	put_cstr(out, 1, as->path);
	put_cstr(out, 2, as->package);
	if (uses_time(f))
		put_cstr(out, 3, pb_file_timestamp.path);
	for (size_t i = 0; (d = pb_desc_at(i)) != NULL; i++)
		if (d->file == f)
			put_message(&t, d);
	put_service(&t);
	put_cstr(out, 12, "proto3");
}
