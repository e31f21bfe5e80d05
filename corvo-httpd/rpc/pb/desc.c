/*
 * Expands rpc.def. A member that its message does not have, a nested message
 * that is not declared and a number given twice do not compile.
 */
#include "rpc/pb/pb.h"

#define RPC_FILE(file, file_path, file_package)                    \
	const struct pb_file pb_file_##file = { .path = file_path, \
						.package = file_package };
#include "proto/defs/rpc.def"

#define RPC_MSG(file, Name, msg, oneof, doc) \
	static const struct pb_field fields_##Name[] = {
#define RPC_FIELD(Name, num, field_type, field_name, field_flags, msg, member) \
	{ .number = num,                                                       \
	  .type = PB_##field_type,                                             \
	  .name = #field_name,                                                 \
	  .flags = field_flags,                                                \
	  .index = MF_##msg##_##member },
#define RPC_SUB(Name, num, Sub, field_name, field_flags, msg, member) \
	{ .number = num,                                              \
	  .type = PB_message,                                         \
	  .name = #field_name,                                        \
	  .flags = field_flags,                                       \
	  .sub = &pb_##Sub,                                           \
	  .index = MF_##msg##_##member },
#define RPC_MAP(Name, num, Sub, field_name, msg, member, submsg, submember) \
	{ .number = num,                                                    \
	  .type = PB_message,                                               \
	  .name = #field_name,                                              \
	  .flags = PB_REPEATED | PB_MAP,                                    \
	  .sub = &pb_##Sub,                                                 \
	  .index = MF_##msg##_##member,                                     \
	  .key = MF_##submsg##_##submember },
#define RPC_FOUND(Name, num, field_name, field_doc) \
	{ .number = num,                            \
	  .type = PB_bool,                          \
	  .name = #field_name,                      \
	  .flags = PB_FOUND,                        \
	  .doc = field_doc },
#define RPC_UNUSED(Name, num, field_type, field_name, field_doc) \
	{ .number = num,                                         \
	  .type = PB_##field_type,                               \
	  .name = #field_name,                                   \
	  .flags = PB_UNUSED,                                    \
	  .doc = field_doc },
#define RPC_UNUSED_SUB(Name, num, Sub, field_name, field_doc) \
	{ .number = num,                                      \
	  .type = PB_message,                                 \
	  .name = #field_name,                                \
	  .flags = PB_UNUSED,                                 \
	  .sub = &pb_##Sub,                                   \
	  .doc = field_doc },
#define RPC_END(Name) \
	}             \
	;
#include "proto/defs/rpc.def"

#define RPC_MSG(desc_file, Name, desc_msg, desc_oneof, desc_doc) \
	const struct pb_desc pb_##Name = {                       \
		.name = #Name,                                   \
		.file = &pb_file_##desc_file,                    \
		.msg = &msg_##desc_msg,                          \
		.fields = fields_##Name,                         \
		.n = ARRAY_SIZE(fields_##Name),                  \
		.oneof = desc_oneof,                             \
		.doc = desc_doc,                                 \
	};
#include "proto/defs/rpc.def"

/* Compiles only while the numbers of a message are unique and not 0. */
#define RPC_MSG(file, Name, msg, oneof, doc)                    \
	_unused_ static void numbers_of_##Name(unsigned number) \
	{                                                       \
		switch (number) {                               \
		case 0:
#define RPC_FIELD(Name, num, type, name, flags, msg, member) case num:
#define RPC_SUB(Name, num, Sub, name, flags, msg, member)    case num:
#define RPC_MAP(Name, num, Sub, name, msg, member, sub, key) case num:
#define RPC_FOUND(Name, num, name, doc)                      case num:
#define RPC_UNUSED(Name, num, type, name, doc)               case num:
#define RPC_UNUSED_SUB(Name, num, Sub, name, doc)            case num:
#define RPC_END(Name)  \
	default:       \
		break; \
		}      \
		}
#include "proto/defs/rpc.def"

static const struct pb_file *const files[] = {
#define RPC_FILE(file, path, package) &pb_file_##file,
#include "proto/defs/rpc.def"
};

static const struct pb_desc *const descs[] = {
#define RPC_MSG(file, Name, msg, oneof, doc) &pb_##Name,
#include "proto/defs/rpc.def"
};

static const struct pb_method methods[] = {
#define RPC_METHOD(in_file, in_service, Name, Request, Reply, how, text) \
	{ .file = &pb_file_##in_file,                                    \
	  .service = #in_service,                                        \
	  .name = #Name,                                                 \
	  .request = &pb_##Request,                                      \
	  .reply = &pb_##Reply,                                          \
	  .kind = how,                                                   \
	  .doc = text },
#include "proto/defs/rpc.def"
};

const struct pb_file *pb_file_at(size_t i)
{
	return i < ARRAY_SIZE(files) ? files[i] : NULL;
}

const struct pb_desc *pb_desc_at(size_t i)
{
	return i < ARRAY_SIZE(descs) ? descs[i] : NULL;
}

const struct pb_method *pb_method_at(size_t i)
{
	return i < ARRAY_SIZE(methods) ? &methods[i] : NULL;
}
