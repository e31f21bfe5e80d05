/*
 * How often the view is told what happened.
 *
 * While there is always something new it is told every so often: what happened
 * to one job meanwhile is one row to write instead of three. While more is
 * asked of the write path than it can do it is told less often, and of more at
 * a time, which costs less. What did not fit into an answer is told at once.
 *
 * Time and the state of the log come in from outside.
 */
#ifndef CORVO_PACE_H
#define CORVO_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define PACE_NS           UINT64_C(25000000)  /* between two answers */
#define PACE_SATURATED_NS UINT64_C(200000000) /* while writers need it all */

struct pace {
	uint64_t answered_ns; /* last answer */
	uint64_t looked_ns;   /* at the log, and its counters then: */
	uint64_t entries;
	uint64_t crowded;
	uint64_t share; /* of entries that were crowded, smoothed, 0..1000 */
	bool saturated;
	bool is_owing; /* the last answer did not hold all there was */
};

/*
 * What the log did until now; `entries` and `crowded` count up, see
 * proposer_stats. Cheap to call often: looks at most every PACE_NS.
 */
void pace_look(struct pace *p, uint64_t now_ns, uint64_t entries,
	       uint64_t crowded, bool processors_busy);

/* Nanoseconds until the next answer may be given; 0: now. */
uint64_t pace_wait(const struct pace *p, uint64_t now_ns);

/* An answer is given now. */
void pace_answer(struct pace *p, uint64_t now_ns);
/* It was given: did it hold all there was then? */
void pace_answered(struct pace *p, bool all);

#endif
