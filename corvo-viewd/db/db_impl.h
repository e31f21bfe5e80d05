/*
 * Shared by the files of the seam to SQLite only.
 */
#ifndef CORVO_DB_IMPL_H
#define CORVO_DB_IMPL_H

#include <sqlite3.h>

#include "db/db.h"

struct db {
	sqlite3 *h;
	/* The same file, to pass it on; -1: not to be. Closed after h: to close
	 * it gives up the locks that SQLite has on the file. */
	int fd;
	uint64_t deadline_ns;    /* clock_mono_ns; 0: none */
	const atomic_bool *stop; /* NULL: none */
	db_match_fn *match;
	Fts5Tokenizer *words; /* for db_count_words */
};

/* 1: a row; 0; or -ERR_*. */
int db_translate(int rc);

#endif
