/*
 * Shared by the query_search*.c files and query/cursor.c only.
 *
 * A search scans jobs in the order of their creation along one index, the
 * plan (query/search_plan.c), looks at each with the other conditions
 * (query/search_filter.c), and stops when its page is full or its time is
 * over; the cursor says where to go on (query/cursor.c). Sorts that no index
 * serves keep the best of all they meet (query/search_best.c).
 */
#ifndef CORVO_QUERY_SEARCH_H
#define CORVO_QUERY_SEARCH_H

#include "db/timetext.h"
#include "jq/jq.h"
#include "proto/job.h"
#include "query/query_impl.h"

enum search_sort {
	SORT_CREATED,
	SORT_PRIORITY,
	SORT_STARTED,
	SORT_COMPLETED,
	SORT_ATTEMPT,
	SORT_COST,
	SORT_ITERATION,
	SORT_MODEL,
	SORTS
};

/* A job's place in the order of creation; zeroed: none. */
struct spot {
	uint8_t created_n, id_n;
	char created_at[TIMETEXT_LEN]; /* as in the column */
	char id[LIMIT_JOB_ID_BYTES];
};

void spot_set(struct spot *s, struct str created_at, struct str id);
static inline bool spot_is_set(const struct spot *s)
{
	return s->created_n > 0;
}
static inline struct str spot_created(const struct spot *s)
{
	return str_of(s->created_at, s->created_n);
}
static inline struct str spot_id(const struct spot *s)
{
	return str_of(s->id, s->id_n);
}
int spot_cmp(const struct spot *a, const struct spot *b);

_Static_assert(LIMIT_MODEL_BYTES <= UINT8_MAX, "see struct hit");

/* A job that was found: its place in any order. */
struct hit {
	bool none; /* it has no value to sort by, and comes last */
	uint8_t text_n;
	char text[LIMIT_MODEL_BYTES]; /* of sorts by text */
	uint64_t key;                 /* of the others */
	struct spot spot;
	int64_t rowid;
};

/* Longer than a request can name: cut, which only moves the place. */
void hit_set_text(struct hit *h, struct str text);
static inline struct str hit_text(const struct hit *h)
{
	return str_of(h->text, h->text_n);
}

/* --- cursors (query/cursor.c) --- */

/*
 * by creation: `from` is the last job looked at. Other sorts: of the jobs
 * created after `from` and up to `to` (unset: all), those behind `after`
 * (when has_after) are still to be given.
 */
#define CURSOR_NOT_SEEN UINT32_MAX

struct cursor {
	enum search_sort sort;
	bool descending;
	bool has_after;
	uint32_t seen;   /* matches before, or CURSOR_NOT_SEEN */
	uint32_t filter; /* whose matches: a hash of the question */
	struct spot from, to;
	struct hit after; /* without rowid */
};

struct str cursor_format(const struct cursor *c, struct arena *a);
/* False when the text is no cursor of ours. */
bool cursor_parse(struct str text, struct cursor *ret);

/* --- statements with parameters (query/search_plan.c) --- */

#define SQL_PARAMS 48

struct sql {
	struct buf text;
	struct {
		enum { SQL_TEXT, SQL_NUMBER, SQL_JQ } kind;
		struct str text; /* valid until the statement is finalized */
		int64_t number;
		struct jq *jq;
	} params[SQL_PARAMS];
	int n;
};

/* Each gives the number of the parameter, for "?%d". */
int sql_text(struct sql *s, struct str v);
int sql_number(struct sql *s, int64_t v);
int sql_jq(struct sql *s, struct jq *v);
/* Prepares, binds, and frees the text. 0 or -ERR_*. */
int sql_prepare(struct query *q, struct sql *s, struct db_stmt **ret);

/* --- a search --- */

/* Which index leads to the jobs. */
enum plan_kind {
	PLAN_NOTHING, /* no job can match */
	PLAN_RANGES,  /* by queue, state and priority, as far as asked for */
	PLAN_COLUMN,  /* an index of one column and creation */
	PLAN_UNIQUE,
	PLAN_ID,
	PLAN_TEXT,
	PLAN_WORKER,
	PLAN_ERRORS, /* jobs with recorded errors */
};

/* Jobs of one state and, within a queue, of one priority. */
struct range {
	const char *state; /* NULL: of any */
	int priority;      /* -1: of any */
};

#define PLAN_RANGES_MAX (QUERY_STATES * (PRIORITY_NORMAL + 1))

struct plan {
	enum plan_kind kind;
	struct range ranges[PLAN_RANGES_MAX]; /* PLAN_RANGES */
	size_t ranges_n;
	const char *column, *index; /* PLAN_COLUMN */
	struct str value;
	/* In the order of row numbers: a set that is too large to be sorted,
	 * for orders other than that of creation. PLAN_TEXT and PLAN_WORKER. */
	bool by_rowid;
	int64_t from, to; /* rows between these, for by_rowid */
};

struct search {
	struct query *q;
	const struct m_search *m;
	bool states[JOB_STATES_SHOWN]; /* asked for; all when none is named */
	bool some_states;              /* fewer than all */
	uint32_t limit;
	enum search_sort sort;
	bool descending;
	struct cursor at;     /* where the page begins */
	struct str after;     /* created later than this, or STR_NULL */
	struct str before;    /* created earlier than this, or STR_NULL */
	struct jq *tags, *jq; /* NULL: not asked for */
	bool by_text;
	struct str match;  /* FTS5 expression of the text */
	struct str id_end; /* of ids with the prefix, the first after them */
	struct plan plan;
	bool has_filter; /* there are conditions beside the plan */
	bool needs_row;  /* and they are on more than the id */
	uint32_t hash;   /* of the question */

	const struct query_ask *ask;
	bool is_unplanned; /* the budget was used up before there was a plan */
	uint64_t end_ns;   /* clock_mono_ns: when the budget is used up */
	uint64_t count_ns; /* of it, for counting on */
};

/* Reads the conditions. 0 or -ERR_VALIDATION_ERROR. (query/search_filter.c) */
int search_read_filter(struct search *s);
void search_done(struct search *s);
/* Appends the conditions the plan leaves open, on jobs j and keys k. */
void search_put_filter(struct search *s, struct sql *sql);

/* Chooses s->plan. 0 or -ERR_*. (query/search_plan.c) */
int search_make_plan(struct search *s);
/* Appends a SELECT of created_at, id, rowid, in order, from s->at on. */
void search_put_keys(struct search *s, struct sql *sql);

/* --- the best of what is met (query/search_best.c) --- */

struct best {
	bool descending;
	size_t keep; /* so many of them */
	size_t n;
	struct hit *hits; /* 2 * keep */
	bool cut;         /* hits[keep - 1] is the worst that is of use */
};

void best_init(struct best *b, size_t keep, bool descending);
void best_done(struct best *b);
void best_add(struct best *b, const struct hit *h);
void best_sort(struct best *b); /* n is at most keep then */
int hit_cmp(const struct hit *a, const struct hit *b, bool descending);

#endif
