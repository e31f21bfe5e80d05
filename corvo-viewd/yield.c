/*
 * See yield.h.
 */
#include "yield.h"

#include "proto/limits.h"

/* Fewer are written in one go, which costs nobody much. */
#define MANY_EVENTS LIMIT_TAIL_EVENTS

static void look(struct yield *y, uint64_t now_ns, uint64_t missing)
{
	uint64_t ns = now_ns - y->looked_ns;
	double gained;

	if (y->looked_ns != 0 && ns < YIELD_LOOK_NS)
		return;
	gained = (double)y->missing - (double)missing;
	y->soon = y->looked_ns == 0 || gained * (double)YIELD_SOON_NS >=
					   (double)missing * (double)ns;
	y->looked_ns = now_ns;
	y->missing = missing;
}

bool yield_may(struct yield *y, uint64_t now_ns, uint64_t lag_ns,
	       uint64_t missing)
{
	if (lag_ns < YIELD_LATE_NS) {
		*y = (struct yield){ 0 };
		return true;
	}
	if (lag_ns < YIELD_FAR_NS || missing < MANY_EVENTS)
		return false;
	look(y, now_ns, missing);
	return y->soon;
}
