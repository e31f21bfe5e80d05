/*
 * What goes to a segment, in whole blocks. The disk takes them from here
 * (O_DIRECT) where the file system can do that: nothing is copied into the
 * system's memory, and a flush has nothing to look for there.
 *
 * A block that is filled in part stays here and is written again with what
 * follows it, and zeros behind it; the system does the same with its pages.
 */
#ifndef CORVO_SEGLOG_STAGE_H
#define CORVO_SEGLOG_STAGE_H

#include <stdbool.h>
#include <stddef.h>

struct seg_stage {
	char *bytes;
	size_t base; /* of the file: where they begin; whole blocks */
	size_t n;
	size_t written; /* of them, and in the file */
	bool is_direct;
};

void seg_stage_init(struct seg_stage *s);
void seg_stage_done(struct seg_stage *s);

/*
 * The next byte goes to `at` of that file, which has all before it. direct:
 * past the system's memory, if that is possible. 0 or -errno.
 */
int seg_stage_begin(struct seg_stage *s, int fd, size_t at, bool direct);

/* Takes as many of the bytes as there is room for; none: write first. */
size_t seg_stage_put(struct seg_stage *s, const char *p, size_t n);

/* Writes all that was put; it is not flushed. 0 or -errno. */
int seg_stage_write(struct seg_stage *s, int fd);

#endif
