/*
 * The columns of table jobs that mirror a member of message `job`: one list
 * for writing (mirror/job.c) and reading (query/search.c), so that the two
 * cannot drift apart. A new member needs one row here and one in db/schema.c.
 */
#ifndef CORVO_COLUMNS_H
#define CORVO_COLUMNS_H

#include "db/db.h"
#include "db/timetext.h"
#include "proto/proto.h"

enum column_kind {
	COL_TEXT,
	COL_ENUM, /* text of the enum's value */
	COL_U32,
	COL_U64,
	COL_BOOL,
	COL_F64,
	COL_MS,   /* nanoseconds, in the column as milliseconds */
	COL_TIME, /* nanoseconds, in the column as fixed-width text */
	COL_I64,
	COL_COUNT,   /* u32 that is absent when it is 0 */
	COL_COUNT64, /* u64 likewise */
	COL_NANO,    /* billionths, in the column as a number */
	/* As JSON, for readers of the file; lists do not show these. */
	COL_STRS,
	COL_CHAIN,
	/* Of member usage: all of it as JSON, and what is searched by. */
	COL_USAGE,
	COL_USAGE_COST, /* billionths */
	COL_USAGE_MODEL,
	/* The same of member held. */
	COL_HELD,
	COL_HELD_KIND,
	COL_HELD_POLICY,
};

enum column_live {
	LIVE_NEVER,  /* left out of partial documents */
	LIVE_ABSENT, /* absent from a partial document: it is none now */
	LIVE_KEPT,   /* absent from a partial document: as it was */
};

struct column {
	const char *name;
	enum column_kind kind;
	enum column_live live;
	uint16_t offset;               /* of the member in its message */
	uint8_t bit;                   /* of the member in `has` */
	bool nested;                   /* db/rows.c: a member of schedule.job */
	const struct enum_desc *names; /* COL_ENUM */
	/* The column is NOT NULL: the text that stands for none, else 0. */
	const char *absent;
};

#define JOB_COLUMNS 55
extern const struct column job_columns[JOB_COLUMNS]; /* id is the first */

/* The columns with full text. */
enum {
	COLUMN_QUEUE = 1,
	COLUMN_TAGS = JOB_COLUMNS - 7,
	COLUMN_PAYLOAD = JOB_COLUMNS - 1,
};

/* Memory of texts bound to one statement. */
struct column_text {
	struct timetext times;
	char text[JOB_COLUMNS][TIMETEXT_LEN];
	struct buf strs, chain, usage, held;
};

void column_text_done(struct column_text *t);

/* The member of column c. */
void column_put(struct db_to to, size_t c, const struct m_job *j,
		struct column_text *text);

/*
 * The same for a column of any message; time_text: TIMETEXT_LEN bytes that
 * stay valid as long as a text has to (db/db.h).
 */
void column_put_member(struct db_to to, const struct column *col,
		       const void *msg, struct timetext *times,
		       char *time_text);

/* Sets the member of column c from result column i; texts are copied to a. */
void column_read(struct db_stmt *s, int i, size_t c, struct arena *a,
		 struct m_job *j);

#endif
