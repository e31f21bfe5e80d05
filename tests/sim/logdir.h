/*
 * The log of a simulated node as it is on a disk: segments that the log's own
 * writer writes (cluster/seglog/writer.c), and its own scan reads. Beside them
 * a list of what was told to be written, record by record.
 *
 * A flush is one when the world says so. A crash loses sectors of what was not
 * flushed by then: none, all, those behind one of them, or any. What the scan
 * finds after it is held against the list, which knows from the bytes that were
 * changed what can still be read.
 */
#ifndef CORVO_SIM_LOGDIR_H
#define CORVO_SIM_LOGDIR_H

#include "cluster/seglog/scan.h"
#include "sim.h"

#define LOGDIR_PATH 96

struct seglog;

struct logdir_rec {
	uint64_t number; /* of its segment */
	size_t at, size;
	size_t flushed; /* what it says of those before it: see record.h */
	unsigned epoch; /* of the group that is written: see logdir_tear */
	bool is_broken;
	unsigned kind; /* of record.h */
	uint64_t index, term;
	struct str data; /* owned */
};

struct logdir {
	struct sim *sim;
	unsigned node;
	char dir[LOGDIR_PATH], segments[LOGDIR_PATH];
	bool is_loose; /* nothing is flushed; from the next logdir_open on */
	struct seglog *log;      /* NULL: it is closed */
	struct seglog_scan scan; /* what it went on with */
	bool has_rest;           /* there may be records behind the end of it */
	/* of the segments there are, in the order they were written in */
	struct logdir_rec **recs;
	size_t n, room;
	/* those of them that are the entries */
	struct logdir_rec **live;
	size_t live_n, live_room;
	/* of the group that is to be torn */
	size_t group; /* its first record */
	unsigned epoch;
	struct logdir_write *writes;
	size_t writes_n, writes_room;
};

void logdir_init(struct logdir *f, struct sim *s, unsigned node);
void logdir_done(struct logdir *f);
/* No log, as of a node that never was. It is closed. */
void logdir_wipe(struct logdir *f);
/* Goes on with what the scan finds. Nothing, when it is open. */
void logdir_open(struct logdir *f);
/* What was put and not flushed is there; closed already: nothing. */
void logdir_close(struct logdir *f);

/* Into the group. Its data is taken over. */
void logdir_put(struct logdir *f, const struct segment_entry *e);
void logdir_truncate(struct logdir *f, uint64_t index);
/* Ends the group: it is flushed. */
void logdir_flush(struct logdir *f);
/* Segments that have only such entries are put away. */
void logdir_cut(struct logdir *f, uint64_t upto);

/* The entry, as it was told to be written; NULL: there is none. */
const struct logdir_rec *logdir_at(const struct logdir *f, uint64_t index);

/* --- a crash: logdir_tear.c --- */

/* The group that is put from now on will not be finished. */
void logdir_begin_tear(struct logdir *f);
/* It is flushed when the machine fails; what is left of it is the log, which is
 * closed. */
void logdir_tear(struct logdir *f);
/* Of a log that is closed, and of which nothing was flushed: that entry is
 * lost, and what was written after it. */
void logdir_lose(struct logdir *f, uint64_t index);

/* --- what is read: logdir_look.c --- */

/* Reads what is there and compares; now and then with one bit changed, which
 * is put back. It is closed. */
void logdir_look(const struct logdir *f);
/* Each entry that was there when it was opened, as it is read. */
void logdir_each(const struct logdir *f, segment_fn *fn, void *ctx);

/* --- between the files of it --- */

void logdir_path(const struct logdir *f, uint64_t number, struct buf *ret);
/* The entries that the first `upto` records come to, into ret, which has room
 * for as many as there are records. Returns how many. */
size_t logdir_replay(const struct logdir *f, size_t upto,
		     struct logdir_rec **ret);
/* Those from that one on are not there any more. */
void logdir_forget_from(struct logdir *f, size_t rec);

#endif
