/*
 * Shared by the query_*.c files only.
 */
#ifndef CORVO_QUERY_IMPL_H
#define CORVO_QUERY_IMPL_H

#include <stdatomic.h>

#include "db/db.h"
#include "query/query.h"

struct query {
	struct db *db;
	int64_t schema;     /* db_schema_version of what it was made for */
	struct arena arena; /* of one answer */
	char why[256];      /* of the last failure */
	atomic_bool stop;   /* query_interrupt; since query_begin */
	uint64_t end_ns;    /* of query_end_at; 0: none */
};

/* Each fills the reply's message in q->arena and encodes it to out. */
int query_queues(struct query *q, const struct query_ask *ask, struct buf *out);
int query_search(struct query *q, const struct query_ask *ask, struct buf *out);
int query_metrics(struct query *q, const struct query_ask *ask,
		  struct buf *out);
int query_fulltext(struct query *q, const struct query_ask *ask,
		   struct buf *out);
int query_try_policy(struct query *q, const struct query_ask *ask,
		     struct buf *out);

/*
 * What an answer may take that has a time of its own: statements end with
 * -ERR_REQUEST_TIMEOUT at end_ns too (0: no longer), some of which cannot look
 * at the clock themselves. Whether that is why one has ended.
 */
void query_end_at(struct query *q, const struct query_ask *ask,
		  uint64_t end_ns);
bool query_is_at_end(struct query *q, const struct query_ask *ask, int r);

/* Words to look for, as match_build has them, which came as that member: 1
 * built; 0: there is none; a refusal. */
int query_match(struct query *q, const char *member, struct str words,
		struct buf *out);

/* A to Z in lower case, as SQLite's lower() has it. */
struct str query_lower(struct arena *a, struct str s);

/* Jobs found by an index that knows nothing of their creation: so many are
 * sorted. */
#define QUERY_SORTED_MAX 20000

/* SELECTs that end in queue_stats columns list them in this order. */
#define QUERY_STATE_COLUMNS \
	"pending, active, held, completed, retrying, dead, cancelled, scheduled"
#define QUERY_STATES 8

/* Keeps the sentence for query_why. -ERR_VALIDATION_ERROR. */
_printf_(2, 3) int query_refuse(struct query *q, const char *fmt, ...);

#endif
