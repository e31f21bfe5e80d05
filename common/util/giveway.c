#include "util/giveway.h"

#include <sched.h>

#include "util/clock.h"

static _Thread_local uint64_t until_ns; /* clock_mono_ns; 0: never */

void give_way_for(uint64_t ns)
{
	until_ns = ns == 0 ? 0 : clock_mono_ns() + ns;
}

bool give_way(void)
{
	if (until_ns == 0 || clock_mono_ns() >= until_ns)
		return false;
	(void)sched_yield(); /* cannot fail here */
	return true;
}
