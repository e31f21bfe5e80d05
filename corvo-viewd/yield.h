/*
 * Whether the view yields to those who write and work.
 *
 * One that keeps step does. One that falls behind does not, or jobs without
 * end would keep it from its work for minutes. One that was away, and has a
 * million jobs to read, is far behind whatever it does: as long as it gets
 * there soon it yields, too.
 *
 * Time comes in from outside.
 */
#ifndef CORVO_YIELD_H
#define CORVO_YIELD_H

#include <stdbool.h>
#include <stdint.h>

#include "util/clock.h"

/* Half of what a view may be behind: there is time left to catch up. */
#define YIELD_LATE_NS (500 * NS_PER_MS)
#define YIELD_FAR_NS  (2 * NS_PER_S)  /* it was away, or lost the race */
#define YIELD_SOON_NS (10 * NS_PER_S) /* at the speed it has, it is there */
#define YIELD_LOOK_NS (1 * NS_PER_S)  /* of which that is the speed */

struct yield {
	uint64_t looked_ns; /* 0: never, while it is as late as this */
	uint64_t missing;   /* then */
	bool soon;
};

/* lag_ns: how far it is behind; missing: events that are known and not
 * written. Cheap to ask often. */
bool yield_may(struct yield *y, uint64_t now_ns, uint64_t lag_ns,
	       uint64_t missing);

#endif
