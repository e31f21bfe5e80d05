/*
 * Checkpoints that stand for snapshots of the log: hard links to the files of
 * the store, in <data-dir>/checkpoints/snapshot-<index>. They are made and
 * removed only here.
 *
 * The newest stays. An older one stays while it is read, and a minute longer,
 * since who reads comes again for the next part; the last but one also without
 * that, until it is no longer the last but one or a minute old: somebody may
 * just have been told of it. So there are two, and those that are read.
 *
 * Any thread.
 */
#ifndef CORVO_KEEP_H
#define CORVO_KEEP_H

#include "store/kv.h"

#define KEEP_NS        (60 * NS_PER_S)
#define KEEP_NAME_MAX  64
#define KEEP_SUM_BYTES (4u << 20) /* read by one call of keep_sum */

struct keep;
struct keep_point; /* a checkpoint that is held */

struct keep_file {
	char name[KEEP_NAME_MAX];
	uint64_t size;
	uint32_t crc; /* as in util/crc32.h */
};

/* Finds what is there, and removes what a crash left. */
struct keep *keep_new(const char *data_dir);
void keep_free(struct keep *k); /* nothing is held any more */

/* The newest checkpoint on the disk, also one of the first versions, which
 * had no index in its name; with a NUL. False: there is none. */
bool keep_find(const char *data_dir, struct buf *ret_path);

/* Makes one of now, flushed, and removes what may go. 0 or -ERR_* with a
 * sentence in why. */
int keep_make(struct keep *k, struct kv *kv, uint64_t index, struct buf *why);
/* Removes what may go at that moment; clock_mono_ns. */
void keep_sweep(struct keep *k, uint64_t now_ns);
size_t keep_count(struct keep *k);
/* Of all files of the one of that index; 0: there is none. */
uint64_t keep_bytes(struct keep *k, uint64_t index);

/*
 * The oldest one that is read, or was less than KEEP_NS ago: who reads it goes
 * on with the entries after it. 0: none.
 */
uint64_t keep_read_from(struct keep *k, uint64_t now_ns);

/* Holds the checkpoint of that index. NULL: there is none. */
struct keep_point *keep_open(struct keep *k, uint64_t index);
void keep_close(struct keep *k, struct keep_point *p);

/*
 * The checksums of its files, a part of the work with each call: 1 there is
 * more to do, 0 done, or -ERR_* with a sentence in why. Not on two threads at
 * once. They are remembered, also for the checkpoints that follow: a file with
 * another name or of another inode is another file, and none ever changes.
 */
int keep_sum(struct keep *k, struct keep_point *p, struct buf *why);
/* All files of one whose checksums are known; NULL: they are not. */
const struct keep_file *keep_files(struct keep *k, const struct keep_point *p,
				   size_t *ret_n);
/* Reads n bytes from `at` on; the file must be one of keep_files, and have
 * them. 0 or -errno. */
int keep_read(const struct keep_point *p, const struct keep_file *f,
	      uint64_t at, size_t n, char *ret);

#endif
