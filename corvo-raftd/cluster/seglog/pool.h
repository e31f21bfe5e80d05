/*
 * Segments for later: files of full size whose blocks were written before, so
 * that a flush has only data to write. Those that are cut off the log are used
 * again. One thread at a time.
 */
#ifndef CORVO_SEGLOG_POOL_H
#define CORVO_SEGLOG_POOL_H

#include "cluster/seglog/scan.h"

#define SEG_SPARES_MAX 16

struct seg_pool {
	const char *dir;
	size_t bytes; /* of a segment */
	unsigned max; /* spares kept, at most SEG_SPARES_MAX */
	char spare[SEG_SPARES_MAX][SEG_NAME_MAX];
	unsigned n;
};

/* A segment that can be written to. */
struct seg_open {
	char name[SEG_NAME_MAX];
	uint64_t number;
	uint32_t salt;
	int fd;
	size_t at; /* where the next record goes */
	uint64_t last_index;
};

/* Finds the spares in dir. 0 or -errno with a sentence in why. */
int seg_pool_init(struct seg_pool *p, struct buf *why);

/* A segment that is not needed any more, by its name. 0 or -errno with a
 * sentence in why. */
int seg_pool_give(struct seg_pool *p, const char *name, struct buf *why);

/*
 * The segment of that number, empty and on the disk. quick: its blocks need not
 * have been written before. 0 or -errno with a sentence in why.
 */
int seg_pool_take(struct seg_pool *p, uint64_t number, bool quick,
		  struct seg_open *ret, struct buf *why);

/* Writes over a part of a file what it holds. 0 or -errno. */
int seg_again(int fd, size_t from, size_t to);
/* Writes zeros over a part of a file; the end of them need not be on the disk.
 * 0 or -errno. */
int seg_zeros(int fd, size_t from, size_t to);

#endif
