/*
 * What a node has written: term, vote and one snapshot in memory, the log and
 * its mark in files (logdir.h).
 *
 * Writes to the log are made in their order, some time after they were asked
 * for, several at a time; then they are told. A crash keeps some of what was
 * not told yet: which of it, its sectors decide. A disk that is `loose` may
 * have lost the end of what was told as well, as with durable=false.
 */
#ifndef CORVO_SIM_DISK_H
#define CORVO_SIM_DISK_H

#include <raft.h>

#include "logdir.h"
#include "util/buf.h"
#include "util/list.h"

struct disk_snapshot {
	uint64_t index, term; /* index 0: none */
	uint64_t members_index;
	struct buf members; /* as the library encodes them */
	struct buf data;    /* a manifest */
};

struct sim_disk {
	struct sim *sim;
	struct loop *loop;
	uint64_t flush_max_ns;
	uint64_t term, vote;
	bool has_diverged; /* it was written down */
	struct disk_snapshot snapshot;
	struct logdir log;
	struct list ops;    /* struct disk_op, not written yet */
	size_t flushing;    /* the first of them, that are being written */
	uint64_t next;      /* index after what was asked for */
	uint64_t snapshots; /* written so far */
	unsigned puts_fail; /* so many snapshots cannot be written */
	bool is_to_fail;    /* the next write does */
	bool has_failed;    /* nothing more is written until the next start */
	struct sim_event flush;
	loop_fn *fails; /* the machine, while it writes next; NULL: not so */
	void *fails_ctx;
	struct sim_event failure;
};

void disk_init(struct sim_disk *d, struct sim *s, struct loop *l);
void disk_done(struct sim_disk *d);
/* Whether a write of a few bytes fails, this time. */
bool disk_fails(struct sim_disk *d);
/* The process is dead: nobody hears of what is under way. */
void disk_abandon(struct sim_disk *d);
/* A node starts, and goes on with its log. */
void disk_open(struct sim_disk *d);
/* As of a node that never was. */
void disk_wipe(struct sim_disk *d);

/* The first entry of a log: the members. */
void disk_begin(struct sim_disk *d, const struct raft_configuration *c);
void disk_append(struct sim_disk *d, const struct raft_entry *e, unsigned n,
		 struct raft_io_append *req);
void disk_truncate(struct sim_disk *d, uint64_t index);
/* Nobody asks for entries up to there any more; some may stay. */
void disk_cut(struct sim_disk *d, uint64_t upto);
void disk_put_snapshot(struct sim_disk *d, const struct disk_snapshot *s);
/* Only a snapshot, and nothing behind it. */
void disk_install(struct sim_disk *d, const struct disk_snapshot *s);

/* Writes all, as far as it can, and tells it. */
void disk_settle(struct sim_disk *d);
/* The machine is to fail in the middle of the next group: fn, an event of the
 * world, makes it, if it runs still. */
void disk_fail_writing(struct sim_disk *d, loop_fn *fn, void *ctx);
/* It is not, after all. */
void disk_forget_failure(struct sim_disk *d);
/* lost: at most so many entries of those that were told. What is under way is
 * told, too. */
void disk_crash(struct sim_disk *d, uint64_t lost);

/* An entry of that term, or a snapshot behind it, survives a crash. */
bool disk_keeps(const struct sim_disk *d, uint64_t index, uint64_t term);

/* --- members, as the library encodes them --- */

void members_encode(const struct raft_configuration *c, struct buf *ret);
void members_decode(struct str s, struct raft_configuration *ret);

#endif
