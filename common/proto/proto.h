/*
 * What the tables in defs/ declare, as C: structs, enums, descriptors and
 * lookups. Setting a member of a message by hand also sets its bit:
 *
 *	MSG_SET(m, fetched, attempt, 3);
 *	if (MSG_HAS(m, ack, lease_token)) ...
 */
#ifndef CORVO_PROTO_H
#define CORVO_PROTO_H

#include "proto/err.h"
#include "proto/limits.h"
#include "proto/msg.h"

/* --- enums --- */

#define ENUM(name, how, code_03)       enum name {
#define ENUM_VALUE(e, NAME, num, text) NAME = num,
#define ENUM_END(name) \
	}              \
	;
#include "proto/defs/enums.def"

enum job_state {
#define STATE(NAME, name, num, terminal) JOB_##NAME = num,
#define INNER_STATE(NAME, num)           JOB_##NAME = num,
#include "proto/defs/states.def"
	JOB_STATE_MAX
};

enum event_type {
#define EVENT(NAME, name, num, doc) EVENT_##NAME = num,
#include "proto/defs/events.def"
	EVENT_TYPE_MAX
};

#define ENUM(name, how, code_03) extern const struct enum_desc enum_##name;
#include "proto/defs/enums.def"
extern const struct enum_desc enum_job_state;
extern const struct enum_desc enum_event_type;

/* --- messages --- */

#define MSG_MEMBER_bool(n) bool n;
#define MSG_MEMBER_u32(n)  uint32_t n;
#define MSG_MEMBER_u64(n)  uint64_t n;
#define MSG_MEMBER_i64(n)  int64_t n;
#define MSG_MEMBER_f64(n)  double n;
#define MSG_MEMBER_str(n)  struct str n;
#define MSG_MEMBER_raw(n)  struct str n;
#define MSG_MEMBER_time(n) uint64_t n;
#define MSG_MEMBER_dur(n)  uint64_t n;
#define MSG_MEMBER_secs(n) uint64_t n;
#define MSG_MEMBER_nano(n) uint64_t n;
#define MSG_MEMBER_strs(n) \
	struct str *n;     \
	size_t n##_n;

#define MSG(name, doc)    \
	struct m_##name { \
		uint64_t has;
#define FIELD(m, tag, kind, name, flags, max, doc) MSG_MEMBER_##kind(name)
#define FIELD_ENUM(m, tag, e, name, flags, doc)    uint32_t name;
#define FIELD_WORD(m, tag, kind, e, name, flags, max, doc) \
	MSG_MEMBER_##kind(name)
#define FIELD_MSG(m, tag, sub, name, flags, doc) struct m_##sub *name;
#define FIELD_MSGS(m, tag, sub, name, flags, max, doc) \
	struct m_##sub *name;                          \
	size_t name##_n;
#define MSG_END(name) \
	}             \
	;
#include "proto/defs/messages.def"

/* Field numbers: MF_<msg>_<field> is the bit in `has`. */
#define MSG(name, doc) \
	enum mf_##name \
	{
#define ANY_FIELD(m, tag, name) MF_##m##_##name,
#define MSG_END(name)   \
	MF_##name##_MAX \
	}               \
	;
#include "proto/defs/messages.def"

#define MSG(name, doc) extern const struct msg_desc msg_##name;
#include "proto/defs/messages.def"

#define MSG_BIT(msg, field)    (1ULL << MF_##msg##_##field)
#define MSG_HAS(m, msg, field) (((m)->has & MSG_BIT(msg, field)) != 0)
#define MSG_SET(m, msg, field, value) \
	((m)->has |= MSG_BIT(msg, field), (m)->field = (value))
#define MSG_SET_LIST(m, msg, field, items, count)               \
	((m)->has |= MSG_BIT(msg, field), (m)->field = (items), \
	 (m)->field##_n = (count))
#define MSG_UNSET(m, msg, field) ((m)->has &= ~MSG_BIT(msg, field))

/* --- ops and queries --- */

enum op_id {
#define OP(num, NAME, name, req, reply, who, level, doc) OP_##NAME = num,
#include "proto/defs/ops.def"
	OP_ID_MAX
};

enum query_id {
#define QUERY(num, NAME, name, proc, asked, does, req, reply, doc) \
	QUERY_##NAME = num,
#include "proto/defs/queries.def"
};

/* Which node answers a question. */
enum query_asked {
	ASKED_HERE,
	ASKED_LEADER,
};

/* Whether a question changes something, as an op does. */
enum query_does {
	DOES_READS,
	DOES_CHANGES,
};

#define OP_CLIENT 1u
#define OP_SERVER 2u
#define OP_FREES  4u

/*
 * The highest feature level this program knows: one higher with each release
 * that has a new op, or an op that does something else than before. What the
 * cluster uses is replicated: fsm_level.
 */
#ifdef CORVO_EXTRA_OP
#define FEATURE_LEVEL 3u
#else
#define FEATURE_LEVEL 2u
#endif

/* One row of ops.def or queries.def. */
struct call_info {
	unsigned id;
	const char *name;
	const struct msg_desc *request;
	const struct msg_desc *reply;
	unsigned who; /* ops only */
	const char *doc;
	unsigned process;       /* enum proc_id: who answers */
	unsigned level;         /* ops only: feature level it came with */
	enum query_asked asked; /* queries only */
	enum query_does does;   /* all ops change something */
};

const struct call_info *op_info(unsigned id);    /* NULL: no such op */
const struct call_info *query_info(unsigned id); /* NULL: no such query */
/* Of an op, or of a query that changes something, nobody knows whether it was
 * carried out when no answer has come. */
bool call_changes(unsigned id);

/* The feature level that an op with this request needs: its own, or that of its
 * newest member. What it may go without, and is newer than known, is taken out
 * first: body is in out then, which the caller cleared. */
unsigned op_level(const struct call_info *op, unsigned known, struct str *body,
		  struct arena *scratch, struct buf *out);

/* --- processes --- */

enum proc_id {
#define PROC(NAME, name, program, doc) PROC_##NAME,
#include "proto/defs/procs.def"
	PROC_MAX
};

struct proc_info {
	const char *name;
	const char *program;
	const char *doc;
};

const struct proc_info *proc_info(enum proc_id p);

/* --- metrics --- */

enum metric_id {
#define METRIC(num, NAME, name, type, proc, help) METRIC_##NAME = num,
#include "proto/defs/metrics.def"
	METRIC_ID_MAX
};

enum metric_type {
	METRIC_COUNTER_TYPE,
	METRIC_GAUGE_TYPE,
	METRIC_HISTOGRAM_TYPE,
	METRIC_UNTYPED_TYPE
};

struct metric_info {
	unsigned id;
	const char *name;
	enum metric_type type;
	enum proc_id proc;
	const char *help;
};

const struct metric_info *metric_info(unsigned id); /* NULL: no such metric */
/* All rows in order of the table: i from 0 until NULL. */
const struct metric_info *metric_at(size_t i);
const struct msg_desc *msg_at(size_t i); /* all messages, for docs */
const struct call_info *op_at(size_t i);
const struct call_info *query_at(size_t i);

/* Version of the program and a hash of all tables, checked by hello. */
extern const char corvo_version[];
extern const uint64_t corvo_defs_hash;

#endif
