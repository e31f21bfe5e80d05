#include "util/clock.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <time.h>

#ifdef CORVO_FAULTS
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#endif

static uint64_t clock_read(clockid_t id)
{
	struct timespec ts;

	CHECK(clock_gettime(id, &ts) == 0);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

#ifdef CORVO_FAULTS

#define FAULT_LOOK_NS (50 * NS_PER_MS)

/* What the file says, read so often. Each thread looks for itself. */
static int64_t fault_ns(void)
{
	static _Thread_local uint64_t looked_ns;
	static _Thread_local int64_t last;
	const char *path = getenv("CORVO_FAULT_CLOCK");
	uint64_t now_ns = clock_mono_ns();
	char text[32];
	ssize_t n;
	int fd;

	if (path == NULL ||
	    (looked_ns != 0 && now_ns - looked_ns < FAULT_LOOK_NS))
		return last;
	looked_ns = now_ns;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return last = 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[MAX(n, 0)] = '\0';
	return last = strtoll(text, NULL, 10) * (int64_t)NS_PER_MS;
}

/* The file may change at any time, and nobody is told. */
static uint64_t fault_wake(uint64_t at_ns)
{
	uint64_t soon = clock_read(CLOCK_REALTIME) + FAULT_LOOK_NS;

	if (at_ns == 0 || getenv("CORVO_FAULT_CLOCK") == NULL)
		return at_ns;
	at_ns = MAX(at_ns - (uint64_t)fault_ns(), (uint64_t)1);
	return MIN(at_ns, soon);
}

#else

static int64_t fault_ns(void)
{
	return 0;
}

static uint64_t fault_wake(uint64_t at_ns)
{
	return at_ns;
}

#endif

uint64_t clock_wall_ns(void)
{
	return clock_read(CLOCK_REALTIME) + (uint64_t)fault_ns();
}

uint64_t clock_mono_ns(void)
{
	return clock_read(CLOCK_MONOTONIC);
}

uint64_t clock_thread_ns(void)
{
	return clock_read(CLOCK_THREAD_CPUTIME_ID);
}

void clock_both_ns(uint64_t *wall, uint64_t *mono)
{
	uint64_t after;

	do {
		*mono = clock_mono_ns();
		*wall = clock_wall_ns();
		after = clock_mono_ns();
	} while (after - *mono > NS_PER_MS);
}

int clock_timer_new(void)
{
	return timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC);
}

void clock_timer_set(int fd, uint64_t at_ns)
{
	uint64_t at = fault_wake(at_ns);
	struct itimerspec spec = {
		.it_value.tv_sec = (time_t)(at / NS_PER_S),
		.it_value.tv_nsec = (long)(at % NS_PER_S),
	};

	/*
	 * ECANCELED: the clock was set and nobody has read it from the
	 * descriptor. The timer is set nevertheless, by the new clock.
	 */
	CHECK(timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET,
			      &spec, NULL) == 0 ||
	      errno == ECANCELED);
}
