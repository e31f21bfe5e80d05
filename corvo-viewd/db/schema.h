/*
 * The tables of the view. They are made anew whenever SCHEMA_VERSION differs
 * from the file's: the view is a cache and needs no migrations. Raise the
 * number with every change of the texts.
 */
#ifndef CORVO_SCHEMA_H
#define CORVO_SCHEMA_H

#include "db/db.h"

#define SCHEMA_VERSION 17

/*
 * Full text: jobs_fts has the columns id (not searched), queue, tags and
 * payload, and the row numbers of jobs:
 *
 *   SELECT j.id, ... FROM jobs_fts f JOIN jobs j ON j.rowid = f.rowid
 *   WHERE jobs_fts MATCH ?1 ORDER BY f.rowid DESC LIMIT ?2
 *
 * Row numbers are in the order in which rows came into the file, so that order
 * costs nothing; it is nearly that of creation, but not in a file that was made
 * anew, where jobs came by their ids. Words are runs of letters and digits of
 * any JSON in payload and tags, names of members too, without case, accents and
 * escapes; an address as user@example.com is three words in a row. In ?1: word,
 * "words in a row", word*, AND, OR, NOT, payload : word. Everything but words
 * must stand in double quotes (doubled inside), or it is a syntax error: quote
 * what users write.
 */

/* In a transaction of the caller's. 0 or -ERR_*. */
int schema_make_tables(struct db *db);
/* Apart, because a bulk load is faster without indexes. */
int schema_make_indexes(struct db *db);

/* --- table meta: numbers and texts by name --- */

#define META_SCHEMA      "schema_version"
#define META_POSITION    "position"    /* last event taken in */
#define META_POSITION_AT "position_at" /* its time, UNIX nanoseconds */
#define META_HISTORY     "history"     /* that those events belong to */
#define META_BOOT        "boot"        /* see view.c */
/* Rows of jobs from this one on are not in jobs_fts yet; 0: all are. */
#define META_TEXT_NEXT "text_next"

/* 0 or -ERR_*; a missing row reads as 0 and as an empty text. */
int meta_get_u64(struct db *db, const char *key, uint64_t *ret);
int meta_get_text(struct db *db, const char *key, struct buf *ret);
int meta_put_u64(struct db *db, const char *key, uint64_t v);
int meta_put_text(struct db *db, const char *key, struct str v);

#endif
