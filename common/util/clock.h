/*
 * The only file that reads a clock. The state machine never includes it:
 * its time comes with the entry.
 */
#ifndef CORVO_CLOCK_H
#define CORVO_CLOCK_H

#include "util/base.h"

uint64_t clock_wall_ns(void); /* UNIX time */
uint64_t clock_mono_ns(void); /* for deadlines and durations */

#endif
