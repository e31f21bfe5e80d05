/*
 * Between logcheck.c, which reads the library's segments, logcheck_own.c, which
 * reads ours, and logcheck_dir.c, which knows the other files.
 */
#ifndef CORVO_LOGCHECK_IMPL_H
#define CORVO_LOGCHECK_IMPL_H

#include "cluster/log_file.h"
#include "cluster/logcheck.h"
#include "cluster/segment.h"

#define LOG_NAME_MAX 96

struct log_segment {
	char name[LOG_NAME_MAX];
	bool is_open;
	uint64_t first, last; /* closed: of its name; open: its number, twice */
	uint64_t entries;     /* that can be read */
	size_t size;
	size_t end; /* of what can be read */
	enum segment_end state;
	bool is_unused; /* nothing in it */
};

/* Keeps the first damage. */
_printf_(2, 3) void log_damage(struct log_check *c, const char *fmt, ...);

/* The next entry, of either kind of log. */
bool log_on_entry(void *ctx, const struct segment_entry *e);

/* The entries of our own log. 0, -errno with a sentence in why, or what fn
 * returned. */
int log_own_read(struct log_check *c, struct buf *why);

/* Metadata, the newest snapshot and the list of segments, in order. */
int log_dir_read(struct log_check *c, struct buf *why);

#endif
