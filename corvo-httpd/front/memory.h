/*
 * The bytes this process keeps for its clients: bodies on their way in, answers
 * on their way out, buffers of streams, and what is made of a request while it
 * is worked on. One budget for all of them: what does not fit is refused before
 * it is read, and those that are slow make room for the others.
 *
 * Every exchange says what it holds; the sum of that is what is used. It is
 * counted where it changes, and nothing is left when all have ended. Loop
 * thread.
 */
#ifndef CORVO_MEMORY_H
#define CORVO_MEMORY_H

#include "util/base.h"

/* Why somebody was refused or cut off. */
enum memory_reason {
	MEMORY_BODY,        /* a body did not fit */
	MEMORY_ANSWER,      /* an answer did not fit */
	MEMORY_SLOW_BODY,   /* it came slowly while others needed room */
	MEMORY_SLOW_READER, /* the same of an answer; or too slow anyway */
	MEMORY_REASONS,
};

struct memory {
	uint64_t limit;
	uint64_t used;
	uint64_t most; /* used since the last memory_trim that did something */
	uint64_t refused[MEMORY_REASONS];
};

const char *memory_reason_name(enum memory_reason r); /* for a label */

/* bytes: of all the processes together. */
void memory_init(struct memory *m, uint64_t bytes, uint64_t processes);
void memory_done(const struct memory *m); /* everything has been given back */

/* *held, of which the sum is used, becomes `now`. */
void memory_hold(struct memory *m, size_t *held, size_t now);

/*
 * Whether so many more bytes fit. Few bytes always do, so that workers go on
 * whatever others do; their number is bounded by that of connections. A part
 * of the budget is a reserve that not everybody may use. If others than who
 * holds `mine` use hardly anything, everything fits: the largest request has to
 * be possible.
 */
bool memory_fits(const struct memory *m, uint64_t mine, uint64_t more,
		 bool may_use_reserve);
/*
 * Now and then: after much was used, what the allocator has kept of it goes
 * back to the system. Large buffers go back by themselves; of many of middle
 * size a few small ones behind them would hold all.
 */
void memory_trim(struct memory *m);
bool memory_is_short(const struct memory *m); /* only the reserve is left */

#endif
