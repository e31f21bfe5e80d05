/*
 * A file of rpc.def as a .proto, for those who make clients of it. See
 * rpc/pb/pb.h.
 */
#include "rpc/pb/pb.h"

static const char *const types[] = {
	[PB_double] = "double", [PB_int32] = "int32",
	[PB_int64] = "int64",   [PB_uint32] = "uint32",
	[PB_uint64] = "uint64", [PB_bool] = "bool",
	[PB_string] = "string", [PB_bytes] = "bytes",
	[PB_json] = "string",   [PB_dur] = "string",
	[PB_word] = "string",   [PB_ms] = "int64",
	[PB_secs] = "int32",    [PB_ns] = "uint64",
	[PB_enum] = "enum",     [PB_time] = "google.protobuf.Timestamp",
};

const char *pb_type_name(const struct pb_field *f)
{
	return f->type == PB_message ? f->sub->name : types[f->type];
}

static void put_unit(struct buf *out, const struct pb_field *f)
{
	if (f->type == PB_json)
		buf_puts(out, " JSON.");
	else if (f->type == PB_dur)
		buf_puts(out, " Such as 90s.");
	else if (f->type == PB_secs)
		buf_puts(out, " In seconds.");
	else if (f->type == PB_ms)
		buf_puts(out, " In milliseconds.");
}

static void put_field(struct buf *out, const struct pb_desc *d,
		      const struct pb_field *f, const char *indent)
{
	buf_printf(out, "%s// %s", indent,
		   f->doc != NULL ? f->doc : pb_member(d, f)->doc);
	put_unit(out, f);
	buf_printf(out, "\n%s", indent);
	if (f->flags & PB_MAP)
		buf_printf(out, "map<string, %s>", f->sub->name);
	else
		buf_printf(out, "%s%s",
			   f->flags & PB_REPEATED   ? "repeated "
			   : f->flags & PB_OPTIONAL ? "optional "
						    : "",
			   pb_type_name(f));
	buf_printf(out, " %s = %u;\n", f->name, f->number);
}

static void put_message(struct buf *out, const struct pb_desc *d)
{
	buf_printf(out, "\n// %s\nmessage %s {\n", d->doc, d->name);
	for (size_t i = 0; i < d->n; i++)
		put_field(out, d, &d->fields[i], "  ");
	buf_puts(out, "}\n");
}

static void put_method(struct buf *out, const struct pb_method *m)
{
	buf_printf(out, "  // %s\n  rpc %s(%s%s) returns (%s%s);\n", m->doc,
		   m->name, m->kind == RPC_BIDI ? "stream " : "",
		   m->request->name, m->kind != RPC_UNARY ? "stream " : "",
		   m->reply->name);
}

static void put_service(struct buf *out, const struct pb_file *f)
{
	const struct pb_method *m;
	const char *open = NULL;

	for (size_t i = 0; (m = pb_method_at(i)) != NULL; i++) {
		if (m->file != f)
			continue;
		if (open == NULL)
			buf_printf(out, "\nservice %s {\n", m->service);
		open = m->service;
		put_method(out, m);
	}
	if (open != NULL)
		buf_puts(out, "}\n");
}

void pb_file_text(const struct pb_file *f, struct buf *out)
{
	const struct pb_desc *d;

	buf_printf(out,
		   "// Made from common/proto/defs/rpc.def. Fields from 100 on "
		   "are newer than Corvo 0.3.\n"
		   "syntax = \"proto3\";\n\npackage %s;\n\n"
		   "import \"%s\";\n",
		   f->package, pb_file_timestamp.path);
	put_service(out, f);
	for (size_t i = 0; (d = pb_desc_at(i)) != NULL; i++)
		if (d->file == f)
			put_message(out, d);
}
