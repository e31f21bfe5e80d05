/*
 * Long work on what belongs to the loop. Each piece has a stack of its own in
 * the loop's thread: now and then, where it says that it could stop
 * (util/turn.h), the loop goes on, and in its next turn the next piece. So it
 * may use whatever the loop may, and nobody waits for it longer than a moment.
 */
#ifndef CORVO_TURNS_H
#define CORVO_TURNS_H

#include "rt/loop.h"

struct turns;
struct turn_work;

/* So many pieces of work are under way at a time; others wait in the order they
 * came. */
struct turns *turns_new(struct loop *l, size_t at_a_time);
void turns_free(struct turns *t); /* no work is left */

struct turn_ops {
	loop_fn *work;
	loop_fn *done;       /* it has ended, the last call */
	loop_fn *time_is_up; /* see turns_time_is_up; it may drop this work, and
			      * no other */
};

/* Begins in a later turn of the loop. */
struct turn_work *turns_add(struct turns *t, const struct turn_ops *ops,
			    void *ctx);

/*
 * Nobody wants what it comes to any more: it is told so (turn_is_over) and ends
 * as soon as it can, in its turns as before. `done` comes.
 */
void turns_hurry(struct turn_work *w);

/* The process is about to end: each piece of work that is not done hears of it,
 * between two of its turns. */
void turns_time_is_up(struct turns *t);

/*
 * It is to be over now. One that has begun is told so and runs to its end at
 * once; one that has not does not. No `done` comes.
 */
void turns_drop(struct turns *t, struct turn_work *w);

#endif
