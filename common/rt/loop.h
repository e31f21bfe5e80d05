/*
 * Event loop of one thread: descriptors, timers, and a hook that runs at the
 * end of every turn. The only wrapper of libuv outside corvo-raftd's raft
 * seam, which shares the same uv loop through loop_uv().
 */
#ifndef CORVO_LOOP_H
#define CORVO_LOOP_H

#include "util/base.h"
#include "util/hist.h"

struct loop;
struct loop_fd;
struct loop_timer;

#define LOOP_READ  1
#define LOOP_WRITE 2

typedef void loop_fd_fn(void *ctx, int fd, int events);
typedef void loop_fn(void *ctx);

struct loop *loop_new(void);
/* Removes what is left; waits for work under way and runs its `done`. */
void loop_free(struct loop *l);
void loop_run(struct loop *l); /* until loop_stop */
void loop_stop(struct loop *l);

struct loop_fd *loop_fd_add(struct loop *l, int fd, int events, loop_fd_fn *fn,
			    void *ctx);
/* What it is watched for from now on; 0: nothing. */
void loop_fd_watch(struct loop_fd *f, int events);
void loop_fd_remove(struct loop_fd *f); /* does not close the descriptor */
/*
 * From inside of its fn: of several processes that watch this socket to read,
 * only one is woken from now on. It is watched so until it is removed.
 */
void loop_fd_alone(const struct loop_fd *f);

/*
 * A timer is made once and armed often. after_ns 0: in the next turn;
 * otherwise it fires up to 2 ms late, never early.
 */
struct loop_timer *loop_timer_add(struct loop *l, loop_fn *fn, void *ctx);
void loop_timer_arm(struct loop_timer *t, uint64_t after_ns);
void loop_timer_disarm(struct loop_timer *t);
void loop_timer_remove(struct loop_timer *t);

/*
 * fn runs after the callbacks of each turn, before the loop sleeps, at times
 * twice. One per loop: the place where what gathered in the turn is sent.
 */
void loop_on_turn_end(struct loop *l, loop_fn *fn, void *ctx);

/* How long turns took, to the millisecond: from the end of a sleep to the begin
 * of the next one; by hist_short. */
void loop_turns(const struct loop *l, struct hist *ret);
/* How much of the processor turns used in this thread; by hist_short. */
void loop_turns_work(const struct loop *l, struct hist *ret);
/* The number of the turn: from one sleep to the next it is the same. */
uint64_t loop_turn(const struct loop *l);

/* Runs work on a pool thread, then done on the loop thread. */
void loop_work(struct loop *l, loop_fn *work, loop_fn *done, void *ctx);

struct uv_loop_s *loop_uv(struct loop *l);

#endif
