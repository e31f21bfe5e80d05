/*
 * Looking at the rows of a view, for tests: texts of queries, and whether
 * what is derived from table jobs agrees with it.
 */
#ifndef CORVO_VIEW_ROWS_H
#define CORVO_VIEW_ROWS_H

#include "db/db.h"
#include "proto/proto.h"

/* All rows of a query as text, one line each, appended to ret. */
void dump(struct db *db, const char *sql, int columns, struct buf *ret);
void assert_rows(struct db *db, const char *sql, int columns,
		 const char *expected);
int64_t number(struct db *db, const char *sql);

/* Counters and full text are those of the rows. */
void assert_consistent(struct db *db);

/* All tables say the same, but for what depends on when they were written. */
void assert_same_rows(struct db *a, struct db *b);

/* A whole document in queue q with payload 1. */
void make_job(struct m_job *j, const char *id, enum job_state state);

#endif
