/*
 * What /proc says about a process. Answers 0 or false for one that is gone.
 */
#ifndef CORVO_PROCSTAT_H
#define CORVO_PROCSTAT_H

#include <sys/types.h>

#include "util/base.h"

/* Proportional share of memory, so that processes add up; else resident. */
uint64_t procstat_memory_bytes(pid_t pid);
double procstat_cpu_s(pid_t pid);
bool procstat_is_traced(pid_t pid); /* a debugger is attached */

#endif
