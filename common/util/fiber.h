/*
 * Work that can stop in the middle: it has a stack of its own, in the thread
 * of whoever lets it go on. Nothing runs at the same time, and to and fro costs
 * about a microsecond.
 */
#ifndef CORVO_FIBER_H
#define CORVO_FIBER_H

#include <stdbool.h>

struct fiber;

typedef void fiber_fn(void *ctx);

/* NULL: there is no memory for its stack. */
struct fiber *fiber_new(void);
/* Not in the middle of work. */
void fiber_free(struct fiber *f);

/* What the next fiber_go begins with. Not in the middle of work. */
void fiber_set(struct fiber *f, fiber_fn *work, void *ctx);

/* Returns where the work stops or ends. True: there is more of it. Guards
 * (util/guard.h) and turns (util/turn.h) of the work are its own. */
bool fiber_go(struct fiber *f);
/* Of the work: stops until the next fiber_go. */
void fiber_stop(struct fiber *f);

#endif
