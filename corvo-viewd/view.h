/*
 * The SQLite file of the view and its connections: one that writes, a few
 * that read. The file is a cache: whatever is wrong with it, it is thrown
 * away and made anew.
 *
 * Loop thread; while another thread uses a connection, nothing here may be
 * called but reads of the plain members.
 */
#ifndef CORVO_VIEW_H
#define CORVO_VIEW_H

#include "db/db.h"
#include "mirror/mirror.h"
#include "proto/origin.h"
#include "query/query.h"

#define VIEW_READERS 4

/* A file as it was when we last wrote to it. */
struct view_file {
	uint64_t dev, ino, size, changed_ns;
};

enum view_place {
	VIEW_IN_PLACE,
	VIEW_MOVED,   /* removed or replaced: what is open is still whole */
	VIEW_CHANGED, /* somebody else wrote to the file */
};

struct view {
	char *path;            /* <data-dir>/view/corvo.db */
	char *new_path;        /* where a rebuild puts its file */
	struct db *writer;     /* NULL: not open */
	struct mirror *mirror; /* on writer */
	struct query *readers[VIEW_READERS];
	struct view_file file, log, index; /* of what is open */
	bool fresh;             /* nothing has been written to it yet */
	uint64_t position;      /* last event in the file */
	uint64_t position_ns;   /* its time, UNIX; 0: not known */
	struct history history; /* that it is of */
	/* Time, UNIX, of the first event that is known and not in the file;
	 * 0: none is known. How old it was when it got there last, and when
	 * that was (clock_mono_ns). */
	uint64_t behind_ns, took_lag_ns, took_ns;
	/* Last event of which all rows can be found by their words, and when
	 * the first row came that cannot, UNIX; 0: all can. */
	uint64_t text_position, text_behind_ns;
};

/* Makes the directory. 0 or -ERR_* with a sentence in why. */
int view_init(struct view *v, const char *data_dir, struct buf *why);
void view_done(struct view *v); /* closed before */

/* Opens the file; one that is damaged or of another version is replaced by
 * an empty one. 0 or -ERR_* with a sentence in why; then nothing is open. */
int view_open(struct view *v, struct buf *why);

/* clean: everything is on disk and says so; else as after a crash. */
void view_close(struct view *v, bool clean);

/* After each write, on the writer's thread: this is how it should be. What was
 * written sets out for the disk. */
void view_note_write(struct view *v);
/* Whether it still is; not while something is being written. */
enum view_place view_place(const struct view *v);

/*
 * How far the file is behind: the age of the first event it lacks. Events
 * come in answers, so in between, for a second, it is what it was at the last
 * one; 0 when nothing new came.
 */
uint64_t view_lag_ns(const struct view *v);

/* The same for what is found by its words. */
uint64_t view_text_lag_ns(const struct view *v);
/* After each write, on the loop: how far the full text is. */
void view_note_text(struct view *v);

/* Puts the file at new_path in the place of the open one, and opens it. */
int view_replace(struct view *v, struct buf *why);

#endif
