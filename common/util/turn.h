/*
 * Long work that is done in turns with others: it says at every step that it
 * could stop here for a while. A step costs next to nothing, and means nothing
 * in a thread that does not take turns (rt/turns.h).
 */
#ifndef CORVO_TURN_H
#define CORVO_TURN_H

#include <stdbool.h>

typedef void turn_fn(void *ctx);

extern _Thread_local int turn_steps_left; /* before somebody looks */

void turn_look(void);

/* A step, of some hundred nanoseconds at most. Nothing that others use is half
 * done. */
static inline void turn_step(void)
{
	if (--turn_steps_left < 0)
		turn_look();
}

/* One of some thousand times as much. */
static inline void turn_stride(void)
{
	turn_steps_left = 0;
	turn_step();
}

/*
 * Between the two, steps of this thread mean something. What calls turn_open
 * has no buffer in use that others may need.
 */
void turn_open(void);
void turn_close(void);

/* Nobody wants what this work would come to: it ends as soon as it can, with
 * any failure. */
bool turn_is_over(void);

/* For rt/turns.c: this thread takes turns; look is called between two steps,
 * and returns when it has its next turn. over: see turn_is_over. */
void turn_take_by(turn_fn *look, const bool *over, void *ctx);

#endif
