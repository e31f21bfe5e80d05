/*
 * A store with a life of its own, for tests of the view: the real state
 * machine on RocksDB in a temporary directory, driven by random operations.
 * Time is the world's; nothing waits.
 */
#ifndef CORVO_VIEW_WORLD_H
#define CORVO_VIEW_WORLD_H

#include "fsm/fsm.h"
#include "store/kv.h"
#include "util/id.h"
#include "util/rng.h"

#define WORLD_QUEUES  4
#define WORLD_BATCHES 4

struct view;

struct world_held {
	char id[ID_LEN_MAX];
	uint64_t token;
};

struct world {
	char dir[64];
	struct kv *kv;
	struct fsm *fsm;
	struct rng *rng;
	struct id_gen ids;
	uint64_t now_ns;
	uint64_t index;
	uint64_t fetches;
	char (*jobs)[ID_LEN_MAX]; /* every id ever made */
	size_t jobs_n, jobs_cap;
	char batches[WORLD_BATCHES][ID_LEN_MAX]; /* the latest, by turns */
	size_t batches_n;                        /* ever made */
	struct world_held *held; /* fetched and perhaps still active */
	size_t held_n, held_cap;
	bool loops; /* job_loop is there */
	struct buf entry, body;
};

void world_init(struct world *w, struct rng *r);
void world_done(struct world *w); /* removes the directory too */

/* The empty view of a world. */
void world_open_view(struct world *w, struct view *v);
void world_close_view(struct view *v);

/* One random operation; the clock moves by up to a second. */
void world_step(struct world *w);

/* Job job_loop of queue loop, an agent's, goes around so many times more. */
void world_loop(struct world *w, unsigned turns);

/* Whatever comes of it; for files that add to the life. */
void world_apply(struct world *w, enum op_id op, const struct msg_desc *d,
		 const void *m);
/* Something happens to a webhook. (view_world_hook.c) */
void world_webhook(struct world *w);
/* Or to a job of Scheduled-DB. (view_world_scheddb.c) */
void world_scheddb(struct world *w);

/* A path in the world's directory; valid until the next call. */
const char *world_path(struct world *w, const char *name);

#endif
