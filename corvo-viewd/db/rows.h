/*
 * The tables besides jobs that mirror records of the store: one list of
 * columns each, for those who write rows (mirror/rows.c) and those who compare
 * them with the store (check/verify.c).
 */
#ifndef CORVO_ROWS_H
#define CORVO_ROWS_H

#include "db/columns.h"

enum row_kind {
	ROW_ERROR,     /* struct m_job_error */
	ROW_QUEUE,     /* struct m_queue */
	ROW_WORKER,    /* struct m_worker */
	ROW_LOCK,      /* struct m_unique_lock */
	ROW_BATCH,     /* struct m_batch */
	ROW_SCHEDULE,  /* struct m_schedule */
	ROW_BUDGET,    /* struct m_budget */
	ROW_SCORE,     /* struct m_score */
	ROW_ITERATION, /* struct m_iteration */
	ROW_PROVIDER,  /* struct m_provider_doc */
	ROW_POLICY,    /* struct m_policy */
	ROW_WEBHOOK,   /* struct m_webhook */
	ROW_KINDS
};

#define ROW_COLUMNS_MAX 24
#define ROW_LISTS_MAX   2 /* columns COL_STRS of one row */

struct row_table {
	const char *name;
	unsigned keys; /* of the columns, the first so many name the row */
	unsigned n;
	const struct column *columns;
};

extern const struct row_table row_tables[ROW_KINDS];

/* Memory of texts bound to one statement; zeroed at first. */
struct row_text {
	struct timetext times;
	char text[ROW_COLUMNS_MAX][TIMETEXT_LEN];
	struct m_schedule_job job; /* with defaults filled in */
	struct buf lists[ROW_LISTS_MAX];
};

void row_text_done(struct row_text *t);

/* Binds the columns of the message, the first to parameter 1. */
void row_bind(struct db_stmt *s, enum row_kind kind, const void *m,
	      struct row_text *t);

/* "a, b, c": the columns, or the first n of them. */
void row_put_columns(struct buf *b, const struct row_table *t, unsigned n);

/* A statement for row_bind that inserts the row, or replaces it. */
void row_put_upsert(struct buf *b, const struct row_table *t);

#endif
