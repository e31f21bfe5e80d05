/*
 * Between seglog.c and writer.c, which write, resume.c, which goes on with what
 * is there, and keeper.c, which has segments ready and puts old ones away.
 */
#ifndef CORVO_SEGLOG_IMPL_H
#define CORVO_SEGLOG_IMPL_H

#include <pthread.h>

#include "cluster/seglog/pool.h"
#include "cluster/seglog/seglog.h"
#include "cluster/seglog/stage.h"

/* A segment that is full. */
struct seg_closed {
	struct list node; /* oldest first */
	char name[SEG_NAME_MAX];
	uint64_t last_index;
	int fd; /* -1: it is on the disk, and closed */
};

struct seglog {
	struct seglog_config c;
	int event_fd;
	pthread_t writer, keeper;

	/* the writer's alone */
	struct seg_open cur;
	size_t flushed; /* of cur, as far as is known */
	uint64_t entry; /* index of the next one; 0: there was none yet */
	struct seg_stage stage;

	/* the keeper's alone */
	struct seg_pool pool;

	pthread_mutex_t lock; /* for all below */
	pthread_cond_t more;  /* the writer has something to do */
	pthread_cond_t work;  /* the keeper has */
	pthread_cond_t quiet; /* nothing is left to be written */
	struct list queue;    /* struct seglog_op */
	struct list done;
	struct hist flush_time; /* of groups; hist_short */
	bool is_writing;
	bool stop, stop_keeper;
	struct list closed; /* struct seg_closed */
	uint64_t cut;
	uint64_t number;      /* of the segment being written */
	struct seg_open next; /* fd -1: not there yet */
	bool is_waited_for;   /* next, by the writer */
};

/* --- resume.c --- */

/* As seglog_open, but no thread runs yet. */
int seglog_resume(const struct seglog_config *c, const struct seglog_scan *s,
		  struct seglog **ret, struct buf *why);
/* No thread runs any more. */
void seglog_forget(struct seglog *l);

/* --- writer.c: any thread, one at a time --- */

/* Says so and stops the process. */
_noreturn_ void seglog_die(const char *why);

/* From now on what is put goes to `cur`. 0 or -errno. */
int seglog_begin_segment(struct seglog *l);
/* Into the group; nothing is promised of it before it is flushed. */
void seglog_put(struct seglog *l, const struct seglog_op *op);
/* Ends the group: it is on the disk, if the log is durable. */
void seglog_flush(struct seglog *l);
/* Also what need not have been. */
void seglog_flush_file(struct seglog *l);

/* --- keeper.c --- */

void seglog_keeper_begin(struct seglog *l);
void seglog_keeper_end(struct seglog *l);

/* Of the writer: waits until there is a next segment. */
void seglog_await_next(struct seglog *l);
/* After it: puts the one it has filled away and takes that. */
void seglog_next(struct seglog *l);

#endif
