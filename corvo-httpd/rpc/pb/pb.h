/*
 * Messages as protobuf and as its JSON, by the rows of rpc.def: the same
 * structs that JSON over HTTP is read into, so that every way in leads to the
 * same operation.
 *
 * What is read is hostile. Unknown fields are skipped and noted as ignored;
 * what is cut off, overlong, too deep, of a wrong wire type or no UTF-8 is
 * refused, and so is what no member may hold.
 */
#ifndef CORVO_PB_H
#define CORVO_PB_H

#include "proto/msg_json.h"

enum pb_type {
	PB_double,
	PB_int32,
	PB_int64,
	PB_uint32,
	PB_uint64,
	PB_bool,
	PB_string,
	PB_bytes,
	PB_json,
	PB_dur,
	PB_word,
	PB_ms,
	PB_secs,
	PB_ns,
	PB_time,
	PB_enum,
	PB_message,
};

#define PB_REPEATED 1u
#define PB_OPTIONAL 2u
#define PB_ONEOF    4u
#define PB_ALSO     8u
#define PB_MAP      16u /* beside PB_REPEATED */
#define PB_UNUSED   32u
#define PB_FOUND    64u

#define PB_NAME_BYTES 64 /* of a field, with its NUL */

struct pb_desc;

struct pb_field {
	uint32_t number;
	uint8_t type; /* enum pb_type */
	uint8_t flags;
	uint8_t index; /* of the member in its message */
	uint8_t key;   /* PB_MAP: of the key in the nested one */
	const char *name;
	const struct pb_desc *sub;
	const char *doc; /* NULL: the member has one */
};

struct pb_file {
	const char *path;
	const char *package;
};

struct pb_desc {
	const char *name;
	const struct pb_file *file;
	const struct msg_desc *msg;
	const struct pb_field *fields; /* by number */
	size_t n;
	const char *oneof;
	const char *doc;
};

enum pb_kind { RPC_UNARY, RPC_SERVER_STREAM, RPC_BIDI };

struct pb_method {
	const struct pb_file *file;
	const char *service;
	const char *name;
	const struct pb_desc *request;
	const struct pb_desc *reply;
	enum pb_kind kind;
	const char *doc;
};

/* Declared by rpc.def. Each list ends with NULL. */
#define RPC_FILE(file, path, package) \
	extern const struct pb_file pb_file_##file;
#define RPC_MSG(file, Name, msg, oneof, doc) \
	extern const struct pb_desc pb_##Name;
#include "proto/defs/rpc.def"

const struct pb_file *pb_file_at(size_t i);
const struct pb_desc *pb_desc_at(size_t i);
const struct pb_method *pb_method_at(size_t i);

/* The member a field is read into. */
static inline const struct field_desc *pb_member(const struct pb_desc *d,
						 const struct pb_field *f)
{
	return &d->msg->fields[f->index];
}

/* --- bytes --- */

/*
 * Reads `in` into *m, which is zeroed; texts are slices of `in`, the rest is
 * in the reader's arena. 0, or -ERR_PARSE_ERROR or -ERR_VALIDATION_ERROR with
 * a sentence in rd->why that names the field. Checks what msg_from_json
 * checks.
 */
int pb_read(const struct msg_reader *rd, const struct pb_desc *d, struct str in,
	    void *m);
void pb_write(const struct pb_desc *d, const void *m, struct buf *out);

/* Only what pb_read does before it checks the whole: required members, queue
 * names and lengths of texts are left to the caller. */
int pb_read_unchecked(const struct msg_reader *rd, const struct pb_desc *d,
		      struct str in, void *m);

/* --- JSON, as proto3 maps it --- */

/* The same of validated JSON; names in either form, null is absent. */
int pb_read_json(const struct msg_reader *rd, const struct pb_desc *d,
		 struct json v, void *m);
int pb_read_json_unchecked(const struct msg_reader *rd, const struct pb_desc *d,
			   struct json v, void *m);
void pb_write_json(const struct pb_desc *d, const void *m,
		   struct json_writer *w);

/* --- documents --- */

/* The file as a .proto. */
void pb_file_text(const struct pb_file *f, struct buf *out);
/*
 * The file as a google.protobuf.FileDescriptorProto. as: another file that has
 * the same messages and services in its own package; or f itself.
 */
void pb_file_bytes(const struct pb_file *f, const struct pb_file *as,
		   struct buf *out);
/* The name in JSON: fetch_count is fetchCount. */
void pb_json_name(const char *name, char ret[PB_NAME_BYTES]);
/* The type as a .proto has it; that of messages is their name. */
const char *pb_type_name(const struct pb_field *f);

#endif
