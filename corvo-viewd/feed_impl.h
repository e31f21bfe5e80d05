/*
 * Shared by the feed*.c files only.
 */
#ifndef CORVO_FEED_IMPL_H
#define CORVO_FEED_IMPL_H

#include "check/rebuild.h"
#include "check/verify.h"
#include "feed.h"
#include "rt/rpc.h"
#include "rt/worker.h"
#include "yield.h"

/* Time to wait before something that failed is tried again. */
struct feed_pause {
	struct loop_timer *timer;
	uint64_t first_ns, max_ns;
	uint64_t ns;        /* of the last pause; 0: the last try worked */
	uint64_t logged_ns; /* clock_mono_ns of the last complaint */
	bool on;
	struct feed *f;
};

/* One answer of raftd on its way into the file. */
struct batch {
	struct feed *f;
	struct buf body;
	struct arena arena;
	struct m_tail_reply reply; /* slices of body and arena */
	bool rows_only;            /* the full text comes later */
	int err;                   /* of mirror_apply */
};

enum build_step {
	BUILD_NONE,
	BUILD_WANTED, /* waits for the writer, the pause, the link */
	BUILD_ASKED,  /* raftd makes a checkpoint */
	BUILD_LOADING,
	BUILD_LOADED,   /* waits for the writer */
	BUILD_SWAPPING, /* waits for the readers */
};

enum verify_step {
	VERIFY_NONE,
	VERIFY_WANTED,   /* waits for the writer */
	VERIFY_ASKED,    /* raftd makes a checkpoint */
	VERIFY_ALIGNING, /* the writer brings the view to the same event */
	VERIFY_COMPARING,
	VERIFY_TEXT_WANTED, /* waits for the writer */
	VERIFY_TEXT,        /* the writer looks at the full text */
};

struct feed_threads {
	struct worker *writer; /* yields to all others */
	struct worker *prompt; /* writes while the view is late */
	struct worker *aside;  /* loads another file, or compares two */
};

#define FEED_REBUILD_WAITERS 64 /* requests that share a rebuild */

struct feed {
	struct daemon *d;
	struct view *view;
	struct service *service;
	struct rpc_client *raftd;
	struct rpc_call *call; /* the one question under way */

	bool was_up;           /* raftd was there once */
	bool checked;          /* raftd may be asked for events */
	uint64_t received_seq; /* last event received */
	uint64_t head_seq;     /* newest event raftd told of */
	struct batch *next;    /* received, waits for the writer */
	struct batch *writing; /* with the writer, or waits to be retried */
	bool writer_runs;
	struct feed_threads threads;
	struct yield yield;

	enum build_step build;
	struct rebuild task;
	int task_err;
	uint64_t rebuilds;
	bool build_is_optional; /* asked for: the view is good without it */
	struct rpc_req rebuild_waiters[FEED_REBUILD_WAITERS];
	size_t rebuild_waiters_n;
	uint64_t build_start_ns; /* clock_mono_ns */
	uint64_t build_start_wall_ns;
	struct m_rebuild_status rebuilt; /* the last one, for raftd */
	char rebuilt_error[LIMIT_REBUILD_ERROR_BYTES];
	uint64_t rebuild_goal; /* event the view had before the swap */

	enum verify_step verify;
	struct verify verify_task;
	struct verify_view
	    verify_view; /* for the writer's thread, while it aligns */
	int verify_err;
	struct rpc_req verify_req;
	bool verify_is_wanted;    /* somebody waits for verify_req */
	uint64_t verify_start_ns; /* clock_mono_ns */

	int text_err; /* of the last portion of full text */

	struct feed_pause ask_pause, write_pause, build_pause;
	struct loop_timer *text_timer; /* when there may be room for it */
	struct loop_timer *status_timer;
	struct loop_timer *place_timer;
	bool status_armed;

	bool stopping;
	loop_fn *stopped;
	void *stopped_ctx;
};

/* Looks at the members and starts what can be started. */
void feed_drive(struct feed *f);

void feed_pause_begin(struct feed_pause *p);
void feed_pause_reset(struct feed_pause *p);
/* True when a failure that may repeat for hours should be told now. */
bool feed_pause_may_log(struct feed_pause *p);

/* Puts the one question; m: its message. */
void feed_ask(struct feed *f, unsigned id, const struct msg_desc *d,
	      const void *m, rpc_reply_fn *fn);
/* Pauses after an answer that was an error or unreadable (-ERR_*). */
void feed_ask_failed(struct feed *f, const char *what, int err);
void feed_status_changed(struct feed *f);
/* Forgets what was received and not written. */
void feed_drop_batches(struct feed *f);

/* usable: what is in the file may be shown until the new one is there. */
void feed_want_rebuild(struct feed *f, bool usable, const char *reason);
/* Something the writer did went wrong: -ERR_*. */
void feed_write_failed(struct feed *f, int err);
/* Lets raftd remove its checkpoint; one that is forgotten it finds itself. */
void feed_release_checkpoint(struct feed *f, const char *path, uint64_t seq);

/* feed_admin.c: the rebuild that was asked for has ended; one that is good
 * (0) is told of when the view is where the old one was. why: of one that
 * failed. */
void feed_answer_rebuild(struct feed *f, int err, const char *why);
/* Starts the next step of a comparison that waits for something. */
void feed_verify_drive(struct feed *f, bool can_ask);
/* Makes one that is under way end soon. */
void feed_verify_stop(struct feed *f);
/* It needs the events to stand still. */
bool feed_verify_holds(const struct feed *f);

/* feed_text.c: whether the batch is written with all its words. */
void feed_text_choose(const struct feed *f, struct batch *b);
/* Writes it, on the writer's thread. 0 or -ERR_*, as mirror_apply. */
int feed_text_apply(const struct batch *b);
/* The writer is idle and there is nothing else for it: words that were left
 * for later, when there is room. */
void feed_text_drive(struct feed *f);
void feed_text_init(struct feed *f);

/* feed_threads.c: the view is behind for longer than it should be. */
bool feed_is_late(struct feed *f);
/* All work of the writer, which is idle: `work` on its thread, then `done` on
 * the loop, which says feed_write_ended first. */
void feed_write(struct feed *f, loop_fn *work, loop_fn *done, void *ctx);
void feed_write_ended(struct feed *f);
void feed_threads_start(struct feed *f);
void feed_threads_end(struct feed *f);

/* feed_build.c: the writer is idle, and a new file is loaded. */
void feed_build_swap(struct feed *f);
/* The first step of a rebuild that is BUILD_WANTED. */
void feed_build_start(struct feed *f);

#endif
