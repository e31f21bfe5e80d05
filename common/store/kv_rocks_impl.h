/*
 * Shared by kv_rocks.c and kv_rocks_ingest.c, the only files that know
 * rocksdb/c.h.
 */
#ifndef CORVO_KV_ROCKS_IMPL_H
#define CORVO_KV_ROCKS_IMPL_H

#include <rocksdb/c.h>

#include "store/kv_impl.h"

/* A file that is made is passed on to the disk so often. */
#define ROCKS_SYNC_BYTES (1u << 20)

struct rocks {
	struct kv kv;
	rocksdb_t *db;
	char *path;
	rocksdb_env_t *env;
	rocksdb_options_t *options;
	rocksdb_block_based_table_options_t *table;
	rocksdb_cache_t *cache;
	rocksdb_writeoptions_t *write;
	rocksdb_readoptions_t *read;
	/* weight of a table that is taken in as files; by any thread */
	_Atomic size_t ingest_from;
};

/* Frees err; the text is kept for kv_error_text and copied to why. */
int rocks_error(char *err, struct buf *why);

/* --- kv_rocks_ingest.c --- */

int rocks_write_table(struct kv *kv, const struct table *t);
/* Files that were not taken in before a crash go. */
void rocks_ingest_clean(const char *path);

#endif
