/*
 * Messages by descriptor: one encoder and one decoder for every message of
 * messages.def, so that msgpack and JSON cannot drift apart.
 *
 * On the wire a message is a msgpack map from tag to value. Unknown tags are
 * skipped (a newer peer), a wrong kind, a tag given twice and trailing bytes
 * are refused. Absent fields are zero and their bit in `has` is clear.
 */
#ifndef CORVO_MSG_H
#define CORVO_MSG_H

#include "proto/limits.h"
#include "util/arena.h"
#include "util/buf.h"

enum field_kind {
	K_bool,
	K_u32,
	K_u64,
	K_i64,
	K_f64,
	K_str,
	K_raw,
	K_time,
	K_dur,
	K_secs,
	K_strs,
	K_enum,
	K_msg,
	K_msgs,
	K_nano,
};

#define F_REQUIRED   1u
#define F_INTERNAL   2u
#define F_PATH       4u
#define F_QUEUE      8u
#define F_NEVER_NULL 16u
#define F_OBJECT     32u
#define F_MANY       64u
#define F_ANSWER     128u
#define F_ROUTE      256u
#define F_DEFAULT_03 512u
#define F_FILTER     1024u
#define F_TEXTS      2048u
#define F_OR_WORD    4096u
#define F_LEVEL_2    8192u
#define F_CHECKPOINT 16384u
#define F_MAY_LACK   32768u
#define F_NUMBERS    65536u

/* Bits of F_NUMBERS: which duration. */
#define DUR_EXPIRE_AFTER  1u
#define DUR_UNIQUE_PERIOD 2u

#define E_EXACT 0u
#define E_LOOSE 1u

struct enum_value {
	uint32_t number;
	const char *text;
	unsigned level; /* feature level it came with */
};

struct enum_desc {
	const char *name;
	const struct enum_value *values;
	size_t n;
	unsigned how;   /* E_ */
	int code_03;    /* ERR_ of an unknown text for clients of 0.3 */
	uint32_t inner; /* one that only records hold, without a text; or 0 */
};

const char *enum_text(const struct enum_desc *e, uint32_t number); /* or NULL */
bool enum_parse(const struct enum_desc *e, struct str text, uint32_t *ret);

struct msg_desc;

struct field_desc {
	uint8_t tag;
	uint8_t kind;          /* enum field_kind */
	uint16_t offset;       /* of the member in the struct */
	uint16_t count_offset; /* strs, msgs: of the member's _n */
	uint32_t flags;
	uint32_t max;
	const char *name;
	const char *doc;
	const struct enum_desc *values; /* K_enum, or words of a text */
	const struct msg_desc *sub;     /* K_msg, K_msgs */
	size_t name_len;
};

/* Most texts in a list that comes from a client. */
static inline size_t field_texts_max(const struct field_desc *f)
{
	return f->flags & F_MANY ? LIMIT_BULK_IDS : LIMIT_LIST_TEXTS;
}

#define MSG_TAGS 128 /* one byte each in msgpack */

/* The index of a field in its message is its bit in `has`. */
struct msg_desc {
	const char *name;
	const char *doc;
	size_t size; /* of the struct */
	const struct field_desc *fields;
	size_t n;
	uint8_t by_tag[MSG_TAGS]; /* tag -> index + 1, 0: no such tag */
};

/*
 * Encodes the fields whose bit is set in `has`. Nested structs likewise.
 */
void msg_encode(const struct msg_desc *d, const void *m, struct buf *out);

/* The feature level a member came with; 1: the first. */
unsigned field_level(const struct field_desc *f);
/*
 * The feature level an operation with this request is of: that of the newest
 * member it has, or of the newest value of one. 1: it has none that came later.
 */
unsigned msg_needs_level(const struct msg_desc *d, const void *m);
/*
 * Leaves out the members above that level which an operation may lack, also in
 * nested messages. False: it has none.
 */
bool msg_lower(const struct msg_desc *d, void *m, unsigned level);

/* The member with F_NUMBERS; NULL: the message has none. */
const struct field_desc *msg_numbers(const struct msg_desc *d);

/*
 * Decodes into *ret (zeroed first). str and raw members point into `in`,
 * lists are in `a`. 0 or -ERR_BAD_MESSAGE.
 */
int msg_decode(const struct msg_desc *d, struct str in, struct arena *a,
	       void *ret);

#endif
