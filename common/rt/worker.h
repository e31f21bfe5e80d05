/*
 * One background thread for work that must not hold up the loop, with a
 * priority of its own, so that readers never slow down writers. Work runs in
 * the order it was given; that of a low priority may give way (util/giveway.h)
 * while it is long.
 */
#ifndef CORVO_WORKER_H
#define CORVO_WORKER_H

#include "rt/loop.h"

struct worker;

#define WORKER_NAME_BYTES 15

/* name: as ps and top show the thread; nice: as in nice(2), not below that of
 * the process. */
struct worker *worker_new(struct loop *l, const char *name, int nice);
/* Finishes what was given, joins the thread, and runs what is left of `done`,
 * in which nothing more may be given. */
void worker_free(struct worker *w);

/* It is being freed: asked in a `done` that would give more. Loop thread. */
bool worker_is_ending(const struct worker *w);

/* `work` on the thread, then `done` on the loop. */
void worker_run(struct worker *w, loop_fn *work, loop_fn *done, void *ctx);

#endif
