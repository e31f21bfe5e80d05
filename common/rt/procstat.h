/*
 * What /proc says about a process. Answers 0 or false for one that is gone.
 */
#ifndef CORVO_PROCSTAT_H
#define CORVO_PROCSTAT_H

#include <sys/types.h>

#include "proto/metric_list.h"

/* Proportional share of memory, so that processes add up; else resident. */
uint64_t procstat_memory_bytes(pid_t pid);
double procstat_cpu_s(pid_t pid);
bool procstat_is_traced(pid_t pid); /* a debugger is attached */
/* Of its first thread, since its start. */
struct procstat_turns {
	char state;       /* R wants to run, D waits for the disk, S sleeps */
	uint64_t ran_ns;  /* on a processor */
	uint64_t kept_ns; /* wanted to run, until it did; not the wait of now */
};

void procstat_turns(pid_t pid, struct procstat_turns *ret);
/* R or D if a thread beside the first is so, else S. */
char procstat_other_thread(pid_t pid);
bool procstat_is_running(pid_t pid); /* not gone, nor dead and not reaped */

struct procstat {
	uint64_t resident_bytes;
	uint64_t anonymous_bytes; /* of these, not of files */
	uint64_t stack_bytes;
	uint64_t threads;
	uint64_t fds;
	double user_s, system_s;
	double uptime_s;
};

bool procstat_read(pid_t pid, struct procstat *ret);

/*
 * The metrics that every process has, labelled with its name. They are there
 * in any case: 0 of a process that is gone, NaN when its pid is not known (0).
 */
void procstat_metrics(struct metric_list *l, const char *name, pid_t pid);

#endif
