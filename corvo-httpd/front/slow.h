/*
 * How fast bodies come and answers are taken, and who is cut off for that: who
 * takes hardly anything of an answer for as long as answer_timeout, and, while
 * memory is short, the slowest of all who hold some.
 */
#ifndef CORVO_SLOW_H
#define CORVO_SLOW_H

#include "util/base.h"

struct conns;
struct exchange;

/* Zeroed: nothing is known yet. */
struct pace {
	uint64_t since_ns, since_n; /* of the moment that is measured */
	uint64_t window_ns, window_n;
	uint64_t rate; /* bytes per second, of the last moment */
	bool known;
};

/* A look at it, now and then. */
void slow_look(const struct conns *cs, struct exchange *x, uint64_t now_ns);

/* Cuts off one that takes nothing of its answer, and counts it. */
void slow_cut_reader(struct exchange *x);

/*
 * Cuts off the slowest until they gave back so many bytes, or no slow one is
 * left. `but` is left alone. Not more often than makes sense: it looks at every
 * exchange.
 */
void slow_cut(struct conns *cs, const struct exchange *but, uint64_t bytes);

#endif
