/*
 * Shared by check/verify.c and check/verify_merge.c only.
 */
#ifndef CORVO_VERIFY_IMPL_H
#define CORVO_VERIFY_IMPL_H

#include "check/verify.h"
#include "db/rows.h"
#include "util/hmap.h"

/* Two statements with the same columns, both in the order of their keys. */
struct merge {
	const char *table;
	unsigned keys, n;
	const char *(*column)(unsigned c); /* NULL: those of `rows` */
	const struct row_table *rows;
	struct db_stmt *view;  /* rows of the view */
	struct db_stmt *store; /* returns what is bound to it */
	bool has_row;          /* view stands on a row not yet compared */
	bool at_end;           /* and there are no more */
	/* Differences and rows of the view that are as they should be. */
	bool (*may_differ)(const char *column, struct str view,
			   struct str store);
	bool may_be_more;
};

struct compare {
	struct verify *t;
	struct merge jobs;
	struct merge rows; /* of the table that is being compared */
	struct column_text text;
	struct row_text row_text;
	struct hmap stats; /* queue -> struct stats, in stats_arena */
	struct arena stats_arena;
};

/* columns: as SQL, the keys first; begins anew when it was used before. */
int merge_begin(struct merge *m, struct db *db, const char *table,
		struct str columns, unsigned keys, unsigned n,
		const char *(*column)(unsigned c));
int merge_begin_rows(struct merge *m, struct db *db, enum row_kind kind);
/* The store has what is bound to m->store. 0 or -ERR_*. */
int merge_push(struct compare *c, struct merge *m);
/* It has no more. */
int merge_end(struct compare *c, struct merge *m);
void merge_done(struct merge *m);

/* One more difference; column "": the whole row. */
void verify_note(struct verify *t, const char *table, struct str key,
		 const char *column, struct str view, struct str store);

/* --- table queue_stats against counted jobs --- */

void stats_add(struct compare *c, const struct m_job *j, uint32_t errors);
int stats_compare(struct compare *c);
void stats_done(struct compare *c);

#endif
