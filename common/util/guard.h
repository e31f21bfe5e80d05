/*
 * Work that is given up where a REQUIRE fails in it, and nothing else with it.
 *
 * Nothing above on the stack gets its turn: buffers of those functions are
 * lost, and what they were changing stays as it was left. So a guard stands
 * around work whose traces belong to one owner, who ends with it, and REQUIRE
 * stands where nothing of others is half changed.
 */
#ifndef CORVO_GUARD_H
#define CORVO_GUARD_H

#include "util/base.h"

/* Where, and what was to be true. */
struct guard_fault {
	const char *file, *what;
	int line;
};

/* Of the calling thread; one inside of another ends at the inner one. False:
 * it was given up. */
bool guard_call(void (*fn)(void *ctx), void *ctx, struct guard_fault *ret);

/* For who goes on on another stack (util/fiber.c): the innermost guard of this
 * thread is put there, and what was there takes its place. */
struct guard;
void guard_swap(struct guard **g);

#endif
