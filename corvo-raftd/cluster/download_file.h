/*
 * The files of a snapshot that is on its way from another node, in
 * <data-dir>/incoming/<index>: what is there of them, and what comes.
 *
 * A file grows from its first byte to its last, so what is there of one that
 * was interrupted is its begin. Nothing is believed because it is there: its
 * checksum is. Any thread, one at a time, but for `stop`.
 */
#ifndef CORVO_DOWNLOAD_FILE_H
#define CORVO_DOWNLOAD_FILE_H

#include <stdatomic.h>

#include "rt/config.h"

#define INCOMING_NAME_MAX  64
#define INCOMING_FILES_MAX 100000

struct incoming_file {
	char name[INCOMING_NAME_MAX];
	uint64_t size;
	uint32_t crc;  /* of all of it, as in util/crc32.h */
	uint64_t have; /* bytes that are there */
	uint32_t sum;  /* their checksum */
	bool done;
};

struct incoming {
	const struct settings *settings;
	uint64_t index;
	struct incoming_file *files; /* sorted by name */
	size_t n;
	/* The files of a snapshot that is complete: those they have in common
	 * need not be read again. May be empty. */
	uint64_t before_index;
	struct incoming_file *before;
	size_t before_n;
	atomic_bool stop; /* what takes long ends with -ERR_SHUTTING_DOWN */
};

/* <data-dir>/incoming, or a name in it; with a NUL. */
void incoming_path(const struct settings *s, const char *name, struct buf *ret);
void incoming_folder(const struct settings *s, uint64_t index, struct buf *ret);

/* The file of that name in a list that is sorted; NULL: none. */
struct incoming_file *incoming_find(struct incoming_file *files, size_t n,
				    const char *name);

/* A file of a store, and no way out of the folder. */
bool incoming_name_ok(struct str name);

/*
 * Looks at what is there of each file, and takes tables that the store or an
 * earlier snapshot has, by links. Removes everything else in the folder, and
 * earlier snapshots. 0; -ERR_STORAGE_FULL when there is no room for the rest;
 * or -ERR_*; with a sentence in why.
 */
int incoming_prepare(struct incoming *in, struct buf *why);

/*
 * The next bytes of a file, with their checksum. With its last bytes the file
 * is compared with its own, and flushed. 0; -ERR_BAD_MESSAGE when one of the
 * checksums is wrong: then the file is removed; or -ERR_*; with a sentence in
 * why.
 */
int incoming_write(struct incoming *in, struct incoming_file *f,
		   struct str bytes, uint32_t crc, struct buf *why);

/* All files are there: they stay so. */
int incoming_end(struct incoming *in, struct buf *why);

#endif
