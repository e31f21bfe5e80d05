/*
 * Long work on what belongs to the loop. Each piece has a thread of its own,
 * but never runs while the loop does, nor another piece: now and then, where
 * it says that it could stop (util/turn.h), the loop goes on, and in its next
 * turn the next piece. So it may use whatever the loop's thread may, and
 * nobody waits for it longer than a moment.
 */
#ifndef CORVO_TURNS_H
#define CORVO_TURNS_H

#include "rt/loop.h"

struct turns;
struct turn_work;

/* threads: so many pieces of work are under way at a time; others wait in the
 * order they came. */
struct turns *turns_new(struct loop *l, size_t threads);
void turns_free(struct turns *t); /* no work is left */

/* Begins in a later turn of the loop. `done`: it has ended, the last call. */
struct turn_work *turns_add(struct turns *t, loop_fn *work, loop_fn *done,
			    void *ctx);

/*
 * Nobody wants what it comes to any more: it is told so (turn_is_over) and ends
 * as soon as it can, in its turns as before. `done` comes.
 */
void turns_hurry(struct turn_work *w);

/*
 * It is to be over now. One that has begun is told so and runs to its end at
 * once; one that has not does not. No `done` comes.
 */
void turns_drop(struct turns *t, struct turn_work *w);

#endif
