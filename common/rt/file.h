/*
 * Files and directories.
 */
#ifndef CORVO_FILE_H
#define CORVO_FILE_H

#include "util/buf.h"

/* Reads a whole file of at most max bytes. 0 or -errno. */
int file_read(const char *path, size_t max, struct buf *ret);

/* A pipe, a terminal or the like: what was read of it does not come again. */
bool file_is_stream(const char *path);
/* Reads such a one to its end. 0 or -errno; -ETIMEDOUT: whoever writes was
 * silent for so long, or nobody writes. */
int file_read_stream(const char *path, size_t max, int silence_ms,
		     struct buf *ret);

/* Those n bytes of an open file, from `at` on. 0 or -errno; -EIO: it has not as
 * many. */
int file_read_at(int fd, uint64_t at, size_t n, char *ret);

/*
 * Replaces the file as a whole: written beside it, flushed, renamed. A crash
 * leaves the old or the new content. 0 or -errno.
 */
int file_write(const char *path, struct str content);

/*
 * What was written to the file sets out for the disk; returns when what set
 * out the time before is there. For large files: bytes that are left to one
 * flush at the end hold up every other flush of that disk. A hint: only that
 * flush says what failed.
 */
void file_pass_on(int fd);

/* Makes the directory and its parents (mode 0750). 0 or -errno. */
int dir_make(const char *path);

/* What was made, renamed or removed in it is on disk. 0 or -errno. */
int dir_sync(const char *path);

/* Removes a directory tree. 0 or -errno. Missing is fine. */
int dir_remove(const char *path);

/*
 * Makes the directory of that kind ("data" or "run", as in the flag that names
 * it) and sees to it that nobody else can change what is in it: it belongs to
 * us or to root, and so does a symbolic link in its place; of others, only a
 * group we are in may write. 0 or -ERR_VALIDATION_ERROR with a sentence that
 * says what to do.
 */
int dir_take(const char *path, const char *kind, struct buf *why);

/*
 * Takes an exclusive lock on path (made if missing) and writes our pid in it,
 * when there is room for it. A symbolic link (-ELOOP) and a file that others
 * own, know by another name or may write to (-EPERM) are refused.
 * Returns the descriptor to keep open, or -errno; -EWOULDBLOCK when another
 * process holds it, with its pid in *ret_holder (0 if unknown).
 */
int file_lock(const char *path, int *ret_holder);

/* What such an error of file_lock means. */
const char *file_lock_error(int err);

/* Size of the files in a directory and in those in it, but no deeper; what goes
 * away meanwhile counts as nothing. 0 or -errno. */
int dir_bytes(const char *path, uint64_t *ret);

/* Free bytes for us on the file system of path; 0 or -errno. */
int dir_free_bytes(const char *path, uint64_t *ret);
/* The same, and what is in use there, by whomever. */
int dir_space(const char *path, uint64_t *ret_free, uint64_t *ret_used);

#endif
