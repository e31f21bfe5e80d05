/*
 * The only file that reads a clock. The state machine never includes it:
 * its time comes with the entry.
 *
 * In builds with CORVO_FAULTS, for tests: while the file named by
 * CORVO_FAULT_CLOCK holds a number, the wall clock is so many milliseconds
 * ahead, or behind when it is negative.
 */
#ifndef CORVO_CLOCK_H
#define CORVO_CLOCK_H

#include "util/base.h"

uint64_t clock_wall_ns(void);   /* UNIX time */
uint64_t clock_mono_ns(void);   /* for deadlines and durations */
uint64_t clock_thread_ns(void); /* how long this thread had a processor */
/* Both at the same moment, to a millisecond. */
void clock_both_ns(uint64_t *wall, uint64_t *mono);

/* A timer on the wall clock: a descriptor for read(2), or -1 with errno. */
int clock_timer_new(void);
/*
 * Wakes at that moment, and when the clock is set, in either direction: read(2)
 * fails with ECANCELED then. It may also wake too early. 0 clears it.
 */
void clock_timer_set(int fd, uint64_t at_ns);

#endif
