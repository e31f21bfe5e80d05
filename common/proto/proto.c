/*
 * Expands the tables of defs/ into constants and lookups. Nothing here is
 * written at run time, so any thread may read it.
 *
 * Lookups by number are switches on purpose: a number used twice is a
 * duplicate case and does not compile.
 */
#include "proto/proto.h"

#include "version.h"

const char corvo_version[] = CORVO_VERSION;
const uint64_t corvo_defs_hash = CORVO_DEFS_HASH;

/* --- enums --- */

#define VALUES(name) static const struct enum_value values_##name[]

#define ENUM(name, how, code_03)              VALUES(name) = {
#define ENUM_VALUE(e, NAME, num, text)        { num, text, 1 },
#define ENUM_LATER(e, NAME, num, text, level) { num, text, level },
#define ENUM_END(name) \
	}              \
	;
#include "proto/defs/enums.def"

static const struct enum_value values_job_state[] = {
#define STATE(NAME, name, num, terminal) { num, #name, 1 },
#include "proto/defs/states.def"
};

static const struct enum_value values_event_type[] = {
#define EVENT(NAME, name, num, doc) { num, #name, 1 },
#include "proto/defs/events.def"
};

/* Compiles only while stored numbers are unique. */
_unused_ static void numbers_of_states(unsigned number)
{
	switch (number) {
#define STATE(NAME, name, num, terminal) case num:
#define INNER_STATE(NAME, num)           case num:
#include "proto/defs/states.def"
		break;
	}
}

_unused_ static void numbers_of_events(unsigned number)
{
	switch (number) {
#define EVENT(NAME, name, num, doc) case num:
#include "proto/defs/events.def"
		break;
	}
}

/* Compiles only while the last rows have the highest numbers: tables by number
 * are as long as these say. */
#define EVENT(NAME, name, num, doc) \
	_Static_assert((num) < EVENT_TYPE_MAX, "not in order: " #name);
#include "proto/defs/events.def"
#define OP(num, NAME, name, req, reply, who, level, doc) \
	_Static_assert((num) < OP_ID_MAX, "not in order: " #name);
#include "proto/defs/ops.def"

#define ENUM_DESC(enum_name, how_read, code, ...)    \
	const struct enum_desc enum_##enum_name = {  \
		.name = #enum_name,                  \
		.values = values_##enum_name,        \
		.n = ARRAY_SIZE(values_##enum_name), \
		.how = how_read,                     \
		.code_03 = code,                     \
		__VA_ARGS__                          \
	};

#define ENUM(name, how, code_03) ENUM_DESC(name, how, code_03)
#include "proto/defs/enums.def"
ENUM_DESC(job_state, E_EXACT, ERR_VALIDATION_ERROR, .inner = JOB_BLOCKED)
ENUM_DESC(event_type, E_EXACT, ERR_VALIDATION_ERROR)

/* --- messages --- */

#define COUNT_OFFSET_bool(m, n) 0
#define COUNT_OFFSET_u32(m, n)  0
#define COUNT_OFFSET_u64(m, n)  0
#define COUNT_OFFSET_i64(m, n)  0
#define COUNT_OFFSET_f64(m, n)  0
#define COUNT_OFFSET_str(m, n)  0
#define COUNT_OFFSET_raw(m, n)  0
#define COUNT_OFFSET_time(m, n) 0
#define COUNT_OFFSET_dur(m, n)  0
#define COUNT_OFFSET_secs(m, n) 0
#define COUNT_OFFSET_nano(m, n) 0
#define COUNT_OFFSET_strs(m, n) offsetof(struct m_##m, n##_n)

/* What every kind of field has in common. */
#define FIELD_HEAD(m, field_tag, field_name, field_flags, field_doc) \
	.tag = field_tag, .flags = field_flags, .name = #field_name, \
	.name_len = sizeof(#field_name) - 1,                         \
	.offset = offsetof(struct m_##m, field_name), .doc = field_doc

#define MSG(name, doc) static const struct field_desc fields_##name[] = {
#define FIELD(m, tag, field_kind, name, flags, field_max, doc)          \
	{ FIELD_HEAD(m, tag, name, flags, doc), .kind = K_##field_kind, \
	  .max = field_max,                                             \
	  .count_offset = COUNT_OFFSET_##field_kind(m, name) },
#define FIELD_ENUM(m, tag, e, name, flags, doc)                 \
	{ FIELD_HEAD(m, tag, name, flags, doc), .kind = K_enum, \
	  .values = &enum_##e },
#define FIELD_WORD(m, tag, field_kind, e, name, flags, field_max, doc)  \
	{ FIELD_HEAD(m, tag, name, flags, doc), .kind = K_##field_kind, \
	  .max = field_max,                                             \
	  .count_offset = COUNT_OFFSET_##field_kind(m, name),           \
	  .values = &enum_##e },
#define FIELD_MSG(m, tag, sub_name, name, flags, doc)          \
	{ FIELD_HEAD(m, tag, name, flags, doc), .kind = K_msg, \
	  .sub = &msg_##sub_name },
#define FIELD_MSGS(m, tag, sub_name, name, flags, field_max, doc) \
	{ FIELD_HEAD(m, tag, name, flags, doc), .kind = K_msgs,   \
	  .max = field_max, .sub = &msg_##sub_name,               \
	  .count_offset = offsetof(struct m_##m, name##_n) },
#define MSG_END(name) \
	}             \
	;
#include "proto/defs/messages.def"

/* A tag of MSG_TAGS is past the end of by_tag and does not compile. */
#define MSG(msg_name, msg_doc)                       \
	const struct msg_desc msg_##msg_name = {     \
		.name = #msg_name,                   \
		.doc = msg_doc,                      \
		.size = sizeof(struct m_##msg_name), \
		.fields = fields_##msg_name,         \
		.n = MF_##msg_name##_MAX,            \
		.by_tag = {
#define ANY_FIELD(m, tag, name) [tag] = MF_##m##_##name + 1,
#define MSG_END(name)                                                        \
	}                                                                    \
	,                                                                    \
	}                                                                    \
	;                                                                    \
	_Static_assert(MF_##name##_MAX <= 64, "one bit of `has` per field"); \
	_Static_assert(sizeof(struct m_##name) <= UINT16_MAX,                \
		       "offsets have 16 bits");
#include "proto/defs/messages.def"

/* Compiles only while the tags of a message are unique and not 0. */
#define MSG(name, doc)                                    \
	_unused_ static void tags_of_##name(unsigned tag) \
	{                                                 \
		switch (tag) {                            \
		case 0:
#define ANY_FIELD(m, tag, name) case tag:
#define MSG_END(name) \
	break;        \
	}             \
	}
#include "proto/defs/messages.def"

static const struct msg_desc *const messages[] = {
#define MSG(name, doc) &msg_##name,
#include "proto/defs/messages.def"
};

const struct msg_desc *msg_at(size_t i)
{
	return i < ARRAY_SIZE(messages) ? messages[i] : NULL;
}

/* --- ops and queries --- */

enum op_row {
#define OP(num, NAME, name, req, reply, who, level, doc) OP_ROW_##NAME,
#include "proto/defs/ops.def"
};

static const struct call_info ops[] = {
#define OP(num, NAME, name, req, reply, who, level, doc)  \
	{ num, #name,      &msg_##req, &msg_##reply, who, \
	  doc, PROC_RAFTD, level,      ASKED_LEADER, DOES_CHANGES },
#include "proto/defs/ops.def"
};

enum query_row {
#define QUERY(num, NAME, name, proc, asked, does, req, reply, doc) \
	QUERY_ROW_##NAME,
#include "proto/defs/queries.def"
};

static const struct call_info queries[] = {
#define QUERY(num, NAME, name, proc, asked, does, req, reply, doc) \
	{ num, #name,       &msg_##req, &msg_##reply,  0,          \
	  doc, PROC_##proc, 0,          ASKED_##asked, DOES_##does },
#include "proto/defs/queries.def"
};

/* Numbers of ops and queries travel in one place: none may mean both. */
static const struct call_info *call_find(unsigned id)
{
	switch (id) {
#define OP(num, NAME, name, req, reply, who, level, doc) \
	case num:                                        \
		return &ops[OP_ROW_##NAME];
#include "proto/defs/ops.def"
#define QUERY(num, NAME, name, proc, asked, does, req, reply, doc) \
	case num:                                                  \
		return &queries[QUERY_ROW_##NAME];
#include "proto/defs/queries.def"
	default:
		return NULL;
	}
}

#define QUERY_FIRST 1000 /* queries.def starts there */

const struct call_info *op_info(unsigned id)
{
	return id < QUERY_FIRST ? call_find(id) : NULL;
}

unsigned op_level(const struct call_info *op, unsigned known, struct str *body,
		  struct arena *scratch, struct buf *out)
{
	void *m = arena_alloc(scratch, op->request->size);

	if (msg_decode(op->request, *body, scratch, m) < 0)
		return op->level; /* the leader refuses it */
	if (msg_lower(op->request, m, known)) {
		msg_encode(op->request, m, out);
		*body = buf_str(out);
	}
	return MAX(op->level, msg_needs_level(op->request, m));
}

const struct call_info *query_info(unsigned id)
{
	return id >= QUERY_FIRST ? call_find(id) : NULL;
}

bool call_changes(unsigned id)
{
	const struct call_info *call = call_find(id);

	return call != NULL && call->does == DOES_CHANGES;
}

#define OP(num, NAME, name, req, reply, who, level, doc)                     \
	_Static_assert(num > 0 && num < QUERY_FIRST, "number of op " #name); \
	_Static_assert(level > 0 && level <= FEATURE_LEVEL, "level of " #name);
#include "proto/defs/ops.def"
#define QUERY(num, NAME, name, proc, asked, does, req, reply, doc) \
	_Static_assert(num >= QUERY_FIRST, "number of query " #name);
#include "proto/defs/queries.def"

const struct call_info *op_at(size_t i)
{
	return i < ARRAY_SIZE(ops) ? &ops[i] : NULL;
}

const struct call_info *query_at(size_t i)
{
	return i < ARRAY_SIZE(queries) ? &queries[i] : NULL;
}

/* --- processes --- */

static const struct proc_info procs[PROC_MAX] = {
#define PROC(NAME, name, program, doc) { #name, program, doc },
#include "proto/defs/procs.def"
};

const struct proc_info *proc_info(enum proc_id p)
{
	CHECK(p < PROC_MAX);
	return &procs[p];
}

/* --- metrics --- */

enum metric_row {
#define METRIC(num, NAME, name, type, proc, help) METRIC_ROW_##NAME,
#include "proto/defs/metrics.def"
};

static const struct metric_info metrics[] = {
#define METRIC(num, NAME, name, type, proc, help) \
	{ num, name, METRIC_##type##_TYPE, PROC_##proc, help },
#include "proto/defs/metrics.def"
};

const struct metric_info *metric_info(unsigned id)
{
	switch (id) {
#define METRIC(num, NAME, name, type, proc, help) \
	case num:                                 \
		return &metrics[METRIC_ROW_##NAME];
#include "proto/defs/metrics.def"
	default:
		return NULL;
	}
}

const struct metric_info *metric_at(size_t i)
{
	return i < ARRAY_SIZE(metrics) ? &metrics[i] : NULL;
}
