/*
 * SQLite as the view sees it; db/db.c is the only file that knows sqlite3.h.
 *
 * A connection and its statements belong to one thread at a time; only
 * db_interrupt may be called from another. Texts bound to a statement must
 * stay valid until db_reset.
 *
 * Errors: -ERR_STORAGE_FULL      no space left; the file is as it was
 *         -ERR_VIEW_UNAVAILABLE  the file is damaged, not ours, or may not be
 *                                written to when it is opened
 *         -ERR_REQUEST_TIMEOUT   interrupted, or past the time limit
 *         -ERR_INTERNAL_ERROR    anything else; db_error has the text
 */
#ifndef CORVO_DB_H
#define CORVO_DB_H

#include <stdatomic.h>

#include "util/buf.h"

struct db;
struct db_stmt;

enum db_mode {
	DB_WRITE, /* makes the file if missing; write-ahead log */
	DB_READ,
	DB_LOAD, /* a new file nobody else sees yet: no journal at all */
};

/* Where SQLite puts temporary files; NULL: where it likes. While nothing is
 * open. */
void db_set_temp_dir(const char *dir);

/* Pages a connection made later may keep in memory: so much to write, twice
 * that to load, an eighth to read. */
void db_set_cache(uint64_t bytes);

/* 0 or -ERR_* with a sentence in why. */
int db_open(const char *path, enum db_mode mode, struct db **ret,
	    struct buf *why);
void db_close(struct db *db); /* all statements finalized before; NULL: fine */

/* As many as the full-text index takes it for when somebody looks for it. */
size_t db_count_words(struct db *db, struct str text);
int db_exec(struct db *db, const char *sql); /* without results */
const char *db_error(struct db *db);         /* of the last failure */
/* The last failure is one of the file's content: tables, rows or rules are not
 * those the statement was made for. */
bool db_is_foreign(struct db *db);
/* Another number whenever somebody has changed tables. 0 or -ERR_*. */
int db_schema_version(struct db *db, int64_t *ret);
int64_t db_changes(struct db *db); /* rows of the last statement */
int64_t db_last_rowid(struct db *db);
/*
 * What was written is on its way to the disk. Left to the system it would go
 * half a minute later, hundreds of megabytes at once, and the log of raftd
 * would wait for it.
 */
void db_pass_on(struct db *db);
/* Moves the write-ahead log into the file and makes both durable; fails soon
 * when another program is reading. */
int db_checkpoint(struct db *db);

/* Statements end with -ERR_REQUEST_TIMEOUT after that; 0: no limit. */
void db_set_deadline(struct db *db, uint64_t mono_ns);
void db_interrupt(struct db *db); /* any thread */
/* Statements end likewise soon after *stop is true; NULL: nobody says so. */
void db_set_stop(struct db *db, const atomic_bool *stop);

/* What the SQL function matches(text, ?) calls with what is bound to ? by
 * db_bind_match; it is false for NULL. Before such a statement is prepared. */
typedef bool db_match_fn(void *what, struct str text);
void db_set_match(struct db *db, db_match_fn *fn);

/* 0 or -ERR_*. */
int db_prepare(struct db *db, const char *sql, struct db_stmt **ret);
void db_finalize(struct db_stmt *s); /* NULL: fine */

/* Parameters count from 1. db_bind_text of STR_NULL binds NULL. */
void db_bind_text(struct db_stmt *s, int i, struct str v);
void db_bind_i64(struct db_stmt *s, int i, int64_t v);
void db_bind_f64(struct db_stmt *s, int i, double v);
void db_bind_null(struct db_stmt *s, int i);
void db_bind_match(struct db_stmt *s, int i, void *what);

/* Where a value goes: parameter i of a statement, or a column of a source. */
struct db_to {
	struct db_stmt *stmt;
	int i;
	void *column; /* NULL: to the statement */
};

static inline struct db_to db_param(struct db_stmt *s, int i)
{
	return (struct db_to){ .stmt = s, .i = i };
}

void db_put_text(struct db_to to, struct str v);
void db_put_i64(struct db_to to, int64_t v);
void db_put_f64(struct db_to to, double v);
void db_put_null(struct db_to to);

/*
 * Rows of the caller's, as a table that this connection may select from: one
 * statement for many rows costs half of one each. Texts must stay valid until
 * the next row is asked for.
 */
struct db_source {
	const char *name;    /* of the table */
	const char *columns; /* their names, with commas */
	void (*put)(void *ctx, size_t row, size_t column, struct db_to to);
	void *ctx;
	size_t rows; /* may change between statements */
};

/* s stays where it is until the connection is closed. 0 or -ERR_*. */
int db_add_source(struct db *db, struct db_source *s);

/* 1: a row; 0: done; -ERR_*: failed. The latter two reset the statement. */
int db_step(struct db_stmt *s);
void db_reset(struct db_stmt *s);
/* Steps a statement that yields no rows. 0 or -ERR_*. */
int db_run(struct db_stmt *s);

/* Columns count from 0. Texts are valid until the next step or reset. */
bool db_is_null(struct db_stmt *s, int i);
struct str db_text(struct db_stmt *s, int i); /* STR_NULL when NULL */
int64_t db_i64(struct db_stmt *s, int i);
double db_f64(struct db_stmt *s, int i);
/* Column i of two rows, in the order of ORDER BY: < 0, 0 or > 0. */
int db_compare(struct db_stmt *a, struct db_stmt *b, int i);

#endif
