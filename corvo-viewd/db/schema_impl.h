/*
 * Shared by db/schema.c and db/schema_more.c only.
 */
#ifndef CORVO_SCHEMA_IMPL_H
#define CORVO_SCHEMA_IMPL_H

#include "db/schema.h"

int schema_exec(struct db *db, const char *const *sql, size_t n);

int schema_make_more_tables(struct db *db);
int schema_make_more_indexes(struct db *db);

#endif
