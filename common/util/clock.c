#include "util/clock.h"

#include <time.h>

static uint64_t clock_read(clockid_t id)
{
	struct timespec ts;

	CHECK(clock_gettime(id, &ts) == 0);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

uint64_t clock_wall_ns(void)
{
	return clock_read(CLOCK_REALTIME);
}

uint64_t clock_mono_ns(void)
{
	return clock_read(CLOCK_MONOTONIC);
}
