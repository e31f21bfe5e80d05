/*
 * StreamLifecycle: one stream per worker or producer. Each frame may say what
 * was done, add jobs and ask for some; it has one answer. Answers come in the
 * order of the frames, but for those that wait for jobs: they come when there
 * are some.
 *
 * Files: lifecycle.c is the stream, life_frame.c one frame of it (with the
 * files of life_parts.h), pushed.c tells of jobs that were cancelled.
 */
#ifndef CORVO_LIFECYCLE_H
#define CORVO_LIFECYCLE_H

#include "rpc/flow.h"
#include "util/hmap.h"

/* Frames of one stream under way at a time, those that wait among them; bytes
 * of them after which no more are read, and no more jobs taken. */
#define LIFECYCLE_FRAMES     256
#define LIFECYCLE_KEPT_BYTES (1u << 20)
#define LIFECYCLE_JOBS_BYTES (16u << 20)
/* Jobs of one stream whose cancels are told; the oldest are forgotten. */
#define LIFECYCLE_PUSHED 4096

struct gather;
struct pushed;

/* What frames of a turn ask for together, in the order it is sent. */
enum gather_of { GATHER_ACKS, GATHER_JOBS, GATHER_KINDS };

/* All streams of a process; in struct httpd. */
struct lifecycles {
	struct httpd *h;
	struct list held;  /* streams that wait for others' frames to end */
	struct list looks; /* streams that may have answers to send */
	struct gather *gathers[GATHER_KINDS]; /* of this turn; or NULL */
	struct pushed *pushed;
};

/* A job on its way to the client. */
struct life_job {
	struct m_fail back; /* what gives it back */
	uint64_t place;     /* behind it, see front/front.h; 0: not taken yet */
};

struct lifecycle {
	struct lifecycles *all;
	struct httpd *h;
	struct req *r;
	struct flow *flow;
	struct list held;    /* node in lifecycles.held */
	struct list look;    /* node in lifecycles.looks */
	struct list frames;  /* in the order they came, but for */
	struct list waiting; /* those that wait for jobs, and */
	struct list ready;   /* those that did, and are done */
	size_t frames_n;     /* of all three */
	size_t kept;         /* bytes of them */
	size_t asking;       /* bytes of what they ask raftd for */
	struct loop_timer *timer;
	uint64_t next_ns; /* a frame is not read before */
	unsigned strikes; /* frames with errors in a row */
	unsigned gathers; /* in which of lifecycles.gathers it has something */
	bool is_counted;  /* among those that are open */
	bool redirects;   /* it wants to be told who leads */
	bool pushes;      /* cancels are told */
	bool has_ended;   /* the client sends no more */
	bool is_stopping; /* and nobody wants more of it */
	struct list jobs; /* of pushed.c */
	size_t jobs_n;
	struct life_job *unsent; /* that the kernel may not have yet */
	size_t unsent_n, unsent_cap;
};

struct lifecycles *lifecycles_new(struct httpd *h);
void lifecycles_free(struct lifecycles *all); /* no stream is left */
/* End of a turn: what gathered in it goes to raftd and to clients. */
void lifecycles_turn(struct lifecycles *all);

/* The handler of the method. */
void serve_lifecycle(struct req *r);

/* --- life_frame.c --- */

struct life_frame;

/* Reads it and starts what it asks for; lifecycle_done comes, also at once. */
void life_frame_begin(struct lifecycle *l, struct str bytes);
/* It waits for jobs no longer; if that was all, it is done. */
void life_frame_hurry(struct life_frame *f);
/* Nobody waits for it any more: what it asked for is withdrawn. */
void life_frame_abandon(struct life_frame *f);
struct life_frame *life_frame_of(struct list *node);
bool life_frame_is_done(const struct life_frame *f);
/* Its answer goes out; and it is freed. */
void life_frame_send(struct life_frame *f);
void life_frame_free(struct life_frame *f);

/* --- lifecycle.c, for life_frame.c --- */

void lifecycle_add(struct lifecycle *l, struct list *frame);
/* It waits for jobs: its answer need not come in order. */
void lifecycle_wait(struct lifecycle *l, struct list *frame);
/* Its answer is there; it is sent at the end of the turn, if there is room. */
void lifecycle_done(struct lifecycle *l, struct list *frame, bool waited);
/* What it has in memory has changed. */
void lifecycle_count(struct lifecycle *l);
/* A frame went wrong, or did not; overloads are nobody's fault. */
void lifecycle_judge(struct lifecycle *l, bool is_wrong);
/* A job is on its way to the client. */
void lifecycle_note_job(struct lifecycle *l, const struct m_fetched *job);
/* One frame less is at work. */
void lifecycles_release(struct lifecycles *all);

/* --- life_gather.c, for lifecycle.c --- */

void life_gather_send(struct lifecycles *all); /* if there is something */

/* --- pushed.c --- */

struct pushed *pushed_new(struct httpd *h);
void pushed_free(struct pushed *p);
/*
 * The stream is given a job by the fetch with that event; the worker behind it
 * has it; and has it no longer.
 */
void pushed_add(struct lifecycle *l, struct str job_id, uint64_t seq);
void pushed_sent(struct lifecycle *l, struct str job_id);
void pushed_remove(struct lifecycle *l, struct str job_id);
void pushed_remove_all(struct lifecycle *l);

#endif
